"""What a look at all rows finds: labels, choices however rare, and columns that are not questions."""

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from numbered_rows import numbered
from pursuit.queries import Choice, ColumnQueries, NotAQuestion, Number, yes_no
from pursuit.tables.labels import target_values
from pursuit.tables.source import ArrowSource
from pursuit.tables.streaming import check_values, find_labels, guess_queries


def all_learnt(numbers: np.ndarray) -> np.ndarray:
    return np.ones(len(numbers), dtype=bool)


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (["b", None, "a", "b"], ["a", "b"], [1, -1, 0, 1]),
        (pa.array(["b", None, "a", "b"]).dictionary_encode(), ["a", "b"], [1, -1, 0, 1]),
        ([10, None, 9, 10], [9, 10], [1, -1, 0, 1]),
        ([2.0, float("nan"), 1.0, None], [1, 2], [1, -1, 0, -1]),
        ([True, None, False, True], [False, True], [1, -1, 0, 1]),
        ([0.5, 1.5, None, 0.5], ["0.5", "1.5"], [0, 1, -1, 0]),
        ([decimal.Decimal("2"), None, decimal.Decimal("1")], [1, 2], [1, -1, 0]),
    ],
)
def test_labels_of_every_type(write: Callable[..., Path], labels: Any, classes: list[Any], codes: list[int]) -> None:
    table = ArrowSource(write("t.parquet", {"y": labels}, 2))
    found, to_learn, held_out = find_labels(table, "y", lambda numbers: numbers > 0)
    assert found.classes.tolist() == classes
    assert isinstance(found.classes.tolist()[0], type(classes[0]))
    read = [chunk["y"] for piece in table.pieces for _, chunk in table.chunks(piece, ["y"], ["y"])]
    assert np.concatenate([found.codes(column) for column in read]).tolist() == codes
    there = [code >= 0 for code in codes]
    assert found.n_labelled == sum(there)
    assert to_learn == [there[1], sum(there[2:])]
    assert held_out == [1, 0]
    assert found.counts.tolist() == [codes[1:].count(c) for c in range(len(classes))]


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (pa.array(["b", "a"], pa.large_string()), ["b", "a"]),
        (pa.array([2, 1]), [2, 1]),
        (pa.array([True, False]), [True, False]),
        (pa.array([2.0, 1.0]), [2, 1]),
        (pa.array([0.5, 1.0]), ["0.5", "1.0"]),
    ],
)
def test_labels_of_some_rows(labels: Any, wanted: list[Any]) -> None:
    found = target_values(pa.chunked_array([labels]).to_pandas()).tolist()
    assert found == wanted
    assert type(found[0]) is type(wanted[0])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (pa.nulls(3), "has no labels"),
        ([None, float("nan")], "has no labels"),
        ([i / 7 for i in range(30)], "more than 20 different fractions"),
        ([datetime.date(2020, 1, 1)], "dates or times, which are not labels"),
        ([[1]], "lists or other objects, which are not labels"),
    ],
)
def test_what_is_not_a_label(write: Callable[..., Path], labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_labels(ArrowSource(write("t.parquet", {"y": labels})), "y", all_learnt)


def test_choices_are_found_however_rare(write: Callable[..., Path]) -> None:
    columns = {
        "word": ["red"] * 4999 + ["rare"],
        "number": [0.0, 1.0] * 2499 + [0.5, 1.0],
        "switch": [0, 1] * 2500,
        "flag": [None, True] * 2499 + [False, True],
        "same": ["x"] * 5000,
        "nothing": pa.nulls(5000),
        "seven": [7] * 4999 + [None],
        "gone": [float("nan")] * 5000,
    }
    queries, silent = guess_queries(ArrowSource(write("t.parquet", columns, 100)), list(columns))
    queries_by_name = {query.name: query for query in queries.queries}
    assert queries_by_name["word"].choices == ("rare", "red")
    assert isinstance(queries_by_name["number"], Number)
    assert queries_by_name["switch"] == yes_no("switch")
    assert queries_by_name["flag"] == yes_no("flag")
    assert silent == ["same", "nothing", "seven", "gone"]


def test_a_guess_is_that_of_the_table_in_memory(write: Callable[..., Path]) -> None:
    frame = numbered(500).drop(columns="label").assign(where=["head", "belly"] * 250, sure=["no", "yes"] * 250)
    guessed, _ = guess_queries(ArrowSource(write("t.parquet", pa.Table.from_pandas(frame), 60)), list(frame))
    assert guessed.rescaled(frame).queries == ColumnQueries.from_data(frame, ask_all=True).queries


def test_numbers_that_stand_for_choices(write: Callable[..., Path]) -> None:
    codes = pa.array([3, 1, 2] * 10).dictionary_encode()
    queries, _ = guess_queries(ArrowSource(write("t.arrow", {"ward": codes}, 7)), ["ward"])
    (query,) = queries.queries
    assert isinstance(query, Choice)
    assert query.values == (1.0, 2.0, 3.0)
    many = pa.array(list(range(100))).dictionary_encode()
    queries, _ = guess_queries(ArrowSource(write("t.arrow", {"ward": many})), ["ward"])
    assert isinstance(queries.queries[0], Number)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([datetime.datetime(2020, 1, 1)] * 2, r"'a' holds dates or times: turn it into numbers"),
        ([datetime.date(2020, 1, 1)] * 2, r"'a' holds dates or times: turn it into numbers"),
        ([datetime.timedelta(1)] * 2, r"'a' holds dates or times"),
        ([[1], [2]], r"'a' holds lists or other objects"),
        ([{"k": 1}] * 2, r"'a' holds lists or other objects"),
        ([b"x", b"y"], r"'a' holds lists or other objects"),
        (
            [f"person {i}" for i in range(60)],
            r"'a' is not a question .* at most 50 answers: .* 51 different texts.*counted no further",
        ),
    ],
)
def test_columns_that_are_not_questions_are_named_for_dropping(
    write: Callable[..., Path], column: Any, message: str
) -> None:
    table = ArrowSource(write("t.parquet", {"a": column}, 7))
    with pytest.raises(NotAQuestion, match=message) as refused:
        guess_queries(table, ["a"])
    assert refused.value.columns == ["a"]


