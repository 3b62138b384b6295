"""Which rows are held out, sampled, or dealt out to processes. All of it follows from their numbers."""

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pursuit.data.parquet.arrow_files import ArrowTable, Piece

if TYPE_CHECKING:
    import pyarrow as pa

EVEN_ENOUGH = 1.02
"""Row groups are dealt out whole if the largest shard is no larger than this times the mean."""


def uniform_hash(rows: np.ndarray, seed: int) -> np.ndarray:
    """A number in [0, 1) for every row number, which looks random but depends only on it and the seed (SplitMix64)."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.random.SeedSequence(seed).generate_state(
        1, np.uint64
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(float) * 2.0**-53


def lowest_chances(
    table: ArrowTable,
    columns: Sequence[str],
    target: str,
    chance: Callable[[np.ndarray], np.ndarray],
    limit: float,
    most: int,
    pieces: Sequence[Piece],
) -> tuple[np.ndarray, "pa.Table"]:
    """The labelled rows with the lowest `chance`, at most `most` of those below `limit`: their numbers, and a table of
    `columns` and the target. Pieces without any such row are not read."""
    import pyarrow as pa

    numbers, parts = [np.empty(0, dtype=np.int64)], [table.empty([*columns, target], as_stored=[target])]
    for piece in pieces:
        if not (chance(np.arange(piece.first, piece.first + piece.n_rows)) < limit).any():
            continue
        for first, chunk in table.read(piece, [*columns, target], as_stored=[target]):
            here = np.arange(first, first + len(chunk))
            is_chosen = (chance(here) < limit) & is_present(chunk[target])
            numbers.append(here[is_chosen])
            parts.append(chunk.filter(pa.array(is_chosen)))
    found, rows = np.concatenate(numbers), pa.concat_tables(parts)
    if len(found) > most:
        best = np.sort(np.argsort(chance(found), kind="stable")[:most])
        found, rows = found[best], rows.take(best)
    return found, rows


def sufficient_limit(n: int, n_there: int) -> float:
    """The limit below which at least n of `n_there` uniform chances lie, almost surely."""
    return min(1.0, (n + 5 * n**0.5 + 10) / max(1, n_there))


def held_out_rows(
    table: ArrowTable,
    columns: Sequence[str],
    target: str,
    share: float,
    seed: int,
    n_held_out: int,
    most: int,
) -> tuple[pd.DataFrame, "pa.ChunkedArray"]:
    """At most `most` of the `n_held_out` rows held out to measure on, and their labels as they stand in the files."""
    limit = share * sufficient_limit(most, n_held_out)

    def chance(numbers: np.ndarray) -> np.ndarray:
        return uniform_hash(numbers, seed)

    numbers, rows = lowest_chances(table, columns, target, chance, limit, most, table.pieces)
    return rows.select(list(columns)).to_pandas().set_axis(numbers, axis=0), rows[target]


def first_rows(
    table: ArrowTable, columns: Sequence[str], target: str | None, most: int
) -> tuple[pd.DataFrame, "pa.ChunkedArray | None"]:
    """The first rows, only labelled ones if there is a target, and their labels as they stand in the files."""
    import pyarrow as pa

    read = [*columns, *([target] if target else [])]
    as_stored = [target] if target else []
    numbers, parts, n = [], [table.empty(read, as_stored)], 0
    for first, chunk in (found for piece in table.pieces for found in table.read(piece, read, as_stored)):
        is_chosen = is_present(chunk[target]) if target else np.ones(len(chunk), dtype=bool)
        numbers.append(np.arange(first, first + len(chunk))[is_chosen])
        parts.append(chunk.filter(pa.array(is_chosen)))
        n += len(parts[-1])
        if n >= most:
            break
    rows = pa.concat_tables(parts).slice(0, most)
    X = rows.select(list(columns)).to_pandas().set_axis(np.concatenate(numbers)[:most], axis=0)
    return X, rows[target] if target else None


def is_present(column: "pa.ChunkedArray") -> np.ndarray:
    """Which values are not missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return ~pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy()


def deal(sizes: Sequence[float], n_shards: int) -> list[list[tuple[int, float, float]]]:
    """Things of these sizes dealt out evenly: for every shard, the numbers of those it gets, and where in each its part
    starts and stops, from 0 to 1.

    They go whole to the smallest shard, largest first. If that leaves a shard too large, none gets more than the mean
    that way, and what is left over fills them up in slices.
    """
    mean = sum(sizes) / n_shards
    dealt, rest, loads = _deal_whole(sizes, n_shards, np.inf)
    if max(loads) <= EVEN_ENOUGH * mean:
        return dealt
    dealt, rest, loads = _deal_whole(sizes, n_shards, mean * (1 + 1e-9))
    shard = 0
    for i in rest:
        start = 0.0
        while start < 1:
            room = (mean - loads[shard]) / sizes[i]
            stop = 1.0 if shard == n_shards - 1 else min(1.0, start + max(0.0, room))
            dealt[shard].append((i, start, stop))
            loads[shard] += (stop - start) * sizes[i]
            start = stop
            shard += stop < 1
    return dealt


def _deal_whole(
    sizes: Sequence[float], n_shards: int, most: float
) -> tuple[list[list[tuple[int, float, float]]], list[int], list[float]]:
    """Largest first to the smallest shard, unless that would make it larger than `most`: what each has, what is left
    over, and the sizes of the shards."""
    dealt: list[list[tuple[int, float, float]]] = [[] for _ in range(n_shards)]
    rest, loads = [], [(0.0, shard) for shard in range(n_shards)]  # a heap
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        load, shard = loads[0]
        if load + sizes[i] > most:
            rest.append(i)
        else:
            dealt[shard].append((i, 0.0, 1.0))
            heapq.heapreplace(loads, (load + sizes[i], shard))
    return dealt, rest, [load for load, _ in sorted(loads, key=lambda pair: pair[1])]
