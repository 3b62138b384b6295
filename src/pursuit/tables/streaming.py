"""Rows larger than memory: surveyed in one look, streamed from Parquet or Arrow files, shuffled in a buffer, sharded
over processes.

`ParquetRows` looks at all rows once, to know classes and choices, and then keeps only the list of row groups. A stream
reads them in a new order every pass. What a pass looks like follows from a few numbers (a seed, the pass, the buffer),
so that these and a position are all its state.
"""

import copy
import hashlib
import json
import queue
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.queries import MAX_CHOICES, Choice, ColumnQueries, NotAQuestion, Number, QuerySet
from pursuit.queries.column_types import ColumnType, is_ticked
from pursuit.tables.arrow import NUMERIC, UNASKABLE, Piece, is_present, rows_in_a_chunk, sufficient_limit
from pursuit.tables.labels import MAX_FRACTIONS, same_labels, with_same
from pursuit.tables.source import ArrowSource
from pursuit.tables.splitting import uniform_hash
from pursuit.training.rows import Rows, RowStream, StreamedRows

if TYPE_CHECKING:
    import pyarrow as pa


MAX_CLASSES = 100_000


@dataclass
class TargetLabels:
    """The labels of a table."""

    classes: np.ndarray
    values: "pa.Array"  # (V,) the labels as they stand in the files
    class_of: np.ndarray  # (V,) which class each of them means
    counts: np.ndarray  # (C,) how many rows to learn from have each
    n_labelled: int
    same: Mapping[str, str] = field(default_factory=dict)
    """Labels that count as others, and those."""

    def codes(self, column: "pa.ChunkedArray") -> np.ndarray:
        """The class of every row, -1 where it has no label."""
        import pyarrow.compute as pc

        places = pc.index_in(column, value_set=self.values).fill_null(-1).to_numpy().astype(np.int64)
        return np.append(self.class_of, -1)[places]


@dataclass
class SeenValues:
    """The values of a column with their rows, until they are more than `most`, and the range of numbers."""

    most: int
    values: dict[Any, int] = field(default_factory=dict)
    low: float = np.inf
    high: float = -np.inf
    n_missing: int = 0
    """Rows without a value, or with a text of nothing but spaces."""

    @property
    def are_too_many(self) -> bool:
        return len(self.values) > self.most

    def add(self, counts: Iterable[tuple[Any, int]]) -> None:
        """Values, or None and NaN, with the number of rows that have them."""
        for value, n in counts:
            if self.are_too_many:
                return
            if value is None or value != value or (isinstance(value, str) and not value.strip()):
                self.n_missing += n
            else:
                self.values[value] = self.values.get(value, 0) + n

    def are_ticks(self, name: str) -> bool:
        """Whether the column of this name has one value and cells whose emptiness means no."""
        if len(self.values) != 1:
            return False
        ((value, n_value),) = self.values.items()
        return is_ticked(name, value, n_value, self.n_missing)

    def widen(self, low: float | None, high: float | None) -> None:
        if low is not None and high is not None:  # as they are where all values are missing
            self.low, self.high = min(self.low, low), max(self.high, high)


def find_labels(
    table: ArrowSource, target: str, learnt: Callable[[np.ndarray], np.ndarray]
) -> tuple[TargetLabels, list[int], list[int]]:
    """The labels, and how many labelled rows of every piece are `learnt` from and how many are held out."""
    import pyarrow as pa

    column_type = table.column_types[target]
    if column_type in UNASKABLE:
        raise ValueError(f"Column '{target}' holds {column_type}, which are not labels: name another target.")
    found, used = Counter[Any](), Counter[Any]()
    to_learn, held_out = [], []
    for piece in table.pieces:
        n_labelled = n_learnt = 0
        for first, chunk in table.chunks(piece, [target], as_stored=[target]):
            labels = chunk[target]
            has_one = is_present(labels)
            is_learnt = has_one & learnt(np.arange(first, first + len(labels)))
            for counter, chosen in ((found, has_one), (used, is_learnt)):
                counter.update(dict(_value_counts(labels.filter(pa.array(chosen)))))
            if len(found) > MAX_CLASSES:
                raise ValueError(f"Column '{target}' has more than {MAX_CLASSES:,} different labels: group them first.")
            n_labelled, n_learnt = n_labelled + int(has_one.sum()), n_learnt + int(is_learnt.sum())
        to_learn.append(n_learnt)
        held_out.append(n_labelled - n_learnt)
    if not found:
        raise ValueError(f"Column '{target}' of {table.where} has no labels: all its values are missing.")
    values, classes = _classes(list(found), target, table)
    counts = np.array([used[value] for value in values])
    same = same_labels(classes, counts)
    classes, class_of = np.unique(with_same(classes, same), return_inverse=True)
    counts = np.bincount(class_of, counts, len(classes)).astype(np.int64)
    written = pa.array(values, pa.large_string() if column_type == "words" else None)
    labels = TargetLabels(classes, written, class_of, counts, sum(found.values()), same)
    return labels, to_learn, held_out


