"""Labelled rows, and where training takes them from: rows in memory, or a rule that draws them as they are needed.

A source says how many rows make an epoch and opens a stream; a stream gives the next rows, forever. All randomness of
a stream comes from the generator it is given, and its state can be saved. What a stream does on the host is separate
from what it does on the device, so that a GPU can record the device's part once and replay it step after step. Streams
around a stream weigh classes, shift and mirror images, and have people who do not know or err.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.equal_rows import find_equal
from pursuit.inference.history import History
from pursuit.inference.pursuer import Labels
from pursuit.queries import QuerySet
from pursuit.registry import register


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
        changed: Any = {name: None if tensor is None else change(tensor) for name, tensor in vars(self).items()}
        return Rows(**changed)

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
    def concatenated(cls, parts: Sequence["Rows"]) -> "Rows":
        """The rows of all parts, each of which has the same tensors."""
        tensors = ([getattr(part, one.name) for part in parts] for one in fields(cls))
        joined: Any = (None if own[0] is None else torch.cat(own) for own in tensors)
        return cls(*joined)

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
        for tensor in vars(self).values():
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
    """Rows that are sampled on demand; nothing is stored.

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


class ChangedRows(RowStream):
    """A stream around another one, whose rows are changed as they come."""

    def __init__(self, stream: RowStream, change: Callable[[Rows], Rows]):
        self.stream, self.change, self.n_queries = stream, change, stream.n_queries

    def prepare(self, n: int) -> None:
        self.stream.prepare(n)

    def take(self, n: int) -> Rows:
        rows = self.stream.take(n)
        return self.change(rows) if n else rows

    def state(self) -> dict[str, Tensor]:
        return self.stream.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.stream.load_state(state)


class ClassWeightedRows(StreamedRows):
    """The rows of another source, each with the weight of its class."""

    def __init__(self, source: StreamedRows, class_weight: Tensor):
        """`class_weight` (C,) says how many rows one of each class counts as, 1 on average over the rows."""
        self.source, self.class_weight = source, class_weight
        self.n_queries, self.classes, self.query_set = source.n_queries, source.classes, source.query_set
        self.has_initially_known, self.feature_names = source.has_initially_known, source.feature_names

    def __len__(self) -> int:
        return len(self.source)

    def weighted(self, rows: Rows) -> Rows:
        return replace(rows, weight=self.class_weight[rows.y])

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        return self.weighted(self.source.draw(n, generator))

    def hold_out(self, share: float, most: int, seed: int) -> tuple["ClassWeightedRows", Rows]:
        others, held_out = self.source.hold_out(share, most, seed)
        return ClassWeightedRows(others, self.class_weight), self.weighted(held_out)

    def to(self, device: torch.device) -> "ClassWeightedRows":
        return ClassWeightedRows(self.source.to(device), self.class_weight.to(device))

    def prior(self, n_classes: int) -> Tensor:
        weighted = self.source.prior(n_classes) * self.class_weight
        return weighted / weighted.sum()

    def fingerprint(self) -> str:
        return f"{self.source.fingerprint()} {self.class_weight.tolist()}"

    def shard(self, number: int, n_shards: int) -> "ClassWeightedRows":
        return ClassWeightedRows(self.source.shard(number, n_shards), self.class_weight)

    def stream(self, generator: torch.Generator) -> RowStream:
        return ChangedRows(self.source.stream(generator), self.weighted)


