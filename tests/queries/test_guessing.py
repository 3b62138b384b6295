"""What every column of a table is taken for, what is not asked for, and what is refused and how."""

import datetime
import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from one_column import column, read
from pursuit.queries import MAX_CHOICES, Choice, ColumnQueries, NotAQuestion, Number, yes_no
from pursuit.queries.column import Time, fold
from pursuit.queries.column_types import guess_queries


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
    assert query_set.queries[0] == Choice("a", "a?", ("blue", "green", "red"))
    x, available = query_set.answers(frame)
    assert x.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert available[:, 0].tolist() == [True, True, False, True, True]


def test_two_other_texts_are_one_feature() -> None:
    query, answers = read(column(["left", "right", None]))
    assert query.text == "a?"
    assert answers == ["left", "right", None]


def test_categories_keep_their_order_and_the_unused() -> None:
    query, _ = read(column(["low", "high"], dtype=pd.CategoricalDtype(["low", "middle", "high"], ordered=True)))
    assert query.choices == ("low", "middle", "high")


def test_categories_may_be_numbers() -> None:
    query, answers = read(column([3, 1, 2], dtype="category"))
    assert query == Choice("a", "a?", ("1", "2", "3"), values=(1, 2, 3))
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
    assert query.text == "a?"
    assert query.centre == 30
    assert query.spread == pytest.approx(20 / 1.349)
    x = query_set.answers(frame).x[:, 0]
    assert x.tolist() == pytest.approx([-1.349, -0.6745, 0, 0.6745, 1.349], rel=1e-5)


def test_missing_numbers_are_not_answers() -> None:
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
    query_set = ColumnQueries.from_data(frame, ask_all=True)
    x, available = query_set.answers(frame)
    assert available.tolist() == [[False, True], [False, True]]
    assert x[:, query_set.units.of_feature == 0].eq(0).all()
    assert query_set.encode(x, available).shape == (2, *query_set.input_shape)


def test_outliers_are_compressed() -> None:
    frame = column([*np.linspace(-1, 1, 99), 1e12])
    x = ColumnQueries.from_data(frame).answers(frame).x
    assert x.isfinite().all()
    assert 3 < x[-1, 0] < 40
    assert x[:-1].abs().max() < 3


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
    assert [type(query) for query in query_set.queries] == [Number, Number]
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


# Tables that cannot be asked for


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
    texts = [f"text {i}" for i in range(MAX_CHOICES + 1)] * 2
    frame = pd.DataFrame({"a": texts, "b": [3, 1] * (MAX_CHOICES + 1), "c": texts})
    with pytest.warns(UserWarning, match=r"Not asked for\. Column 'a' is .* Column 'c' is"):
        assert [query.name for query in ColumnQueries.from_data(frame).queries] == ["b"]
    with pytest.raises(NotAQuestion) as error:
        ColumnQueries.from_data(frame, ask_all=True)
    assert error.value.columns == ["a", "c"]
    for name in "ac":
        assert (
            f"Column '{name}' is not a question with a list of at most 50 answers: it holds 51 different texts, such "
            f"as 'text 0'. Leave it out, column_types={{'{name}': 'skip'}}, or group its values."
        ) in str(error.value)
    assert "'b'" not in str(error.value)


def test_as_many_texts_as_allowed_are_choices() -> None:
    query, _ = read(column([f"text {i}" for i in range(MAX_CHOICES)]))
    assert len(query.choices) == MAX_CHOICES


# Dates


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2020-01-01", None]),
        pd.to_datetime(["2020-01-01"], utc=True),
        ["2020-01-01", "2021-12-31 10:30"],
        ["31.12.2020", None, "1.1.2021"],
        ["12/31/2020", "01/01/2021"],
        [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
    ],
)
def test_dates_are_refused_where_all_is_to_be_asked(values: Any) -> None:
    with pytest.raises(
        NotAQuestion, match=r"Column 'a' holds dates: .* column_types=\{'a': 'date'\}, .*\{'a': 'skip'\}"
    ):
        ColumnQueries.from_data(column(values), ask_all=True)


TIMES = [f"{i % 24:02}:{i:02}" for i in range(60)]


@pytest.mark.parametrize(("name", "unit"), [("start", "hours"), ("Ankunft (Uhr), größer", "Stunden")])
def test_times_of_day_are_asked_for_in_hours(name: str, unit: str) -> None:
    with pytest.warns(UserWarning, match="is asked for in hours: 14:30 is 14.5"):
        query_set = ColumnQueries.from_data(pd.DataFrame({name: [*TIMES, "?", None]}))
    (query,) = query_set.queries
    assert isinstance(query, Time)
    assert query.unit == unit
    x, available = query_set.answers(pd.DataFrame({name: ["14:30", "9:15:36", datetime.time(7, 45), 8, "?"]}))
    assert available[:, 0].tolist() == [True] * 4 + [False]
    assert [query_set.describe(0, row) for row in x[:4]] == [f"{hours} {unit}" for hours in (14.5, 9.26, 7.75, 8)]
    assert (query.read("14:30"), query.read(f"14,5 {unit}")) == (14.5, 14.5)
    with pytest.warns(UserWarning, match="count as unknown: 2 of"):
        assert not query_set.answers(pd.DataFrame({name: ["25:00", "noon"]})).available.any()


