"""Table columns as queries: yes/no, one of a list, or a number. A missing value is a query without an answer,
or the answer "not given"."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.queries.column import (
    NOT_GIVEN_TEXT,
    Choice,
    Doubt,
    Number,
    Query,
    doubt_of_point,
    listed,
    parse_choice,
    says_not_given,
)
from pursuit.queries.column_types import ColumnType, check_column_types, guess_askable, scaled
from pursuit.queries.order import Order
from pursuit.queries.own_inputs import OwnInputs, suitable_pieces
from pursuit.queries.query_set import Answers, FeatureType, QuerySet
from pursuit.queries.questions import Questions
from pursuit.queries.reading import (
    INFINITE,
    Unknown,
    as_frame,
    columns_of,
    is_float_array,
    is_missing,
    read_column,
    refusal,
    report_unseen,
)
from pursuit.queries.scaling import NOT_GIVEN, compress, expand, uncertainty
from pursuit.registry import did_you_mean, from_config, register, to_config


@register
class ColumnQueries(QuerySet):
    """One query a column of a table.

    In the answer space a yes/no column is one feature of -1 or 1, a number one standardised feature, and a column
    with k other choices k features of 0 or 1. The network sees these, the codes of numbers, and with `mask` which
    queries are known: without it a number of average size would look like no answer.

    Where a query `may_be_missing`, a row without a value has the answer "not given": neither -1 nor 1 but 0, none of
    the choices, or NOT_GIVEN in place of a number. Networks see nothing of it but that the query is known.

    A value that a query cannot read, because training never saw it, is an unknown answer: `unknown` says whether that
    goes with one warning a table ("warn"), without ("ignore"), or is an error ("error").
    """

    reads_columns = True
    is_number: Tensor
    may_be_missing: Tensor

    def __init__(
        self,
        columns: Sequence[Choice | Number],
        mask: bool = True,
        unknown: Unknown = "warn",
        order: Order | None = None,
    ):
        super().__init__()
        if not columns:
            raise ValueError("The table has no columns to ask for: at least one besides the target is needed.")
        names = [column.name for column in columns]
        twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise ValueError(f"Column names must differ, but these occur more than once: {listed(twice)}.")
        if not mask and any(isinstance(column, Number) for column in columns):
            raise ValueError("Number columns need mask=True: without it an average number looks like no answer.")
        if not mask and any(column.may_be_missing for column in columns):
            raise ValueError('Columns that may be "not given" need mask=True: without it that looks like no answer.')
        if unknown not in get_args(Unknown):
            raise ValueError(f"unknown is one of {', '.join(get_args(Unknown))}, not {unknown!r}.")
        self.unknown = unknown
        self.queries: tuple[Choice | Number, ...] = tuple(columns)
        self.mask = mask
        inputs = OwnInputs(self.queries, mask)
        self.own_inputs: OwnInputs = inputs
        self.answer_shape, self.input_shape = (inputs.n_features,), (inputs.n_inputs,)
        self._has_missing = any(column.may_be_missing for column in columns)
        query = torch.arange(len(columns))  # which is a unit of its own
        of_feature = query.repeat_interleave(torch.tensor(inputs.widths))
        self.set_units(of_feature, query[:, None], self._feature_types())
        is_number = torch.tensor([isinstance(column, Number) for column in columns])
        self.register_buffer("is_number", is_number[of_feature], persistent=False)  # (F,)
        may_be_missing = torch.tensor([column.may_be_missing for column in columns])
        self.register_buffer("may_be_missing", may_be_missing, persistent=False)  # (Q,)
        self.set_order(order)

    @classmethod
    def from_data(
        cls,
        data: Any,
        texts: Mapping[str, str] | None = None,
        costs: Mapping[str, float] | None = None,
        mask: bool = True,
        *,
        column_types: Mapping[str, ColumnType] | None = None,
        unknown: Unknown = "warn",
        ask_all: bool = False,
        missing_informs: bool = False,
        questions: str | Path | Questions | None = None,
        labels: np.ndarray | None = None,
        language: str | None = None,
    ) -> "ColumnQueries":
        """Guess what every column of a table is asked as: a DataFrame of any library, a 2-d array or a sparse matrix.

        `texts` and `costs` go by the name of the query, `column_types` by that of the column. Types overrule the guess:
        "number", "choice", "yes/no", "date", "weekday", "age", "choices" (several a cell), "words" or "skip". Columns
        that are empty, the same in every row, number the rows or cannot be a question are left out with a warning,
        unless a type is given; with `ask_all` none are, and the last are an error. An empty cell means no beside a
        single value that is a tick, or that at most half of the rows have. With `missing_informs`, a missing value is
        the answer "not given" in columns that lack it in at least 10 rows and 1 % of them. `questions` is a questions
        file, which says how columns are asked, and more. With `labels` (N,), whole numbers, dates are asked for by
        their weekday where that tells more of them. Questions are made in the `language` "en" or "de", by default that
        of the table.
        """
        table = as_frame(data)
        file = Questions() if questions is None else Questions.read(questions)
        frame = table.drop(columns=list(file.never_asked), errors="ignore")
        texts, costs = texts or {}, costs or {}
        checked = check_column_types({**file.column_types, **(column_types or {})}, list(frame.columns))
        guess, refused = guess_askable(
            frame,
            checked,
            floats_are_numbers=is_float_array(data),
            ask_all=ask_all,
            missing_informs=missing_informs,
            labels=labels,
            language=language,
        )
        if refused:
            warnings.warn(f"Not asked for. {refused}", stacklevel=2)
        guess.report(stacklevel=2)
        existing = {*frame.columns, *(query.name for query in guess.queries)}
        if stray := [str(name) for name in (*texts, *costs) if name not in existing]:
            hint = did_you_mean(stray[0], existing, f"It has {listed(list(frame.columns))}.")
            raise ValueError(f"texts and costs name columns that the table does not have: {listed(stray)}. {hint}")
        columns = _with_codes(guess.queries, frame)
        worded = [replace(c, text=texts.get(c.name, c.text), cost=float(costs.get(c.name, c.cost))) for c in columns]
        query_set: QuerySet = cls(worded, mask, unknown)
        if questions is not None:
            query_set = file.apply(query_set, left_out=list(table.columns))
        assert isinstance(query_set, cls)
        return query_set

    @property
    def columns(self) -> list[str]:
        """The columns that answers are read from, each once."""
        return list(dict.fromkeys(query.source for query in self.queries))

    def _by_query(self, frame: pd.DataFrame) -> list[Any]:
        """The column of each query."""
        columns = dict(zip(frame.columns, columns_of(frame), strict=True))
        return [columns[query.source] for query in self.queries]

    def rescaled(self, data: Any) -> "ColumnQueries":
        """The same queries, with the centre and spread of numbers taken from these rows."""
        frame = as_frame(data, self.columns)
        return ColumnQueries(_with_codes(self.queries, frame), self.mask, self.unknown, self.order)

    def with_queries(self, queries: Sequence[Query], order: Order | None = None) -> QuerySet:
        if not self.reads_columns:  # but words of a text, or what a network says
            return super().with_queries(queries, order)
        changed = {"columns": [to_config(query) for query in queries], "order": to_config(order or None)}
        return self.from_config({**self.to_config(), **changed})

    def answers(self, data: Any) -> Answers:
        """Read a DataFrame of any library (columns are found by name), a 2-d array or a sparse matrix (by position)."""
        frame = as_frame(data, self.columns)
        raw = self._codes(frame)  # (N, Q), NaN where missing
        x = np.zeros((len(raw), *self.answer_shape), dtype=np.float32)
        available = ~np.isnan(raw)
        for i, (query, start, width) in enumerate(
            zip(self.queries, self.own_inputs.starts, self.own_inputs.widths, strict=True)
        ):
            values, present = raw[:, i], available[:, i]
            if isinstance(query, Number):
                np.copyto(
                    x[:, start], compress((values - query.centre) / query.spread), where=present, casting="same_kind"
                )
            elif width == 1 and len(query.choices) == 2:
                np.copyto(x[:, start], 2 * values - 1, where=present, casting="same_kind")
            else:
                x[present.nonzero()[0], start + values[present].astype(int)] = 1
        if self._has_missing:
            self._mark_missing(frame, x, available)
        return Answers(torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(available)))

    def _mark_missing(self, frame: pd.DataFrame, x: np.ndarray, available: np.ndarray) -> None:
        """Make a missing value the answer "not given", in place, where the query may be answered so."""
        for i, (query, column) in enumerate(zip(self.queries, self._by_query(frame), strict=True)):
            if query.may_be_missing:
                missing = is_missing(query, column)
                available[missing, i] = True
                x[missing, self.own_inputs.starts[i]] = NOT_GIVEN if isinstance(query, Number) else 0

    def _codes(self, frame: pd.DataFrame) -> np.ndarray:
        """The table as numbers (N, Q): a choice by its place in the list, a missing value as NaN."""
        raw = np.empty((len(frame), len(self.queries)), order="F")
        unseen: dict[str, dict[Any, int]] = {}
        for i, (query, column) in enumerate(zip(self.queries, self._by_query(frame), strict=True)):
            raw[:, i], others = read_column(query, column)
            if others and self.unknown == "error":
                raise refusal(query, next(iter(others)))
            if others:
                unseen[query.name] = others
        infinite = np.flatnonzero(np.isinf(raw).any(axis=0))
        if len(infinite):
            raise ValueError(INFINITE.format(listed([self.queries[i].name for i in infinite])))
        if self.unknown == "warn":
            report_unseen(unseen, stacklevel=3)
        return raw

    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        return self.own_inputs.encode(x, known)

    def given(self, x: Tensor, known: Tensor) -> Tensor:
        if not self._has_missing:
            return known
        has_value = torch.where(self.is_number, x != NOT_GIVEN, x != 0)  # (B, F)
        if not self.own_inputs.has_one_feature_each:
            n_values = torch.zeros(known.shape, dtype=torch.int, device=x.device)
            has_value = n_values.index_add(1, self.units.of_feature, has_value.int()) > 0  # (B, Q)
        return known & (has_value | ~self.may_be_missing)

    def _feature_types(self) -> tuple[FeatureType, ...]:
        types: list[FeatureType] = []
        for query, width in zip(self.queries, self.own_inputs.widths, strict=True):
            is_yes_no = len(query.choices) == 2
            types += ["number" if isinstance(query, Number) else "yes_no" if is_yes_no else "choice"] * width
        return tuple(types)

    def describe(self, query: int, x: Tensor) -> str:
        column, features = self.queries[query], x[self.own_inputs.features(query)]
        if column.may_be_missing and not (features != (NOT_GIVEN if isinstance(column, Number) else 0)).any():
            return NOT_GIVEN_TEXT
        if isinstance(column, Number):
            z = float(features[0])
            return column.restored(column.centre + column.spread * expand(z), uncertainty(z, column.spread))
        return column.choices[int(features[0] > 0) if len(column.choices) == 2 else int(features.argmax())]

    def describe_given(self, query: int, x: Tensor, answer: Any) -> str:
        column = self.queries[query]
        if not isinstance(column, Number) or not self.reads_columns or says_not_given(column, answer):
            return self.describe(query, x)
        return column.as_given(column.parse(answer))

    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        column, features = self.queries[query], x[self.own_inputs.features(query)]
        if says_not_given(column, answer):
            features.fill_(NOT_GIVEN if isinstance(column, Number) else 0)
            return
        if isinstance(column, Number):
            features[0] = float(compress(np.float64((column.parse(answer) - column.centre) / column.spread)))
            return
        code = parse_choice(column, answer)
        if len(column.choices) == 2:
            features[0] = 2 * code - 1
        else:
            features.zero_()[code] = 1

    def doubt(self, query: int, answer: Any) -> Doubt | None:
        column = self.queries[query]
        if not isinstance(column, Number) or says_not_given(column, answer):
            return None
        try:
            number = column.parse(answer)
        except ValueError:
            return None  # `tell` says what is wrong with it
        return doubt_of_point(column, answer) or column.doubt(number)

    def to_config(self) -> dict[str, Any]:
        columns = [to_config(query) for query in self.queries]
        return {"columns": columns, "mask": self.mask, "unknown": self.unknown, "order": to_config(self.order)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ColumnQueries":
        query_set = cls([from_config(column) for column in config["columns"]], config["mask"], config["unknown"])
        query_set.set_order(from_config(config["order"]))
        return query_set


def _with_codes(columns: Sequence[Choice | Number], frame: pd.DataFrame) -> list[Choice | Number]:
    """The columns with numbers scaled and coded by the values in these rows."""
    n_pieces = suitable_pieces(len(frame), sum(isinstance(column, Number) for column in columns))
    values = dict(zip(frame.columns, columns_of(frame), strict=True))
    return [
        scaled(column, read_column(column, values[column.source])[0], n_pieces)
        if isinstance(column, Number)
        else column
        for column in columns
    ]
