"""The types of questions that a column can be, and the query that its values make of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pandas as pd

from pursuit.queries.column import (
    DAY,
    EPOCH,
    ISO,
    NO_AND_YES,
    NO_WORDS,
    YES_WORDS,
    Choice,
    Date,
    Number,
    days_since_1970,
    fold,
    listed,
    tick,
    wording,
    yes_no,
)
from pursuit.queries.own_inputs import quantile_edges
from pursuit.queries.reading import (
    MISSING_WORDS,
    Distinct,
    date_days,
    distinct_values,
    is_date_type,
    is_plain_number,
    parse_dates,
    parse_numbers,
    read_column,
    whole_as_text,
)
from pursuit.queries.scaling import TINIEST, decimals_of, rounded_outward, usual_range

ColumnType = Literal["number", "choice", "yes/no", "date", "weekday", "age", "choices", "words", "skip"]
"""What a column is asked as: "weekday" and "age" of a date, "choices" of several items a cell, "words" of a text;
"skip": not at all."""
PARTS = ("weekday", "age", "choices", "words")
COLUMN_TYPES: tuple[str, ...] = get_args(ColumnType)
N = TypeVar("N", bound=Number)

MAX_STRAY = 0.05
"""The most texts, as a share, in a column that is still one of numbers or dates."""
TIMES = ("", " %H:%M", " %H:%M:%S")
PATTERNS = [
    date + time for date in ("%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%Y%m%d", "%d/%m/%Y", "%m/%d/%Y") for time in TIMES
]


def check_column_types(column_types: Mapping[Any, str], names: Sequence[str]) -> dict[str, ColumnType]:
    """Types by column name; raises ValueError for columns and types that do not exist."""
    known, checked = set(names), {str(name): one for name, one in column_types.items()}
    if absent := [name for name in checked if name not in known]:
        raise ValueError(
            f"column_types name columns that the table does not have: {listed(absent)}. It has {listed(list(names))}."
        )
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
        listed_values = sorted(n_rows, key=None if are_numbers else lambda value: (fold(value), str(value)))
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
    missing: list[Any] = []
    if not is_date_type(series):
        values = distinct_values(series).values
        patterns = date_patterns(values)
        if not patterns:
            raise ValueError(
                f"Column '{name}' is not a date: it holds {_quoted(values)}. Write dates as 2024-12-31, or ask for it "
                f"as another type: column_types={{{name!r}: 'choice'}}."
            )
        if len(patterns) > 1:
            raise ValueError(
                f"Column '{name}' holds dates that can be read in two ways, such as {_quoted(values[:1])}: write them "
                "as 2024-12-31."
            )
        query = replace(query, pattern=patterns[0])
        missing = [values[i] for i in np.flatnonzero(np.isnan(_days_of(values, patterns[0])))]
    days = date_days(series, query.pattern)
    has_time = bool((days[~np.isnan(days)] % 1 != 0).any())
    return replace(query, has_time=has_time, missing=tuple(str(value) for value in missing))


def date_patterns(values: np.ndarray) -> list[str]:
    """The ways to write dates in which nearly all of these values are one: none, one, or two if days and months cannot
    be told apart."""
    dated = [value for value in values if fold(value) not in MISSING_WORDS]
    for patterns in ([ISO], PATTERNS):
        n_read = {pattern: int((~np.isnan(_days_of(dated, pattern))).sum()) for pattern in patterns}
        most = max(n_read.values())
        if dated and most >= (1 - MAX_STRAY) * len(dated):
            return [pattern for pattern, n in n_read.items() if n == most]
    return []


def _days_of(values: Iterable[Any], pattern: str) -> np.ndarray:
    return parse_dates([whole_as_text(value) for value in values], pattern)


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
        first, last = (EPOCH + day * DAY for day in (low, high))
    except OverflowError:
        return low, high
    return days_since_1970(first.replace(month=1, day=1)), days_since_1970(last.replace(month=12, day=31))


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
