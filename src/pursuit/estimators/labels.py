"""Labels as users give them, of any library and any type."""

from typing import Any

import numpy as np
import pandas as pd

from pursuit.queries.frames import as_series


def plain_labels(y: Any, as_words: bool = False) -> Any:
    """Labels as scikit-learn knows them: `as_words`, or as they are.

    Numbers among words are words too, because labels of several types cannot be sorted; and pandas' booleans become
    numpy's, because scikit-learn would turn them into numbers.
    """
    y = as_series(y)
    if isinstance(y, pd.Series) and isinstance(y.dtype, pd.BooleanDtype) and not y.hasnans:
        y = y.to_numpy(dtype=bool)
    labels = np.asarray(y) if isinstance(y, pd.Series | np.ndarray | list | tuple) else np.empty(0)
    if labels.ndim != 1 or labels.dtype.kind == "U" or pd.isna(labels).any():
        return y
    if labels.dtype == object:
        as_words = as_words or len({isinstance(label, str) for label in labels}) == 2
    return np.array([_in_words(label) for label in labels]) if as_words else y


def _in_words(label: Any) -> str:
    return str(int(label) if isinstance(label, float) and label.is_integer() else label)
