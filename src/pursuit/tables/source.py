"""Which rows are meant: all rows of files, and of these the ones that a model was not trained on.

A `TableSource` is opened for a model, by the columns it reads and the notes of the task it was trained on: files are
read as those of its training rows were, and rows held out then are found again by the same seed.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from pursuit.files import ARROW_ENDINGS
from pursuit.queries.column import listed
from pursuit.tables.arrow import ArrowTable, existing_column
from pursuit.tables.csv import ENDINGS as CSV_ENDINGS
from pursuit.tables.csv import CsvOptions, CsvTable, read_csv
from pursuit.tables.filesystem import AnyPath, display_name, files_below, find_path, is_remote, local
from pursuit.tables.splitting import Division, group_numbers, time_numbers, uniform_hash
from pursuit.tables.survey import labels_as_array, split_number, split_target

PART_ROWS = 20_000
"""Rows of a part: enough for the work on one to be worth its overhead."""
MAX_MEASURED = 20_000
"""Rows of Parquet and Arrow files to measure on in memory; more would not make a measurement much better."""
ONLY_CSV = {
    "encoding": "which is always UTF-8 here",
    "decimal": "because numbers are stored as such here",
    "kinds": "because columns have their types here",
    "missing_informs": "because rows are streamed, and missing values are not counted",
    "group": "because rows are streamed and held out one by one: write some groups into a file of their own",
    "time": "because rows are streamed and held out at random: write the latest rows into a file of their own",
}
"""Options that Parquet and Arrow files do not have, and why."""


@dataclass(frozen=True)
class RowsPart:
    """Some rows of a file."""

    X: Any
    """What a model reads. The index of a DataFrame is the number of the row in the file, from 0."""
    labels: pd.Series | None
    """As they stand in the file, if it has the column."""
    position: Literal["line", "row"]
    """How rows are found in the file: by the line, from 1, of a CSV file, or by the number of the row, from 0."""
    positions: np.ndarray
    ids: pd.Series | None = None
    """The column that was asked for, as it stands in the file."""
    absent: tuple[str, ...] = ()
    """Columns the model reads that the file lacks: in `X` they are missing."""
    initially_known: np.ndarray | None = None
    """(N, Q) bool: the answers given before anything is asked, in rows of a task."""
    remarks: tuple[str, ...] = ()
    """What a person should know of how the file was read; of the first rows."""
    share: int = 0
    """Which share of its source it belongs to."""
    file: str | None = None
    """Which file the positions are in, where there are several with positions of their own."""


class UnseenRows(NamedTuple):
    """Rows that a model was not trained on."""

    name: str
    X: Any
    y: np.ndarray | None
    initially_known: np.ndarray | None = None
    remark: str = ""
    """What a person should know of which rows these are."""


@dataclass
class TableSource(ABC):
    """The rows of one or several files. They lie in shares that can be read in any order and by any process."""

    path: AnyPath
    columns: Sequence[str]
    """Those that the model reads."""
    trained: Mapping[str, Any]
    """The notes of the task that the model was trained on."""
    target: str | None = None
    """The column of labels; by default that of training, if there is one."""
    id_column: str | None = None
    """The column that tells rows apart; None: their positions do."""
    part_rows: int = PART_ROWS
    missing: Sequence[str] = ()
    encoding: str | None = None
    decimal: str | None = None
    shares: tuple[str, ...] = field(init=False, repr=False)
    """What each share is, in words."""

    @abstractmethod
    def __post_init__(self) -> None:
        """Find the files and their shares."""

    @property
    def name(self) -> str:
        return name_of(self.path)

    @abstractmethod
    def read(self, share: int) -> Iterator[RowsPart]:
        """The rows of a share, part by part; raises ValueError if it has none of the columns."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that tells these rows from others."""

    @abstractmethod
    def unseen(self) -> UnseenRows:
        """Rows that the model was not trained on, in memory, with their labels if there are any: of the files of
        training those held out then, of other files all, or the first of Parquet and Arrow files."""

    @abstractmethod
    def has_held_out(self, share: int) -> bool:
        """Whether the model was trained on these rows, but for some of them."""

    @abstractmethod
    def was_seen(self, part: RowsPart) -> np.ndarray:
        """Which rows (N,) the model was trained on, as far as that is known."""

    def __iter__(self) -> Iterator[RowsPart]:
        """All rows in their order."""
        for share in range(len(self.shares)):
            yield from self.read(share)

    def _found(self, names: Sequence[str], where: str) -> tuple[str | None, tuple[str, ...]]:
        """The column of labels, if there is one, and the columns that a file lacks."""
        for name in (self.target, self.id_column):
            if name is not None:
                existing_column(name, names, where)
        label = self.target or self.trained.get("target")
        return label if label in names else None, self._absent_among(names, where)

    def _absent_among(self, names: Sequence[str], where: str) -> tuple[str, ...]:
        """The columns that a file lacks; raises ValueError if it has none of them."""
        absent = tuple(column for column in self.columns if column not in names)
        if len(absent) == len(self.columns):
            raise ValueError(
                f"{where} has none of the columns the model asks for ({', '.join(self.columns[:10])}), only "
                f"{', '.join(map(str, names[:10]))}: is it the right file?"
            )
        return absent

    def _part(self, frame: pd.DataFrame, label: str | None, absent: tuple[str, ...], **where: Any) -> RowsPart:
        X = frame[[column for column in self.columns if column not in absent]].reindex(columns=list(self.columns))
        labels = None if label is None else frame[label]
        ids = None if self.id_column is None else frame[self.id_column]
        return RowsPart(X, labels, ids=ids, absent=absent, **where)


