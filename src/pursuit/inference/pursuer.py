"""The one interface everything meets: a pursuer asks and believes."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from pursuit.inference.history import History
from pursuit.queries import QuerySet

Labels = Sequence[Any] | np.ndarray


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
