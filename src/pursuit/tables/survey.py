"""What files larger than memory hold: their labels and the values of columns, found in one look at all rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pursuit.queries import MAX_CHOICES, Choice, ColumnQueries, NotAQuestion, Number, QuerySet
from pursuit.queries.column_types import ColumnType
from pursuit.queries.guessing import is_ticked
from pursuit.tables.arrow import NUMERIC, UNASKABLE, Piece, is_present
from pursuit.tables.labels import MAX_FRACTIONS, same_labels, with_same
from pursuit.tables.source import ArrowSource

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
    same = same_labels(classes.tolist(), counts.tolist())
    classes, class_of = np.unique(with_same(classes, same), return_inverse=True)
    counts = np.bincount(class_of, counts, len(classes)).astype(np.int64)
    written = pa.array(values, pa.large_string() if column_type == "words" else None)
    labels = TargetLabels(classes, written, class_of, counts, sum(found.values()), same)
    return labels, to_learn, held_out


def find_values(table: ArrowSource, columns: Sequence[str], most: Mapping[str, int]) -> dict[str, SeenValues]:
    """The values of columns, each until more than `most` are known and only the range matters.

    Row groups whose numbers follow from the range that the file records are not read.
    """
    import pyarrow.compute as pc

    seen = {name: SeenValues(most[name]) for name in columns}
    for name in columns:  # one column at a time, as they lie in the files
        is_numeric = table.column_types[name] in NUMERIC
        for piece in table.pieces:
            if seen[name].are_too_many and not is_numeric:
                break
            if is_numeric and _range_settles(seen[name], table, piece, name):
                continue
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


def _range_settles(seen: SeenValues, table: ArrowSource, piece: Piece, name: str) -> bool:
    """Whether the range that a file records for a row group says all there is to know about its numbers."""
    bounds = table.bounds(piece, name)
    if bounds is None:
        return False
    low, high = bounds
    seen.widen(low, high)
    seen.add([(low, 0), (high, 0)])
    if low == high:  # empty cells may mean no, and these have to be counted
        return len(seen.values) > 1
    may_hold_more = table.column_types[name] == "numbers" or high - low > 1
    return seen.are_too_many or not may_hold_more


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
