"""How a table is asked, as people write it down: the wording, choices, range, cost and order of questions, and how the
interview is presented.

`Questions.read` takes a TOML file (docs/tables.md has all its keys) and says what is wrong in it, `apply` gives a query
set its wording and order, and `draft` writes a first file to edit.
"""

import base64
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pursuit.files import read_bytes
from pursuit.queries.column import Choice, Date, Number, Query, format_number, listed
from pursuit.queries.column_types import COLUMN_TYPES, ColumnType
from pursuit.queries.order import Group, OnlyAfter, Order
from pursuit.queries.query_set import QuerySet
from pursuit.registry import did_you_mean

MOST_LOGO_BYTES = 100_000
LOGO_TYPES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
LOGO_URI = re.compile(r"data:image/(?:png|jpeg|svg\+xml);base64,[\w+/=]+")
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
LANGUAGE = re.compile("[a-z]{2,3}")
LINKS = ("http", "https", "mailto", "tel")
"""What a link may begin with: nothing that runs in the page."""


@dataclass(frozen=True)
class Advice:
    """What to say and do where a label is the result."""

    text: str = ""
    link: str = ""
    link_text: str = ""
    """The words of the link; by default the page's own."""

    def __post_init__(self) -> None:
        if self.link and urlsplit(self.link).scheme not in LINKS:
            raise ValueError(f"a link begins with {', '.join(f'{kind}:' for kind in LINKS)}, not '{self.link}'")
        if self.link_text and not self.link:
            raise ValueError("link_text needs a link")


@dataclass(frozen=True)
class Presentation:
    """How an interview is presented; what is empty is the page's own."""

    title: str = ""
    introduction: str = ""
    """What a person reads before the first question; an empty line begins a paragraph."""
    consent: str = ""
    """What a person must agree to before the first question."""
    contact: str = ""
    """Whom to ask: an address or a sentence."""
    colour: str = ""
    """The colour of buttons and bars, as in #2456c7."""
    logo: str = ""
    """A picture as a data URI."""
    results: dict[str, Advice] = field(default_factory=dict)
    """By label."""
    languages: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each language, by its code, texts of the interview and what they are in it: questions, choices, labels, units
    and what is said here."""

    def __post_init__(self) -> None:
        if self.colour and not COLOUR.fullmatch(self.colour):
            raise ValueError(f"colour is six digits after a #, as in #2456c7, not '{self.colour}'")
        if self.logo and not LOGO_URI.fullmatch(self.logo):
            raise ValueError("logo is the name of a PNG, JPEG or SVG file")
        for code in self.languages:
            if not LANGUAGE.fullmatch(code):
                raise ValueError(f"a language goes by its code, as in [languages.de], not '{code}'")

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is said here in words."""
        own = (self.title, self.introduction, self.consent, self.contact)
        of_results = (text for one in self.results.values() for text in (one.text, one.link_text))
        return tuple(filter(None, (*own, *of_results)))


def logo_of(name: str, folder: Path | None) -> str:
    """A picture file beside a questions file as a data URI; one that is such a URI already stays."""
    if not name or name.startswith("data:"):
        return name
    path = (folder or Path()) / name
    if path.suffix.lower() not in LOGO_TYPES:
        raise ValueError(f"logo is the name of a PNG, JPEG or SVG file, not '{name}'")
    try:
        content = read_bytes(path, "a picture")
    except OSError:
        raise ValueError(f"there is no logo {path}") from None
    if len(content) > MOST_LOGO_BYTES:
        raise ValueError(f"the logo {path} has more than {MOST_LOGO_BYTES // 1000} kB: make it smaller")
    return f"data:{LOGO_TYPES[path.suffix.lower()]};base64,{base64.b64encode(content).decode()}"


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
            hint = did_you_mean(value, map(str, query.values), f"It holds {listed(query.values, 12)}.")
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
    place = query.place_of()
    if (found := place(text)) is not None:
        return found
    try:
        return place(float(text))  # 1.0 for 1
    except ValueError:
        return None


