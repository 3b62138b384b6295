"""Tables become queries: what every column is taken for, what is refused and how, and what networks see of it."""

import datetime
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries import Choice, ColumnQueries, Number, yes_no
from pursuit.queries.columns import MAX_CHOICES

KINDS = st.lists(st.sampled_from(["yes_no", "choice", "single", "number"]), min_size=1, max_size=6)
CHOICES = st.lists(st.sampled_from(["yes_no", "choice", "single"]), min_size=1, max_size=6)
SEEDS = st.integers(0, 10_000)


def column(values: Any, **settings: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, **settings)})


def read(frame: pd.DataFrame) -> tuple[Choice | Number, list[Any]]:
    """What a table of one column is taken for, and its answers, None where there is none."""
    query_set = ColumnQueries.from_data(frame)
    x, available = query_set.answers(frame)
    answers = [query_set.describe(0, row) if there else None for row, there in zip(x, available[:, 0], strict=True)]
    return query_set.queries[0], answers


# What networks see


@given(kinds=KINDS, seed=SEEDS)
def test_unknown_answers_never_show(make_columns: Any, make_rows: Any, kinds: list[str], seed: int) -> None:
    for mask in (True, False):
        if "number" in kinds and not mask:
            continue
        query_set = make_columns(kinds, mask)
        generator = torch.Generator().manual_seed(seed)
        x = make_rows(query_set, 6, seed).x
        known = torch.rand(6, len(query_set), generator=generator) < 0.5
        unknown = ~known[:, query_set.owner]
        other = x + unknown * torch.randn(x.shape, generator=generator) * 1e6
        assert torch.equal(query_set.encode(x, known), query_set.encode(other, known))
        assert query_set.encode(x, known).shape == (6, *query_set.input_shape)


@given(kinds=KINDS, seed=SEEDS)
def test_every_known_answer_shows(make_columns: Any, make_rows: Any, kinds: list[str], seed: int) -> None:
    query_set = make_columns(kinds)
    x = make_rows(query_set, 1, seed).x
    for feature, query in enumerate(query_set.owner.tolist()):
        known = torch.zeros(1, len(query_set), dtype=torch.bool)
        known[0, query] = True
        seen = query_set.encode(x, known)
        assert seen[0, feature] == x[0, feature]
        assert seen[0, len(x[0]) :].tolist() == known[0].tolist()


