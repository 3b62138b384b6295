"""A query, and one column of a table as a query, answered by one of a list, a number or a date: how it is worded, how
an answer is read, and when it is doubtful."""

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from pursuit.queries.dates import DAY, EPOCH, ISO, MINUTES, days_since_1970, read_otherwise
from pursuit.queries.scaling import LARGEST, MOST_DECIMALS
from pursuit.registry import register

NOT_GIVEN_TEXT = "not given"
"""The answer, in words, that a value is missing, to a query that may be answered so."""
FREE = 1e-9
"""In bits per cost, the cost of what costs nothing: free answers come first, the most informative of them before the
others, and scores stay finite."""


@dataclass(frozen=True)
class Query:
    """A question with a clear meaning."""

    name: str
    text: str
    """The wording a person reads."""
    choices: tuple[str, ...] = ()
    """What may be answered; empty where the answer is not one of a list."""
    cost: float = 1.0
    """What it takes to get the answer, in any unit; 0 if it is free."""
    help: str = field(default="", kw_only=True)
    """What a person may want to know to answer it."""
    unit: str = field(default="", kw_only=True)
    """What a number is measured in."""
    may_be_missing: bool = field(default=False, kw_only=True)
    """Whether it is an answer of its own, "not given", that data have no value. It is not "don't know", which is no
    answer."""

    words: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), kw_only=True)
    """Words that people use for a choice, by the choice; those without one mean yes, or what a number measures."""
    checked: bool = field(default=False, kw_only=True)
    """Whether the answer is checked, by a document or a measurement, so that nobody can change it on purpose."""
    column: str = field(default="", kw_only=True)
    """The column of a table that answers are read from, where that has not the name of the query."""

    @property
    def source(self) -> str:
        """The name of the column that answers are read from."""
        return self.column or self.name

    @property
    def offered(self) -> tuple[str, ...]:
        """The choices that a person may pick, "not given" last where it is an answer; empty without choices."""
        is_more = self.may_be_missing and self.choices and NOT_GIVEN_TEXT not in self.choices
        return (*self.choices, NOT_GIVEN_TEXT) if is_more else self.choices

    @property
    def expected(self) -> str:
        """What may be answered, in a few words; empty where that cannot be said."""
        return "/".join(self.offered)

    def __post_init__(self) -> None:
        if not 0 <= self.cost < math.inf:
            raise ValueError(f"The cost of '{self.name}' is a number of at least 0, not {self.cost}.")


WHICH_DAY, HOW_OLD, MENTIONED = ": on which day of the week?", ": how many years old?", ": is '{}' mentioned?"
HUMP = re.compile(r"(?<=[a-z]{2})[A-Z](?=[a-z])")
"""The start of a new word in a camelCase name such as stopsAfter."""


def wording(name: str, ending: str = "?") -> str:
    """A question made of a column's name, unless the name is a question already. What is asked stands behind the name,
    which reads well whether that is a noun, a verb or a phrase; behind a question, as one of its own."""
    words = name.strip().replace("_", " ")
    if words[:1].islower():
        words = HUMP.sub(lambda found: f" {found[0].lower()}", words)
    if "?" not in words:
        return words + ending
    asked = ending.removeprefix(": ")
    return words if len(asked) < 2 else f"{words} {asked[0].upper()}{asked[1:]}"


@dataclass(frozen=True)
class Doubt:
    """Why an answer should be asked for again. Prints as a sentence for the person who gave it."""

    query: str
    text: str
    answer: str
    """The answer as it was understood, with its unit."""
    usual: str
    """The range of the training rows, but for strays, with its unit; empty where only the point is doubted."""
    suggestions: tuple[str, ...] = ()
    """What may have been meant, as it would be typed: the nearest slip of the decimal point or of the sign."""

    def __str__(self) -> str:
        meant = f" Did you mean {' or '.join(self.suggestions)}?" if self.suggestions else " Is that right?"
        if not self.usual:
            return f"The point of {self.answer} may stand between thousands.{meant}"
        return f"{self.answer} is far outside the usual range of {self.usual}.{meant}"

    def to_dict(self) -> dict[str, Any]:
        """The doubt as JSON values."""
        return {**asdict(self), "suggestions": list(self.suggestions)}


