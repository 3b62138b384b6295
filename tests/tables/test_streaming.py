"""Streams of rows from files: every row once a pass, exact resume, bounded memory, and a thread that behaves."""

import gc
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from numbered_rows import numbered
from pursuit.queries import ColumnQueries, Number
from pursuit.tables import arrow
from pursuit.tables.splitting import uniform_hash
from pursuit.tables.streaming import EVEN_ENOUGH, ParquetRows, deal
from pursuit.training.rows import Rows

NUMBER = ColumnQueries([Number("number", "?", spread=1e6)])
"""A query set whose answers are the row numbers of the numbered table."""
WITH_FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def numbers(rows: Rows) -> list[int]:
    return (rows.x[:, 0] * 1e6).round().int().tolist()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


Open = Callable[..., ParquetRows]


@pytest.fixture
def source(write: Callable[..., Path]) -> Open:
    """Numbered rows in files of these sizes."""

    def opened(sizes: list[int], group: int, **options: object) -> ParquetRows:
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        paths = [
            write(f"{i}.parquet", pa.Table.from_pandas(numbered(n, first)), group)
            for i, (n, first) in enumerate(zip(sizes, starts, strict=True))
        ]
        return ParquetRows(paths, "label", NUMBER, **options)  # type: ignore[arg-type]

    return opened


@WITH_FILES
@given(
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=3),
    group=st.integers(1, 30),
    buffer_rows=st.integers(1, 40),
    batches=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    test_share=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 100),
)
def test_every_pass_goes_through_all_rows_once(
    source: Open, sizes: list[int], group: int, buffer_rows: int, batches: list[int], test_share: float, seed: int
) -> None:
    assume((uniform_hash(np.arange(sum(sizes)), seed) >= test_share).any())
    rows = source(sizes, group, buffer_rows=buffer_rows, test_share=test_share, seed=seed)
    stream, drawn = rows.stream(generator(seed)), []
    for n in batches:
        part = stream.next(n)
        assert len(part) == n
        assert part.y.tolist() == [number % 3 for number in numbers(part)] or len(rows.classes) < 3
        drawn += numbers(part)
    drawn += numbers(stream.next(-len(drawn) % len(rows)))
    test_rows = set(rows.test_rows()[0].index)
    wanted = sorted(set(range(sum(sizes))) - test_rows)
    assert len(rows) == len(wanted)
    for start in range(0, len(drawn), len(rows)):
        assert sorted(drawn[start : start + len(rows)]) == wanted