def test_columns_without_choices_do_not_shift_the_others() -> None:
    # Two all-missing text columns and one of three choices: three queries, and three features of the last one.
    query_set = ColumnQueries([Choice("a", "a?"), Choice("b", "b?"), Choice("c", "c?", ("x", "y", "z"))])
    x = torch.tensor([[1.0, 0.0, 0.0]])
    last, first = torch.tensor([[False, False, True]]), torch.tensor([[True, False, False]])
    assert query_set.encode(x, last)[0, :3].tolist() == [1, 0, 0]
    assert query_set.encode(x, first)[0, :3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("mask", [True, False])
@given(kinds=st.lists(st.sampled_from(["yes_no", "choice", "single"]), min_size=1, max_size=6), seed=SEEDS)
def test_an_answer_stands_where_encode_puts_it(
    make_columns: Any, make_rows: Any, mask: bool, kinds: list[str], seed: int
) -> None:
    query_set = make_columns(kinds, mask)
    x, n = make_rows(query_set, len(kinds), seed).x, len(kinds)
    one_each = torch.eye(n, dtype=torch.bool)  # row i knows the answer to query i
    features, there, known = query_set.place(torch.arange(n))
    shown = torch.zeros(n, *query_set.input_shape, dtype=x.dtype)
    values = x.gather(1, features) * (1 if there is None else there)
    shown.scatter_add_(1, features, values)
    if known is not None:
        shown.scatter_(1, known, 1.0)
    assert (known is not None) == mask
    assert torch.equal(shown, query_set.encode(x, one_each))


@given(kinds=KINDS, seed=SEEDS)
def test_gradient_in_known_is_the_finite_difference(
    make_columns: Any, make_rows: Any, kinds: list[str], seed: int
) -> None:
    query_set = make_columns(kinds)
    generator = torch.Generator().manual_seed(seed)
    x = make_rows(query_set, 3, seed).x
    known = (torch.rand(3, len(query_set), generator=generator) < 0.5).double().requires_grad_()
    weights = torch.randn(3, *query_set.input_shape, generator=generator, dtype=torch.double)
    (gradient,) = torch.autograd.grad((query_set.encode(x, known) * weights).sum(), known)
    for query in range(len(query_set)):
        on, off = known.detach().clone(), known.detach().clone()
        on[:, query], off[:, query] = 1, 0
        difference = ((query_set.encode(x, on) - query_set.encode(x, off)) * weights).sum(dim=1)
        torch.testing.assert_close(gradient[:, query], difference, rtol=1e-12, atol=1e-12)


@given(kinds=CHOICES)
def test_without_mask_a_choice_is_never_zero(make_columns: Any, make_rows: Any, kinds: list[str]) -> None:
    query_set = make_columns(kinds, mask=False)
    x = make_rows(query_set, 4).x
    shown = query_set.encode(x, torch.ones(4, len(query_set)))
    for query in range(len(query_set)):
        assert shown[:, query_set.owner == query].abs().sum(dim=1).eq(1).all()


def test_numbers_without_mask_are_refused() -> None:
    with pytest.raises(ValueError, match="Number columns need mask=True"):
        ColumnQueries([Number("a", "a?")], mask=False)


def test_blank_rows_hold_fractions() -> None:
    query_set = ColumnQueries([Number("a", "a?"), yes_no("b")])
    blank = query_set.blank(2)
    assert blank.shape == (2, 2)
    query_set.tell(blank[1], 0, 0.25)
    assert blank.tolist() == [[0, 0], [0.25, 0]]


# What a column is taken for


@pytest.mark.parametrize(
    ("values", "settings", "answers"),
    [
        ([True, False, True], {}, ["yes", "no", "yes"]),
        ([1, 0, 1], {}, ["yes", "no", "yes"]),
        ([1.0, np.nan, 0.0], {}, ["yes", None, "no"]),
        ([1, None, 0], {"dtype": "Int64"}, ["yes", None, "no"]),
        ([1.0, None, 0.0], {"dtype": "Float64"}, ["yes", None, "no"]),
        ([True, None, False], {"dtype": "boolean"}, ["yes", None, "no"]),
        ([True, None, False], {"dtype": object}, ["yes", None, "no"]),
        ([np.bool_(True), None, np.bool_(False)], {"dtype": object}, ["yes", None, "no"]),
        ([0, 0, 0], {}, ["no", "no", "no"]),
        ([1, 1, None], {}, ["yes", "yes", None]),
        ([True, True], {}, ["yes", "yes"]),
    ],
)
def test_zero_and_one_are_no_and_yes(values: list[Any], settings: dict[str, Any], answers: list[Any]) -> None:
    query, read_answers = read(column(values, **settings))
    assert isinstance(query, Choice)
    assert query == yes_no("a")
    assert read_answers == answers


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
@pytest.mark.parametrize(
    ("no", "yes"), [("no", "yes"), ("N", "Y"), ("False", "True"), ("absent", "present"), ("0", "1")]
)
def test_pairs_of_words_are_yes_no_questions(dtype: Any, no: str, yes: str) -> None:
    query, answers = read(column([yes, None, no], dtype=dtype))
    assert query.choices == (no, yes)
    assert query.text == "a?"
    assert answers == [yes, None, no]


def test_yes_comes_second_even_if_listed_first() -> None:
    frame = column(["yes", "no"], dtype=pd.CategoricalDtype(["yes", "no"]))
    query_set = ColumnQueries.from_data(frame)
    assert query_set.queries[0].choices == ("no", "yes")
    assert query_set.answers(frame).x.tolist() == [[1], [-1]]


@pytest.mark.parametrize("dtype", [object, "str", "string", "category"])
def test_texts_are_choices(dtype: Any) -> None:
    frame = column(["red", "blue", None, "green", "blue"], dtype=dtype)
    query_set = ColumnQueries.from_data(frame)
    assert query_set.queries[0] == Choice("a", "Which a?", ("blue", "green", "red"))
    x, available = query_set.answers(frame)
    assert x.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert available[:, 0].tolist() == [True, True, False, True, True]


def test_two_other_texts_are_one_feature() -> None:
    query, answers = read(column(["left", "right", None]))
    assert query.text == "Which a?"
    assert answers == ["left", "right", None]


def test_categories_keep_their_order_and_the_unused() -> None:
    query, _ = read(column(["low", "high"], dtype=pd.CategoricalDtype(["low", "middle", "high"], ordered=True)))
    assert query.choices == ("low", "middle", "high")


def test_categories_may_be_numbers() -> None:
    query, answers = read(column([3, 1, 2], dtype="category"))
    assert query == Choice("a", "Which a?", ("1", "2", "3"), values=(1, 2, 3))
    assert answers == ["3", "1", "2"]


def test_categories_may_be_booleans() -> None:
    _, answers = read(column([True, False, None], dtype="category"))
    assert answers == ["True", "False", None]


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "int64", "Int64", "int8", "uint8"])
def test_numbers_are_standardised_by_their_quartiles(dtype: str) -> None:
    frame = column([10, 20, 30, 40, 50], dtype=dtype)
    query_set = ColumnQueries.from_data(frame)
    query = query_set.queries[0]
    assert isinstance(query, Number)
    assert query.text == "What is a?"
    assert query.centre == 30
    assert query.spread == pytest.approx(20 / 1.349)
    x = query_set.answers(frame).x[:, 0]
    assert x.tolist() == pytest.approx([-1.349, -0.6745, 0, 0.6745, 1.349], rel=1e-5)


