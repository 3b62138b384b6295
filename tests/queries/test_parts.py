"""Columns that are asked for by parts of what stands in them: items, words, weekdays and ages."""

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import VIPClassifier, load
from pursuit.queries import ColumnQueries
from pursuit.queries.column import Choice, Date
from pursuit.queries.column_types import MOST_WORDS
from pursuit.queries.parts import WEEKDAYS, Age, Contains, Weekday
from pursuit.registry import from_config, to_config

pytestmark = pytest.mark.filterwarnings("ignore:.*asked for|Cells of:UserWarning")


def guess(name: str, values: Any, **options: Any) -> ColumnQueries:
    return ColumnQueries.from_data(pd.DataFrame({name: values, "n": range(3, 3 + len(values))}), **options)


def of_column(query_set: ColumnQueries, name: str) -> list[Any]:
    return [query for query in query_set.queries if query.source == name]


def answered(query_set: ColumnQueries, frame: pd.DataFrame) -> pd.DataFrame:
    """The answers in words, None where there is none."""
    x, available = query_set.answers(frame)
    told = [
        [query_set.describe(i, row) if there[i] else None for i in range(len(query_set))]
        for row, there in zip(x, available, strict=True)
    ]
    return pd.DataFrame(told, columns=[query.name for query in query_set.queries], dtype=object)


@pytest.mark.parametrize("separator", ["; ", ";", "|", ", ", "\n"])
def test_items_are_yes_no_questions(separator: str) -> None:
    cells = [["red"], ["red", "blue"], ["blue", "green"], ["green", "Red"], ["blue"], []]
    texts = [separator.join(cell) or None for cell in cells] * 5
    with pytest.warns(UserWarning, match=r"Cells of 'colours' hold several items, .*: 'red', 'blue', 'green'\."):
        queries = guess("colours", texts)
    items = of_column(queries, "colours")
    assert [query.name for query in items] == ["colours: red", "colours: blue", "colours: green"]
    assert items[0].text == "colours: red?"
    frame = pd.DataFrame({"colours": [" blue ", "RED;green", "N/A", None, "pink"], "n": range(5)})
    if separator == ";":
        told = answered(queries, frame)
        assert told["colours: blue"].tolist() == ["yes", "no", "no", "no", "no"]
        assert told["colours: red"].tolist() == ["no", "yes", "no", "no", "no"]


@pytest.mark.parametrize(
    "values",
    [
        ["Berlin, Germany", "Paris, France", "Bonn, Germany", "Lyon, France"] * 3,  # a place, not several
        ["Smith, John", "Doe, Jane", "Poe, Al"] * 4,
        ["yes", "no; but", "no", "yes"] * 3,  # one cell has two
        ["a;b", "c;d", "e;f"] * 4,  # as many cells as different lists
        ["1,5", "2,5", "1,5", "3"] * 4,
    ],
)
def test_other_texts_with_separators_stay_whole(values: list[str]) -> None:
    assert len(of_column(guess("a", values, column_types={"n": "skip"}), "a")) == 1
    assert isinstance(of_column(guess("a", values), "a")[0], Choice)


def test_a_name_that_is_a_question_stays_one() -> None:
    items = of_column(guess("Which colours?", ["a; b", "b", "a", "b; c", "c; a"] * 3), "Which colours?")
    assert {query.text for query in items} == {"Which colours? a?", "Which colours? b?", "Which colours? c?"}


def test_commas_in_brackets_do_not_divide_items() -> None:
    cells = ["Coffee, Energy drinks (Red Bull, Monster)", "Energy drinks (Red Bull, Monster), Tea", "Tea, Coffee"]
    queries = guess("Which? [select all]", [*cells, "Coffee", "Tea", "Tea :)", "Tea (green"] * 5)
    items = of_column(queries, "Which? [select all]")
    drinks = [query for query in items if query.part == "Energy drinks (Red Bull, Monster)"]
    assert [query.text for query in drinks] == ["Which? [select all] Energy drinks (Red Bull, Monster)?"]
    assert [drinks[0].holds(cell) for cell in (*cells[:2], "Tea", "Red Bull")] == [True, True, False, False]
    assert {query.part for query in items} >= {"Coffee", "Tea", "Tea :)", "Tea (green"}


def texts(n: int = 60) -> list[str | None]:
    kinds = [
        "The pump leaks again, ticket {}",
        "Strange noise from pumps ({})",
        "It will not start {}",
        "Door stuck, number {}",
    ]
    return [None if i % 20 == 7 else kinds[i % 4].format(i) for i in range(n)]


def test_few_texts_are_asked_for_by_their_words_though_some_occur_twice() -> None:
    asked = of_column(guess("comment", [*texts(40), *texts(3)]), "comment")
    assert [query.part for query in asked][:2] == ["pump", "leak"]


def test_texts_are_asked_for_by_frequent_words() -> None:
    with pytest.warns(UserWarning, match=r"'comment' is asked for by its words: 'pump', 'leaks'"):
        queries = guess("comment", texts())
    asked = of_column(queries, "comment")
    assert [query.part for query in asked] == [
        "pump",
        "leak",
        "nois",
        "start",
        "strang",
        "ticket",
        "door",
        "number",
        "stuck",
    ]
    assert asked[1].text == "comment: is 'leaks' mentioned?"
    frame = pd.DataFrame({"comment": ["PUMPING, a leak!", "nothing", None], "n": range(3)})
    told = answered(queries, frame)
    assert told["comment: leaks"].tolist() == ["yes", "no", None]
    assert told["comment: pump"].tolist() == ["yes", "no", None]


