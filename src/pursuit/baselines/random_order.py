"""Random order: queries come by chance, and a classifier trained on random histories believes. What asking well is
measured against."""

from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from pursuit.estimators import NetworkClassifier
from pursuit.following import Follower, follow
from pursuit.histories import RandomHistories
from pursuit.history import History
from pursuit.learner import Believer
from pursuit.pursuer import Labels, Pursuer
from pursuit.queries import QuerySet
from pursuit.rows import RowSource
from pursuit.stages import Stage


class RandomOrder(nn.Module):
    """Asks queries in a random order and believes what `pursuer` believes."""

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

    def follow(self, history: History) -> Follower:
        return _RandomFollower(self, follow(self.pursuer, history))

    def to_config(self) -> dict[str, Any]:
        if not isinstance(self.pursuer, Believer):
            raise ValueError("A random order is saved together with a classifier of its own, not with another pursuer.")
        return {"seed": self._seed, "believer": self.pursuer.to_config()}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(Believer.from_config(query_set, classes, config["believer"]), config["seed"])


class _RandomFollower(Follower):
    """Follows the other pursuer and draws scores of its own."""

    def __init__(self, pursuer: RandomOrder, believer: Follower):
        self._random, self._believer = pursuer, believer

    @property
    def asked(self) -> Tensor:
        return self._believer.asked

    def log_posterior(self) -> Tensor:
        return self._believer.log_posterior()

    def scores(self) -> Tensor:
        return self._random.draw(self.asked)

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._believer.ask(query, answered)

    def again(self, history: History) -> Follower:
        return _RandomFollower(self._random, self._believer.again(history))

    def keep(self, rows: Tensor) -> None:
        self._believer.keep(rows)


class RandomOrderClassifier(NetworkClassifier):
    """A classifier network trained on random histories, asked in a random order."""

    kind = RandomOrder

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> Believer:
        model = Believer.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        return self._standardised(model, rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        return [replace(stage, histories=RandomHistories(self.max_queries)) for stage in stages]

    def _finish(self, model: Believer, rows: RowSource) -> RandomOrder:
        return RandomOrder(model)

    @classmethod
    def _settings_of(cls, model: RandomOrder) -> dict[str, Any]:
        return super()._settings_of(model.pursuer)
