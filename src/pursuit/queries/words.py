"""Words as queries: is this word in the text? Words are compared by their stems, for English texts."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from pursuit.queries.column import Choice, Number, yes_no
from pursuit.queries.columns import ColumnQueries
from pursuit.queries.parts import term_of, usual_words, words
from pursuit.queries.query_set import Answers
from pursuit.queries.reading import Unknown
from pursuit.registry import register


@register
class WordQueries(ColumnQueries):
    """One yes/no query a term: is a word with this stem in the text?

    An answer is 1 or -1, and 0 is left for what is not known, so networks need no mask to tell them apart.
    """

    reads_texts = True
    reads_columns = False

    def __init__(self, columns: Sequence[Choice | Number], mask: bool = False, unknown: Unknown = "warn"):
        other = next((c.name for c in columns if not isinstance(c, Choice) or c.values != (0, 1)), None)
        if other is not None:
            raise ValueError(f"Words are asked for by yes/no questions, but '{other}' is not one: use word_query.")
        super().__init__(columns, mask, unknown)

    @classmethod
    def from_texts(
        cls, texts: Any, n_words: int = 1000, min_documents: int = 10, place: str = "text", mask: bool = False
    ) -> "WordQueries":
        """The `n_words` most frequent terms among those in at least `min_documents` of the texts, in alphabetical
        order.

        Stop words, single letters and single digits are left out; missing texts (None or NaN) do not count. `place` is
        the noun of the wording: "Is the word 'tax' in the headline?"
        """
        from sklearn.feature_extraction.text import CountVectorizer

        if n_words < 1 or min_documents < 1:
            raise ValueError(f"n_words and min_documents are at least 1, not {n_words} and {min_documents}.")
        rows = _as_texts(texts)
        if rows is None:
            raise ValueError("A list, Series or array of texts is expected, one text a row.")
        frequency = Counter[str]()  # of every word, in order of first use

        def count_and_stem(text: str) -> list[str]:
            found = words(text)
            frequency.update(found)
            return [term for word in found if (term := term_of(word))]

        counter = CountVectorizer(analyzer=count_and_stem, min_df=min_documents)
        try:
            counted = counter.fit_transform([text for text in rows if text is not None])  # (texts, terms), sparse
        except ValueError:
            raise ValueError(
                f"No word but stop words is in {min_documents} or more of the {len(rows)} texts: lower min_documents, "
                "or give more texts."
            ) from None
        terms = counter.get_feature_names_out()  # in alphabetical order
        counts = np.asarray(counted.sum(axis=0)).ravel()
        # The counter's max_features would leave to chance which of equally frequent terms are taken.
        chosen = np.sort(np.argsort(-counts, kind="stable")[:n_words])
        usual = usual_words(frequency)
        return cls([word_query(term, usual[term], place) for term in terms[chosen]], mask)

    def answers(self, data: Any) -> Answers:
        """Read texts (a list, Series or array of str), or a table of 0 and 1 with one column a term.

        A text without any words has the answer no to all queries; a missing text (None or NaN) has no answers.
        """
        from sklearn.feature_extraction.text import CountVectorizer

        texts = _as_texts(data, n_columns=len(self))
        if texts is None:
            return super().answers(data)
        index_of = self.index_of

        def terms_asked_for(text: str) -> list[str]:
            return [term for word in words(text) if (term := term_of(word)) in index_of]

        counter = CountVectorizer(analyzer=terms_asked_for, vocabulary=index_of)
        rows, columns = counter.transform(text or "" for text in texts).nonzero()
        x = np.full((len(texts), len(self)), -1, dtype=np.float32)
        x[rows, columns] = 1
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
            "NaN) if it is not known."
        )
    return texts
