"""Questions made of names of columns read well, whatever the names are."""

import pandas as pd
import pytest

from pursuit.queries import ColumnQueries
from pursuit.queries.column import wording


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("age", "age?"),
        ("stops_after", "stops after?"),
        ("stopsAfter", "stops after?"),
        ("Children", "Children?"),
        ("pH", "pH?"),
        ("ErrorCode", "ErrorCode?"),
        (" lives_in ", "lives in?"),
        ("in town?", "in town?"),
        ("How stressed are you? (1 to 5)", "How stressed are you? (1 to 5)"),
        ("", "?"),
    ],
)
def test_the_question_fits_the_name(name: str, text: str) -> None:
    assert wording(name) == text


@pytest.mark.parametrize(("language", "asked"), [("en", "Is 'support' mentioned?"), ("de", "Kommt „support“ vor?")])
@pytest.mark.filterwarnings("ignore:.*asked for:UserWarning")
def test_words_in_the_answer_to_a_question_are_a_question_of_their_own(language: str, asked: str) -> None:
    notes = [f"the support was slow {i}" if i % 2 else f"it works as ever {i}" for i in range(60)]
    queries = ColumnQueries.from_data(pd.DataFrame({"Anything else?": notes}), language=language).queries
    assert next(query.text for query in queries if query.name.endswith("support")) == f"Anything else? {asked}"


def test_a_table_is_asked_so() -> None:
    frame = pd.DataFrame({"stops_after": [3.5, 4, 9, 12.5] * 3, "lives_in": ["town", "hills", "woods", "town"] * 3})
    for language in ("en", "de"):
        asked = ColumnQueries.from_data(frame, language=language).queries
        assert [query.text for query in asked] == ["stops after?", "lives in?"]
