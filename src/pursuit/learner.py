"""Pursuers that learn by the one training loop, and the two kinds of them that are made of networks.

A learner is a module: called on histories, it gives its objective. `VIP` is one, and so are most of its rivals; what
differs between them is `forward`.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, Self

import torch
from torch import Tensor, nn

from pursuit.following import Follower, follow_networks
from pursuit.history import History
from pursuit.networks import NETWORKS, NetworkSettings, default_network
from pursuit.pursuer import Labels
from pursuit.queries import ColumnQueries, QuerySet
from pursuit.stages import Stage

LEAST_SPREAD = 0.3
"""Rarer answers are not seen larger than those with this deviation, lest a handful of rows drown the rest."""


class Learner(nn.Module, ABC):
    """A pursuer that the training loop can train."""

    log_prior: Tensor

    def __init__(self, query_set: QuerySet, classes: Labels, prior: Tensor | None = None):
        super().__init__()
        self.query_set, self.classes = query_set, classes
        prior = torch.full((len(classes),), 1 / len(classes)) if prior is None else prior
        self.register_buffer("log_prior", prior.log())  # (C,) what to believe when nothing is known

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        known: Tensor,
        asked: Tensor,
        available: Tensor,
        y: Tensor,
        tau: Tensor | float,
        label_smoothing: float = 0.0,
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The loss on histories (`known`, `asked`) of rows `x` with labels `y`, and the queries it asks next (B,).

        `tau` falls as the stage says, and `more` is what the sampler of the histories gives with them.
        """

    @abstractmethod
    def scores(self, history: History) -> Tensor: ...

    @abstractmethod
    def log_posterior(self, history: History) -> Tensor: ...

    def begin(self, stage: Stage) -> None:
        """Make ready to learn in a stage. Learners that learn one thing after the other see by it what comes now."""
        return

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """How to build it, as JSON values; weights and other tensors are saved beside them."""

    @classmethod
    @abstractmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        """As `to_config` says, with tensors of the right shapes for those saved."""


class Believer(Learner):
    """A classifier network over one query set, which learns to believe: what to ask, somebody else must know."""

    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        classifier: nn.Module,
        prior: Tensor | None = None,
        standardised: bool = False,
    ):
        super().__init__(query_set, classes, prior)
        self.settings: tuple[NetworkSettings, bool] | None = None
        self.classifier, self.standardised = classifier, standardised
        if standardised:
            self.register_buffer("centre", torch.zeros(query_set.answer_shape))
            self.register_buffer("scale", torch.ones(query_set.answer_shape))

    @classmethod
    def build(
        cls,
        query_set: QuerySet,
        classes: Labels,
        network: NetworkSettings | None = None,
        shared: bool = False,
        prior: Tensor | None = None,
        standardised: bool = False,
    ) -> Self:
        """With a fresh network, which it can be saved with."""
        network = network or default_network(query_set)
        _, classifier = network.build(query_set, len(classes), shared)
        model = cls(query_set, classes, classifier, prior, standardised)
        model.settings = (network, shared)
        return model

    def forward(
        self,
        x: Tensor,
        known: Tensor,
        asked: Tensor,
        available: Tensor,
        y: Tensor,
        tau: Tensor | float,
        label_smoothing: float = 0.0,
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy on the histories as they are; query 0 stands for what it would ask, which it does not know."""
        logits = self.classifier(self.see(x, known.to(x.dtype))).float()
        return nn.functional.cross_entropy(logits, y, label_smoothing=label_smoothing), torch.zeros_like(y)

    def see(self, x: Tensor, known: Tensor) -> Tensor:
        """What the networks see of answers `x` of which `known` may be read."""
        return self.query_set.encode((x - self.centre) * self.scale if self.standardised else x, known)

    def seen_features(self, values: Tensor, features: Tensor | slice) -> Tensor:
        """The same for the known `values` of some `features` alone."""
        return (values - self.centre[features]) * self.scale[features] if self.standardised else values

    def standardise(self, x: Tensor, available: Tensor) -> None:
        """Measure by these answers what is usual: where nearly all say no, a yes is seen larger and a no smaller."""
        if not self.standardised or not isinstance(self.query_set, ColumnQueries):
            raise ValueError(
                "Only models of columns, words or concepts made with standardised=True can be standardised."
            )
        there = available[:, self.query_set.owner.to(available.device)]  # (N, F)
        n = there.sum(dim=0).clamp(min=1)
        self.centre.copy_((x * there).sum(dim=0) / n)
        spread = (((x - self.centre) ** 2 * there).sum(dim=0) / n).sqrt()
        self.scale.copy_(1 / spread.clamp(min=LEAST_SPREAD))

    def scores(self, history: History) -> Tensor:
        """All alike."""
        return torch.zeros(history.asked.shape, device=history.asked.device)

    def log_posterior(self, history: History) -> Tensor:
        return self.believe(self.classifier(self.see(history.x, history.known)), history.known.any(dim=1))

    def believe(self, logits: Tensor, knows_any: Tensor) -> Tensor:
        """Log probabilities (B, C) from what the classifier says, and whether a row knows any answer (B,)."""
        # Training hardly ever shows the classifier an empty history, and there the labels' frequencies are the answer.
        return torch.where(knows_any[:, None], logits.float().log_softmax(dim=1), self.log_prior)

    def to_config(self) -> dict[str, Any]:
        if self.settings is None or type(self.settings[0]).__name__ not in NETWORKS:
            raise ValueError(
                f"Only models made by {type(self).__name__}.build can be saved: the file must say how to build the "
                "networks."
            )
        network, shared = self.settings
        return {
            "network": {"kind": type(network).__name__, **asdict(network)},
            "shared": shared,
            "standardised": self.standardised,
        }

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls.build(
            query_set,
            classes,
            network_from_config(config["network"]),
            config["shared"],
            standardised=config["standardised"],
        )


class NetworkPair(Believer):
    """A querier and a classifier network over one query set."""

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        querier: nn.Module,
        classifier: nn.Module,
        prior: Tensor | None = None,
        standardised: bool = False,
    ):
        super().__init__(query_set, classes, classifier, prior, standardised)
        self.querier = querier

    @classmethod
    def build(
        cls,
        query_set: QuerySet,
        classes: Labels,
        network: NetworkSettings | None = None,
        shared: bool = False,
        prior: Tensor | None = None,
        standardised: bool = False,
    ) -> Self:
        """With fresh networks, which it can be saved with; `shared` puts both on one trunk."""
        network = network or default_network(query_set)
        model = cls(query_set, classes, *network.build(query_set, len(classes), shared), prior, standardised)
        model.settings = (network, shared)
        return model

    def scores(self, history: History) -> Tensor:
        return self.querier(self.see(history.x, history.known)).float()

    def follow(self, history: History) -> Follower:
        """Scores and beliefs from here on, answer by answer."""
        kind = type(self)
        is_usual = kind.scores is NetworkPair.scores and kind.log_posterior is Believer.log_posterior
        return follow_networks(self, history) if is_usual else Follower(self, history)


def network_from_config(config: dict[str, Any]) -> NetworkSettings:
    """Network settings from their JSON values."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in config.items() if key != "kind"}
    return NETWORKS[config["kind"]](**values)
