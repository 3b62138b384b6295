"""How a table is asked, as people write it down: the wording, choices, range, cost and order of questions.

`Questions.read` takes a TOML file (docs/tables.md has all its keys), `apply` gives a query set its wording and order,
and `draft` writes a first file to edit.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pursuit.files import read_bytes
from pursuit.queries.column import Choice, Date, Number, listed
from pursuit.queries.column_types import ColumnType
from pursuit.queries.order import Group, OnlyAfter, Order
from pursuit.queries.presentation import Presentation
from pursuit.queries.query import Query
from pursuit.queries.query_set import QuerySet
from pursuit.queries.question_settings import QuestionSettings, place_of
from pursuit.queries.questions_file import draft_text, parse, toml_text

TRAIN = "pursuit train FILE --target LABEL --questions questions.toml"


@dataclass(frozen=True)
class Questions:
    """What a questions file says: settings of columns, and groups that are asked together."""

    settings: tuple[QuestionSettings, ...] = ()
    groups: tuple[Group, ...] = ()
    presentation: Presentation = field(default_factory=Presentation)
    """How the interview is presented."""
    where: str = field(default="", compare=False)
    """The file they come from, for messages."""

    @classmethod
    def read(cls, path: "str | Path | Questions") -> "Questions":
        """The questions in a TOML file; raises ValueError saying what is wrong in it. Questions stay what they are."""
        if isinstance(path, Questions):
            return path
        path = Path(path)
        try:
            text = read_bytes(path, "a questions file").decode("utf-8-sig")
        except FileNotFoundError:
            raise FileNotFoundError(
                f"There is no questions file {path}. Write a first draft with: pursuit questions FILE --target LABEL"
            ) from None
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text. Save it in UTF-8.") from None
        try:
            return cls(*parse(text, path.parent), where=str(path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def of(cls, query_set: QuerySet) -> "Questions":
        """How the queries of a query set are asked."""
        order = query_set.order or Order()
        after: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        for condition in order.only_after:
            after.setdefault(condition.query, []).append((condition.after, condition.answers))
        return cls(
            tuple(_settings(query, query.name in order.beforehand, after) for query in query_set.queries), order.groups
        )

    @staticmethod
    def draft(query_set: QuerySet, command: str = TRAIN, never_asked: Sequence[str] = ()) -> str:
        """A first file to edit, with comments: `command` is what it is for, and columns `never_asked` are in it too."""
        questions = Questions.of(query_set)
        never = tuple(QuestionSettings(name, ask="never") for name in never_asked)
        numbers = [query for query in query_set.queries if isinstance(query, Number) and not isinstance(query, Date)]
        seen = {query.name: query.seen for query in numbers if query.seen}
        return draft_text((*questions.settings, *never), questions.groups, seen, command)

    def to_toml(self) -> str:
        """The file that reads as these questions."""
        return toml_text(self.settings, self.groups, self.presentation)

    @staticmethod
    def presented(notes: Mapping[str, Any]) -> Presentation:
        """How the interview of a model is presented, by the questions file in the `notes_` of its training."""
        text = notes.get("task", {}).get("questions")
        return parse(text)[2] if isinstance(text, str) else Presentation()

    def check_results(self, labels: Sequence[str] | None) -> None:
        """Raise ValueError for what is said of a result that is none of the labels; None: a number is predicted."""
        for advice in self.presentation.results:
            if labels is None:
                raise ValueError(f"{self.where}: [results] is for labels, and a number is predicted: leave it out.")
            if advice.label not in labels:
                close = difflib.get_close_matches(advice.label, labels, n=1)
                hint = f"Did you mean '{close[0]}'?" if close else f"Labels are {listed(labels)}."
                raise ValueError(f"{self.where}: there is no label '{advice.label}' that could be a result. {hint}")

    def check_languages(self, query_set: QuerySet, labels: Sequence[str] | None) -> None:
        """Raise ValueError for a translation of what is neither asked nor answered nor said."""
        asked = [
            text for query in query_set.queries for text in (query.text, query.help, query.unit, *query.offered) if text
        ]
        known = {*asked, *(labels or ()), *self.presentation.texts}
        for code, pairs in self.presentation.languages:
            for text, _ in pairs:
                if text not in known:
                    close = difflib.get_close_matches(text, known, n=1)
                    hint = f"Did you mean '{close[0]}'?" if close else "Write it as it is asked, answered or said."
                    raise ValueError(
                        f"{self.where}: languages.{code} has '{text}', which is not in the interview. {hint}"
                    )

    @property
    def never_asked(self) -> tuple[str, ...]:
        """The columns that are not used at all."""
        return tuple(one.name for one in self.settings if one.is_never_asked)

    @property
    def column_types(self) -> dict[str, ColumnType]:
        """How to read the columns that the file says a type of."""
        return {
            one.name: one.column_type for one in self.settings if one.column_type is not None and not one.is_never_asked
        }

    def apply(self, query_set: QuerySet, left_out: Iterable[str] = ()) -> QuerySet:
        """The query set asked as the file says. Columns that were `left_out` of it may be named in the file."""
        try:
            return self._applied(query_set, set(left_out))
        except ValueError as error:
            raise ValueError(f"{self.where}: {error}" if self.where else str(error)) from None

    def _applied(self, query_set: QuerySet, left_out: set[str]) -> QuerySet:
        self._refuse_unknown(query_set, left_out)
        settings = {one.name: one for one in self.settings}
        asked = [query for query in query_set.queries if query.name not in set(self.never_asked)]
        if not asked:
            raise ValueError("Every column is never asked, so there is nothing to ask: leave at least one.")
        queries = [settings[query.name].apply(query) if query.name in settings else query for query in asked]
        return query_set.with_queries(queries, self._order(queries))

    def _refuse_unknown(self, query_set: QuerySet, left_out: set[str]) -> None:
        for one in self.settings:
            if one.name not in query_set.index_of and one.name not in left_out:
                close = difflib.get_close_matches(one.name, query_set.index_of, n=1)
                hint = f"Did you mean '{close[0]}'?" if close else f"Columns are {listed([*query_set.index_of])}."
                raise ValueError(f"There is no column '{one.name}' to ask for. {hint}")

    def _order(self, queries: Sequence[Query]) -> Order:
        by_name = {query.name: query for query in queries}
        settings = [one for one in self.settings if one.name in by_name]

        def choice(name: str, answer: str) -> str:
            """The words of an answer, which may be written as in the data."""
            query = by_name.get(name)
            place = place_of(query, answer) if isinstance(query, Choice) else None
            return answer if query is None or place is None else query.choices[place]

        return Order(
            tuple(one.name for one in settings if one.ask == "beforehand"),
            tuple(
                OnlyAfter(one.name, after, tuple(choice(after, answer) for answer in answers))
                for one in settings
                for after, answers in one.only_after
            ),
            self.groups,
        )


def _settings(
    query: Query, is_beforehand: bool, after: dict[str, list[tuple[str, tuple[str, ...]]]]
) -> QuestionSettings:
    low, high = (query.low, query.high) if isinstance(query, Number) else (None, None)
    return QuestionSettings(
        query.name,
        query.text,
        query.help or None,
        tuple(zip(map(str, query.values), query.choices, strict=True)) if isinstance(query, Choice) else (),
        query.unit or None,
        low,
        high,
        query.cost,
        "beforehand" if is_beforehand else None,
        tuple(after.get(query.name, ())),
        words=query.words,
        checked=query.checked or None,
    )
