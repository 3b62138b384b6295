"""Naive Bayes: Information Pursuit in closed form, with probabilities counted from rows.

Answers are made of units, taken to be independent given the label: a column is a unit of its own, while a patch shows
one for every pixel, and a pixel that was seen before tells nothing new. A unit has one of a list of values; numbers are
put into intervals.

    P(y | S) ~ P(y) prod over known units of P(value | y),      I(q; Y | S) = H(q | S) - H(q | Y, S)

Scores are this information in bits, or in bits for each unit of cost.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.estimators import MethodClassifier, method
from pursuit.estimators.tuned import OneOf, Ranges, Span
from pursuit.inference.history import History
from pursuit.inference.incremental import EvidenceState, HistoryState
from pursuit.inference.pursuer import Labels, PossibleAnswer, answers_by_joint, per_cost
from pursuit.inference.stopping import BIT
from pursuit.queries import QuerySet
from pursuit.queries.answer_values import AnswerValues
from pursuit.registry import register, settings_from, to_config
from pursuit.training import TrainingRun
from pursuit.training.rows import Rows, RowSource, rows_in_memory

COUNTED_ROWS = 500_000
"""The most rows that are counted where they are not in memory."""
MOST_OUTCOMES = 512
"""The most answers to one query that are summed over: 3x3 pixels of two values, or 2x2 of four."""
MOST_BINS = 2**14
CHUNK_BYTES = 2**28
"""About how much memory the probabilities of outcomes may take at a time."""
TUNABLE: Ranges = {"smoothing": Span(0.01, 10.0), "n_bins": OneOf((4, 8, 16))}
"""The search space of `pursuit tune`."""


@register
@dataclass(frozen=True)
class NaiveBayesSettings:
    smoothing: float = 1.0
    """Added to the count of every answer under every label."""
    n_bins: int = 8
    """Number of intervals of a number: columns with equally many rows in each; shades of pixels of equal width,
    and fewer of them where the answers to a patch would be too many to sum over."""
    cost_aware: bool = False
    """Whether to ask by information for each unit of the query's cost, instead of by information alone."""

    def __post_init__(self) -> None:
        if not self.smoothing > 0:
            raise ValueError(f"smoothing is added to counts so that none is zero: above 0, not {self.smoothing}.")
        if not 2 <= self.n_bins <= MOST_BINS:
            raise ValueError(f"n_bins is a number of intervals, 2 to {MOST_BINS:,}, not {self.n_bins}.")


class Likelihoods(NamedTuple):
    """What does not depend on histories."""

    of_value: Tensor  # (C, V)
    noise: Tensor  # (C, U) entropy if the label were known
    of_answer: Tensor | None  # of queries that show several units, `answer_likelihood()`