def find_values(table: ArrowSource, columns: Sequence[str], most: Mapping[str, int]) -> dict[str, SeenValues]:
    """The values of columns, each until more than `most` are known and only the range matters."""
    import pyarrow.compute as pc

    seen = {name: SeenValues(most[name]) for name in columns}
    for name in columns:  # one column at a time, as they lie in the files
        is_numeric = table.column_types[name] in NUMERIC
        for piece in table.pieces:
            if seen[name].are_too_many and not is_numeric:
                break
            for _, chunk in table.chunks(piece, [name]):
                if is_numeric:
                    bounds = pc.min_max(chunk[name]).as_py()
                    seen[name].widen(bounds["min"], bounds["max"])
                if not seen[name].are_too_many:
                    seen[name].add(_value_counts(chunk[name]))
    return seen


def guess_queries(table: ArrowSource, columns: Sequence[str]) -> tuple[ColumnQueries, list[str]]:
    """The query that every column is, as `ColumnQueries.from_data` guesses it, with choices collected over all rows;
    and the columns left out because they are empty or the same in every row. Numbers are not scaled yet."""
    table.refuse_unaskable(columns)
    may_be_choices = {name for name in columns if table.column_types[name] == "words" or name in table.categorical}
    seen = find_values(table, columns, {name: MAX_CHOICES if name in may_be_choices else 2 for name in columns})
    ticked: dict[str, ColumnType] = {name: "yes/no" for name in columns if seen[name].are_ticks(name)}
    varying = [name for name in columns if len(seen[name].values) > 1 or name in ticked]
    silent = [name for name in columns if name not in varying]
    if not varying:
        raise ValueError(f"{table.where} has no columns to ask for that are not the same in every row.")
    try:
        values = _all_values(table, {name: seen[name] for name in varying})
        queries = ColumnQueries.from_data(values, column_types=ticked, ask_all=True)
    except NotAQuestion as error:
        raise NotAQuestion(f"{error} (Texts were counted no further than that.)", error.columns) from None
    return queries, silent


def check_values(table: ArrowSource, queries: QuerySet) -> None:
    """Raise ValueError for values that a query set cannot read, before training meets them."""
    names = [query.name for query in queries.queries]
    absent = [name for name in names if name not in table.column_types]
    if absent:
        raise ValueError(f"{table.where} lacks columns of the query_set: {', '.join(absent[:10])}.")
    table.refuse_unaskable(names)
    for query in queries.queries:
        if isinstance(query, Number) and table.column_types[query.name] == "words":
            raise ValueError(f"Column '{query.name}' holds words, but the query_set asks for a number: convert it.")
    most = {query.name: len(query.values) if isinstance(query, Choice) else 2 for query in queries.queries}
    queries.answers(_all_values(table, find_values(table, names, most)))


def _all_values(table: ArrowSource, seen: Mapping[str, SeenValues]) -> pd.DataFrame:
    """A small table of all values seen, with the ends of the range of numbers."""
    columns = {}
    for name, column in seen.items():
        values = list(column.values)
        missing = [None] if column.n_missing else []
        if name in table.categorical and not column.are_too_many:
            columns[name] = pd.Series(pd.Categorical([*values, *missing], sorted(values)))
        elif table.column_types[name] in NUMERIC:
            ends = [end for end in (column.low, column.high) if column.low <= column.high]
            # Without missing values, 0 and 1 are yes/no only where they are whole.
            is_float = table.column_types[name] == "numbers"
            columns[name] = pd.Series([*values, *ends, *missing], dtype="Float64" if is_float else "Int64")
        else:
            columns[name] = pd.Series([*values, *missing], dtype=object)
    return pd.DataFrame(columns)


