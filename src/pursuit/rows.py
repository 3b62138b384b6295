"""Labelled rows, and where training takes them from: rows in memory, or a rule that draws them as they are needed.

A source says how many rows make an epoch and opens a stream; a stream gives the next rows, for ever. All randomness of
a stream comes from the generator it is given, and its state can be saved.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pursuit.history import History
from pursuit.pursuer import Labels


class RowStream(Protocol):
    """Rows without end."""

    n_queries: int

    def next(self, n: int) -> "Rows": ...

    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, state: dict[str, Tensor]) -> None: ...


@dataclass(frozen=True)
class Rows:
    """Labelled rows: all their answers, and which of them exist."""

    x: Tensor  # (N, *answer_shape)
    available: Tensor  # (N, Q) bool
    y: Tensor  # (N,) class index
    opening: Tensor | None = None  # (N, Q) bool: answers given before anything is asked

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_queries(self) -> int:
        return self.available.shape[1]

    def take(self, index: Tensor) -> "Rows":
        opening = None if self.opening is None else self.opening[index]
        return Rows(self.x[index], self.available[index], self.y[index], opening)

    def to(self, device: torch.device) -> "Rows":
        opening = None if self.opening is None else self.opening.to(device)
        return Rows(self.x.to(device), self.available.to(device), self.y.to(device), opening)

    def start(self) -> History:
        """The histories of these rows before the first query."""
        opening = None if self.opening is None else self.opening & self.available
        return History.start(self.x, self.n_queries, opening)

    def stream(self, generator: torch.Generator) -> "ShuffledRows":
        return ShuffledRows(self, generator)

    def prior(self, n_classes: int) -> Tensor:
        """The share of every class: (C,)."""
        # One row more for every class, so that one absent here is improbable rather than impossible.
        counts = torch.bincount(self.y, minlength=n_classes).float() + 1
        return counts / counts.sum()

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.x, self.available, self.y, self.opening):
            if tensor is not None:
                digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


class GeneratedRows(ABC):
    """Rows that a rule draws as they are needed: any number of them, and none is kept."""

    n_queries: int
    n_rows: int
    """How many make an epoch."""
    classes: Labels
    """What the class indices of the rows mean."""
    has_opening: bool = False
    """Whether rows open with answers given unasked."""

    def __len__(self) -> int:
        return self.n_rows

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Rows:
        """Fresh rows on the generator's device."""

    @abstractmethod
    def to(self, device: torch.device) -> "GeneratedRows":
        """The same rule on another device."""

    @abstractmethod
    def prior(self, n_classes: int) -> Tensor:
        """The probability of every class: (C,)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Tells this rule from others."""

    def stream(self, generator: torch.Generator) -> "DrawnRows":
        return DrawnRows(self, generator)


RowSource = Rows | GeneratedRows


class ShuffledRows:
    """An endless stream of rows: every pass goes through all of them in a new order."""

    def __init__(self, rows: Rows, generator: torch.Generator):
        if len(rows) == 0:
            raise ValueError("There are no rows to train on: at least one is needed.")
        self.rows, self.generator, self.n_queries = rows, generator, rows.n_queries
        self._shuffle()

    def _shuffle(self) -> None:
        self._before_shuffle = self.generator.get_state()
        self._order = torch.randperm(len(self.rows), generator=self.generator, device=self.generator.device)
        self._position = 0

    def next(self, n: int) -> Rows:
        parts: list[Tensor] = []
        while n > 0:
            if self._position == len(self.rows):
                self._shuffle()
            part = self._order[self._position : self._position + n]
            self._position += len(part)
            n -= len(part)
            parts.append(part)
        return self.rows.take(torch.cat(parts) if parts else self._order[:0])

    def state(self) -> dict[str, Tensor]:
        return {"before_shuffle": self._before_shuffle, "position": torch.tensor(self._position)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        now = self.generator.get_state()
        self.generator.set_state(state["before_shuffle"])
        self._shuffle()
        self._position = int(state["position"])
        self.generator.set_state(now)


class DrawnRows:
    """A stream of freshly drawn rows; the generator is all its state."""

    def __init__(self, source: GeneratedRows, generator: torch.Generator):
        self.source, self.generator, self.n_queries = source, generator, source.n_queries

    def next(self, n: int) -> Rows:
        return self.source.draw(n, self.generator)

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        return None
