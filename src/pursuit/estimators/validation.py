"""Rows as users give them, checked in scikit-learn's manner: tables of any library, arrays, sparse matrices, texts."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import Tensor

from pursuit.inference.pursuer import Labels, label_list
from pursuit.queries import QuerySet
from pursuit.queries.reading import as_pandas, as_series, numbered


def validated(estimator: Any, X: Any, query_set: QuerySet | None, reset: bool) -> Any:
    """X as a DataFrame, an array or a sparse matrix of the right number of columns; texts are a single column."""
    if query_set is not None and query_set.reads_texts and not isinstance(X, str) and np.ndim(X) == 1:
        X = np.asarray(X, dtype=object)[:, None]
    X = as_pandas(X)
    names = None if reset else getattr(estimator, "feature_names_in_", None)
    if isinstance(X, pd.DataFrame) and (reset or names is not None):
        if names is not None and query_set is not None and query_set.reads_columns:
            X = _with_all_columns(X, names.tolist(), query_set)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return X
    X = check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False, allow_nd=True, estimator=estimator)
    validate_data(estimator, X if issparse(X) else X.reshape(len(X), -1), reset=reset, skip_check_array=True)
    if names is not None and query_set is not None and query_set.reads_columns:
        return pd.DataFrame(X.toarray() if issparse(X) else X, columns=names)
    return X


def _with_all_columns(X: pd.DataFrame, names: list[str], query_set: QuerySet) -> pd.DataFrame:
    """The table with all columns of training, if it lacks only such as are not asked for."""
    sources = {query.source for query in query_set.queries}
    asked = [name for name in names if name in sources]
    lacks_some = len(X.columns) < len(names) and set(X.columns) <= set(names)
    is_enough = lacks_some and asked == [name for name in X.columns if name in sources]
    return X.reindex(columns=names) if is_enough else X


def known_answers(estimator: Any, initially_known: Any, query_set: QuerySet, n_rows: int) -> Tensor | None:
    """Which answers to every query are initially known: (N, Q), those known beforehand of every row included. Where it
    is said of every column of the table, those asked for are taken."""
    if initially_known is None:
        return query_set.known_beforehand(n_rows)
    known, shape = torch.as_tensor(np.asarray(initially_known), dtype=torch.bool), (n_rows, len(query_set))
    n_columns = estimator.n_features_in_
    if query_set.reads_columns and known.shape == (n_rows, n_columns) != shape:
        names = getattr(estimator, "feature_names_in_", numbered(n_columns))
        place_of = {name: i for i, name in enumerate(names)}
        known = known[:, [place_of[query.source] for query in query_set.queries]]
    if known.shape != shape:
        raise ValueError(
            f"initially_known says for every row and query whether its answer is given before anything is asked: shape "
            f"{shape} is expected, not {tuple(known.shape)}."
        )
    return query_set.known_beforehand(n_rows, known)


def group_numbers(groups: Any, y: np.ndarray) -> np.ndarray:
    """The number of the group of each row (N,); one whose group is missing has a number of its own."""
    groups = column_or_1d(groups)
    check_consistent_length(y, groups)
    numbers, names = pd.factorize(pd.Series(groups))
    missing = np.flatnonzero(numbers < 0)
    numbers[missing] = len(names) + np.arange(len(missing))
    return numbers.astype(np.int64)


def rows_that_count(
    X: Any, y: np.ndarray, weight: np.ndarray, group: np.ndarray | None, initially_known: Any
) -> tuple[Any, ...]:
    """X, y, weights, groups and initially known answers without the rows of weight 0."""
    counts = np.flatnonzero(weight)
    known = None if initially_known is None else np.asarray(initially_known)[counts]
    return take(X, counts), y[counts], weight[counts], None if group is None else group[counts], known


def take(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table, an array, a sparse matrix or a list."""
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if issparse(X):
        return X.tocsr()[rows]
    return [X[i] for i in rows] if isinstance(X, list | tuple) else np.asarray(X)[rows]


# Labels as users give them, of any library and any type.


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


BYTES_EACH = 12
"""Of every row with every label, at least: which label a row has is counted in whole numbers and in shares."""
NOTABLE_BYTES = 2 << 30
"""From here on the cost is told even where there is room for it."""


def check_cost_of_labels(n_rows: int, n_labels: int) -> None:
    """Say what learning so many labels costs before it is paid; raises ValueError where there is not the memory."""
    cost, free = BYTES_EACH * n_rows * n_labels, free_memory()
    told = f"{n_labels:,} labels of {n_rows:,} rows take at least {cost / 2**30:,.1f} GB of memory"
    if free is not None and cost > free:
        raise ValueError(
            f"{told}, and {free / 2**30:,.1f} GB are free: train with fewer rows, join rare labels into one, or if the "
            "labels are numbers, predict them as such."
        )
    if cost > NOTABLE_BYTES:
        warnings.warn(f"{told}.", stacklevel=4)


def free_memory() -> int | None:
    """How many bytes this process may still allocate, by the machine, its container and its own limit; None where the
    system does not say."""
    found: list[int] = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            found.append(limit - used)
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError, ImportError):  # "max" is no number: the container has no limit
        pass
    return max(0, min(found)) if found else None


@contextmanager
def refusing_more_than_memory(name: str) -> Iterator[None]:
    """What the machine has not the memory for is refused in a sentence, where the system says so before it is taken."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise ValueError(
            f"There is not the memory to train {name} on these rows with these settings: take a smaller network, "
            "smaller batches, or fewer rows, labels and questions."
        ) from None


# How much rows and classes count in training.


BALANCED = "balanced"


def check_class_weight(class_weight: Any) -> None:
    """Raise ValueError for what is not a class_weight, whatever the classes."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight is 'balanced' or says by label how many rows one counts as, not {class_weight!r}."
        )
    wrong = [label for label, weight in class_weight.items() if not 0 < weight < np.inf]
    if wrong:
        raise ValueError(f"The class_weight of '{wrong[0]}' must be above 0 and finite, not {class_weight[wrong[0]]}.")


def weights_of_classes(class_weight: Any, classes: Labels, counts: np.ndarray) -> np.ndarray:
    """How many rows one of each class counts as (C,), from how many there are or from their shares; a class that a
    mapping does not name counts as it is."""
    labels = label_list(classes)
    if isinstance(class_weight, str):
        return counts.sum() / (len(labels) * counts)
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        named = ", ".join(map(str, labels[:10]))
        raise ValueError(f"class_weight names '{unknown[0]}', which is not a label of these rows ({named}).")
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])
