"""Tables as query sets: what networks see, what is read at prediction, answers in words, and configurations."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from one_column import column
from pursuit.queries import Choice, ColumnQueries, Date, Number, yes_no
from strategies import SEEDS
from untrained import make_columns, make_rows

TYPES = st.lists(st.sampled_from(["yes_no", "choice", "single", "number"]), min_size=1, max_size=6)
CHOICES = st.lists(st.sampled_from(["yes_no", "choice", "single"]), min_size=1, max_size=6)


# What networks see


@given(types=TYPES, seed=SEEDS)
def test_unknown_answers_never_show(types: list[str], seed: int) -> None:
    for mask in (True, False):
        if "number" in types and not mask:
            continue
        query_set = make_columns(types, mask)
        generator = torch.Generator().manual_seed(seed)
        x = make_rows(query_set, 6, seed).x
        known = torch.rand(6, len(query_set), generator=generator) < 0.5
        unknown = ~known[:, query_set.units.of_feature]
        other = x + unknown * torch.randn(x.shape, generator=generator) * 1e6
        assert torch.equal(query_set.encode(x, known), query_set.encode(other, known))
        assert query_set.encode(x, known).shape == (6, *query_set.input_shape)


@given(types=TYPES, seed=SEEDS)
def test_every_known_answer_shows(types: list[str], seed: int) -> None:
    query_set = make_columns(types)
    x = make_rows(query_set, 1, seed).x
    for feature, query in enumerate(query_set.units.of_feature.tolist()):
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
@given(types=CHOICES, seed=SEEDS)
def test_an_answer_stands_where_encode_puts_it(mask: bool, types: list[str], seed: int) -> None:
    query_set = make_columns(types, mask)
    x, n = make_rows(query_set, len(types), seed).x, len(types)
    one_each = torch.eye(n, dtype=torch.bool)  # row i knows the answer to query i
    features, there, known = query_set.own_inputs.place(torch.arange(n))
    shown = torch.zeros(n, *query_set.input_shape, dtype=x.dtype)
    values = x.gather(1, features) * (1 if there is None else there)
    shown.scatter_add_(1, features, values)
    if known is not None:
        shown.scatter_(1, known, 1.0)
    assert (known is not None) == mask
    assert torch.equal(shown, query_set.encode(x, one_each))


@given(types=TYPES, seed=SEEDS)
def test_gradient_in_known_is_the_finite_difference(types: list[str], seed: int) -> None:
    query_set = make_columns(types)
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


@given(types=CHOICES)
def test_without_mask_a_choice_is_never_zero(types: list[str]) -> None:
    query_set = make_columns(types, mask=False)
    x = make_rows(query_set, 4).x
    shown = query_set.encode(x, torch.ones(4, len(query_set)))
    for query in range(len(query_set)):
        assert shown[:, query_set.units.of_feature == query].abs().sum(dim=1).eq(1).all()


def test_numbers_without_mask_are_refused() -> None:
    with pytest.raises(ValueError, match="Number columns need mask=True"):
        ColumnQueries([Number("a", "a?")], mask=False)


def test_blank_rows_hold_fractions() -> None:
    query_set = ColumnQueries([Number("a", "a?"), yes_no("b")])
    blank = query_set.blank(2)
    assert blank.shape == (2, 2)
    query_set.tell(blank[1], 0, 0.25)
    assert blank.tolist() == [[0, 0], [0.25, 0]]


@given(
    numbers=st.lists(
        st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False), min_size=2, max_size=8, unique=True
    )
)
def test_compressing_keeps_the_order(numbers: list[float]) -> None:
    query_set = ColumnQueries([Number("a", "a?", centre=2.0, spread=3.0)])
    x = query_set.answers(pd.DataFrame({"a": sorted(numbers)})).x[:, 0]
    assert x.isfinite().all()
    assert (x.diff() >= 0).all()


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


def warned(query_set: ColumnQueries, data: Any) -> tuple[str, list[list[bool]]]:
    """The only warning that reading gives, and what is available then."""
    with pytest.warns(UserWarning, match="as unknown") as warnings:
        answers = query_set.answers(data)
    assert len(warnings) == 1
    assert warnings[0].filename == __file__
    assert answers.x[~answers.available[:, query_set.units.of_feature]].eq(0).all()
    return str(warnings[0].message), answers.available.tolist()


UNSEEN = [
    (Choice("a", "a?", ("x", "y", "z")), ["x", "w"], "'w', but one of x, y, z is"),
    (Number("a", "a?"), [1, "many"], "'many', but a number is"),
    (Date("a", "a?"), ["2024-12-31", "soon"], "'soon', but a date is"),
    (yes_no("a"), [1, 2], "2, but one of 0, 1 is"),
    (yes_no("a"), [1.0, 0.5], "0.5, but one of 0, 1 is"),
    (yes_no("a"), ["yes", "perhaps"], "'perhaps', but one of 0, 1 is"),
]


@pytest.mark.parametrize(("query", "values", "refusal"), UNSEEN)
def test_what_training_never_saw_is_unknown_or_an_error(query: Any, values: list[Any], refusal: str) -> None:
    message, available = warned(ColumnQueries([query]), column(values))
    shown = f"'{values[1]}'"
    assert message == f"Values never seen in training count as unknown: 1 of 'a' ({shown})."
    assert available == [[True], [False]]
    strict = ColumnQueries([query], unknown="error")
    message = refused(strict, column(values))
    assert message.startswith(f"Column 'a' holds {refusal} expected, as in training.")
    assert "leave it empty" in message
    assert "np." not in message
    assert ColumnQueries.from_config(strict.to_config()).unknown == "error"


def test_what_is_unknown_is_counted_by_column_in_one_warning(recwarn: pytest.WarningsRecorder) -> None:
    queries = [Choice("ward", "Ward?", ("X1", "X2")), Number("age", "Age?"), yes_no("smokes")]
    frame = pd.DataFrame({"ward": ["X12", "X13", "X12"], "age": [40, "?", "old"], "smokes": [1, 0, 1]})
    message, available = warned(ColumnQueries(queries), frame)
    assert message == "Values never seen in training count as unknown: 3 of 'ward', 1 of 'age' ('X12', 'X13', 'old')."
    assert available == [[False, True, True], [False, False, True], [False, False, True]]
    recwarn.clear()
    silent = ColumnQueries(queries).with_options(unknown="ignore").answers(frame)
    assert silent.available.tolist() == available
    assert not recwarn.list
    with pytest.raises(ValueError, match="unknown is one of warn, ignore, error, not 'skip'"):
        ColumnQueries(queries, unknown="skip")  # type: ignore[arg-type]


def test_long_reports_of_unknown_values_are_cut() -> None:
    queries = [yes_no(f"c{i}") for i in range(9)]
    frame = pd.DataFrame({f"c{i}": [f"word {j}" for j in range(2000)] for i in range(9)})
    message, _ = warned(ColumnQueries(queries), frame)
    assert "unknown: 2,000 of 'c0', 2,000 of 'c1', " in message
    assert message.endswith(" and 3 more ('word 0', 'word 1', 'word 2', 'word 3', 'word 4' and 17995 more).")


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


def test_dates_in_a_number_column_are_unknown() -> None:
    message, available = warned(ColumnQueries([Number("a", "a?")]), column(pd.to_datetime(["2020-01-01", None])))
    assert "unknown: 1 of 'a' (" in message
    assert available == [[False], [False]]


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
def test_data_that_are_not_a_table_are_refused(data: Any) -> None:
    assert f"the data have {np.ndim(data)} dimensions" in refused(ColumnQueries([yes_no("a")]), data)
    with pytest.raises(ValueError, match="A table of rows and columns is expected"):
        ColumnQueries.from_data(data)


@pytest.mark.parametrize("data", [np.zeros((0, 1)), pd.DataFrame({"a": []}), pd.DataFrame()])
def test_an_empty_table_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="The table is empty"):
        ColumnQueries.from_data(data)
    if len(data.shape) == 2 and data.shape[1]:
        assert refused(ColumnQueries([yes_no("a")]), data).startswith("The table is empty")


# Answers in words


@given(types=TYPES, seed=SEEDS)
def test_what_is_described_can_be_answered(types: list[str], seed: int) -> None:
    query_set = make_columns(types)
    x = make_rows(query_set, 1, seed).x[0]
    answered = torch.full_like(x, 9.0)  # tell must write all features of its query, and no others
    for query in range(len(query_set)):
        before = answered.clone()
        query_set.tell(answered, query, query_set.describe(query, x))
        others = query_set.units.of_feature != query
        assert torch.equal(answered[others], before[others])
    torch.testing.assert_close(answered, x, rtol=1e-4, atol=1e-4)


def test_answering_and_reading_agree() -> None:
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
        answered = torch.zeros_like(x[row])
        for query, name in enumerate(frame.columns):
            query_set.tell(answered, query, frame[name].iloc[row])
        torch.testing.assert_close(answered, x[row])


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


def test_queries_are_counted_and_shown() -> None:
    query_set = make_columns(["yes_no", "choice", "number", "single"])
    assert len(query_set) == 4
    assert query_set.own_inputs.widths == [1, 3, 1, 1]
    assert query_set.own_inputs.starts == [0, 1, 4, 5]
    assert query_set.units.of_feature.tolist() == [0, 1, 1, 1, 2, 3]
    assert repr(query_set) == "ColumnQueries(4 queries)"
    assert not list(query_set.parameters())
    assert query_set.state_dict() == {}


def test_types_of_features_are_listed_once_however_many_columns_ask() -> None:
    query_set = ColumnQueries([yes_no("a"), Number("b", "b?"), Choice("c", "c?", ("x", "y", "z"))])
    assert query_set.units.feature_types == ("yes_no", "number", "choice", "choice", "choice")
    assert query_set.units.feature_types is query_set.units.feature_types
