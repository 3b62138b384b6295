"""Labelled rows, and where training takes them from: rows in memory, or a rule that draws them as they are needed.

A source says how many rows make an epoch and opens a stream; a stream gives the next rows, forever. All randomness of
a stream comes from the generator it is given, and its state can be saved. What a stream does on the host is separate
from what it does on the device, so that a GPU can record the device's part once and replay it step after step.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.equal_rows import find_equal
from pursuit.inference.history import History
from pursuit.inference.pursuer import Labels
from pursuit.queries import QuerySet


class RowStream(ABC):
    """An endless stream of rows."""

    n_queries: int

    def next(self, n: int) -> "Rows":
        self.prepare(n)
        return self.take(n)

    def prepare(self, n: int) -> None:
        """The host's part of giving the next n rows."""
        return

    @abstractmethod
    def take(self, n: int) -> "Rows":
        """The device's part of it: the same operations on the same memory whenever n is the same."""

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        return None


@dataclass(frozen=True)
class Rows:
    """Labelled rows: all their answers, and which of them exist."""

    x: Tensor  # (N, *answer_shape)
    available: Tensor  # (N, Q) bool
    y: Tensor  # (N,) class index; -1 for a made row, which has a target but no label of its own
    initially_known: Tensor | None = None  # (N, Q) bool: answers given before anything is asked
    weight: Tensor | None = None  # (N,) how many rows each of them counts as; None: as one
    group: Tensor | None = None  # (N,) number of the group that is held out together; None: each row by itself
    target: Tensor | None = None  # (N, C) the posterior that a classifier learns in place of the label; None: the label

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_queries(self) -> int:
        return self.available.shape[1]

    def take(self, index: Tensor | slice) -> "Rows":
        return self._each(lambda tensor: tensor[index])

    def to(self, device: torch.device) -> "Rows":
        return self._each(lambda tensor: tensor.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Rows":
        optional = (self.initially_known, self.weight, self.group, self.target)
        changed = [None if tensor is None else change(tensor) for tensor in optional]
        return Rows(change(self.x), change(self.available), change(self.y), *changed)

    @property
    def n_bytes(self) -> int:
        """About how much memory they take."""
        return self.x.nbytes + self.available.nbytes + self.y.nbytes

    @property
    def total_weight(self) -> float:
        """How many rows they count as together."""
        return float(len(self)) if self.weight is None else float(self.weight.double().sum())

    @property
    def counts(self) -> Tensor:
        """How many rows each of them counts as, in whole numbers: (N,)."""
        ones = torch.ones(len(self), dtype=torch.long, device=self.y.device)
        return ones if self.weight is None else self.weight.round().long()

    @classmethod
    def joined(cls, parts: Sequence["Rows"]) -> "Rows":
        """The rows of all parts, which have the same queries, with equal ones merged: each counts as all that equal
        it."""
        names = ["x", "available", "y", *([] if parts[0].initially_known is None else ["initially_known"])]
        found = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
        first, number = find_equal(list(found.values()))
        counts = torch.zeros(len(first), dtype=torch.long)
        counts.index_add_(0, number, torch.cat([part.counts for part in parts]))
        return cls(**{name: tensor[first] for name, tensor in found.items()}, weight=counts)

    def levelled(self) -> "Rows":
        """The same rows with weights of mean 1, as training takes them: a step is as long whatever they were."""
        return self if self.weight is None else replace(self, weight=self.weight * (len(self) / self.total_weight))

    def counted_labels(self, n_classes: int, kernel: Tensor | None = None) -> Tensor:
        """How much of each class a row counts as: (N, C), one-hot times its weight. Where classes have neighbours,
        `kernel` (C, C) says how much a row of each counts for the others."""
        members = F.one_hot(self.y, n_classes).float() if kernel is None else kernel[self.y]
        return members if self.weight is None else members * self.weight[:, None]

    def at_label(self, values: Tensor) -> Tensor:
        """The value of its label (N,) for each row of `values` (N, C), or the mean over its target."""
        if self.target is None:
            return values.gather(1, self.y[:, None])[:, 0]
        return (values * self.target.to(values.dtype)).sum(dim=1)

    def start(self) -> History:
        """The histories of these rows before the first query."""
        initially_known = None if self.initially_known is None else self.initially_known & self.available
        return History.start(self.x, self.n_queries, initially_known)

    def shard(self, number: int, n_shards: int) -> "Rows":
        """The part that one of several processes learns from."""
        return self if n_shards == 1 else self.take(slice(number, None, n_shards))

    def stream(self, generator: torch.Generator) -> "ShuffledRows":
        return ShuffledRows(self, generator)

    def prior(self, n_classes: int) -> Tensor:
        """The share of every class: (C,)."""
        # One row more for every class, so that one absent here is improbable rather than impossible.
        counts = torch.bincount(self.y, self.weight, minlength=n_classes).float() + 1
        return counts / counts.sum()

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.x, self.available, self.y, self.initially_known, self.weight, self.group, self.target):
            if tensor is not None:
                digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()


