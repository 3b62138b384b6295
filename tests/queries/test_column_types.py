"""Kinds: what a column is asked as because somebody says so, and where its values contradict that."""

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries import Choice, ColumnQueries, Date, Number, yes_no
from pursuit.queries.column_types import _quartiles, date_patterns
from pursuit.queries.reading import date_days


def asked_as(values: Any, kind: str) -> ColumnQueries:
    return ColumnQueries.from_data(pd.DataFrame({"a": values}), column_types={"a": kind})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("values", "kind", "query"),
    [
        ([3, 1, 2], "choice", Choice("a", "a?", ("1", "2", "3"), values=(1, 2, 3))),
        ([1.0, 2.5, np.nan], "choice", Choice("a", "a?", ("1", "2.5"), values=(1, 2.5))),
        ([10, 9, 100], "choice", Choice("a", "a?", ("9", "10", "100"), values=(9, 10, 100))),
        (["007", "012"], "choice", Choice("a", "a?", ("007", "012"))),
        ([0.0, 1.0], "yes/no", yes_no("a")),
        (["Ja", "nein"], "yes/no", Choice("a", "a?", ("nein", "ja"), values=("nein", "Ja"))),
        (["yes", "yes"], "yes/no", yes_no("a")),
    ],
)
def test_a_kind_overrules_the_guess(values: list[Any], kind: str, query: Choice) -> None:
    query_set = asked_as(values, kind)
    assert query_set.queries == (query,)
    present = pd.Series(values).notna().tolist()
    assert query_set.answers(pd.DataFrame({"a": values})).available[:, 0].tolist() == present


@pytest.mark.parametrize(
    ("values", "centre"), [(["007", "012", "?"], 9.5), ([True, False, True], 1), (["<1", "2", "4"], 3), ([0, 1, 1], 1)]
)
def test_numbers_are_numbers_if_somebody_says_so(values: list[Any], centre: float) -> None:
    (query,) = asked_as(values, "number").queries
    assert isinstance(query, Number)
    assert query.centre == centre


def test_what_is_skipped_is_neither_asked_for_nor_looked_at() -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5], "note": [["a list"], np.inf]})
    assert [query.name for query in ColumnQueries.from_data(frame, column_types={"note": "skip"}).queries] == ["a"]


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["x", "y", "3"], "number", "'a' is not a number: it holds 'x', 'y'. Correct these values, or ask"),
        (pd.to_datetime(["2024-01-01", "2025-01-01"]), "number", "'a' is not a number: it holds '2024-01-01"),
        (["left", "right"], "yes/no", "'a' is not yes/no: it holds 'left', 'right'. Write no and yes, or 0 and 1"),
        ([1, 2], "yes/no", "'a' is not yes/no: it holds 2"),
        (["x", "y"], "date", "'a' is not a date: it holds 'x', 'y'. Write dates as 2024-12-31"),
        ([1987.0, 1990.0], "date", "'a' is not a date"),
        (["01/02/2003", "03/04/2005"], "date", "can be read in two ways, such as '01/02/2003'"),
        ([1, 2], "text", "asked as number, choice, yes/no, date, weekday, age, choices, words or skip, not as 'text'"),
    ],
)
def test_contradictions_get_a_sentence(values: Any, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        asked_as(values, kind)


def test_a_name_that_is_nearly_that_of_a_column_is_understood_as_such() -> None:
    frame = pd.DataFrame({"weight": [1.5, 2.5, 4.0], "colour": ["red", "blue", "red"]})
    with pytest.raises(ValueError, match=r"does not have: wheight\. Did you mean 'weight'\?"):
        ColumnQueries.from_data(frame, column_types={"wheight": "number"})
    with pytest.raises(ValueError, match=r"does not have: color\. Did you mean 'colour'\?"):
        ColumnQueries.from_data(frame, costs={"color": 2.0})
    with pytest.raises(ValueError, match=r"does not have: zzz\. It has weight, colour\."):
        ColumnQueries.from_data(frame, texts={"zzz": "?"})


def test_kinds_of_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"column_types name columns that the table does not have: b\. It has a\."):
        ColumnQueries.from_data(pd.DataFrame({"a": [1, 2]}), column_types={"b": "number"})


