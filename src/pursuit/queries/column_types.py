"""What each column of a table is asked as, given or found by its values: a number, a choice, yes or no, parts of its
cells, or nothing; the query that its values make of each; and the language that questions are made in."""

import datetime
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pandas as pd

from pursuit.queries.column import (
    CLOCK,
    HOW_OLD,
    MENTIONED,
    NO_AND_YES,
    NO_WORDS,
    WHICH_DAY,
    YES_WORDS,
    Choice,
    Date,
    Number,
    Time,
    fold,
    listed,
    looks_ticked,
    tick,
    wording,
    yes_no,
)
from pursuit.queries.dates import (
    DATE_LOOK,
    DAY,
    EPOCH,
    ISO,
    LATEST,
    PATTERNS,
    SHORT_YEARS,
    days_since_1970,
    is_date,
    parse_dates,
    read_dates,
)
from pursuit.queries.own_inputs import quantile_edges
from pursuit.queries.parts import (
    BETWEEN,
    WEEKDAYS,
    Age,
    Contains,
    Weekday,
    age_query,
    item_query,
    items_in,
    terms_in,
    usual_words,
    weekday_query,
    weekdays,
    word_query,
    words,
)
from pursuit.queries.reading import (
    INFINITE,
    MISSING_WORDS,
    Distinct,
    columns_of,
    date_days,
    distinct_values,
    is_date_type,
    is_missing,
    is_plain_number,
    parse_numbers,
    plain_numbers,
    read_column,
)
from pursuit.queries.scales import in_order
from pursuit.queries.scaling import TINIEST, decimals_of, rounded_outward, usual_range
from pursuit.registry import did_you_mean

ColumnType = Literal["number", "choice", "yes/no", "date", "weekday", "age", "choices", "words", "skip"]
"""What a column is asked as: "weekday" and "age" of a date, "choices" of several items a cell, "words" of a text;
"skip": not at all."""
PARTS = ("weekday", "age", "choices", "words")
COLUMN_TYPES: tuple[str, ...] = get_args(ColumnType)
N = TypeVar("N", bound=Number)

MAX_STRAY = 0.05
"""The most texts, as a share, in a column that is still one of numbers or dates."""


def check_column_types(column_types: Mapping[Any, str], names: Sequence[str]) -> dict[str, ColumnType]:
    """Types by column name; raises ValueError for columns and types that do not exist."""
    known, checked = set(names), {str(name): one for name, one in column_types.items()}
    if absent := [name for name in checked if name not in known]:
        hint = did_you_mean(absent[0], names, f"It has {listed(list(names))}.")
        raise ValueError(f"column_types name columns that the table does not have: {listed(absent)}. {hint}")
    if wrong := [one for one in checked.values() if one not in COLUMN_TYPES]:
        raise ValueError(
            f"A column is asked as {', '.join(COLUMN_TYPES[:-1])} or {COLUMN_TYPES[-1]}, not as {wrong[0]!r}."
        )
    return checked  # type: ignore[return-value]


def query_of_type(name: str, series: pd.Series, column_type: ColumnType) -> Choice | Number:
    """The query that a column is if it is asked as this type; raises ValueError where its values contradict that."""
    match column_type:
        case "number":
            return _checked_number(name, series)
        case "yes/no":
            return _checked_yes_no(name, series)
        case "date":
            return date_query(name, series)
    return choice_query(name, series, distinct_values(series))


def _checked_number(name: str, series: pd.Series) -> Number:
    if is_plain_number(series):
        return Number(name, wording(name))
    distinct = distinct_values(series)
    if _are_times(distinct):
        return Time(name, wording(name))
    others = [
        value for value, number in zip(distinct.values, parse_numbers(distinct.values), strict=True) if np.isnan(number)
    ]
    if 2 * len(others) > len(distinct.values):
        raise ValueError(
            f"Column '{name}' is not a number: it holds {_quoted(others)}. Correct these values, or ask for it as "
            f"another type: column_types={{{name!r}: 'choice'}}."
        )
    return number_query(name, distinct)


def _checked_yes_no(name: str, series: pd.Series) -> Choice:
    query, distinct = yes_no(name), distinct_values(series)
    words = {fold(value) for value in distinct.values}
    if len(words) == 1 and not words <= NO_WORDS and (distinct.codes < 0).any():
        return tick(name, as_written(distinct.values[distinct.counts.argmax()]))
    if not is_plain_number(series):
        by_words = choice_query(name, series, distinct)
        query = by_words if by_words.is_yes_no else query
    _, others = read_column(query, series)
    if others:
        raise ValueError(
            f"Column '{name}' is not yes/no: it holds {_quoted(others)}. Write no and yes, or 0 and 1, or ask for it "
            f"as another type: column_types={{{name!r}: 'choice'}}."
        )
    return query


def number_query(name: str, distinct: Distinct) -> Number:
    """Numbers that stand in a column as texts; other texts among them say nothing."""
    others = distinct.values[np.isnan(parse_numbers(distinct.values))]
    return Number(name, wording(name), missing=tuple(str(value).strip() for value in others))


