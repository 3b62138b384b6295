"""All rows of a file in their order, part by part: to predict them, or to find some of them again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from pursuit.data.parquet.arrow_files import ArrowTable, existing_column
from pursuit.data.parquet.choosing import uniform_hash
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


def every_row(
    source: str | Path,
    columns: Sequence[str],
    trained: Mapping[str, Any],
    *,
    target: str | None = None,
    id_column: str | None = None,
    part_rows: int = PART_ROWS,
    **reading: Any,
) -> Iterator[RowsPart]:
    """The rows of a CSV file or of Parquet files, those a model was trained on and those without a label included.

    `columns` are those that the model reads, and `trained` the notes of the task it was trained on. Columns the file
    lacks are missing values; raises ValueError if it has none of them. `reading` are other options than it was read
    with then (`missing`, `encoding`, `decimal`).
    """
    wanted = _Wanted(source, columns, trained, target, id_column, part_rows)
    read = _parquet_parts if big_tables.is_big_table(source) else _csv_parts
    return read(wanted, **reading)


@dataclass(frozen=True)
class _Wanted:
    """Which columns of a file are read, and how many rows at a time."""

    source: str | Path
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


def _csv_parts(wanted: _Wanted, **reading: Any) -> Iterator[RowsPart]:
    path, id_column, part_rows = Path(wanted.source), wanted.id_column, wanted.part_rows
    # Identifiers are copied letter by letter: 007 must not become 7.
    texts = [id_column] if id_column is not None and id_column not in wanted.columns else []
    table = read_csv(path, tables.reading_options(wanted.trained, **reading), texts=texts)
    frame = table.frame
    label, absent = wanted.found(frame.columns, path.name)
    lines = np.arange(2, len(frame) + 2) if table.lines is None else np.array(table.lines)
    for start in range(0, len(frame), part_rows):
        places = slice(start, start + part_rows)
        remarks = () if start else table.remarks
        yield wanted.part(frame.iloc[places], label, absent, "line", lines[places], remarks)


def _parquet_parts(wanted: _Wanted, missing: Sequence[str] = (), **for_csv: Any) -> Iterator[RowsPart]:
    big_tables.refuse(for_csv)
    columns, trained, id_column = wanted.columns, wanted.trained, wanted.id_column
    extra = [name for name in (wanted.target or trained.get("target"), id_column) if name is not None]
    table = ArrowTable(wanted.source, missing=missing or trained.get("missing", ()), only=[*columns, *extra])
    label, absent = wanted.found(list(table.column_types), table.name)
    as_stored = [name for name in dict.fromkeys((label, id_column)) if name is not None and name not in columns]
    read = [*(column for column in columns if column not in absent), *as_stored]
    for piece in table.pieces:
        for first, chunk in table.read(piece, read, as_stored, chunk_rows=wanted.part_rows):
            frame = chunk.to_pandas().set_axis(np.arange(first, first + len(chunk)), axis=0)
            yield wanted.part(frame, label, absent, "row", frame.index.to_numpy())


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