def test_times_of_day_may_have_twelve_hours() -> None:
    times = {"12:00 AM": 0, "1:15 am": 1.25, "12:30 PM": 12.5, "2:45:00 p.m.": 14.75, "11:06\u202fPM": 23.1}
    (query,) = guess_queries(pd.DataFrame({"a": [*times, *(f"{hour}:20 PM" for hour in range(1, 12))]}), {}).queries
    assert isinstance(query, Time)
    assert [query.read(text) for text in times] == pytest.approx(list(times.values()))


def test_few_times_of_day_are_choices_unless_a_type_says_that_they_are_numbers() -> None:
    assert ColumnQueries.from_data(column(TIMES[:12])).queries[0].choices == tuple(TIMES[:12])
    assert isinstance(guess_queries(pd.DataFrame({"a": TIMES[:13]}), {}).queries[0], Time)
    assert isinstance(ColumnQueries.from_data(column(TIMES[:3]), column_types={"a": "number"}).queries[0], Time)


def test_times_of_day_are_refused_where_all_is_to_be_asked() -> None:
    with pytest.raises(NotAQuestion, match=r"'a' holds times, such as '00:00': .* column_types=\{'a': 'number'"):
        ColumnQueries.from_data(column(TIMES), ask_all=True)


def test_durations_are_refused() -> None:
    with pytest.raises(NotAQuestion, match="Column 'a' holds durations"):
        ColumnQueries.from_data(column(pd.to_timedelta(["1D", "2D"])))


@pytest.mark.parametrize("values", [["1.2.3", "2.0.1"], ["1/2/2020", "half"], ["2020", "2021"], ["10-20", "20-30"]])
def test_what_only_resembles_dates_is_not_refused(values: list[str]) -> None:
    read(column(values))


# What is not asked for