@register
class NaiveBayesIP(nn.Module):
    """Asks the query with the most information about the label, if units are independent given the label.

    The units have V values in all, listed by `outcomes`.
    """

    may_be_infinite: ClassVar[tuple[str, ...]] = ("log_prior", "log_likelihood")
    """Answers that never occur have probability zero."""

    registry_kind: ClassVar[str] = "pursuer"
    log_prior: Tensor
    log_likelihood: Tensor
    units_of_query: Tensor

    def __init__(
        self, query_set: QuerySet, classes: Labels, outcomes: AnswerValues, settings: NaiveBayesSettings | None = None
    ):
        super().__init__()
        self.query_set, self.classes, self.outcomes = query_set, classes, outcomes
        self.settings = settings or NaiveBayesSettings()
        self.register_buffer("units_of_query", query_set.units.of_query.clone(), persistent=False)  # (Q, S)
        self.register_buffer("log_prior", torch.zeros(len(classes), dtype=torch.double))
        likelihood = torch.zeros(len(outcomes), len(classes), dtype=torch.double)
        self.register_buffer("log_likelihood", likelihood)  # (V, C)

    @classmethod
    def count(
        cls, query_set: QuerySet, classes: Labels, rows: Rows, settings: NaiveBayesSettings | None = None
    ) -> Self:
        """From frequencies in rows."""
        settings = settings or NaiveBayesSettings()
        n_bins = _n_bins(query_set, settings.n_bins)
        outcomes = AnswerValues.listed(query_set, rows.x, rows.available, n_bins)
        model = cls(query_set, classes, outcomes, settings)
        counts = torch.zeros_like(model.log_likelihood)
        at_once = max(1, CHUNK_BYTES // (16 * len(counts)))
        for start in range(0, len(rows), at_once):
            part = rows.take(slice(start, start + at_once))
            members = part.counted_labels(len(classes)).double()
            counts += model.holds(part.x, query_set.units.known(part.available)).T @ members
        counts += settings.smoothing
        model.log_likelihood.copy_((counts / outcomes.by_unit(counts.T).T[outcomes.unit_of_value]).log())
        model.log_prior.copy_(rows.prior(len(classes)).log())
        return model

    def holds(self, x: Tensor, seen: Tensor) -> Tensor:
        """1 for every value that a unit which is `seen` (B, U) has in `x`: (B, V), as double."""
        return (self.outcomes.holds(x) & seen[:, self.outcomes.unit_of_value]).double()

    def evidence(self, history: History) -> Tensor:
        """The log probability of every label together with what is known: (B, C)."""
        return self.holds(history.x, self.query_set.units.known(history.known)) @ self.log_likelihood + self.log_prior

    def log_posterior(self, history: History) -> Tensor:
        return self.evidence(history).log_softmax(dim=1)

    def scores(self, history: History) -> Tensor:
        return self.scored(self.information(self.log_posterior(history), self.query_set.units.known(history.known)))

    @property
    def score_unit(self) -> Literal["bits", "bits per cost"]:
        return "bits per cost" if self.settings.cost_aware else "bits"

    def scored(self, bits: Tensor) -> Tensor:
        """Scores (B, Q) from the information of every query (B, Q)."""
        return per_cost(bits, self.query_set.costs) if self.settings.cost_aware else bits

    def likelihoods(self) -> Likelihoods:
        of_value = self.log_likelihood.exp().T
        noise = self.outcomes.by_unit(torch.special.entr(of_value))
        return Likelihoods(of_value, noise, self.answer_likelihood() if self._shows_several else None)

    def information(self, log_posterior: Tensor, seen: Tensor, likelihoods: Likelihoods | None = None) -> Tensor:
        """The mutual information of the label and what each query shows (B, Q), in bits, at a log posterior (B, C).

        `seen` (B, U) are the units that are known; `likelihoods`, if given, are those of the model.
        """
        of_value, noise, answers = likelihoods or self.likelihoods()
        posterior = log_posterior.exp()
        noise = ((posterior @ noise) * ~seen)[:, self.units_of_query].sum(dim=2)
        if answers is None:
            entropy = self.outcomes.by_unit(torch.special.entr(posterior @ of_value)) * ~seen
            return (entropy[:, self.units_of_query[:, 0]] - noise) / BIT
        at_once = max(1, CHUNK_BYTES // (8 * answers.shape[1]))
        parts = zip(posterior.split(at_once), seen[:, self.units_of_query].split(at_once), strict=True)
        return (torch.cat([self._entropy(one @ answers, there) for one, there in parts]) - noise) / BIT

    def information_at(self, history: History, log_posterior: Tensor) -> Tensor:
        """The bits that each query is expected to give (B, Q) in these histories, at another belief (B, C)."""
        return self.information(log_posterior, self.query_set.units.known(history.known))

    @property
    def _shows_several(self) -> bool:
        """Whether queries show several units each."""
        return self.units_of_query.shape[1] > 1

    def answer_likelihood(self) -> Tensor:
        """P(answer | label) of all answers to all queries, (C, Q * K**S): S units of up to K values, the first
        slowest."""
        values = self.outcomes.values_of_unit  # (U, K)
        likelihood = self.log_likelihood.exp().T[:, values] * (values >= 0)  # (C, U, K)
        likelihood = likelihood[:, self.units_of_query]  # (C, Q, S, K)
        joint = torch.ones_like(likelihood[:, :, 0, :1])
        for i in range(likelihood.shape[2]):
            joint = (joint[..., None] * likelihood[:, :, i, None]).flatten(2)
        return joint.flatten(1)

    def _entropy(self, answer: Tensor, seen: Tensor) -> Tensor:
        """The entropy (B, Q) in nats of what queries show besides units already `seen` (B, Q, S), from
        P(answer | history) (B, Q * K**S), which is overwritten."""
        n_rows, n_queries, n_units = seen.shape
        n_values, answer = self.outcomes.values_of_unit.shape[1], answer.view(n_rows, n_queries, -1)
        for i in range(n_units):
            values = answer.view(n_rows, n_queries, n_values**i, n_values, -1)
            # What is seen is summed out: given the label, units are independent.
            is_seen = seen[:, :, i, None, None].double()
            values[:, :, :, 0] += is_seen * values[:, :, :, 1:].sum(dim=3)
            values[:, :, :, 1:] *= 1 - is_seen[..., None]
        return torch.special.entr(answer).sum(dim=2)

    def possible_answers(self, history: History, query: int) -> tuple[PossibleAnswer, ...]:
        """The possible answers to `query` in a history of one row; none if queries show several units."""
        if self._shows_several:
            return ()
        values, posterior = self.outcomes.values_of_query(query), self.log_posterior(history)[0].exp()
        held = self.holds(history.x, self.query_set.units.known(history.known))[0, values, None]
        # Another query may have shown the unit already: then its answer is certain.
        likelihood = held if held.any() else self.log_likelihood[values].exp()  # (k, C), or (k, 1)
        return answers_by_joint(self.outcomes.describe(query), likelihood * posterior)

    def history_state(self, history: History) -> HistoryState:
        return _EvidenceState(self, history, self.likelihoods())

    def to_config(self) -> dict[str, Any]:
        return {"n_values": self.outcomes.n_values, "settings": to_config(self.settings)}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        outcomes = AnswerValues(query_set, config["n_values"])
        return cls(query_set, classes, outcomes, settings_from(config["settings"], NaiveBayesSettings))


class _EvidenceState(EvidenceState):
    """Each unit that is seen for the first time adds its own evidence."""

    def __init__(self, model: NaiveBayesIP, history: History, likelihoods: Likelihoods):
        self._model, self._x, self._likelihoods = model, history.x.flatten(1), likelihoods
        self._rows = torch.arange(len(history), device=history.x.device)
        self._asked = history.asked.clone()  # (B, Q)
        self._seen = model.query_set.units.known(history.known).clone()  # (B, U)
        self._evidence = model.evidence(history)  # (B, C)

    def scores(self) -> Tensor:
        return self._model.scored(self._model.information(self.log_posterior(), self._seen, self._likelihoods))

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._asked.scatter_(1, query[:, None], True)
        units = self._model.units_of_query[query]  # (B, S)
        values, holds = self._model.outcomes.held(units, self._x, self._rows)
        is_new = answered[:, None] & ~self._seen.gather(1, self._model.outcomes.unit_of_value[values])
        weights = (holds & is_new).double()
        self._evidence += F.embedding_bag(values, self._model.log_likelihood, per_sample_weights=weights, mode="sum")
        self._seen.scatter_(1, units, self._seen.gather(1, units) | answered[:, None])

    def restart(self, history: History) -> HistoryState:
        return _EvidenceState(self._model, history, self._likelihoods)

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        self._seen = self._seen[rows]


def _n_bins(query_set: QuerySet, n_bins: int) -> int:
    """Number of intervals, at most `n_bins`, for which all answers to a query can be summed over."""
    units = query_set.units
    features, types, n_units = units.features, units.feature_types, units.of_query.shape[1]
    if n_units == 1:
        return n_bins
    n_choices = max([2, *(len(own) for own in features if types[own[0]] == "choice")])
    if n_choices**n_units > MOST_OUTCOMES:
        raise ValueError(
            f"A query that shows {n_units} units of {n_choices} or more values has more than {MOST_OUTCOMES} answers, "
            "too many to sum over: use queries that show less, such as patches of up to 3x3 pixels in one channel."
        )
    return max(n for n in range(2, n_bins + 1) if n**n_units <= MOST_OUTCOMES)


@method("naive-bayes", "naive-Bayes IP")
@dataclass(kw_only=True, eq=False, repr=False)
class NaiveBayesIPClassifier(MethodClassifier):
    """Information Pursuit as if answers were independent given the label. Of rows in memory all are counted, and
    nothing is random."""

    uses_weights = True
    tunable = TUNABLE

    Settings = NaiveBayesSettings
    settings: NaiveBayesSettings | None = None
    """Smoothing, bins of numbers, and whether queries are chosen by bits per unit of cost."""

    def learn(self, query_set: QuerySet, rows: RowSource, seed: int, run: TrainingRun) -> NaiveBayesIP:
        counted = rows_in_memory(rows, COUNTED_ROWS, seed)
        return NaiveBayesIP.count(query_set, self.classes_, counted, self.chosen_settings)
