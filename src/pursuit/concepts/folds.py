"""Answers for training images by networks that did not see them, fold by fold; each finished fold can be kept."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pursuit.concepts.calibration import Calibration, fit_calibration
from pursuit.concepts.learning import ConceptReport, fresh, train_concepts
from pursuit.concepts.network import ConceptNetwork, raw_logits
from pursuit.files import DamagedFile, check_file, make_folder, parse_json, write_whole


class Fold(NamedTuple):
    """What a network says of the images it was not trained on, before calibration."""

    rows: np.ndarray  # (n,) which of the training images were held out from it
    logits: np.ndarray  # (n, Q) of those
    further: np.ndarray  # (M, Q) of further images


class CrossFitted(NamedTuple):
    """Answers for images by networks that never saw them."""

    logits: Tensor  # (N, Q), before calibration
    calibration: Calibration  # fitted on all of them
    further: Tensor  # (M, Q) of further images, by all networks together

    @property
    def probabilities(self) -> np.ndarray:
        return self.calibration(self.logits).sigmoid().numpy()

    @property
    def further_probabilities(self) -> np.ndarray:
        return self.calibration(self.further).sigmoid().numpy()


def cross_answers(
    build: Callable[[], ConceptNetwork],
    images: Tensor,
    targets: Tensor,
    labels: np.ndarray,
    further: Tensor | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
    **training: Any,
) -> CrossFitted:
    """Train a fresh network for each of `folds` parts of the images, on the others, and let it answer for that part.

    Every part has its share of each of the `labels` (N,). `further` images, such as those of the test, are answered by
    the mean of all networks. `training` goes to `train_concepts`.
    """
    options: dict[str, Any] = {"folds": folds, "seed": seed, "on_report": on_report, **training}
    made = [cross_fold(build, images, targets, labels, further, fold=i + 1, **options)[0] for i in range(folds)]
    return gather(made, targets)


def cross_fold(
    build: Callable[[], ConceptNetwork],
    images: Tensor,
    targets: Tensor,
    labels: np.ndarray,
    further: Tensor | None = None,
    *,
    fold: int,
    folds: int,
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
    **training: Any,
) -> tuple[Fold, ConceptNetwork]:
    """One fold of `cross_answers`, from 1, and its network: folds share nothing, and may be made in any order."""
    if not 1 <= fold <= folds:
        raise ValueError(f"There are {folds} folds, 1 to {folds}: {fold} is not one of them.")
    from sklearn.model_selection import StratifiedKFold  # takes a second to import

    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels)
    others, part = list(parts)[fold - 1]

    def report(own: ConceptReport) -> None:
        if on_report is not None:
            on_report(replace(own, network=fold, n_networks=folds))

    network, rows = fresh(build, seed + fold - 1), torch.from_numpy(others)
    train_concepts(network, images[rows], targets[rows], seed=seed + fold - 1, on_report=report, **training)
    logits = raw_logits(network, images[torch.from_numpy(part)], mirrored=True)
    of_further = torch.empty(0, targets.shape[1]) if further is None else raw_logits(network, further, mirrored=True)
    return Fold(part, logits.numpy(), of_further.numpy()), network


def gather(folds: Sequence[Fold], targets: Tensor) -> CrossFitted:
    """The answers of all folds of training images with these `targets` (N, Q), and their calibration."""
    rows = np.concatenate([fold.rows for fold in folds])
    if not np.array_equal(np.sort(rows), np.arange(len(targets))):
        raise ValueError(
            f"These folds answer {len(np.unique(rows))} of {len(targets)} training images, and each must be answered "
            "once: make all folds with the same number of folds and the same seed."
        )
    logits = torch.empty(targets.shape)
    logits[torch.from_numpy(rows)] = torch.from_numpy(np.concatenate([fold.logits for fold in folds])).float()
    further = torch.from_numpy(np.mean([fold.further for fold in folds], axis=0, dtype=np.float32))
    return CrossFitted(logits, fit_calibration(logits, targets), further)


def write_fold(path: Path, fold: Fold, made: dict[str, Any]) -> None:
    """Keep a fold and how it was made."""
    # Half precision keeps three digits of a logit, more than it is worth.
    logits = {"logits": fold.logits.astype(np.float16), "further": fold.further.astype(np.float16)}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, rows=fold.rows, **logits, made=np.array(json.dumps(made)))
    make_folder(path.parent)
    write_whole(path, file.getvalue())


def read_fold(path: Path, made: dict[str, Any]) -> Fold:
    """A fold that was kept; an error if it was made in another way."""
    check_file(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            fold, found = Fold(file["rows"], file["logits"], file["further"]), parse_json(str(file["made"]))
    except Exception as error:  # a damaged archive can raise anything
        raise DamagedFile(f"{path} is damaged: {error}. Remove it, and it is made again.") from None
    other = [name for name in {**made, **found} if made.get(name) != found.get(name)]
    if other:
        raise ValueError(
            f"{path} was made with another {' and '.join(other)}. Give the same options again, or remove it, or choose "
            "another folder."
        )
    return fold