def test_missing_numbers_are_no_answers() -> None:
    query, answers = read(column([1.5, None, 2.5], dtype="Float64"))
    assert isinstance(query, Number)
    assert answers == ["1.5", None, "2.5"]


def test_a_constant_number_has_spread_one() -> None:
    query, answers = read(column([7.0, 7.0, 7.0]))
    assert isinstance(query, Number)
    assert (query.centre, query.spread) == (7, 1)
    assert answers == ["7", "7", "7"]


def test_a_mostly_constant_number_is_spread_by_its_deviation() -> None:
    query, _ = read(column([7.0] * 9 + [17.0]))
    assert isinstance(query, Number)
    assert query.spread == pytest.approx(3.0)


def test_a_constant_text_has_one_choice() -> None:
    query, answers = read(column(["here", None, "here"]))
    assert query.choices == ("here",)
    assert answers == ["here", None, "here"]


@pytest.mark.parametrize("dtype", ["float64", "Int64", "boolean", object, "str", "category"])
def test_a_column_without_values_is_never_available(dtype: Any) -> None:
    frame = pd.DataFrame({"a": pd.Series([None, None], dtype=dtype), "b": [1, 0]})
    query_set = ColumnQueries.from_data(frame)
    x, available = query_set.answers(frame)
    assert available.tolist() == [[False, True], [False, True]]
    assert x[:, query_set.owner == 0].eq(0).all()
    assert query_set.encode(x, available).shape == (2, *query_set.input_shape)


def test_outliers_are_drawn_in() -> None:
    frame = column([*np.linspace(-1, 1, 99), 1e12])
    x = ColumnQueries.from_data(frame).answers(frame).x
    assert x.isfinite().all()
    assert 3 < x[-1, 0] < 40
    assert x[:-1].abs().max() < 3


@given(
    numbers=st.lists(
        st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False), min_size=2, max_size=8, unique=True
    )
)
def test_drawing_in_keeps_the_order(numbers: list[float]) -> None:
    query_set = ColumnQueries([Number("a", "a?", centre=2.0, spread=3.0)])
    x = query_set.answers(pd.DataFrame({"a": sorted(numbers)})).x[:, 0]
    assert x.isfinite().all()
    assert (x.diff() >= 0).all()


