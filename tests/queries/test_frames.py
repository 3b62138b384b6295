"""Tables of any library: read as the same table of pandas."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from pursuit.queries import Choice, ColumnQueries, Number, reading, yes_no
from pursuit.queries.reading import as_frame, as_pandas, as_series

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

POLARS = pl.DataFrame(
    {
        "flag": [True, None, False],
        "count": [3, None, 5],
        "switch": [0, 1, None],
        "grade": pl.Series(["good", "bad", None], dtype=pl.Enum(["bad", "fair", "good"])),
        "colour": pl.Series(["red", "blue", "red"], dtype=pl.Categorical),
        "price": [Decimal("1.50"), None, Decimal("2.25")],
        "word": ["left", None, "right"],
        "size": [0.5, 1.5, None],
    }
)
LIBRARIES: dict[str, Callable[[], Any]] = {
    "polars": lambda: POLARS,
    "lazy": lambda: POLARS.lazy().filter(True),
    "arrow": lambda: POLARS.to_arrow(),
    "pandas": lambda: POLARS.to_pandas(),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_table_is_the_same_whatever_library_it_is_of(library: str) -> None:
    table = LIBRARIES[library]()
    query_set = ColumnQueries.from_data(table)
    queries = {query.name: query for query in query_set.queries}
    assert list(queries) == POLARS.columns
    assert queries["flag"] == yes_no("flag")
    assert queries["switch"] == yes_no("switch")
    assert queries["grade"].choices == ("bad", "fair", "good")
    assert set(queries["colour"].choices) == {"blue", "red"}  # in the order of the library
    assert queries["word"].choices == ("left", "right")
    assert [name for name, query in queries.items() if isinstance(query, Number)] == ["count", "price", "size"]
    x, available = query_set.answers(table)
    assert available.tolist() == [[value is not None for value in row] for row in POLARS.rows()]
    assert [query_set.describe(i, x[2]) for i in (0, 1, 5)] == ["no", "5", "2.25"]
    expected = ColumnQueries.from_data(POLARS.to_pandas()).answers(POLARS.to_pandas())
    assert torch.equal(x, expected.x)


def test_columns_of_any_library_are_found_by_name() -> None:
    query_set = ColumnQueries([yes_no("flag"), Choice("word", "?", ("left", "right"))])
    assert query_set.answers(POLARS.select("word", "size", "flag")).x.tolist() == [[1, -1], [0, 0], [-1, 1]]
    with pytest.raises(ValueError, match="lacks 1 of the columns of training: word"):
        query_set.answers(POLARS.select("flag"))


def test_dates_of_any_library_are_dates() -> None:
    table = pl.DataFrame({"born": [datetime.date(1980, 5, 17), None, datetime.date(1990, 1, 2)]})
    for born in (table, table.to_arrow(), table.to_pandas()):
        query_set = ColumnQueries.from_data(born, column_types={"born": "date"})
        x, available = query_set.answers(born)
        assert available[:, 0].tolist() == [True, False, True]
        assert query_set.describe(0, x[0]) == "1980-05-17"


def test_what_is_not_a_table_is_left_alone() -> None:
    for data in ([[1, 2]], np.zeros((2, 2)), "text", pd.Series([1])):
        assert as_pandas(data) is data
    for labels in (["a"], np.zeros(2), pd.Series([1]), None):
        assert as_series(labels) is labels
    assert as_series(pl.Series(["a", None])).tolist() == ["a", None] or pd.isna(as_series(pl.Series(["a", None]))[1])
    assert as_series(pa.chunked_array([["a", "b"]])).tolist() == ["a", "b"]


# Sparse matrices


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_matrices_are_numbers_or_yes_no(form: str, make: Any) -> None:
    dense = np.array([[0.5, 1.0, 0.0], [0.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    matrix = make(dense).asformat(form)
    query_set = ColumnQueries.from_data(matrix)
    assert [type(query) for query in query_set.queries] == [Number, Choice, Choice]
    assert [query.name for query in query_set.queries] == ["x0", "x1", "x2"]
    x, available = query_set.answers(matrix)
    assert available.all()
    assert x[:, 1:].tolist() == [[1, -1], [-1, 1], [1, -1]]
    assert torch.equal(query_set.answers(dense).x, x)
    assert as_frame(matrix, ["x2", "x0"]).to_numpy().tolist() == dense[:, [2, 0]].tolist()


def test_a_sparse_matrix_may_hold_anything_at_prediction() -> None:
    query_set = ColumnQueries.from_data(sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])))
    with pytest.warns(UserWarning, match=r"never seen in training count as unknown: 1 of 'x0' \('0.09'\)"):
        answers = query_set.answers(sparse.csr_array(np.array([[0.09, 1.0]])))
    assert answers.available.tolist() == [[False, True]]


def test_a_large_sparse_matrix_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGE_BYTES", 1000)
    with pytest.warns(UserWarning, match=r"becomes dense: 1,000 rows of 2 columns take 0\.0 GiB of memory"):
        as_frame(sparse.eye(1000, 2, format="csr"))


# Arrays


def test_columns_left_out_in_training_may_be_there_or_not() -> None:
    array = np.column_stack([np.full(30, 7.0), np.random.default_rng(0).normal(size=(30, 2))])
    with pytest.warns(UserWarning, match="Not asked for: 'x0'"):
        query_set = ColumnQueries.from_data(array)
    whole = query_set.answers(array)
    assert torch.equal(query_set.answers(array[:, 1:]).x, whole.x)
    with pytest.raises(ValueError, match="has 1 columns, but 2 are expected"):
        query_set.answers(array[:, :1])


@pytest.mark.parametrize("missing", [True, False])
def test_fractions_in_arrays_are_numbers_whatever_they_hold(missing: bool) -> None:
    array = np.array([[0.0], [1.0], [np.nan if missing else 0.0]])
    assert isinstance(ColumnQueries.from_data(array).queries[0], Number)
    assert isinstance(ColumnQueries.from_data(array.tolist()).queries[0], Number)
    # Missing values are what makes whole numbers fractions in a DataFrame.
    assert isinstance(ColumnQueries.from_data(pd.DataFrame(array)).queries[0], Choice if missing else Number)


@pytest.mark.parametrize("dtype", [int, bool, np.int8])
def test_whole_zeros_and_ones_in_arrays_are_yes_no(dtype: Any) -> None:
    assert ColumnQueries.from_data(np.array([[0], [1]], dtype=dtype)).queries == (yes_no("x0"),)