def choice_query(name: str, series: pd.Series, distinct: Distinct) -> Choice:
    """One of the values of a column. Those that differ only in case or in spaces around them are one, written as they
    mostly are; words for no and yes make a yes/no question."""
    n_rows = dict(zip(distinct.values.tolist(), distinct.counts.tolist(), strict=True))
    if isinstance(series.dtype, pd.CategoricalDtype):
        listed_values: Iterable[Any] = series.cat.categories
    else:
        are_numbers = all(isinstance(value, int | float) for value in n_rows)
        listed_values = (
            sorted(n_rows) if are_numbers else in_order(sorted(n_rows, key=lambda value: (fold(value), str(value))))
        )
    spellings: dict[str, dict[Any, int]] = {}
    for value in listed_values:
        written = as_written(value)
        counts = spellings.setdefault(fold(written), {})
        counts[written] = counts.get(written, 0) + n_rows.get(value, 0)
    spellings.pop("", None)
    values = {word: max(counts, key=lambda written: counts[written]) for word, counts in spellings.items()}
    totals = {word: sum(counts.values()) for word, counts in spellings.items()}
    pairs = [pair for pair in NO_AND_YES if pair[0] in totals and pair[1] in totals]
    others = [word for word in totals if word not in NO_WORDS and word not in YES_WORDS]
    are_mixed = len(totals) > 2 + len(others)  # Y and yes, say: what is no word beside them is then no answer either
    if pairs and (not others or (are_mixed and not any(map(str.isalnum, "".join(others))))):
        pair = max(pairs, key=lambda pair: totals[pair[0]] + totals[pair[1]])
        values = {word: values[word] for word in pair}
        text = wording(name, "?")
        if len({_case(value) for value in values.values()}) > 1:  # NO and yes
            return Choice(name, text, pair, values=tuple(values.values()))
    else:
        text = wording(name)
    return Choice(name, text, tuple(str(value) for value in values.values()), values=tuple(values.values()))


def _case(value: Any) -> tuple[bool, bool]:
    """The letter case of a word: whether its first letter is upper case, and whether the rest is."""
    return str(value)[:1].isupper(), str(value)[1:].isupper()


def as_written(value: Any) -> str | int | float | bool:
    """A value as it stands in the list of choices, which JSON can hold."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | float) else str(value).strip()


def date_query(name: str, series: pd.Series) -> Date:
    """The dates of a column, as days; raises ValueError where they are none, or could be read in two ways."""
    query = Date(name, wording(name))
    missing: Sequence[Any] = ()
    if not is_date_type(series):
        values = distinct_values(series).values
        pattern = date_pattern(name, values)
        if pattern is None:
            raise ValueError(
                f"Column '{name}' is not a date: it holds {_quoted(values)}. Write dates as 2024-12-31, or ask for it "
                f"as another type: column_types={{{name!r}: 'choice'}}."
            )
        query = replace(query, pattern=pattern)
        missing = values[np.isnan(read_dates(values, pattern))]
    days = date_days(series, query.pattern)
    has_time = bool((days[~np.isnan(days)] % 1 != 0).any())
    return replace(query, has_time=has_time, missing=tuple(str(value) for value in missing))


def date_pattern(name: str, values: np.ndarray) -> str | None:
    """The format of a column's dates; None if it has no dates. Raises ValueError if they are ambiguous."""
    patterns = date_patterns(values)
    if len(patterns) > 1:
        raise ValueError(
            f"Column '{name}' holds dates that can be read in two ways, such as {_quoted(values[:1])}: write them as "
            "2024-12-31."
        )
    return patterns[0] if patterns else None


def date_patterns(values: np.ndarray) -> list[str]:
    """The ways to write dates in which nearly all of these values are one: none, one, or two if days and months cannot
    be told apart."""
    dated = [value for value in values if fold(value) not in MISSING_WORDS]
    for patterns in ([ISO], PATTERNS, SHORT_YEARS):
        days = {pattern: parse_dates(dated, pattern) for pattern in patterns}
        n_read = {pattern: int((~np.isnan(read)).sum()) for pattern, read in days.items()}
        if patterns is SHORT_YEARS:
            latest = days_since_1970(datetime.date.today()) + LATEST
            n_read = {pattern: 0 if (days[pattern] > latest).any() else n for pattern, n in n_read.items()}
        most = max(n_read.values())
        if dated and most >= (1 - MAX_STRAY) * len(dated):
            best = [pattern for pattern, n in n_read.items() if n == most]
            of_may = [pattern.replace("%b", "%B") for pattern in best if "%b" in pattern]  # which is May, short or not
            return [pattern for pattern in best if pattern not in of_may]
    return []


def _quoted(values: Iterable[Any]) -> str:
    return listed([repr(value if isinstance(value, str | int | float) else str(value)) for value in values], 3)


def _quartiles(numbers: np.ndarray) -> list[float]:
    """As `np.percentile` gives them, in a tenth of its time where numbers are few."""
    last = len(numbers) - 1
    places = [(int(share * last), share * last % 1) for share in (0.25, 0.5, 0.75)]
    ordered = np.partition(numbers, sorted({min(at + i, last) for at, _ in places for i in (0, 1)}))
    return [float(ordered[at] * (1 - beyond) + ordered[min(at + 1, last)] * beyond) for at, beyond in places]


