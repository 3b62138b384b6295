"""What a table in files holds, found in one look at all its rows: labels, and the values of columns."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pursuit.parquet.arrow_files import COUNTED, NOT_ASKED_FOR, ArrowTable, Piece
from pursuit.parquet.choosing import is_there
from pursuit.queries import ColumnQueries, NotAQuestion
from pursuit.queries.columns import MAX_CHOICES, Choice, Number

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FRACTIONS = 20
"""A target with more different fractions than this is a measurement and no label."""
MAX_CLASSES = 100_000


@dataclass
class TargetLabels:
    """The labels of a table."""

    classes: np.ndarray
    values: "pa.Array"  # (C,) the classes as they stand in the files
    counts: np.ndarray  # (C,) how many rows to learn from have each
    n_labelled: int

    def codes(self, column: "pa.ChunkedArray") -> np.ndarray:
        """The class of every row, -1 where it has no label."""
        import pyarrow.compute as pc

        return pc.index_in(column, value_set=self.values).fill_null(-1).to_numpy().astype(np.int64)


@dataclass
class Seen:
    """Values of a column: all of them as long as they are few, and the range of numbers."""

    most: int
    values: dict[Any, None] = field(default_factory=dict)
    low: float = np.inf
    high: float = -np.inf

    @property
    def are_many(self) -> bool:
        return len(self.values) > self.most

    def add(self, values: Sequence[Any]) -> None:
        for value in values:
            if self.are_many:
                return
            if value is not None and value == value:  # not NaN
                self.values[value] = None

    def widen(self, low: float | None, high: float | None) -> None:
        if low is not None and high is not None:  # as they are where all values are missing
            self.low, self.high = min(self.low, low), max(self.high, high)


def find_labels(
    table: ArrowTable, target: str, learnt: Callable[[np.ndarray], np.ndarray]
) -> tuple[TargetLabels, list[int], list[int]]:
    """The labels, and how many rows of every piece have one and are `learnt` from or kept apart."""
    import pyarrow as pa

    if table.kinds[target] in NOT_ASKED_FOR:
        raise ValueError(f"Column '{target}' holds {table.kinds[target]}, which are no labels: name another target.")
    found, used = Counter[Any](), Counter[Any]()
    to_learn, apart = [], []
    for piece in table.pieces:
        n_labelled = n_learnt = 0
        for first, chunk in table.read(piece, [target], whole=[target]):
            labels = chunk[target]
            has_one = is_there(labels)
            is_learnt = has_one & learnt(np.arange(first, first + len(labels)))
            for counter, chosen in ((found, has_one), (used, is_learnt)):
                counter.update(_counted(labels.filter(pa.array(chosen))))
            if len(found) > MAX_CLASSES:
                raise ValueError(f"Column '{target}' has more than {MAX_CLASSES:,} different labels: group them first.")
            n_labelled, n_learnt = n_labelled + int(has_one.sum()), n_learnt + int(is_learnt.sum())
        to_learn.append(n_learnt)
        apart.append(n_labelled - n_learnt)
    if not found:
        raise ValueError(f"Column '{target}' of {table.name} has no labels: all its values are missing.")
    values, classes = _classes(list(found), target, table)
    counts = np.array([used[value] for value in values])
    kind = pa.large_string() if table.kinds[target] == "words" else None
    return TargetLabels(classes, pa.array(values, kind), counts, sum(found.values())), to_learn, apart


def find_values(table: ArrowTable, columns: Sequence[str], most: Mapping[str, int]) -> dict[str, Seen]:
    """The values of columns, each until more than `most` are known and only their range is of interest.

    Where a file itself tells the range of a row group, numbers that it settles are not read.
    """
    import pyarrow.compute as pc

    seen = {name: Seen(most[name]) for name in columns}
    for name in columns:  # one column at a time, for that is how they lie in the files
        counted = table.kinds[name] in COUNTED
        for piece in table.pieces:
            if seen[name].are_many and not counted:
                break
            if counted and _is_settled(seen[name], table, piece, name):
                continue
            for _, chunk in table.read(piece, [name]):
                if counted:
                    bounds = pc.min_max(chunk[name]).as_py()
                    seen[name].widen(bounds["min"], bounds["max"])
                if not seen[name].are_many:
                    seen[name].add(pc.unique(chunk[name]).to_pylist())
    return seen


def guess_queries(table: ArrowTable, columns: Sequence[str]) -> tuple[ColumnQueries, list[str]]:
    """The query that every column is, as `ColumnQueries.from_data` guesses it, with choices collected over all rows;
    and the columns left out because they are empty or the same in every row. Numbers are not scaled yet."""
    table.refuse_other_kinds(columns)
    of_words = {name for name in columns if table.kinds[name] == "words" or name in table.listed}
    seen = find_values(table, columns, {name: MAX_CHOICES if name in of_words else 2 for name in columns})
    told = [name for name in columns if len(seen[name].values) > 1]
    silent = [name for name in columns if name not in told]
    if not told:
        raise ValueError(f"{table.name} has no columns to ask for that are not the same in every row.")
    try:
        queries = ColumnQueries.from_data(_all_values(table, {name: seen[name] for name in told}))
    except NotAQuestion as error:
        raise NotAQuestion(f"{error} (Texts were counted no further than that.)", error.columns) from None
    return queries, silent


def check_values(table: ArrowTable, queries: ColumnQueries) -> None:
    """Raise ValueError for values that a query set does not know, before training meets them."""
    names = [query.name for query in queries.queries]
    absent = [name for name in names if name not in table.kinds]
    if absent:
        raise ValueError(f"{table.name} lacks columns of the query_set: {', '.join(absent[:10])}.")
    table.refuse_other_kinds(names)
    for query in queries.queries:
        if isinstance(query, Number) and table.kinds[query.name] == "words":
            raise ValueError(f"Column '{query.name}' holds words, but the query_set asks for a number: convert it.")
    most = {query.name: len(query.values) if isinstance(query, Choice) else 2 for query in queries.queries}
    queries.answers(_all_values(table, find_values(table, names, most)))


def _all_values(table: ArrowTable, seen: Mapping[str, Seen]) -> pd.DataFrame:
    """A small table in which every value stands that was seen, and the ends of the range of numbers."""
    columns = {}
    for name, column in seen.items():
        values = list(column.values)
        if name in table.listed and not column.are_many:
            columns[name] = pd.Series(pd.Categorical(values, sorted(values)))
        elif table.kinds[name] in COUNTED:
            ends = [end for end in (column.low, column.high) if column.low <= column.high]
            columns[name] = pd.Series([*values, *ends], dtype=float)
        else:
            columns[name] = pd.Series(values, dtype=object)
    return pd.DataFrame(columns)


def plain_labels(column: "pa.ChunkedArray") -> np.ndarray:
    """Labels of some rows as numpy has them: whole numbers, yes/no or words."""
    import pyarrow as pa

    if pa.types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=str)
    values = column.to_numpy()
    if not pa.types.is_floating(column.type):
        return values
    return values.astype(np.int64) if (values % 1 == 0).all() else values.astype(str)


def _is_settled(seen: Seen, table: ArrowTable, piece: Piece, name: str) -> bool:
    """Whether what a file tells of a row group is all there is to know about its numbers."""
    bounds = table.bounds(piece, name)
    if bounds is None:
        return False
    low, high = bounds
    seen.widen(low, high)
    seen.add([low, high])
    between = table.kinds[name] == "numbers" or high - low > 1
    return seen.are_many or low == high or not between


def _counted(column: "pa.ChunkedArray") -> dict[Any, int]:
    import pyarrow.compute as pc

    return {pair["values"]: pair["counts"] for pair in pc.value_counts(column).to_pylist()}


def _classes(values: list[Any], target: str, table: ArrowTable) -> tuple[list[Any], np.ndarray]:
    """The labels as they stand in the files, and as classes, both in the order of classes."""
    if table.kinds[target] != "numbers":
        values = sorted(values)
        return values, np.array(values, dtype=str if table.kinds[target] == "words" else None)
    if all(value % 1 == 0 for value in values):
        values = sorted(values)
        return values, np.array(values, dtype=np.int64)
    if len(values) > MAX_FRACTIONS:
        raise ValueError(
            f"Column '{target}' of {table.name} holds more than {MAX_FRACTIONS} different fractions, but a label is "
            "one of a few classes: group the values first."
        )
    values = sorted(values, key=str)
    return values, np.array([str(value) for value in values])
