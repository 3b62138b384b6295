"""Exact Information Pursuit, where the distribution of answers and labels is known: a pursuer, and the judge of V-IP.

Both pursuers work on column queries whose answers are choices. Their scores are the mutual information I(answer;
label | history) of each query in nats.
"""

import torch
from torch import Tensor, nn

from pursuit.history import History
from pursuit.pursuer import Labels
from pursuit.queries import Choice, ColumnQueries

TINY = 1e-12
"""The least probability that is told from zero, so that an impossible answer does not leave every label impossible."""


class _Choices(nn.Module):
    """What the exact pursuers share: answers as indicators, one for every choice of every query (A in all)."""

    query_of: Tensor

    def __init__(self, query_set: ColumnQueries, classes: Labels):
        super().__init__()
        numbers = [query.name for query in query_set.queries if not isinstance(query, Choice)]
        if numbers:
            raise ValueError(
                f"Exact pursuit needs queries with a list of answers, but '{numbers[0]}' is answered by a number."
            )
        self.query_set, self.classes = query_set, classes
        n_choices = torch.tensor([len(query.choices) for query in query_set.queries])
        self.register_buffer(
            "query_of", torch.arange(len(query_set)).repeat_interleave(n_choices), persistent=False
        )  # (A,)

    def indicators(self, x: Tensor) -> Tensor:
        """The answers `x` as 0 or 1 for every choice (B, A), as double."""
        parts = []
        for query, start, width in zip(
            self.query_set.queries, self.query_set.starts, self.query_set.widths, strict=True
        ):
            feature = x[:, start : start + width].double()
            parts.append(torch.cat([feature < 0, feature > 0], dim=1) if len(query.choices) == 2 else feature > 0.5)
        return torch.cat(parts, dim=1).double()

    def known_answers(self, history: History) -> Tensor:
        """1 for every choice that is the known answer to its query: (B, A)."""
        return self.indicators(history.x) * history.known[:, self.query_of]

    def by_query(self, values: Tensor) -> Tensor:
        """Sum (B, A) over the choices of each query: (B, Q)."""
        total = torch.zeros(len(values), len(self.query_set), dtype=values.dtype, device=values.device)
        return total.index_add(1, self.query_of, values)


class IndependentIP(_Choices):
    """Exact IP where answers are independent given the label: two matrix products a step.

    `prior` is (C,) and `likelihood` (C, A) holds P(choice | label), the choices of one query after the other in the
    order of the query set; `from_yes` takes P(yes | label) (C, Q) where all queries are yes/no.
    """

    prior: Tensor
    likelihood: Tensor
    log_likelihood: Tensor
    noise: Tensor

    def __init__(self, query_set: ColumnQueries, classes: Labels, prior: Tensor, likelihood: Tensor):
        super().__init__(query_set, classes)
        likelihood = likelihood.double()
        if likelihood.shape != (len(classes), len(self.query_of)):
            raise ValueError(
                f"likelihood must have shape {(len(classes), len(self.query_of))}, a probability for "
                "every class and choice, "
                f"not {tuple(likelihood.shape)}."
            )
        if not torch.allclose(self.by_query(likelihood), torch.ones(1, dtype=torch.double), atol=1e-6):
            raise ValueError("The probabilities of a query's choices must sum to one for every class.")
        self.register_buffer("prior", prior.double())
        self.register_buffer("likelihood", likelihood)
        self.register_buffer("log_likelihood", likelihood.clamp(min=TINY).log())
        # (C, Q): the entropy of each answer if the label were known
        self.register_buffer("noise", self.by_query(torch.special.entr(likelihood)))

    @classmethod
    def from_yes(cls, query_set: ColumnQueries, classes: Labels, prior: Tensor, yes: Tensor) -> "IndependentIP":
        """From P(yes | label) (C, Q) of yes/no queries."""
        return cls(query_set, classes, prior, torch.stack([1 - yes, yes], dim=2).flatten(1))

    def log_posterior(self, history: History) -> Tensor:
        evidence = self.known_answers(history) @ self.log_likelihood.T  # (B, C)
        return (evidence + self.prior.clamp(min=TINY).log()).log_softmax(dim=1)

    def scores(self, history: History) -> Tensor:
        posterior = self.log_posterior(history).exp()  # (B, C)
        answer = posterior @ self.likelihood  # (B, A): P(choice | history)
        return self.by_query(torch.special.entr(answer)) - posterior @ self.noise


class TableIP(_Choices):
    """Exact IP where the joint distribution is a table: W possible worlds, each with its answers and label weights.

    `x` (W, *answer_shape) has the answers in each world and `weights` (W, C) the probability of that world with each
    label.
    """

    weights: Tensor
    world: Tensor

    def __init__(self, query_set: ColumnQueries, classes: Labels, x: Tensor, weights: Tensor):
        super().__init__(query_set, classes)
        self.register_buffer("world", self.indicators(x))  # (W, A)
        self.register_buffer("weights", weights.double() / weights.double().sum())

    def _joint(self, history: History) -> Tensor:
        """P(world, label) of the worlds that agree with the history, not normalised: (B, W, C)."""
        answers = self.known_answers(history)  # (B, A)
        agrees = (answers @ self.world.T).round() == history.known.sum(dim=1, keepdim=True)  # (B, W)
        return agrees[:, :, None] * self.weights

    def log_posterior(self, history: History) -> Tensor:
        labels = self._joint(history).sum(dim=1) + TINY * self.weights.sum(dim=0)
        return (labels / labels.sum(dim=1, keepdim=True)).log()

    def scores(self, history: History) -> Tensor:
        joint = self._joint(history)
        joint = joint / joint.sum(dim=(1, 2), keepdim=True).clamp(min=TINY)
        label_and_answer = torch.einsum("bwc,wa->bac", joint, self.world)  # (B, A, C)
        answer = label_and_answer.sum(dim=2)  # (B, A)
        label = joint.sum(dim=1)  # (B, C)
        # I(answer; label) = H(answer) + H(label) - H(answer, label)
        together = self.by_query(torch.special.entr(label_and_answer).sum(dim=2))
        return self.by_query(torch.special.entr(answer)) + torch.special.entr(label).sum(dim=1, keepdim=True) - together