def asked(frame: Any, **options: Any) -> tuple[list[str], list[str]]:
    """The names of the columns asked for, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        names = [query.name for query in ColumnQueries.from_data(frame, **options).queries]
    return names, [str(warning.message) for warning in caught]


def test_columns_that_say_nothing_are_not_asked_for() -> None:
    n = 60
    frame = pd.DataFrame(
        {
            "row": range(100, 100 + n),
            "site": ["Bonn"] * n,
            "note": [None] * n,
            "zero": np.zeros(n),
            "name": [f"person {i}" for i in range(n)],
            "patient_id": np.random.default_rng(0).choice(10**7, n, replace=False),
            "shuffled": np.random.default_rng(1).permutation(n),
            "age": np.random.default_rng(2).integers(0, 99, n),
            "weight": np.random.default_rng(3).normal(size=n),
            "income": np.random.default_rng(4).choice(10**5, n, replace=False),
        }
    )
    names, said = asked(frame)
    assert names == ["age", "weight", "income"]
    assert said == [
        "Not asked for: 'row', 'patient_id', 'shuffled' (numbers the rows); 'site', 'zero' (the same in every row); "
        "'note' (empty); 'name' (different in every row). To ask anyway, say what it is: "
        "column_types={'row': 'number'}."
    ]
    column_types = {"row": "number", "site": "choice", "name": "choice", "weight": "skip"}
    assert asked(frame, column_types=column_types)[0] == ["row", "site", "name", "age", "income"]
    assert asked(frame.drop(columns="name"), ask_all=True) == (frame.columns.drop("name").tolist(), [])


def test_yes_and_no_in_several_spellings_are_one_question_also_beside_a_mark() -> None:
    frame = pd.DataFrame({"a": ["Y", "yes", "no", "N", "-"] * 4, "b": ["yes", "no", "?"] * 6 + ["no"] * 2})
    mixed, plain = ColumnQueries.from_data(frame).queries
    assert mixed.choices == ("no", "yes")
    assert plain.choices == ("?", "no", "yes")  # which may be an answer


def test_one_value_beside_fewer_empty_cells_is_not_called_the_same_in_every_row() -> None:
    frame = pd.DataFrame({"a": ["home"] * 7 + [None] * 3, "b": [5.0] * 6 + [np.nan] * 4, "c": [*"xy"] * 5})
    assert asked(frame)[1] == ["Not asked for: 'a', 'b' (the same wherever it has a value)."]


def test_an_array_is_numbered_as_a_table_is() -> None:
    array = np.column_stack([np.arange(30.0), np.zeros(30), np.random.default_rng(0).normal(size=30)])
    names, said = asked(array)
    assert names == ["x2"]
    assert said[0].startswith("Not asked for: 'x0' (numbers the rows); 'x1' (the same in every row).")


@given(seed=st.integers(0, 1000), n=st.integers(3, 200))
def test_measurements_are_not_taken_for_identifiers(seed: int, n: int) -> None:
    randomness = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"fraction": randomness.random(n), "whole": np.round(randomness.lognormal(8, 2, n)).astype(int)}
    )
    assert asked(frame)[0] == ["fraction", "whole"]


def test_a_few_rows_do_not_make_an_identifier() -> None:
    assert asked(pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}))[0] == ["a", "b"]


def test_a_numbering_is_asked_for_if_there_is_nothing_else() -> None:
    assert asked(pd.DataFrame({"a": range(30), "b": 1}))[0] == ["a"]


def test_a_table_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no columns to ask for: 'a' is the same in every row, 'b' is empty"):
        ColumnQueries.from_data(pd.DataFrame({"a": [1, 1], "b": [None, None]}))


def query_missing(query_set: ColumnQueries) -> list[str]:
    (query,) = query_set.queries
    return [fold(text) for text in query.missing] if isinstance(query, Number) else []


def columns_of(values: st.SearchStrategy[Any], **settings: Any) -> st.SearchStrategy[pd.DataFrame]:
    """Columns of such values, some of them missing."""
    some = st.lists(st.one_of(values, st.none()), min_size=1, max_size=12)
    return some.map(lambda chosen: column(chosen, **settings))


WORDS = st.text(max_size=5)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
INTERVALS = st.integers(0, 5).map(lambda left: pd.Interval(left, left + 1))
ASKABLE = st.one_of(
    columns_of(NUMBERS, dtype="float64"),
    columns_of(st.integers(-1000, 1000), dtype="Int64"),
    columns_of(st.booleans(), dtype="boolean"),
    columns_of(st.booleans(), dtype=object),
    columns_of(WORDS, dtype=object),
    columns_of(WORDS, dtype="string"),
    columns_of(st.one_of(WORDS, st.integers(2, 9)), dtype=object),
    columns_of(st.sampled_from(["no", "yes", "perhaps"]), dtype="category"),
    columns_of(st.integers(0, 9), dtype="category"),
    columns_of(INTERVALS, dtype="category"),
    columns_of(st.binary(max_size=3), dtype=object),
)


@given(frame=ASKABLE)
def test_every_column_that_can_be_asked_for_goes_through_json(frame: pd.DataFrame) -> None:
    query_set = ColumnQueries.from_data(frame, ask_all=True)
    x, available = query_set.answers(frame)
    says_nothing = [fold(value) in ("", *query_missing(query_set)) for value in frame["a"]]
    (query,) = query_set.queries
    empty_says_no = isinstance(query, Choice) and query.empty_means is not None
    assert available[:, 0].tolist() == (empty_says_no | frame["a"].notna() & ~np.array(says_nothing)).tolist()
    again = ColumnQueries.from_config(json.loads(json.dumps(query_set.to_config())))
    assert again.queries == query_set.queries
    for one, other in zip(again.answers(frame), (x, available), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "values", [[[1], [2]], [{"k": 1}], [{1}, None], [np.zeros(2), np.ones(2)]], ids=["lists", "dicts", "sets", "arrays"]
)
def test_lists_and_other_objects_are_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="Column 'a' holds lists or other objects: only words, numbers, dates"):
        ColumnQueries.from_data(column(values, dtype=object))


def test_whole_numbers_that_floats_cannot_tell_apart_are_named() -> None:
    large = pd.DataFrame({"account": [2**60 + i * i for i in range(30)], "age": range(30, 90, 2)})
    with pytest.warns(UserWarning, match=r"beyond 9,007,199,254,740,992 are rounded.*'account'\. If they are codes"):
        ColumnQueries.from_data(large)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ColumnQueries.from_data(large.assign(account=large.account - 2**60 + 2**40))


def test_a_line_of_sums_does_not_hide_that_a_column_numbers_the_rows() -> None:
    n = 60
    numbers = [*range(1001, 1001 + n - 1), "Summe"]
    frame = pd.DataFrame(
        {
            "Auftrag-Nr.": numbers,
            "order": np.random.default_rng(0).permutation(np.array(numbers, dtype=object)),
            "km": np.random.default_rng(1).integers(0, 20, n).astype(object),
            "share": [f"{i / 7:.3f}" for i in range(n)],
        }
    )
    frame.loc[3, "km"] = "unbekannt"
    names, said = asked(frame)
    assert names == ["km", "share"]
    assert said[0].startswith("Not asked for: 'Auftrag-Nr.', 'order' (numbers the rows).")


def test_german_yes_and_no_are_one_question_however_they_are_written() -> None:
    frame = pd.DataFrame({"Akku?": ["J", "ja", "ja", "N", "nein", "nein"] * 9, "kurz": ["J", "N"] * 27})
    assert [query.choices for query in ColumnQueries.from_data(frame).queries] == [("nein", "ja"), ("N", "J")]
    answers = ColumnQueries.from_data(frame).answers(frame)
    assert answers.x[:, 0].tolist() == [1.0, 1.0, 1.0, -1.0, -1.0, -1.0] * 9
