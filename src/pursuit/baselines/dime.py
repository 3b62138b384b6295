"""DIME (Gadgil, Covert and Lee, ICLR 2024): a value network regresses the information of each query.

The loss that an answer removes, -log f(Y | S) + log f(Y | {q, q(X)} u S), is on average the mutual information of q and
the label given the history S, if the classifier f believes rightly. After f was trained alone on random histories, both
networks learn together:

    v(S)_q = sigmoid(g(S)_q) H(f(S))       no answer tells more than there is to know
    min over g of  E (v(S)_q - loss removed by q)^2,     min over f of  E [-log f(Y | S)]

with q the best in v / cost, or any with probability epsilon, which falls. The history goes on with q. Scores are
estimates of the information in nats, for a unit of cost.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.baselines.shared.pretrained import PretrainedPair, check_pretraining, pretrained_plan
from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.following import Follower, follow_networks
from pursuit.history import History
from pursuit.pursuer import Labels, choose
from pursuit.queries import QuerySet
from pursuit.rows import RowSource
from pursuit.stages import Stage
from pursuit.stopping import entropy


@dataclass(frozen=True)
class DIMESettings:
    """How DIME is trained, what its queries cost, and when it has enough."""

    costs: tuple[float, ...] | None = None
    """Of every query; by default those that the query set gives."""
    penalty: float | None = None
    """The nats for a unit of cost that a query must promise to be asked at all; where none does, the chain ends."""
    epsilon: tuple[float, float] = (0.2, 0.02)
    """The probability of a query by chance, at the beginning and at the end."""
    candidates: int = 4
    """Queries of each history whose loss removed is regressed: the one asked, and others by chance."""
    pretraining: float = 0.15
    """Share of all histories on which the classifier learns alone before."""

    def __post_init__(self) -> None:
        if self.costs is not None:
            object.__setattr__(self, "costs", tuple(float(cost) for cost in self.costs))  # arrays are welcome
            if not all(0 < cost < math.inf for cost in self.costs):
                raise ValueError("costs are numbers above 0, one for each query.")
        if not all(0 < epsilon <= 1 for epsilon in self.epsilon):
            raise ValueError(f"epsilon is a probability above 0 and at most 1, at either end, not {self.epsilon}.")
        if self.candidates < 1:
            raise ValueError(f"candidates are at least 1, the query asked, not {self.candidates}.")
        check_pretraining(self.pretraining)


class DIME(PretrainedPair):
    """A value network as querier, whose scores are information for a unit of cost, and a classifier."""

    Settings = DIMESettings
    costs: Tensor

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.register_buffer("costs", torch.ones(len(self.query_set)))

    def set_own(self, own: DIMESettings) -> Self:
        """The model with these settings."""
        costs = own.costs if own.costs is not None else [query.cost for query in self.query_set.queries]
        if len(costs) != len(self.query_set) or min(costs) <= 0:
            raise ValueError(
                f"DIME needs a cost above 0 for each of the {len(self.query_set)} queries; there are {len(costs)}, and "
                f"the least is {min(costs)}."
            )
        self.own = own
        self.costs.copy_(torch.tensor(costs))
        return self

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        model = super().from_config(query_set, classes, config)
        return model.set_own(model.own)

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
        """Squared error of the values and cross-entropy of the classifier, and the queries asked (B,); `tau` is
        epsilon."""
        if self.is_pretraining:
            return super().forward(x, known, asked, available, y, tau, label_smoothing)
        encoded = self.see(x, known)
        logits = self.classifier(encoded).float()
        belief = self.believe(logits.detach(), known.any(dim=1))
        values = self.values(self.querier(encoded), belief)  # (B, Q)
        queries, is_open = self._candidates(values.detach(), asked, tau)  # (B, K) each, the first is asked
        removed = self._loss_removed(x, known, available, y, belief, queries)
        error = (values.gather(1, queries) - removed) ** 2 * is_open
        # What the classifier makes of the answer asked for now, it learns when the chain is there.
        loss = F.cross_entropy(logits, y, label_smoothing=label_smoothing)
        return loss + error.sum() / is_open.sum().clamp(min=1), queries[:, 0]

    @torch.no_grad()
    def _loss_removed(
        self, x: Tensor, known: Tensor, available: Tensor, y: Tensor, belief: Tensor, queries: Tensor
    ) -> Tensor:
        """How much less surprised by the label than `belief` (B, C) the classifier is with the answer to each of
        `queries` (B, K)."""
        n_candidates = queries.shape[1]
        told = F.one_hot(queries, known.shape[1]).bool() & available[:, None]  # (B, K, Q)
        after = (known[:, None] | told).flatten(0, 1)
        logits = self.classifier(self.see(x.repeat_interleave(n_candidates, dim=0), after)).float()
        loss = F.cross_entropy(logits, y.repeat_interleave(n_candidates), reduction="none").view_as(queries)
        # A query without an answer changes nothing, whatever dropout makes of that.
        return (F.nll_loss(belief, y, reduction="none")[:, None] - loss) * available.gather(1, queries)

    def _candidates(self, values: Tensor, asked: Tensor, epsilon: Tensor | float) -> tuple[Tensor, Tensor]:
        """K queries of each row, first the one to ask, which is the best or one by chance, then others by chance; and
        which of them count, for fewer than K may be left: (B, K) each."""
        lots = torch.rand_like(values).masked_fill(asked, -1)
        explores = torch.rand_like(values[:, 0]) < epsilon
        query = torch.where(explores, lots.argmax(dim=1), choose(values / self.costs, asked))[:, None]
        n_others = min(self.own.candidates, values.shape[1]) - 1
        lot, others = lots.scatter(1, query, -1).topk(n_others, dim=1)
        return torch.cat([query, others], dim=1), torch.cat([~asked.gather(1, query), lot >= 0], dim=1)

    def values(self, raw: Tensor, belief: Tensor) -> Tensor:
        """Estimates of the information of every query (B, Q) in nats, from what the querier says and the belief
        (B, C)."""
        return raw.float().sigmoid() * entropy(belief.float())[:, None]

    def worth(self, raw: Tensor, belief: Tensor) -> Tensor:
        """Nats for a unit of cost (B, Q); minus infinity where they are below the penalty."""
        worth = self.values(raw, belief) / self.costs
        return worth if self.own.penalty is None else worth.masked_fill(worth < self.own.penalty, -torch.inf)

    def scores(self, history: History) -> Tensor:
        encoded = self.see(history.x, history.known)
        return self.worth(self.querier(encoded), self.believe(self.classifier(encoded), history.known.any(dim=1)))

    def follow(self, history: History) -> Follower:
        return _ValueFollower(self, follow_networks(self, history))


class _ValueFollower(Follower):
    """Follows both networks, and makes scores of what they say."""

    def __init__(self, dime: DIME, networks: Follower):
        self._dime, self._networks = dime, networks
        self._belief: Tensor | None = None

    @property
    def asked(self) -> Tensor:
        return self._networks.asked

    def log_posterior(self) -> Tensor:
        if self._belief is None:
            self._belief = self._networks.log_posterior()
        return self._belief

    def scores(self) -> Tensor:
        return self._dime.worth(self._networks.scores(), self.log_posterior())

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._networks.ask(query, answered)
        self._belief = None

    def ask_one(self, query: int, answered: bool) -> None:
        self._networks.ask_one(query, answered)
        self._belief = None

    def again(self, history: History) -> Follower:
        other = self._networks.again(history)
        return other if isinstance(other, _ValueFollower) else _ValueFollower(self._dime, other)

    def keep(self, rows: Tensor) -> None:
        self._networks.keep(rows)
        self._belief = None if self._belief is None else self._belief[rows]


class DIMEClassifier(RivalClassifier):
    """DIME: a value network that estimates the information of each query, and a classifier.

    Parameters
    ----------
    query_set, stop, max_queries, network, shared, standardise, stages, random_state, device
        As for every rival with networks (`RivalClassifier`).
    settings : DIMESettings, optional
        Costs, the penalty that ends chains, and how it is trained.
    """

    kind = DIME
    Settings = DIMESettings

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> DIME:
        model = DIME.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        return self._standardised(model.set_own(self._own), rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        return pretrained_plan(stages, self._own.pretraining, self._own.epsilon, self.max_queries)

    @classmethod
    def _settings_of(cls, model: DIME) -> dict[str, Any]:
        return {**super()._settings_of(model), "settings": model.own}