class DoubtfulAnswer(ValueError):
    """An answer was not taken because of a `doubt`; it is if it is given again with `confirmed=True`."""

    def __init__(self, doubt: Doubt):
        super().__init__(f'"{doubt.text}": {doubt} If it is right, give it again with confirmed=True.')
        self.doubt = doubt


_SPELLED = (
    "no/yes n/y false/true f/t 0/1 absent/present negative/positive neg/pos off/on nein/ja n/j falsch/wahr "
    "negativ/positiv non/oui faux/vrai no/sí no/si no/sì falso/verdadero falso/vero falso/verdadeiro não/sim "
    "nao/sim nee/ja nej/ja nei/ja nie/tak ne/ano нет/да 否/是 いいえ/はい"
)
NO_AND_YES = [(no, yes) for no, _, yes in (pair.partition("/") for pair in _SPELLED.split())]
"""Words for no and yes that go together, in lower case."""
_PAIRS = frozenset(NO_AND_YES)
NO_WORDS, YES_WORDS = (frozenset(pair[i] for pair in NO_AND_YES) for i in (0, 1))

TICKS = frozenset(("x", "✓", "✔", "☑", "☒", "•", "●", "*", "+", "checked", "ticked", "selected"))
"""Marks that people tick something with, in lower case; all words for yes do, too."""

CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?(?:\s*([ap])\.?m\.?)?", re.IGNORECASE)
"""A time of day: 14:30, 14:30:15, or 2:30 PM."""
LARGEST_ANSWER = 1e38
"""Numbers beyond this do not fit the precision that models compute in."""
MOST_PLACES = 4
"""How far a decimal point may have slipped."""


