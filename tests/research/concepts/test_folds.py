"""Answers by networks that did not see the images, and the files of their folds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coloured import build, make_coloured
from pursuit.files import DamagedFile
from pursuit.research.concepts import (
    ConceptEnsemble,
    ConceptNetwork,
    ConceptReport,
    Fold,
    attribute_accuracy,
    cross_answers,
    cross_fold,
    gather,
    read_fold,
    write_fold,
)

SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 16, "lr": 0.03}


class ByHeart(ConceptNetwork):
    """Answers yes for the images it was trained on and no for all others."""

    def __init__(self) -> None:
        super().__init__(torch.nn.AdaptiveAvgPool2d(1), 3, 3)
        self.seen: set[bytes] = set()

    def raw_logits(self, images: torch.Tensor) -> torch.Tensor:
        if not self.training:
            known = [
                {image.numpy().tobytes(), image.flip(2).numpy().tobytes()} & self.seen != set() for image in images
            ]
            return torch.tensor(known).float()[:, None].expand(-1, 3)
        return super().raw_logits(images)


def test_every_image_is_answered_by_a_network_that_never_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = make_coloured(80)
    trained: list[tuple[int, np.ndarray]] = []

    def remember(network: ByHeart, images: torch.Tensor, targets: torch.Tensor, **_: Any) -> None:
        network.seen |= {image.numpy().tobytes() for image in images}
        trained.append((len(images), targets.mean(dim=0).numpy()))

    monkeypatch.setattr("pursuit.research.concepts.train_concepts", remember)
    crossed = cross_answers(ByHeart, shown.images, shown.targets, shown.labels, folds=5)
    assert not crossed.logits.any()
    assert [n for n, _ in trained] == [64] * 5
    assert all(np.allclose(share, 0.5, atol=0.1) for _, share in trained)  # each part has its share of every label


def test_cross_fitted_answers_are_honest_where_labels_are_noise() -> None:
    shown = make_coloured(160, wrong=0.25)
    reports: list[ConceptReport] = []
    crossed = cross_answers(
        build,
        shown.images,
        shown.targets,
        shown.labels,
        folds=2,
        epochs=8,
        batch_size=16,
        lr=0.03,
        on_report=reports.append,
    )
    scores = attribute_accuracy(crossed.probabilities, shown.targets.numpy())
    assert 0.65 < scores.accuracy < 0.85  # a quarter of the targets cannot be known
    assert 0.6 < np.abs(crossed.probabilities - 0.5).mean() + 0.5 < 0.85
    assert crossed.logits.shape == (160, 3)
    assert [report.network for report in reports] == [i for i in (1, 2) for _ in range(8)]
    assert {report.n_networks for report in reports} == {2}


def test_further_images_are_answered_by_all_networks_and_their_mirror_images() -> None:
    shown, others = make_coloured(32), make_coloured(9, seed=1)
    crossed = cross_answers(build, shown.images, shown.targets, shown.labels, others.images, folds=2, **SETTINGS)
    networks = [
        cross_fold(build, shown.images, shown.targets, shown.labels, fold=fold, folds=2, **SETTINGS)[1]
        for fold in (2, 1)  # in any order
    ]
    for network in networks:
        network.calibration = crossed.calibration
    together = ConceptEnsemble(networks).eval()
    with torch.no_grad():
        seen = together(others.images)
        assert torch.allclose(seen.sigmoid(), torch.from_numpy(crossed.further_probabilities), atol=1e-5)
        assert torch.allclose(seen, together(others.images.flip(3)), atol=1e-5)
        assert not torch.allclose(seen, networks[0](others.images), atol=1e-3)


def test_folds_that_do_not_fit_together_are_refused() -> None:
    targets = torch.zeros(6, 2)
    first, second = (Fold(np.array(rows), np.zeros((3, 2)), np.zeros((0, 2))) for rows in ([0, 2, 4], [1, 3, 5]))
    assert gather([second, first], targets).logits.shape == (6, 2)
    with pytest.raises(ValueError, match="answer 3 of 6 training images"):
        gather([first], targets)
    with pytest.raises(ValueError, match="each must be answered once"):
        gather([first, second, second], targets)
    shown = make_coloured(16)
    with pytest.raises(ValueError, match="3 is not one of them"):
        cross_fold(build, shown.images, shown.targets, shown.labels, fold=3, folds=2)


def test_a_kept_fold_is_read_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fold = Fold(np.array([3, 1]), rng.normal(size=(2, 4)), rng.normal(size=(5, 4)))
    path = tmp_path / "new" / "1-of-2.npz"
    write_fold(path, fold, {"epochs": 3, "seed": 0})
    again = read_fold(path, {"epochs": 3, "seed": 0})
    assert again.rows.tolist() == [3, 1]
    assert np.allclose(again.logits, fold.logits, rtol=1e-3)
    assert np.allclose(again.further, fold.further, rtol=1e-3)
    with pytest.raises(ValueError, match="made with another epochs and lr"):
        read_fold(path, {"epochs": 4, "lr": 0.1, "seed": 0})
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedFile, match="Remove it, and it is made again"):
        read_fold(path, {"epochs": 3, "seed": 0})
