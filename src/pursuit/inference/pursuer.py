"""The one interface everything meets: a pursuer asks and believes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.inference.history import History
from pursuit.queries import QuerySet
from pursuit.queries.column import FREE

ScoreUnit = Literal["bits", "bits per cost"]
Labels = Sequence[Any] | np.ndarray
ASKED = -1e9
"""In a softmax over queries, the score of one that was asked already: low enough to get no share, and finite if all
were asked."""


@runtime_checkable
class Pursuer(Protocol):
    """Two functions of a history: what to ask next and what to believe now.

    A pursuer may know more. With an attribute `score_unit`, its scores are the information about the label that each
    query is expected to give, in bits or in bits per unit of cost; without it, or where it is None, they are a mere
    preference. `possible_answers(history, query)`, for a history of one row, gives a tuple of `PossibleAnswer`: what
    may be answered and what would then be believed. `information_at(history, log_posterior)` gives the bits expected of
    every query (B, Q) at another belief (B, C), such as one without labels that are excluded; without it these are
    summed up from the possible answers, query by query.
    """

    @property
    def query_set(self) -> QuerySet: ...

    @property
    def classes(self) -> Labels: ...

    def scores(self, history: History) -> Tensor:
        """How much each query should come next (B, Q), the highest first; asked queries are left out by the caller.

        Minus infinity is for what it would not ask at all: where nothing else is left, the row's chain ends.
        """

    def log_posterior(self, history: History) -> Tensor:
        """The belief about the label now: log probabilities (B, C)."""


class NotANumber(ValueError):
    """What a pursuer believes is not a number."""


def refuse_nan(computed: Tensor) -> Tensor:
    """A belief (B, C) or scores (B, Q), if they are numbers: others would pass for a prediction or a preference."""
    if computed.sum().isnan():  # minus infinity, the logarithm of nothing, is a number here
        raise NotANumber(
            "The model computes something that is not a number, so it cannot predict: enormous answers, or a training "
            "that went wrong, may be the reason. Train it again."
        )
    return computed


NO_ANSWER = "no answer"
"""The text of the possible answer that a query cannot be answered."""


@dataclass(frozen=True)
class PossibleAnswer:
    """An answer that a query may get, and what it would change. That there is no answer may be one of them, and changes
    nothing."""

    text: str
    probability: float
    posterior: Tensor  # (C,) the belief after it


LEAST_PROBABILITY = 1e-12
"""An answer less probable than this counts as impossible."""


def answers_by_joint(texts: Sequence[str], joint: Tensor) -> tuple[PossibleAnswer, ...]:
    """What may be answered, from the probabilities of each answer with each label: (answers, C)."""
    answers = zip(texts, joint, joint.sum(dim=1), strict=True)
    return tuple(PossibleAnswer(text, float(p), row / p) for text, row, p in answers if p > LEAST_PROBABILITY)


def score_unit(pursuer: Pursuer) -> ScoreUnit | None:
    """What the scores of a pursuer mean; None for a mere preference."""
    return getattr(pursuer, "score_unit", None)


def information(pursuer: Pursuer, scores: Tensor) -> Tensor | None:
    """The information in bits that each query is expected to give (B, Q), from the pursuer's scores; None where these
    are a mere preference."""
    unit = score_unit(pursuer)
    if unit == "bits per cost":
        return scores * pursuer.query_set.costs.to(scores.device).clamp(min=FREE)
    return scores if unit == "bits" else None


def by_groups(pursuer: Pursuer, scores: Tensor, closed: Tensor) -> Tensor:
    """The scores (B, Q) to choose by, where queries are asked in groups: bits of a whole group for each of its members.
    A mere preference stays as it is: nobody knows what its mean would say."""
    unit = score_unit(pursuer)
    return scores if unit is None else pursuer.query_set.group_scores(scores, closed, unit == "bits per cost")


def label_codes(classes: Labels, y: Any) -> Tensor:
    """The class indices (N,) of labels; raises ValueError for one that is not among the classes."""
    codes = pd.Index(classes).get_indexer(pd.Index(y))
    if (codes < 0).any():
        raise ValueError(
            f"The label '{np.asarray(y)[codes < 0][0]}' did not occur in training, so it cannot be predicted: leave "
            "such rows out."
        )
    return torch.from_numpy(codes.astype(np.int64))


def label_list(classes: Labels) -> list[Any]:
    """Labels as Python values, whether they are a list or a numpy array."""
    return classes.tolist() if isinstance(classes, np.ndarray) else list(classes)


def label_text(label: object) -> str:
    """A label as people can see it, also if it is blank."""
    return str(label) if str(label).strip() else "(empty)"


def leave_out(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """The scores (B, Q) with minus infinity for what is not `allowed` (B, Q); None allows everything."""
    return scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)


def wants_more(scores: Tensor, asked: Tensor) -> Tensor:
    """Whether a query is left in each row that the pursuer would ask (B,)."""
    return ((scores > -torch.inf) & ~asked).any(dim=1)


def highest_left(scores: Tensor, asked: Tensor) -> Tensor:
    """The highest score among the queries that were not asked yet (B,); minus infinity where none is left."""
    return scores.masked_fill(asked, -torch.inf).max(dim=1).values


def choose(scores: Tensor, asked: Tensor) -> Tensor:
    """The query to ask next in each row (B,): the best one that was not asked yet."""
    # A score may itself be minus infinity, and must still come before what was asked.
    left = scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill_(asked, -torch.inf)
    return left.max(dim=1).indices  # several times as fast as argmax on a CPU


def per_cost(bits: Tensor, costs: Tensor) -> Tensor:
    """Information (B, Q) for each unit of cost (Q,). Times `costs.clamp(min=FREE)` it is the information again."""
    return bits / costs.clamp(min=FREE)