@register
@dataclass(frozen=True)
class Choice(Query):
    """A query answered by one of a list; with two choices it is a yes/no question, the second being yes."""

    values: tuple[str | int | float | bool, ...] = ()
    """The choices as they stand in the data, in the order of `choices`."""
    empty_means: str | int | float | bool | None = field(default=None, kw_only=True)
    """The value that an empty cell stands for, such as no where a column is ticked or left empty; None: it is
    missing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != len(self.choices):
            object.__setattr__(self, "values", self.choices)
        if self.empty_means is not None and self.empty_means not in self.values:
            raise ValueError(
                f"An empty cell of '{self.name}' stands for one of {listed(self.values)}, not for {self.empty_means!r}."
            )

    @property
    def place_of_empty(self) -> float:
        """Where in the list an empty cell stands; NaN where it is missing."""
        return math.nan if self.empty_means is None else self.values.index(self.empty_means)

    @property
    def is_yes_no(self) -> bool:
        """Whether the choices are words for no and yes, so that any other such word says the same."""
        return len(self.choices) == 2 and (fold(self.choices[0]), fold(self.choices[1])) in _PAIRS

    def place_of(self) -> Callable[[Any], int | None]:
        """A function that says where in the list a value stands: as it is, in another case, with spaces around it, or,
        in a yes/no question, as any word for no or yes; None if nowhere."""
        exactly = {value: i for i, value in reversed(list(enumerate(self.values)))}
        words = [*(fold(value) for value in self.values), *(fold(choice) for choice in self.choices)]
        folded = {word: i % len(self.values) for i, word in reversed(list(enumerate(words)))}
        if self.is_yes_no:
            folded = {**dict.fromkeys(NO_WORDS, 0), **dict.fromkeys(YES_WORDS, 1), **folded}

        def place(value: Any) -> int | None:
            exact = exactly.get(value) if isinstance(value, str | int | float) else None
            return folded.get(fold(value)) if exact is None else exact

        return place


@register
@dataclass(frozen=True)
class Number(Query):
    """A query answered by a number, which networks see as (number - centre) / spread.

    Beside that they see a code: for every piece between two neighbouring `edges`, how much of it lies below the number,
    from 0 to 1. A threshold, or a peak between two of them, is then a sum of a few inputs.
    """

    noun: ClassVar[str] = "a number"
    sign_matters: ClassVar[bool] = True
    """Whether a number below zero is another thing than one above it."""
    least_margin: ClassVar[float] = 0.0
    """How far outside the training rows nothing is doubtful, whatever their range."""
    centre: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()
    missing: tuple[str, ...] = ()
    """Texts among the numbers of training that say nothing, such as "?"."""
    low: float | None = None
    """The least that is accepted; None: any number."""
    high: float | None = None
    seen: tuple[float, float] | None = None
    """The least and the greatest number in the training rows, but for strays."""
    decimals: int = MOST_DECIMALS
    """How many decimals the numbers of the training rows have; MOST_DECIMALS: so many, or nobody knows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.centre) and 0 < self.spread < math.inf and all(map(math.isfinite, self.edges))):
            raise ValueError(
                f"The centre, spread and edges of '{self.name}' are finite numbers, the spread above 0, not "
                f"{self.centre}, {self.spread} and {self.edges}."
            )
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(
                f"The range of '{self.name}' goes from the least to the greatest number that is accepted, but "
                f"{format_number(self.low)} is not below {format_number(self.high)}."
            )

    @property
    def expected(self) -> str:
        """The range that is accepted, or else that of the training rows, and the unit."""
        low, high = (self.low, self.high) if self.has_range else self.seen or (None, None)
        least, most = (None if end is None else self.written(end) for end in (low, high))
        text = with_unit(_range_text(least, most), self.unit)
        return f"{text or self.noun} or {NOT_GIVEN_TEXT}" if self.may_be_missing else text

    @property
    def has_range(self) -> bool:
        return self.low is not None or self.high is not None

    def accepts(self, number: float) -> bool:
        """Whether a number is in the range that is accepted."""
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)

    def written(self, number: float) -> str:
        return format_number(number)

    def in_words(self, number: float) -> str:
        return with_unit(self.written(number), self.unit)

    def as_given(self, number: float) -> str:
        """A number in words with all digits that a person gave it with."""
        return with_unit(format_number(number, 15), self.unit)

    def restored(self, number: float, uncertainty: float) -> str:
        """A number in words that went through single precision, and is only known up to an `uncertainty`."""
        certain = math.floor(-math.log10(2 * min(uncertainty, LARGEST)))
        if self.decimals == MOST_DECIMALS:
            return self.in_words(round(number, certain) + 0.0)  # adding zero makes -0.0 zero
        return with_unit(format_number(round(number, min(certain, self.decimals)) + 0.0, 15), self.unit)

    def parse(self, answer: Any) -> float:
        """The number in a person's answer; raises ValueError if there is none, or one that is not accepted."""
        number = self.read(answer)
        if not self.accepts(number):
            raise ValueError(f"The answer to '{self.text}' is {self.expected}, not {self.as_given(number)}.")
        return number

    def doubt(self, number: float) -> Doubt | None:
        """Why a person hardly means this number: it lies far outside the training rows, on a side where no range says
        what is accepted. Far is half of their range, or below zero where they never are."""
        if self.seen is None or self._is_plausible(number):
            return None
        usual = with_unit(" to ".join(self.written(end) for end in self.seen), self.unit)
        slips = tuple(format_number(meant, 15) for meant in self._slips(number))
        return Doubt(self.name, self.text, self.as_given(number), usual, slips)

    def _is_plausible(self, number: float) -> bool:
        assert self.seen is not None
        low, high = self.seen
        beyond = max((high - low) / 2, self.least_margin, self.spread if low == high else 0.0)
        least = max(low - beyond, 0.0) if low >= 0 and self.sign_matters else low - beyond
        return (number >= least or self.low is not None) and (number <= high + beyond or self.high is not None)

    def _slips(self, number: float) -> list[float]:
        """The number with the decimal point or the sign where it may have been meant, if training saw such ones: the
        smallest slip alone."""
        assert self.seen is not None
        low, high = self.seen
        signs = (number, -number) if number < 0 <= low else (number,)
        for places in range(MOST_PLACES + 1):
            meant = [float(f"{sign * 10.0**power:.12g}") for sign in signs for power in {places, -places}]
            if found := [other for other in meant if low <= other <= high]:
                return found
        return []

    def without_unit(self, text: str) -> str:
        """The text without the unit, which people may write too, and in the plural."""
        unit = re.escape(self.unit)
        return re.sub(rf"^{unit}|{unit}s?$", "", text.strip()).strip() if unit else text.strip()

    def read(self, answer: Any) -> float:
        """The number in an answer; raises ValueError if there is none."""
        try:
            number = float(with_point(self.without_unit(answer)) if isinstance(answer, str) else answer)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not abs(number) <= LARGEST_ANSWER or isinstance(answer, bool):
            which = " Is the comma a decimal one? Write a point instead; if not, leave it out."
            may_be_two = isinstance(answer, str) and re.fullmatch(THOUSAND_OR_DECIMAL, self.without_unit(answer))
            raise ValueError(f"The answer to '{self.text}' is a number, not {answer!r}.{which if may_be_two else ''}")
        return number