def open_table(source: str | AnyPath, columns: Sequence[str], trained: Mapping[str, Any], **wanted: Any) -> TableSource:
    """The rows of a CSV file, of a folder of them, or of Parquet or Arrow files; those a model was trained on and those
    without a label included. Columns the files lack are missing values. `wanted` are fields of `TableSource`, of which
    `missing`, `encoding` and `decimal` are those of training where they are not given."""
    kind = CsvSource if csv_files(source) else ArrowSource
    return kind(find_path(source), columns, trained, **wanted)


class CsvSource(TableSource):
    """Rows of CSV files, each of which is a share."""

    def __post_init__(self) -> None:
        self.paths = csv_files(self.path)
        self.shares = tuple(str(path) for path in self.paths)
        self._as_trained = CsvOptions(
            tuple(self.trained.get("missing", ())), self.trained.get("encoding"), self.trained.get("decimal")
        )
        self._options = CsvOptions(
            tuple(self.missing) or self._as_trained.missing,
            self.encoding or self._as_trained.encoding,
            self.decimal or self._as_trained.decimal,
        )
        self._held_out: dict[int, pd.Index | None] = {}

    def read(self, share: int) -> Iterator[RowsPart]:
        path = self.paths[share]
        # Identifiers are copied letter by letter: 007 must not become 7.
        texts = [] if self.id_column is None or self.id_column in self.columns else [self.id_column]
        file = None if len(self.paths) == 1 else path.name
        with local(path) as copy:
            table = read_csv(copy, self._options, texts=texts)
            frame = table.frame
            label, absent = self._found(list(frame.columns), path.name)
            lines = np.arange(2, len(frame) + 2) if table.lines is None else np.array(table.lines)
        for start in range(0, len(frame), self.part_rows):
            rows = slice(start, start + self.part_rows)
            where = {"position": "line", "positions": lines[rows], "share": share, "file": file}
            remarks = () if start or share else tuple(table.remarks)
            yield self._part(frame.iloc[rows], label, absent, remarks=remarks, **where)

    def fingerprint(self) -> str:
        each = [hash_of_file(path) if isinstance(path, Path) else path.version() for path in self.paths]
        return hashlib.sha256("".join(each).encode()).hexdigest()

    def unseen(self) -> UnseenRows:
        path = find_csv_file(self.path)
        assert path is not None
        table = read_csv(path, self._options)
        X, y, label = table.frame, None, self.target or self.trained.get("target")
        if self.target is not None or label in X.columns:
            X, y = (split_number if self.trained.get("regress") else split_target)(X, label, path.name)
        _refuse_absent(self._absent_among(list(X.columns), path.name), path.name)
        X, remarks = X[list(self.columns)], list(table.remarks)
        held_out = None if y is None else self._held_out_rows(0, table)
        if held_out is not None and y is not None:
            is_held_out = X.index.isin(held_out)
            if is_held_out.any():
                X, y = X[is_held_out], y[is_held_out]
                remarks.append(f"The model was trained on {path.name}: only the {len(X)} held-out rows are used.")
            else:
                remarks.append(_trained_on_all(path.name))
        return UnseenRows(self.name, X, y, remark="\n".join(remarks))

    def has_held_out(self, share: int) -> bool:
        held_out = self._held_out_rows(share)
        return held_out is not None and len(held_out) > 0

    def was_seen(self, part: RowsPart) -> np.ndarray:
        held_out = self._held_out_rows(part.share)
        return np.zeros(len(part.X), dtype=bool) if held_out is None else ~part.X.index.isin(held_out)

    def _held_out_rows(self, share: int, table: CsvTable | None = None) -> pd.Index | None:
        """The rows that were held out when the model was trained on the file of a share; None if it was not. `table` is
        what the file holds, read by the options of this source."""
        if share not in self._held_out:
            with local(self.paths[share]) as copy:
                self._held_out[share] = self._split_again(copy, table)
        return self._held_out[share]

    def _split_again(self, path: Path, table: CsvTable | None) -> pd.Index | None:
        trained = self.trained
        if trained.get("sha256") is None or trained["sha256"] != hash_of_file(path):
            return None
        if table is None or self._options != self._as_trained:
            table = read_csv(path, self._as_trained)
        how = [trained.get(name) for name in ("group", "time")]
        X, _, division = divided(table, trained["target"], trained.get("regress", False), *how)
        _, test = division.split(trained["test_share"], trained["seed"])
        return X.index[test]


