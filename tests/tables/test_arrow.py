"""Finding and reading files: types of columns, chunks, damage, and tables that differ from file to file."""

import decimal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pursuit.tables import arrow
from pursuit.tables.arrow import find_files, sufficient_limit
from pursuit.tables.source import ArrowSource
from pursuit.tables.splitting import uniform_hash


def values(table: ArrowSource, name: str, **options: Any) -> list[Any]:
    return [
        value for piece in table.pieces for _, chunk in table.chunks(piece, [name], **options)
        for value in chunk[name].to_pylist()
    ]  # fmt: skip


def test_files_folders_patterns_and_lists(write: Callable[..., Path], tmp_path: Path) -> None:
    paths = [write(f"data/{name}", {"a": [1]}) for name in ("b.parquet", "a.parquet", "deep/c.arrow")]
    (tmp_path / "data" / "_SUCCESS").write_text("")
    (tmp_path / "data" / "_metadata.parquet").write_text("no table")
    (tmp_path / "data" / "notes.txt").write_text("")
    assert find_files(tmp_path / "data") == sorted(paths)
    assert find_files(str(tmp_path / "data" / "*.parquet")) == sorted(paths[:2])
    assert find_files(str(tmp_path / "data" / "**" / "*.arrow")) == [paths[2]]
    assert find_files([paths[0], paths[1], paths[0]]) == paths[:2]
    (empty := tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere"):
        find_files(tmp_path / "nowhere.parquet")
    with pytest.raises(ValueError, match="holds no files that end in"):
        find_files(empty)
    with pytest.raises(ValueError, match="at least one"):
        find_files([])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any),
    group=st.integers(1, 12),
    chunk=st.integers(1, 20),
    ending=st.sampled_from(["parquet", "arrow"]),
)
def test_all_rows_are_read_in_order_with_their_numbers(
    write: Callable[..., Path], sizes: list[int], group: int, chunk: int, ending: str
) -> None:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    paths = [
        write(f"{i}.{ending}", {"a": pa.array(range(start, start + size), pa.int64())}, group)
        for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    table = ArrowSource(paths)
    assert table.n_rows == sum(sizes)
    assert all(0 < piece.n_rows <= group for piece in table.pieces)
    for piece in table.pieces:
        for part in (piece, piece.part(piece.n_rows // 3, piece.n_rows // 3 + 1)):
            found = []
            for first, rows in table.chunks(part, ["a"], ["a"], chunk):
                assert len(rows) <= chunk
                assert rows["a"].to_pylist() == list(range(first, first + len(rows)))
                found += rows["a"].to_pylist()
            assert found == list(range(part.first, part.first + part.n_rows))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_every_type_of_column_is_read_as_numbers_or_words(write: Callable[..., Path], ending: str) -> None:
    columns = {
        "yes": [True, None, False],
        "whole": pa.array([1, None, 2**60], pa.uint64()),
        "fraction": pa.array([0.5, None, float("nan")], pa.float32()),
        "money": [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")],
        "words": ["red", None, ""],
        "coded": pa.array(["red", None, "blue"]).dictionary_encode(),
        "codes": pa.array([5, None, 7]).dictionary_encode(),
        "large": pa.array(["red", None, "blue"], pa.large_string()),
        "empty": pa.nulls(3),
    }
    table = ArrowSource(write(f"t.{ending}", columns))
    assert table.column_types == {
        "yes": "yes/no", "whole": "whole numbers", "fraction": "numbers", "money": "numbers", "words": "words",
        "coded": "words", "codes": "whole numbers", "large": "words", "empty": "nothing",
    }  # fmt: skip
    assert table.categorical == ({"codes"} if ending == "arrow" else set())  # Parquet keeps only categories of words
    assert values(table, "yes") == [1.0, None, 0.0]
    assert values(table, "yes", as_stored=["yes"]) == [True, None, False]
    assert values(table, "whole") == [1.0, None, 2.0**60]
    assert values(table, "money") == [1.5, None, 2.25]
    assert values(table, "words") == ["red", None, ""]
    assert values(table, "coded") == ["red", None, "blue"]
    assert values(table, "codes") == [5.0, None, 7.0]
    assert values(table, "empty") == [None, None, None]
    assert values(table, "fraction")[:2] == [0.5, None]


def test_the_index_of_pandas_is_not_a_column(write: Callable[..., Path]) -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=[7, 9, 8])
    assert list(ArrowSource(write("t.parquet", pa.Table.from_pandas(frame))).column_types) == ["a"]


def test_dots_in_names_are_not_paths(write: Callable[..., Path]) -> None:
    table = ArrowSource(write("t.parquet", {"a.b": [1, 2], "a": ["x", "y"]}))
    assert values(table, "a") == ["x", "y"]
    assert values(table, "a.b") == [1.0, 2.0]


def test_texts_that_mean_missing(write: Callable[..., Path]) -> None:
    table = ArrowSource(write("t.parquet", {"a": ["?", "red", None], "b": [1, 2, 3]}), missing=["?", "1"])
    assert values(table, "a") == [None, "red", None]
    assert values(table, "b") == [1.0, 2.0, 3.0]


def test_numbers_of_several_types_and_empty_files_go_together(write: Callable[..., Path]) -> None:
    paths = [
        write("a.parquet", {"a": [1, 2], "b": [True, False]}),
        write("b.parquet", {"b": [3, 4], "a": [0.5, None]}),
        write("c.parquet", {"a": pa.nulls(0), "b": pa.nulls(0)}),
    ]
    table = ArrowSource(paths)
    assert table.column_types == {"a": "numbers", "b": "whole numbers"}
    assert values(table, "a") == [1.0, 2.0, 0.5, None]
    assert values(table, "b", as_stored=["b"]) == [1, 0, 3, 4]
    assert len(table.pieces) == 2


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"a": [1], "y": [1]}, {"a": [1]}, r"2.parquet lacks columns that .*1.parquet has: y"),
        ({"a": [1]}, {"a": [1], "b": [2], "c": [3]}, r"1.parquet lacks columns that .*2.parquet has: b, c"),
        ({"a": [1]}, {"a": ["x"]}, r"'a' holds whole numbers in .*1.parquet, but words in .*2.parquet"),
        ({"a": pa.nulls(0)}, {"a": pa.nulls(0)}, "has no rows"),
    ],
)
def test_files_that_do_not_go_together(write: Callable[..., Path], first: Any, second: Any, message: str) -> None:
    paths = [write("1.parquet", first), write("2.parquet", second)]
    with pytest.raises(ValueError, match=message):
        ArrowSource(paths)


