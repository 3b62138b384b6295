"""What a table holds: its labels, and what a person should know of them before training; and, of files larger than
memory, the values of columns, found in one look at all rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pursuit.queries import MAX_CHOICES, Choice, ColumnQueries, NotAQuestion, Number, QuerySet
from pursuit.queries.column import NO_WORDS, YES_WORDS, listed
from pursuit.queries.column_types import ColumnType
from pursuit.queries.guessing import is_ticked
from pursuit.queries.reading import parse_numbers
from pursuit.tables.arrow import NUMERIC, UNASKABLE, ArrowTable, Piece, existing_column, is_present

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FRACTIONS = 20
"""A target with more different fractions than this is a measurement, not a label."""
MAX_CLASSES = 100_000
FEW_ROWS = 3
"""A label with fewer rows than this can hardly be learnt."""
MANY_NUMBERS, ROWS_PER_NUMBER = 50, 20
"""More different whole numbers than this are amounts, not labels, where each has fewer rows than this on average."""


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
    table: ArrowTable, target: str, learnt: Callable[[np.ndarray], np.ndarray]
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
        for first, chunk in table.read(piece, [target], as_stored=[target]):
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
        raise ValueError(f"Column '{target}' of {table.name} has no labels: all its values are missing.")
    values, classes = _classes(list(found), target, table)
    counts = np.array([used[value] for value in values])
    same = same_labels(classes.tolist(), counts.tolist())
    classes, class_of = np.unique(with_same(classes, same), return_inverse=True)
    counts = np.bincount(class_of, counts, len(classes)).astype(np.int64)
    written = pa.array(values, pa.large_string() if column_type == "words" else None)
    labels = TargetLabels(classes, written, class_of, counts, sum(found.values()), same)
    return labels, to_learn, held_out


def find_values(table: ArrowTable, columns: Sequence[str], most: Mapping[str, int]) -> dict[str, SeenValues]:
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
            for _, chunk in table.read(piece, [name]):
                if is_numeric:
                    bounds = pc.min_max(chunk[name]).as_py()
                    seen[name].widen(bounds["min"], bounds["max"])
                if not seen[name].are_too_many:
                    seen[name].add(_value_counts(chunk[name]))
    return seen


def guess_queries(table: ArrowTable, columns: Sequence[str]) -> tuple[ColumnQueries, list[str]]:
    """The query that every column is, as `ColumnQueries.from_data` guesses it, with choices collected over all rows;
    and the columns left out because they are empty or the same in every row. Numbers are not scaled yet."""
    table.refuse_unaskable(columns)
    may_be_choices = {name for name in columns if table.column_types[name] == "words" or name in table.categorical}
    seen = find_values(table, columns, {name: MAX_CHOICES if name in may_be_choices else 2 for name in columns})
    ticked: dict[str, ColumnType] = {name: "yes/no" for name in columns if seen[name].are_ticks(name)}
    varying = [name for name in columns if len(seen[name].values) > 1 or name in ticked]
    silent = [name for name in columns if name not in varying]
    if not varying:
        raise ValueError(f"{table.name} has no columns to ask for that are not the same in every row.")
    try:
        values = _all_values(table, {name: seen[name] for name in varying})
        queries = ColumnQueries.from_data(values, column_types=ticked, ask_all=True)
    except NotAQuestion as error:
        raise NotAQuestion(f"{error} (Texts were counted no further than that.)", error.columns) from None
    return queries, silent


def check_values(table: ArrowTable, queries: QuerySet) -> None:
    """Raise ValueError for values that a query set cannot read, before training meets them."""
    names = [query.name for query in queries.queries]
    absent = [name for name in names if name not in table.column_types]
    if absent:
        raise ValueError(f"{table.name} lacks columns of the query_set: {', '.join(absent[:10])}.")
    table.refuse_unaskable(names)
    for query in queries.queries:
        if isinstance(query, Number) and table.column_types[query.name] == "words":
            raise ValueError(f"Column '{query.name}' holds words, but the query_set asks for a number: convert it.")
    most = {query.name: len(query.values) if isinstance(query, Choice) else 2 for query in queries.queries}
    queries.answers(_all_values(table, find_values(table, names, most)))


def _all_values(table: ArrowTable, seen: Mapping[str, SeenValues]) -> pd.DataFrame:
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


def _range_settles(seen: SeenValues, table: ArrowTable, piece: Piece, name: str) -> bool:
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


def _classes(values: list[Any], target: str, table: ArrowTable) -> tuple[list[Any], np.ndarray]:
    """The labels as they stand in the files, and as classes, both in the order of classes."""
    if table.column_types[target] != "numbers":
        values = sorted(values)
        return values, np.array(values, dtype=str if table.column_types[target] == "words" else None)
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


def split_target(
    frame: pd.DataFrame, target: str | None, where: str, regress: bool = False
) -> tuple[pd.DataFrame, np.ndarray]:
    """Queries, and labels or the numbers to predict; rows without one are left out."""
    column = target_column(frame, target, where).dropna()
    return frame.loc[column.index].drop(columns=column.name), target_values(column, regress, where)


def target_values(column: pd.Series, regress: bool = False, where: str = "the rows") -> np.ndarray:
    """Labels, none of which is missing, as whole numbers, yes/no or words; to `regress`, as numbers."""
    if regress:
        numbers = np.asarray(parse_numbers(column), dtype=np.float64)
        other = column[~np.isfinite(numbers)]
        if len(other):
            raise ValueError(
                f"Column '{column.name}' of {where} has {len(other)} values that are not numbers, such as "
                f"'{other.iloc[0]}': leave out --regress to predict classes, or name with --missing what means missing."
            )
        return numbers
    if _are_whole(column):
        return column.to_numpy(dtype=np.int64)  # some are read as fractions because others were missing
    # Fractions, and labels of several types, can only be sorted as words.
    return column.to_numpy() if pd.api.types.is_bool_dtype(column) else column.astype(str).to_numpy(dtype=str)


def same_labels(classes: Sequence[Any], counts: Sequence[int]) -> dict[str, str]:
    """Spellings of labels that mean another one, and that one: words that differ only in case or spaces, of which the
    most frequent counts, and all words for yes and for no where there are no others, which become the longest of them.
    Single letters stay different, but for Y and N among such words."""
    if not all(isinstance(label, str) for label in classes):
        return {}
    rows = dict(zip(classes, counts, strict=True))
    by_word: dict[str, list[str]] = {}
    for label in classes:
        by_word.setdefault(_plain_word(label), []).append(label)
    groups = [spellings for word, spellings in by_word.items() if len(word) > 1]
    no, yes = ([word for word in by_word if word in words] for words in (NO_WORDS, YES_WORDS))
    if no and yes and len(no) + len(yes) == len(by_word) and not set(no) & set(yes):
        both = [([label for word in words for label in by_word[word]], max(words, key=len)) for words in (no, yes)]
        return {label: meant for spellings, meant in both for label in spellings if label != meant}
    found: dict[str, str] = {}
    for spellings in groups:
        meant = max(spellings, key=lambda label: (rows[label], label == label.casefold()))
        found |= {label: meant for label in spellings if label != meant}
    return found


def remark_on_same(same: Mapping[str, str]) -> list[str]:
    """What a person should know of labels that count as others."""
    by_label: dict[str, list[str]] = {}
    for label, meant in same.items():
        by_label.setdefault(meant, []).append(f"'{label}'")
    named = "; ".join(f"'{meant}' is also {listed(others)}" for meant, others in by_label.items())
    return [f"Labels that are written in several ways count as one: {named}."] if same else []


def with_same(labels: np.ndarray, same: Mapping[str, str]) -> np.ndarray:
    """Labels (N,), each by the spelling that counts."""
    return np.array([same.get(label, label) for label in labels]) if same else labels


def as_known(values: pd.Series, classes: np.ndarray) -> pd.Series:
    """Labels of other rows as those that a model knows, by which they are meant."""
    if values.isin(classes).all() or classes.dtype.kind not in "OU":
        return values
    known = list(map(str, classes))
    others = [str(value) for value in values.unique() if value not in set(known)]
    by_word = {_plain_word(label): label for label in known if len(label) > 1}
    meant = {label: by_word[word] for label in others if (word := _plain_word(label)) in by_word}
    sides = [[label for label in known if _plain_word(label) in words] for words in (NO_WORDS, YES_WORDS)]
    if len(known) == 2 and all(len(side) == 1 for side in sides):
        for (label,), words in zip(sides, (NO_WORDS, YES_WORDS), strict=True):
            meant |= {other: label for other in others if _plain_word(other) in words}
    return values.replace(meant)


def _plain_word(label: object) -> str:
    return " ".join(str(label).split()).casefold()


def target_column(frame: pd.DataFrame, target: str | None, where: str) -> pd.Series:
    """The column of labels; raises ValueError if there is none, or if it is empty."""
    names = list(frame.columns)
    if target is None:
        raise ValueError(f"Which column of {where} is the label? Name it with --target: {', '.join(names[:20])}.")
    if target not in names and all(_is_number(name) for name in names):
        raise ValueError(
            f"{where} has no column '{target}': its first line holds {listed(names)}. A header line with the names of "
            "the columns is needed above the data."
        )
    if target not in names and (len(names) == 1 or sum(name.startswith("Unnamed: ") for name in names) > 1):
        raise ValueError(
            f"{where} has no column '{target}': its first line holds {names[0]!r}. That must be the header line, with "
            "the names of all columns between commas, semicolons, tabs or bars: delete what stands above it."
        )
    column = frame[existing_column(target, names, where)]
    if column.isna().all():
        raise ValueError(f"Column '{target}' of {where} has no labels: all its values are missing.")
    return column


def remarks_on_labels(y: np.ndarray) -> list[str]:
    """What may be wrong with the labels, each in a sentence."""
    return remarks_on_counts(*np.unique(y, return_counts=True))


def remarks_on_counts(classes: np.ndarray, counts: np.ndarray) -> list[str]:
    """What may be wrong with labels that occur as often as `counts` says."""
    remarks = []
    rare = [f"'{label}'" for label, count in zip(classes, counts, strict=True) if count < FEW_ROWS]
    if rare:
        have = "has" if len(rare) == 1 else "have"
        remarks.append(
            f"Warning: {len(rare)} of {len(classes)} labels {have} fewer than {FEW_ROWS} rows: {listed(rare)}. Such "
            "labels can hardly be learnt: give more rows of them, merge them with others, or leave these rows out."
        )
    if alike := _alike(classes.tolist(), counts.tolist()):
        remarks.append(
            f"Warning: labels that differ only in case or spaces count as different: {listed(alike)}. If they mean the "
            "same, write them alike."
        )
    if np.issubdtype(classes.dtype, np.integer) and len(classes) > MANY_NUMBERS:
        remarks.append(
            f"The labels are {len(classes)} different whole numbers, each a class of its own. If they are amounts, add "
            "--regress to predict a number."
        )
    return remarks


def refuse_amounts(labels: pd.Series, where: str) -> None:
    """Raise ValueError for numbers that are not classes but amounts."""
    if not pd.api.types.is_numeric_dtype(labels) or pd.api.types.is_bool_dtype(labels):
        return
    n_labels, n_rows, are_whole = labels.nunique(), len(labels), _are_whole(labels)
    are_few = n_labels <= (MANY_NUMBERS if are_whole else MAX_FRACTIONS)
    if not are_few and not (are_whole and n_rows >= ROWS_PER_NUMBER * n_labels):
        what = "whole numbers" if are_whole else "fractions"
        raise ValueError(
            f"Column '{labels.name}' of {where} has {n_labels} different {what} in {n_rows:,} rows, but a label is "
            "one of a few classes. To predict the number itself, add --regress; to predict classes, group the values "
            "first, or write them as words if each is a class."
        )


def _are_whole(labels: pd.Series) -> bool:
    is_integer = pd.api.types.is_integer_dtype(labels)
    return is_integer or bool(pd.api.types.is_float_dtype(labels) and (labels % 1 == 0).all())


def _alike(classes: Sequence[object], counts: Sequence[int]) -> list[str]:
    """Groups of labels that differ only in case or spaces, in words."""
    groups: dict[str, list[str]] = {}
    for label, count in zip(classes, counts, strict=True):
        rows = "1 row" if count == 1 else f"{count:,} rows"
        groups.setdefault(_plain_word(label), []).append(f"'{label}' ({rows})")
    return [" and ".join(group) for group in groups.values() if len(group) > 1]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
