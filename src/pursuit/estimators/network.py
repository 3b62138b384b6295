"""Estimators whose pursuer is made of networks and trained by the one loop: V-IP, and what its rivals share with it."""

import json
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from pursuit import saving
from pursuit.checkpoints import write_whole
from pursuit.devices import n_processes
from pursuit.estimators.classifier import Fit, PursuitClassifier
from pursuit.histories import CarriedHistories
from pursuit.learner import Learner
from pursuit.networks import NetworkSettings
from pursuit.processes import is_first
from pursuit.queries import QuerySet
from pursuit.rows import RowSource, StreamedRows, rows_in_memory
from pursuit.stages import Stage
from pursuit.stopping import StoppingRule
from pursuit.training import HELD_OUT_MOST, EarlyStopping, check_plan, train
from pursuit.vip import VIP

DEFAULT_STEPS = 1000
DEFAULT_PASSES = 20
STANDARD_ROWS = 20_000
"""How many of the rows that are not in memory show what answers are usual."""
CHAIN_QUERIES = 20
"""How far chains are carried in training by default; random histories cover what lies beyond."""


class CannotResume(ValueError):
    """A folder holds a run of other settings or data, or what it holds is damaged."""


class NetworkClassifier(PursuitClassifier):
    """An estimator around a learner; a subclass says in `_build` which, and may change the plan.

    Parameters
    ----------
    query_set, stop, max_queries, random_state, device
        As for every estimator (`PursuitClassifier`).
    network : NetworkSettings, optional
        `MLP`, `Conv` or `SetNetwork` with its sizes. By default one that suits the query set.
    shared : bool
        Whether querier and classifier share a trunk.
    standardise : bool
        Whether networks see answers relative to what is usual, which helps where nearly all answers are no, as with
        words. For columns, words and concepts only.
    stages : list of Stage, optional
        The training plan. By default one stage of carried histories, long enough for the number of rows.
    """

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        network: NetworkSettings | None = None,
        shared: bool = False,
        standardise: bool = False,
        stages: list[Stage] | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ):
        super().__init__(query_set, stop=stop, max_queries=max_queries, random_state=random_state, device=device)
        self.network = network
        self.shared = shared
        self.standardise = standardise
        self.stages = stages

    @abstractmethod
    def _build(self, query_set: QuerySet, rows: RowSource, prior: torch.Tensor) -> Learner:
        """A fresh learner for these rows."""

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        """What this learner makes of the training plan of V-IP: as many histories, of the kinds it learns from."""
        return stages

    def _finish(self, model: Any, rows: RowSource) -> Any:
        """The pursuer, once the learner is trained."""
        return model

    def _learn(self, query_set: QuerySet, rows: RowSource, fit: Fit) -> Any:
        kept, early_stopping = self._split(rows, fit.seed)
        stages = self.stages if self.stages is not None else default_stages(len(kept), len(query_set), self.max_queries)
        stages = self._plan(stages)
        prior = kept.prior(len(self.classes_))
        model = self._build(query_set, kept, prior)
        check_plan(stages, self.device, fit.log, n_processes(self._n_devices))
        self._warn_if_nothing_will_be_asked(prior)
        if fit.folder is not None and is_first():
            told = {"model": repr(model), "stages": repr(stages), "seed": fit.seed, "rows": kept.fingerprint()}
            _claim(fit.folder, told, fit.resume)
        train(
            model,
            kept,
            stages,
            seed=fit.seed,
            device=self.device,
            devices=self._n_devices,
            early_stopping=early_stopping,
            folder=fit.folder,
            resume=fit.resume,
            log=fit.log,
            on_report=fit.on_report,
        )
        return self._finish(model, kept)

    def _standardised(self, model: Any, rows: RowSource) -> Any:
        """The model with what is usual measured on the rows, if it is to see answers relative to that."""
        if self.standardise:
            sample = rows_in_memory(rows, STANDARD_ROWS)
            model.standardise(sample.x, sample.available)
        return model

    @property
    def _n_devices(self) -> int:
        return 1

    def _split(self, rows: RowSource, seed: int) -> tuple[RowSource, EarlyStopping | None]:
        """The rows to train on, and those held out to see when to stop."""
        return rows, None

    @classmethod
    def _settings_of(cls, model: Any) -> dict[str, Any]:
        network, shared = model.settings or (None, False)
        return {"network": network, "shared": shared, "standardise": model.standardised}