def test_names_and_identifiers_are_no_texts() -> None:
    for values in ([f"Person {i}" for i in range(60)], [f"X-{i:04}" for i in range(60)]):
        with pytest.warns(UserWarning, match=r"Not asked for: 'a'"):
            assert not of_column(guess("a", values), "a")


def test_no_more_words_than_people_would_answer() -> None:
    words = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(8) for j in range(8)]
    rows = [" ".join(np.random.default_rng(i).permutation(words)[:20]) for i in range(60)]
    assert len(of_column(guess("a", rows), "a")) == MOST_WORDS


def days(n: int, start: str = "2024-01-01") -> pd.Series:
    return pd.Series(pd.date_range(start, periods=n))


def test_dates_are_asked_for_by_the_weekday_where_that_tells_more() -> None:
    when = days(280)
    weekend, half = (when.dt.day_of_week >= 5).to_numpy().astype(int), (np.arange(280) >= 140).astype(int)
    (by_weekday,) = of_column(guess("when", when, labels=weekend), "when")
    assert isinstance(by_weekday, Weekday)
    assert by_weekday.choices == WEEKDAYS
    (by_date,) = of_column(guess("when", when, labels=half), "when")
    assert isinstance(by_date, Date)
    (unlabelled,) = of_column(guess("when", when), "when")
    assert isinstance(unlabelled, Date)
    hidden = np.where(np.arange(280) % 2, -1, weekend)  # rows that do not count
    hidden[280 // 2 :] = -1
    assert isinstance(of_column(guess("when", when, labels=np.full(280, -1)), "when")[0], Date)
    chance = np.random.default_rng(0).integers(2, size=280)
    assert isinstance(of_column(guess("when", when, labels=chance), "when")[0], Date)


def test_weekdays_are_read_from_dates() -> None:
    queries = guess("when", [f"{i:02}.01.2024" for i in range(1, 29)], column_types={"when": "weekday"})
    frame = pd.DataFrame({"when": ["01.01.2024", "2024-01-07", "unknown", None], "n": range(4)})
    assert answered(queries, frame)["when"].tolist() == ["Monday", "Sunday", None, None]


@pytest.mark.parametrize("name", ["born", "Date of birth", "customer_born", "DOB", "Geburtsdatum"])
def test_births_are_ages(name: str) -> None:
    (query,) = of_column(guess(name, ["1980-05-17", "1999-12-31", "2001-01-01"] * 4, language="en"), name)
    assert isinstance(query, Age)
    assert query.unit == "years"
    year = datetime.date.today().year
    queries = ColumnQueries([query])
    frame = pd.DataFrame({name: [f"{year - 30}-01-01", f"{year - 30}-06-01", None]})
    assert answered(queries, frame)[name].tolist() == ["30 years", "29 years", None]


@pytest.mark.parametrize(
    ("values", "column_type"),
    [(["a", "b"] * 8, "choices"), (["a b c", "d e f"] * 3, "words"), (["a", "b"] * 8, "age"), (["a"] * 9, "weekday")],
)
def test_types_that_values_contradict_are_refused(values: list[str], column_type: str) -> None:
    with pytest.raises(ValueError, match=r"Column 'a' (has no|is not a date)"):
        guess("a", values, column_types={"a": column_type})


def table(n: int = 240) -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(0)
    y = draw.integers(2, size=n)
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(7 * draw.integers(50, size=n) + 5 * y, unit="D")
    parts = [["rare"] * (draw.random() < 0.3) + ["hot"] * int(label) + ["cold"] * int(1 - label) for label in y]
    seen = [f"it was {'hot' if label else 'cold'} on day {i} of the trip" for i, label in enumerate(y)]
    frame = {"when": when, "seen": ["; ".join(part) for part in parts], "text": seen, "noise": draw.normal(size=n)}
    return pd.DataFrame(frame), y


def test_a_model_asks_them_is_saved_and_reads_rows(tmp_path: Any) -> None:
    X, y = table()
    model = VIPClassifier(random_state=0).fit(X, y)
    query_set = model.model_.query_set
    assert {type(query) for query in query_set.queries} >= {Weekday, Contains}
    assert model.score(X, y) > 0.95
    assert list(model.feature_names_in_) == list(X.columns)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(X), model.predict(X))
    session = again.session()
    session.tell("yes", "seen: hot")
    assert session.prediction == 1
    known = np.zeros(X.shape, dtype=bool)
    known[:, X.columns.get_loc("seen")] = True
    assert model.explain(X[:1], initially_known=known[:1])[0].n_asked <= model.explain(X[:1])[0].n_asked


def test_configurations_are_json() -> None:
    X, y = table()
    query_set = ColumnQueries.from_data(X, labels=y)
    again = from_config(json.loads(json.dumps(to_config(query_set))))
    assert again.queries == query_set.queries
