"""Tables as users give them, of any library, and their columns read as numbers: the place of a choice in its list, a
number as it is, a date in days; NaN where missing.

What a query cannot read is counted and reported, because a table at prediction may hold what training never saw.
"""

import datetime
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from pursuit.queries.column import MINUS, Choice, Date, Number, fold, listed, with_point
from pursuit.queries.dates import days_of, is_date, read_dates
from pursuit.queries.parts import Age, Contains, Weekday

INFINITE = "Infinite values (inf) in {}: replace them by numbers, or by NaN if the answer is unknown."
LARGE_BYTES = 1 << 30
"""A sparse table that takes more memory than this once it is dense gets a warning."""


def as_pandas(data: Any) -> Any:
    """A table of another library as a DataFrame of pandas with the same names and types; anything else as it is.

    polars, pyarrow and whatever else narwhals knows; what is lazy is collected.
    """
    if isinstance(data, pd.DataFrame | np.ndarray) or sparse.issparse(data):
        return data
    import narwhals

    table = narwhals.from_native(data, pass_through=True)
    if isinstance(table, narwhals.LazyFrame):
        table = table.collect()
    return table.to_pandas() if isinstance(table, narwhals.DataFrame) else data


def as_series(data: Any) -> Any:
    """A column of another library as a Series of pandas; anything else as it is."""
    if isinstance(data, pd.Series | np.ndarray | list):
        return data
    import narwhals

    series = narwhals.from_native(data, pass_through=True, allow_series=True)
    return series.to_pandas() if isinstance(series, narwhals.Series) else data


