"""Tables as users give them, of any library: read as a pandas DataFrame, and checked."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pursuit.queries.column import listed

INFINITE = "Infinite values (inf) in {}: replace them by numbers, or by NaN if the answer is unknown."
LARGE_BYTES = 1 << 30
"""A sparse table that takes more memory than this once it is dense gets a warning."""


def as_pandas(data: Any) -> Any:
    """A table of another library as a DataFrame of pandas with the same names and types; anything else as it is.

    polars, pyarrow and whatever else narwhals knows; what is lazy is collected.
    """
    if isinstance(data, pd.DataFrame | np.ndarray) or sparse.issparse(data):
        return data
    import narwhals

    table = narwhals.from_native(data, pass_through=True)
    if isinstance(table, narwhals.LazyFrame):
        table = table.collect()
    return table.to_pandas() if isinstance(table, narwhals.DataFrame) else data


def as_series(data: Any) -> Any:
    """A column of another library as a Series of pandas; anything else as it is."""
    if isinstance(data, pd.Series | np.ndarray | list):
        return data
    import narwhals

    series = narwhals.from_native(data, pass_through=True, allow_series=True)
    return series.to_pandas() if isinstance(series, narwhals.Series) else data


def as_frame(data: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """The data as a DataFrame with string column names, restricted to `names` where given.

    Columns of a frame are found by name. Those of an array are found by position if there are as many as names, and
    otherwise by the names x0, x1 … that arrays give them.
    """
    data = as_pandas(data)
    if isinstance(data, pd.DataFrame):
        frame = data.set_axis([str(name) for name in data.columns], axis=1)
        twice = frame.columns[frame.columns.duplicated()].unique().tolist()
        if twice:
            raise ValueError(f"Column names must differ, but these occur more than once: {listed(twice)}.")
        existing = set(frame.columns)
        absent = [name for name in names or [] if name not in existing]
        if absent:
            raise ValueError(
                f"The table lacks {len(absent)} of the columns of training: {listed(absent)}. Add them; "
                "unknown answers may stay empty."
            )
        frame = frame[list(names)] if names is not None and list(names) != list(frame.columns) else frame
    else:
        frame = _sparse_frame(data, names) if sparse.issparse(data) else _array_frame(np.asarray(data), names)
    if len(frame) == 0:
        raise ValueError("The table is empty: it has 0 rows, and at least one is needed.")
    return frame.infer_objects() if any(dtype.kind == "O" for dtype in frame.dtypes) else frame


def columns_of(frame: pd.DataFrame) -> list[Any]:
    """The columns of a table: as arrays where all are numbers of one type, because a Series takes longer to make than
    most columns of wide tables to read; otherwise as Series."""
    dtypes = frame.dtypes.unique()
    if len(dtypes) == 1 and isinstance(dtypes[0], np.dtype) and dtypes[0].kind in "fiub":
        return list(frame.to_numpy().T)
    return [series for _, series in frame.items()]


def is_float_array(data: Any) -> bool:
    """Whether the data are an array, or lists, of fractions: whatever they hold, they are meant as numbers."""
    return not hasattr(as_pandas(data), "columns") and not sparse.issparse(data) and np.asarray(data).dtype.kind == "f"


def _array_frame(array: np.ndarray, names: Sequence[str] | None) -> pd.DataFrame:
    if array.ndim != 2:
        raise ValueError(
            f"A table of rows and columns is expected, but the data have {array.ndim} dimensions. "
            "Reshape your data to two."
        )
    places = _places(array.shape[1], names)
    if names is None or places is None:
        return pd.DataFrame(array, columns=list(names or numbered(array.shape[1])))
    return pd.DataFrame(array[:, places], columns=list(names))


def _sparse_frame(matrix: Any, names: Sequence[str] | None) -> pd.DataFrame:
    """A sparse matrix as a dense table: columns that store nothing but ones hold whole numbers, others fractions."""
    places = _places(matrix.shape[1], names)
    matrix = matrix.tocsc() if places is None else matrix.tocsc()[:, places]
    n_rows, n_columns = matrix.shape
    of_column = np.repeat(np.arange(n_columns), np.diff(matrix.indptr))
    has_others = np.bincount(of_column[matrix.data != 1], minlength=n_columns) > 0
    n_bytes = n_rows * (int((~has_others).sum()) + matrix.dtype.itemsize * int(has_others.sum()))
    if n_bytes > LARGE_BYTES:
        warnings.warn(
            f"The sparse table becomes dense: {n_rows:,} rows of {n_columns:,} columns take {n_bytes / 2**30:.1f} GiB "
            "of memory. Leave columns out if that is too much.",
            stacklevel=2,
        )
    names = list(names or numbered(n_columns))
    dense = {False: "int8", True: matrix.dtype}
    parts = [
        pd.DataFrame(
            matrix[:, has_others == others].astype(dtype).toarray(),
            columns=[name for name, is_so in zip(names, has_others, strict=True) if is_so == others],
        )
        for others, dtype in dense.items()
        if (has_others == others).any()
    ]
    frame = pd.concat(parts, axis=1) if len(parts) > 1 else parts[0] if parts else pd.DataFrame(index=range(n_rows))
    return frame[names]


def numbered(n_columns: int) -> list[str]:
    """The names of the columns of an array."""
    return [f"x{i}" for i in range(n_columns)]


def _places(n_columns: int, names: Sequence[str] | None) -> list[int] | None:
    """Which columns of an array are wanted; None: all of them."""
    if names is None or n_columns == len(names):
        return None
    places = [int(name[1:]) if re.fullmatch(r"x\d+", name) else n_columns for name in names]
    if max(places, default=n_columns) >= n_columns:
        raise ValueError(f"The table has {n_columns} columns, but {len(names)} are expected, as in training.")
    return places


def json_value(value: Any) -> str | int | float | bool:
    """A value that JSON can hold: numpy's as Python's own, anything else (dates, intervals) as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)
