"""Words as queries: is this word in the text? Words are compared by their stems, for English texts."""

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from pursuit.queries.columns import Choice, ColumnQueries, Number, yes_no
from pursuit.queries.queryset import Answers

_ENDING = r"(?:s|m|re|ve|ll|d)(?![^\W_])"  # of "Obama's", "we've": cut off, while "don't" stays one word
_WORD = re.compile(
    r"((?:[^\W\d_]\.){2,}"  # u.s.
    r"|\d+(?:[.,]\d+)+"  # 1,000
    rf"|[^\W_]+(?:'(?!{_ENDING})[^\W_]+)*)"
    rf"(?:'{_ENDING})*"
)
_SPELLING = str.maketrans({"’": "'", "‘": "'", "\u00ad": None, "\u200b": None})  # soft hyphens and the like go
_UNLIKE_THEIR_STEM = frozenset({"news"})  # whose stem "new" is quite another word


class WordQueries(ColumnQueries):
    """One yes/no query a term: is a word with this stem in the text?

    An answer is 1 or -1, and 0 is left for what is not known, so networks need no mask to tell them apart.
    """

    def __init__(self, columns: Sequence[Choice | Number], mask: bool = False):
        other = next((c.name for c in columns if not isinstance(c, Choice) or c.values != (0, 1)), None)
        if other is not None:
            raise ValueError(f"Words are asked for by yes/no questions, but '{other}' is none: use word_query.")
        super().__init__(columns, mask)

    @classmethod
    def from_texts(
        cls, texts: Any, n_words: int = 1000, min_documents: int = 10, place: str = "text", mask: bool = False
    ) -> "WordQueries":
        """The `n_words` most frequent terms among those in at least `min_documents` of the texts, by the alphabet.

        Stop words, single letters and single digits are left out; missing texts (None or NaN) do not count. `place` is
        the noun of the wording: "Is the word 'tax' in the headline?"
        """
        if n_words < 1 or min_documents < 1:
            raise ValueError(f"n_words and min_documents are at least 1, not {n_words} and {min_documents}.")
        rows = _as_texts(texts)
        if rows is None:
            raise ValueError("A list, Series or array of texts is expected, one text a row.")
        tokens = _tokens(text for text in rows if text is not None)
        of_word, terms = pd.factorize(np.array([term_of(word) for word in tokens.distinct], dtype=object))
        frequency = np.bincount(tokens.words, minlength=len(of_word))  # of every distinct word
        of_token = of_word[tokens.words]
        counts = np.bincount(of_token, minlength=len(terms))
        pairs = np.unique(tokens.rows * len(terms) + of_token)  # one number for every term of every text
        n_documents = np.bincount(pairs % max(len(terms), 1), minlength=len(terms))
        fit = [i for i, name in enumerate(terms) if name and n_documents[i] >= min_documents]
        if not fit:
            raise ValueError(
                f"No word but stop words is in {min_documents} or more of the {len(rows)} texts: lower min_documents, "
                "or give more texts."
            )
        fit.sort(key=lambda i: (-counts[i], terms[i]))
        usual: dict[int, str] = {}  # the most frequent word of every term
        for i in np.argsort(-frequency, kind="stable"):
            usual.setdefault(int(of_word[i]), tokens.distinct[i])
        chosen = sorted(fit[:n_words], key=lambda i: terms[i])
        return cls([word_query(terms[i], usual[i], place) for i in chosen], mask)

    def answers(self, data: Any) -> Answers:
        """Read texts (a list, Series or array of str), or a table of 0 and 1 with one column a term.

        A text without any words has the answer no to all queries; a missing text (None or NaN) has no answers.
        """
        texts = _as_texts(data, n_columns=len(self))
        if texts is None:
            return super().answers(data)
        tokens = _tokens(text or "" for text in texts)
        columns = [self.number_of.get(term_of(word), -1) for word in tokens.distinct]
        of_token = np.array(columns, dtype=np.int64)[tokens.words]  # (T,), -1 where nobody asks for the word
        x = np.full((len(texts), len(self)), -1, dtype=np.float32)
        x[tokens.rows[of_token >= 0], of_token[of_token >= 0]] = 1
        available = np.ones(x.shape, dtype=bool)
        missing = [i for i, text in enumerate(texts) if text is None]
        x[missing], available[missing] = 0, False
        return Answers(torch.from_numpy(x), torch.from_numpy(available))

    def rescaled(self, data: Any) -> "WordQueries":
        """The same queries: there are no numbers among them."""
        return self


def word_query(term: str, word: str = "", place: str = "text") -> Choice:
    """The yes/no query for a term; `word` is a full word that shows what a stem such as 'senat' stands for."""
    hint = f" (as in '{word}')" if word and word != term else ""
    return yes_no(term, f"Is the word '{term}'{hint} in the {place}?")


def words(text: str) -> list[str]:
    """The words of a text in lower case, without endings such as 's; "u.s.", "don't" and "1,000" are words."""
    return _WORD.findall(unicodedata.normalize("NFC", text.lower()).translate(_SPELLING))


@lru_cache(maxsize=2**18)
def term_of(word: str) -> str:
    """What a word counts as, its stem by Porter's rules; empty for stop words, single letters and single digits."""
    stem = _stem(word)
    return "" if len(word) == 1 or stem in _stop_terms() else stem


def _stem(word: str) -> str:
    import snowballstemmer  # type: ignore[import-untyped]

    # A stemmer keeps its word in itself, so threads must not share one; making one takes next to no time.
    return word if word in _UNLIKE_THEIR_STEM else snowballstemmer.stemmer("porter").stemWord(word)


@cache
def _stop_terms() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS) | {_stem(word) for word in ENGLISH_STOP_WORDS}


class _Tokens(NamedTuple):
    """The words of many texts, one after the other."""

    rows: np.ndarray  # (T,) the text a word is from
    words: np.ndarray  # (T,) its place in `distinct`
    distinct: list[str]


def _tokens(texts: Iterable[str]) -> _Tokens:
    number: defaultdict[str, int] = defaultdict(lambda: len(number))
    numbers, lengths = array("q"), array("q")
    for text in texts:
        found = words(text)
        lengths.append(len(found))
        numbers.extend([number[word] for word in found])
    rows = np.repeat(np.arange(len(lengths)), np.array(lengths, dtype=np.int64))
    return _Tokens(rows, np.array(numbers, dtype=np.int64), list(number))


def _as_texts(data: Any, n_columns: int | None = None) -> list[str | None] | None:
    """The data as a list of texts, None for a missing one; or None if they are a table instead.

    A single column is taken for texts, unless a table of `n_columns` = 1 is expected and no text is in it.
    """
    if isinstance(data, str):
        raise ValueError("A list of texts is expected, not a single text: put it into a list.")
    values = data if isinstance(data, pd.DataFrame | pd.Series | np.ndarray) else np.array(data, dtype=object)
    if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
        return None
    flat = np.asarray(values, dtype=object).ravel()
    texts = [value if isinstance(value, str) else None for value in flat.tolist()]
    if values.ndim == 2 and n_columns == 1 and all(text is None for text in texts):
        return None  # a table of 0 and 1 for a single word
    if not texts:
        raise ValueError("There are no texts: at least one is needed.")
    is_missing = pd.isna(flat)
    wrong = next((i for i, text in enumerate(texts) if text is None and not is_missing[i]), None)
    if wrong is not None:
        raise ValueError(
            f"Texts are expected, but row {wrong} holds {flat[wrong]!r}. Turn it into text, or leave it empty (None or "
            "NaN) to say that nothing is known of it."
        )
    return texts
