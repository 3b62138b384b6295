"""Columns that give the label away by themselves, which are often known only afterwards."""

import shlex

import numpy as np
import pandas as pd

from pursuit.estimators.lazy_imports import without_statistics
from pursuit.queries.column import listed
from pursuit.queries.reading import is_plain_number, plain_numbers

LEAST_ROWS = 40
"""With fewer rows than this, a column may fit the labels by chance."""
MOST_ROWS = 5000
"""Number of rows to look at."""
LEAST_RIGHT = 0.995
"""The accuracy of a single column from which on it gives the label away."""
MOST_FREQUENT = 0.9
"""Where one label has more of the rows than this, hardly anything is given away."""
FEW = 5
"""A value with fewer rows than this says nothing."""


def leaks(X: pd.DataFrame, y: np.ndarray, regress: bool = False) -> list[str]:
    """A warning of the columns that give the label, or the number to predict, away; nothing where there are none."""
    names = leaking_columns(X, y, regress)
    if not names or len(names) == len(X.columns) > 1:
        return []
    quoted, each = listed([f"'{name}'" for name in names]), "by itself" if len(names) == 1 else "each by itself"
    what = "the number" if regress else "the label"
    return [
        f"Warning: {quoted} nearly always {'gives' if len(names) == 1 else 'give'} {what} away, {each}. If people know "
        f"it only afterwards, leave it out: {' '.join(f'--drop {shlex.quote(name)}' for name in names[:3])}"
    ]


def leaking_columns(X: pd.DataFrame, y: np.ndarray, regress: bool = False) -> list[str]:
    """The columns that nearly always give the label, or the number to predict, away."""
    if len(y) < LEAST_ROWS or not len(X.columns):
        return []
    some = np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(int)
    X, y = X.iloc[some], y[some]
    labels = y.astype(float) if regress else np.unique(y, return_inverse=True)[1]
    if not regress and np.bincount(labels).max() > MOST_FREQUENT * len(labels):
        return []
    given_away = _follows if regress else _gives_away
    return [name for name in X.columns if given_away(X[name], labels)]


def _gives_away(column: pd.Series, labels: np.ndarray) -> bool:
    """Whether labels (N,) follow from a column, wherever it has a value."""
    present = column.notna().to_numpy()
    if present.sum() < max(LEAST_ROWS, len(labels) / 2):
        return False
    column, labels = column[present], labels[present]
    if is_plain_number(column) and column.nunique() > FEW * (labels.max() + 1):
        with without_statistics():
            from sklearn.tree import DecisionTreeClassifier

        numbers = np.clip(plain_numbers(column), -1e30, 1e30)[:, None].astype(np.float32)
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * int(labels.max() + 1), min_samples_leaf=FEW)
        return bool(tree.fit(numbers, labels).score(numbers, labels) >= LEAST_RIGHT)
    values = pd.factorize(column)[0]
    table = np.zeros((values.max() + 1, labels.max() + 1))
    np.add.at(table, (values, labels), 1)
    is_frequent = table.sum(axis=1) >= FEW
    return bool(table.max(axis=1)[is_frequent].sum() >= LEAST_RIGHT * len(labels))


def _follows(column: pd.Series, numbers: np.ndarray) -> bool:
    """Whether numbers (N,) are a line in a column of numbers, wherever it has a value."""
    if not is_plain_number(column) or column.nunique() < LEAST_ROWS / 2:
        return False
    own = plain_numbers(column)
    present = np.isfinite(own)
    if present.sum() < max(LEAST_ROWS, len(numbers) / 2) or not numbers[present].std():
        return False
    return bool(abs(np.corrcoef(own[present], numbers[present])[0, 1]) >= 1 - (1 - LEAST_RIGHT) ** 2)