def as_frame(data: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The data as a DataFrame with string column names, restricted to `names` where given.

    Columns of a frame are found by name. Those of an array are found by position if there are as many as names, and
    otherwise by the names x0, x1 … that arrays give them.
    """
    data = as_pandas(data)
    if isinstance(data, pd.DataFrame):
        frame = data.set_axis([str(name) for name in data.columns], axis=1)
        twice = frame.columns[frame.columns.duplicated()].unique().tolist()
        if twice:
            raise ValueError(f"Column names must differ, but these occur more than once: {listed(twice)}.")
        existing = set(frame.columns)
        absent = [name for name in names or [] if name not in existing]
        if absent:
            raise ValueError(
                f"The table lacks {len(absent)} of the columns of training: {listed(absent)}. Add them; "
                "unknown answers may stay empty."
            )
        frame = frame[list(names)] if names is not None and list(names) != list(frame.columns) else frame
    else:
        frame = _sparse_frame(data, names) if sparse.issparse(data) else _array_frame(np.asarray(data), names)
    if len(frame) == 0:
        raise ValueError("The table is empty: it has 0 rows, and at least one is needed.")
    try:
        return frame.infer_objects() if any(dtype.kind == "O" for dtype in frame.dtypes) else frame
    except OverflowError:  # of some versions of pandas, of whole numbers of more than 308 digits
        return frame


def columns_of(frame: pd.DataFrame) -> list[Any]:
    """The columns of a table: numbers as arrays, because a Series takes longer than most columns of wide tables to
    read; others as Series."""
    dtypes = frame.dtypes.unique()
    are_numbers = {dtype: isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes}
    if len(dtypes) == 1 and all(are_numbers.values()):
        return list(frame.to_numpy().T)
    return [series.to_numpy() if are_numbers[series.dtype] else series for _, series in frame.items()]


def is_float_array(data: Any) -> bool:
    """Whether the data are an array, or lists, of fractions: whatever they hold, they are meant as numbers."""
    return not hasattr(as_pandas(data), "columns") and not sparse.issparse(data) and np.asarray(data).dtype.kind == "f"


def _array_frame(array: np.ndarray, names: Sequence[str] | None) -> pd.DataFrame:
    if array.ndim != 2:
        raise ValueError(
            f"A table of rows and columns is expected, but the data have {array.ndim} dimensions. "
            "Reshape your data to two."
        )
    places = _places(array.shape[1], names)
    if names is None or places is None:
        return pd.DataFrame(array, columns=list(names or numbered(array.shape[1])))
    return pd.DataFrame(array[:, places], columns=list(names))


def _sparse_frame(matrix: Any, names: Sequence[str] | None) -> pd.DataFrame:
    """A sparse matrix as a dense table: columns that store nothing but ones hold whole numbers, others fractions."""
    places = _places(matrix.shape[1], names)
    matrix = matrix.tocsc() if places is None else matrix.tocsc()[:, places]
    n_rows, n_columns = matrix.shape
    of_column = np.repeat(np.arange(n_columns), np.diff(matrix.indptr))
    has_others = np.bincount(of_column[matrix.data != 1], minlength=n_columns) > 0
    n_bytes = n_rows * (int((~has_others).sum()) + matrix.dtype.itemsize * int(has_others.sum()))
    if n_bytes > LARGE_BYTES:
        warnings.warn(
            f"The sparse table becomes dense: {n_rows:,} rows of {n_columns:,} columns take {n_bytes / 2**30:.1f} GiB "
            "of memory. Leave columns out if that is too much.",
            stacklevel=2,
        )
    names = list(names or numbered(n_columns))
    dense = {False: "int8", True: matrix.dtype}
    parts = [
        pd.DataFrame(
            matrix[:, has_others == others].astype(dtype).toarray(),
            columns=[name for name, is_so in zip(names, has_others, strict=True) if is_so == others],
        )
        for others, dtype in dense.items()
        if (has_others == others).any()
    ]
    frame = pd.concat(parts, axis=1) if len(parts) > 1 else parts[0] if parts else pd.DataFrame(index=range(n_rows))
    return frame[names]


def numbered(n_columns: int) -> list[str]:
    """The names of the columns of an array."""
    return [f"x{i}" for i in range(n_columns)]


def _places(n_columns: int, names: Sequence[str] | None) -> list[int] | None:
    """Which columns of an array are wanted; None: all of them."""
    if names is None or n_columns == len(names):
        return None
    places = [int(name[1:]) if re.fullmatch(r"x\d+", name) else n_columns for name in names]
    if max(places, default=n_columns) >= n_columns:
        raise ValueError(f"The table has {n_columns} columns, but {len(names)} are expected, as in training.")
    return places


def json_value(value: Any) -> str | int | float | bool:
    """A value that JSON can hold: numpy's as Python's own, anything else (dates, intervals) as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


Unknown = Literal["warn", "ignore", "error"]
"""What becomes of a value never seen in training: it is an unknown answer, with a warning or without; or an error."""

MISSING_WORDS = frozenset(
    ("", "?", "??", "n/a", "na", "#n/a", "nan", "<na>", "nat", "none", "null", "nil", "-", "--", "---", ".", "...")
) | {"unknown", "missing", "not available", "not known", "not given", "k.a.", "unbekannt", "inconnu"}
MISSING_WORDS |= {"\u2013", "\u2014", MINUS}  # dashes of typography
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
    stripped = [value.strip().replace(MINUS, "-") if isinstance(value, str) else value for value in values]
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


def date_days(series: pd.Series, pattern: str) -> np.ndarray:
    """A column of dates, or of their texts, as days since 1970, NaN where missing or something else."""
    if is_date_type(series):
        return days_of(pd.to_datetime(series, utc=True))
    values, _, codes = distinct_values(series)
    if not len(values):
        return np.full(len(series), np.nan)
    return np.append(read_dates(values, pattern), np.nan)[codes]


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
    if isinstance(query, Date | Age | Weekday):
        series = pd.Series(series)
        read = date_days(series, query.pattern)
        if not isinstance(query, Date):
            read = query.years(read) if isinstance(query, Age) else query.places(read)
        says_nothing = query.missing if isinstance(query, Date) else ()
        return read, _counts(series[np.isnan(read) & series.notna().to_numpy()], says_nothing)
    if isinstance(query, Contains):
        values, _, codes = distinct_values(pd.Series(series))
        held = [query.place_of_empty if fold(value) in MISSING_WORDS else query.holds(value) for value in values]
        return np.array([*held, query.place_of_empty], dtype=float)[codes], {}
    if isinstance(query, Number):
        if is_plain_number(series):
            return plain_numbers(series), {}
        values, counts, codes = distinct_values(series)
        read = parse_numbers(_without_unit(query, value) for value in values)
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


def _without_unit(query: Number, value: Any) -> Any:
    """A value of a column; a text that ends with the unit, and a time of day, is read as people write it."""
    if not isinstance(value, str) or (number := query.without_unit(value)) == value.strip():
        return value
    return with_point(number)


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
    different = [f"'{value}'" for values in unseen.values() for value in values]
    warnings.warn(
        f"Values never seen in training count as unknown: {listed(counted)} ({listed(different, MAX_NAMED)}).",
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