def test_columns_that_do_not_matter_may_differ(write: Callable[..., Path]) -> None:
    paths = [write("1.parquet", {"a": [1], "b": [1]}), write("2.parquet", {"a": [2], "b": ["x"], "c": [1]})]
    assert list(ArrowSource(paths, drop=["b", "c"]).column_types) == ["a"]
    assert list(ArrowSource(paths, columns=["a", "nowhere"]).column_types) == ["a"]
    with pytest.raises(ValueError, match=r"no column 'labell'. Did you mean 'label'"):
        ArrowSource(write("3.parquet", {"label": [1]}), drop=["labell"])
    with pytest.raises(ValueError, match=r"has these more than once: a"):
        ArrowSource(write("4.parquet", pa.table([[1], [2]], names=["a", "a"])))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_a_file_that_was_cut_off(write: Callable[..., Path], ending: str, keep: float) -> None:
    path = write(f"t.{ending}", {"a": list(range(5000))})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(ValueError, match=rf"t.{ending} cannot be read: .* cut off .*Write it again"):
        ArrowSource(path)


def test_damage_in_the_middle_is_reported_when_it_is_met(write: Callable[..., Path]) -> None:
    path = write("t.parquet", {"a": [f"word {i}" for i in range(5000)]}, 500)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 : len(whole) // 2] = b"\xff" * (len(whole) // 2 - len(whole) // 3)
    table = ArrowSource(path)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"t.parquet cannot be read"):
        values(table, "a")


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        pytest.param(b"\x08\x3b" + bytes(7), b"\x03\x3b" + bytes(2), r"cannot be read: .*Write it again", id="maximum"),
        pytest.param(b"\x26\x00\x78", b"\x16\x78", r"cannot be read: .*Write it again", id="size statistics"),
        pytest.param(b"\x1c\x15\x04", b"\x1c\x15\x02", r"damaged.*Write it again|cannot be read", id="type"),
    ],
)
def test_damaged_statistics_are_refused(write: Callable[..., Path], there: bytes, instead: bytes, message: str) -> None:
    """pyarrow would end the whole process: the maximum, 59, has eight bytes; the 60 rows have two definition levels."""
    path = write("t.parquet", {"a": list(range(60))})
    whole = path.read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    footer = whole[start:-8].replace(there, instead)
    assert footer != whole[start:-8]
    path.write_bytes(whole[:start] + footer + len(footer).to_bytes(4, "little") + whole[-4:])
    table = ArrowSource(path)
    with pytest.raises(ValueError, match=message):
        values(table, "a")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_fingerprints_tell_tables_apart(write: Callable[..., Path], ending: str) -> None:
    first = ArrowSource(write(f"t.{ending}", {"a": [1, 2, 3]})).fingerprint()
    assert ArrowSource(write(f"t.{ending}", {"a": [1, 2, 3]})).fingerprint() == first
    assert ArrowSource(write(f"t.{ending}", {"a": [1, 2, 3]}, 2)).fingerprint() != first
    assert ArrowSource(write(f"t.{ending}", {"b": [1, 2, 3]})).fingerprint() != first
    if ending == "parquet":
        assert ArrowSource(write("t.parquet", {"a": [1, 2, 4]})).fingerprint() != first