class VIPClassifier(NetworkClassifier):
    """Variational Information Pursuit: a querier and a classifier network, trained end to end.

    Parameters
    ----------
    query_set, stop, max_queries, random_state, device
        As for every estimator (`PursuitClassifier`): what may be asked, when to stop, the seed, and where to train.
    network, shared, standardise, stages
        As for every one that has networks (`NetworkClassifier`): their kind, what they see, and the training plan.
    held_out : float
        Share of the rows to hold out for early stopping. By default none: training goes on to the end of its plan.
    devices : int
        How many devices of that kind, or processes on a CPU, train together; each but the first runs the program again
        up to `fit`. A program started by torchrun has as many as torchrun started.
    """

    kind = VIP

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        network: NetworkSettings | None = None,
        shared: bool = False,
        standardise: bool = False,
        stages: list[Stage] | None = None,
        held_out: float = 0.0,
        random_state: Any = None,
        device: str = "cpu",
        devices: int = 1,
    ):
        super().__init__(
            query_set,
            stop=stop,
            max_queries=max_queries,
            network=network,
            shared=shared,
            standardise=standardise,
            stages=stages,
            random_state=random_state,
            device=device,
        )
        self.held_out = held_out
        self.devices = devices

    def _check_settings(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is a share of the rows, at least 0 and below 1, not {self.held_out}.")

    def _build(self, query_set: QuerySet, rows: RowSource, prior: torch.Tensor) -> VIP:
        model = VIP.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        return self._standardised(model, rows)

    @property
    def _n_devices(self) -> int:
        return self.devices

    def _split(self, rows: RowSource, seed: int) -> tuple[RowSource, EarlyStopping | None]:
        if not self.held_out:
            return rows, None
        if isinstance(rows, StreamedRows):
            others, held_out = rows.hold_out(self.held_out, HELD_OUT_MOST, seed + 1)
            return others, EarlyStopping(held_out)
        kept, held_out = train_test_split(np.arange(len(rows)), test_size=self.held_out, random_state=seed)
        return rows.take(torch.from_numpy(kept)), EarlyStopping(rows.take(torch.from_numpy(held_out)))


def default_stages(n_rows: int, n_queries: int, max_queries: int | None = None) -> list[Stage]:
    """One stage that suits the size of the data: small tables are seen often, large ones a few times in larger
    batches."""
    batch_size = 128 if n_rows < 20_000 else 512
    epochs = max(DEFAULT_STEPS * batch_size / n_rows, DEFAULT_PASSES)
    longest = max(1, min(n_queries, n_queries if max_queries is None else max_queries, CHAIN_QUERIES))
    return [Stage(epochs, CarriedHistories(longest), batch_size=batch_size)]


def _claim(folder: Path, run: dict[str, Any], resume: bool) -> None:
    """Write down what is trained in `folder`, or, to resume, make sure that it is the same."""
    path = folder / "run.json"
    if resume and path.exists():
        try:
            before = json.loads(path.read_text())
        except ValueError:
            raise CannotResume(
                f"{path} is damaged, so this run cannot be resumed: start anew in another folder."
            ) from None
        changed = [key for key in run if before.get(key) != run[key]]
        if changed:
            raise CannotResume(
                f"{folder} holds a run with other {' and '.join(changed)}, so it cannot be resumed with these. "
                "Give the settings and data it was started with, or start anew in another folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    saving.remove(folder)  # a model of an earlier run would not belong to this one
    write_whole(path, json.dumps(run, indent=1).encode())