def _value_counts(column: "pa.ChunkedArray") -> Iterator[tuple[Any, int]]:
    """The values of a column, one after the other, with their rows; there may be millions, and a few be enough."""
    import pyarrow.compute as pc

    for pair in pc.value_counts(column):
        yield pair["values"].as_py(), pair["counts"].as_py()


def _classes(values: list[Any], target: str, table: ArrowSource) -> tuple[list[Any], np.ndarray]:
    """The labels as they stand in the files, and as classes, both in the order of classes."""
    if table.column_types[target] != "numbers":
        values = sorted(values)
        return values, np.array(values, dtype=str if table.column_types[target] == "words" else None)
    if all(value % 1 == 0 for value in values):
        values = sorted(values)
        return values, np.array(values, dtype=np.int64)
    if len(values) > MAX_FRACTIONS:
        raise ValueError(
            f"Column '{target}' of {table.where} holds more than {MAX_FRACTIONS} different fractions, but a label is "
            "one of a few classes: group the values first."
        )
    values = sorted(values, key=str)
    return values, np.array([str(value) for value in values])


LAST_CHUNK = 10.0
"""Seconds a thread has to finish the chunk it is reading when it is no longer needed."""
EVEN_ENOUGH = 1.02
"""Row groups stay whole where the largest shard is then no larger than this times the mean."""
Buffer = tuple[int, int, Rows, Tensor]
"""The number of its pass, its own number in it, its rows, and the order to give them in."""
BUFFER_BYTES = 1 << 28
"""Memory of a buffer by default; there are two, one being emptied and one being filled."""
SCALE_ROWS, SCALE_PIECES = 20_000, 64
"""How many rows, from how many row groups spread over the data, the scale of numbers is measured on."""


