"""Which rows of a table are held out to measure on: random ones, whole groups, or the latest. All of it follows from a
seed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pursuit.estimators.lazy_imports import without_statistics
from pursuit.queries.column import fold
from pursuit.queries.column_types import date_pattern
from pursuit.queries.dates import ISO
from pursuit.queries.reading import (
    MISSING_WORDS,
    columns_of,
    date_days,
    distinct_values,
    is_plain_number,
    plain_numbers,
)
from pursuit.tables.csv import as_numbers
from pursuit.training.held_out import split_by_group

USUAL_SHARE = 0.2
"""Of the rows are held out to measure on, where they can be and nobody says otherwise."""
FEW_COPIES = 0.01
"""A smaller share of held-out rows that are copies of training rows does not matter."""
Rows = tuple[np.ndarray, np.ndarray]
"""Row numbers for training and for testing, both rising."""


@dataclass(frozen=True)
class Division:
    """What decides whether rows may be on different sides: at most one of `groups` and `times` is given, both as
    numbers, negative and NaN where they are missing."""

    y: np.ndarray
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    column: str = ""
    """The column of groups or times."""

    def take(self, rows: np.ndarray) -> "Division":
        """The same for some of the rows."""
        groups, times = (None if values is None else values[rows] for values in (self.groups, self.times))
        return Division(self.y[rows], groups, times, self.column)

    def split(self, share: float, seed: int) -> Rows:
        """Row numbers to train on and to test on. A label of test rows is a label of training rows too; rows whose
        label cannot be both are training rows, except for the latest ones, which are in neither."""
        n_test = round(share * len(self.y))
        if share > 0 and n_test > len(self.y) - 2:
            if len(self.y) < 3:
                rows = "1 row has" if len(self.y) == 1 else f"{len(self.y)} rows have"
                raise ValueError(f"Only {rows} a label, and a model learns from many: give a table with more rows.")
            raise ValueError(
                f"A test share of {share:g} leaves {len(self.y) - n_test} of {len(self.y):,} rows to train on: choose "
                "a smaller one, such as 0.2."
            )
        if n_test == 0:
            return np.arange(len(self.y)), np.arange(0)
        if self.times is not None:
            return _latest(self.y, self.times, n_test)
        if self.groups is not None:
            return split_by_group(self.y, self.groups, n_test, seed)
        return _random(self.y, n_test, seed)


def _random(y: np.ndarray, n_test: int, seed: int) -> Rows:
    """A class that occurs once stays in training, or it could not be learnt."""
    rows = np.arange(len(y))
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = rows[counts[codes] > 1]
    if len(several) <= n_test:
        return rows, rows[:0]  # nothing is left to learn some label from
    n_classes = len(np.unique(y[several]))
    can_stratify = n_test >= n_classes and len(several) - n_test >= n_classes
    with without_statistics():
        from sklearn.model_selection import train_test_split  # takes half a second to import

    _, test = train_test_split(
        several, test_size=n_test, random_state=seed, stratify=y[several] if can_stratify else None
    )
    # A class whose rows are all test rows could not be learnt: they go back to training.
    learnt = np.setdiff1d(rows, test)
    test = np.sort(test[np.isin(y[test], y[learnt])])
    return np.setdiff1d(rows, test), test


def _latest(y: np.ndarray, times: np.ndarray, n_test: int) -> Rows:
    """Rows of the same time are on the same side; rows without a time are training rows."""
    known = np.sort(times[~np.isnan(times)])
    if not len(known) or known[0] == known[-1]:
        return np.arange(len(y)), np.arange(0)
    # The first time of the test rows: that which makes their number closest, but not the first of all.
    starts = np.unique(known)[1:]
    n_from = len(known) - np.searchsorted(known, starts)
    is_late = times >= starts[np.abs(n_from - n_test).argmin()]  # False where NaN
    test = np.flatnonzero(is_late & np.isin(y, y[~is_late]))
    return np.flatnonzero(~is_late), test


def group_numbers(column: pd.Series) -> np.ndarray:
    """A number for every group, -1 where it is missing."""
    return pd.factorize(column)[0]


def time_numbers(column: pd.Series, name: str, line: Callable[[int], int | None]) -> np.ndarray:
    """Times as numbers in their order, NaN where missing: of numbers themselves, or of dates in any usual format.
    `line` says where in the file a row is."""
    column = as_numbers(column)
    if is_plain_number(column):
        return plain_numbers(column)
    days = date_days(column, date_pattern(name, distinct_values(column).values) or ISO)
    says_nothing = column.isna() | column.map(fold, na_action="ignore").isin(MISSING_WORDS)
    wrong = np.flatnonzero(np.isnan(days) & ~says_nothing.to_numpy(dtype=bool))
    if len(wrong):
        where = f" in line {line(wrong[0])}" if line(wrong[0]) else ""
        raise ValueError(
            f"Column '{name}' is not a time: '{column.iloc[wrong[0]]}'{where} is neither a number nor a date such as "
            "2024-12-31. Correct it, or leave --time out."
        )
    return days


def uniform_hash(rows: np.ndarray, seed: int) -> np.ndarray:
    """A number in [0, 1) for every row number, which looks random but depends only on it and the seed (SplitMix64)."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.random.SeedSequence(seed).generate_state(
        1, np.uint64
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(float) * 2.0**-53


def remarks_on_copies(X: pd.DataFrame, train: np.ndarray, test: np.ndarray) -> list[str]:
    """A warning about test rows that equal training rows in every column. They count as copies if some column has more
    than half as many values as there are distinct rows, and if independent columns would give less than a tenth of
    them."""
    codes = np.column_stack([pd.factorize(column)[0].astype(np.int32) for column in columns_of(X)]) + 1  # (N, Q)
    rows = pd.util.hash_pandas_object(pd.DataFrame(codes), index=False).to_numpy()
    n_copies, n_different = int(np.isin(rows[test], rows[train]).sum()), len(np.unique(rows))
    if 2 * codes.max() <= n_different or n_copies < max(2, FEW_COPIES * len(test)):
        return []
    shares = sum(np.log(np.bincount(column)[column] / len(column)) for column in codes.T)  # (N,)
    by_chance = np.minimum(1, len(train) * np.exp(shares[test])).sum()
    if n_copies <= 10 * by_chance:
        return []
    return [
        f"Warning: {n_copies:,} of the {len(test):,} held-out rows are copies of training rows, so the model will look "
        "better than it is. Remove copies, or keep them together by --group."
    ]