def whole_years(low: float, high: float) -> tuple[float, float]:
    """The range of dates, out to the beginning and the end of a year, for the reasons of `rounded_outward`."""
    try:
        first, last = (EPOCH + math.floor(day) * DAY for day in (low, high))
    except OverflowError:
        return low, high
    ends = days_since_1970(first.replace(month=1, day=1)), days_since_1970(last.replace(month=12, day=31))
    return ends[0], ends[1] + (high % 1 > 0)  # of times, the end of the last day


def scaled(query: N, numbers: np.ndarray, n_pieces: int) -> N:
    """The query with the centre and spread of these numbers, by their quartiles, which outliers hardly move; and with a
    code of up to `n_pieces`."""
    present = numbers[~np.isnan(numbers)]
    if len(present) == 0:
        return replace(query, centre=0.0, spread=1.0, seen=None)
    low, centre, high = _quartiles(present)
    # Quartiles of a normal distribution are 1.349 deviations apart. If they coincide, the deviation itself is taken.
    spread = float(high / 1.349 - low / 1.349) or float(np.std(present)) or 1.0
    spread = min(max(spread, TINIEST), 1 / TINIEST)
    return replace(
        query,
        centre=float(centre),
        spread=spread,
        edges=quantile_edges(present, n_pieces),
        seen=(whole_years if isinstance(query, Date) else rounded_outward)(*usual_range(present)),
        decimals=decimals_of(present),
    )


SEPARATORS = (";", "|", "\n", ",")
MOST_ITEMS, LONGEST_ITEM = 50, 60
SHARE_SEVERAL = 0.05
"""Cells of this share of the rows have several items, where a column is one of several choices."""
LEAST_WITH, LEAST_SHARE_WITH = 3, 0.01
"""An item is asked for that at least as many rows, and this share of them, have."""
LEAST_WORDS = 3
"""Texts have at least this many words on average; what has fewer is a name."""
LEAST_MENTIONS, LEAST_SHARE_MENTIONS, MOST_SHARE_MENTIONS = 10, 0.02, 0.6
"""A word is asked for that at least as many rows, and this share of them, mention, and no more than the last share."""
MOST_WORDS = 20
BIRTH = re.compile(
    r"(^|[\W_])(born|birth|birthday|birthdate|dob|geboren|geburt\w*|naissance|nacimiento|nascita)($|[\W_])", re.I
)
LEAST_BITS = 0.01
"""A weekday that tells less than this is not worth asking for in place of the date."""
LEAST_DATES = 20


def item_queries(name: str, distinct: Distinct, even_if_few: bool = False) -> list[Contains]:
    """A yes/no question for each frequent item, where cells hold several; none where they do not, as far as one can
    see, or, `even_if_few`, where none of them does."""
    values, counts, _ = distinct
    if not len(values) or not all(isinstance(value, str) for value in values):
        return []
    for separator in SEPARATORS:
        lists = [items_in(value, separator) for value in values]
        if not (even_if_few and any(len(items) > 1 for items in lists)) and not _are_several(lists, counts, separator):
            continue
        n_rows: Counter[str] = Counter()
        spellings: dict[str, Counter[str]] = {}
        for items, count in zip(lists, counts.tolist(), strict=True):
            for word, item in {fold(item): item for item in items}.items():
                n_rows[word] += count
                spellings.setdefault(word, Counter())[item] += count
        least = 1 if even_if_few else max(LEAST_WITH, LEAST_SHARE_WITH * counts.sum())
        asked = [word for word, n in n_rows.most_common() if n >= least and word not in MISSING_WORDS]
        if len(asked) > 1:
            return [item_query(name, spellings[word].most_common(1)[0][0], separator) for word in asked]
    return []


def _are_several(lists: Sequence[Sequence[str]], counts: np.ndarray, separator: str) -> bool:
    """Whether cells are lists of items: as few items as cells, each short, in lists of several lengths. Commas stand in
    other texts too, so items must also change their places."""
    of_several = np.array([len(items) > 1 for items in lists])
    if of_several.sum() < 2 or counts[of_several].sum() < SHARE_SEVERAL * counts.sum():
        return False
    positions: dict[str, set[int]] = {}
    for items in lists:
        for position, item in enumerate(items):
            positions.setdefault(fold(item), set()).add(position)
    if not 2 <= len(positions) <= min(MOST_ITEMS, len(lists)) or max(map(len, positions)) > LONGEST_ITEM:
        return False
    do_lengths_vary = len({len(items) for items in lists}) > 1
    n_moving = sum(len(places) > 1 for places in positions.values())
    if separator == ",":
        return do_lengths_vary and 2 * n_moving >= len(positions)
    return do_lengths_vary or n_moving > 0


