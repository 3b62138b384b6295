"""Table columns as queries: yes/no, one of a list, or a number; a missing value is a query without an answer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.queries.queryset import Answers, Place, Query, QuerySet
from pursuit.queries.scaling import TINIEST, draw_in, spread_out

MAX_CHOICES = 50
"""A text column with more different values than this is no question with a list of answers."""
_INFINITE = "Infinite values (inf) in {}: replace them by numbers, or by NaN if the answer is unknown."
NO_AND_YES = [
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("0", "1"),
    ("absent", "present"),
    ("negative", "positive"),
]


class NotAQuestion(ValueError):
    """Columns that cannot be asked for as they are."""

    def __init__(self, message: str, columns: list[str]):
        super().__init__(message)
        self.columns = columns


@dataclass(frozen=True)
class Choice(Query):
    """A query answered by one of a list; with two choices it is a yes/no question, the second being yes."""

    values: tuple[str | int | float | bool, ...] = ()
    """The choices as they stand in the data, in the order of `choices`."""

    def __post_init__(self) -> None:
        if len(self.values) != len(self.choices):
            object.__setattr__(self, "values", self.choices)


@dataclass(frozen=True)
class Number(Query):
    """A query answered by a number, which networks see as (number - centre) / spread."""

    centre: float = 0.0
    spread: float = 1.0


def yes_no(name: str, text: str = "", cost: float = 1.0) -> Choice:
    """A yes/no question about a column of 0 and 1 (or False and True)."""
    return Choice(name, text or _wording(name, "{}?"), ("no", "yes"), cost, values=(0, 1))


class ColumnQueries(QuerySet):
    """One query a column of a table.

    In the answer space a yes/no column is one feature of -1 or 1, a number one standardised feature, and a column
    with k other choices k features of 0 or 1. With `mask`, the network also sees which queries are known: without it
    a number of average size looks like no answer.
    """

    owner: Tensor
    spans: Tensor

    def __init__(self, columns: Sequence[Choice | Number], mask: bool = True):
        super().__init__()
        if not columns:
            raise ValueError("The table has no columns to ask for: at least one besides the target is needed.")
        names = [column.name for column in columns]
        twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise ValueError(f"Column names must differ, but these occur more than once: {_some(twice)}.")
        if not mask and any(isinstance(column, Number) for column in columns):
            raise ValueError("Number columns need mask=True: without it an average number looks like no answer.")
        self.queries: tuple[Choice | Number, ...] = tuple(columns)
        self.mask = mask
        self.widths = [1 if isinstance(c, Number) or len(c.choices) == 2 else len(c.choices) for c in columns]
        self.starts = np.concatenate([[0], np.cumsum(self.widths)[:-1]]).tolist()
        self.has_one_feature_each = set(self.widths) == {1}
        n_features = sum(self.widths)
        self.answer_shape = (n_features,)
        self.input_shape = (n_features + mask * len(columns),)
        # owner[f] is the query that feature f belongs to: (F,)
        self.register_buffer(
            "owner", torch.arange(len(columns)).repeat_interleave(torch.tensor(self.widths)), persistent=False
        )
        # The first feature of every query, and how many it has: (2, Q)
        self.register_buffer("spans", torch.tensor([self.starts, self.widths]), persistent=False)

    @classmethod
    def from_data(
        cls,
        data: Any,
        texts: Mapping[str, str] | None = None,
        costs: Mapping[str, float] | None = None,
        mask: bool = True,
    ) -> "ColumnQueries":
        """Guess the kind of every column of a DataFrame or a 2-d array; `texts` and `costs` go by column name."""
        frame = _frame(data)
        texts, costs = texts or {}, costs or {}
        existing = set(frame.columns)
        stray = [str(name) for name in (*texts, *costs) if name not in existing]
        if stray:
            raise ValueError(f"texts and costs name columns that the table does not have: {_some(stray)}.")
        _refuse_infinite(frame)
        _refuse_free_text(frame)
        columns = [_guess(str(name), frame.iloc[:, i]) for i, name in enumerate(frame.columns)]
        worded = [replace(c, text=texts.get(c.name, c.text), cost=float(costs.get(c.name, c.cost))) for c in columns]
        return cls(worded, mask)

    def rescaled(self, data: Any) -> "ColumnQueries":
        """The same queries, with the centre and spread of numbers taken from these rows."""
        frame = _frame(data, [query.name for query in self.queries])
        columns = [
            _rescale(query, frame.iloc[:, i]) if isinstance(query, Number) else query
            for i, query in enumerate(self.queries)
        ]
        return ColumnQueries(columns, self.mask)

    def answers(self, data: Any) -> Answers:
        """Read a DataFrame (columns are found by name) or a 2-d array (by position)."""
        raw = self._codes(_frame(data, [query.name for query in self.queries]))  # (N, Q), NaN where missing
        x = np.zeros((len(raw), *self.answer_shape), dtype=np.float32)
        for i, (query, start, width) in enumerate(zip(self.queries, self.starts, self.widths, strict=True)):
            values = raw[:, i]
            present = ~np.isnan(values)
            if isinstance(query, Number):
                x[present, start] = draw_in((values[present] - query.centre) / query.spread)
            elif width == 1 and len(query.choices) == 2:
                x[present, start] = 2 * values[present] - 1
            else:
                x[present.nonzero()[0], start + values[present].astype(int)] = 1
        return Answers(torch.from_numpy(x), torch.from_numpy(~np.isnan(raw)))

    def _codes(self, frame: pd.DataFrame) -> np.ndarray:
        """The table as numbers: a choice by its place in the list, a missing value as NaN."""
        _refuse_infinite(frame)
        raw = np.empty(frame.shape)
        for i, query in enumerate(self.queries):
            series = frame.iloc[:, i]
            raw[:, i] = _numbers(series) if isinstance(query, Number) else _places(query, series)
            if np.isinf(raw[:, i]).any():
                raise ValueError(_INFINITE.format(query.name))
            unseen = series[np.isnan(raw[:, i]) & series.notna().to_numpy()]
            if len(unseen):
                wanted = "a number" if isinstance(query, Number) else f"one of {_some(list(query.values))}"
                raise ValueError(
                    f"Column '{query.name}' holds {_plain(unseen.iloc[0])!r}, but {wanted} is expected, as in "
                    "training. Correct the value, or leave it empty (None or NaN) to say that the answer is unknown."
                )
        return raw

    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        known = known.to(x.dtype)
        shown = known if self.has_one_feature_each else known[:, self.owner]  # (B, F)
        return torch.cat([x * shown, known], dim=1) if self.mask else x * shown

    def place(self, query: Tensor) -> Place:
        """Where the answers to `query` (B,) stand in `x` and in the network input."""
        known = query[:, None] + self.answer_shape[0] if self.mask else None
        if self.has_one_feature_each:
            return Place(query[:, None], None, known)
        first, n_features = self.spans[:, query, None]  # (B, 1) each
        further = torch.arange(max(self.widths), device=query.device)
        there = further < n_features
        return Place(torch.where(there, first + further, 0), there, known)

    def features(self, query: int) -> slice:
        """The features of one query in `x` and in the network input."""
        return slice(self.starts[query], self.starts[query] + self.widths[query])

    def describe(self, query: int, x: Tensor) -> str:
        kind, features = self.queries[query], x[self.features(query)]
        if isinstance(kind, Number):
            return _written(kind.centre + kind.spread * spread_out(float(features[0])))
        return kind.choices[int(features[0] > 0) if len(kind.choices) == 2 else int(features.argmax())]

    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        kind, features = self.queries[query], x[self.features(query)]
        if isinstance(kind, Number):
            features[0] = float(draw_in(np.float64((_number(kind, answer) - kind.centre) / kind.spread)))
            return
        code = _code(kind, answer)
        if len(kind.choices) == 2:
            features[0] = 2 * code - 1
        else:
            features.zero_()[code] = 1

    def to_config(self) -> dict[str, Any]:
        kinds = [{"kind": type(query).__name__, **asdict(query)} for query in self.queries]
        return {"columns": kinds, "mask": self.mask}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ColumnQueries":
        columns = []
        for column in config["columns"]:
            fields = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in column.items()
                if key != "kind"
            }
            columns.append({"Choice": Choice, "Number": Number}[column["kind"]](**fields))
        return cls(columns, config["mask"])


def _frame(data: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The data as a DataFrame with string column names, restricted to `names` where given."""
    if isinstance(data, pd.DataFrame):
        frame = data.set_axis([str(name) for name in data.columns], axis=1)
        twice = frame.columns[frame.columns.duplicated()].unique().tolist()
        if twice:
            raise ValueError(f"Column names must differ, but these occur more than once: {_some(twice)}.")
        existing = set(frame.columns)
        absent = [name for name in names or [] if name not in existing]
        if absent:
            raise ValueError(
                f"The table lacks {len(absent)} of the columns of training: {_some(absent)}. Add them;"
                " unknown answers may stay empty."
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


def _numbers(series: pd.Series) -> np.ndarray:
    """A column as numbers, NaN where there is none."""
    if pd.api.types.is_datetime64_any_dtype(series) or pd.api.types.is_timedelta64_dtype(series):
        return np.full(len(series), np.nan)  # pandas would make numbers of dates
    return pd.to_numeric(series, errors="coerce").to_numpy(dtype=float, na_value=np.nan)


def _places(query: Choice, series: pd.Series) -> np.ndarray:
    """A column as places in the query's list, NaN where the value is missing or not in it."""
    codes, distinct = pd.factorize(series)  # -1 where missing
    place_of = {value: place for place, value in enumerate(query.values)}
    places = [place_of.get(_plain(value), np.nan) for value in distinct]
    return np.array([*places, np.nan])[codes]


def _plain(value: Any) -> str | int | float | bool:
    """A value as one that JSON knows: numpy's as Python's own, anything else (dates, intervals) by its text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)


def _guess(name: str, series: pd.Series) -> Choice | Number:
    """The kind of query a column is, from its values."""
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
    # A column without a single value is taken for numbers too; it is never answered anyway.
    are_numbers = pd.api.types.is_numeric_dtype(series) or all(isinstance(value, bool | np.bool_) for value in distinct)
    if are_numbers and not is_category:
        numbers = present.to_numpy(dtype=float)
        if len(numbers) and np.isin(numbers, (0, 1)).all():
            return yes_no(name)
        return _rescale(Number(name, _wording(name, "What is {}?")), series)
    values = list(series.cat.categories) if is_category else sorted(distinct, key=str)
    values = [_plain(value) for value in values]
    if len(values) == 2 and tuple(str(value).strip().lower() for value in reversed(values)) in NO_AND_YES:
        values.reverse()
    is_yes_no = tuple(str(value).strip().lower() for value in values) in NO_AND_YES
    text = _wording(name, "{}?" if is_yes_no else "Which {}?")
    return Choice(name, text, tuple(str(value) for value in values), values=tuple(values))


def _rescale(query: Number, series: pd.Series) -> Number:
    """The query with centre and spread of these numbers, by their quartiles, which withstand outliers."""
    numbers = series.dropna().to_numpy(dtype=float)
    if len(numbers) == 0:
        return replace(query, centre=0.0, spread=1.0)
    low, centre, high = np.percentile(numbers, (25, 50, 75))
    # The quartiles of a normal distribution are 1.349 standard deviations apart; if they coincide, its own deviation.
    spread = float(high / 1.349 - low / 1.349) or float(np.std(numbers)) or 1.0
    return replace(query, centre=float(centre), spread=min(max(spread, TINIEST), 1 / TINIEST))


def _wording(name: str, pattern: str) -> str:
    """A question made from a column's name, which may be one already."""
    words = name.strip().replace("_", " ")
    return words if words.endswith("?") else pattern.format(words)


def _refuse_infinite(frame: pd.DataFrame) -> None:
    numeric = frame.select_dtypes("number")
    found = np.isinf(numeric.to_numpy(dtype=float, na_value=np.nan)).any(axis=0)
    infinite = [str(name) for name in numeric.columns[found]]
    if infinite:
        raise ValueError(_INFINITE.format(_some(infinite)))


def _refuse_free_text(frame: pd.DataFrame) -> None:
    """Name all text columns that are no questions at once, so that one correction is enough."""
    problems = {str(name): _free_text(frame.iloc[:, i]) for i, name in enumerate(frame.columns)}
    problems = {name: problem for name, problem in problems.items() if problem}
    if problems:
        listed = _some([f"'{name}' ({problem})" for name, problem in problems.items()])
        raise NotAQuestion(
            f"Not questions with a list of at most {MAX_CHOICES} answers: {listed}. Leave such columns out, or group "
            "their values.",
            list(problems),
        )


def _free_text(series: pd.Series) -> str:
    """Why a column of words has too many to be a question; empty if it has not."""
    kind = pd.api.types
    if kind.is_numeric_dtype(series) or kind.is_datetime64_any_dtype(series) or hasattr(series, "cat"):
        return ""
    distinct = series.dropna().astype(str).unique()
    if len(distinct) <= MAX_CHOICES:
        return ""
    stray = [text for text in distinct if pd.isna(pd.to_numeric(text, errors="coerce"))]
    if not stray:
        return "numbers written as text: convert them"
    if len(stray) <= len(distinct) // 10:
        return f"numbers but for {_some(stray)}: mark those as missing"
    return f"{len(distinct)} different texts, such as {distinct[0]!r}"


def _number(query: Number, answer: Any) -> float:
    try:
        number = float(answer)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"The answer to '{query.text}' is a number, not {answer!r}.")
    return number


def _code(query: Choice, answer: Any) -> int:
    """The place of a person's answer in the list: the value itself, its words in any case, or their unique
    beginning."""
    for written in (query.values, query.choices):
        if answer in written:
            return written.index(answer)
    word = str(answer).strip().lower()
    words = [choice.strip().lower() for choice in query.choices]
    if word in words:
        return words.index(word)
    if tuple(words) in NO_AND_YES:
        for pair in NO_AND_YES:
            if word in pair:
                return pair.index(word)
    begins = [i for i, choice in enumerate(words) if word and choice.startswith(word)]
    if len(begins) != 1:
        raise ValueError(f"The answer to '{query.text}' is one of {_some(list(query.choices), 12)}, not {answer!r}.")
    return begins[0]


def _written(number: float) -> str:
    """A number to the six digits that single precision keeps, without an exponent where it is of usual size."""
    rounded = float(f"{number:.6g}")
    return (
        np.format_float_positional(rounded, trim="-") if 1e-4 <= abs(rounded) < 1e12 or not rounded else f"{rounded:g}"
    )


def _some(items: Sequence[Any], most: int = 6) -> str:
    """A list for a message, cut where it would get long."""
    shown = ", ".join(str(item) for item in items[:most])
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")
