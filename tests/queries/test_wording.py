"""Questions made of names of columns are English, whatever the names are."""

import pandas as pd
import pytest

from pursuit.queries import ColumnQueries
from pursuit.queries.column import WHICH_APPLIES, WHICH_NUMBER, wording


@pytest.mark.parametrize(
    ("name", "ending", "text"),
    [
        ("age", WHICH_NUMBER, "age: which number?"),
        ("stops_after", WHICH_NUMBER, "stops after: which number?"),
        ("stopsAfter", WHICH_NUMBER, "stops after: which number?"),
        ("Children", WHICH_NUMBER, "Children: which number?"),
        ("pH", WHICH_NUMBER, "pH: which number?"),
        ("ErrorCode", WHICH_APPLIES, "ErrorCode: which applies?"),
        (" lives_in ", WHICH_APPLIES, "lives in: which applies?"),
        ("in town?", WHICH_APPLIES, "in town?"),
        ("", WHICH_NUMBER, ": which number?"),
    ],
)
def test_the_question_fits_the_name(name: str, ending: str, text: str) -> None:
    assert wording(name, ending) == text


def test_a_table_is_asked_so() -> None:
    frame = pd.DataFrame({"stops_after": [3.5, 4, 9, 12.5] * 3, "lives_in": ["town", "hills", "woods", "town"] * 3})
    assert [query.text for query in ColumnQueries.from_data(frame).queries] == [
        "stops after: which number?",
        "lives in: which applies?",
    ]
    german = ColumnQueries.from_data(frame, language="de").queries
    assert [query.text for query in german] == ["stops after: welcher Wert?", "lives in: was trifft zu?"]