def test_numbers_can_be_rescaled() -> None:
    query_set = ColumnQueries.from_data(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0, 1, 1], "c": [5.0, 6.0, 7.0]}))
    rescaled = query_set.rescaled(pd.DataFrame({"b": [0, 1, 1], "c": [None] * 3, "a": [10.0, 20.0, 30.0]}))
    a, b, c = rescaled.queries
    assert isinstance(a, Number)
    assert isinstance(c, Number)
    assert (a.centre, a.spread) == (20, pytest.approx(10 / 1.349))
    assert b == query_set.queries[1]
    assert (c.centre, c.spread) == (0, 1)
    assert query_set.queries[0] != a


def test_arrays_name_their_columns() -> None:
    query_set = ColumnQueries.from_data(np.array([[1.5, 0], [2.5, 1], [3.5, np.nan]]))
    assert [query.name for query in query_set.queries] == ["x0", "x1"]
    assert [type(query) for query in query_set.queries] == [Number, Choice]
    assert query_set.answers(np.array([[2.5, np.nan]])).available.tolist() == [[True, False]]


def test_object_arrays_hold_mixed_columns() -> None:
    query_set = ColumnQueries.from_data(np.array([["red", True], ["blue", None], ["green", False]], dtype=object))
    assert query_set.queries[0].choices == ("blue", "green", "red")
    assert query_set.queries[1].choices == ("no", "yes")
    answers = query_set.answers(np.array([[None, True], ["red", None]], dtype=object))
    assert answers.available.tolist() == [[False, True], [True, False]]
    assert answers.x.tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_object_columns_of_numbers_are_numbers() -> None:
    array = np.array([[float(i)] for i in range(MAX_CHOICES + 10)], dtype=object)
    assert isinstance(ColumnQueries.from_data(array).queries[0], Number)


def test_wording_and_cost_can_be_given() -> None:
    frame = pd.DataFrame({"a_b": [1, 0], "Is it late?": [1, 0], "c": [1.5, 2.5]})
    query_set = ColumnQueries.from_data(frame, texts={"c": "How much?"}, costs={"a_b": 3})
    assert [query.text for query in query_set.queries] == ["a b?", "Is it late?", "How much?"]
    assert [query.cost for query in query_set.queries] == [3, 1, 1]
    with pytest.raises(ValueError, match=r"does not have: d, e\."):
        ColumnQueries.from_data(frame, texts={"d": "D?"}, costs={"e": 1})


# Tables at prediction


def test_columns_are_found_by_name() -> None:
    query_set = ColumnQueries.from_data(pd.DataFrame({"a": [1, 0], "b": ["x", "y"]}))
    x = query_set.answers(pd.DataFrame({"extra": [7.0], "b": ["y"], "a": [1]})).x
    assert x.tolist() == [[1, 1]]


def test_names_need_not_be_texts() -> None:
    query_set = ColumnQueries.from_data(pd.DataFrame({1: [1, 0], 2: [0, 1]}))
    assert [query.name for query in query_set.queries] == ["1", "2"]
    assert query_set.answers(pd.DataFrame({2: [1], 1: [0]})).x.tolist() == [[-1, 1]]


def test_numbers_may_come_as_text() -> None:
    query_set = ColumnQueries([Number("a", "a?")])
    assert query_set.answers(column(["1.5", None])).x.tolist() == [[1.5], [0]]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False], None),
        ([1, 0], None),
        ([1.0, 0.0], None),
        ([1, 0], object),
        ([True, False], "boolean"),
        pytest.param(
            [True, False],
            object,
        ),
    ],
)
def test_yes_may_be_written_in_several_ways(values: list[Any], dtype: Any) -> None:
    query_set = ColumnQueries([yes_no("a")])
    assert query_set.answers(column(values, dtype=dtype)).x.tolist() == [[1], [-1]]


def refused(query_set: ColumnQueries, data: Any) -> str:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the caller looks at the message)
        query_set.answers(data)
    return str(error.value)


