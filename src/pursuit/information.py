"""The answer model: the probability of every answer, and the information that follows from it.

For every query with a list of possible answers, the model gives P(a | y, S): the probability of answer a if the label
were y, given the history S. With the posterior p(y | S) of a classifier, the mutual information of answer and label
follows in closed form, for all queries at once,

    I(A; Y | S) = H(A | S) - sum over y of p(y | S) H(A | y, S)

and so does the posterior after each answer, by Bayes: p(y | S, a) ~ p(y | S) P(a | y, S). "No answer" is one of the
possible answers. Unless the classifier sees it, it leaves the posterior unchanged and carries no information.

The log odds of an answer, relative to the first answer of its query, are

    table[a, y] + b_a(S) + u_a(S) . v_y

The table starts from counts, so that with few rows the model behaves like naive Bayes. A network reads the history and
gives b and u, which let answers depend on one another; v_y is a vector of `rank` numbers for each label.

Layout. All answers but the first of each query lie side by side, those of the first query first; behind them comes "no
answer" of the queries that may have none. Three queries, the last of which was not always answered (A = 5 log odds):

    query          0: fever?     1: skin?                   2: cough?
    answers        no  yes       dry  red  pale             no  yes  (none)
    log odds       0   o[0]      0    o[1] o[2]             0   o[3] o[4]

    further        the values that have log odds, of all 7:  1 (yes), 3 (red), 4 (pale), 6 (yes)
    maybe_missing  [2]
    query_of       [0, 1, 1, 2, 2]                           the query of each of the A log odds

`_by_query` sums the A numbers of a tensor (B, A, ...) to its Q queries, and `_of_query` spreads Q numbers back to A.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.inference.pursuer import NO_ANSWER, PossibleAnswer
from pursuit.queries import QuerySet
from pursuit.queries.answer_values import AnswerValues
from pursuit.queries.column import NOT_GIVEN_TEXT
from pursuit.registry import register, settings_from, to_config
from pursuit.training.rows import Rows

LARGEST = 30.0
"""Log odds are clamped to this size, at which an answer is certain for all purposes."""
MOST = 2**14
"""Ranks and numbers of intervals end there."""
ROUNDING = 1e-5
"""Expected bits below this are rounding errors of single precision, and count as 0: divided by a small cost they would
look large."""
TINY = torch.finfo(torch.float32).tiny
AT_ONCE, AT_ONCE_ON_GPU = 2**17, 2**27
"""Number of log odds computed at once; on a CPU they should stay in its cache."""
COUNTED_AT_ONCE = 4096
FEW_VALUES = 64
"""Tensors with fewer values for each answer than this are summed by `scatter_add` instead of `index_add`."""


@register
@dataclass(frozen=True)
class AnswerSettings:
    """Settings of an answer model."""

    rank: int = 8
    """Rank of the interaction between history and label; with 0, the history changes answers alike under every
    label."""
    n_bins: int = 8
    """Number of intervals that numbers are binned into, with equally many rows in each."""
    smoothing: float = 2.0
    """Pseudo-counts: rows of the average label that are added to the counts of each label."""

    def __post_init__(self) -> None:
        if not (0 <= self.rank <= MOST and 2 <= self.n_bins <= MOST and self.smoothing > 0):
            raise ValueError(
                f"An answer model has a rank of 0 to {MOST:,}, 2 to {MOST:,} intervals and a smoothing above 0, not "
                f"{self}."
            )


class AnswerModel(nn.Module):
    """P(answer | label, history) of all queries, from the outputs of a network that reads the history.

    A query of k possible answers has k - 1 log odds, A in all. Where training rows lack the answer to a query, "no
    answer" is a possible answer, since it may depend on the label. For a query that can be answered "not given", it is
    that answer, which classifiers see.
    """

    further: Tensor
    query_of: Tensor
    maybe_missing: Tensor
    is_told: Tensor
    untold: Tensor
    untold_odds: Tensor

    def __init__(
        self,
        outcomes: AnswerValues,
        n_classes: int,
        maybe_missing: Sequence[int],
        settings: AnswerSettings | None = None,
    ):
        super().__init__()
        self.outcomes, self.settings, self.n_queries = outcomes, settings or AnswerSettings(), len(outcomes.n_values)
        is_further = torch.ones(len(outcomes), dtype=torch.bool)
        is_further[outcomes.values_of_unit[:, 0]] = False
        further = is_further.nonzero()[:, 0]
        missing, is_told = torch.tensor(list(maybe_missing), dtype=torch.long), told_if_missing(outcomes.query_set)
        for name, tensor in (
            ("further", further),  # values besides the first of their query
            ("maybe_missing", missing),  # queries
            ("is_told", is_told),  # (Q,) whether a classifier is told that there is no answer
            ("untold", missing[~is_told[missing]]),  # queries
            ("untold_odds", len(further) + (~is_told[missing]).nonzero()[:, 0]),  # the odds that these have no answer
            ("query_of", torch.cat([outcomes.unit_of_value[further], missing])),  # (A,)
        ):
            self.register_buffer(name, tensor, persistent=False)
        self.n_odds = len(self.query_of)
        self._of_labels: tuple[Tensor, ...] | None = None  # once the weights stay as they are
        self.has_one_odds_each = self.query_of.tolist() == list(range(self.n_queries))
        """Whether every query has two possible answers, so that A equals Q, in the same order."""
        self.table = nn.Parameter(torch.zeros(self.n_odds, n_classes))
        self.label_vectors = nn.Parameter(torch.randn(n_classes, self.settings.rank) * 0.3)

    @classmethod
    def count(
        cls,
        query_set: QuerySet,
        n_classes: int,
        rows: Rows,
        settings: AnswerSettings | None = None,
        kernel: Tensor | None = None,
    ) -> "AnswerModel":
        """A model whose table is counted from rows. For ordered labels, `kernel` (C, C) gives the weight with which a
        row of each label also counts for the others."""
        if not query_set.has_own_units:
            raise ValueError(
                "An answer model needs queries that each have a list of answers of their own (columns, words or "
                f"concepts), not {query_set}: use querier='straight-through', without cost_aware."
            )
        settings = settings or AnswerSettings()
        outcomes = AnswerValues.listed(query_set, rows.x, rows.available, settings.n_bins)
        maybe_missing = ((~rows.available).any(dim=0) | told_if_missing(query_set)).nonzero()[:, 0].tolist()
        model = cls(outcomes, n_classes, maybe_missing, settings)
        model._count(rows, kernel)
        return model

    @torch.no_grad()
    def _count(self, rows: Rows, kernel: Tensor | None) -> None:
        first = self.outcomes.values_of_unit[:, 0]
        members = rows.counted_labels(self.table.shape[1], kernel)  # (N, C)
        counts, of_first = torch.zeros_like(self.table), torch.zeros(self.n_queries, self.table.shape[1])
        for part in torch.arange(len(rows)).split(COUNTED_AT_ONCE):
            x, available = rows.x[part], rows.available[part]
            counts += self.holds(x, available).float().T @ members[part]
            of_first += (self.outcomes.holds(x)[:, first] & available).float().T @ members[part]
        # Add a few rows of the average label, in which even an answer that was never given occurs.
        smoothed, smoothed_first = (
            part + self.settings.smoothing * (part.sum(dim=1, keepdim=True) + 1) / rows.total_weight
            for part in (counts, of_first)
        )
        self.table.copy_(smoothed.log() - smoothed_first.log()[self.query_of])

    def evidence(self, query: int, holds: Tensor) -> Tensor:
        """The log probability (n, C) of answers to a query under each label, at the empty history, by the table.
        `holds` (n, V) says which values the answers have. "No answer" counts only if classifiers see it."""
        is_told = bool(self.is_told[query])
        own = (self.query_of[: None if is_told else len(self.further)] == query).nonzero()[:, 0]
        log_likelihood = F.pad(self.table.detach()[own], (0, 0, 1, 0)).log_softmax(dim=0)  # (k, C)
        holds = holds[:, self.outcomes.values_of_query(query)]
        if is_told:
            holds = torch.cat([holds, ~holds.any(dim=1, keepdim=True)], dim=1)
        return holds.float() @ log_likelihood

    def holds(self, x: Tensor, available: Tensor) -> Tensor:
        """Which of the A answers with log odds each row gives: (B, A) bool."""
        given = self.outcomes.holds(x).T.index_select(0, self.further)
        given &= available.T.contiguous().index_select(0, self.query_of[: len(self.further)])
        return torch.cat([given, self._has_none(x, available).T[self.maybe_missing]]).T

    def _has_none(self, x: Tensor, available: Tensor) -> Tensor:
        """Where rows have no answer (B, Q), or the answer "not given" to queries that allow it."""
        given = self.outcomes.query_set.given(x, available)
        return ~available if given is available else torch.where(self.is_told, available & ~given, ~available)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the network that reads the history."""
        return self.n_odds * (1 + self.settings.rank)

    def _terms(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """b (B, A) and u (B, A, rank), from the network's outputs."""
        if not self.settings.rank:
            return outputs.float(), outputs.new_empty(len(outputs), self.n_odds, 0)
        b, u = outputs.split([self.n_odds, self.n_odds * self.settings.rank], dim=1)
        return b.float(), u.unflatten(1, (self.n_odds, self.settings.rank))

    def loss(
        self,
        outputs: Tensor,
        x: Tensor,
        y: Tensor,
        available: Tensor,
        asked: Tensor,
        weight: Tensor | None = None,
    ) -> Tensor:
        """The negative log likelihood of the answers to all queries not yet `asked`, given the label `y`: nats a query.
        Rows may have a `weight` (B,) of mean 1; rows without a label (-1) do not count."""
        b, u = self._terms(outputs)
        if self.settings.rank:
            with torch.autocast(b.device.type, enabled=False):
                b = b + (u.float() @ self.label_vectors[y][:, :, None])[:, :, 0]
        # The B numbers of an answer lie together: sums over answers are then sums of long rows.
        log_odds = self.table.index_select(1, y.clamp(min=0)) + b.T.contiguous()  # (A, B)
        log_odds = F.hardtanh(log_odds, -LARGEST, LARGEST)  # whose gradient takes less time than that of clamp
        given = self._by_query(log_odds * self.holds(x, available).T.float(), dim=0)
        log_probability = given - (1 + self._by_query(log_odds.exp(), dim=0)).log()  # (Q, B)
        # A missing answer to a query that was never missing in the counted rows is left out.
        foreseen = (available.index_fill(1, self.untold, True) & ~asked & (y >= 0)[:, None]).T
        told = log_probability * foreseen
        told = told if weight is None else told * weight
        return -told.sum() / foreseen.sum().clamp(min=1)

    @torch.no_grad()
    def information(self, outputs: Tensor, log_posterior: Tensor, most_labels: int | None = None) -> Tensor:
        """The mutual information (B, Q) of each query's answer and the label, in bits, at a log posterior (B, C).

        To save time, it may be estimated on `most_labels` labels, sampled by their probabilities.
        """
        log_posterior, sampled = log_posterior.float(), None
        if most_labels is not None and most_labels < log_posterior.shape[1]:
            gumbel = -torch.empty_like(log_posterior).exponential_().log()
            labels = (log_posterior + gumbel).topk(most_labels, dim=1).indices  # (B, c)
            log_posterior = log_posterior.gather(1, labels).log_softmax(dim=1)
            sampled = labels, self.table.T.contiguous()  # (C, A)
        elif self._is_separable(outputs):
            return F.threshold(self._nats_separately(outputs, log_posterior.exp()) / math.log(2), ROUNDING, 0.0)
        n_odds = self.n_odds * log_posterior.shape[1]
        at_once = max(1, (AT_ONCE_ON_GPU if outputs.is_cuda else AT_ONCE) // max(1, n_odds))
        nats = []
        for start in range(0, max(1, len(outputs)), at_once):
            span = slice(start, start + at_once)
            of_labels: tuple[Tensor, Tensor] = self.label_vectors, self.table
            if sampled is not None:
                own, by_label = sampled[0][span], sampled[1]
                of_labels = self.label_vectors[own], F.embedding(own, by_label).mT
            nats.append(self._nats(self._log_odds(outputs[span], *of_labels), log_posterior[span].exp()))
        bits = torch.cat(nats) / math.log(2)
        return F.threshold(bits, ROUNDING, 0.0)

    def _nats(self, log_odds: Tensor, posterior: Tensor) -> Tensor:
        """The information (B, Q) by log odds (B, A, c), which are overwritten, under labels of these probabilities
        (B, c). Summed over the answers that the classifier sees: "no answer" has no information if it does not."""
        share = log_odds.exp()
        total = 1 + self._by_query(share)  # (B, Q, c)
        share.div_(self._of_query(total))  # P(a | y, S)
        log_total, belief = total.log_(), posterior[:, :, None]  # (B, c, 1)
        # Full precision: information may be the small difference of large entropies.
        with torch.autocast(log_odds.device.type, enabled=False):
            parts = (share, log_odds.mul_(share), log_total)
            mixed, weighed, noise = ((part @ belief)[:, :, 0] for part in parts)
            seen = torch.special.entr(mixed).add_(weighed)
            if len(self.untold):
                unseen = share.index_select(1, self.untold_odds).mul_(log_total.index_select(1, self.untold))
                noise.index_add_(1, self.untold, (unseen @ belief)[:, :, 0], alpha=-1)
                seen.index_fill_(1, self.untold_odds, 0.0)
        first = (1 - self._by_query(mixed)).clamp(min=0)
        nats = self._by_query(seen) + torch.special.entr(first) - noise
        return nats.clamp_(min=0)

    @torch.no_grad()
    def keep_weights(self) -> None:
        """Precompute the labels' factor of the odds; the weights must not change afterwards."""
        if self._has_factors():
            self._of_labels = self._factors_of_labels()

    def _has_factors(self) -> bool:
        """Whether odds are a product of a factor of the history and one of the label, and padding adds few of them."""
        return not self.settings.rank and not self.table.is_cuda and self.odds_of_query.numel() <= 2 * self.n_odds

    def _factors_of_labels(self) -> tuple[Tensor, ...]:
        """The labels' factor of the odds, for queries of K odds each: the index of each (Q, K), the odds (Q, K, C),
        zero-padded, the odds times their logarithms, and a mask of unseen answers (Q, K, 1)."""
        place = self.odds_of_query.clamp(min=0)
        table = self.table[place]
        odds = table.exp() * (self.odds_of_query >= 0)[:, :, None]
        return place, odds, odds * table, torch.isin(self.odds_of_query, self.untold_odds)[:, :, None]

    def _is_separable(self, outputs: Tensor) -> bool:
        """Whether odds have factors, and none are clamped."""
        if not outputs.numel() or not self._has_factors():
            return False
        return bool(outputs.abs().max() + self.table.abs().max() <= LARGEST)

    def _nats_separately(self, b: Tensor, posterior: Tensor) -> Tensor:
        """The information (B, Q) from b (B, A) alone, for odds that have factors: sums over labels are products of
        matrices, one of each query, a few queries at a time."""
        factors = self._of_labels or self._factors_of_labels()
        b, posterior = b.float().T.contiguous(), posterior.T.contiguous()  # the B numbers of an answer lie together
        at_once = max(1, AT_ONCE // max(1, len(posterior), factors[0].shape[1]) // b.shape[1])
        parts = zip(*(factor.split(at_once) for factor in factors), strict=True)
        with torch.autocast(b.device.type, enabled=False):
            return torch.cat([self._nats_of(b, posterior, *part) for part in parts]).T

    def _nats_of(
        self, b: Tensor, posterior: Tensor, place: Tensor, odds: Tensor, logs: Tensor, is_untold: Tensor
    ) -> Tensor:
        """The information (q, B) of some queries, from b (A, B), the posterior (C, B) and their part of the labels'
        factors."""
        of_history = b.index_select(0, place.flatten()).unflatten(0, place.shape).exp_()  # (q, K, B)
        total = torch.baddbmm(b.new_ones(()), odds.mT, of_history)  # (q, C, B)
        log_total = total.log()
        share = torch.div(posterior, total, out=total)
        noise = (log_total * posterior).sum(dim=1)  # (q, B)
        mixed = odds @ share  # (q, K, B): P(a | S) but for the factor of the history, as what follows
        seen = torch.baddbmm(mixed.clamp(min=TINY).log_().mul_(mixed), logs, share, beta=-1)
        if len(self.untold):
            noise -= (odds @ share.mul_(log_total)).mul_(of_history).mul_(is_untold).sum(dim=1)
            seen.mul_(~is_untold)
        first = (1 - mixed.mul_(of_history).sum(dim=1)).clamp_(min=0)
        return (seen.mul_(of_history).sum(dim=1) + torch.special.entr(first) - noise).clamp_(min=0)

    def _log_odds(self, outputs: Tensor, label_vectors: Tensor, table: Tensor) -> Tensor:
        """The log odds of all answers (B, A, c) under the labels of these vectors and columns of the table: all labels,
        or some of each row, (B, c, rank) and (B, A, c)."""
        b, u = self._terms(outputs)
        log_odds = (u @ label_vectors.mT.to(u.dtype)).float()
        return log_odds.add_(table).add_(b[:, :, None]).clamp_(-LARGEST, LARGEST)

    def _by_query(self, values: Tensor, dim: int = 1) -> Tensor:
        """Sum over the answers of each query: (B, A, ...) to (B, Q, ...), or along another dimension."""
        if self.has_one_odds_each:
            return values
        total = values.new_zeros(*values.shape[:dim], self.n_queries, *values.shape[dim + 1 :])
        if values.numel() >= FEW_VALUES * self.n_odds:
            return total.index_add(dim, self.query_of, values)
        # index_add works answer by answer, which is slow where each has few values.
        place = self.query_of.view(-1, *[1] * (values.dim() - dim - 1))
        return total.scatter_add(dim, place.expand_as(values), values)

    def _of_query(self, values: Tensor) -> Tensor:
        """The value of its query for each answer: (B, Q, ...) to (B, A, ...)."""
        return values if self.has_one_odds_each else values.index_select(1, self.query_of)

    @torch.no_grad()
    def after_answers(self, outputs: Tensor, log_posterior: Tensor, query: int) -> tuple[Tensor, Tensor]:
        """The probability of each possible answer to a query (B, k) and the posterior after it (B, k, C), by Bayes.
        "No answer", if possible, comes last."""
        own = (self.query_of == query).nonzero()[:, 0]
        log_odds = self._log_odds(outputs, self.label_vectors, self.table)[:, own]
        log_odds = F.pad(log_odds, (0, 0, 1, 0))  # those of the first answer are 0
        log_joint = log_odds.log_softmax(dim=1) + log_posterior.float()[:, None]  # (B, k, C)
        log_probability = log_joint.logsumexp(dim=2)
        return log_probability.exp(), (log_joint - log_probability[:, :, None]).exp()

    @torch.no_grad()
    def answer_surprise(self, outputs: Tensor, log_posterior: Tensor, x: Tensor, query: Tensor) -> Tensor:
        """The surprise of the answer of each row of `x` to its `query` (B,), its expectation and its variance: (B, 3),
        in nats. It is conditional on there being an answer, unless classifiers see "no answer"."""
        own = self.odds_of_query[query]  # (B, K), -1 behind the last
        is_real, place = own >= 0, own.clamp(min=0)
        b, u = self._terms(outputs)
        rows = torch.arange(len(query), device=query.device)[:, None]
        log_odds = u[rows, place].float() @ self.label_vectors.T + self.table[place] + b[rows, place][:, :, None]
        log_odds = log_odds.clamp(-LARGEST, LARGEST).masked_fill(~is_real[:, :, None], -torch.inf)  # (B, K, C)
        log_share = F.pad(log_odds, (0, 0, 1, 0)).log_softmax(dim=1)  # log P(a | y, S)
        log_p = (log_share + log_posterior.float()[:, None]).logsumexp(dim=2)  # (B, K + 1)
        log_p[:, 1:].masked_fill_(torch.isin(place, self.untold_odds) & is_real, -torch.inf)
        log_p = log_p.log_softmax(dim=1)
        held = self.outcomes.held(query[:, None], x.flatten(1), rows[:, 0])[1]  # at most one
        given_none = is_real.sum(dim=1) * self.is_told[query]  # the last answer, if there is that one
        answer = torch.where(held.any(dim=1), held.int().argmax(dim=1), given_none)
        p, surprise = log_p.exp(), -log_p.clamp(min=-LARGEST)
        expected = (p * surprise).sum(dim=1)
        variance = (p * surprise**2).sum(dim=1) - expected**2
        return torch.stack([surprise.gather(1, answer[:, None])[:, 0], expected, variance.clamp(min=0)], dim=1)

    @cached_property
    def odds_of_query(self) -> Tensor:
        """The log odds of each query (Q, K), -1 behind the last."""
        own: list[list[int]] = [[] for _ in range(self.n_queries)]
        for place, query in enumerate(self.query_of.tolist()):
            own[query].append(place)
        longest = max(1, *map(len, own))
        padded = [[*places, *[-1] * (longest - len(places))] for places in own]
        return torch.tensor(padded, device=self.query_of.device)

    def possible_answers(self, outputs: Tensor, log_posterior: Tensor, query: int) -> tuple[PossibleAnswer, ...]:
        """The possible answers to a query in a single history, in words, each with the posterior after it."""
        probability, posterior = (part[0] for part in self.after_answers(outputs, log_posterior, query))
        texts = self.outcomes.describe(query)
        if len(probability) > len(texts):
            texts.append(NOT_GIVEN_TEXT if self.is_told[query] else NO_ANSWER)
            if not self.is_told[query]:
                posterior[-1] = log_posterior[0].exp()  # which the classifier does not see
        return tuple(map(PossibleAnswer, texts, probability.tolist(), posterior))

    def to_config(self) -> dict[str, Any]:
        return {
            "settings": to_config(self.settings),
            "n_values": self.outcomes.n_values,
            "maybe_missing": self.maybe_missing.tolist(),
        }

    @classmethod
    def from_config(cls, query_set: QuerySet, n_classes: int, config: dict[str, Any]) -> "AnswerModel":
        """The model that `to_config` described, with tensors of the shapes of those saved."""
        outcomes, missing = AnswerValues(query_set, config["n_values"]), config["maybe_missing"]
        if not {*missing} <= {*range(len(query_set))}:
            raise ValueError("maybe_missing has the places of queries")
        return cls(outcomes, n_classes, missing, settings_from(config["settings"], AnswerSettings))


def told_if_missing(query_set: QuerySet) -> Tensor:
    """Which queries (Q,) may be answered "not given"."""
    return torch.tensor([query.may_be_missing for query in query_set.queries])
