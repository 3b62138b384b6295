"""What may be said about the question for one column, and how it changes the query."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pursuit.queries.column import NO_AND_YES, Choice, Date, Number, listed
from pursuit.queries.column_types import ColumnType
from pursuit.queries.query import Query

Ask = Literal["never", "beforehand"]
ASKS: tuple[Ask, ...] = get_args(Ask)


@dataclass(frozen=True)
class QuestionSettings:
    """What a file says about the question for one column; None is what it does not say."""

    name: str
    text: str | None = None
    help: str | None = None
    choices: tuple[tuple[str, str | None], ...] = ()
    """(value in the data, words for it) of all values, in the order they are offered; None keeps the words."""
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    cost: float | None = None
    ask: Ask | None = None
    only_after: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(query, answers): asked only once that query was asked, or got one of the answers where there are any."""
    column_type: ColumnType | None = None
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What people say who mean a choice, by the choice; without one: who mean yes, or tell the number."""
    checked: bool | None = None

    @property
    def is_never_asked(self) -> bool:
        return self.ask == "never" or self.column_type == "skip"

    @property
    def has_range(self) -> bool:
        return self.low is not None or self.high is not None

    def apply(self, query: Query) -> Query:
        """The query asked as these settings say; raises ValueError where they do not fit it."""
        changes: dict[str, Any] = {
            "text": self.text,
            "help": self.help,
            "cost": self.cost,
            "checked": self.checked,
        }
        if isinstance(query, Number):
            self._refuse(bool(self.choices), "choices", 'is a number: write type = "choice" beside them')
            self._refuse(self.column_type in ("choice", "yes/no"), "type", "was read as a number")
            self._refuse(isinstance(query, Date) and self.has_range, "range", "is a date")
            changes |= {"unit": self.unit, "low": self.low, "high": self.high}
        else:
            self._refuse(bool(self.unit), "unit", "is not a number")
            self._refuse(self.has_range, "range", "is not a number")
            self._refuse(self.column_type == "number", "type", "was read as one of a list")
        query = replace(query, **{name: value for name, value in changes.items() if value is not None})
        if self.choices and isinstance(query, Choice):
            query = _with_choices(query, self.choices)
        return replace(query, words=self._checked_words(query)) if self.words else query

    def _checked_words(self, query: Query) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The words by the choices as they are offered."""
        found = []
        for choice, words in self.words:
            place = place_of(query, choice) if choice and isinstance(query, Choice) else None
            self._refuse(bool(choice) and place is None, "words", f"has no choice “{choice}”")
            found.append((query.choices[place] if place is not None else "", words))
        return tuple(found)

    def _refuse(self, is_wrong: bool, key: str, why: str) -> None:
        if is_wrong:
            raise ValueError(f"{key} of '{self.name}' does not fit, because the column {why}.")


def _with_choices(query: Choice, choices: Sequence[tuple[str, str | None]]) -> Choice:
    """The query with these words for its values, in this order."""
    places = [place_of(query, value) for value, _ in choices]
    for (value, _), place in zip(choices, places, strict=True):
        if place is None:
            close = difflib.get_close_matches(value, list(map(str, query.values)), n=1)
            hint = f"Did you mean '{close[0]}'?" if close else f"It holds {listed(query.values, 12)}."
            raise ValueError(f"'{value}' is a choice of '{query.name}', but not a value in the column. {hint}")
        if places.count(place) > 1:
            raise ValueError(
                f"The value '{query.values[place]}' of '{query.name}' has more than one choice: leave one."
            )
    if absent := [value for i, value in enumerate(query.values) if i not in places]:
        raise ValueError(f"The column '{query.name}' also holds {listed(absent)}: add that to its choices.")
    found = [place for place in places if place is not None]
    words = [query.choices[place] if text is None else text for place, (_, text) in zip(found, choices, strict=True)]
    if twice := [word for word in words if words.count(word) > 1]:
        raise ValueError(f"Two choices of '{query.name}' are worded '{twice[0]}': nobody could tell them apart.")
    return replace(query, choices=tuple(words), values=tuple(query.values[place] for place in found))


def place_of(query: Choice, text: str) -> int | None:
    """The place of a value in the list of a query, by its text in the data or by its words; None if it is not there."""
    values = [str(value) for value in query.values]
    for options in (values, list(query.choices), [value.lower() for value in values]):
        for wanted in (text, text.lower()):
            if wanted in options:
                return options.index(wanted)
    if tuple(word.lower() for word in query.choices) in NO_AND_YES:  # then any words for no and yes say the same
        for pair in NO_AND_YES:
            if text.lower() in pair:
                return pair.index(text.lower())
    numbers = [float(value) if isinstance(value, int | float) else None for value in query.values]
    try:
        return numbers.index(float(text))
    except ValueError:
        return None
