"""Estimators whose pursuer is trained by the training loop."""

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from pursuit.data.rows import Rows, RowSource, StreamedRows, rows_in_memory
from pursuit.estimators import saving
from pursuit.estimators.classifier import PursuitClassifier, PursuitEstimator
from pursuit.files import write_whole
from pursuit.networks import NetworkSettings
from pursuit.queries import QuerySet
from pursuit.training import CarriedHistories, ClassifierModel, EarlyStopping, Learner, Stage, TrainingRun, train
from pursuit.training.devices import is_first, n_processes
from pursuit.training.held_out import HELD_OUT_MOST
from pursuit.training.run import check_plan

DEFAULT_STEPS = 1000
DEFAULT_PASSES = 20
STANDARD_ROWS = 20_000
"""How many of the rows that are not in memory the mean and spread of answers are measured on."""
CHAIN_QUERIES = 20
"""How far chains are carried in training by default; random histories cover what lies beyond."""


RUN = "run.json"
"""Says in a folder what is trained there."""


class CannotResume(ValueError):
    """A folder holds a run with other settings or data, or what it holds is damaged."""


@dataclass(kw_only=True, eq=False, repr=False)
class LearnerEstimator(PursuitEstimator):
    """An estimator around a `Learner`: a subclass builds one in `make_learner`, and may adapt the training plan in
    `plan`."""

    stages: list[Stage] | None = None
    """The training plan. By default one stage of carried histories, long enough for the number of rows. A method that
    learns from other histories takes as many of them, in the same batches."""
    held_out: float = 0.0
    """Share of the rows to hold out for early stopping. By default none: training goes on to the end of its plan."""
    devices: int = 1
    """How many devices, or processes on a CPU, train together; each but the first runs the program again up to `fit`.
    A program started by torchrun has as many as torchrun started."""

    @abstractmethod
    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> Learner:
        """A fresh learner for these rows, whose classes have the frequencies `prior` (C,)."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        """The stages that this method trains in, from those of `stages` or the default."""
        return list(stages)

    def finish(self, learner: Any, rows: RowSource) -> Any:
        """The pursuer, once the learner is trained."""
        return learner

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is a share of the rows, at least 0 and below 1, not {self.held_out}.")

    def learn(self, query_set: QuerySet, rows: RowSource, seed: int, run: TrainingRun) -> Any:
        kept, early_stopping = self._split(rows, seed)
        stages = self.stages if self.stages is not None else default_stages(len(kept), len(query_set), self.max_queries)
        plan, prior = self.plan(stages), kept.prior(len(self.labels))
        learner = self.make_learner(query_set, kept, prior)
        check_plan(plan, self.device, run.log, n_processes(self.devices))
        if run.path is not None and is_first():
            described = {
                "model": {"type": type(learner).__name__, **learner.to_config()},
                "query_set": query_set.to_config(),
                "stages": repr(plan),
                "seed": seed,
                "rows": kept.fingerprint(),
            }
            _claim(run.path, described, run.resume)
        train(
            learner,
            kept.levelled() if isinstance(kept, Rows) else kept,
            plan,
            seed=seed,
            device=self.device,
            devices=self.devices,
            early_stopping=early_stopping,
            run=run,
        )
        return self.finish(learner, kept)

    def _split(self, rows: RowSource, seed: int) -> tuple[RowSource, EarlyStopping | None]:
        """The rows to train on, and those held out to see when to stop."""
        if not self.held_out:
            return rows, None
        if isinstance(rows, StreamedRows):
            # Another seed, because rows may be drawn, and those of `seed` are trained on
            others, held_out = rows.hold_out(self.held_out, HELD_OUT_MOST, seed + 1)
            return others, EarlyStopping(held_out)
        kept, judged = train_test_split(np.arange(len(rows)), test_size=self.held_out, random_state=seed)
        return rows.take(torch.from_numpy(kept)), EarlyStopping(rows.take(torch.from_numpy(judged)).levelled())


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkEstimator(LearnerEstimator):
    """An estimator whose learner is a `ClassifierModel`, with a querier or without: it reads histories by networks."""

    network: NetworkSettings | None = None
    """`MLP`, `Conv`, `SetNetwork` … with its sizes. By default one that suits the query set."""
    standardise: bool = False
    """Whether networks see answers relative to their mean and spread, which helps where nearly all answers are no, as
    with words. For columns, words and concepts only."""

    @abstractmethod
    def make_model(self, query_set: QuerySet, rows: RowSource, **options: Any) -> ClassifierModel:
        """A fresh model for these rows; `options` (prior, standardised) go to its `build`."""

    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> ClassifierModel:
        model = self.make_model(query_set, rows, prior=prior, standardised=self.standardise)
        if self.standardise:
            sample = rows_in_memory(rows, STANDARD_ROWS)
            model.standardise(sample.x, sample.available)
        return model


@dataclass(kw_only=True, eq=False, repr=False)
class LearnerClassifier(PursuitClassifier, LearnerEstimator):
    """A classifier around a `Learner`."""


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(LearnerClassifier, NetworkEstimator):
    """A classifier around a `ClassifierModel`."""


def default_stages(n_rows: int, n_queries: int, max_queries: int | None = None) -> list[Stage]:
    """One stage that suits the size of the data: small tables are seen often, large ones a few times in larger
    batches."""
    batch_size = 128 if n_rows < 20_000 else 512
    epochs = max(DEFAULT_STEPS * batch_size / n_rows, DEFAULT_PASSES)
    longest = max(1, min(n_queries, n_queries if max_queries is None else max_queries, CHAIN_QUERIES))
    return [Stage(epochs, CarriedHistories(longest), batch_size=batch_size)]


def _claim(folder: Path, run: dict[str, Any], resume: bool) -> None:
    """Write down what is trained in `folder`, or, to resume, make sure that it is the same."""
    path, run = folder / RUN, json.loads(json.dumps(run))
    if resume and path.exists():
        try:
            before = json.loads(path.read_text())
        except ValueError:
            raise CannotResume(
                f"{path} is damaged, so this run cannot be resumed: start again in another folder."
            ) from None
        changed = [key for key in run if before.get(key) != run[key]]
        if changed:
            raise CannotResume(
                f"{folder} holds a run with other {' and '.join(changed)}, so it cannot be resumed with these. "
                "Use the settings and data it was started with, or start again in another folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    saving.remove(folder)  # a model of an earlier run would not belong to this one
    write_whole(path, json.dumps(run, indent=1).encode())
