"""Which parts of a column are asked for: the items of cells that hold several, the frequent words of texts, and
whether a date is asked for by its weekday or as an age."""

import datetime
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pursuit.queries.column import Date, days_since_1970, fold
from pursuit.queries.column_types import date_query
from pursuit.queries.parts import Age, Contains, Weekday, age_query, item_query, weekday_query, weekdays, word_query
from pursuit.queries.reading import MISSING_WORDS, Distinct, date_days, distinct_values
from pursuit.queries.terms import term_of, terms_in, words

SEPARATORS = (";", "|", "\n", ",")
MOST_ITEMS, LONGEST_ITEM = 50, 60
SHARE_SEVERAL = 0.05
"""Cells of this share of the rows have several items, where a column is one of several choices."""
LEAST_WITH, LEAST_SHARE_WITH = 3, 0.01
"""An item is asked for that at least as many rows, and this share of them, have."""
LEAST_WORDS = 3
"""Texts have at least this many words on average; what has fewer is a name."""
LEAST_MENTIONS, LEAST_SHARE_MENTIONS, MOST_SHARE_MENTIONS = 10, 0.02, 0.6
"""A word is asked for that at least as many rows, and this share of them, mention, and no more than the last share."""
MOST_WORDS = 20
BIRTH = re.compile(
    r"(^|[\W_])(born|birth|birthday|birthdate|dob|geboren|geburt\w*|naissance|nacimiento|nascita)($|[\W_])", re.I
)
LEAST_BITS = 0.01
"""A weekday that tells less than this is not worth asking for in place of the date."""
LEAST_DATES = 20


def item_queries(name: str, distinct: Distinct, even_if_few: bool = False) -> list[Contains]:
    """A yes/no question for each frequent item, where cells hold several; none where they do not, as far as one can
    see, or, `even_if_few`, where none of them does."""
    values, counts, _ = distinct
    if not len(values) or not all(isinstance(value, str) for value in values):
        return []
    for separator in SEPARATORS:
        lists = [[item for part in value.split(separator) if (item := part.strip())] for value in values]
        if not (even_if_few and any(len(items) > 1 for items in lists)) and not _are_several(lists, counts, separator):
            continue
        n_rows: Counter[str] = Counter()
        spellings: dict[str, Counter[str]] = {}
        for items, count in zip(lists, counts.tolist(), strict=True):
            for word, item in {fold(item): item for item in items}.items():
                n_rows[word] += count
                spellings.setdefault(word, Counter())[item] += count
        least = 1 if even_if_few else max(LEAST_WITH, LEAST_SHARE_WITH * counts.sum())
        asked = [word for word, n in n_rows.most_common() if n >= least and word not in MISSING_WORDS]
        if len(asked) > 1:
            return [item_query(name, spellings[word].most_common(1)[0][0], separator) for word in asked]
    return []


def _are_several(lists: Sequence[Sequence[str]], counts: np.ndarray, separator: str) -> bool:
    """Whether cells are lists of items: as few items as cells, each short, in lists of several lengths. Commas stand in
    other texts too, so items must also change their places."""
    of_several = np.array([len(items) > 1 for items in lists])
    if of_several.sum() < 2 or counts[of_several].sum() < SHARE_SEVERAL * counts.sum():
        return False
    positions: dict[str, set[int]] = {}
    for items in lists:
        for position, item in enumerate(items):
            positions.setdefault(fold(item), set()).add(position)
    if not 2 <= len(positions) <= min(MOST_ITEMS, len(lists)) or max(map(len, positions)) > LONGEST_ITEM:
        return False
    do_lengths_vary = len({len(items) for items in lists}) > 1
    n_moving = sum(len(places) > 1 for places in positions.values())
    if separator == ",":
        return do_lengths_vary and 2 * n_moving >= len(positions)
    return do_lengths_vary or n_moving > 0