def word_queries(name: str, distinct: Distinct) -> list[Contains]:
    """A yes/no question for each frequent word of a column of texts; none where it holds no texts."""
    values, counts, _ = distinct
    if not len(values) or not all(isinstance(value, str) for value in values):
        return []
    n_rows = int(counts.sum())
    if sum(len(value.split()) * n for value, n in zip(values, counts, strict=True)) < LEAST_WORDS * n_rows:
        return []
    n_mentions: Counter[str] = Counter()
    frequency: Counter[str] = Counter()
    for value, n in zip(values, counts.tolist(), strict=True):
        n_mentions.update(dict.fromkeys(terms_in(value), n))
        frequency.update(dict.fromkeys(words(value), n))
    usual = usual_words(frequency)
    least = max(LEAST_MENTIONS, LEAST_SHARE_MENTIONS * n_rows)
    # Of equally frequent words the first in the alphabet, whatever the order of the rows.
    found = sorted((-n, term) for term, n in n_mentions.items() if least <= n <= MOST_SHARE_MENTIONS * n_rows)
    return [word_query(name, term, usual[term]) for _, term in found[:MOST_WORDS]]


def queries_of_parts(name: str, series: pd.Series, column_type: str) -> list[Contains | Weekday | Age]:
    """The queries that a column is if it is asked for in parts: "choices", "words", "weekday" or "age"; raises
    ValueError where its values contradict that."""
    if column_type in ("weekday", "age"):
        query = date_query(name, series)
        return [_weekday_of(query, series) if column_type == "weekday" else _age_of(query, series)]
    distinct = distinct_values(series)
    found = item_queries(name, distinct, even_if_few=True) if column_type == "choices" else word_queries(name, distinct)
    if not found:
        wanted = "items between ; | or ," if column_type == "choices" else f"words in {LEAST_MENTIONS} rows or more"
        raise ValueError(
            f"Column '{name}' has no {wanted} to ask for: ask for it as another type, or leave it out: "
            f"column_types={{{name!r}: 'skip'}}."
        )
    return list(found)


def best_date_query(name: str, series: pd.Series, labels: np.ndarray | None) -> Date | Weekday | Age:
    """How a column of dates is asked for: dates of birth as an age, others by their weekday where that tells more of
    the `labels` (N,), whole numbers of which those below 0 do not count, and else as they are."""
    query = date_query(name, series)
    if BIRTH.search(name):
        return _age_of(query, series)
    is_better = labels is not None and is_weekday_better(date_days(series, query.pattern), labels)
    return _weekday_of(query, series) if is_better else query


def _age_of(query: Date, series: pd.Series) -> Age:
    """The age that a date is at the beginning of this year, or on the last of them if that is later."""
    last = float(np.nanmax(date_days(series, query.pattern), initial=0.0))
    return age_query(
        query.name, query.pattern, max(days_since_1970(datetime.date(datetime.date.today().year, 1, 1)), last)
    )


def _weekday_of(query: Date, series: pd.Series) -> Weekday:
    days = date_days(series, query.pattern)
    return weekday_query(query.name, query.pattern, weekdays(days[~np.isnan(days)]))


def is_weekday_better(days: np.ndarray, labels: np.ndarray) -> bool:
    """Whether weekdays tell more of labels (N,) than as many ranges of dates do."""
    counted = ~np.isnan(days) & (labels >= 0)
    if counted.sum() < LEAST_DATES:
        return False
    days, labels = days[counted], labels[counted]
    edges = np.unique(np.quantile(days, np.arange(1, 7) / 7))
    by_weekday, by_date = (_bits(codes, labels) for codes in (weekdays(days), np.searchsorted(edges, days)))
    return by_weekday >= LEAST_BITS and by_weekday > by_date


def _bits(codes: np.ndarray, labels: np.ndarray) -> float:
    """The mutual information of two whole numbers, without what few rows seem to tell by chance."""
    table = np.zeros((codes.max() + 1, labels.max() + 1))
    np.add.at(table, (codes, labels), 1)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    joint = table / table.sum()
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    there = joint > 0
    bits = float((joint[there] * np.log2(joint[there] / independent[there])).sum())
    return bits - (table.shape[0] - 1) * (table.shape[1] - 1) / (2 * np.log(2) * table.sum())


MAX_CHOICES = 50
"""A text column with more distinct values than this is not a question with a list of answers."""
MOST_SLOTS = 12
"""More times of day than this are no fixed slots to choose from."""
FEW_ROWS = 20
"""With fewer rows than this, values may well all differ by chance."""
LIKELY = 10.0
"""Whole numbers that all differ are identifiers if this many pairs would be equal, drawn by chance from their range."""

LEAST_MISSING, LEAST_SHARE_MISSING = 10, 0.01
"""That a value is missing may be an answer where at least as many rows, and this share of them, lack it."""

LARGEST_WHOLE = 2**53
"""Up to here floats tell all whole numbers apart."""

LEAST_TICKED = 2
"""A value beside empty cells that is not a tick mark makes a yes/no question where at least as many rows have it."""