def test_infinite_numbers_are_refused_before_training(write: Callable[..., Path]) -> None:
    path = write("t.parquet", {"a": [1.0, 2.0, 3.0] * 50 + [np.inf]}, 10)
    with pytest.raises(ValueError, match=r"Infinite values \(inf\) in a"):
        guess_queries(ArrowSource(path), ["a"])


def test_a_given_query_set_meets_all_values_first(write: Callable[..., Path]) -> None:
    table = ArrowSource(write("t.parquet", {"word": ["red"] * 99 + ["blue"], "n": [1, 2, 3, None] * 25}, 10))
    check_values(table, ColumnQueries([Choice("word", "?", ("red", "blue")), Number("n", "?")]))
    check_values(table, ColumnQueries([Choice("n", "?", ("1", "2", "3"), values=(1, 2, 3))]))
    with pytest.raises(ValueError, match="'word' holds 'blue', but one of red, green"):
        check_values(table, ColumnQueries([Choice("word", "?", ("red", "green"))], unknown="error"))
    with pytest.warns(UserWarning, match="never seen in training count as unknown: 1 of 'word'"):
        check_values(table, ColumnQueries([Choice("word", "?", ("red", "green"))]))
    with pytest.raises(ValueError, match="'word' holds words, but the query_set asks for a number"):
        check_values(table, ColumnQueries([Number("word", "?")]))
    dated = ArrowSource(write("dated.parquet", {"n": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(NotAQuestion, match="'n' holds dates or times"):
        check_values(dated, ColumnQueries([Number("n", "?")]))
    with pytest.raises(ValueError, match="lacks columns of the query_set: size"):
        check_values(table, ColumnQueries([Number("size", "?")]))
