"""All rows of files, part by part: to predict them, to measure on them, or to find some of them again."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from pursuit.data.parquet.arrow_files import ENDINGS, ArrowTable, existing_column
from pursuit.data.parquet.choosing import uniform_hash
from pursuit.data.storage import Place, here, is_remote, place
from pursuit.tasks import big_tables, tables
from pursuit.tasks.files.csv import read_csv

PART_ROWS = 20_000
"""Rows of a part: enough for the work on one to be worth its overhead."""


@dataclass(frozen=True)
class RowsPart:
    """Some rows of a file."""

    X: Any
    """What a model reads. The index of a DataFrame is the number of the row in the file, from 0."""
    labels: pd.Series | None
    """As they stand in the file, if it has the column."""
    place: Literal["line", "row"]
    """How rows are found in the file: by the line, from 1, of a CSV file, or by the number of the row, from 0."""
    places: np.ndarray
    ids: pd.Series | None
    """The column that was asked for, as it stands in the file."""
    absent: tuple[str, ...]
    """Columns the model reads that the file lacks: in `X` they are missing."""
    initially_known: np.ndarray | None = None
    """(N, Q) bool: the answers given before anything is asked, in rows of a task."""
    remarks: tuple[str, ...] = ()
    """What a person should know of how the file was read; of the first rows."""
    file: str | None = None
    """Which file the places are in, where there are several with places of their own."""


def every_row(
    source: str | Path,
    columns: Sequence[str],
    trained: Mapping[str, Any],
    *,
    target: str | None = None,
    id_column: str | None = None,
    part_rows: int = PART_ROWS,
    **reading: Any,
) -> "EveryRow":
    """The rows of a CSV file, of a folder of them, or of Parquet or Arrow files; those a model was trained on and those
    without a label included.

    `columns` are those that the model reads, and `trained` the notes of the task it was trained on. Columns the file
    lacks are missing values; raises ValueError if it has none of them. `reading` are other options than it was read
    with then (`missing`, `encoding`, `decimal`).
    """
    wanted = _Wanted(columns, trained, target, id_column, part_rows)
    paths = csv_files(source)
    return CsvRows(wanted, paths, reading) if paths else ArrowRows(wanted, source, **reading)


def csv_files(source: str | Path) -> tuple[Place, ...]:
    """The CSV files that a path means: itself, or all those in a folder, by name; none if it means other files."""
    path: Any = place(source)
    if not path.is_dir():
        if is_remote(path) and not path.exists():
            raise FileNotFoundError(f"There is nothing at {path}. Check its name; folders need not end in /.")
        return () if path.suffix.lower() in ENDINGS else (path,)
    inside = [found for found in sorted(path.rglob("*")) if not found.name.startswith((".", "_"))]
    if any(found.suffix.lower() in ENDINGS for found in inside):
        return ()
    return tuple(found for found in inside if found.name.lower().endswith(tables.ENDINGS))


@dataclass(frozen=True)
class _Wanted:
    """Which columns of a file are read, and how many rows at a time."""

    columns: Sequence[str]
    trained: Mapping[str, Any]
    target: str | None
    id_column: str | None
    part_rows: int

    def found(self, names: Sequence[str] | pd.Index, where: str) -> tuple[str | None, tuple[str, ...]]:
        """The column of labels, if there is one, and the columns that the file lacks; raises ValueError where it is
        another file."""
        label = _label_column(self.target, self.trained, names, where)
        if self.id_column is not None:
            existing_column(self.id_column, names, where)
        return label, _absent(self.columns, names, where)

    def part(
        self,
        frame: pd.DataFrame,
        label: str | None,
        absent: tuple[str, ...],
        place: Literal["line", "row"],
        places: np.ndarray,
        remarks: Sequence[str] = (),
    ) -> RowsPart:
        X = frame[[column for column in self.columns if column not in absent]].reindex(columns=list(self.columns))
        labels = None if label is None else frame[label]
        ids = None if self.id_column is None else frame[self.id_column]
        return RowsPart(X, labels, place, places, ids, absent, remarks=tuple(remarks))


class EveryRow(ABC):
    """All rows of one or several files. They lie in shares that can be read in any order and by any process."""

    wanted: "_Wanted"
    shares: tuple[str, ...]
    """What each share is, in words."""

    @property
    def id_column(self) -> str | None:
        """The column that tells rows apart; None: their places do."""
        return self.wanted.id_column

    @abstractmethod
    def read(self, share: int) -> Iterator[RowsPart]:
        """The rows of a share, part by part."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that tells these rows from others."""

    @abstractmethod
    def was_seen(self, share: int, rows: np.ndarray) -> np.ndarray:
        """Which rows of a share, by their numbers, the model was trained on (N,); where it was trained on all of them,
        none: nothing else could be measured."""

    def __iter__(self) -> Iterator[RowsPart]:
        """All rows in their order."""
        for share in range(len(self.shares)):
            yield from self.read(share)