class ArrowSource(TableSource):
    """Rows of Parquet or Arrow files, whose row groups are the shares."""

    def __post_init__(self) -> None:
        refuse_csv_options(encoding=self.encoding, decimal=self.decimal)
        extra = [name for name in (self.target or self.trained.get("target"), self.id_column) if name is not None]
        missing = self.missing or self.trained.get("missing", ())
        self.table = ArrowTable(self.path, missing=missing, only=[*self.columns, *extra])
        self._label, self._absent = self._found(list(self.table.column_types), self.table.name)
        self._fingerprint = self.table.fingerprint()
        self.shares = tuple(
            f"rows {piece.first:,} to {piece.first + piece.n_rows - 1:,} in {self.table.files[piece.file].path}"
            for piece in self.table.pieces
        )

    def read(self, share: int) -> Iterator[RowsPart]:
        named = dict.fromkeys((self._label, self.id_column))
        as_stored = [name for name in named if name is not None and name not in self.columns]
        read = [*(column for column in self.columns if column not in self._absent), *as_stored]
        for first, chunk in self.table.read(self.table.pieces[share], read, as_stored, self.part_rows):
            numbers = np.arange(first, first + len(chunk))
            frame = chunk.to_pandas().set_axis(numbers, axis=0)
            yield self._part(frame, self._label, self._absent, position="row", positions=numbers, share=share)

    def fingerprint(self) -> str:
        return self._fingerprint

    def unseen(self) -> UnseenRows:
        table, trained, label = self.table, self.trained, self._label
        _refuse_absent(self._absent, table.name)
        remark = ""
        if label is not None and label == trained.get("target") and self._is_trained_on:
            if n_held_out := trained["n_test"]:
                how = trained["test_share"], trained["seed"], n_held_out, MAX_MEASURED
                X, labels = table.held_out(self.columns, label, *how)
                remark = (
                    f"The model was trained on {table.name}: {len(X):,} of the {n_held_out:,} held-out rows are used."
                )
                return UnseenRows(self.name, X, labels_as_array(labels.to_pandas()), remark=remark)
            remark = _trained_on_all(table.name)
        elif table.n_rows > MAX_MEASURED:
            remark = f"{table.name} has {table.n_rows:,} rows: the first {MAX_MEASURED:,} are used."
        numbers, rows = table.rows(self.columns, label, most=MAX_MEASURED)
        X = rows.select(list(self.columns)).to_pandas().set_axis(numbers, axis=0)
        return UnseenRows(
            self.name, X, None if label is None else labels_as_array(rows[label].to_pandas()), remark=remark
        )

    @property
    def _is_trained_on(self) -> bool:
        return self._fingerprint == self.trained.get("fingerprint")

    def has_held_out(self, share: int) -> bool:
        return self._is_trained_on and bool(self.trained["n_test"])

    def was_seen(self, part: RowsPart) -> np.ndarray:
        if not self.has_held_out(part.share):
            return np.full(len(part.X), self._is_trained_on)
        return uniform_hash(part.positions, self.trained["seed"]) >= self.trained["test_share"]


