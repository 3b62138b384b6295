"""The one interface everything meets: a pursuer asks and believes."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.inference.history import History
from pursuit.queries import QuerySet

Labels = Sequence[Any] | np.ndarray
ASKED = -1e9
"""In a softmax over queries, the score of one that was asked already: low enough to get no share, and finite if all
were asked."""


@runtime_checkable
class Pursuer(Protocol):
    """Two functions of a history: what to ask next and what to believe now."""

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


def wants_more(scores: Tensor, asked: Tensor) -> Tensor:
    """Whether a query is left in each row that the pursuer would ask (B,)."""
    return ((scores > -torch.inf) & ~asked).any(dim=1)


def choose(scores: Tensor, asked: Tensor) -> Tensor:
    """The query to ask next in each row (B,): the best one that was not asked yet."""
    # A score may itself be minus infinity, and must still come before what was asked.
    left = scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill_(asked, -torch.inf)
    return left.max(dim=1).indices  # several times as fast as argmax on a CPU


FREE = 1e-9
"""In bits per cost, the cost of what costs nothing: free answers come first, the most informative of them before the
others, and scores stay finite."""


def per_cost(bits: Tensor, costs: Tensor) -> Tensor:
    """Information (B, Q) for each unit of cost (Q,). Times `costs.clamp(min=FREE)` it is the information again."""
    return bits / costs.clamp(min=FREE)
