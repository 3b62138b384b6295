"""Models whose classifier learns alone before the querier learns with it."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pursuit.training.learner import ClassifierModel, QuerierClassifier
from pursuit.training.samplers import Batch, CarriedHistories, RandomHistories, TrainingOutcome
from pursuit.training.schedule import Stage

PRETRAINING, JOINT = "pretraining", "joint"
"""The phases: the classifier alone, then both networks."""
LEAST_EPOCHS = 1e-6
"""Less of a stage than this is left over by rounding."""


class PretrainedModel(QuerierClassifier):
    """Two networks, of which the classifier learns alone in the phase "pretraining"; the method follows."""

    def forward(self, batch: Batch) -> TrainingOutcome:
        if batch.phase == PRETRAINING:
            return ClassifierModel.forward(self, batch)
        return self.forward_jointly(batch)

    @abstractmethod
    def forward_jointly(self, batch: Batch) -> TrainingOutcome:
        """The loss of both networks, and the queries asked."""


def check_pretraining(share: float) -> None:
    if not 0 <= share < 1:
        raise ValueError(f"pretraining is a share of the histories, at least 0 and below 1, not {share}.")


def pretrained_plan(
    stages: Sequence[Stage],
    pretraining: float,
    max_queries: int | None,
    *,
    tau: tuple[float, float] | None = None,
    exploration: tuple[float, float] | None = None,
) -> list[Stage]:
    """The plan `stages` with the share `pretraining` of its histories, the first ones, random and for the classifier
    alone, and chains after that.

    Meanwhile `tau` and `exploration` go from their first to their second value, across all stages of the joint phase.
    """
    n_epochs, plan, begin = sum(stage.epochs for stage in stages), [], 0.0
    middle = pretraining * n_epochs

    def value_at(epoch: float, ends: tuple[float, float]) -> float:
        share = (epoch - middle) / (n_epochs - middle)
        return ends[0] * (1 - share) + ends[1] * share

    for stage in stages:
        end = begin + stage.epochs
        before, after = min(end, middle) - begin, end - max(begin, middle)
        if before > LEAST_EPOCHS:
            plan.append(replace(stage, epochs=before, histories=RandomHistories(max_queries), phase=PRETRAINING))
        if after > LEAST_EPOCHS:
            schedules: dict[str, Any] = {
                name: (value_at(end - after, ends), value_at(end, ends))
                for name, ends in (("tau", tau), ("exploration", exploration))
                if ends is not None
            }
            if tau is not None:
                schedules["tau_share"] = 1.0
            plan.append(replace(stage, epochs=after, histories=chains_of(stage), phase=JOINT, **schedules))
        begin = end
    return plan


def chains_of(stage: Stage) -> CarriedHistories:
    """The chains that a stage carries from step to step; a stage with other histories gets chains as long as them."""
    if isinstance(stage.histories, CarriedHistories):
        return stage.histories
    longest = stage.histories.max_queries
    return CarriedHistories(None if longest is None else max(1, longest))