def test_passes_come_in_different_orders_and_seeds_too(source: Open) -> None:
    rows = source([200], 10, buffer_rows=50, test_share=0)
    stream = rows.stream(generator())
    first, second = numbers(stream.next(200)), numbers(stream.next(200))
    assert first != second
    assert numbers(rows.stream(generator()).next(200)) == first
    assert numbers(rows.stream(generator(1)).next(200)) != first
    # Rows of one buffer come from several row groups, which do not follow each other in the file.
    assert len({number // 10 for number in first[:50]}) >= 5
    assert max(first[:50]) - min(first[:50]) > 60


@WITH_FILES
@given(
    before=st.integers(0, 70),
    after=st.integers(1, 50),
    buffer_rows=st.sampled_from([4, 10, 30, 1000]),
    group=st.sampled_from([3, 10, 30]),
)
def test_a_stream_goes_on_from_its_state(source: Open, before: int, after: int, buffer_rows: int, group: int) -> None:
    """At any position, be it within a buffer, at its edge, or before anything was taken."""
    rows = source([30], group, buffer_rows=buffer_rows, test_share=0.1)
    stream = rows.stream(generator())
    stream.next(before)
    state = {name: tensor.clone() for name, tensor in stream.state().items()}
    wanted = numbers(stream.next(after))
    again = rows.stream(generator(5))
    again.next(3)
    again.load_state(state)
    assert torch.equal(again.state()["place"], state["place"])
    assert numbers(again.next(after)) == wanted
    assert torch.equal(again.state()["place"], stream.state()["place"])


def test_row_groups_without_labels_are_not_read(write: Callable[..., Path]) -> None:
    frame = numbered(100)
    frame.loc[20:79, "label"] = None
    rows = ParquetRows(
        write("t.parquet", pa.Table.from_pandas(frame), 10), "label", NUMBER, test_share=0, buffer_rows=7
    )
    assert [piece.first for piece in rows.pieces_to_learn_from()] == [0, 10, 80, 90]
    drawn = numbers(rows.stream(generator()).next(80))
    assert sorted(drawn[:40]) == sorted(drawn[40:]) == [*range(20), *range(80, 100)]


def test_every_buffer_is_shuffled_in_its_own_way(source: Open) -> None:
    drawn = numbers(source([100], 100, buffer_rows=50, test_share=0).stream(generator()).next(100))
    first, second = drawn[:50], [number - 50 for number in drawn[50:]]
    assert sorted(first) == sorted(second) == list(range(50))
    assert list(range(50)) != first != second


def test_prepared_rows_lie_where_those_before_them_did(source: Open) -> None:
    """So a recorded step, which takes without preparing, finds the next rows; and rows taken before do not change."""
    stream = source([100], 10, buffer_rows=30, test_share=0).stream(generator())
    again = source([100], 10, buffer_rows=30, test_share=0).stream(generator())
    first = stream.next(7)
    kept, place = numbers(first), stream._ready[7].x.data_ptr()
    for _ in range(10):
        stream.next(2)
        stream.prepare(7)
        assert stream._ready[7].x.data_ptr() == place
        assert torch.equal(stream.take(7).y, stream.take(7).y)
    assert numbers(first) == kept == numbers(again.next(7))
    for _ in range(10):
        again.next(2)
        last = again.next(7)
    assert numbers(stream.take(7)) == numbers(last)


def test_the_generator_is_asked_once(source: Open) -> None:
    """The thread must not draw from a generator that training uses meanwhile."""
    rows, randomness = source([50], 10, buffer_rows=20), generator()
    stream = rows.stream(randomness)
    before = randomness.get_state()
    stream.next(120)
    assert torch.equal(randomness.get_state(), before)


def test_rows_of_a_single_huge_row_group_are_read_on_and_not_again(
    source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "CHUNK_ROWS", 10)
    rows = source([1000], 1000, buffer_rows=100, test_share=0)
    rows.chunk_rows = 10
    opened: list[int] = []
    whole_read = rows.table.chunks
    rows.table.chunks = lambda piece, *rest: opened.append(piece.start) or whole_read(piece, *rest)  # type: ignore[method-assign, func-returns-value, misc, assignment, return-value]
    drawn = numbers(rows.stream(generator()).next(1000))
    assert sorted(drawn) == list(range(1000))
    assert [start for start in opened if start] == []


def test_memory_is_two_buffers_whatever_the_size_of_the_file(write: Callable[..., Path]) -> None:
    n, n_columns = 30_000, 20
    columns = {f"c{i}": np.random.default_rng(i).random(n) for i in range(n_columns)}
    path = write("t.parquet", {**columns, "y": np.arange(n) % 2}, 20_000)
    rows = ParquetRows(path, "y", test_share=0, buffer_rows=2000)
    rows.chunk_rows = 500
    del columns
    stream = rows.stream(generator())
    stream.next(500)
    tracemalloc.start()
    try:
        for _ in range(n // 500):
            stream.next(500)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole, buffer = n * n_columns * 4, 2000 * (n_columns * 5 + 8)
    assert most < 3 * buffer + 500 * n_columns * 8 * 6 < whole / 2


def readers() -> set[threading.Thread]:
    gc.collect()
    return {thread for thread in threading.enumerate() if thread.name == "parquet-reader"}


@pytest.fixture
def looked_through() -> None:
    """What is there already is not looked through again."""
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("looked_through")
def test_the_thread_ends_with_its_stream(source: Open) -> None:
    rows = source([300], 10, buffer_rows=50)
    before = readers()
    stream = rows.stream(generator())
    assert readers() == before  # nothing is read before it is wanted
    stream.next(70)
    assert len(readers() - before) == 1
    stream.load_state(stream.state())
    assert readers() <= before
    stream.next(70)
    assert len(readers() - before) == 1
    del stream
    assert readers() <= before


@pytest.mark.usefixtures("looked_through")
def test_errors_of_the_thread_reach_the_caller_again_and_again(source: Open) -> None:
    rows = source([100, 100], 20, buffer_rows=40, test_share=0)
    before = readers()
    stream = rows.stream(generator())
    stream.next(10)
    for file in rows.table.files:
        file.path.write_bytes(b"nothing")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\.parquet (cannot be read|changed while)"):
            stream.next(300)
    for reader in readers() - before:
        reader.join(60)
    assert readers() <= before


def test_files_that_change_are_noticed(source: Open, tmp_path: Path) -> None:
    rows = source([30], 30, buffer_rows=10, test_share=0)
    frame = numbered(30).assign(label=[None, "bee"] * 15)
    frame.to_parquet(tmp_path / "0.parquet")
    with pytest.raises(ValueError, match=r"30 rows to learn from and now has 15|cannot be read"):
        rows.stream(generator()).next(60)


@pytest.mark.programs
def test_a_program_with_a_stream_ends(source: Open, tmp_path: Path) -> None:
    source([5000], 100)
    code = f"""
import torch
from pursuit.tables.streaming import ParquetRows
stream = ParquetRows({str(tmp_path)!r}, "label", buffer_rows=1000).stream(torch.Generator())
stream.next(10)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert done.stderr == ""


@given(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=40), n_shards=st.integers(1, 9))
def test_everything_is_dealt_once_and_evenly(sizes: list[int], n_shards: int) -> None:
    dealt = deal(sizes, n_shards)
    slices: dict[int, list[tuple[float, float]]] = {}
    for shard in dealt:
        for i, start, stop in shard:
            slices.setdefault(i, []).append((start, stop))
    for i in range(len(sizes)):
        ends = sorted(part for part in slices[i] if part[1] > part[0])
        assert ends[0][0] == 0
        assert ends[-1][1] == 1
        assert all(before[1] == after[0] for before, after in pairwise(ends))
    loads = [sum((stop - start) * sizes[i] for i, start, stop in shard) for shard in dealt]
    assert max(loads) <= EVEN_ENOUGH * sum(sizes) / n_shards + 1e-6


def test_whole_things_stay_whole_where_that_is_even() -> None:
    dealt = deal([100] * 6, 3)
    assert all((start, stop) == (0, 1) for shard in dealt for _, start, stop in shard)
    assert [len(shard) for shard in dealt] == [2, 2, 2]


def test_few_are_cut_where_it_is_not() -> None:
    dealt = deal([100] * 100, 64)
    assert sum(stop - start < 1 for shard in dealt for _, start, stop in shard) <= 2 * 64
    assert max(len(shard) for shard in dealt) <= 3