# Dates


@pytest.mark.parametrize(
    "values",
    [
        ["1980-05-17", None, "1990-12-31"],
        ["1980/05/17", None, "1990/12/31"],
        ["17.05.1980", None, "31.12.1990"],
        ["17-05-1980", None, "31-12-1990"],
        ["17/05/1980", None, "31/12/1990"],
        ["05/17/1980", None, "12/31/1990"],
        [19800517, None, 19901231],
        [datetime.date(1980, 5, 17), None, datetime.date(1990, 12, 31)],
        pd.to_datetime(["1980-05-17", None, "1990-12-31"]),
        pd.to_datetime(["1980-05-17", None, "1990-12-31"], utc=True),
    ],
)
def test_dates_are_read_and_read_back(values: Any) -> None:
    frame = pd.DataFrame({"a": values})
    query_set = asked_as(values, "date")
    (query,) = query_set.queries
    assert isinstance(query, Date)
    assert query.text == "a?"
    x, available = query_set.answers(frame)
    assert available[:, 0].tolist() == [True, False, True]
    assert [query_set.describe(0, row) for row in x[[0, 2]]] == ["1980-05-17", "1990-12-31"]
    again = ColumnQueries.from_config(json.loads(json.dumps(query_set.to_config())))
    assert again.queries == query_set.queries
    for answer in (
        "1990-12-31",
        datetime.date(1990, 12, 31),
        datetime.datetime(1990, 12, 31),
        pd.Timestamp("1990-12-31"),
    ):
        told = torch.zeros_like(x[0])
        query_set.tell(told, 0, answer)
        torch.testing.assert_close(told, x[2])
    with pytest.raises(ValueError, match=r"The answer to 'a\?' is a date such as 2024-12-31, not 'soon'"):
        query_set.tell(x[0], 0, "soon")


def test_dates_are_answered_as_they_are_written_in_the_table() -> None:
    query_set = asked_as(["17.05.1980", "31.12.1990"], "date")
    x = torch.zeros(1)
    query_set.tell(x, 0, "1.6.1985")
    assert query_set.describe(0, x) == "1985-06-01"


@pytest.mark.parametrize(
    ("trained", "written", "meant"),
    [
        ("17.05.1980", "2024-03-01", "2024-03-01"),
        ("1980-05-17", "1.3.2024", "2024-03-01"),
        ("1980-05-17", "Mar 1, 2024", "2024-03-01"),
        ("1980-05-17", 20240301, "2024-03-01"),
        ("17.05.1980", "13/03/2024", "2024-03-13"),
        ("17.05.1980", "03/13/2024", "2024-03-13"),
        ("17/05/1980", "01.03.2024", "2024-03-01"),
        ("17.05.1980", "01/03/2024", None),  # January or March
        ("17/05/1980", "03/13/2024", None),  # whose neighbours 03/01/2024 would be read as days first
        ("17/05/1980", "01/03/2024", "2024-03-01"),
        ("17.05.1980", "01.03.24", None),
        ("17.05.1980", "202411", None),
        ("17.05.1980", "soon", None),
    ],
)
def test_dates_in_another_notation_are_read_where_they_can_be_no_others(
    trained: str, written: Any, meant: str | None
) -> None:
    query_set = asked_as([trained, trained.replace("80", "90")], "date")
    (query,) = query_set.queries
    assert isinstance(query, Date)
    if meant is None:
        with pytest.warns(UserWarning, match=f"never seen in training count as unknown: 1 of 'a' \\('{written}'\\)"):
            assert not query_set.answers(pd.DataFrame({"a": [written]})).available
        with pytest.raises(ValueError, match="is a date such as 2024-12-31, not"):
            query.read(written)
    else:
        assert query_set.describe(0, query_set.answers(pd.DataFrame({"a": [written]})).x[0]) == meant
        assert query.written(query.read(written)) == meant


