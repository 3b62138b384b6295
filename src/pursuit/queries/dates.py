"""Dates as people write them, as days since 1970."""

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

EPOCH = datetime.datetime(1970, 1, 1)
DAY, MINUTES = datetime.timedelta(days=1), 24 * 60
ISO = "%Y-%m-%d"
TIMES = ("", " %H:%M", " %H:%M:%S")
PATTERNS = [
    *(date + time for date in ("%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%Y%m%d", "%d/%m/%Y", "%m/%d/%Y") for time in TIMES),
    *(date.format(month) for date in ("%d {} %Y", "{} %d, %Y", "%d-{}-%Y", "%d{}%Y") for month in ("%b", "%B")),
]
"""The last ones are 31 Dec 2024, Dec 31, 2024, 31-Dec-2024 and 31DEC2024."""
SHORT_YEARS = [
    *(date + time for date in ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y") for time in TIMES),
    *("%d %b %y", "%d-%b-%y", "%d%b%y"),
]
"""Dates with two-digit years; 69 to 99 are 1969 to 1999. A pattern is refused if it puts a date far into the future, as
a birth in 45 would be."""
LATEST = 366.0
"""Most days from today to a date with such a year."""
DATE_LOOK = re.compile(
    r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([T ].*)?|\d{1,2}[- ]?[a-z]{3,9}[- ]?(\d{4}|\d{2})|[a-z]{3,9} \d{1,2}, \d{4}",
    re.IGNORECASE,
)


def is_date(value: Any) -> bool:
    return isinstance(value, datetime.date | np.datetime64)


def days_since_1970(date: datetime.date) -> float:
    if not isinstance(date, datetime.datetime):
        date = datetime.datetime(date.year, date.month, date.day)
    if date.tzinfo is not None:
        date = date.astimezone(datetime.UTC).replace(tzinfo=None)
    return (date - EPOCH) / DAY


def days_of(dates: pd.Series) -> np.ndarray:
    """A column of a type of dates as days since 1970, NaN where missing."""
    since = dates.dt.tz_localize(None) if dates.dt.tz is not None else dates
    return ((since - EPOCH) / DAY).to_numpy(dtype=float)


def read_dates(values: Iterable[Any], pattern: str) -> np.ndarray:
    """Dates, and their texts, as days since 1970, NaN where they are none. Texts are written as `pattern` or ISO says,
    or otherwise if they can then be read in one way only."""
    texts = [_as_text(value) for value in values]
    days = parse_dates(texts, pattern).copy()
    left = np.flatnonzero(np.isnan(days))
    days[left] = read_otherwise([str(texts[i]) for i in left], pattern)
    return days


def read_otherwise(texts: Sequence[str], pattern: str) -> np.ndarray:
    """Texts that are not written as `pattern` says, as days since 1970; NaN where they are no dates, or could be read
    in two ways. Whether days or months come first between slashes, the pattern says if it has slashes."""
    may_be = [text if DATE_LOOK.fullmatch(text) or re.fullmatch(r"\d{8}", text) else None for text in texts]
    if not any(may_be):
        return np.full(len(may_be), np.nan)
    others = [other for other in PATTERNS if {other[:3], pattern[:3]} != {"%d/", "%m/"}]
    read = np.array([_parsed(may_be, other) for other in others])  # (patterns, texts)
    earliest, latest = np.fmin.reduce(read), np.fmax.reduce(read)  # but for NaN
    return np.where(earliest == latest, earliest, np.nan)


def parse_dates(values: Iterable[Any], pattern: str) -> np.ndarray:
    """Dates, and their texts, as days since 1970; NaN where they are not written as `pattern` or ISO says."""
    texts = [_as_text(value) for value in values]
    days = _parsed([text if _may_be_iso(text) else None for text in texts], "ISO8601")
    if pattern == ISO:
        return days
    return np.where(np.isnan(days), _parsed([str(text) for text in texts], pattern), days)


def _as_text(value: Any) -> Any:
    """A text without spaces around it. 20241231 is one, too, because numbers may be dates only in this form."""
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    return str(int(value)) if is_whole else value.strip() if isinstance(value, str) else value


def _may_be_iso(value: Any) -> bool:
    """Whether a value is a date, or begins with one as 2024-12-31; otherwise 2024 would be read as one too."""
    return is_date(value) or (isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-" and len(value) > 7)


def _parsed(texts: Sequence[Any], pattern: str) -> np.ndarray:
    return days_of(pd.to_datetime(pd.Series(texts, dtype=object), format=pattern, errors="coerce", utc=True))