class StreamedRows(ABC):
    """Rows that are not in memory but come as a stream, with their labels."""

    n_queries: int
    classes: Labels
    """What the class indices of the rows mean."""
    has_initially_known: bool = False
    """Whether rows come with answers that are initially known."""
    query_set: QuerySet | None = None
    """What the rows answer, if the source knows it."""
    feature_names: tuple[str, ...] = ()
    """The columns that the query set reads, if the rows come from a table."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows make an epoch."""

    @abstractmethod
    def draw(self, n: int, generator: torch.Generator) -> Rows:
        """n rows from the whole source, to measure what is usual."""

    @abstractmethod
    def hold_out(self, share: float, most: int, seed: int) -> tuple["StreamedRows", Rows]:
        """Rows to learn from, and a share of all, at most `most`, that are not among them."""

    @abstractmethod
    def to(self, device: torch.device) -> "StreamedRows":
        """The same rows on another device."""

    @abstractmethod
    def prior(self, n_classes: int) -> Tensor:
        """The probability of every class: (C,)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that tells these rows from others."""

    @abstractmethod
    def shard(self, number: int, n_shards: int) -> "StreamedRows":
        """The part that one of several processes learns from."""

    @abstractmethod
    def stream(self, generator: torch.Generator) -> RowStream:
        """An endless stream of the rows."""


class GeneratedRows(StreamedRows):
    """Rows that a rule draws as they are needed: any number of them, and none is stored.

    A subclass says how to `draw` rows, how to move `to` another device, and its `prior` and `fingerprint`.
    """

    n_rows: int
    """How many rows make an epoch."""

    def __len__(self) -> int:
        return self.n_rows

    def hold_out(self, share: float, most: int, seed: int) -> tuple["GeneratedRows", Rows]:
        """The rows themselves, and `most` others drawn with another seed."""
        return self, self.draw(most, torch.Generator().manual_seed(seed))

    def shard(self, number: int, n_shards: int) -> "GeneratedRows":
        """All of them: every process draws rows of its own."""
        return self

    def stream(self, generator: torch.Generator) -> "DrawnRows":
        return DrawnRows(self, generator)


RowSource = Rows | StreamedRows


def rows_in_memory(source: RowSource, most: int, seed: int = 0) -> Rows:
    """All rows of a source that has them in memory, or `most` drawn from one that streams them."""
    return source.draw(most, torch.Generator().manual_seed(seed)) if isinstance(source, StreamedRows) else source


class ShuffledRows(RowStream):
    """An endless stream of rows: every pass goes through all of them in a new order."""

    def __init__(self, rows: Rows, generator: torch.Generator):
        if len(rows) == 0:
            raise ValueError("There are no rows to train on: at least one is needed.")
        self.rows, self.generator, self.n_queries = rows, generator, rows.n_queries
        self._before_shuffles: list[Tensor] = []  # the generator's state before each pass that lies in `_order`
        self._order = self._shuffle(torch.empty(len(rows), dtype=torch.long, device=generator.device))  # (passes x N,)
        # Where the next rows lie in it: the host needs to know to shuffle in time, the device to take them.
        self._place, self._place_there = 0, torch.zeros((), dtype=torch.long, device=generator.device)

    def prepare(self, n: int) -> None:
        n_rows = len(self.rows)
        while self._place >= n_rows:  # a pass is over
            self._order[:-n_rows] = self._order[n_rows:].clone()
            self._shuffle(self._order[-n_rows:])
            del self._before_shuffles[0]
            self._move(-n_rows)
        while len(self._order) < n_rows - 1 + n:  # wherever in its pass the first row is, the last must be there
            self._order = torch.cat([self._order, self._shuffle(self._order.new_empty(n_rows))])
        self._place += n

    def _shuffle(self, order: Tensor) -> Tensor:
        self._before_shuffles.append(self.generator.get_state())
        return order.copy_(torch.randperm(len(order), generator=self.generator, device=order.device))

    def _move(self, by: int) -> None:
        self._place += by
        self._place_there += by

    def take(self, n: int) -> Rows:
        place = self._place_there + torch.arange(n, device=self._order.device)
        self._place_there += n
        return self.rows.take(self._order[place])

    def state(self) -> dict[str, Tensor]:
        return {"before_shuffles": torch.stack(self._before_shuffles), "place": torch.tensor(self._place)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        now = self.generator.get_state()
        self._before_shuffles, orders = [], []
        for before in state["before_shuffles"].cpu():
            self.generator.set_state(before.clone())  # set_state refuses a view of the stack
            orders.append(self._shuffle(self._order.new_empty(len(self.rows))))
        self._order = torch.cat(orders)
        self._move(int(state["place"]) - self._place)
        self.generator.set_state(now)


class DrawnRows(RowStream):
    """A stream of freshly drawn rows; the generator is all its state."""

    def __init__(self, source: GeneratedRows, generator: torch.Generator):
        self.source, self.generator, self.n_queries = source, generator, source.n_queries

    def take(self, n: int) -> Rows:
        return self.source.draw(n, self.generator)