def test_an_unseen_category_is_refused() -> None:
    message = refused(ColumnQueries([Choice("a", "a?", ("x", "y", "z"))]), column(["x", "w"]))
    assert message.startswith("Column 'a' holds 'w', but one of x, y, z is expected, as in training.")
    assert "leave it empty" in message


def test_text_in_a_number_column_is_refused() -> None:
    message = refused(ColumnQueries([Number("a", "a?")]), column([1, "many"], dtype=object))
    assert message.startswith("Column 'a' holds 'many', but a number is expected, as in training.")


@pytest.mark.parametrize("value", [2, 0.5, -1])
def test_other_numbers_than_zero_and_one_are_refused(value: float) -> None:
    message = refused(ColumnQueries([yes_no("a")]), column([1, value, 0]))
    assert "but one of 0, 1 is expected" in message


def test_values_in_messages_are_written_plainly() -> None:
    assert "np." not in refused(ColumnQueries([yes_no("a")]), column([2]))


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_values_are_refused(value: float) -> None:
    frame = pd.DataFrame({"a": [1.0, value], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"Infinite values \(inf\) in a: "):
        ColumnQueries.from_data(frame)
    message = refused(ColumnQueries([Number("a", "a?"), Number("b", "b?")]), frame)
    assert message.startswith("Infinite values (inf) in a: ")


@pytest.mark.parametrize("value", ["inf", "-Infinity", math.inf])
def test_infinite_values_are_refused_in_object_columns(value: Any) -> None:
    assert "a" in refused(ColumnQueries([Number("a", "a?")]), column([1.5, value], dtype=object))


def test_dates_in_a_number_column_are_refused() -> None:
    assert "a number is expected" in refused(
        ColumnQueries([Number("a", "a?")]), column(pd.to_datetime(["2020-01-01", None]))
    )


def test_a_missing_column_is_refused() -> None:
    query_set = ColumnQueries([yes_no(name) for name in "abc"])
    message = refused(query_set, pd.DataFrame({"b": [1]}))
    assert message.startswith("The table lacks 2 of the columns of training: a, c.")


def test_a_column_twice_at_prediction_is_refused() -> None:
    query_set = ColumnQueries([yes_no("a"), yes_no("b")])
    assert "more than once" in refused(query_set, pd.DataFrame([[0, 1, 0]], columns=["a", "a", "b"]))


@pytest.mark.parametrize("n_columns", [1, 3])
def test_a_wrong_number_of_columns_is_refused(n_columns: int) -> None:
    message = refused(ColumnQueries([yes_no("a"), yes_no("b")]), np.zeros((2, n_columns)))
    assert message == f"The table has {n_columns} columns, but 2 are expected, as in training."


@pytest.mark.parametrize("data", [np.zeros(3), np.zeros((2, 2, 2)), 5.0])
def test_data_that_are_no_table_are_refused(data: Any) -> None:
    assert f"the data have {np.ndim(data)} dimensions" in refused(ColumnQueries([yes_no("a")]), data)
    with pytest.raises(ValueError, match="A table of rows and columns is expected"):
        ColumnQueries.from_data(data)


@pytest.mark.parametrize("data", [np.zeros((0, 1)), pd.DataFrame({"a": []}), pd.DataFrame()])
def test_an_empty_table_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="The table is empty"):
        ColumnQueries.from_data(data)
    if len(data.shape) == 2 and data.shape[1]:
        assert refused(ColumnQueries([yes_no("a")]), data).startswith("The table is empty")


# Tables that make no query set


@pytest.mark.parametrize("data", [np.zeros((3, 0)), pd.DataFrame(index=range(3))])
def test_a_table_without_columns_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="The table has no columns"):
        ColumnQueries.from_data(data)


def test_names_that_occur_twice_are_refused() -> None:
    with pytest.raises(ValueError, match=r"these occur more than once: a, b\."):
        ColumnQueries.from_data(pd.DataFrame([[1, 0, 1, 0, 1]], columns=["b", "a", "c", "a", "b"]))
    with pytest.raises(ValueError, match=r"these occur more than once: 1\."):
        ColumnQueries.from_data(pd.DataFrame([[1, 0]], columns=[1, "1"]))