class ParquetRows(StreamedRows):
    """Labelled rows in Parquet or Arrow files, which training reads a buffer at a time.

    Parameters
    ----------
    paths : str, Path or list of them
        A file, a folder, a pattern such as "data/*.parquet", or several; all with the same columns.
    target : str
        The column that is the label. Rows without one are left out.
    query_set : QuerySet, optional
        What may be asked. By default every other column is a query, guessed as `ColumnQueries.from_data` does, with
        choices collected over all rows. Columns that are the same in every row are left out then.
    drop : list of str
        Columns to leave out.
    missing : list of str
        Texts that mean missing, such as "?".
    test_share : float
        Share of the rows held out to measure on: they are chosen by their number in the files, and never streamed.
    seed : int
        Which rows those are.
    buffer_rows : int, optional
        How many rows are shuffled together. By default as many as fit 256 MiB. Neighbours in the files meet in one
        buffer: sorted files need a buffer larger than their row groups, or must be rewritten in a random order.

    Attributes
    ----------
    classes : labels, in the order of all posteriors.
    n_rows_without_label : how many rows were left out.
    silent_columns : columns left out because they are empty or the same in every row.
    n_test : how many rows are held out to measure on.
    """

    def __init__(
        self,
        paths: Any,
        target: str,
        query_set: QuerySet | None = None,
        *,
        drop: Sequence[str] = (),
        missing: Sequence[str] = (),
        test_share: float = 0.2,
        seed: int = 0,
        buffer_rows: int | None = None,
    ):
        if not 0 <= test_share < 1:
            raise ValueError(f"The share of rows to measure on is at least 0 and below 1, not {test_share}.")
        if buffer_rows is not None and buffer_rows < 1:
            raise ValueError(f"buffer_rows is how many rows are shuffled together, at least 1, not {buffer_rows}.")
        self.table = ArrowSource(paths, target=target, drop=drop, missing=missing)
        self.target, self.test_share, self.seed = target, test_share, seed
        self.pieces, self.device = self.table.pieces, torch.device("cpu")
        self._held_out = np.empty(0, dtype=np.int64)  # numbers of rows, in their order
        self.labels, self._n_learnt, n_test = find_labels(self.table, target, self._is_learnt)
        self.classes, self.n_test = self.labels.classes, sum(n_test)
        self.n_rows_without_label = self.table.n_rows - self.labels.n_labelled
        self.silent_columns: list[str] = []
        if not sum(self._n_learnt):
            raise ValueError(
                f"A test share of {test_share:g} leaves 0 of {self.labels.n_labelled:,} rows of {self.table.where} to "
                "train on: choose a smaller one, such as 0.2."
            )
        self.query_set = self._guess_queries() if query_set is None else self._check(query_set)
        self.n_queries = len(self.query_set)
        self.has_initially_known = self.known_beforehand() is not None
        self._reader = self._silent_reader(self.query_set)
        row_bytes = 4 * int(np.prod(self.query_set.answer_shape)) + self.n_queries + 8
        self.chunk_rows = rows_in_a_chunk(8 * len(self.feature_names) + row_bytes)
        self.buffer_rows = buffer_rows or max(1024, BUFFER_BYTES // row_bytes)

    def _guess_queries(self) -> ColumnQueries:
        queries, self.silent_columns = guess_queries(self.table, self.table.columns)
        self.feature_names = tuple(query.name for query in queries.queries)
        spread_out = self.pieces[:: -(-len(self.pieces) // SCALE_PIECES)]
        n_learnt = sum(self._n_learnt[:: -(-len(self.pieces) // SCALE_PIECES)])
        _, sample = self._sample_table(SCALE_ROWS, self.seed, spread_out, n_learnt)
        return queries.rescaled(sample.to_pandas()) if len(sample) else queries

    def _check(self, query_set: QuerySet) -> QuerySet:
        by_name = [query.name for query in query_set.queries]
        if query_set.reads_columns:
            check_values(self.table, query_set)
        elif any(name not in self.table.column_types for name in by_name):  # words of a text, or a network's concepts
            by_name = list(self.table.columns)
        self.feature_names = tuple(by_name)
        return query_set

    def with_queries(self, query_set: QuerySet) -> "ParquetRows":
        """The same rows, asked otherwise: the query set asks for some or all of the same columns."""
        others = copy.copy(self)
        others.query_set, others.n_queries, others._reader = query_set, len(query_set), self._silent_reader(query_set)
        others.feature_names = tuple(query.name for query in query_set.queries)
        others.has_initially_known = others.known_beforehand() is not None
        return others

    def __len__(self) -> int:
        return sum(self._n_learnt)

    def prior(self, n_classes: int) -> Tensor:
        """The share of every class among all rows to learn from, those of other shards too: (C,)."""
        counts = torch.zeros(n_classes)
        counts[: len(self.labels.counts)] = torch.from_numpy(self.labels.counts).float()
        return (counts + 1) / (counts + 1).sum()

    def fingerprint(self) -> str:
        """A hash of which rows these are and in what order, from the names, sizes and footers of the files: the data
        themselves are not read."""
        settings = {
            "target": self.target,
            "query_set": self.query_set.to_config() if self.query_set else None,
            "missing": self.table.missing,
            "test": [self.test_share, self.seed],
            "held_out": self._held_out.tolist(),
            "pieces": [[piece.first, piece.n_rows] for piece in self.pieces],
            "buffer_rows": self.buffer_rows,
        }
        return hashlib.sha256(f"{self.table.fingerprint()}{json.dumps(settings)}".encode()).hexdigest()

    def to(self, device: torch.device) -> "ParquetRows":
        """The same rows, whose streams give them on another device."""
        moved = copy.copy(self)
        moved.device = device
        return moved

    def shard(self, number: int, n_shards: int) -> "ParquetRows":
        """The part of the rows that one of `n_shards` processes learns from; every row is in exactly one.

        Row groups stay whole where that is even enough; otherwise some are cut.
        """
        if not 0 <= number < n_shards:
            raise ValueError(f"Shards are numbered from 0 to {n_shards - 1}: there is no shard {number}.")
        part, whole = copy.copy(self), dict(zip(self.pieces, self._n_learnt, strict=True))
        cuts = [
            (self.pieces[i], round(start * self.pieces[i].n_rows), round(stop * self.pieces[i].n_rows))
            for i, start, stop in sorted(deal(self._n_learnt, n_shards)[number])
        ]
        part.pieces = [piece.part(start, stop) for piece, start, stop in cuts if stop > start]
        part._n_learnt = [whole[piece] if piece in whole else self._count(piece) for piece in part.pieces]
        return part

    def stream(self, generator: torch.Generator) -> "ParquetStream":
        return ParquetStream(self, generator)

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        """n rows to learn from, spread over the files, or all of them if they are fewer."""
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        _, rows = self._sample(n, seed)
        return rows.to(self.device)

    def hold_out(self, share: float, most: int, seed: int) -> tuple["ParquetRows", Rows]:
        """The rows without a share of them, at most `most`, and those that were taken out."""
        numbers, rows = self._sample(max(1, min(most, int(share * len(self)))), seed)
        others = copy.copy(self)
        others._held_out = np.union1d(self._held_out, numbers)
        starts = [piece.first for piece in self.pieces]  # rising
        gone = np.bincount(np.searchsorted(starts, numbers, side="right") - 1, minlength=len(starts))
        others._n_learnt = (np.array(self._n_learnt) - gone).tolist()
        if not len(others):
            raise ValueError("No rows are left to train on: hold out a smaller share.")
        return others, rows.to(self.device)

    def test_rows(self, most: int = 20_000) -> tuple[pd.DataFrame, np.ndarray]:
        """At most `most` of the rows held out to measure on, spread over the files, and their labels; the index is the
        row's number in the files."""
        how = self.test_share, self.seed, self.n_test, most
        numbers, rows = self.table.held_out(self.feature_names, *how)
        X = rows.select(self.feature_names).to_pandas().set_axis(numbers, axis=0)
        return X, self.labels.classes[self.labels.codes(rows[self.target])]

    def _is_learnt(self, numbers: np.ndarray) -> np.ndarray:
        """Whether rows of these numbers are for learning, if they have a label."""
        return (uniform_hash(numbers, self.seed) >= self.test_share) & ~np.isin(numbers, self._held_out)

    def _count(self, piece: Piece) -> int:
        """How many rows of a piece are learnt from."""
        total = 0
        for first, chunk in self.table.chunks(piece, [self.target], as_stored=[self.target]):
            codes = self.labels.codes(chunk[self.target])
            total += int(((codes >= 0) & self._is_learnt(np.arange(first, first + len(codes)))).sum())
        return total

    def _sample(self, n: int, seed: int) -> tuple[np.ndarray, Rows]:
        """The numbers of n rows to learn from, always the same for a seed, and the rows."""
        numbers, chosen = self._sample_table(n, seed, self.pieces, len(self))
        return numbers, self._read(chosen)

    def _sample_table(self, n: int, seed: int, pieces: Sequence[Piece], n_there: int) -> tuple[np.ndarray, "pa.Table"]:
        def chance(numbers: np.ndarray) -> np.ndarray:
            # Another seed, or the choice would depend on which rows are held out to measure on.
            return np.where(self._is_learnt(numbers), uniform_hash(numbers, seed + 2**62), 1.0)

        limit = sufficient_limit(n, n_there)
        return self.table.lowest(self.feature_names, chance, limit, n, pieces)

    def _read(self, chunk: "pa.Table") -> Rows:
        """Rows of the files, all with labels, in the answer space."""
        codes = torch.from_numpy(self.labels.codes(chunk[self.target]))
        answers = self._reader.answers(chunk.select(self.feature_names).to_pandas())
        return Rows(*answers, codes, self._reader.known_beforehand(len(codes)))

    @staticmethod
    def _silent_reader(query_set: QuerySet) -> QuerySet:
        """Values that the query set does not know are reported once, and not with every chunk."""
        return query_set.with_options(unknown="ignore") if "unknown" in query_set.to_config() else query_set

    def known_beforehand(self) -> Tensor | None:
        """(1, Q) what is known of every row before anything is asked; None: nothing."""
        known = None if self.query_set is None else self.query_set.known_beforehand(1)
        return None if known is None else known.to(self.device)

    def pieces_to_learn_from(self) -> list[Piece]:
        """Those with any row to learn from; others need not be read."""
        return [piece for piece, n in zip(self.pieces, self._n_learnt, strict=True) if n]

    def chunks(self, piece: Piece) -> "Iterator[tuple[int, pa.Table]]":
        """The rows of a piece in chunks, each with the number of its first row."""
        return self.table.chunks(piece, [*self.feature_names, self.target], [self.target], self.chunk_rows)

    def rows_to_learn_from(self, first: int, chunk: "pa.Table") -> Rows | None:
        """Those rows of a chunk that are learnt from, in the answer space; None if there are none."""
        import pyarrow as pa

        has_label = self.labels.codes(chunk[self.target]) >= 0
        learnt = chunk.filter(pa.array(has_label & self._is_learnt(np.arange(first, first + len(chunk)))))
        return self._read(learnt) if len(learnt) else None


class ParquetStream(RowStream):
    """An endless stream of the rows: every pass goes through all row groups in a new order, buffer after buffer.

    While rows are taken from one buffer, a thread reads the next.
    """

    def __init__(self, source: ParquetRows, generator: torch.Generator):
        if not len(source):
            raise ValueError("There are no rows to train on: give more rows, or fewer shards.")
        self.source, self.n_queries = source, source.n_queries
        self._seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        self._ready: dict[int, Rows] = {}
        """The next rows, for every n in the same memory each time, where a recorded step finds them."""
        self._beforehand = source.known_beforehand()
        self._begin(0, 0, 0)

    def _begin(self, number: int, buffer: int, position: int) -> None:
        self._pass, self._buffer, self._position = number, buffer, position
        self._rows: Rows | None = None
        self._order = torch.empty(0, dtype=torch.long)
        self._ahead: _Ahead | None = None

    def prepare(self, n: int) -> None:
        parts: list[Rows] = []
        wanted = n
        while wanted > 0 or not parts:
            rows = self._refilled()
            part = self._order[self._position : self._position + wanted]
            self._position += len(part)
            wanted -= len(part)
            parts.append(rows.take(part))
        rows = parts[0] if len(parts) == 1 else Rows.concatenated(parts)
        if n not in self._ready:
            self._ready[n] = rows
        else:
            for memory, tensor in zip(_tensors(self._ready[n]), _tensors(rows), strict=True):
                memory.copy_(tensor)

    def take(self, n: int) -> Rows:
        known = None if self._beforehand is None else self._beforehand.expand(n, -1)
        x, available, y = (tensor.clone() for tensor in _tensors(self._ready[n]))
        return Rows(x, available, y, known)

    def _refilled(self) -> Rows:
        """The buffer, or the next one once it is empty."""
        if self._rows is None or self._position == len(self._order):
            if self._ahead is None:
                self._ahead = _Ahead(partial(_buffers, self.source, self._seed, self._pass, self._buffer))
            resumed_at = self._position if self._rows is None else 0
            self._rows = None  # freed before the next but one is read
            self._pass, self._buffer, rows, order = self._ahead.take()
            self._rows, self._order = rows.to(self.source.device), order.to(self.source.device)
            self._position = resumed_at
        return self._rows

    def state(self) -> dict[str, Tensor]:
        return {"place": torch.tensor([self._seed, self._pass, self._buffer, self._position])}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._seed, number, buffer, position = state["place"].tolist()
        self._begin(number, buffer, position)


def _buffers(source: ParquetRows, seed: int, number: int, buffer: int, ended: Callable[[], bool]) -> Iterator[Buffer]:
    """Buffers without end, starting with one of a pass."""
    while True:
        n_given = 0
        for i, rows in _buffers_of_pass(source, seed, number, buffer, ended):
            n_given += len(rows)
            order = np.random.default_rng([seed, number, i]).permutation(len(rows))
            if len(rows):
                yield number, i, rows, torch.from_numpy(order)
        if ended():
            return
        if buffer == 0 and n_given != len(source):
            raise ValueError(
                f"{source.table.where} had {len(source):,} rows to learn from and now has {n_given:,}: leave the files "
                "as they are while training reads them, and start again."
            )
        number, buffer = number + 1, 0


def _buffers_of_pass(
    source: ParquetRows, seed: int, number: int, buffer: int, ended: Callable[[], bool]
) -> Iterator[tuple[int, Rows]]:
    """The buffers of one pass. They are of equal size, counted in rows of the files, so that where one begins is known
    without reading those before it."""
    pieces = source.pieces_to_learn_from()
    order = np.random.default_rng([seed, number]).permutation(len(pieces))
    total = sum(piece.n_rows for piece in pieces)
    n_buffers = -(-total // source.buffer_rows)
    edges = [total * i // n_buffers for i in range(n_buffers + 1)]
    position, filling = edges[buffer], _Filling(edges[buffer + 1] - edges[buffer])
    for first, chunk in _chunks(source, [pieces[i] for i in order], position):
        while len(chunk):
            if ended():
                return
            chosen = chunk.slice(0, edges[buffer + 1] - position)
            rows = source.rows_to_learn_from(first, chosen)
            if rows is not None:
                filling.add(rows)
            chunk, first, position = chunk.slice(len(chosen)), first + len(chosen), position + len(chosen)
            if position == edges[buffer + 1]:
                yield buffer, filling.rows()
                buffer += 1
                if buffer < n_buffers:
                    filling = _Filling(edges[buffer + 1] - edges[buffer])


def _chunks(source: ParquetRows, pieces: Sequence[Piece], position: int) -> Iterator[tuple[int, "pa.Table"]]:
    """The rows of pieces one after the other, without the first `position`."""
    for piece in pieces:
        if position < piece.n_rows:
            yield from source.chunks(piece.part(position, piece.n_rows))
        position = max(0, position - piece.n_rows)


class _Filling:
    """A buffer being filled: memory for all its rows, some of which may be left out."""

    def __init__(self, capacity: int):
        self.capacity, self.n = capacity, 0
        self.x = self.available = self.y = torch.empty(0)

    def add(self, rows: Rows) -> None:
        if not self.n:
            self.x, self.available, self.y = (
                # numpy's memory goes back to the system when it is freed; torch's need not if another thread frees it
                torch.from_numpy(np.empty((self.capacity, *tensor.shape[1:]), dtype=tensor.numpy().dtype))
                for tensor in _tensors(rows)
            )
        for whole, part in zip((self.x, self.available, self.y), _tensors(rows), strict=True):
            whole[self.n : self.n + len(rows)] = part
        self.n += len(rows)

    def rows(self) -> Rows:
        return Rows(self.x[: self.n], self.available[: self.n], self.y[: self.n])


def _tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return rows.x, rows.available, rows.y


class _Ahead:
    """Runs an iterator in a thread, one item ahead of what is taken."""

    def __init__(self, items: Callable[[Callable[[], bool]], Iterator[Buffer]]):
        made: queue.SimpleQueue[Any] = queue.SimpleQueue()
        wanted, ended = threading.Semaphore(1), threading.Event()
        self._made, self._wanted = made, wanted
        self._error: BaseException | None = None

        def make() -> None:  # without a reference to this object, so that the thread ends when it is collected
            try:
                coming = items(ended.is_set)
                while wanted.acquire() and not ended.is_set():
                    made.put(next(coming))
            except StopIteration:  # the iterator saw that it was to end
                return
            except BaseException as error:  # raised where the next item is taken
                made.put(error)

        thread = threading.Thread(target=make, name="parquet-reader", daemon=True)

        def end() -> None:
            ended.set()
            wanted.release()
            if thread is not threading.current_thread():
                thread.join(LAST_CHUNK)

        weakref.finalize(self, end)  # also when the program ends
        thread.start()

    def take(self) -> Buffer:
        if self._error is None:
            made = self._made.get()
            if not isinstance(made, BaseException):
                self._wanted.release()
                return made
            self._error = made
        raise self._error


def deal(sizes: Sequence[int], n_shards: int) -> list[list[tuple[int, float, float]]]:
    """Things of these sizes dealt out evenly: for every shard, the numbers of those it gets, and where in each its part
    starts and stops, from 0 to 1. A thing is cut only where whole ones would not be even enough."""
    there = [i for i, size in enumerate(sizes) if size]
    order = sorted(there, key=lambda i: i % n_shards)  # so that a shard comes from all over the files
    ends = np.cumsum([sizes[i] for i in order])
    cuts = np.linspace(0, ends[-1], n_shards + 1)
    nearest = ends[np.abs(ends - cuts[1:-1, None]).argmin(axis=1)]
    is_near = np.abs(nearest - cuts[1:-1]) <= (EVEN_ENOUGH - 1) / 2 * ends[-1] / n_shards
    cuts[1:-1] = np.where(is_near, nearest, cuts[1:-1])
    dealt: list[list[tuple[int, float, float]]] = [[] for _ in range(n_shards)]
    for i, end in zip(order, ends.tolist(), strict=True):
        inside = cuts[(cuts > end - sizes[i]) & (cuts < end)]
        first = np.searchsorted(cuts, end - sizes[i], side="right") - 1
        places = [(cut - end + sizes[i]) / sizes[i] for cut in (end - sizes[i], *inside.tolist(), end)]
        for shard, (start, stop) in enumerate(pairwise(places), start=int(first)):
            dealt[shard].append((i, start, stop))
    return dealt
