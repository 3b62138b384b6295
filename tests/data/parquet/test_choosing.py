"""Which rows are for what: hashes of row numbers, samples, and dealing to processes."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.data.parquet.arrow_files import ArrowTable
from pursuit.data.parquet.choosing import (
    EVEN_ENOUGH,
    deal,
    first_rows,
    held_out_rows,
    lowest_chances,
    sufficient_limit,
    uniform_hash,
)


def test_hashes_are_uniform_and_those_of_other_seeds_independent() -> None:
    rows = np.arange(100_000)
    first, second = uniform_hash(rows, 0), uniform_hash(rows, 1)
    assert first.min() >= 0
    assert first.max() < 1
    counts = np.histogram2d(first, second, bins=10, range=[[0, 1], [0, 1]])[0]
    assert np.abs(counts - 1000).max() < 5 * 1000**0.5
    neighbours = np.corrcoef(first[:-1], first[1:])[0, 1]
    assert abs(neighbours) < 0.02


def test_a_hash_depends_on_nothing_but_number_and_seed() -> None:
    np.testing.assert_array_equal(uniform_hash(np.arange(50, 60), 3), uniform_hash(np.arange(100), 3)[50:60])


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


def test_the_lowest_chances_are_found_and_other_pieces_not_read(write: Callable[..., Path]) -> None:
    table = ArrowTable(write("t.parquet", {"a": np.arange(100.0), "y": ["x", None] * 50}, 10))
    read: list[int] = []
    whole_read = table.read
    table.read = lambda piece, *rest, **more: read.append(piece.group) or whole_read(piece, *rest, **more)  # type: ignore[method-assign, func-returns-value, misc, assignment, return-value]
    numbers, rows = lowest_chances(table, ["a"], "y", lambda numbers: np.abs(numbers - 33) / 100, 0.08, 4, table.pieces)
    assert numbers.tolist() == [30, 32, 34, 36]
    assert rows["a"].to_pylist() == [30, 32, 34, 36]
    assert read == [2, 3, 4]


@given(n=st.integers(1, 2000), seed=st.integers(0, 1000))
def test_below_the_limit_there_are_enough(n: int, seed: int) -> None:
    assert (uniform_hash(np.arange(5000), seed) < sufficient_limit(n, 5000)).sum() >= n


def test_held_out_rows_are_from_all_over_and_labelled(write: Callable[..., Path]) -> None:
    path = write("t.parquet", {"a": np.arange(5000.0), "y": [1, 2, None, 3] * 1250}, 700)
    table = ArrowTable(path)
    X, labels = held_out_rows(table, ["a"], "y", 0.3, 7, 1125, 200)
    assert len(X) == len(labels) == 200
    assert X["a"].tolist() == X.index.tolist()
    assert (uniform_hash(X.index.to_numpy(), 7) < 0.3).all()
    assert labels.null_count == 0
    assert set(X.index // 700) == set(range(8))
    everything, _ = held_out_rows(table, ["a"], "y", 0.3, 7, 1125, 10_000)
    wanted = [i for i in range(5000) if uniform_hash(np.array([i]), 7)[0] < 0.3 and i % 4 != 2]
    assert everything.index.tolist() == wanted
    assert set(X.index) < set(wanted)


@pytest.mark.parametrize("target", [None, "y"])
def test_the_first_rows(write: Callable[..., Path], target: str | None) -> None:
    table = ArrowTable(write("t.parquet", {"a": [1.0, 2.0, 3.0, 4.0], "y": ["p", None, "q", "r"]}, 2))
    X, labels = first_rows(table, ["a"], target, 2)
    wanted = pd.DataFrame({"a": [1.0, 2.0]} if target is None else {"a": [1.0, 3.0]})
    pd.testing.assert_frame_equal(X.reset_index(drop=True), wanted)
    assert X.index.tolist() == ([0, 1] if target is None else [0, 2])
    assert (labels is None) if target is None else (labels is not None and labels.to_pylist() == ["p", "q"])