@register
@dataclass(frozen=True)
class Shifts:
    """Moves every image by up to `pixels` up or down and left or right; `mirror` flips half of them left to right."""

    pixels: int
    mirror: bool = False
    edge: Literal["dark", "reflect"] = "dark"
    """What comes in from beyond the edge: the lowest brightness, or the image mirrored."""

    def __post_init__(self) -> None:
        if self.pixels < 0 or not (self.pixels or self.mirror):
            raise ValueError(
                f"Shifts move by at least one pixel or mirror, not by {self.pixels} with mirror={self.mirror}."
            )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Images (B, C, H, W) in answer space (dark is -1), each moved at random."""
        if x.dim() != 4:
            raise ValueError(f"Only images can be shifted, not answers of shape {tuple(x.shape[1:])}.")
        n_rows, channels, height, width = x.shape
        margin = (self.pixels,) * 4
        padded = F.pad(x, margin, value=-1.0) if self.edge == "dark" else F.pad(x, margin, mode="reflect")

        def draw(high: int) -> Tensor:
            return torch.randint(high, (n_rows, 1), generator=generator, device=x.device)

        down, right = draw(2 * self.pixels + 1), draw(2 * self.pixels + 1)
        column = torch.arange(width, device=x.device).expand(n_rows, width)
        if self.mirror:
            column = torch.where(draw(2) == 1, width - 1 - column, column)
        row = torch.arange(height, device=x.device) + down  # (B, H)
        place = row[:, :, None] * padded.shape[3] + (column + right)[:, None, :]  # (B, H, W) in the padded image
        moved = padded.flatten(2).gather(2, place.view(n_rows, 1, -1).expand(-1, channels, -1))
        return moved.view_as(x)


def augmented(stream: RowStream, augment: Shifts, generator: torch.Generator) -> ChangedRows:
    """The stream with images augmented as they come."""
    return ChangedRows(stream, lambda rows: replace(rows, x=augment(rows.x, generator)))


@register
@dataclass(frozen=True)
class Unreliable:
    """How often answers are withheld, and how often they are wrong: yes for no, no for yes, or another row's answer."""

    withheld: float = 0.05
    wrong: float = 0.02
    by_question: Mapping[str, Sequence[float]] = field(default_factory=dict, hash=False)
    """Both rates of questions that are answered less or more reliably than others, by their names: what can be checked
    is wrong less often than what only the person knows, as in {"income": (0.0, 0.2), "age": (0.0, 0.0)}."""

    def __post_init__(self) -> None:
        own = {name: tuple(rates) for name, rates in self.by_question.items()}  # lists, where a file has them
        object.__setattr__(self, "by_question", own)
        for rates in ((self.withheld, self.wrong), *self.by_question.values()):
            if len(rates) != 2 or not all(0 <= rate < 1 for rate in rates):
                raise ValueError(
                    "Answers are withheld and wrong in a share of all cases, at least 0 and below 1, not "
                    f"{' and '.join(map(str, rates))}."
                )

    def rates(self, query_set: QuerySet, device: torch.device) -> Tensor:
        """How often answers to each query are withheld, and wrong: (2, Q)."""
        if unknown := [name for name in self.by_question if name not in query_set.index_of]:
            raise ValueError(f"Nothing is asked about '{unknown[0]}': name another question in by_question.")
        own = [self.by_question.get(query.name, (self.withheld, self.wrong)) for query in query_set.queries]
        return torch.tensor(own, device=device).T

    def __call__(
        self, rows: Rows, features: tuple[Tensor, Tensor], generator: torch.Generator, rates: Tensor | None = None
    ) -> Rows:
        """The rows as such people answer, given the `answer_features` of their query set, and perhaps the `rates` of
        its queries. What is initially known stays as it is."""
        unit_of_feature, is_yes_no = features
        withheld, wrong = (self.withheld, self.wrong) if rates is None else rates
        draws = torch.rand(2, *rows.available.shape, generator=generator, device=rows.x.device)
        given = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known
        # Yes and no are exchanged, and other answers are those of the row before, if that has one.
        has_other = rows.available.roll(1, dims=0)[:, unit_of_feature] | is_yes_no
        is_wrong = ((draws[0] < wrong) & ~given & rows.available)[:, unit_of_feature] & has_other
        mistaken = torch.where(is_yes_no, -rows.x, rows.x.roll(1, dims=0))
        kept = (draws[1] >= withheld) | given
        return replace(rows, x=torch.where(is_wrong, mistaken, rows.x), available=rows.available & kept)


def answer_features(query_set: QuerySet, device: torch.device) -> tuple[Tensor, Tensor]:
    """The query of each feature of the answers (F,), and whether it is answered by yes or no (F,)."""
    if not query_set.has_own_units:
        raise ValueError(
            "Only answers to columns, words or concepts can be withheld or wrong, because those to patches depend on "
            "one another: leave unreliable out."
        )
    units = query_set.units
    return units.of_feature.to(device), torch.tensor([one == "yes_no" for one in units.feature_types], device=device)


def unreliable(stream: RowStream, settings: Unreliable, query_set: QuerySet, generator: torch.Generator) -> ChangedRows:
    """The stream with answers withheld and wrong now and then."""
    features, rates = answer_features(query_set, generator.device), settings.rates(query_set, generator.device)
    return ChangedRows(stream, lambda rows: settings(rows, features, generator, rates))
