"""What every query set offers: its queries, the answers of data rows, and network input for a history.

Answers live in the *answer space* of their query set: `x` has shape (B, *answer_shape) and holds the answers to all
queries of B rows, ready for the networks. Which of them may be read is said by `known` (B, Q), and `encode` is the
only way from the two to a network.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Query:
    """A question with a clear meaning."""

    name: str
    text: str
    """The wording a person reads."""
    choices: tuple[str, ...] = ()
    """What may be answered; empty where the answer is not one of a list."""
    cost: float = 1.0


class Answers(NamedTuple):
    """The answers of N rows, asked or not."""

    x: Tensor  # (N, *answer_shape)
    available: Tensor  # (N, Q) bool, False where a row has no answer to a query


class Place(NamedTuple):
    """Where the answers to B queries stand, in a query set in which every answer has inputs of its own."""

    features: Tensor  # (B, w), the same in `x` (B, F) and in the input
    there: Tensor | None  # (B, w) bool, False where a query has fewer features; None if all have w
    known: Tensor | None  # (B, 1), the input that says that the query is known; None without a mask


class QuerySet(nn.Module, ABC):
    """A list of queries and the way their answers reach a network.

    It is a module only so that its constant buffers follow the networks to their device; it has no weights.
    """

    queries: tuple[Query, ...]
    answer_shape: tuple[int, ...]
    input_shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.queries)

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of every query by its name."""
        return {query.name: i for i, query in enumerate(self.queries)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} queries)"

    @abstractmethod
    def answers(self, data: Any) -> Answers:
        """Read data rows in the user's form; raises ValueError with what is wrong and what to do."""

    @abstractmethod
    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        """Network input (B, *input_shape) for answers `x` of which `known` (B, Q) may be read.

        Differentiable in `known`; an answer that is not known never shows in the result.
        """

    @abstractmethod
    def describe(self, query: int, x: Tensor) -> str:
        """The answer to `query` in words, from one row `x` (*answer_shape)."""

    @abstractmethod
    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        """Write a person's answer to `query` into one row `x` (*answer_shape), in place.

        An answer that cannot be taken raises ValueError, with what may be answered, before anything is written.
        """

    @abstractmethod
    def to_config(self) -> dict[str, Any]:
        """All there is to know about the query set, as JSON values; `from_config` builds it again."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: dict[str, Any]) -> "QuerySet":
        """The query set that `to_config` described."""

    def with_options(self, **options: Any) -> "QuerySet":
        """The same query set with other options, as in `with_options(mask=False)`."""
        config = self.to_config()
        if unknown := [name for name in options if name not in config]:
            raise ValueError(f"{self} has no option '{unknown[0]}', only {', '.join(config)}.")
        return self.from_config({**config, **options})

    def blank(self, n_rows: int = 1) -> Tensor:
        """Rows (n_rows, *answer_shape) without any answer, to be filled by `tell`."""
        return torch.zeros(n_rows, *self.answer_shape, device=next(self.buffers()).device)
