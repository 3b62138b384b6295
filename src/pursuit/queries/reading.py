"""Columns read as numbers: the place of a choice in its list, a number as it is, a date in days; NaN where missing.

What a query cannot read is counted and reported, because a table at prediction may hold what training never saw.
"""

import datetime
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from pursuit.queries.column import DAY, EPOCH, ISO, Choice, Date, Number, fold, listed
from pursuit.queries.frames import json_value
from pursuit.queries.parts import Age, Contains, Weekday

Unknown = Literal["warn", "ignore", "error"]
"""What becomes of a value never seen in training: it is an unknown answer, with a warning or without; or an error."""

MISSING_WORDS = frozenset(
    ("", "?", "??", "n/a", "na", "#n/a", "nan", "<na>", "nat", "none", "null", "nil", "-", "--", "---", ".", "...")
) | {"unknown", "missing", "not available", "not known", "not given", "k.a.", "unbekannt", "inconnu"}
"""What people write among numbers where there is none, in lower case."""
MAX_NAMED = 5
MOST_DIGITS = 300
DIGIT = re.compile(r"\d|inf", re.IGNORECASE)
Column = pd.Series | np.ndarray
SHORT = 10_000
"""Texts of fewer rows than this are found faster as objects than in Arrow's memory."""


class Distinct(NamedTuple):
    """The distinct values of a column, and which of them each row has: -1 where it has none."""

    values: np.ndarray  # (D,) of objects; texts of nothing but spaces are left out
    counts: np.ndarray  # (D,)
    codes: np.ndarray  # (N,)


def distinct_values(series: pd.Series) -> Distinct:
    """What a column holds; raises ValueError for lists and other objects."""
    is_short_text = len(series) < SHORT and series.dtype == "str"
    try:
        codes, found = pd.factorize(series.to_numpy(dtype=object) if is_short_text else series)
    except TypeError:
        raise ValueError(
            f"Column '{series.name}' holds lists or other objects: only words, numbers, dates, yes/no and missing "
            "values can be asked for."
        ) from None
    values = np.array([json_value(value) if not is_date(value) else value for value in found], dtype=object)
    blank = np.array([isinstance(value, str) and not value.strip() for value in values], dtype=bool)
    if blank.any():
        place = np.append(np.where(blank, -1, np.cumsum(~blank) - 1), -1)
        codes, values = place[codes], values[~blank]
    return Distinct(values, np.bincount(codes[codes >= 0], minlength=len(values)), codes)


def is_plain_number(series: Column) -> bool:
    """Whether a column is of a type of numbers or yes/no, with or without missing values."""
    if isinstance(series.dtype, np.dtype):
        return series.dtype.kind in "fiub"
    return pd.api.types.is_numeric_dtype(series.dtype) and not isinstance(series.dtype, pd.CategoricalDtype)


def is_date_type(series: pd.Series) -> bool:
    return pd.api.types.is_datetime64_any_dtype(series.dtype)


def plain_numbers(series: Column) -> np.ndarray:
    """A column of a type of numbers as floats, NaN where missing."""
    if isinstance(series, np.ndarray):
        return series.astype(float, copy=False)
    if isinstance(series.dtype, np.dtype):
        return series.to_numpy().astype(float, copy=False)
    return series.to_numpy(dtype=float, na_value=np.nan)


def parse_numbers(values: Iterable[Any]) -> np.ndarray:
    """Values as numbers, NaN where they are none; dates are none."""
    stripped = [value.strip() if isinstance(value, str) else value for value in values]
    if all(isinstance(value, str) and not DIGIT.search(value) for value in stripped):
        return np.full(len(stripped), np.nan)
    plain = [
        None if is_date(value) or isinstance(value, datetime.timedelta) or _is_huge(value) else value
        for value in stripped
    ]
    return pd.to_numeric(pd.Series(plain, dtype=object), errors="coerce").to_numpy(dtype=float, na_value=np.nan)


def _is_huge(value: Any) -> bool:
    """Whether a value has more digits than any number that computers know, on which pandas fails."""
    if isinstance(value, str):
        return len(value) > MOST_DIGITS
    return isinstance(value, int) and abs(value) > 10**MOST_DIGITS


def parse_dates(values: Iterable[Any], pattern: str) -> np.ndarray:
    """Dates, and their texts, as days since 1970; NaN where they are none."""
    texts = [value.strip() if isinstance(value, str) else value for value in values]
    days = _coerced([value if _may_be_iso(value) else None for value in texts], "ISO8601")
    if pattern == ISO:
        return days
    return np.where(np.isnan(days), _coerced([str(value) for value in texts], pattern), days)


def _coerced(texts: list[Any], pattern: str) -> np.ndarray:
    return _days(pd.to_datetime(pd.Series(texts, dtype=object), format=pattern, errors="coerce", utc=True))


