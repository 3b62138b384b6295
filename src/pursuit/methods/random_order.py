"""Random order: queries come by chance, and the posterior is that of a classifier trained on random histories. The
baseline for methods that choose their queries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from pursuit.estimators import TaughtClassifier, method
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import Labels, Pursuer
from pursuit.queries import QuerySet
from pursuit.registry import register
from pursuit.training.learner import ClassifierModel
from pursuit.training.rows import RowSource
from pursuit.training.samplers import RandomHistories
from pursuit.training.schedule import Stage


@register
class RandomOrder(nn.Module):
    """Asks queries in a random order; its posterior is that of `pursuer`."""

    registry_kind: ClassVar[str] = "pursuer"

    def __init__(self, pursuer: Pursuer, seed: int = 0):
        super().__init__()  # a module, so that it follows its pursuer to a device
        self.pursuer, self.query_set, self.classes = pursuer, pursuer.query_set, pursuer.classes
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def scores(self, history: History) -> Tensor:
        return self.draw(history.asked)

    def draw(self, asked: Tensor) -> Tensor:
        """Random scores in the shape of `asked` (B, Q)."""
        if asked.device not in self._generators:
            self._generators[asked.device] = torch.Generator(asked.device).manual_seed(self._seed)
        return torch.rand(asked.shape, generator=self._generators[asked.device], device=asked.device)

    def log_posterior(self, history: History) -> Tensor:
        return self.pursuer.log_posterior(history)

    def history_state(self, history: History) -> HistoryState:
        return _RandomOrderState(self, history_state(self.pursuer, history))

    def to_config(self) -> dict[str, Any]:
        if type(self.pursuer) is not ClassifierModel:
            raise ValueError(
                "Only a random order with a ClassifierModel can be saved, as RandomOrderClassifier trains one, not one "
                f"with a {type(self.pursuer).__name__}."
            )
        return {"seed": self._seed, "classifier": self.pursuer.to_config()}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(ClassifierModel.from_config(query_set, classes, config["classifier"]), config["seed"])


class _RandomOrderState(HistoryState):
    """The state of the other pursuer, with scores drawn at random."""

    def __init__(self, random_order: RandomOrder, pursuer_state: HistoryState):
        self._random_order, self._pursuer_state = random_order, pursuer_state

    @property
    def asked(self) -> Tensor:
        return self._pursuer_state.asked

    def log_posterior(self) -> Tensor:
        return self._pursuer_state.log_posterior()

    def scores(self) -> Tensor:
        return self._random_order.draw(self.asked)

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._pursuer_state.ask(query, answered)

    def restart(self, history: History) -> HistoryState:
        return _RandomOrderState(self._random_order, self._pursuer_state.restart(history))

    def keep(self, rows: Tensor) -> None:
        self._pursuer_state.keep(rows)


@method("random", "random order")
@dataclass(kw_only=True, eq=False, repr=False)
class RandomOrderClassifier(TaughtClassifier):
    """A classifier network trained on random histories, which asks in a random order."""

    uses_weights = True

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        return [replace(stage, histories=RandomHistories(self.max_queries)) for stage in stages]

    def finish(self, learner: ClassifierModel, rows: RowSource) -> RandomOrder:
        return RandomOrder(learner)