EMPTY, CONSTANT, NUMBERING, UNIQUE = "empty", "the same in every row", "numbers the rows", "different in every row"
CONSTANT_OR_EMPTY = "the same wherever it has a value"
ID_NAME = re.compile(
    r"(^|[\W_])(id|uuid|guid|index|idx|key|nr|no)$|[a-z](Id|ID|Nr|No)$|^(Id|ID|Nr|No|Index|Key)$", re.ASCII
)
LEADING_ZERO = re.compile(r"[+-]?0\d")


class NotAQuestion(ValueError):
    """Columns that cannot be asked for as they are."""

    def __init__(self, message: str, columns: list[str]):
        super().__init__(message)
        self.columns = columns


@dataclass(frozen=True)
class Guess:
    """What a table is asked as."""

    queries: list[Choice | Number]
    unasked: dict[str, str]
    """Columns that are better not asked for, and why."""
    ticked: tuple[str, ...] = ()
    """Columns of one value and empty cells, where an empty cell was guessed to mean no."""
    rounded: tuple[str, ...] = ()
    """Columns of whole numbers that are too large to be told apart."""
    in_parts: tuple[str, ...] = ()
    """Columns that are asked for by parts of what stands in them."""

    def report(self, stacklevel: int) -> None:
        """One warning for all that is not asked for, and one for all texts among numbers."""
        if self.unasked:
            warnings.warn(on_unasked(self.unasked), stacklevel=stacklevel + 1)
        if self.ticked:
            warnings.warn(on_ticked(self.ticked), stacklevel=stacklevel + 1)
        for remark in on_parts(self.queries, self.in_parts):
            warnings.warn(remark, stacklevel=stacklevel + 1)
        if self.rounded:
            warnings.warn(on_rounded([f"'{name}'" for name in self.rounded]), stacklevel=stacklevel + 1)
        stray = {query.name: query.missing for query in self.queries if isinstance(query, Number) and query.missing}
        if stray:
            named = listed([f"{listed([repr(text) for text in texts])} in '{name}'" for name, texts in stray.items()])
            warnings.warn(f"Texts among numbers count as missing: {named}.", stacklevel=stacklevel + 1)