def test_a_wide_row_group_is_read_in_small_chunks(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the size of row groups."""
    n = 2_000_000
    path = write("t.parquet", {"a": np.arange(n)}, n)
    monkeypatch.setattr(arrow, "CHUNK_ROWS", 1000)
    table, before, most = ArrowSource(path), pa.total_allocated_bytes(), 0
    assert len(table.pieces) == 1
    for _, chunk in table.chunks(table.pieces[0], ["a"]):
        assert len(chunk) <= 1000
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 6e6  # all rows are 16 MB, and more while they are unpacked


def test_a_page_that_says_it_is_long_is_given_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(50.0)}), path, use_dictionary=False, compression="none")
    data, before = path.read_bytes(), pa.default_memory_pool().max_memory()
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    # The header of a page by Thrift: its kind, its size unpacked and its size, each after a byte 0x15.
    unpacked = data.index(b"\x15", start + 2)
    size = data.index(b"\x15", unpacked + 1) + 1
    end = size + next(i for i in range(5) if data[size + i] < 0x80) + 1
    path.write_bytes(data[:size] + b"\xd0\xff\xff\xff\x0f" + data[end:])
    with pytest.raises(ValueError, match="damaged or was cut off"):
        next(iter(ArrowSource(path).chunks(ArrowSource(path).pieces[0], ["a"])))
    assert pa.default_memory_pool().max_memory() < before + 1e6


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pursuit\[parquet\]'"):
        ArrowSource("t.parquet")


def test_the_lowest_chances_are_found_and_other_pieces_not_read(write: Callable[..., Path]) -> None:
    table = ArrowSource(write("t.parquet", {"a": np.arange(100.0), "y": ["x", None] * 50}, 10), target="y")
    read: list[int] = []
    whole_read = table.chunks
    table.chunks = lambda piece, *rest, **more: read.append(piece.group) or whole_read(piece, *rest, **more)  # type: ignore[method-assign, func-returns-value, misc, assignment, return-value]
    numbers, rows = table.lowest(["a"], lambda numbers: np.abs(numbers - 33) / 100, 0.08, 4)
    assert numbers.tolist() == [30, 32, 34, 36]
    assert rows["a"].to_pylist() == [30, 32, 34, 36]
    assert read == [2, 3, 4]


@given(n=st.integers(1, 2000), seed=st.integers(0, 1000))
def test_below_the_limit_there_are_enough(n: int, seed: int) -> None:
    assert (uniform_hash(np.arange(5000), seed) < sufficient_limit(n, 5000)).sum() >= n


def test_held_out_rows_are_from_all_over_and_labelled(write: Callable[..., Path]) -> None:
    path = write("t.parquet", {"a": np.arange(5000.0), "y": [1, 2, None, 3] * 1250}, 700)
    table = ArrowSource(path, target="y")
    numbers, rows = table.held_out(["a"], 0.3, 7, 1125, 200)
    assert len(numbers) == len(rows) == 200
    assert rows["a"].to_pylist() == numbers.tolist()
    assert (uniform_hash(numbers, 7) < 0.3).all()
    assert rows["y"].null_count == 0
    assert set(numbers // 700) == set(range(8))
    everything, _ = table.held_out(["a"], 0.3, 7, 1125, 10_000)
    wanted = [i for i in range(5000) if uniform_hash(np.array([i]), 7)[0] < 0.3 and i % 4 != 2]
    assert everything.tolist() == wanted
    assert set(numbers) < set(wanted)


@pytest.mark.parametrize("target", [None, "y"])
def test_the_first_rows(write: Callable[..., Path], target: str | None) -> None:
    table = ArrowSource(write("t.parquet", {"a": [1.0, 2.0, 3.0, 4.0], "y": ["p", None, "q", "r"]}, 2), target=target)
    numbers, rows = table.rows(["a"], most=2)
    assert rows["a"].to_pylist() == ([1, 2] if target is None else [1, 3])
    assert numbers.tolist() == ([0, 1] if target is None else [0, 2])
    assert rows.column_names == ["a", *([] if target is None else ["y"])]
    assert target is None or rows["y"].to_pylist() == ["p", "q"]