def test_too_many_texts_are_refused_all_at_once() -> None:
    texts = [f"text {i}" for i in range(MAX_CHOICES + 1)]
    with pytest.raises(ValueError, match="at most 50 answers") as error:
        ColumnQueries.from_data(pd.DataFrame({"a": texts, "b": range(len(texts)), "c": texts}))
    assert "'a' (51 different texts, such as 'text 0')" in str(error.value)
    assert "'c' (51 different texts" in str(error.value)
    assert "'b'" not in str(error.value)


def test_as_many_texts_as_allowed_are_choices() -> None:
    query, _ = read(column([f"text {i}" for i in range(MAX_CHOICES)]))
    assert len(query.choices) == MAX_CHOICES


def test_stray_text_among_numbers_is_named() -> None:
    with pytest.raises(ValueError, match=r"'a' \(numbers but for \?, n/a: mark those as missing\)"):
        ColumnQueries.from_data(column(["?", "n/a", *(str(i) for i in range(60))]))


def test_numbers_as_text_are_not_refused_for_stray_text() -> None:
    with pytest.raises(ValueError, match="numbers") as error:
        ColumnQueries.from_data(column([str(i) for i in range(60)]))
    assert "but for :" not in str(error.value)


@pytest.mark.parametrize(
    "values", [pd.to_datetime(["2020-01-01", None]), pd.to_datetime(["2020-01-01"], utc=True), pd.to_timedelta(["1D"])]
)
def test_dates_and_times_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="Column 'a' holds dates or times"):
        ColumnQueries.from_data(column(values))


@pytest.mark.parametrize(
    "values",
    [pd.Series(pd.cut([1, 2, 3], 2)), [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)], [b"x", b"y"]],
    ids=["intervals", "dates", "bytes"],
)
def test_every_accepted_column_has_a_config(values: Any) -> None:
    try:
        query_set = ColumnQueries.from_data(column(values))
    except ValueError:
        return
    json.dumps(query_set.to_config())


# Answers in words


@given(number=st.floats(-1e9, 1e9, allow_nan=False), centre=st.floats(-100, 100), spread=st.floats(0.01, 100))
def test_a_number_told_is_described(number: float, centre: float, spread: float) -> None:
    query_set = ColumnQueries([yes_no("a"), Number("b", "b?", centre=centre, spread=spread)])
    x = torch.zeros(2, dtype=torch.double)
    query_set.tell(x, 1, number)
    assert float(query_set.describe(1, x)) == pytest.approx(number, rel=1e-5, abs=1e-5 * (abs(centre) + spread))
    assert x[0] == 0
    again = x.clone()
    query_set.tell(again, 1, query_set.describe(1, x))
    torch.testing.assert_close(again, x, rtol=1e-3, atol=1e-3)


@given(kinds=KINDS, seed=SEEDS)
def test_what_is_described_can_be_told(make_columns: Any, make_rows: Any, kinds: list[str], seed: int) -> None:
    query_set = make_columns(kinds)
    x = make_rows(query_set, 1, seed).x[0]
    told = torch.full_like(x, 9.0)  # tell must write all features of its query, and no others
    for query in range(len(query_set)):
        before = told.clone()
        query_set.tell(told, query, query_set.describe(query, x))
        others = query_set.owner != query
        assert torch.equal(told[others], before[others])
    torch.testing.assert_close(told, x, rtol=1e-4, atol=1e-4)


def test_telling_and_reading_agree() -> None:
    frame = pd.DataFrame(
        {
            "number": [1.5, 700.0, -3.0, 2.0],
            "zero_one": [0, 1, 0, 1],
            "bool": [True, False, True, False],
            "word": ["yes", "no", "no", "yes"],
            "choice": ["x", "y", "z", "x"],
            "grade": pd.Categorical([3, 1, 2, 3]),
        }
    )
    query_set = ColumnQueries.from_data(frame)
    x = query_set.answers(frame).x
    for row in range(len(frame)):
        told = torch.zeros_like(x[row])
        for query, name in enumerate(frame.columns):
            query_set.tell(told, query, frame[name].iloc[row])
        torch.testing.assert_close(told, x[row])