@register
@dataclass(frozen=True)
class Date(Number):
    """A query answered by a date, which is a number of days since 1970."""

    noun = "a date"
    sign_matters = False
    least_margin = 366.0  # people are asked after training, and dates move on
    pattern: str = ISO
    """The `strptime` format of the dates in the data. ISO dates such as 2024-12-31 are always read, too, and other
    formats where they are unambiguous."""
    has_time: bool = False
    """Whether the time of day matters."""

    def _slips(self, number: float) -> list[float]:
        return []  # a date has no decimal point

    def as_given(self, number: float) -> str:
        return self.in_words(number)

    def restored(self, number: float, uncertainty: float) -> str:
        return self.in_words(number)

    def written(self, number: float) -> str:
        try:
            # Single precision keeps dates of a few decades to the minute.
            date = EPOCH + (round(number * MINUTES) / MINUTES if self.has_time else round(number)) * DAY
        except OverflowError:
            return f"{number:.0f} days from {EPOCH:%Y-%m-%d}"
        return f"{date:%Y-%m-%d %H:%M}" if self.has_time else f"{date:%Y-%m-%d}"

    def read(self, answer: Any) -> float:
        """The days in an answer, a date or its text; raises ValueError if it is neither."""
        if isinstance(answer, datetime.date):
            return days_since_1970(answer)
        text = str(answer).strip()
        for read in (datetime.datetime.fromisoformat, lambda text: datetime.datetime.strptime(text, self.pattern)):
            try:
                return days_since_1970(read(text))
            except (ValueError, OverflowError):  # a time zone may lead out of all years
                continue
        (days,) = read_otherwise([text], self.pattern)
        if math.isnan(days):
            raise ValueError(f"The answer to '{self.text}' is a date such as 2024-12-31, not {answer!r}.")
        return float(days)


@register
@dataclass(frozen=True)
class Time(Number):
    """A query answered by a time of day, which is a number of hours: 14:30 is 14.5."""

    unit: str = field(default="hours", kw_only=True)

    def without_unit(self, text: str) -> str:
        if time := CLOCK.fullmatch(text.strip()):
            hours, minutes, seconds = (float(part or 0) for part in time.groups()[:3])
            if time[4]:
                hours = hours % 12 + 12 * (time[4] in "pP")
            return str(hours + minutes / 60 + seconds / 3600)
        return super().without_unit(text)


def yes_no(name: str, text: str = "", cost: float = 1.0) -> Choice:
    """A yes/no question about a column of 0 and 1 (or False and True)."""
    return Choice(name, text or wording(name, "?"), ("no", "yes"), cost, values=(0, 1))


def looks_ticked(name: str, value: Any) -> bool:
    """Whether a value marks that something holds, and does not say what: a tick, a word for yes, or the very name of
    its column."""
    word = fold(value)
    return word in TICKS or word in YES_WORDS or word == fold(name) or word == fold(wording(name, ""))


def tick(name: str, value: Any) -> Choice:
    """A yes/no question about a column that holds this value or nothing: an empty cell means no."""
    word = fold(value)
    if word in ("1", "true"):
        return replace(yes_no(name), empty_means=0)
    choices = next((pair for pair in NO_AND_YES if pair[1] == word), NO_AND_YES[0])
    text = wording(name, "?") if looks_ticked(name, value) else wording(name, f": {value}?")
    return Choice(name, text, choices, values=(choices[0], value), empty_means=choices[0])


