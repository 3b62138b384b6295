"""Fixed order: one ranking of the queries for all rows, by how much each adds to those before it.

A classifier network f learns from random histories. The ranking then grows greedily: after the queries S, the next is

    argmax over q of   I(q(X); Y | S(X))  ~  E[-log f(Y | S(X))] - E[-log f(Y | S(X), q(X))],

a mean over rows. The second half of training is on prefixes of that ranking, which are the histories f meets in use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from pursuit.estimators import TaughtClassifier, method
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.registry import register
from pursuit.training.learner import ClassifierModel, ModelSpec
from pursuit.training.rows import Rows, RowSource, RowStream, rows_in_memory
from pursuit.training.samplers import Batch, RandomHistories, Sampler
from pursuit.training.schedule import Stage

RANDOM, PREFIXES = "random", "prefixes"
"""The phases: random histories, then prefixes of the ranking, which is made in between."""
RANKING_ROWS = 1000
"""Rows that a ranking is measured on."""
RANKED_MOST = 100
"""Queries that are ranked one after the other; the others follow by their gain when last measured."""
CANDIDATES = 16
"""Queries measured again at a time before each is ranked: those with the largest gains when last measured."""


@register
@dataclass(frozen=True)
class PrefixHistories:
    """k uniform on 0..max_queries, then the first k queries of the learner's order on top of what is initially
    known."""

    registry_kind: ClassVar[str] = "histories"
    max_queries: int | None = None

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _PrefixSampler(stream, batch_size, self.max_queries, generator)


class _PrefixSampler(Sampler):
    def draw(self, pursuer: Pursuer) -> Batch:
        if not isinstance(pursuer, FixedOrder):
            raise ValueError(
                f"PrefixHistories are prefixes of a fixed order, which {type(pursuer).__name__} does not have: use "
                "RandomHistories or CarriedHistories."
            )
        rows = self.stream.take(self.rows_a_step)
        return Batch.of(rows, prefix_histories(pursuer.order, rows, self._lengths(len(rows), self.max_queries)))


def prefix_histories(order: Tensor, rows: Rows, k: Tensor) -> History:
    """Histories in which the first k (B,) queries of `order` (Q,) were asked that are not initially known."""
    given = rows.start().asked
    is_new = ~given[:, order]
    first_k = is_new & (is_new.cumsum(dim=1) <= k[:, None])
    asked = given.scatter(1, order.expand(given.shape), first_k) | given
    return History(rows.x, asked & rows.available, asked)


@register
class FixedOrder(ClassifierModel):
    """A classifier network, and one order in which every row is asked."""

    order: Tensor

    def __init__(self, spec: ModelSpec, classifier: nn.Module):
        super().__init__(spec, classifier)
        self.register_buffer("order", torch.arange(len(spec.query_set)))  # (Q,) the first to be asked first
        self.ranking_rows: Rows | None = None
        """Rows to rank queries on when the phase "prefixes" begins."""
        self._is_ranked = False

    def begin(self, stage: Stage) -> None:
        if stage.phase == PREFIXES and self.ranking_rows is not None and not self._is_ranked:
            self.order.copy_(self.ranked(self.ranking_rows.to(self.order.device), stage.histories.max_queries))
            self._is_ranked = True

    @torch.no_grad()
    def ranked(self, rows: Rows, max_queries: int | None = None) -> Tensor:
        """All queries (Q,), the most informative first, given those before; `max_queries` of them are ranked so."""
        was_training = self.training
        self.eval()
        start = rows.start()
        known, before = start.known.clone(), self._loss(rows, start.known)
        gain = torch.full((rows.n_queries,), torch.inf, device=before.device)  # (Q,) when last measured
        ranked: list[int] = []
        for _ in range(min(max_queries or rows.n_queries, RANKED_MOST, rows.n_queries)):
            is_fresh = torch.zeros_like(gain, dtype=torch.bool)
            best = int(gain.argmax())
            while not is_fresh[best]:  # an older gain may be too high: queries ranked since may say the same
                stale = gain.masked_fill(is_fresh, -torch.inf)
                for query in stale.topk(min(CANDIDATES, rows.n_queries)).indices.tolist():
                    if stale[query] > -torch.inf:
                        gain[query] = before - self._loss(rows, _with(known, query, rows))
                        is_fresh[query] = True
                best = int(gain.argmax())
            ranked.append(best)
            before, known = before - gain[best], _with(known, best, rows)
            gain[best] = -torch.inf
        self.train(was_training)
        rest = [query for query in gain.argsort(descending=True, stable=True).tolist() if query not in set(ranked)]
        return torch.tensor(ranked + rest, device=before.device)

    def _loss(self, rows: Rows, known: Tensor) -> Tensor:
        """The mean of -log f(label) where this is known."""
        log_posterior = self.log_posterior(History(rows.x, known, known))
        if rows.weight is None:
            return nn.functional.nll_loss(log_posterior, rows.y)
        loss = nn.functional.nll_loss(log_posterior, rows.y, reduction="none")
        return (loss * rows.weight).sum() / rows.weight.sum()

    def check_tensors(self) -> None:
        """Raise ValueError for an order that does not have every query once."""
        if sorted(self.order.tolist()) != list(range(len(self.query_set))):
            raise ValueError("the order does not have every query once")

    def scores(self, history: History) -> Tensor:
        place = torch.empty_like(self.order).scatter_(0, self.order, torch.arange(len(self.order)).to(self.order))
        return -place.float().expand(history.asked.shape)


def _with(known: Tensor, query: int, rows: Rows) -> Tensor:
    """`known` (N, Q) once `query` was asked of every row that has an answer."""
    more = known.clone()
    more[:, query] |= rows.available[:, query]
    return more


@method("fixed", "fixed order")
@dataclass(kw_only=True, eq=False, repr=False)
class FixedOrderClassifier(TaughtClassifier):
    """A classifier network that asks the same queries in the same order of every row, the most informative first."""

    uses_weights = True

    def make_model(self, spec: ModelSpec, rows: RowSource) -> FixedOrder:
        model = FixedOrder.build(spec)
        # Training rows will do: of the 2^Q histories of a row, a random one hardly ever comes twice, so that the
        # classifier cannot have learnt them by heart until nearly all is known, where the order hardly matters.
        sample = rows_in_memory(rows, RANKING_ROWS)
        some = torch.randperm(len(sample), generator=torch.Generator().manual_seed(0))[:RANKING_ROWS]
        model.ranking_rows = sample.take(some)
        return model

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        """Half of every stage with random histories; then the ranking, and the other half with prefixes of it."""
        halves = [replace(stage, epochs=stage.epochs / 2) for stage in stages]
        phases = ((RANDOM, RandomHistories(self.max_queries)), (PREFIXES, PrefixHistories(self.max_queries)))
        return [replace(half, histories=histories, phase=phase) for phase, histories in phases for half in halves]

    def finish(self, learner: FixedOrder, rows: RowSource) -> FixedOrder:
        learner.ranking_rows = None
        return learner
