"""One column of a table as a query, answered by one of a list or by a number; and how a person's answer is read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pursuit.queries.query_set import Query
from pursuit.registry import register

NO_AND_YES = [
    ("no", "yes"),
    ("n", "y"),
    ("false", "true"),
    ("f", "t"),
    ("0", "1"),
    ("absent", "present"),
    ("negative", "positive"),
]


@register
@dataclass(frozen=True)
class Choice(Query):
    """A query answered by one of a list; with two choices it is a yes/no question, the second being yes."""

    values: tuple[str | int | float | bool, ...] = ()
    """The choices as they stand in the data, in the order of `choices`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != len(self.choices):
            object.__setattr__(self, "values", self.choices)


@register
@dataclass(frozen=True)
class Number(Query):
    """A query answered by a number, which networks see as (number - centre) / spread.

    Beside that they see a code: for every piece between two neighbouring `edges`, how much of it lies below the number,
    from 0 to 1. A threshold, or a peak between two of them, is then a sum of a few inputs.
    """

    centre: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()
    low: float | None = None
    """The least that is accepted; None: any number."""
    high: float | None = None
    seen: tuple[float, float] | None = None
    """The least and the greatest number in the training rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(
                f"The range of '{self.name}' goes from the least to the greatest number that is accepted, but "
                f"{format_number(self.low)} is not below {format_number(self.high)}."
            )

    @property
    def expected(self) -> str:
        """The range that is accepted, or else that of the training rows, and the unit."""
        low, high = (self.low, self.high) if self.has_range else self.seen or (None, None)
        return with_unit(_range_text(low, high), self.unit)

    @property
    def has_range(self) -> bool:
        return self.low is not None or self.high is not None

    def accepts(self, number: float) -> bool:
        """Whether a number is in the range that is accepted."""
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)


def yes_no(name: str, text: str = "", cost: float = 1.0) -> Choice:
    """A yes/no question about a column of 0 and 1 (or False and True)."""
    return Choice(name, text or wording(name, "{}?"), ("no", "yes"), cost, values=(0, 1))


def wording(name: str, pattern: str) -> str:
    """A question made from a column's name, unless the name is a question already."""
    words = name.strip().replace("_", " ")
    return words if words.endswith("?") else pattern.format(words)


def parse_number(query: Number, answer: Any) -> float:
    try:
        # A person may write the unit, too.
        number = float(answer.strip().removesuffix(query.unit) if isinstance(answer, str) else answer)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"The answer to '{query.text}' is a number, not {answer!r}.")
    if not query.accepts(number):
        raise ValueError(
            f"The answer to '{query.text}' is {query.expected}, not {with_unit(format_number(number), query.unit)}."
        )
    return number


def parse_choice(query: Choice, answer: Any) -> int:
    """The place of a person's answer in the list: the value itself, its words in any case, or a unique beginning of
    them."""
    for options in (query.values, query.choices):
        if answer in options:
            return options.index(answer)
    word = str(answer).strip().lower()
    words = [choice.strip().lower() for choice in query.choices]
    if word in words:
        return words.index(word)
    if tuple(words) in NO_AND_YES:
        for pair in NO_AND_YES:
            if word in pair:
                return pair.index(word)
    begins = [i for i, choice in enumerate(words) if word and choice.startswith(word)]
    if len(begins) != 1:
        raise ValueError(f"The answer to '{query.text}' is one of {listed(list(query.choices), 12)}, not {answer!r}.")
    return begins[0]


def format_number(number: float) -> str:
    """A number to the six digits that single precision keeps, without an exponent unless it is very small or large."""
    rounded = float(f"{number:.6g}")
    return (
        np.format_float_positional(rounded, trim="-") if 1e-4 <= abs(rounded) < 1e12 or not rounded else f"{rounded:g}"
    )


def with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}".strip() if unit else text


def _range_text(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f"at most {format_number(high)}"
    return f"at least {format_number(low)}" if high is None else f"{format_number(low)} to {format_number(high)}"


def listed(items: Sequence[Any], most: int = 6) -> str:
    """A list for a message, cut where it would get long."""
    shown = ", ".join(str(item) for item in items[:most])
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")