KEYS = {
    "text": "the wording a person reads",
    "help": "what a person may want to know to answer it",
    "choices": "the values in the column and the words for them, in the order they are offered",
    "unit": "what a number is measured in",
    "range": "the least and the greatest number that is accepted; inf where there is no limit",
    "cost": "what it takes to get the answer, in any unit; 1 by default",
    "checked": "true where the answer is checked, so that nobody can change it on purpose",
    "words": "what people say who mean it: a list, or a table of choices and lists",
    "ask": '"never": the column is not used; "beforehand": known before anything is asked',
    "only_after": "asked only once another column was asked, or got an answer",
    "type": f"how to read the column: {', '.join(COLUMN_TYPES)}",
}
INTERVIEW_KEYS = {
    "title": "what stands at the top",
    "introduction": "what a person reads before the first question",
    "consent": "what a person must agree to before the first question",
    "contact": "whom to ask",
    "colour": 'the colour of buttons and bars, as in "#2456c7"',
    "logo": "a PNG, JPEG or SVG file beside this one",
}
RESULT_KEYS = {
    "text": "what to say where this label is the result",
    "link": "what to do then: an address, also mailto: or tel:",
    "link_text": "the words of the link",
}
LONGEST = 120
"""Choices that take a longer line are written one a line."""