def test_times_of_day_are_kept_where_there_are_any() -> None:
    query_set = asked_as(["2024-01-01 06:30", "2024-01-01 18:00", "2024-01-03"], "date")
    x = query_set.answers(pd.DataFrame({"a": ["2024-01-02T12:45"]})).x[0]
    assert query_set.describe(0, x) == "2024-01-02 12:45"


def test_a_stray_text_among_dates_is_missing() -> None:
    values = [f"2024-01-{day:02}" for day in range(1, 31)] + ["soon"]
    with pytest.warns(UserWarning, match="'soon' in 'a'"):
        query_set = asked_as(values, "date")
    assert query_set.answers(pd.DataFrame({"a": values})).available.sum() == 30


@given(days=st.lists(st.integers(-30_000, 30_000), min_size=2, max_size=8, unique=True))
def test_every_date_comes_back(days: list[int]) -> None:
    dates = [str(datetime.date(1970, 1, 1) + datetime.timedelta(day)) for day in days]
    query_set = asked_as(dates, "date")
    x = query_set.answers(pd.DataFrame({"a": dates})).x
    assert [query_set.describe(0, row) for row in x] == dates


def test_what_is_far_from_any_date_is_still_described() -> None:
    query_set = asked_as(["2024-01-01", "2024-01-02"], "date")
    assert query_set.describe(0, torch.tensor([60.0])).endswith("days from 1970-01-01")


def test_nothing_is_written_like_a_date() -> None:
    assert date_patterns(np.array([], dtype=object)) == []
    assert date_patterns(np.array(["?", "n/a"], dtype=object)) == []


@given(numbers=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30))
def test_quartiles_are_those_of_numpy(numbers: list[float]) -> None:
    expected = np.percentile(numbers, (25, 50, 75))
    np.testing.assert_allclose(_quartiles(np.array(numbers)), expected, rtol=1e-12, atol=1e-12 * np.abs(numbers).max())


@pytest.mark.parametrize(
    "pattern",
    ["%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d%b%Y", "%d-%b-%y", "%d%b%y", "%d %b %y"],
)
def test_dates_with_the_month_in_words_are_dates(pattern: str) -> None:
    days = [datetime.date(2021, 1, 1) + datetime.timedelta(days=9 * i) for i in range(40)]
    for some in (days, [day for day in days if day.month == 5]):
        column = pd.Series([day.strftime(pattern) for day in some])
        patterns = date_patterns(column.to_numpy())
        assert len(patterns) == 1
        assert date_days(column, patterns[0]).tolist() == [(day - datetime.date(1970, 1, 1)).days for day in some]
    guessed = ColumnQueries.from_data(pd.DataFrame({"seen": [day.strftime(pattern) for day in days]})).queries[0]
    assert isinstance(guessed, Date)
    assert guessed.read(days[20].strftime(pattern)) == guessed.read(days[20])


@pytest.mark.parametrize(
    ("texts", "n_ways"),
    [
        (["31.12.24", "01.02.03", "17.05.98"], 1),
        (["12/31/24 14:30", "01/02/03 08:00"], 1),
        (["31.12.24", "12.05.45"], 0),  # 1945 or 2045
        (["01/02/03", "04/05/06"], 2),
        (["24/12/45", "23/11/44"], 0),
        (["24/12/19", "23/11/30"], 0),  # whichever part of these is the year
        (["24-12-31", "23-11-30"], 0),
    ],
)
def test_years_of_two_digits_are_read_where_they_can_be_no_others(texts: list[str], n_ways: int) -> None:
    patterns = date_patterns(np.array(texts, dtype=object))
    assert len(patterns) == n_ways
    if n_ways == 1:
        query = asked_as(texts, "date").queries[0]
        assert isinstance(query, Date)
        day = query.read(texts[1])
        assert query.written(day)[:4] == "2003"
        assert date_days(pd.Series(texts), patterns[0])[1] == day