def fold(value: Any) -> str:
    """What values have in common that differ only in case, in spaces around them, or in being text or number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().casefold()


def parse_choice(query: Choice, answer: Any) -> int:
    """The place of a person's answer in the list: the value itself, its words in any case, or a unique beginning of
    them."""
    for options in (query.values, query.choices):
        if answer in options:
            return options.index(answer)
    if (place := query.place_of()(answer)) is not None:
        return place
    word = fold(answer)
    begins = [i for i, choice in enumerate(query.choices) if word and fold(choice).startswith(word)]
    if len(begins) != 1:
        raise ValueError(f"The answer to '{query.text}' is one of {listed(query.offered, 12)}, not {answer!r}.")
    return begins[0]


def says_not_given(query: Choice | Number, answer: Any) -> bool:
    """Whether a person's answer is that the value is missing, where that is an answer."""
    if not query.may_be_missing or fold(answer) != NOT_GIVEN_TEXT:
        return False
    return isinstance(query, Number) or query.place_of()(answer) is None  # data may have a choice of this name


def format_number(number: float, digits: int = 6) -> str:
    """A number to the six digits that single precision keeps, or to more, without an exponent unless it is very small
    or large."""
    rounded = float(f"{number:.{digits}g}")
    if 1e-4 <= abs(rounded) < 1e15 or not rounded:
        return np.format_float_positional(rounded, trim="-")
    return f"{rounded:.{digits}g}"


BETWEEN_THOUSANDS = r"[\s\u00a0\u202f'’]"
GROUPED_BY_SPACES = rf"[+-]?[1-9]\d{{0,2}}(?:{BETWEEN_THOUSANDS}\d{{3}})+(?:[.,]\d+)?"
"""1 234 567 and 1'234.5."""
MINUS = "\u2212"
"""The minus sign of typography, which people copy and some programs write for a hyphen."""
THOUSAND_OR_DECIMAL = r"[+-]?[1-9]\d{0,2},\d{3}"
"""1,200, whose comma may be either."""


def with_point(text: str) -> str:
    """A number as text, with a point for a decimal comma and without separators of thousands: 80,5 and 1.200,5 and
    1 200, but not 1,200, which may be a thousand."""
    text = text.strip().replace(MINUS, "-")
    if re.fullmatch(GROUPED_BY_SPACES, text):
        text = re.sub(BETWEEN_THOUSANDS, "", text)
    for thousands, point in (".,", ",."):
        groups = rf"[+-]?[1-9]\d{{0,2}}(\{thousands}\d{{3}})+"
        if re.fullmatch(rf"{groups}\{point}\d+", text) or (text.count(thousands) > 1 and re.fullmatch(groups, text)):
            text = text.replace(thousands, "")
    is_decimal = re.fullmatch(r"[+-]?\d*,\d+", text) and not re.fullmatch(THOUSAND_OR_DECIMAL, text)
    return text.replace(",", ".") if is_decimal else text


def doubt_of_point(query: Number, answer: Any) -> Doubt | None:
    """Why the point of an answer such as 2.500 may stand between thousands: training saw that many, and no number that
    small, or none with three decimals."""
    text = query.without_unit(answer).replace(MINUS, "-") if isinstance(answer, str) else ""
    if query.seen is None or not re.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}", text):
        return None
    (low, high), number, thousands = query.seen, float(text), float(text.replace(".", ""))
    if not low <= thousands <= high or (low <= number <= high and query.decimals > 2):
        return None
    return Doubt(query.name, query.text, query.as_given(number), "", (format_number(thousands, 15),))


def with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}".strip() if unit else text


def _range_text(least: str | None, most: str | None) -> str:
    if least is None:
        return "" if most is None else f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"


def listed(items: Sequence[Any], most: int = 6) -> str:
    """A list for a message, cut where it would get long. Items that hold commas are divided by semicolons."""
    texts = [str(item) for item in items[:most]]
    shown = ("; " if any(", " in text for text in texts) else ", ").join(texts)
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")
