"""What would be answered, and how much that would tell: the answer model.

For every query with a list of possible answers, the model gives P(a | y, S): the probability of each answer a if the
label were y, given the history S. With the posterior p(y | S) of a classifier, the information that the answer is
expected to bring about the label follows in closed form, for all queries at once,

    I(A; Y | S) = H(A | S) - sum over y of p(y | S) H(A | y, S)

and so does what each answer would do to the belief, by Bayes: p(y | S, a) ~ p(y | S) P(a | y, S).

The log odds of an answer, relative to the first one of its query, are

    table[a, y] + b_a(S) + u_a(S) . v_y

The table starts from counts, so that with few rows the model behaves like naive Bayes. A network reads the history and
gives b and u, which say how answers depend on one another; v_y is a vector of `rank` numbers for each label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.data.rows import Rows
from pursuit.inference.pursuer import NO_ANSWER, PossibleAnswer
from pursuit.queries import QuerySet
from pursuit.queries.outcomes import Outcomes
from pursuit.registry import from_config, register, to_config

WHO = "An answer model"
LARGEST = 30.0
"""Log odds beyond this are as good as certain."""
AT_ONCE, AT_ONCE_ON_GPU = 2**17, 2**27
"""About how many log odds are computed at once: on a CPU as many as stay in its cache."""
COUNTED_AT_ONCE = 4096


@register
@dataclass(frozen=True)
class AnswerSettings:
    """How an answer model is made."""

    rank: int = 8
    """In how many ways the answers so far may change what a label says of those to come; 0: in none."""
    n_bins: int = 8
    """How many intervals numbers are put into, with equally many rows in each."""
    smoothing: float = 2.0
    """How many rows of the average label are added to those counted for each label."""

    def __post_init__(self) -> None:
        if self.rank < 0 or self.n_bins < 2 or not self.smoothing > 0:
            raise ValueError(
                f"An answer model has a rank of 0 or more, at least 2 intervals and a smoothing above 0, not {self}."
            )


class AnswerModel(nn.Module):
    """P(answer | label, history) of all queries, from the outputs of a network that reads the history.

    A query of k possible answers has k - 1 log odds, A in all. Where rows of training lack the answer to a query,
    whether it will be answered has log odds too. These do not depend on the label, because a missing answer leaves the
    belief as it was.
    """

    further: Tensor
    query_of: Tensor
    maybe_missing: Tensor

    def __init__(
        self, outcomes: Outcomes, n_classes: int, maybe_missing: Sequence[int], settings: AnswerSettings | None = None
    ):
        super().__init__()
        self.outcomes, self.settings = outcomes, settings or AnswerSettings()
        self.n_queries, self.n_odds = len(outcomes.n_values), len(outcomes) - len(outcomes.n_values)
        is_further = torch.ones(len(outcomes), dtype=torch.bool)
        is_further[outcomes.values_of_unit[:, 0]] = False
        further = is_further.nonzero()[:, 0]
        missing = torch.tensor(list(maybe_missing), dtype=torch.long)
        for name, tensor in (
            ("further", further),  # (A,) values besides the first of their query
            ("query_of", outcomes.unit_of_value[further]),  # (A,)
            ("maybe_missing", missing),  # (M,) queries
        ):
            self.register_buffer(name, tensor, persistent=False)
        self.table = nn.Parameter(torch.zeros(self.n_odds, n_classes))
        self.label = nn.Parameter(torch.randn(n_classes, self.settings.rank) * 0.3)
        self.answered = nn.Parameter(torch.zeros(len(missing)))

    @classmethod
    def count(
        cls, query_set: QuerySet, n_classes: int, rows: Rows, settings: AnswerSettings | None = None
    ) -> "AnswerModel":
        """A model whose table is counted from rows."""
        if not query_set.has_own_units:
            raise ValueError(
                f"{WHO} needs queries that each have a list of answers of their own (columns, words or concepts), not "
                f"{query_set}: use querier='straight-through', without cost_aware."
            )
        settings = settings or AnswerSettings()
        outcomes = Outcomes.listed(query_set, rows.x, rows.available, settings.n_bins, WHO)
        maybe_missing = (~rows.available).any(dim=0).nonzero()[:, 0].tolist()
        model = cls(outcomes, n_classes, maybe_missing, settings)
        model._count(rows)
        return model

    @torch.no_grad()
    def _count(self, rows: Rows) -> None:
        members = F.one_hot(rows.y, self.table.shape[1]).float()  # (N, C)
        counts = torch.zeros(len(self.outcomes), self.table.shape[1])  # (V, C)
        for part in torch.arange(len(rows)).split(COUNTED_AT_ONCE):
            holds = self.outcomes.holds(rows.x[part]) & rows.available[part][:, self.outcomes.unit_of_value]
            counts += holds.float().T @ members[part]
        overall = counts.sum(dim=1, keepdim=True) + 1 / len(rows)  # an answer that never came is not impossible
        average = overall / self.outcomes.by_unit(overall.T).T[self.outcomes.unit_of_value]  # (V, 1)
        counts += self.settings.smoothing * average
        share = counts / self.outcomes.by_unit(counts.T).T[self.outcomes.unit_of_value]  # P(answer | label)
        # So log odds stay far from LARGEST, where frequent answers beside a first one that never came look alike.
        log_share = share.log().clamp(min=-LARGEST / 2)
        first = log_share[self.outcomes.values_of_unit[:, 0]]  # (Q, C)
        self.table.copy_(log_share[self.further] - first[self.query_of])
        n_answered = rows.available[:, self.maybe_missing].float().sum(dim=0)
        self.answered.copy_(((n_answered + 0.5) / (len(rows) - n_answered + 0.5)).log())

    @property
    def n_outputs(self) -> int:
        """How many numbers the network gives for a history."""
        return self.n_odds * (1 + self.settings.rank) + len(self.answered)

    def _terms(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """b (B, A), u (B, A, rank) and the log odds of having an answer (B, M), from the network's outputs."""
        sizes = [self.n_odds, self.n_odds * self.settings.rank, len(self.answered)]
        b, u, answered = outputs.split(sizes, dim=1)
        return b.float(), u.unflatten(1, (self.n_odds, self.settings.rank)), answered.float() + self.answered

    def loss(self, outputs: Tensor, x: Tensor, y: Tensor, available: Tensor, asked: Tensor) -> Tensor:
        """How surprising the answers to all queries not yet `asked` are if the label is `y`: nats a query."""
        b, u, answered = self._terms(outputs)
        log_odds = self.table.T[y] + b + (u.float() * self.label[y][:, None]).sum(dim=2)
        log_odds = log_odds.clamp(-LARGEST, LARGEST)  # (B, A)
        holds = self.outcomes.holds(x)[:, self.further]
        log_probability = self._by_query(log_odds * holds) - (1 + self._by_query(log_odds.exp())).log()
        # Every parameter has its part in the loss, even an empty one: processes that train together wait for all.
        there, unasked = available[:, self.maybe_missing], ~asked[:, self.maybe_missing]
        surprise = F.binary_cross_entropy_with_logits(answered, there.float(), reduction="none")
        loss = (surprise * unasked).sum() - (log_probability * (available & ~asked)).sum()
        return loss / (~asked).sum().clamp(min=1)

    @torch.no_grad()
    def information(self, outputs: Tensor, log_posterior: Tensor) -> Tensor:
        """The expected information (B, Q) of every answer about the label, in bits, at a belief (B, C)."""
        at_once = max(1, (AT_ONCE_ON_GPU if outputs.is_cuda else AT_ONCE) // max(1, self.table.numel()))
        parts = zip(outputs.split(at_once), log_posterior.float().exp().split(at_once), strict=True)
        return torch.cat([self._nats(*part) for part in parts]) / math.log(2)

    def _nats(self, outputs: Tensor, posterior: Tensor) -> Tensor:
        b, u, answered = self._terms(outputs)
        log_odds = self._log_odds(b, u)  # (B, A, C)
        odds = log_odds.exp()
        total = 1 + self._by_query(odds)  # (B, Q, C)
        share = odds.div_(self._of_query(total))  # P(a | y, S)
        noise = total.log_().sub_(self._by_query(log_odds.mul_(share)))  # H(A | y, S)
        # In full precision: information may be the small difference of large entropies.
        with torch.autocast(outputs.device.type, enabled=False):
            mixed, expected_noise = ((part @ posterior[:, :, None])[:, :, 0] for part in (share, noise))
        first = (1 - self._by_query(mixed)).clamp(min=0)
        entropy = self._by_query(torch.special.entr(mixed)) + torch.special.entr(first)  # H(A | S)
        nats = (entropy - expected_noise).clamp_(min=0)
        return nats.index_copy(1, self.maybe_missing, nats[:, self.maybe_missing] * answered.sigmoid())

    def _log_odds(self, b: Tensor, u: Tensor) -> Tensor:
        """(B, A, C)"""
        log_odds = (u @ self.label.T.to(u.dtype)).float()
        return log_odds.add_(self.table).add_(b[:, :, None]).clamp_(-LARGEST, LARGEST)

    @property
    def _has_one_odds_each(self) -> bool:
        """Whether every query has two possible answers: A is Q, and in the same order."""
        return set(self.outcomes.n_values) == {2}

    def _by_query(self, values: Tensor) -> Tensor:
        """The sum over the further answers of each query: (B, A, ...) to (B, Q, ...)."""
        if self._has_one_odds_each:
            return values
        total = torch.zeros(len(values), self.n_queries, *values.shape[2:], dtype=values.dtype, device=values.device)
        return total.index_add(1, self.query_of, values)

    def _of_query(self, values: Tensor) -> Tensor:
        """What belongs to its query, for each further answer: (B, Q, ...) to (B, A, ...)."""
        return values if self._has_one_odds_each else values[:, self.query_of]

    @torch.no_grad()
    def after_answers(self, outputs: Tensor, log_posterior: Tensor, query: int) -> tuple[Tensor, Tensor]:
        """The probability of each possible answer to a query (B, k), if it has one, and the belief after it (B, k, C),
        by Bayes."""
        b, u, _ = self._terms(outputs)
        own = (self.query_of == query).nonzero()[:, 0]
        log_odds = F.pad(self._log_odds(b, u)[:, own], (0, 0, 1, 0))  # those of the first answer are 0
        log_joint = log_odds.log_softmax(dim=1) + log_posterior.float()[:, None]  # (B, k, C)
        log_probability = log_joint.logsumexp(dim=2)
        return log_probability.exp(), (log_joint - log_probability[:, :, None]).exp()

    @torch.no_grad()
    def possible_answers(self, outputs: Tensor, log_posterior: Tensor, query: int) -> tuple[PossibleAnswer, ...]:
        """What may be answered to a query in a single history, in words, and the belief after it."""
        probability, posterior = self.after_answers(outputs, log_posterior, query)
        texts = self.outcomes.describe(query)
        _, _, answered = self._terms(outputs)
        place = (self.maybe_missing == query).nonzero()[:, 0]
        is_answered = float(answered[0, place[0]].sigmoid()) if len(place) else 1.0
        possible = [
            PossibleAnswer(text, is_answered * float(p), after)
            for text, p, after in zip(texts, probability[0], posterior[0], strict=True)
        ]
        if len(place):
            possible.append(PossibleAnswer(NO_ANSWER, 1 - is_answered, log_posterior[0].float().exp()))
        return tuple(possible)

    def to_config(self) -> dict[str, Any]:
        return {
            "settings": to_config(self.settings),
            "n_values": self.outcomes.n_values,
            "maybe_missing": self.maybe_missing.tolist(),
        }

    @classmethod
    def from_config(cls, query_set: QuerySet, n_classes: int, config: dict[str, Any]) -> "AnswerModel":
        """What `to_config` described, with tensors of the right shapes for those saved."""
        outcomes = Outcomes(query_set, config["n_values"], WHO)
        return cls(outcomes, n_classes, config["maybe_missing"], from_config(config["settings"]))