def csv_files(source: str | AnyPath) -> tuple[AnyPath, ...]:
    """The CSV files that a path means: itself, or all those in a folder, by name; none if it means other files."""
    path = find_path(source)
    if path.is_dir():
        return () if files_below(path, ARROW_ENDINGS) else tuple(files_below(path, CSV_ENDINGS))
    if is_remote(path) and not path.exists():
        raise FileNotFoundError(f"There is nothing at {path}. Check its name; folders need not end in /.")
    return () if path.suffix.lower() in ARROW_ENDINGS else (path,)


def find_csv_file(source: str | AnyPath) -> Path | None:
    """The one CSV file here that a path means; None if it means Parquet or Arrow files. Raises ValueError for a folder
    of CSV files, and for one on another machine."""
    files, path = csv_files(source), find_path(source)
    if files and path.is_dir():
        names = listed(sorted(file.name for file in files))
        raise ValueError(f"{path} is a folder. Give the path of one of the CSV files in it: {names}.")
    if files and is_remote(path):
        raise ValueError(
            f"{display_name(path)} is on another machine, from which only Parquet and Arrow files are read piece by "
            "piece: copy the CSV file here first, or predict and evaluate with --engine."
        )
    return Path(str(path)) if files else None


def name_of(source: str | AnyPath) -> str:
    """The name of a table: that of its file or folder, without what says how it is stored, and without the stars of a
    pattern."""
    path = Path(display_name(source))
    endings = sorted((ending for ending in CSV_ENDINGS if path.name.lower().endswith(ending)), key=len)
    if endings and path.name != endings[-1]:
        return path.name[: -len(endings[-1])]
    return next((part for part in (path.stem, *(p.name for p in path.parents)) if part and "*" not in part), "table")


def hash_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def divided(
    table: CsvTable, target: str | None, regress: bool, group: str | None, time: str | None
) -> tuple[pd.DataFrame, np.ndarray, Division]:
    """What may be asked, labels or numbers, and what decides which rows may be held out."""
    where = table.text.path.name
    X, y = (split_number if regress else split_target)(table.frame, target, where)
    classes = np.zeros(len(y)) if regress else y  # numbers make no classes
    if group is not None and time is not None:
        raise ValueError("Rows are held out by --group or by --time: leave one of them out.")
    if group is not None:
        return X, y, Division(classes, groups=group_numbers(X[existing_column(group, X.columns, where)]))
    if time is not None:
        column = X[existing_column(time, X.columns, where)]
        times = time_numbers(column, time, lambda row: table.line(column.index[row]))
        return X, y, Division(classes, times=times)
    return X, y, Division(classes)


def refuse_csv_options(**options: Any) -> None:
    """Raise ValueError for options that Parquet and Arrow files do not have."""
    for name, value in options.items():
        if value:
            option = {"kinds": "kind"}.get(name, name.replace("_", "-"))
            raise ValueError(f"--{option} is for CSV files, not for Parquet and Arrow files, {ONLY_CSV[name]}.")


def _refuse_absent(absent: Sequence[str], where: str) -> None:
    if absent:
        raise ValueError(
            f"{where} lacks columns the model asks for: {', '.join(absent[:10])}. Add them; unknown answers may stay "
            "empty."
        )


def _trained_on_all(where: str) -> str:
    return f"Warning: the model was trained on all rows of {where}: its accuracy on them says little."
