"""What rivals share whose classifier learns alone on random histories before the querier learns with it."""

from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

from pursuit.histories import CarriedHistories, RandomHistories
from pursuit.learner import NetworkPair
from pursuit.pursuer import Labels
from pursuit.queries import QuerySet
from pursuit.stages import Stage

LEAST_EPOCHS = 1e-6
"""Less of a stage than this is left over by rounding."""


class PretrainedPair(NetworkPair):
    """Two networks of which the classifier learns alone in stages of random histories; what comes after is the method.

    Its settings are saved with it.
    """

    Settings: ClassVar[type[Any]]
    is_pretraining = False

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.own = self.Settings()

    def begin(self, stage: Stage) -> None:
        self.is_pretraining = isinstance(stage.histories, RandomHistories)

    def extra_repr(self) -> str:
        return repr(self.own)

    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "settings": asdict(self.own)}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        model = super().from_config(query_set, classes, config)
        own = {name: tuple(value) if isinstance(value, list) else value for name, value in config["settings"].items()}
        model.own = cls.Settings(**own)
        return model


def check_pretraining(share: float) -> None:
    if not 0 <= share < 1:
        raise ValueError(f"pretraining is a share of the histories, at least 0 and below 1, not {share}.")


def pretrained_plan(
    stages: list[Stage], pretraining: float, tau: tuple[float, float], max_queries: int | None
) -> list[Stage]:
    """The plan `stages` of V-IP with its first share on random histories, and chains after, while `tau` falls."""
    n_epochs, plan, begin = sum(stage.epochs for stage in stages), [], 0.0
    middle = pretraining * n_epochs

    def tau_at(epoch: float) -> float:
        share = (epoch - middle) / (n_epochs - middle)
        return tau[0] * (1 - share) + tau[1] * share

    for stage in stages:
        end = begin + stage.epochs
        before, after = min(end, middle) - begin, end - max(begin, middle)
        if before > LEAST_EPOCHS:
            plan.append(replace(stage, epochs=before, histories=RandomHistories(max_queries)))
        if after > LEAST_EPOCHS:
            ends = (tau_at(end - after), tau_at(end))
            plan.append(replace(stage, epochs=after, histories=chains_of(stage), tau=ends, tau_share=1.0))
        begin = end
    return plan


def chains_of(stage: Stage) -> CarriedHistories:
    """The chains that a stage of V-IP's plan carries on; those of a stage with other histories are as long as them."""
    if isinstance(stage.histories, CarriedHistories):
        return stage.histories
    longest = stage.histories.max_queries
    return CarriedHistories(None if longest is None else max(1, longest))
