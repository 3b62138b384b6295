"""A German table asks German questions."""

from typing import Any

import pandas as pd
import pytest

from pursuit.queries import ColumnQueries
from pursuit.queries.column_types import language_of

pytestmark = pytest.mark.filterwarnings("ignore:.*asked for|Cells of|Empty cells:UserWarning")
FRAME = {
    "Größe": [i * 1.5 for i in range(20)],
    "Farbe": [*"abcd"] * 5,
    "Fieber": [0, 1] * 10,
    "Mängel": ["Rost; Beule", "Rost", "Beule; Kratzer", "Kratzer"] * 5,
    "gekauft am": [f"{1 + i:02}.03.2024" for i in range(20)],
    "geboren": [f"{1 + i:02}.03.1984" for i in range(20)],
    "Schon da?": ["ja", "nein"] * 10,
    "Schufa": ["x", None] * 10,
    "Zustand": ["neu", None] * 10,
}


def test_questions_are_german() -> None:
    queries = {query.name: query for query in ColumnQueries.from_data(pd.DataFrame(FRAME)).queries}
    assert queries["Größe"].text == "Größe?"
    assert queries["Farbe"].text == "Farbe?"
    assert queries["Fieber"].text == "Fieber?"
    assert queries["Fieber"].choices == ("nein", "ja")
    assert queries["Mängel: Rost"].text == "Mängel: Rost?"
    assert queries["gekauft am"].text == "gekauft am?"
    assert queries["geboren"].text == "geboren: wie viele Jahre alt?"
    assert queries["geboren"].unit == "Jahre"
    assert queries["Schon da?"].text == "Schon da?"
    assert queries["Schufa"].text == "Schufa?"
    assert queries["Schufa"].choices == ("nein", "ja")
    assert queries["Zustand"].text == "Zustand: neu?"
    assert queries["Zustand"].choices == ("nein", "ja")
    assert queries["Zustand"].values == ("no", "neu")


def test_days_of_the_week_and_words() -> None:
    texts = [f"Die Pumpe leckt schon wieder, Vorgang {i}" if i % 2 else f"Es riecht verbrannt ({i})" for i in range(40)]
    frame = pd.DataFrame({"Störung": texts, "am": pd.date_range("2024-01-01", periods=40)})
    queries = ColumnQueries.from_data(frame, column_types={"am": "weekday"})
    by_name = {query.name: query for query in queries.queries}
    assert by_name["am"].choices[:2] == ("Montag", "Dienstag")
    assert by_name["am"].values[0] == "Monday"
    assert by_name["Störung: pumpe"].text == "Störung: kommt „pumpe“ vor?"
    x, _ = queries.answers(frame[:1])
    assert queries.describe(queries.index_of["am"], x[0]) == "Montag"


@pytest.mark.parametrize(
    ("columns", "language"),
    [
        ({"a": ["ja", "nein"] * 3}, "de"),
        ({"a": ["ja", "nee"] * 3}, "en"),
        ({"price": [1.5, 2.5]}, "en"),
        ({"Preis_brutto": [1.5, 2.5]}, "de"),
        ({"art": [1, 2]}, "de"),
        ({"start": [1, 2]}, "en"),
    ],
)
def test_the_language_is_seen(columns: dict[str, Any], language: str) -> None:
    assert language_of({name: pd.Series(values) for name, values in columns.items()}) == language


def test_it_may_be_chosen() -> None:
    frame = pd.DataFrame({"a": [1.5, 2.5, 3.0]})
    assert ColumnQueries.from_data(frame, language="de").queries[0].text == "a?"
    assert ColumnQueries.from_data(pd.DataFrame(FRAME), language="en").queries[0].text == "Größe?"
    with pytest.raises(ValueError, match="Questions are made in en or de, not in 'fr'"):
        ColumnQueries.from_data(frame, language="fr")