def _may_be_iso(value: Any) -> bool:
    """Whether a value is a date, or begins with one as 2024-12-31; otherwise 2024 would be read as one too."""
    return is_date(value) or (isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-" and len(value) > 7)


def is_date(value: Any) -> bool:
    return isinstance(value, datetime.date | np.datetime64)


def _days(dates: pd.Series) -> np.ndarray:
    since = dates.dt.tz_localize(None) if dates.dt.tz is not None else dates
    return ((since - EPOCH) / DAY).to_numpy(dtype=float)


def date_days(series: pd.Series, pattern: str) -> np.ndarray:
    """A column of dates, or of their texts, as days since 1970, NaN where missing or something else."""
    if is_date_type(series):
        return _days(pd.to_datetime(series, utc=True))
    values, _, codes = distinct_values(series)
    if not len(values):
        return np.full(len(series), np.nan)
    return np.append(parse_dates([whole_as_text(value) for value in values], pattern), np.nan)[codes]


def whole_as_text(value: Any) -> Any:
    """20241231 as a text, because numbers may be dates only in this form."""
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    return str(int(value)) if is_whole else value


def read_column(query: Choice | Number, series: Any) -> tuple[np.ndarray, dict[Any, int]]:
    """A column as numbers (N,), NaN where there is no answer, and the values that the query cannot read, or does not
    accept, with their counts."""
    numbers, others = _read(query, series)
    if not isinstance(query, Number) or not query.has_range:
        return numbers, others
    low, high = -np.inf if query.low is None else query.low, np.inf if query.high is None else query.high
    beyond = (numbers < low) | (numbers > high)
    return np.where(beyond, np.nan, numbers), {**others, **_counts(pd.Series(series)[beyond])}


def _read(query: Choice | Number, series: Any) -> tuple[np.ndarray, dict[Any, int]]:
    if isinstance(query, Date):
        series = pd.Series(series)
        days = date_days(series, query.pattern)
        return days, _counts(series[np.isnan(days) & series.notna().to_numpy()], query.missing)
    if isinstance(query, Age | Weekday):
        series = pd.Series(series)
        days = date_days(series, query.pattern)
        read = query.years(days) if isinstance(query, Age) else query.places(days)
        return read, _counts(series[np.isnan(read) & series.notna().to_numpy()])
    if isinstance(query, Contains):
        values, _, codes = distinct_values(pd.Series(series))
        held = [query.place_of_empty if fold(value) in MISSING_WORDS else query.holds(value) for value in values]
        return np.array([*held, query.place_of_empty], dtype=float)[codes], {}
    if isinstance(query, Number):
        if is_plain_number(series):
            return plain_numbers(series), {}
        values, counts, codes = distinct_values(series)
        read = parse_numbers(values)
        known = MISSING_WORDS | {fold(word) for word in query.missing}
        unseen = {v: int(counts[i]) for i, v in enumerate(values) if np.isnan(read[i]) and fold(v) not in known}
        return np.append(read, np.nan)[codes], unseen
    if query.values == (0, 1) and is_plain_number(series):
        numbers = plain_numbers(series)
        strange = (numbers != 0) & (numbers != 1) & ~np.isnan(numbers)
        if query.empty_means is not None:
            numbers = np.where(np.isnan(numbers), query.place_of_empty, numbers)
        if not strange.any():
            return numbers, {}
        return np.where(strange, np.nan, numbers), _counts(pd.Series(series[strange]))
    values, counts, codes = distinct_values(pd.Series(series))
    place_of = query.place_of()
    places = [place_of(value) for value in values]
    read = np.array([*places, query.place_of_empty], dtype=float)  # None becomes NaN
    return read[codes], {v: int(counts[i]) for i, v in enumerate(values) if places[i] is None}


def is_missing(query: Choice | Number, series: Any) -> np.ndarray:
    """Which rows (N,) of a column have no value at all; one that the query cannot read is a value, and so is an empty
    cell that stands for one."""
    if isinstance(query, Choice) and query.empty_means is not None:
        return np.zeros(len(series), dtype=bool)
    if is_plain_number(series):
        return np.isnan(plain_numbers(series))
    series = pd.Series(series)
    if is_date_type(series):
        return series.isna().to_numpy()
    values, _, codes = distinct_values(series)
    words = MISSING_WORDS | {fold(word) for word in query.missing} if isinstance(query, Number) else frozenset()
    return np.array([*(fold(value) in words for value in values), True])[codes]


def _counts(series: pd.Series, known: Sequence[str] = ()) -> dict[Any, int]:
    values, counts, _ = distinct_values(series)
    words = MISSING_WORDS | {fold(word) for word in known}
    return {value: int(n) for value, n in zip(values, counts, strict=True) if fold(value) not in words}


def report_unseen(unseen: Mapping[str, Mapping[Any, int]], stacklevel: int) -> None:
    """One warning that counts, column by column, what no query can read."""
    if not unseen:
        return
    counted = [f"{sum(values.values()):,} of '{name}'" for name, values in unseen.items()]
    counted[0] = counted[0].replace(" of", " value of" if counted[0].startswith("1 ") else " values of", 1)
    total = sum(sum(values.values()) for values in unseen.values())
    shown = [f"'{value}'" for values in unseen.values() for value in list(values)[:3]]
    few = shown[:MAX_NAMED]
    more = " …" if len(few) < sum(len(values) for values in unseen.values()) else ""
    counts = "counts" if total == 1 else "count"
    warnings.warn(
        f"{_and(counted)} {'was' if total == 1 else 'were'} never seen in training and {counts} as unknown: "
        f"{', '.join(few)}{more}",
        stacklevel=stacklevel + 1,
    )


def refusal(query: Choice | Number, value: Any) -> ValueError:
    """The error for a value that the query cannot read."""
    if isinstance(query, Number):
        wanted = query.expected if query.has_range else query.noun
    else:
        wanted = f"one of {listed(query.values)}"
    return ValueError(
        f"Column '{query.name}' holds {json_value(value)!r}, but {wanted} is expected, as in training. Correct the "
        "value, or leave it empty (None or NaN) to say that the answer is unknown."
    )


def _and(parts: Sequence[str], most: int = 6) -> str:
    if len(parts) > most:
        return f"{', '.join(parts[:most])} and of {len(parts) - most} more columns"
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
