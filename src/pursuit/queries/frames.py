"""Tables as users give them: checked, and each column turned into a query, whose type is guessed from its values."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pursuit.queries.column import NO_AND_YES, Choice, Number, listed, wording, yes_no
from pursuit.queries.number_code import quantile_edges
from pursuit.queries.scaling import TINIEST

MAX_CHOICES = 50
"""A text column with more distinct values than this is not a question with a list of answers."""
INFINITE = "Infinite values (inf) in {}: replace them by numbers, or by NaN if the answer is unknown."


class NotAQuestion(ValueError):
    """Columns that cannot be asked for as they are."""

    def __init__(self, message: str, columns: list[str]):
        super().__init__(message)
        self.columns = columns


def as_frame(data: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The data as a DataFrame with string column names, restricted to `names` where given."""
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
        frame = frame[list(names)] if names is not None else frame
    else:
        array = np.asarray(data)
        if array.ndim != 2:
            raise ValueError(
                f"A table of rows and columns is expected, but the data have {array.ndim} dimensions. "
                "Reshape your data to two."
            )
        if names is not None and array.shape[1] != len(names):
            raise ValueError(f"The table has {array.shape[1]} columns, but {len(names)} are expected, as in training.")
        frame = pd.DataFrame(
            array, columns=list(names) if names is not None else [f"x{i}" for i in range(array.shape[1])]
        )
    if len(frame) == 0:
        raise ValueError("The table is empty: it has 0 rows, and at least one is needed.")
    return frame.infer_objects()


def read_numbers(series: pd.Series) -> np.ndarray:
    """A column as numbers, NaN where a value is missing or not a number."""
    if pd.api.types.is_datetime64_any_dtype(series) or pd.api.types.is_timedelta64_dtype(series):
        return np.full(len(series), np.nan)  # pandas would turn dates into numbers
    return pd.to_numeric(series, errors="coerce").to_numpy(dtype=float, na_value=np.nan)


def read_choices(query: Choice, series: pd.Series) -> np.ndarray:
    """A column as places in the query's list, NaN where the value is missing or not in it."""
    codes, distinct = pd.factorize(series)  # -1 where missing
    place_of = {value: place for place, value in enumerate(query.values)}
    places = [place_of.get(json_value(value), np.nan) for value in distinct]
    return np.array([*places, np.nan])[codes]


def json_value(value: Any) -> str | int | float | bool:
    """A value that JSON can hold: numpy's as Python's own, anything else (dates, intervals) as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


def guess_query(name: str, series: pd.Series) -> Choice | Number:
    """The query that a column is, guessed from its values."""
    present = series.dropna()
    try:
        distinct = present.unique()
    except TypeError:
        raise ValueError(
            f"Column '{name}' holds lists or other objects: only words, numbers, yes/no and missing "
            "values can be asked for."
        ) from None
    if pd.api.types.is_datetime64_any_dtype(series) or pd.api.types.is_timedelta64_dtype(series):
        raise ValueError(
            f"Column '{name}' holds dates or times: turn it into numbers (days since …, month, hour) or leave it out."
        )
    is_category = isinstance(series.dtype, pd.CategoricalDtype)
    # A column without any value counts as numbers too; it is never answered anyway.
    are_numbers = pd.api.types.is_numeric_dtype(series) or all(isinstance(value, bool | np.bool_) for value in distinct)
    if are_numbers and not is_category:
        numbers = present.to_numpy(dtype=float)
        if len(numbers) and np.isin(numbers, (0, 1)).all():
            return yes_no(name)
        return rescale(Number(name, wording(name, "What is {}?")), series)
    values = list(series.cat.categories) if is_category else sorted(distinct, key=str)
    values = [json_value(value) for value in values]
    if len(values) == 2 and tuple(str(value).strip().lower() for value in reversed(values)) in NO_AND_YES:
        values.reverse()
    is_yes_no = tuple(str(value).strip().lower() for value in values) in NO_AND_YES
    text = wording(name, "{}?" if is_yes_no else "Which {}?")
    return Choice(name, text, tuple(str(value) for value in values), values=tuple(values))


def rescale(query: Number, series: pd.Series, n_pieces: int = 0) -> Number:
    """The query with the centre and spread of these numbers, by their quartiles, which outliers hardly move; and with a
    code of up to `n_pieces`."""
    numbers = series.dropna().to_numpy(dtype=float)
    if len(numbers) == 0:
        return replace(query, centre=0.0, spread=1.0, seen=None)
    low, centre, high = np.percentile(numbers, (25, 50, 75))
    # Quartiles of a normal distribution are 1.349 deviations apart. If they coincide, the deviation itself is taken.
    spread = float(high / 1.349 - low / 1.349) or float(np.std(numbers)) or 1.0
    spread = min(max(spread, TINIEST), 1 / TINIEST)
    seen, edges = (float(numbers.min()), float(numbers.max())), quantile_edges(numbers, n_pieces)
    return replace(query, centre=float(centre), spread=spread, seen=seen, edges=edges)


def refuse_infinite(frame: pd.DataFrame) -> None:
    numeric = frame.select_dtypes("number")
    found = np.isinf(numeric.to_numpy(dtype=float, na_value=np.nan)).any(axis=0)
    infinite = [str(name) for name in numeric.columns[found]]
    if infinite:
        raise ValueError(INFINITE.format(listed(infinite)))


def refuse_free_text(frame: pd.DataFrame) -> None:
    """Raise NotAQuestion with all text columns that are not questions, so that one correction is enough."""
    problems = {str(name): _free_text(frame.iloc[:, i]) for i, name in enumerate(frame.columns)}
    problems = {name: problem for name, problem in problems.items() if problem}
    if problems:
        named = listed([f"'{name}' ({problem})" for name, problem in problems.items()])
        raise NotAQuestion(
            f"Not questions with a list of at most {MAX_CHOICES} answers: {named}. Leave such columns out, or group "
            "their values.",
            list(problems),
        )


def _free_text(series: pd.Series) -> str:
    """Why a column of texts is not a question; empty if it is one."""
    is_text = not (pd.api.types.is_numeric_dtype(series) or pd.api.types.is_datetime64_any_dtype(series))
    if not is_text or isinstance(series.dtype, pd.CategoricalDtype):
        return ""
    distinct = series.dropna().astype(str).unique()
    if len(distinct) <= MAX_CHOICES:
        return ""
    stray = [text for text in distinct if pd.isna(pd.to_numeric(text, errors="coerce"))]
    if not stray:
        return "numbers written as text: convert them"
    if len(stray) <= len(distinct) // 10:
        return f"numbers but for {listed(stray)}: mark those as missing"
    return f"{len(distinct)} different texts, such as {distinct[0]!r}"
