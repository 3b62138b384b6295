"""Rows as users give them, checked in scikit-learn's manner: tables of any library, arrays, sparse matrices, texts."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import Tensor

from pursuit.queries import QuerySet
from pursuit.queries.frames import as_pandas, numbered


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
    X = check_array(
        X,
        accept_sparse=True,
        dtype=None,
        ensure_all_finite=False,
        allow_nd=True,
        ensure_min_features=1,
        ensure_min_samples=1,
        estimator=estimator,
    )
    validate_data(estimator, X if issparse(X) else X.reshape(len(X), -1), reset=reset, skip_check_array=True)
    if names is not None and query_set is not None and query_set.reads_columns:
        return pd.DataFrame(X.toarray() if issparse(X) else X, columns=names)
    return X


def _with_all_columns(X: pd.DataFrame, names: list[str], query_set: QuerySet) -> pd.DataFrame:
    """The table with all columns of training, if it lacks only such as are not asked for."""
    asked = [name for name in names if name in query_set.index_of]
    lacks_some = len(X.columns) < len(names) and set(X.columns) <= set(names)
    is_enough = lacks_some and asked == [name for name in X.columns if name in query_set.index_of]
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
        known = known[:, [place_of[query.name] for query in query_set.queries]]
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
    X = X.iloc[counts] if hasattr(X, "iloc") else (X.tocsr() if issparse(X) else X)[counts]
    known = None if initially_known is None else np.asarray(initially_known)[counts]
    return X, y[counts], weight[counts], None if group is None else group[counts], known
