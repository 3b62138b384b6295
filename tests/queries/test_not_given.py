"""Columns in which a missing value is an answer, "not given": how it is read, shown, said and saved."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit.queries import Choice, ColumnQueries, Date, Number, yes_no
from pursuit.queries.answer_values import AnswerValues
from pursuit.queries.order import OnlyAfter, Order
from pursuit.queries.scaling import NOT_GIVEN, TINIEST, compress

N = 40
AGE, SMOKES, WARD, BORN = 0, 1, 2, 3


def table() -> pd.DataFrame:
    """Four columns of every kind, each without a value in the last ten rows, and one that lacks too few."""
    some = np.arange(N)
    frame = pd.DataFrame(
        {
            "age": some * 2.5,
            "smokes": pd.Series(some % 2 == 0, dtype=object),
            "ward": np.array(["A", "B", "C"], dtype=object)[some % 3],
            "born": pd.Series(pd.date_range("1980-01-01", periods=N)).dt.strftime("%Y-%m-%d").astype(object),
            "full": some % 7 * 1.5,
        }
    )
    frame.loc[N - 10 :, ["age", "smokes", "ward", "born"]] = None
    frame.loc[:8, "full"] = np.nan
    return frame


@pytest.fixture(scope="module")
def queries() -> ColumnQueries:
    return ColumnQueries.from_data(table(), column_types={"born": "date"}, missing_informs=True)


def row(**values: Any) -> pd.DataFrame:
    given = {"age": 30.0, "smokes": True, "ward": "B", "born": "1980-01-05", "full": 1.5}
    return pd.DataFrame([{**given, **values}], dtype=object)


# Which columns


def test_columns_that_lack_enough_values_may_be_not_given(queries: ColumnQueries) -> None:
    assert [type(query) for query in queries.queries] == [Number, Choice, Choice, Date, Number]
    assert [query.may_be_missing for query in queries.queries] == [True] * 4 + [False]
    many = pd.DataFrame({"a": np.arange(2000.0) % 17})
    many.loc[:18, "a"] = np.nan  # 19 of 2000 are less than 1 %
    assert not ColumnQueries.from_data(many, missing_informs=True).queries[0].may_be_missing
    many.loc[:19, "a"] = np.nan
    assert ColumnQueries.from_data(many, missing_informs=True).queries[0].may_be_missing


def test_nothing_changes_without_the_option(queries: ColumnQueries) -> None:
    plain = ColumnQueries.from_data(table(), column_types={"born": "date"})
    assert not any(query.may_be_missing for query in plain.queries)
    assert (plain.answer_shape, plain.input_shape) == (queries.answer_shape, queries.input_shape)
    x, available = plain.answers(table())
    assert not available[N - 10 :, :4].any()
    assert (x[N - 10 :, plain.units.of_feature != 4] == 0).all()
    assert plain.given(x, available) is available
    assert plain.own_inputs.shown(x) is x
    assert "not given" not in plain.queries[WARD].expected
    with pytest.raises(ValueError, match="one of A, B, C, not 'not given'"):
        plain.tell(plain.blank()[0], WARD, "not given")


def test_a_single_value_is_asked_for_where_others_have_none() -> None:
    frame = pd.DataFrame({"letter": ["came"] * 20 + [None] * 20, "b": np.arange(40) % 3})
    with pytest.warns(UserWarning, match="Empty cells mean no, .*'letter'"):
        assert ColumnQueries.from_data(frame).queries[0].offered == ("no", "yes")
    queries = ColumnQueries.from_data(frame, missing_informs=True)
    assert [query.name for query in queries.queries] == ["letter", "b"]
    assert queries.queries[0].offered == ("came", "not given")
    x, available = queries.answers(frame)
    assert available.all()
    assert queries.given(x, available)[:, 0].tolist() == [True] * 20 + [False] * 20


def test_a_mask_is_needed() -> None:
    with pytest.raises(ValueError, match="mask=True"):
        ColumnQueries([Choice("a", "a?", ("x", "y"), may_be_missing=True)], mask=False)


# Reading


def test_a_missing_value_is_available_and_one_never_seen_is_not(queries: ColumnQueries) -> None:
    x, available = queries.answers(table())
    assert available[:, :4].all()
    assert not available[:9, 4].any()
    given = queries.given(x, available)
    assert (given[:, :4].all(dim=1) == (torch.arange(N) < N - 10)).all()
    assert not given[N - 10 :, :4].any()
    assert (given[:, 4] == available[:, 4]).all()
    for name, value in {"ward": "X", "smokes": "perhaps", "age": "old", "born": "soon"}.items():
        with pytest.warns(UserWarning, match="never seen"):
            _, available = queries.answers(row(**{name: value}))
        assert available[0].tolist() == [name != query.name for query in queries.queries]
    for value in (None, np.nan, " ", "?", "n/a"):
        x, available = queries.answers(row(age=value))
        assert available.all()
        assert float(x[0, 0]) == NOT_GIVEN
    _, available = queries.answers(row(ward=None, smokes=" "))
    assert available.all()


def test_a_number_out_of_range_is_unknown() -> None:
    queries = ColumnQueries([Number("a", "a?", low=0, high=10, may_be_missing=True)])
    with pytest.warns(UserWarning, match="never seen"):
        x, available = queries.answers(pd.DataFrame({"a": [5.0, 11.0, np.nan]}))
    assert available[:, 0].tolist() == [True, False, True]
    assert queries.given(x, available)[:, 0].tolist() == [True, False, False]


def test_no_number_is_as_low_as_not_given() -> None:
    assert compress(np.array([-np.inf, -1 / TINIEST, -1e300])).min() > NOT_GIVEN + 1


# What networks see


def test_not_given_shows_nothing_but_the_mask(queries: ColumnQueries) -> None:
    x, available = queries.answers(table())
    assert queries.own_inputs.code.n_inputs > 0
    encoded = queries.encode(x, available)[-1]
    shown, mask = encoded[: queries.own_inputs.n_shown], encoded[queries.own_inputs.n_shown :]
    assert mask.tolist() == [1] * 5
    assert not shown[queries.own_inputs.of_query != 4].any()
    nothing = queries.encode(x, torch.zeros_like(available))
    assert not nothing.any()


def test_conditions_are_not_met_by_not_given() -> None:
    columns = [Choice("a", "a?", ("x", "y", "z"), may_be_missing=True), yes_no("b")]
    queries = ColumnQueries(columns, order=Order(only_after=(OnlyAfter("b", "a", ("x",)),)))
    x, known = queries.answers(pd.DataFrame({"a": ["x", None, "y"], "b": [1, 1, 1]}))
    asked = torch.tensor([[True, False]] * 3)
    allowed = queries.allowed(x, known & asked, asked)
    assert allowed is not None
    assert allowed[:, 1].tolist() == [True, False, False]


# Words


def test_people_say_and_read_it(queries: ColumnQueries) -> None:
    x, _ = queries.answers(table())
    for query in (AGE, SMOKES, WARD, BORN):
        assert queries.describe(query, x[-1]) == "not given"
        assert queries.describe(query, x[0]) != "not given"
        told = x[0].clone()
        queries.tell(told, query, "Not given ")
        assert queries.describe(query, told) == "not given"
        own = queries.own_inputs.features(query)
        assert torch.equal(told[own], x[-1, own])
    assert queries.queries[WARD].choices == ("A", "B", "C")
    assert queries.queries[WARD].offered == ("A", "B", "C", "not given")
    assert queries.queries[SMOKES].expected == "no/yes/not given"
    assert queries.queries[AGE].expected == "0 to 80 or not given"
    assert queries.queries[AGE].offered == ()
    with pytest.raises(ValueError, match="is one of A, B, C, not given, not 'D'"):
        queries.tell(queries.blank()[0], WARD, "D")


def test_a_choice_of_that_name_stays_what_it_is() -> None:
    queries = ColumnQueries([Choice("a", "a?", ("here", "not given", "there"), may_be_missing=True)])
    assert queries.queries[0].offered == queries.queries[0].choices
    x = queries.blank()[0]
    queries.tell(x, 0, "not given")
    assert x.tolist() == [0, 1, 0]


def test_it_is_saved_and_kept_by_other_wordings(queries: ColumnQueries) -> None:
    again = ColumnQueries.from_config(queries.to_config())
    assert again.queries == queries.queries
    assert again.rescaled(table()).queries == queries.queries
    assert again.with_costs({"age": 3}).queries[AGE].may_be_missing


# As values


def test_it_is_none_of_the_listed_values(queries: ColumnQueries) -> None:
    x, available = queries.answers(table())
    outcomes = AnswerValues.listed(queries, x, available, 4)
    n_held = outcomes.by_unit(outcomes.holds(x).int())
    assert (n_held[: N - 10, :4] == 1).all()
    assert (n_held[N - 10 :, :4] == 0).all()
    assert outcomes.describe(AGE)[0] == "up to 18"
    assert len(outcomes.describe(AGE)) == 4
    below = x[:1].clone()
    below[0, 0] = float(compress(np.float64(-1 / TINIEST)))
    assert outcomes.holds(below)[0, outcomes.values_of_query(AGE)].tolist() == [True, False, False, False]
    plain = ColumnQueries.from_data(table()[["age"]])
    given = AnswerValues.listed(plain, *plain.answers(table()[["age"]]), 4)
    torch.testing.assert_close(outcomes.up_to[outcomes.values_of_query(AGE)], given.up_to)
