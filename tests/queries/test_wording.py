"""Questions made of names of columns are English, whatever the names are."""

import pandas as pd
import pytest

from pursuit.queries import ColumnQueries
from pursuit.queries.wording import wording

NUMBER, CHOICE, DATE, DAY = "What is {}?", "Which {}?", "When is {}?", "On which day of the week is {}?"


@pytest.mark.parametrize(
    ("name", "pattern", "text"),
    [
        ("age", NUMBER, "What is age?"),
        ("stops_after", NUMBER, "stops after: which number?"),
        ("stops after", NUMBER, "stops after: which number?"),
        ("stopsAfter", NUMBER, "stops after: which number?"),
        ("has been used", NUMBER, "has been used: which number?"),
        ("rooms", NUMBER, "rooms: which number?"),
        ("Children", NUMBER, "Children: which number?"),
        ("hours_per_week", NUMBER, "hours per week: which number?"),
        ("number of rooms", NUMBER, "What is number of rooms?"),
        ("blood glucose", NUMBER, "What is blood glucose?"),
        ("radius", NUMBER, "What is radius?"),
        ("loss", NUMBER, "What is loss?"),
        ("diabetes", NUMBER, "What is diabetes?"),
        ("sales price", NUMBER, "What is sales price?"),
        ("pH", NUMBER, "What is pH?"),
        ("lives_in", CHOICE, "lives in: which applies?"),
        ("sounds like", CHOICE, "sounds like: which applies?"),
        ("has pets", CHOICE, "has pets: which applies?"),
        ("sales region", CHOICE, "Which sales region?"),
        ("ErrorCode", CHOICE, "Which ErrorCode?"),
        ("in town?", CHOICE, "in town?"),
        ("created_at", DATE, "created at: when?"),
        ("Opened", DATE, "Opened: when?"),
        ("Customer born", DATE, "Customer born: when?"),
        ("birthday", DATE, "When is birthday?"),
        ("Opened", DAY, "Opened: on which day of the week?"),
        ("visit", DAY, "On which day of the week is visit?"),
        ("Symptoms", "Does {} include smoke?", "Do Symptoms include smoke?"),
        ("Comment", "Does {} mention 'pump'?", "Does Comment mention 'pump'?"),
        ("", NUMBER, ": which number?"),
    ],
)
def test_the_question_fits_the_name(name: str, pattern: str, text: str) -> None:
    assert wording(name, pattern) == text


def test_a_table_is_asked_so() -> None:
    frame = pd.DataFrame({"stops_after": [3.5, 4, 9, 12.5] * 3, "lives_in": ["town", "hills", "woods", "town"] * 3})
    assert [query.text for query in ColumnQueries.from_data(frame).queries] == [
        "stops after: which number?",
        "lives in: which applies?",
    ]
    german = ColumnQueries.from_data(frame, language="de").queries
    assert [query.text for query in german] == ["stops after: welcher Wert?", "lives in: was trifft zu?"]