def parse(text: str, folder: Path | None = None) -> "Questions":
    """The questions that a TOML text holds, which stands in a file in `folder`; raises ValueError saying what is
    wrong."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"This is not TOML: {error}. Names and texts stand in quotation marks.") from None
    except (RecursionError, ValueError) as error:  # a number of thousands of digits
        raise ValueError(f"This is not a questions file: {str(error) or 'it'} is beyond all measure.") from None
    parts = ("questions", "groups", "interview", "results", "languages")
    known = "[questions.COLUMN], [groups], [interview], [results.LABEL] and [languages.CODE]"
    _check_keys(tables, parts, "the file", known)
    questions = {
        name: _question(name, value) for name, value in _table(tables.get("questions", {}), "questions").items()
    }
    groups = []
    for name, value in _table(tables.get("groups", {}), "groups").items():
        group, cost = _group(name, value)
        groups.append(group)
        if cost is None:
            continue
        for column in group.queries:
            settings = questions.get(column, QuestionSettings(column))
            if settings.cost is not None:
                raise ValueError(
                    f"'{column}' has a cost of its own, and is in the group '{name}', whose cost is that of all its "
                    "columns: leave one of the two."
                )
            questions[column] = replace(settings, cost=cost / len(group.queries))
    own = (tables.get(name, {}) for name in ("interview", "results", "languages"))
    return Questions(tuple(questions.values()), tuple(groups), _presentation(*own, folder=folder))


def _group(name: str, value: Any) -> tuple[Group, float | None]:
    """The group and, if it says so, what all of its columns cost together."""
    where, what = f"groups.{name}", "names of columns"
    if not isinstance(value, dict):
        return Group(name, _texts(value, where, what)), None
    _check_keys(value, ("columns", "cost"), where, "columns and cost")
    cost = _cost(value["cost"], where) if "cost" in value else None
    return Group(name, _texts(value.get("columns", []), f"{where}.columns", what)), cost


def _presentation(interview: Any, results: Any, languages: Any, *, folder: Path | None) -> Presentation:
    table = _table(interview, "interview")
    _check_keys(table, INTERVIEW_KEYS, "interview", ", ".join(INTERVIEW_KEYS))
    texts = {key: _text(table, key, "interview") or "" for key in INTERVIEW_KEYS}
    advice = {label: _advice(label, value) for label, value in _table(results, "results").items()}
    spoken = {code: _translations(code, value) for code, value in _table(languages, "languages").items()}
    try:
        return Presentation(**{**texts, "logo": logo_of(texts["logo"], folder)}, results=advice, languages=spoken)
    except ValueError as error:
        raise ValueError(f"[interview]: {error}.") from None


def _translations(code: str, value: Any) -> dict[str, str]:
    table = _table(value, f"languages.{code}")
    for text in table:
        if _text(table, text, f"languages.{code}") == "":
            raise ValueError(f"languages.{code} has no words for '{text}': write them, or leave the line out.")
    return table


def _advice(label: str, value: Any) -> Advice:
    where = f"results.{label}"
    table = {"text": value} if isinstance(value, str) else _table(value, where)
    _check_keys(table, RESULT_KEYS, where, ", ".join(RESULT_KEYS))
    try:
        return Advice(**{key: _text(table, key, where) or "" for key in RESULT_KEYS})
    except ValueError as error:
        raise ValueError(f"[{where}]: {error}.") from None


def _question(name: str, value: Any) -> QuestionSettings:
    if isinstance(value, str):  # the wording alone
        value = {"text": value}
    table, where = _table(value, f"questions.{name}"), f"questions.{name}"
    for key, part in table.items():
        if key not in KEYS and isinstance(part, dict):
            raise ValueError(
                f"{where} has no key '{key}': a column with a dot is written [questions.\"{name}.{key}\"]."
            )
    _check_keys(table, KEYS, where, ", ".join(KEYS))
    low, high = _range(table["range"], where) if "range" in table else (None, None)
    return QuestionSettings(
        name,
        _text(table, "text", where),
        _text(table, "help", where),
        _choices(table.get("choices", {}), f"{where}.choices"),
        _text(table, "unit", where),
        low,
        high,
        _cost(table["cost"], where) if "cost" in table else None,
        _one_of(table, "ask", ASKS, where),
        _only_after(table.get("only_after", {}), f"{where}.only_after"),
        _one_of(table, "type", COLUMN_TYPES, where),
        _words(table.get("words", []), f"{where}.words"),
        _yes_or_no(table, "checked", where),
    )


def _check_keys(table: Mapping[str, Any], keys: Iterable[str], where: str, known: str) -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"'{key}' is not a key of {where}. {did_you_mean(key, keys, f'It may have {known}.')}")


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is a table, written [{where}] with a line for each key, not {value!r}.")
    return value


def _yes_or_no(table: Mapping[str, Any], key: str, where: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{key} of {where} is true or false, without quotation marks, not {value!r}.")
    return value


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where}.{key} is a text in quotation marks, not {value!r}.")
    if key == "text" and value is not None and not value.strip():
        raise ValueError(f"{where}.text is the wording a person reads: write it, or leave the key out.")
    return value


def _one_of(table: Mapping[str, Any], key: str, options: Sequence[str], where: str) -> Any:
    value = table.get(key)
    if value is not None and value not in options:
        quoted = " or ".join(f'"{option}"' for option in options)
        raise ValueError(f"{where}.{key} is {quoted}, not {value!r}.")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _cost(value: Any, where: str) -> float:
    cost = _number(value)
    if not 0 <= cost < math.inf:
        raise ValueError(f"{where}.cost is a number of at least 0, not {value!r}.")
    return cost


def _range(value: Any, where: str) -> tuple[float | None, float | None]:
    low, high = map(_number, value) if isinstance(value, list) and len(value) == 2 else (math.nan, math.nan)
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"{where}.range is two numbers, as in [34, 43], not {value!r}.")
    if not low < high:
        raise ValueError(
            f"{where}.range goes from the least to the greatest number, but {low:g} is not below {high:g}."
        )
    return None if low == -math.inf else low, None if high == math.inf else high


def _value(value: Any, where: str) -> str:
    """A value of a column as text; numbers and true and false may stand without quotation marks."""
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"{where} has {value!r}, which is not a value of a column: write a text or a number.")
    return str(value)


def _texts(value: Any, where: str, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'{where} is a list of {what}, as in ["one", "two"], not {value!r}.')
    return tuple(value)


def _choices(value: Any, where: str) -> tuple[tuple[str, str | None], ...]:
    if isinstance(value, list):
        return tuple((_value(item, where), None) for item in value)
    if not isinstance(value, dict) or not all(isinstance(words, str) and words.strip() for words in value.values()):
        raise ValueError(
            f'{where} is a table of values and words, as in {{ "0" = "no", "1" = "yes" }}, or a list of values, not '
            f"{value!r}."
        )
    return tuple(value.items())


def _words(value: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    what = "what people say"
    if isinstance(value, dict):
        return tuple((choice, _texts(own, f"{where}.{choice}", what)) for choice, own in value.items())
    found = _texts(value, where, what)
    return (("", found),) if found else ()


def _only_after(value: Any, where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if isinstance(value, str):
        return ((value, ()),)
    if isinstance(value, list):
        return tuple((name, ()) for name in _texts(value, where, "names of columns"))
    if not isinstance(value, dict):
        raise ValueError(
            f"{where} is the name of a column, a list of names, or a table of names and answers, as in "
            f'{{ fever = "yes" }}, not {value!r}.'
        )
    conditions = []
    for name, answers in value.items():
        some = answers if isinstance(answers, list) else [answers]  # an empty list is any answer, or none
        conditions.append((name, tuple(_value(answer, f"{where}.{name}") for answer in some)))
    return tuple(conditions)


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def _presentation_text(presentation: Presentation) -> list[str]:
    def table(name: str, keys: Iterable[str], values: Any) -> str:
        lines = [f"{key} = {_toml(getattr(values, key))}" for key in keys if getattr(values, key)]
        return "\n".join([f"[{name}]", *lines]) + "\n"

    is_plain = replace(presentation, results={}, languages={}) == Presentation()
    own = [] if is_plain else [table("interview", INTERVIEW_KEYS, presentation)]
    results = [table(f"results.{_key(label)}", RESULT_KEYS, one) for label, one in presentation.results.items()]
    spoken = []
    for code, words in presentation.languages.items():
        lines = [f"{_toml(text)} = {_toml(translated)}" for text, translated in words.items()]
        spoken.append("\n".join([f"[languages.{_key(code)}]", *lines]) + "\n")
    return [*own, *results, *spoken]


def draft_text(questions: "Questions", seen: Mapping[str, tuple[float, float]], command: str) -> str:
    """A file with comments for those who edit it; `seen` has the range of numbers in the rows."""
    width = max(map(len, KEYS))
    head = [
        "What is asked, and how. Edit this file, then train with:",
        f"  {command}",
        "",
        "Every key may be left out, and so may every column: it is then asked as if this file did not name it.",
        *(f"  {key:<{width}}  {meaning}" for key, meaning in KEYS.items()),
        'Columns asked together stand at the end, as in: [groups] vitals = ["pulse", "pressure"]',
        f"How the interview is presented stands under [interview]: {', '.join(INTERVIEW_KEYS)};",
        f"and what to say and do for each result under [results.LABEL]: {', '.join(RESULT_KEYS)}.",
        'Other languages: [languages.de] "Which noise?" = "Welches Geräusch?", for every text, choice, label and unit.',
    ]
    comments = "".join(f"# {line}".rstrip() + "\n" for line in head)
    parts = [_question_text(one, _suggestions(one, seen.get(one.name))) for one in questions.settings]
    return "\n".join([comments, *parts, *(_groups_text(questions.groups) or ["# [groups]\n# name = []\n"])])


def _suggestions(one: QuestionSettings, seen: tuple[float, float] | None) -> dict[str, str]:
    """Keys that the question does not have, as comments."""
    if one.is_never_asked:
        return {}
    comments = {"help": '# help = ""'}
    if not one.choices:
        comments["unit"] = '# unit = ""'
        if seen:
            low, high = map(format_number, seen)
            comments["range"] = f"# range = [{low}, {high}]  # as in these rows: no other number would be accepted"
    return comments


def _question_text(one: QuestionSettings, suggestions: Mapping[str, str] | None = None) -> str:
    names = {"range": _range_of(one), "only_after": _conditions_of(one), "type": one.column_type}
    names |= {"choices": _choices_of(one), "words": _words_of(one)}
    values = {key: names.get(key, getattr(one, key, None)) for key in KEYS}
    below: list[str] = []
    if isinstance(choices := values["choices"], dict) and len(f"choices = {_toml(choices)}") > LONGEST:
        below = [f"[questions.{_key(one.name)}.choices]", *(f"{_toml(k)} = {_toml(v)}" for k, v in choices.items())]
        values["choices"] = None
    lines = [
        (suggestions or {}).get(key, "") if value is None else f"{key} = {_toml(value)}"
        for key, value in values.items()
    ]
    return "\n".join([f"[questions.{_key(one.name)}]", *filter(None, lines), *below]) + "\n"


def _choices_of(one: QuestionSettings) -> dict[str, str] | list[str] | None:
    """The values with their words, or alone where some keep theirs."""
    if any(words is None for _, words in one.choices):
        return [value for value, _ in one.choices]
    return {value: words or "" for value, words in one.choices} or None


def _words_of(one: QuestionSettings) -> Any:
    return one.words[0][1] if [choice for choice, _ in one.words] == [""] else dict(one.words) or None


def _conditions_of(one: QuestionSettings) -> Any:
    names = [name for name, _ in one.only_after]
    if not any(answers for _, answers in one.only_after):
        return names[0] if len(names) == 1 else names or None
    return {name: answers[0] if len(answers) == 1 else answers for name, answers in one.only_after}


def _range_of(one: QuestionSettings) -> list[float] | None:
    if not one.has_range:
        return None
    return [-math.inf if one.low is None else one.low, math.inf if one.high is None else one.high]


def _groups_text(groups: Sequence[Group]) -> list[str]:
    lines = [f"{_key(group.name)} = {_toml(group.queries)}" for group in groups]
    return ["\n".join(["[groups]", *lines]) + "\n"] if groups else []


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """A value as TOML writes it in one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(own)}' for key, own in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for the one control character that JSON allows.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    is_whole = math.isfinite(value) and value == int(value) and abs(value) < 1e15
    return str(int(value)) if is_whole else repr(float(value))


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
            return replace(parse(text, path.parent), where=str(path))
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
        return draft_text(replace(questions, settings=(*questions.settings, *never)), seen, command)

    def to_toml(self) -> str:
        """The file that reads as these questions."""
        questions = map(_question_text, self.settings)
        return "\n".join([*_presentation_text(self.presentation), *questions, *_groups_text(self.groups)])

    @staticmethod
    def presented(notes: Mapping[str, Any]) -> Presentation:
        """How the interview of a model is presented, by the questions file in the `notes_` of its training."""
        text = notes.get("task", {}).get("questions")
        return parse(text).presentation if isinstance(text, str) else Presentation()

    def check_results(self, labels: Sequence[str] | None) -> None:
        """Raise ValueError for what is said of a result that is none of the labels; None: a number is predicted."""
        for label in self.presentation.results:
            if labels is None:
                raise ValueError(f"{self.where}: [results] is for labels, and a number is predicted: leave it out.")
            if label not in labels:
                hint = did_you_mean(label, labels, f"Labels are {listed(labels)}.")
                raise ValueError(f"{self.where}: there is no label '{label}' that could be a result. {hint}")

    def check_languages(self, query_set: QuerySet, labels: Sequence[str] | None) -> None:
        """Raise ValueError for a translation of what is neither asked nor answered nor said."""
        asked = [
            text for query in query_set.queries for text in (query.text, query.help, query.unit, *query.offered) if text
        ]
        known = {*asked, *(labels or ()), *self.presentation.texts}
        for code, words in self.presentation.languages.items():
            for text in words:
                if text not in known:
                    hint = did_you_mean(text, known, "Write it as it is asked, answered or said.")
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
                hint = did_you_mean(one.name, query_set.index_of, f"Columns are {listed([*query_set.index_of])}.")
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