def test_choices_are_told_in_any_case_or_by_their_beginning() -> None:
    query_set = ColumnQueries([Choice("a", "a?", ("Red", "Green", "Grey", "Gre"))])
    x = torch.zeros(4)
    for answer, code in [("RED", 0), (" red ", 0), ("r", 0), ("gree", 1), ("grey", 2), ("gre", 3)]:
        query_set.tell(x, 0, answer)
        assert x.tolist() == [float(i == code) for i in range(4)]


@pytest.mark.parametrize("answer", ["g", "", "  ", "blue", "redd", None, 3, ["Red"]])
def test_other_answers_are_refused(answer: Any) -> None:
    query_set = ColumnQueries([Choice("a", "Which a?", ("Red", "Green", "Grey"))])
    x = torch.zeros(3)
    with pytest.raises(ValueError, match=r"The answer to 'Which a\?' is one of Red, Green, Grey, not "):
        query_set.tell(x, 0, answer)
    assert x.eq(0).all()


@pytest.mark.parametrize(
    ("answer", "x"), [("yes", 1), ("Y", 1), (1, 1), (True, 1), (np.int64(1), 1), ("no", -1), (0, -1), (False, -1)]
)
def test_yes_and_no_may_be_told_in_several_ways(answer: Any, x: float) -> None:
    row = torch.zeros(1)
    ColumnQueries([yes_no("a")]).tell(row, 0, answer)
    assert row.item() == x


@pytest.mark.parametrize("answer", ["many", "", None, math.nan, "inf", [1, 2]])
def test_an_answer_that_is_no_number_is_refused(answer: Any) -> None:
    x = torch.zeros(1)
    with pytest.raises(ValueError, match=r"The answer to 'How many\?' is a number, not "):
        ColumnQueries([Number("a", "How many?")]).tell(x, 0, answer)
    assert x.item() == 0


@pytest.mark.parametrize("choices", [(" <=50K", " >50K"), ("A", "a")])
def test_every_choice_can_be_told_as_it_is_written(choices: tuple[str, str]) -> None:
    query_set = ColumnQueries([Choice("a", "a?", choices)])
    for choice in choices:
        x = torch.zeros(1)
        query_set.tell(x, 0, choice)
        assert query_set.describe(0, x) == choice


# Configurations


def test_a_config_goes_through_json() -> None:
    frame = pd.DataFrame(
        {
            "n": [1.5, 2.5, None],
            "b": [True, False, True],
            "c": pd.Categorical([3, 1, 2]),
            "t": ["ä", "y", "z"],
            "w": ["no", "yes", None],
        }
    )
    for names, mask in ((list("nbctw"), True), (list("bctw"), False)):
        query_set = ColumnQueries.from_data(frame[names], costs={"c": 2.5}, mask=mask)
        again = ColumnQueries.from_config(json.loads(json.dumps(query_set.to_config())))
        assert again.queries == query_set.queries
        assert [type(query) for query in again.queries] == [type(query) for query in query_set.queries]
        assert again.input_shape == query_set.input_shape
        for one, other in zip(again.answers(frame), query_set.answers(frame), strict=True):
            assert torch.equal(one, other)


def test_queries_are_counted_and_shown(make_columns: Callable[..., ColumnQueries]) -> None:
    query_set = make_columns(["yes_no", "choice", "number", "single"])
    assert len(query_set) == 4
    assert query_set.widths == [1, 3, 1, 1]
    assert query_set.starts == [0, 1, 4, 5]
    assert query_set.owner.tolist() == [0, 1, 1, 1, 2, 3]
    assert repr(query_set) == "ColumnQueries(4 queries)"
    assert not list(query_set.parameters())
    assert query_set.state_dict() == {}
