"""One column as a query: what a person may answer, and how answers are worded."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries import NO_AND_YES, Choice, ColumnQueries, Number, yes_no
from pursuit.queries.column import fold, format_number, listed, parse_choice, wording


def test_choices_are_their_own_values_unless_others_are_given() -> None:
    assert Choice("a", "a?", ("x", "y")).values == ("x", "y")
    assert Choice("a", "a?", ("1", "2"), values=(1, 2)).values == (1, 2)
    assert yes_no("is_late", cost=2.0) == Choice("is_late", "is late?", ("no", "yes"), 2.0, values=(0, 1))


@pytest.mark.parametrize(("name", "text"), [("blood_pressure", "blood pressure?"), (" Is it late? ", "Is it late?")])
def test_names_become_questions_unless_they_are(name: str, text: str) -> None:
    assert wording(name) == text


@pytest.mark.parametrize("pair", NO_AND_YES)
def test_every_pair_of_no_and_yes_answers_every_other(pair: tuple[str, str]) -> None:
    query = Choice("a", "a?", pair)
    for other in NO_AND_YES:
        assert [parse_choice(query, word.upper()) for word in other] == [0, 1]


def test_no_word_says_both_no_and_yes() -> None:
    assert not {no for no, _ in NO_AND_YES} & {yes for _, yes in NO_AND_YES}
    assert all(word == fold(word) for pair in NO_AND_YES for word in pair)


@given(number=st.floats(-1e30, 1e30))
def test_a_number_is_written_to_six_digits(number: float) -> None:
    text = format_number(number)
    assert float(text) == pytest.approx(number, rel=1e-5)
    assert abs(number) < 1e-4 or abs(number) >= 1e11 or "e" not in text
    assert format_number(float(text)) == text


@given(
    numbers=st.lists(st.integers(-10_000, 10_000), min_size=2, max_size=40),
    decimals=st.integers(0, 3),
    factor=st.sampled_from([1, 1, 1, 1000]),
)
def test_numbers_of_a_table_are_described_as_they_stand_there(numbers: list[int], decimals: int, factor: int) -> None:
    values = [round(number * factor * 10.0**-decimals, decimals) for number in numbers]
    frame = pd.DataFrame({"a": values})
    query_set = ColumnQueries.from_data(frame, column_types={"a": "number"}, ask_all=True)
    x = query_set.answers(frame).x
    span = max(values) - min(values)
    for row, value in zip(x, values, strict=True):
        shown = float(query_set.describe(0, row))
        # Single precision keeps seven digits of what is as large as the spread, which quartiles may make tiny.
        assert shown == pytest.approx(value, abs=1e-6 * span)
        assert round(shown, decimals) == shown


def test_zero_is_shown_as_zero() -> None:
    frame = pd.DataFrame({"a": [0, 0.5, 12.25, 3, 7.75, 101.5], "b": [0.0, 1 / 3, 5 / 7, 2.2, 9.1, 1.7]})
    query_set = ColumnQueries.from_data(frame)
    x = query_set.answers(frame).x[0]
    assert [query_set.describe(query, x) for query in (0, 1)] == ["0", "0"]


@pytest.mark.parametrize(("answer", "shown"), [(1234567.5, "1234567.5"), ("0,25", "0.25"), (0, "0"), (1e-7, "1e-07")])
def test_what_a_person_gives_is_shown_as_given(answer: Any, shown: str) -> None:
    query_set = ColumnQueries([Number("a", "a?", centre=3.3, spread=17.0, unit="mg"), yes_no("b")])
    x = query_set.blank()[0]
    query_set.tell(x, 0, answer)
    query_set.tell(x, 1, "JA")
    assert query_set.describe_given(0, x, answer) == f"{shown} mg"
    assert query_set.describe_given(1, x, "JA") == "yes"


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(range(8), most=3) == "0, 1, 2 and 5 more"


@given(number=st.floats(-1e9, 1e9, allow_nan=False), centre=st.floats(-100, 100), spread=st.floats(0.01, 100))
def test_a_number_given_is_described(number: float, centre: float, spread: float) -> None:
    query_set = ColumnQueries([yes_no("a"), Number("b", "b?", centre=centre, spread=spread)])
    x = torch.zeros(2, dtype=torch.double)
    query_set.tell(x, 1, number)
    assert float(query_set.describe(1, x)) == pytest.approx(number, rel=1e-5, abs=1e-5 * (abs(centre) + spread))
    assert x[0] == 0
    again = x.clone()
    query_set.tell(again, 1, query_set.describe(1, x))
    torch.testing.assert_close(again, x, rtol=1e-3, atol=1e-3)


def test_choices_are_given_in_any_case_or_by_their_beginning() -> None:
    query_set = ColumnQueries([Choice("a", "a?", ("Red", "Green", "Grey", "Gre"))])
    x = torch.zeros(4)
    for answer, code in [("RED", 0), (" red ", 0), ("r", 0), ("gree", 1), ("grey", 2), ("gre", 3)]:
        query_set.tell(x, 0, answer)
        assert x.tolist() == [float(i == code) for i in range(4)]


@pytest.mark.parametrize("answer", ["g", "", "  ", "blue", "redd", None, 3, ["Red"]])
def test_other_answers_are_refused(answer: Any) -> None:
    query_set = ColumnQueries([Choice("a", "a?", ("Red", "Green", "Grey"))])
    x = torch.zeros(3)
    with pytest.raises(ValueError, match=r"The answer to 'a\?' is one of Red, Green, Grey, not "):
        query_set.tell(x, 0, answer)
    assert x.eq(0).all()


@pytest.mark.parametrize(
    ("answer", "x"), [("yes", 1), ("Y", 1), (1, 1), (True, 1), (np.int64(1), 1), ("no", -1), (0, -1), (False, -1)]
)
def test_yes_and_no_may_be_given_in_several_ways(answer: Any, x: float) -> None:
    row = torch.zeros(1)
    ColumnQueries([yes_no("a")]).tell(row, 0, answer)
    assert row.item() == x


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("80,5", 80.5),
        (" -0,25 kg ", -0.25),
        ("kg 7", 7),
        (",5", 0.5),
        ("0,250", 0.25),
        ("1234,5", 1234.5),
        ("1,2345", 1.2345),
        ("80.5", 80.5),
        ("1.200,5", 1200.5),
        ("-1,200.5", -1200.5),
        ("1.234.567", 1234567),
        ("1,234,567.25", 1234567.25),
    ],
)
def test_a_person_may_write_a_decimal_comma_and_thousands(answer: str, number: float) -> None:
    assert Number("a", "How much?", unit="kg").parse(answer) == number


@pytest.mark.parametrize(
    "answer",
    ["many", "", None, math.nan, "inf", [1, 2], "1,200", "1,2,3", "1.20,5", "1,2.5", "0.200,5", True, 1e39, "1e39"],
)
def test_an_answer_that_is_not_a_number_is_refused(answer: Any) -> None:
    x = torch.zeros(1)
    with pytest.raises(ValueError, match=r"The answer to 'How many\?' is a number, not "):
        ColumnQueries([Number("a", "How many?")]).tell(x, 0, answer)
    assert x.item() == 0


def test_a_comma_that_may_mean_two_things_is_asked_about() -> None:
    with pytest.raises(ValueError, match=r"not '1,200 kg'. Is the comma a decimal one\? Write a point instead"):
        Number("a", "How much?", unit="kg").parse("1,200 kg")


@pytest.mark.parametrize("choices", [(" <=50K", " >50K"), ("A", "a")])
def test_every_choice_can_be_given_as_it_is_written(choices: tuple[str, str]) -> None:
    query_set = ColumnQueries([Choice("a", "a?", choices)])
    for choice in choices:
        x = torch.zeros(1)
        query_set.tell(x, 0, choice)
        assert query_set.describe(0, x) == choice


def test_a_list_of_texts_with_commas_can_be_told_apart() -> None:
    assert listed(["no", "yes"]) == "no, yes"
    assert listed(["no", "yes, in front", "yes, below"]) == "no; yes, in front; yes, below"
    assert listed(["a, b", *"cdefgh"], 2) == "a, b; c and 5 more"
