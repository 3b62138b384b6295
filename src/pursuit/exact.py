"""Exact Information Pursuit, where the distribution of answers and labels is known: a pursuer, and the judge of V-IP.

Both pursuers work on column queries whose answers are choices. Their scores are the mutual information I(answer;
label | history) of each query in bits; with `cost_aware`, in bits for each unit of the query's cost.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.incremental import EvidenceState, HistoryState
from pursuit.inference.pursuer import Labels, PossibleAnswer, answers_by_joint, per_cost
from pursuit.inference.stopping import BIT
from pursuit.queries import Choice, ColumnQueries

TINY = 1e-12
"""The least probability that is distinguished from zero, so that an impossible answer leaves some label possible."""


class _Choices(nn.Module):
    """What the exact pursuers share: answers as indicators, one for every choice of every query (A in all)."""

    query_of: Tensor
    feature_of: Tensor
    sign: Tensor
    spans: Tensor

    def __init__(self, query_set: ColumnQueries, classes: Labels, cost_aware: bool = False):
        super().__init__()
        numbers = [query.name for query in query_set.queries if not isinstance(query, Choice)]
        if numbers:
            raise ValueError(
                f"Exact pursuit needs queries with a list of answers, but '{numbers[0]}' is answered by a number."
            )
        self.query_set, self.classes, self.cost_aware = query_set, classes, cost_aware
        n_choices = torch.tensor([len(query.choices) for query in query_set.queries])
        first = n_choices.cumsum(dim=0) - n_choices
        query_of = torch.arange(len(query_set)).repeat_interleave(n_choices)
        number = torch.arange(len(query_of)) - first[query_of]  # of a choice among those of its query
        is_yes_no = (n_choices == 2)[query_of]
        # A choice holds where its feature times its sign is above zero: -1 is the no of a yes/no query, and 1 its yes.
        feature_of = torch.tensor(query_set.own_inputs.starts)[query_of] + number * ~is_yes_no
        sign = 1.0 - 2.0 * (is_yes_no & (number == 0))
        spans = torch.stack([first, n_choices])
        for name, tensor in (("query_of", query_of), ("feature_of", feature_of), ("sign", sign), ("spans", spans)):
            self.register_buffer(name, tensor, persistent=False)  # (A,) each, but for (2, Q) spans

    @property
    def score_unit(self) -> Literal["bits", "bits per cost"]:
        return "bits per cost" if self.cost_aware else "bits"

    def scored(self, bits: Tensor) -> Tensor:
        """Scores (B, Q) from the information of every query (B, Q)."""
        return per_cost(bits, self.query_set.costs) if self.cost_aware else bits

    def indicators(self, x: Tensor) -> Tensor:
        """The answers `x` as 0 or 1 for every choice (B, A), as double."""
        return (x[:, self.feature_of] * self.sign > 0).double()

    def known_answers(self, history: History) -> Tensor:
        """1 for every choice that is the known answer to its query: (B, A)."""
        return self.indicators(history.x) * history.known[:, self.query_of]

    def by_query(self, values: Tensor) -> Tensor:
        """Sum (B, A) over the choices of each query: (B, Q)."""
        total = torch.zeros(len(values), len(self.query_set), dtype=values.dtype, device=values.device)
        return total.index_add(1, self.query_of, values)

    def choices_of(self, query: int) -> slice:
        """Where the choices of a query stand among those of all queries."""
        first, n_choices = self.spans[:, query].tolist()
        return slice(first, first + n_choices)


class IndependentIP(_Choices):
    """Exact IP where answers are independent given the label: two matrix products a step.

    `prior` is (C,) and `likelihood` (C, A) holds P(choice | label), the choices of one query after the other in the
    order of the query set; `from_yes` takes P(yes | label) (C, Q) where all queries are yes/no.
    """

    prior: Tensor
    likelihood: Tensor
    log_likelihood: Tensor
    noise: Tensor

    def __init__(
        self, query_set: ColumnQueries, classes: Labels, prior: Tensor, likelihood: Tensor, cost_aware: bool = False
    ):
        super().__init__(query_set, classes, cost_aware)
        likelihood = likelihood.double()
        if likelihood.shape != (len(classes), len(self.query_of)):
            raise ValueError(
                f"likelihood must have shape {(len(classes), len(self.query_of))}, a probability for every class and "
                f"choice, not {tuple(likelihood.shape)}."
            )
        if not torch.allclose(self.by_query(likelihood), torch.ones(1, dtype=torch.double), atol=1e-6):
            raise ValueError("The probabilities of a query's choices must sum to one for every class.")
        self.register_buffer("prior", prior.double())
        self.register_buffer("likelihood", likelihood)
        self.register_buffer("log_likelihood", likelihood.clamp(min=TINY).log())
        # (C, Q): the entropy of each answer in nats, if the label were known
        self.register_buffer("noise", self.by_query(torch.special.entr(likelihood)))

    @classmethod
    def from_yes(
        cls, query_set: ColumnQueries, classes: Labels, prior: Tensor, yes: Tensor, cost_aware: bool = False
    ) -> "IndependentIP":
        """From P(yes | label) (C, Q) of yes/no queries."""
        return cls(query_set, classes, prior, torch.stack([1 - yes, yes], dim=2).flatten(1), cost_aware)

    def log_posterior(self, history: History) -> Tensor:
        return self.evidence(history).log_softmax(dim=1)

    def evidence(self, history: History) -> Tensor:
        """The log probability of every label together with what is known: (B, C)."""
        return self.known_answers(history) @ self.log_likelihood.T + self.prior.clamp(min=TINY).log()

    def scores(self, history: History) -> Tensor:
        return self.scored(self.information(self.log_posterior(history)))

    def information(self, log_posterior: Tensor) -> Tensor:
        """The mutual information of every query (B, Q) in bits, at a belief (B, C)."""
        posterior = log_posterior.exp()
        answer = posterior @ self.likelihood  # (B, A): P(choice | history)
        return (self.by_query(torch.special.entr(answer)) - posterior @ self.noise) / BIT

    def information_at(self, history: History, log_posterior: Tensor) -> Tensor:
        """The same, whatever the history is: answers are independent given the label."""
        return self.information(log_posterior)

    def possible_answers(self, history: History, query: int) -> tuple[PossibleAnswer, ...]:
        """What may be answered to `query` in a history of one row."""
        posterior = self.log_posterior(history)[0].exp()
        likelihood = self.likelihood[:, self.choices_of(query)].T  # (choices, C)
        return answers_by_joint(self.query_set.queries[query].choices, likelihood * posterior)

    def history_state(self, history: History) -> HistoryState:
        """Answer by answer. A subclass with other scores or posteriors must override this too."""
        return _EvidenceState(self, history)


class _EvidenceState(EvidenceState):
    """Each answer adds its own evidence to the log posterior."""

    def __init__(self, pursuer: IndependentIP, history: History):
        self._exact, self._x, self._rows = pursuer, history.x, torch.arange(len(history), device=history.x.device)
        self._asked, self._evidence = history.asked.clone(), pursuer.evidence(history)  # (B, Q), (B, C)
        self._log_likelihood = pursuer.log_likelihood.T.contiguous()  # (A, C)

    def scores(self) -> Tensor:
        return self._exact.scored(self._exact.information(self.log_posterior()))

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._asked.scatter_(1, query[:, None], True)
        first, n_choices = self._exact.spans[:, query, None]  # (B, 1) each
        further = torch.arange(int(self._exact.spans[1].max()), device=query.device)
        there = (further < n_choices) & answered[:, None]
        choices = torch.where(there, first + further, 0)  # (B, most choices)
        x = self._x[self._rows[:, None], self._exact.feature_of[choices]]
        holds = (x * self._exact.sign[choices] > 0) & there
        self._evidence += F.embedding_bag(choices, self._log_likelihood, per_sample_weights=holds.double(), mode="sum")

    def restart(self, history: History) -> HistoryState:
        return _EvidenceState(self._exact, history)


class TableIP(_Choices):
    """Exact IP where the joint distribution is a table: W possible worlds, each with its answers and label weights.

    `x` (W, *answer_shape) has the answers in each world and `weights` (W, C) the probability of that world with each
    label.
    """

    weights: Tensor
    world: Tensor

    def __init__(self, query_set: ColumnQueries, classes: Labels, x: Tensor, weights: Tensor, cost_aware: bool = False):
        super().__init__(query_set, classes, cost_aware)
        self.register_buffer("world", self.indicators(x))  # (W, A)
        self.register_buffer("weights", weights.double() / weights.double().sum())

    def _agrees(self, history: History) -> Tensor:
        """1 for every world that agrees with the history: (B, W)."""
        answers = self.known_answers(history)  # (B, A)
        return ((answers @ self.world.T).round() == history.known.sum(dim=1, keepdim=True)).double()

    def log_posterior(self, history: History) -> Tensor:
        labels = self._agrees(history) @ self.weights + TINY * self.weights.sum(dim=0)
        return (labels / labels.sum(dim=1, keepdim=True)).log()

    def possible_answers(self, history: History, query: int) -> tuple[PossibleAnswer, ...]:
        """What may be answered to `query` in a history of one row; nothing where no world agrees with the history."""
        weights = self._agrees(history).T * self.weights  # (W, C)
        joint = self.world[:, self.choices_of(query)].T @ weights
        return answers_by_joint(self.query_set.queries[query].choices, joint / weights.sum().clamp(min=TINY))

    def scores(self, history: History) -> Tensor:
        agrees = self._agrees(history)
        label = agrees @ self.weights  # (B, C)
        total = label.sum(dim=1, keepdim=True).clamp(min=TINY)
        label = label / total
        joint = torch.stack([(agrees * weight) @ self.world / total for weight in self.weights.T])  # (C, B, A)
        # I(answer; label) = H(answer) + H(label) - H(answer, label)
        of_choices = torch.special.entr(joint.sum(dim=0)) - torch.special.entr(joint).sum(dim=0)
        return self.scored((self.by_query(of_choices) + torch.special.entr(label).sum(dim=1, keepdim=True)) / BIT)
