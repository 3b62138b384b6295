"""Queries about part of what stands in a cell: an item of several, a word of a text, the weekday or the age of a
date. Several of them may read the same column."""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from pursuit.queries.column import HOW_OLD, MENTIONED, WHICH_DAY, Choice, Number, fold, wording, yes_no
from pursuit.queries.dates import ISO
from pursuit.registry import register

_ENDING = r"(?:s|m|re|ve|ll|d)(?![^\W_])"  # of "Obama's", "we've": cut off, while "don't" stays one word
_WORD = re.compile(
    r"((?:[^\W\d_]\.){2,}"  # u.s.
    r"|\d+(?:[.,]\d+)+"  # 1,000
    rf"|[^\W_]+(?:'(?!{_ENDING})[^\W_]+)*)"
    rf"(?:'{_ENDING})*"
)
_SPELLING = str.maketrans({"’": "'", "‘": "'", "\u00ad": None, "\u200b": None})  # soft hyphens and zero-width spaces go
_NOT_STEMMED = frozenset({"news"})  # whose stem "new" is another word


def words(text: str) -> list[str]:
    """The words of a text in lower case, without endings such as 's; "u.s.", "don't" and "1,000" are words."""
    return _WORD.findall(unicodedata.normalize("NFC", text.lower()).translate(_SPELLING))


@lru_cache(maxsize=2**18)
def term_of(word: str) -> str:
    """What a word counts as: its stem by Porter's rules; empty for stop words, single letters and single digits."""
    stem = _stem(word)
    return "" if len(word) == 1 or stem in _stop_terms() else stem


@lru_cache(maxsize=2**14)
def terms_in(text: str) -> frozenset[str]:
    """What the words of a text count as, without stop words."""
    return frozenset(term for word in words(text) if (term := term_of(word)))


def usual_words(n_uses: Counter[str]) -> dict[str, str]:
    """The most used word that counts as each term; of equally frequent ones the one used first."""
    usual: dict[str, str] = {}
    for word, _ in n_uses.most_common():
        usual.setdefault(term_of(word), word)
    return usual


def _stem(word: str) -> str:
    import snowballstemmer  # type: ignore[import-untyped]

    # A stemmer holds the word it works on, so threads must not share one; making one takes next to no time.
    return word if word in _NOT_STEMMED else snowballstemmer.stemmer("porter").stemWord(word)


@cache
def _stop_terms() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS) | {_stem(word) for word in ENGLISH_STOP_WORDS}


BETWEEN = ": "
"""Stands in the name of such a query between the column and the part."""
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FIRST_WEEKDAY = 3
"""1970 began on a Thursday."""
DAYS_A_YEAR = 365.25


def items_in(cell: str, separator: str) -> list[str]:
    """The items of a cell. What stands in brackets is not divided."""
    parts = re.findall(rf"(?:\([^()]*\)|[^{re.escape(separator)}])+", cell)
    return [item for part in parts if (item := part.strip())]


@register
@dataclass(frozen=True)
class Contains(Choice):
    """A yes/no question: is this item among those of a cell, or this word in its text?"""

    part: str = ""
    """The item, or the stem of the word."""
    separator: str = ""
    """What stands between items; empty where words are looked for."""

    def holds(self, cell: Any) -> bool:
        if not self.separator:
            return self.part in terms_in(str(cell))
        return fold(self.part) in {fold(item) for item in items_in(str(cell), self.separator)}


@register
@dataclass(frozen=True)
class Weekday(Choice):
    """On which day of the week a date is."""

    pattern: str = ISO
    """How dates are written in the data."""

    def places(self, days: np.ndarray) -> np.ndarray:
        """Where in the list the weekdays of dates (N,) in days since 1970 stand; NaN where nowhere."""
        place = {value: i for i, value in enumerate(self.values)}
        of_weekday = np.array([place.get(name, np.nan) for name in WEEKDAYS])
        there = ~np.isnan(days)
        read = np.full(len(days), np.nan)
        read[there] = of_weekday[weekdays(days[there])]
        return read


@register
@dataclass(frozen=True)
class Age(Number):
    """How many whole years lie between a date and the day `on`. People say the years, data have the date."""

    pattern: str = ISO
    on: float = 0.0
    """In days since 1970."""

    def years(self, days: np.ndarray) -> np.ndarray:
        return np.floor((self.on - days) / DAYS_A_YEAR)


def weekdays(days: np.ndarray) -> np.ndarray:
    """The weekday of dates in days since 1970: 0 is Monday."""
    return (np.floor(days).astype(int) + FIRST_WEEKDAY) % len(WEEKDAYS)


def item_query(column: str, item: str, separator: str) -> Contains:
    """Is this item among those of a cell? An empty cell has none."""
    name = column.strip()  # which may be a question already
    text = f"{name} {item}?" if "?" in name else wording(column, f": {item}?")
    asked = Contains(**vars(yes_no(f"{column}{BETWEEN}{item}", text)), part=item, separator=separator)
    return replace(asked, column=column, empty_means=0)


def word_query(column: str, term: str, word: str) -> Contains:
    """Is a word with this stem in the text of a cell?"""
    asked = yes_no(f"{column}{BETWEEN}{word}", wording(column, MENTIONED.format(word)))
    return replace(Contains(**vars(asked), part=term), column=column)


def weekday_query(column: str, pattern: str, seen: np.ndarray) -> Weekday:
    """On which of the weekdays that were `seen` (0 is Monday) is the date?"""
    names = tuple(WEEKDAYS[i] for i in np.unique(seen))
    return Weekday(column, wording(column, WHICH_DAY), names, pattern=pattern)


def age_query(column: str, pattern: str, on: float) -> Age:
    """How many years ago is the date?"""
    return Age(column, wording(column, HOW_OLD), unit="years", pattern=pattern, on=on)