def on_unasked(unasked: Mapping[str, str]) -> str:
    """What a person should know of columns that are not asked for, each with the reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unasked.items():
        by_reason.setdefault(reason, []).append(f"'{name}'")
    named = "; ".join(f"{listed(names)} ({reason})" for reason, names in by_reason.items())
    column_types = {NUMBERING: "number", UNIQUE: "choice"}  # nobody wants to ask for what is always the same
    ways = [f"column_types={{{name!r}: '{column_types[why]}'}}" for name, why in unasked.items() if why in column_types]
    return f"Not asked for: {named}." + (f" To ask anyway, say what it is: {ways[0]}." if ways else "")


def on_ticked(names: Sequence[str]) -> str:
    """What a person should know of columns that are ticked or left empty."""
    named = listed([f"'{name}'" for name in names])
    return f"Empty cells mean no, because there is only one value beside them: {named}."


def on_parts(queries: Sequence[Choice | Number], columns: Sequence[str]) -> list[str]:
    """What a person should know of columns that are asked for by parts of what stands in them."""
    by_column: dict[str, list[Choice | Number]] = {}
    for query in queries:
        if query.source in columns:
            by_column.setdefault(query.source, []).append(query)
    return [_on_part(name, own) for name, own in by_column.items()]


def _on_part(name: str, queries: Sequence[Choice | Number]) -> str:
    first = queries[0]
    if isinstance(first, Contains):
        parts = listed([f"'{query.name.removeprefix(f'{name}{BETWEEN}')}'" for query in queries])
        if first.separator:
            return f"Cells of '{name}' hold several items, each of which is a yes/no question: {parts}."
        return f"'{name}' is asked for by its words: {parts}."
    if isinstance(first, Age):
        return f"'{name}' is asked for as an age, in years at {Date('', '').written(first.on)}."
    if isinstance(first, Weekday):
        return f"'{name}' is asked for by the day of the week, which tells more than the date."
    if isinstance(first, Time):
        return f"'{name}' is asked for in hours: 14:30 is 14.5."
    return f"'{name}' is asked for as a date. If it is known only afterwards, leave it out."


def on_rounded(named: Sequence[str]) -> str:
    """What a person should know of whole numbers beyond the precision of floats."""
    return (
        f"Whole numbers beyond {LARGEST_WHOLE:,} are rounded, so that some cannot be told apart: "
        f"{listed(list(named))}. If they are codes or identifiers, write them as words, or leave them out."
    )


def guess_queries(
    frame: pd.DataFrame,
    column_types: Mapping[str, ColumnType],
    floats_are_numbers: bool = False,
    ask_all: bool = False,
    missing_informs: bool = False,
    labels: np.ndarray | None = None,
    language: str | None = None,
) -> Guess:
    """The query of every column; raises NotAQuestion, with all columns that cannot be one.

    With `floats_are_numbers`, a column of fractions is never yes/no. With `ask_all`, nothing is left out for having the
    same value in every row or another one in each. With `missing_informs`, columns that lack a value in enough rows may
    be answered "not given", and are then not the same in every row. Columns of one value and empty cells are yes/no
    questions where the value is a tick mark or at least half of the cells are empty. Cells of several items, texts and
    dates are asked for by parts, unless `ask_all`; dates by their weekday where that tells more of the `labels` (N,),
    whole numbers of which those below 0 do not count. Questions are made in the `language`, "en" or "de", by default
    that of the table.
    """
    queries: dict[str, Choice | Number] = {}
    parts: dict[str, Sequence[Choice | Number]] = {}
    unasked: dict[str, str] = {}
    ticked: list[str] = []
    problems: dict[str, str] = {}
    by_name = zip(frame.columns, columns_of(frame), strict=True)
    columns = {name: series for name, series in by_name if column_types.get(name) != "skip"}
    numbers = {name: plain_numbers(series) for name, series in columns.items() if is_plain_number(series)}
    if infinite := [name for name, values in numbers.items() if np.isinf(values).any()]:
        raise ValueError(INFINITE.format(listed(infinite)))
    for name, series in columns.items():
        try:
            if column_types.get(name) in PARTS:
                parts[name] = queries_of_parts(name, pd.Series(series, name=name), column_types[name])
                queries[name] = parts[name][0]
                continue
            if name in column_types:
                queries[name] = query_of_type(name, pd.Series(series, name=name), column_types[name])
                continue
            query: Choice | Number | None
            if name in numbers:
                query, reason = _guess_number(name, series.dtype, numbers[name], floats_are_numbers)
            elif not ask_all and (found := _guess_parts(name, series, labels)):
                parts[name], query, reason = found, found[0], ""
            else:
                query, reason = _guess_other(name, series, ask_all)
            if reason == CONSTANT and query is not None and (ticks := _ticks(name, query, series, missing_informs)):
                query, reason = ticks, ""
                ticked.append(name)
            if reason == CONSTANT and query is not None and missing_informs and _lacks_values(query, series):
                reason = ""
            if reason and not ask_all:
                is_gappy = reason == CONSTANT and query is not None and is_missing(query, series).any()
                unasked[name] = CONSTANT_OR_EMPTY if is_gappy else reason
            if query is not None and (ask_all or reason in ("", NUMBERING, UNIQUE)):
                queries[name] = query
        except NotAQuestion as problem:
            problems[name] = str(problem)
    if problems:
        raise NotAQuestion(" ".join(problems.values()), list(problems))
    asked = [name for name in queries if name not in unasked]
    if not asked:  # what numbers the rows is all there is
        asked, unasked = list(queries), {name: why for name, why in unasked.items() if name not in queries}
    if not asked and unasked:
        raise ValueError(
            f"The table has no columns to ask for: {listed([f'{n!r} is {w}' for n, w in unasked.items()])}."
        )
    spoken = language_of(columns) if language is None else language
    if spoken not in LANGUAGES:
        raise ValueError(f"Questions are made in {' or '.join(LANGUAGES)}, not in '{language}'.")
    chosen = [in_language(query, spoken) for name in asked for query in parts.get(name, [queries[name]])]
    if missing_informs:
        chosen = [replace(query, may_be_missing=_lacks_values(query, columns[query.source])) for query in chosen]
    rounded = [name for name in asked if name in numbers and _is_rounded(columns[name], numbers[name])]
    guessed = tuple(name for name in asked if name in parts and name not in column_types)
    return Guess(chosen, unasked, tuple(ticked), tuple(rounded), guessed)


def _guess_parts(name: str, series: pd.Series, labels: np.ndarray | None) -> Sequence[Choice | Number]:
    """The queries of a column of dates, of times of day, of several items a cell, or of texts; none where it is none of
    these."""
    if pd.api.types.is_timedelta64_dtype(series.dtype) or isinstance(series.dtype, pd.CategoricalDtype):
        return []
    if is_date_type(series):
        return [] if series.nunique() < 2 else [best_date_query(name, series, labels)]
    distinct = distinct_values(series)
    if len(distinct.values) < 2:
        return []
    if _look_like_dates(distinct.values):
        try:
            return [best_date_query(name, series, labels)]
        except ValueError as error:  # days and months cannot be told apart
            raise NotAQuestion(str(error), [name]) from None
    if len(distinct.values) > MOST_SLOTS and _are_times(distinct):
        return [Time(name, wording(name))]
    if items := item_queries(name, distinct):
        return items
    n_rows, n_different = int(distinct.counts.sum()), len({fold(value) for value in distinct.values})
    is_free = n_different > MAX_CHOICES or (n_rows >= FEW_ROWS and len(distinct.values) > n_rows / 2)
    return word_queries(name, distinct) if is_free and not _are_numbers(distinct) else []


def _is_rounded(series: Any, numbers: np.ndarray) -> bool:
    """Whether a column holds whole numbers that floats, as which they are the `numbers`, cannot tell apart."""
    return series.dtype.kind in "iu" and bool((np.abs(numbers) >= LARGEST_WHOLE).any())


def guess_askable(frame: pd.DataFrame, column_types: Mapping[str, ColumnType], **options: Any) -> tuple[Guess, str]:
    """The same without the columns that cannot be asked for, unless there is no other or all are wanted, and a text on
    these."""
    try:
        return guess_queries(frame, column_types, **options), ""
    except NotAQuestion as error:
        asked = [name for name in frame.columns if name not in error.columns and column_types.get(name) != "skip"]
        if not asked or options.get("ask_all"):
            raise
        skipped: dict[str, ColumnType] = dict.fromkeys(error.columns, "skip")
        return guess_queries(frame, {**column_types, **skipped}, **options), str(error)


def _ticks(name: str, query: Choice | Number, series: Any, missing_informs: bool) -> Choice | None:
    """The yes/no question that a column of one value and empty cells is; None where these are rather missing. With
    `missing_informs` they are, unless the value is a tick mark."""
    if len(query.choices) > 1 and not isinstance(query, Number) and query.values != (0, 1):
        return None  # its categories say that there are other values
    is_empty = is_missing(query, series)
    n_empty, n_rows = int(is_empty.sum()), len(is_empty)
    if not n_empty:
        return None
    if isinstance(query, Choice) and len(query.choices) == 1:
        value = query.values[0]
    else:
        value = as_written(distinct_values(pd.Series(series)).values[0])
    if missing_informs and not looks_ticked(name, value):
        return None
    return tick(name, value) if is_ticked(name, value, n_rows - n_empty, n_empty) else None


def is_ticked(name: str, value: Any, n_value: int, n_empty: int) -> bool:
    """Whether a column of one value and empty cells is ticked or not, rather than the same wherever it is known."""
    if not n_empty or fold(value) in NO_WORDS or fold(value) in MISSING_WORDS:
        return False
    return looks_ticked(name, value) or n_empty >= n_value >= LEAST_TICKED


def _lacks_values(query: Choice | Number, series: Any) -> bool:
    """Whether so many rows lack a value that this may be an answer, and others have one."""
    missing = is_missing(query, series)
    return max(LEAST_MISSING, LEAST_SHARE_MISSING * len(missing)) <= missing.sum() < len(missing)


# Guesses: the query, and why it is better not asked


def _guess_number(name: str, dtype: Any, numbers: np.ndarray, floats_are_numbers: bool) -> tuple[Choice | Number, str]:
    present = numbers[~np.isnan(numbers)]
    reason = EMPTY if not len(present) else CONSTANT if present.min() == present.max() else ""
    is_float = dtype.kind == "f"
    # Missing values turn 0 and 1 into fractions in many tables.
    may_be_yes_no = not is_float or (not floats_are_numbers and len(present) < len(numbers))
    if may_be_yes_no and len(present) and ((present == 0) | (present == 1)).all():
        return yes_no(name), reason
    if not reason and _is_numbering(name, numbers, is_float):
        reason = NUMBERING
    return Number(name, wording(name)), reason


def _is_numbering(name: str, numbers: np.ndarray, is_float: bool) -> bool:
    """Whether whole numbers count the rows, or all differ as identifiers do."""
    n = len(numbers)
    if n < FEW_ROWS // 2 or np.isnan(numbers[:2]).any():
        return False
    if numbers[1] - numbers[0] == 1 and (np.diff(numbers) == 1).all():
        return True
    if is_float or n < FEW_ROWS or np.isnan(numbers).any():
        return False
    span = float(numbers.max() - numbers.min() + 1)
    may_be = n * (n - 1) / 2 / span >= LIKELY or ID_NAME.search(name.strip(" .:#")) is not None
    return may_be and len(np.unique(numbers)) == n


def _guess_other(name: str, series: pd.Series, ask_all: bool) -> tuple[Choice | Number | None, str]:
    if is_date_type(series):
        if not ask_all:  # otherwise it is asked for by parts
            return None, CONSTANT if series.notna().any() else EMPTY
        raise NotAQuestion(_dates(name), [name])
    if pd.api.types.is_timedelta64_dtype(series.dtype):
        raise NotAQuestion(
            f"Column '{name}' holds durations: turn them into numbers, such as days, or leave them out: "
            f"column_types={{{name!r}: 'skip'}}.",
            [name],
        )
    distinct = distinct_values(series)
    values, n_rows = distinct.values, int(distinct.counts.sum())
    if all(isinstance(value, bool) for value in values):
        reason = EMPTY if not len(values) else CONSTANT if len(values) == 1 else ""
        if not isinstance(series.dtype, pd.CategoricalDtype):
            return (yes_no(name) if len(values) else Number(name, wording(name))), reason
    query = choice_query(name, series, distinct)
    if isinstance(series.dtype, pd.CategoricalDtype) or query.is_yes_no:
        n_used = len({fold(value) for value in values})
        return query, EMPTY if not n_used else CONSTANT if n_used == 1 else ""
    if len(query.choices) == 1:
        return query, CONSTANT
    if _look_like_dates(values):
        raise NotAQuestion(_dates(name), [name])
    if _are_numbers(distinct):
        numbers = parse_numbers(series)
        numbers = numbers[~np.isnan(numbers)]  # what else is there, such as the word of a line of sums, says nothing
        is_counting = _is_numbering(name, numbers, bool((numbers % 1).any()))
        return number_query(name, distinct), NUMBERING if is_counting and not ask_all else ""
    if len(values) == n_rows >= FEW_ROWS and not ask_all:
        return (query if len(query.choices) <= MAX_CHOICES else None), UNIQUE
    if len(query.choices) > MAX_CHOICES:
        raise NotAQuestion(_free_text(name, distinct), [name])
    return query, ""


def _dates(name: str) -> str:
    return (
        f"Column '{name}' holds dates: ask for them as dates, column_types={{{name!r}: 'date'}}, or leave them out: "
        f"column_types={{{name!r}: 'skip'}}."
    )


def _free_text(name: str, distinct: Distinct) -> str:
    stray = distinct.values[np.isnan(parse_numbers(distinct.values))]
    skip = f"column_types={{{name!r}: 'skip'}}"
    if len(stray) <= len(distinct.values) // 2:
        named = listed([repr(text) for text in stray], 3)
        return (
            f"Column '{name}' holds numbers but for {named}: to count those as missing, say that it holds numbers, "
            f"column_types={{{name!r}: 'number'}}, or leave it out: {skip}."
        )
    if _are_times(distinct):
        return (
            f"Column '{name}' holds times, such as {distinct.values[0]!r}: ask for them in hours, "
            f"column_types={{{name!r}: 'number'}}, or leave it out: {skip}."
        )
    return (
        f"Column '{name}' is not a question with a list of at most {MAX_CHOICES} answers: it holds "
        f"{len(distinct.values)} different texts, such as {distinct.values[0]!r}. Leave it out, {skip}, or group its "
        "values."
    )


def _look_like_dates(values: np.ndarray) -> bool:
    some = values[:FEW_ROWS]
    look = all(DATE_LOOK.fullmatch(value.strip()) if isinstance(value, str) else is_date(value) for value in some)
    return look and bool(date_patterns(values))


def _are_times(distinct: Distinct) -> bool:
    """Whether texts are times of day, but for some that say nothing."""
    texts = [str(value).strip() for value in distinct.values if fold(value) not in MISSING_WORDS]
    return bool(texts) and all(map(CLOCK.fullmatch, texts))


def _are_numbers(distinct: Distinct) -> bool:
    """Whether texts are numbers but for some that say nothing and a few others; 007 is a code and not a number."""
    values, counts, _ = distinct
    numbers = parse_numbers(values)
    is_number = ~np.isnan(numbers)
    if is_number.sum() < 2 or any(LEADING_ZERO.match(str(value).strip()) for value in values[is_number]):
        return False
    says_nothing = np.array([fold(value) in MISSING_WORDS for value in values])
    if not is_number.all() and np.isin(numbers[is_number], (0, 1)).all():
        return False  # 0, 1 and unknown are three choices, as no, yes and unknown are
    stray = ~is_number & ~says_nothing
    return bool(
        stray.sum() <= MAX_STRAY * (is_number | stray).sum()
        and counts[stray].sum() <= MAX_STRAY * counts[is_number | stray].sum()
    )


LANGUAGES = ("en", "de")
GERMAN = {
    WHICH_DAY: ": an welchem Wochentag?",
    HOW_OLD: ": wie viele Jahre alt?",
    MENTIONED: ": kommt „{}“ vor?",
}
GERMAN_UNITS = {"years": "Jahre", "hours": "Stunden"}
GERMAN_DAYS = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")
GERMAN_HEADER = re.compile(
    r"[äöüß]|(^|[\W_])(alter|geschlecht|farbe|preis|datum|ergebnis|gewicht|anzahl|kunde|geboren|geburtsdatum|ort|art|kosten)"
    r"($|[\W_])",
    re.I,
)
FEW_VALUES, LOOKED_AT = 3, 100


def language_of(columns: Mapping[str, Any]) -> str:
    """The language of a table's columns: German where a name or words for yes and no say so, and else English."""
    if any(GERMAN_HEADER.search(str(name)) for name in columns):
        return "de"
    for column in columns.values():
        if column.dtype.kind in "fiub":
            continue
        words = {fold(value) for value in column[:LOOKED_AT] if isinstance(value, str)}
        if len(words) <= FEW_VALUES and {"ja", "nein"} <= words:
            return "de"
    return "en"


def in_language(query: Choice | Number, language: str) -> Choice | Number:
    """The query asked in a language: what was made of the column's name, and words that are not from the data."""
    if language != "de":
        return query
    part = query.name.removeprefix(f"{query.source}{BETWEEN}")
    for english, german in GERMAN.items():
        if query.text == wording(query.source, english.format(part)) != wording(query.source, ""):
            query = replace(query, text=wording(query.source, german.format(part)))
    if query.unit in GERMAN_UNITS:
        query = replace(query, unit=GERMAN_UNITS[query.unit])
    if not isinstance(query, Choice):
        return query
    if query.choices == ("no", "yes") and (query.values == (0, 1) or query.empty_means is not None):
        return replace(query, choices=("nein", "ja"))
    if set(query.choices) <= set(WEEKDAYS) and query.choices == query.values:
        return replace(query, choices=tuple(GERMAN_DAYS[WEEKDAYS.index(day)] for day in query.choices))
    return query
