"""The words of forms that are not from the questions, in the language of these."""

from typing import Any

import numpy as np

from pursuit.queries import QuerySet
from pursuit.queries.column_types import language_of

GERMAN = {
    "I don't know": "Weiß ich nicht",
    "Leave it empty if you don't know.": "Lassen Sie es leer, wenn Sie es nicht wissen.",
    "Usually {} to {}.": "Meist {} bis {}.",
    "Most probable": "Am wahrscheinlichsten",
    "Most probable result": "Wahrscheinlichstes Ergebnis",
    "Most probable labels": "Wahrscheinlichste Ergebnisse",
    "Probability": "Wahrscheinlichkeit",
    "Known beforehand": "Vorher bekannt",
    "Result": "Ergebnis",
    "Why": "Warum",
    "Unusual answers": "Ungewöhnliche Antworten",
    "The model vouches for it": "Das Modell steht dafür ein",
    "Labels that remain": "Ergebnisse, die bleiben",
    "Expected number": "Erwartete Zahl",
    "90 % sure: from": "Zu 90 % sicher: von",
    "90 % sure: to": "Zu 90 % sicher: bis",
}


def in_language(text: str, language: str) -> str:
    """A text that is written in English here; it stays as it is where there is no other."""
    return GERMAN[text] if language == "de" else text


def language_of_questions(query_set: QuerySet) -> str:
    """German where the words of the questions or of yes and no say so, and else English."""
    words: dict[str, Any] = {}
    for query in query_set.queries:
        words[query.text] = np.array(query.choices, dtype=object)
    return language_of(words)
