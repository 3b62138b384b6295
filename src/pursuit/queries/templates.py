"""Questions that are made of the names of columns, in the language of the table."""

import re
from dataclasses import replace

import pandas as pd

from pursuit.queries.column import Choice, Number, fold
from pursuit.queries.parts import WEEKDAYS, Contains
from pursuit.queries.wording import wording

LANGUAGES = ("en", "de")
GERMAN = {
    "What is {}?": "{}: welcher Wert?",
    "Which {}?": "{}: was trifft zu?",
    "When is {}?": "{}: wann?",
    "On which day of the week is {}?": "{}: an welchem Wochentag?",
    "What is the age, in years ({})?": "{}: wie viele Jahre alt?",
}
GERMAN_PARTS = {"Does {{}} include {}?": "Gehört {} zu {{}}?", "Does {{}} mention '{}'?": "Kommt „{}“ in {{}} vor?"}
GERMAN_DAYS = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")
GERMAN_HEADER = re.compile(
    r"[äöüß]|(^|[\W_])(alter|geschlecht|farbe|preis|datum|ergebnis|gewicht|anzahl|kunde|geboren|geburtsdatum|ort|art|kosten)"
    r"($|[\W_])",
    re.I,
)
FEW_VALUES, FEW_ROWS = 3, 100


def language_of(frame: pd.DataFrame) -> str:
    """The language of a table's columns: German where a name or words for yes and no say so, and else English."""
    if any(GERMAN_HEADER.search(str(name)) for name in frame.columns):
        return "de"
    for _, column in frame.items():
        if column.dtype.kind in "fiub":
            continue
        words = {fold(value) for value in column[:FEW_ROWS].dropna() if isinstance(value, str)}
        if len(words) <= FEW_VALUES and {"ja", "nein"} <= words:
            return "de"
    return "en"


def in_language(query: Choice | Number, language: str) -> Choice | Number:
    """The query asked in a language: what was made of the column's name, and words that are not from the data."""
    if language != "de":
        return query
    name, text = query.source, query.text
    for english, german in GERMAN.items():
        if text == wording(name, english) != wording(name, "{}"):
            query = replace(query, text=wording(name, german))
    if isinstance(query, Contains):
        part = query.name.removeprefix(f"{name}: ")
        for english, german in GERMAN_PARTS.items():
            if text == wording(name, english.format(part)):
                query = replace(query, text=wording(name, german.format(part)))
    if query.unit == "years":
        query = replace(query, unit="Jahre")
    if isinstance(query, Choice) and query.choices == ("no", "yes") and query.values == (0, 1):
        return replace(query, choices=("nein", "ja"))
    if isinstance(query, Choice) and set(query.choices) <= set(WEEKDAYS) and query.choices == query.values:
        return replace(query, choices=tuple(GERMAN_DAYS[WEEKDAYS.index(day)] for day in query.choices))
    return query