def word_queries(name: str, distinct: Distinct) -> list[Contains]:
    """A yes/no question for each frequent word of a column of texts; none where it holds no texts."""
    values, counts, _ = distinct
    if not len(values) or not all(isinstance(value, str) for value in values):
        return []
    n_rows = int(counts.sum())
    if sum(len(value.split()) * n for value, n in zip(values, counts, strict=True)) < LEAST_WORDS * n_rows:
        return []
    n_mentions: Counter[str] = Counter()
    frequency: Counter[str] = Counter()
    for value, n in zip(values, counts.tolist(), strict=True):
        n_mentions.update(dict.fromkeys(terms_in(value), n))
        frequency.update(dict.fromkeys(words(value), n))
    usual: dict[str, str] = {}
    for word, _ in frequency.most_common():
        usual.setdefault(term_of(word), word)
    least = max(LEAST_MENTIONS, LEAST_SHARE_MENTIONS * n_rows)
    # Of equally frequent words the first in the alphabet, whatever the order of the rows.
    found = sorted((-n, term) for term, n in n_mentions.items() if least <= n <= MOST_SHARE_MENTIONS * n_rows)
    return [word_query(name, term, usual[term]) for _, term in found[:MOST_WORDS]]


def queries_of_parts(name: str, series: pd.Series, column_type: str) -> list[Contains | Weekday | Age]:
    """The queries that a column is if it is asked for in parts: "choices", "words", "weekday" or "age"; raises
    ValueError where its values contradict that."""
    if column_type in ("weekday", "age"):
        query = date_query(name, series)
        return [_weekday_of(query, series) if column_type == "weekday" else _age_of(query, series)]
    distinct = distinct_values(series)
    found = item_queries(name, distinct, even_if_few=True) if column_type == "choices" else word_queries(name, distinct)
    if not found:
        wanted = "items between ; | or ," if column_type == "choices" else f"words in {LEAST_MENTIONS} rows or more"
        raise ValueError(
            f"Column '{name}' has no {wanted} to ask for: ask for it as another type, or leave it out: "
            f"column_types={{{name!r}: 'skip'}}."
        )
    return list(found)


def best_date_query(name: str, series: pd.Series, labels: np.ndarray | None) -> Date | Weekday | Age:
    """How a column of dates is asked for: dates of birth as an age, others by their weekday where that tells more of
    the `labels` (N,), whole numbers of which those below 0 do not count, and else as they are."""
    query = date_query(name, series)
    if BIRTH.search(name):
        return _age_of(query, series)
    is_better = labels is not None and is_weekday_better(date_days(series, query.pattern), labels)
    return _weekday_of(query, series) if is_better else query


def _age_of(query: Date, series: pd.Series) -> Age:
    """The age that a date is at the beginning of this year, or on the last of them if that is later."""
    last = float(np.nanmax(date_days(series, query.pattern), initial=0.0))
    return age_query(
        query.name, query.pattern, max(days_since_1970(datetime.date(datetime.date.today().year, 1, 1)), last)
    )


def _weekday_of(query: Date, series: pd.Series) -> Weekday:
    days = date_days(series, query.pattern)
    return weekday_query(query.name, query.pattern, np.unique(weekdays(days[~np.isnan(days)])))


def is_weekday_better(days: np.ndarray, labels: np.ndarray) -> bool:
    """Whether weekdays tell more of labels (N,) than as many ranges of dates do."""
    counted = ~np.isnan(days) & (labels >= 0)
    if counted.sum() < LEAST_DATES:
        return False
    days, labels = days[counted], labels[counted]
    edges = np.unique(np.quantile(days, np.arange(1, 7) / 7))
    by_weekday, by_date = (_bits(codes, labels) for codes in (weekdays(days), np.searchsorted(edges, days)))
    return by_weekday >= LEAST_BITS and by_weekday > by_date


def _bits(codes: np.ndarray, labels: np.ndarray) -> float:
    """The mutual information of two whole numbers, without what few rows seem to tell by chance."""
    table = np.zeros((codes.max() + 1, labels.max() + 1))
    np.add.at(table, (codes, labels), 1)
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    joint = table / table.sum()
    independent = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    there = joint > 0
    bits = float((joint[there] * np.log2(joint[there] / independent[there])).sum())
    return bits - (table.shape[0] - 1) * (table.shape[1] - 1) / (2 * np.log(2) * table.sum())
