"""The words of a text, and what each counts as: its stem, for English texts."""

import re
import unicodedata
from functools import cache, lru_cache

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


def _stem(word: str) -> str:
    import snowballstemmer  # type: ignore[import-untyped]

    # A stemmer holds the word it works on, so threads must not share one; making one takes next to no time.
    return word if word in _NOT_STEMMED else snowballstemmer.stemmer("porter").stemWord(word)


@cache
def _stop_terms() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS) | {_stem(word) for word in ENGLISH_STOP_WORDS}