class CsvRows(EveryRow):
    """Rows of CSV files, each of which is a share."""

    def __init__(self, wanted: _Wanted, paths: tuple[Place, ...], reading: dict[str, Any]):
        self.wanted, self.paths, self.reading = wanted, paths, reading
        self.shares = tuple(str(path) for path in paths)

    def read(self, share: int) -> Iterator[RowsPart]:
        wanted, path = self.wanted, self.paths[share]
        # Identifiers are copied letter by letter: 007 must not become 7.
        is_apart = wanted.id_column is not None and wanted.id_column not in wanted.columns
        texts = [wanted.id_column] if wanted.id_column is not None and is_apart else []
        file = None if len(self.paths) == 1 else path.name
        with here(path) as local:
            table = read_csv(local, tables.reading_options(wanted.trained, **self.reading), texts=texts)
            frame = table.frame
            label, absent = wanted.found(frame.columns, path.name)
            lines = np.arange(2, len(frame) + 2) if table.lines is None else np.array(table.lines)
        for start in range(0, len(frame), wanted.part_rows):
            places = slice(start, start + wanted.part_rows)
            remarks = () if start or share else table.remarks
            part = wanted.part(frame.iloc[places], label, absent, "line", lines[places], remarks)
            yield replace(part, file=file)

    def fingerprint(self) -> str:
        each = [tables.fingerprint(path) if isinstance(path, Path) else path.version() for path in self.paths]
        return hashlib.sha256("".join(each).encode()).hexdigest()

    def was_seen(self, share: int, rows: np.ndarray) -> np.ndarray:
        with here(self.paths[share]) as local:
            held_out = was_held_out(local, self.wanted.columns, self.wanted.trained, rows.tolist())
        return ~np.array(held_out) if held_out and any(held_out) else np.zeros(len(rows), dtype=bool)


class ArrowRows(EveryRow):
    """Rows of Parquet or Arrow files, whose row groups are the shares."""

    def __init__(self, wanted: _Wanted, source: str | Path, missing: Sequence[str] = (), **for_csv: Any):
        big_tables.refuse(for_csv)
        self.wanted, columns, trained = wanted, wanted.columns, wanted.trained
        extra = [name for name in (wanted.target or trained.get("target"), wanted.id_column) if name is not None]
        self.table = ArrowTable(source, missing=missing or trained.get("missing", ()), only=[*columns, *extra])
        self.label, self.absent = wanted.found(list(self.table.column_types), self.table.name)
        self._fingerprint = self.table.fingerprint()
        self.shares = tuple(
            f"rows {piece.first:,} to {piece.first + piece.n_rows - 1:,} in {self.table.files[piece.file].path}"
            for piece in self.table.pieces
        )

    def read(self, share: int) -> Iterator[RowsPart]:
        wanted, table = self.wanted, self.table
        named = dict.fromkeys((self.label, wanted.id_column))
        as_stored = [name for name in named if name is not None and name not in wanted.columns]
        read = [*(column for column in wanted.columns if column not in self.absent), *as_stored]
        for first, chunk in table.read(table.pieces[share], read, as_stored, chunk_rows=wanted.part_rows):
            frame = chunk.to_pandas().set_axis(np.arange(first, first + len(chunk)), axis=0)
            yield wanted.part(frame, self.label, self.absent, "row", frame.index.to_numpy())

    def fingerprint(self) -> str:
        return self._fingerprint

    def was_seen(self, share: int, rows: np.ndarray) -> np.ndarray:
        trained = self.wanted.trained
        if not trained.get("n_test") or self._fingerprint != trained.get("fingerprint"):
            return np.zeros(len(rows), dtype=bool)
        return uniform_hash(rows, trained["seed"]) >= trained["test_share"]


def was_held_out(
    source: str | Path, columns: Sequence[str], trained: Mapping[str, Any], rows: Sequence[int]
) -> list[bool] | None:
    """Whether rows of a file, by their numbers, were held out when a model was trained on it; None if it was not."""
    if big_tables.is_big_table(source):
        table = ArrowTable(source, missing=trained.get("missing", ()), only=[*columns, trained.get("target", "")])
        if table.fingerprint() != trained.get("fingerprint"):
            return None
        chances = uniform_hash(np.asarray(rows), trained["seed"])
        return [bool(trained["n_test"]) and bool(chance < trained["test_share"]) for chance in chances]
    if trained.get("sha256") is None or trained["sha256"] != tables.fingerprint(source):
        return None
    unseen, _, _ = tables.unseen_rows(source, columns, trained)
    is_all = len(unseen) == trained["n_rows"]  # then none was held out
    return [row in unseen.index and not is_all for row in rows]


def _label_column(
    target: str | None, trained: Mapping[str, Any], names: Sequence[str] | pd.Index, where: str
) -> str | None:
    if target is not None:
        return existing_column(target, names, where)
    return trained.get("target") if trained.get("target") in names else None


def _absent(columns: Sequence[str], names: Sequence[str] | pd.Index, where: str) -> tuple[str, ...]:
    absent = tuple(column for column in columns if column not in names)
    if len(absent) == len(columns):
        raise ValueError(
            f"{where} has none of the columns the model asks for ({', '.join(columns[:10])}), only "
            f"{', '.join(map(str, names[:10]))}: is it the right file?"
        )
    return absent
