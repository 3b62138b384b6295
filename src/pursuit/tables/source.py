"""Which rows are meant: all rows of files, and of these the ones that a model was not trained on.

A `TableSource` is opened for a model, by the columns it reads and the notes of the task it was trained on: files are
read as those of its training rows were, and rows held out then are found again by the same seed.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from pursuit.files import ARROW_ENDINGS
from pursuit.queries import NotAQuestion
from pursuit.queries.column import listed
from pursuit.registry import nearest
from pursuit.tables import arrow
from pursuit.tables.arrow import Piece, existing_column
from pursuit.tables.csv import ENDINGS as CSV_ENDINGS
from pursuit.tables.csv import CsvOptions, CsvTable, read_csv
from pursuit.tables.filesystem import (
    AnyPath,
    display_name,
    files_below,
    find_path,
    for_each,
    is_remote,
    local,
    with_query,
)
from pursuit.tables.labels import same_labels, split_target, target_values, with_same
from pursuit.tables.splitting import Division, group_numbers, time_numbers, uniform_hash

if TYPE_CHECKING:
    import pyarrow as pa

PART_ROWS = 20_000
"""Rows of a part: enough for the work on one to be worth its overhead."""
MOST_NAMED = 10
"""Columns that a message names."""
MAX_MEASURED = 20_000
"""Rows of Parquet and Arrow files to measure on in memory; more would not make a measurement much better."""
ONLY_CSV = {
    "encoding": "which is always UTF-8 here",
    "sheet": "which have no sheets",
    "language": "whose questions are made in English: word them in a questions file",
    "decimal": "because numbers are stored as such here",
    "column_types": "because columns have their types here",
    "from_data": "because rows are streamed, with one query per column",
    "missing_informs": "because rows are streamed, and missing values are not counted",
    "group": "because rows are streamed and held out one by one: write some groups into a file of their own",
    "time": "because rows are streamed and held out at random: write the latest rows into a file of their own",
}
"""Options that Parquet and Arrow files do not have, and why."""


@dataclass(frozen=True)
class RowsPart:
    """Some rows of a source."""

    X: Any
    """What a model reads. The index of a DataFrame is the number of the row in the file, from 0."""
    labels: pd.Series | None
    """As they stand in the file, if it has the column."""
    position: Literal["line", "row"]
    """How rows are found in the file: by the line, from 1, of a CSV file, or by the number of the row, from 0."""
    positions: np.ndarray
    seen: np.ndarray
    """(N,) bool: which rows the model was trained on, as far as that is known."""
    is_all_seen: bool = False
    """Whether the model was trained on all rows of the file."""
    ids: pd.Series | None = None
    """The column that was asked for, as it stands in the file."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Columns the model reads that the file lacks, with what to say of them: in `X` they are missing."""
    initially_known: np.ndarray | None = None
    """(N, Q) bool: the answers given before anything is asked, in rows of a task."""
    remarks: tuple[str, ...] = ()
    """What a person should know of how the file was read; of the first rows."""
    file: str | None = None
    """Which file the positions are in, where there are several with positions of their own."""

    @property
    def to_measure(self) -> np.ndarray:
        """(N,) bool: the rows to measure a model on, which are those that it was not trained on. Where it was trained
        on all rows, they count too: nothing else could be measured."""
        return np.ones_like(self.seen) if self.is_all_seen else ~self.seen


class TableSource(ABC):
    """Rows for a model. They lie in shares that can be read in any order and by any process."""

    name: str
    shares: tuple[str, ...]
    """What each share is, in words."""
    id_column: str | None = None
    """The column that tells rows apart; None: their positions do."""

    @abstractmethod
    def read(self, share: int) -> Iterator[RowsPart]:
        """The rows of a share, part by part; raises ValueError if it has none of the columns."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that tells these rows from others."""

    @abstractmethod
    def unseen(self, most: int | None = None) -> "MemorySource":
        """Rows that the model was not trained on, in memory, with their labels if there are any, at most `most`: of the
        files of training those held out then, of others all, or the first of Parquet and Arrow files."""

    def __iter__(self) -> Iterator[RowsPart]:
        """All rows in their order."""
        for share in range(len(self.shares)):
            yield from self.read(share)


@dataclass
class MemorySource(TableSource):
    """Rows in memory that the model was not trained on."""

    name: str
    X: Any
    y: np.ndarray | None
    initially_known: np.ndarray | None = None
    remark: str = ""
    """What a person should know of which rows these are."""
    where: np.ndarray | None = None
    """The position of each row in its file, such as "line 18 of the file"; None without a file."""
    part_rows: int = PART_ROWS

    def __post_init__(self) -> None:
        self.shares = (self.name,)

    def take(self, rows: Any) -> "MemorySource":
        """Some of the rows, by a slice or by their numbers."""
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        each = (self.y, self.initially_known, self.where)
        y, known, where = (None if values is None else values[rows] for values in each)
        return replace(self, X=X, y=y, initially_known=known, where=where)

    def read(self, share: int) -> Iterator[RowsPart]:
        for start in range(0, len(self.X), self.part_rows):
            part = self.take(slice(start, start + self.part_rows))
            labels = None if part.y is None else pd.Series(part.y)
            positions = np.arange(start, start + len(part.X))
            seen = np.zeros(len(positions), dtype=bool)
            yield RowsPart(part.X, labels, "row", positions, seen, initially_known=part.initially_known)

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for array in (np.asarray(self.X), np.asarray(self.y)):
            digest.update((array.astype(str) if array.dtype == object else array).tobytes())
        return digest.hexdigest()

    def unseen(self, most: int | None = None) -> "MemorySource":
        return self.take(slice(most))


@dataclass
class FileSource(TableSource):
    """The rows of one or several files."""

    path: AnyPath
    columns: Sequence[str]
    """Those that the model reads."""
    trained: Mapping[str, Any]
    """The notes of the task that the model was trained on."""
    target: str | None = None
    """The column of labels; by default that of training, if there is one."""
    id_column: str | None = None
    part_rows: int = PART_ROWS
    missing: Sequence[str] = ()
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    codes: Sequence[str] = ()
    """Columns of a CSV file whose values stay as they are written, because they were codes such as 007 in training."""

    @abstractmethod
    def __post_init__(self) -> None:
        """Find the files and their shares."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return name_of(self.path)

    def _found(self, names: Sequence[str], where: str) -> tuple[str | None, dict[str, str]]:
        """The column of labels, if there is one, and the columns that a file lacks, each with what to say of it; raises
        ValueError if it has none of them."""
        for name in (self.target, self.id_column):
            if name is not None:
                existing_column(name, names, where)
        label = self.target or self.trained.get("target")
        existing, asked = set(names), set(self.columns)
        absent = {column: column for column in self.columns if column not in existing}
        if absent and len(absent) == len(self.columns):
            raise ValueError(
                f"{where} has none of the columns the model asks for ({', '.join(self.columns[:MOST_NAMED])}), only "
                f"{', '.join(map(str, names[:MOST_NAMED]))}: is it the right file?"
            )
        for column in list(absent)[:MOST_NAMED]:
            if close := nearest(column, [name for name in names if name not in asked]):
                absent[column] = f"{column} (there is '{close}')"
        return label if label in existing else None, absent

    def _part(self, frame: pd.DataFrame, label: str | None, absent: Mapping[str, str], **where: Any) -> RowsPart:
        X = frame[[column for column in self.columns if column not in absent]].reindex(columns=list(self.columns))
        labels = None if label is None else frame[label]
        ids = None if self.id_column is None else frame[self.id_column]
        return RowsPart(X, labels, ids=ids, absent=absent, **where)

    def _unseen(
        self, X: pd.DataFrame, labels: pd.Series | None, remarks: Sequence[str], where: Sequence[str]
    ) -> MemorySource:
        if labels is not None and not len(X):
            raise ValueError(f"Column '{labels.name}' of {self.path.name} has no labels: all its values are missing.")
        y = None if labels is None else target_values(labels, self.trained.get("regress", False), self.path.name)
        return MemorySource(self.name, X, y, remark="\n".join(remarks), where=np.array(where))


def open_table(source: str | AnyPath, columns: Sequence[str], trained: Mapping[str, Any], **wanted: Any) -> FileSource:
    """The rows of a CSV file, of a folder of them, or of Parquet or Arrow files; those a model was trained on and those
    without a label included. Columns the files lack are missing values. `wanted` are fields of `FileSource`, of which
    `missing`, `encoding`, `decimal` and `sheet` are those of training where they are not given; `query` is what to read
    of a database."""
    source = with_query(source, wanted.pop("query", None))
    kind = CsvSource if csv_files(source) else ArrowSource
    return kind(find_path(source), columns, trained, **wanted)


class CsvSource(FileSource):
    """Rows of CSV files, each of which is a share."""

    def __post_init__(self) -> None:
        self.paths = csv_files(self.path)
        self.shares = tuple(str(path) for path in self.paths)
        self._as_trained = CsvOptions(
            tuple(self.trained.get("missing", ())),
            *map(self.trained.get, ("encoding", "decimal", "sheet", "usual_decimal")),
        )
        given = {name: getattr(self, name) for name in ("missing", "encoding", "decimal", "sheet")}
        self._options = replace(self._as_trained, **{name: value for name, value in given.items() if value})

    def read(self, share: int) -> Iterator[RowsPart]:
        path = self.paths[share]
        # Identifiers are copied letter by letter: 007 must not become 7.
        texts = [*self.codes]
        if self.id_column is not None and self.id_column not in self.columns:
            texts.append(self.id_column)
        file = None if len(self.paths) == 1 else path.name
        with local(path) as copy:
            table = read_csv(copy, self._options, texts=texts, names=self.columns)
            frame = table.frame
            label, absent = self._found(list(frame.columns), path.name)
            lines = np.arange(2, len(frame) + 2) if table.lines is None else np.array(table.lines)
            held_out = self._held_out_rows(copy, None if texts else table)
        seen = np.zeros(len(frame), dtype=bool) if held_out is None else ~frame.index.isin(held_out)
        for start in range(0, len(frame), self.part_rows):
            rows = slice(start, start + self.part_rows)
            where = {"position": "line", "positions": lines[rows], "file": file}
            trained = {"seen": seen[rows], "is_all_seen": bool(seen.all())}
            remarks = () if start or share else tuple(table.remarks)
            yield self._part(frame.iloc[rows], label, absent, remarks=remarks, **where, **trained)

    def fingerprint(self) -> str:
        each = [hash_of_file(path) if isinstance(path, Path) else path.version() for path in self.paths]
        return hashlib.sha256("".join(each).encode()).hexdigest()

    def unseen(self, most: int | None = None) -> MemorySource:
        parts: list[tuple[RowsPart, np.ndarray]] = []
        for part in self:
            refuse_absent(part.absent, part.file or self.path.name)
            has_label = np.ones_like(part.seen) if part.labels is None else part.labels.notna().to_numpy()
            parts.append((part, part.to_measure & has_label))
            if most is not None and sum(int(wanted.sum()) for _, wanted in parts) >= most:
                break
        remarks = [remark for part, _ in parts for remark in part.remarks]
        for file, of_file in groupby(parts, key=lambda pair: pair[0].file):
            own, name = list(of_file), file or self.path.name
            if own[0][0].is_all_seen:
                remarks.append(_trained_on_all(name))
            elif any(part.seen.any() for part, _ in own):
                n_used = sum(int(wanted.sum()) for _, wanted in own)
                remarks.append(f"The model was trained on {name}: only the {n_used} held-out rows are used.")
        labels = [part.labels[wanted] for part, wanted in parts if part.labels is not None]
        used = [(part, wanted) for part, wanted in parts if part.labels is not None or not labels]
        X = pd.concat([part.X[wanted] for part, wanted in used])[:most]
        where = [f"line {n} of {part.file or 'the file'}" for part, wanted in used for n in part.positions[wanted]]
        return self._unseen(X, pd.concat(labels)[:most] if labels else None, remarks, where[:most])

    def _held_out_rows(self, path: Path, table: CsvTable | None) -> pd.Index | None:
        """The rows of a file that were held out when the model was trained on it; None if it was not. `table` is the
        file as the options of this source read it."""
        trained = self.trained
        if trained.get("sha256") is None or trained["sha256"] != hash_of_file(path):
            return None
        if table is None or self._options != self._as_trained:
            table = read_csv(path, self._as_trained, names=[trained["target"]])
        how = [trained.get(name) for name in ("group", "time")]
        X, _, division = divided(table, trained["target"], trained.get("regress", False), *how)
        _, test = division.split(trained["test_share"], trained["seed"])
        return X.index[test]


@dataclass
class ArrowSource(FileSource):
    """Rows of Parquet or Arrow files with the same columns, of which only the structure is kept in memory. Their row
    groups are the shares.

    `path` is a file, a folder, a pattern such as "data/*.parquet", or a list of those. Columns in `drop`, and all but
    those in `columns` where some are given, may be of any type and need not be in every file.
    """

    path: Any
    columns: Sequence[str] = ()
    """Those that are read; by default all but that of labels."""
    trained: Mapping[str, Any] = field(default_factory=dict)
    drop: Sequence[str] = ()

    def __post_init__(self) -> None:
        refuse_csv_options(encoding=self.encoding, decimal=self.decimal, sheet=self.sheet)
        arrow.require_pyarrow()
        self.missing = tuple(self.missing or self.trained.get("missing", ()))
        self.files = for_each(arrow.open_file, arrow.find_files(self.path))
        self.where = self.files[0].path.name if len(self.files) == 1 else f"{len(self.files)} files"
        all_names = list(dict.fromkeys(column for file in self.files for column in file.column_types))
        for name in self.drop:
            existing_column(name, all_names, self.where)
        target = self.target or self.trained.get("target")
        wanted = {*(self.columns or all_names), target, self.id_column} - {*self.drop}
        self.column_types = arrow.joint_types(self.files, wanted)
        """What every column holds, in words: "yes/no", "whole numbers", "numbers", "words", "nothing" or another."""
        self.categorical = {name for file in self.files for name in file.categorical}
        """Columns whose numbers stand for categories."""
        self.pieces: list[Piece] = []
        self.n_rows = 0
        for number, file in enumerate(self.files):
            for group, n_rows in enumerate(file.group_rows):
                if n_rows:
                    self.pieces.append(Piece(number, group, 0, n_rows, self.n_rows))
                self.n_rows += n_rows
        if not self.n_rows:
            raise ValueError(f"{self.where} has no rows: at least one is needed.")
        self.columns = self.columns or [name for name in self.column_types if name not in (target, self.id_column)]
        self.label, self._absent = self._found([name for name in all_names if name not in self.drop], self.where)
        trained_on = self.trained.get("fingerprint")
        self._is_trained_on = trained_on is not None and trained_on == self.fingerprint()
        self._n_held_out = self.trained["n_test"] if self._is_trained_on else 0
        self.shares = tuple(
            f"rows {piece.first:,} to {piece.first + piece.n_rows - 1:,} in {self.files[piece.file].path}"
            for piece in self.pieces
        )

    def refuse_unaskable(self, columns: Sequence[str]) -> None:
        """Raise NotAQuestion if some of these columns cannot be asked for."""
        wrong = {name: held for name in columns if (held := self.column_types[name]) in arrow.UNASKABLE}
        if wrong:
            problems = [f"Column '{name}' holds {held}: {arrow.UNASKABLE[held]}." for name, held in wrong.items()]
            raise NotAQuestion(" ".join(problems), list(wrong))

    def chunks(
        self, piece: Piece, columns: Sequence[str], as_stored: Sequence[str] = (), chunk_rows: int | None = None
    ) -> Iterator[tuple[int, "pa.Table"]]:
        """The rows of a piece in chunks, each with the number of its first row.

        Numbers are read as floats, because pandas has missing values only there; yes/no and whole numbers of the
        columns `as_stored` keep their type.
        """
        self.refuse_unaskable(columns)
        types = self._arrow_types(columns, as_stored)
        file, first = self.files[piece.file], piece.first
        with arrow.explained_errors(file.path):
            for batch in file.batches(piece, list(columns), chunk_rows or arrow.rows_in_a_chunk(8 * len(columns))):
                yield first, arrow.canonical(batch, types, self.missing)
                first += batch.num_rows
        if first != piece.first + piece.n_rows:
            raise ValueError(f"{file.path} changed while it was being read: leave it as it is, and start again.")

    def _arrow_types(self, columns: Sequence[str], as_stored: Sequence[str]) -> dict[str, "pa.DataType"]:
        return {name: arrow.arrow_type(self.column_types[name], name in as_stored) for name in columns}

    def read(self, share: int) -> Iterator[RowsPart]:
        named = dict.fromkeys((self.label, self.id_column))
        as_stored = [name for name in named if name is not None and name not in self.columns]
        read = [*(column for column in self.columns if column not in self._absent), *as_stored]
        for first, chunk in self.chunks(self.pieces[share], read, as_stored, self.part_rows):
            numbers = np.arange(first, first + len(chunk))
            frame = chunk.to_pandas().set_axis(numbers, axis=0)
            seen = np.full(len(numbers), self._is_trained_on)
            if self._n_held_out:
                seen = uniform_hash(numbers, self.trained["seed"]) >= self.trained["test_share"]
            trained = {"seen": seen, "is_all_seen": self._is_trained_on and not self._n_held_out}
            yield self._part(frame, self.label, self._absent, position="row", positions=numbers, **trained)

    def rows(
        self,
        columns: Sequence[str],
        chosen: Callable[[np.ndarray], np.ndarray] | None = None,
        pieces: Sequence[Piece] | None = None,
        most: int | None = None,
    ) -> tuple[np.ndarray, "pa.Table"]:
        """The numbers of the first rows, and a table of `columns` and the label; only rows with a label where there is
        a column of labels, and of these only those whose numbers are `chosen`. Pieces without any such row are not
        read."""
        import pyarrow as pa

        as_stored = [] if self.label is None else [self.label]
        read = [*columns, *as_stored]
        empty = pa.schema(self._arrow_types(read, as_stored)).empty_table()
        numbers, parts, n_found = [np.empty(0, dtype=np.int64)], [empty], 0
        wanted = (
            piece
            for piece in (self.pieces if pieces is None else pieces)
            if chosen is None or chosen(np.arange(piece.first, piece.first + piece.n_rows)).any()
        )
        for first, chunk in (found for piece in wanted for found in self.chunks(piece, read, as_stored)):
            rows = np.arange(first, first + len(chunk))
            is_wanted = np.ones(len(rows), dtype=bool) if self.label is None else arrow.is_present(chunk[self.label])
            if chosen is not None:
                is_wanted &= chosen(rows)
            numbers.append(rows[is_wanted])
            parts.append(chunk.filter(pa.array(is_wanted)))
            n_found += len(parts[-1])
            if most is not None and n_found >= most:
                break
        return np.concatenate(numbers)[:most], pa.concat_tables(parts).slice(0, most)

    def lowest(
        self,
        columns: Sequence[str],
        chance: Callable[[np.ndarray], np.ndarray],
        limit: float,
        most: int,
        pieces: Sequence[Piece] | None = None,
    ) -> tuple[np.ndarray, "pa.Table"]:
        """The labelled rows with the lowest `chance`, at most `most` of those below `limit`, as `rows` gives them."""
        found, rows = self.rows(columns, lambda numbers: chance(numbers) < limit, pieces)
        if len(found) > most:
            best = np.sort(np.argsort(chance(found), kind="stable")[:most])
            found, rows = found[best], rows.take(best)
        return found, rows

    def held_out(
        self, columns: Sequence[str], share: float, seed: int, n_held_out: int, most: int
    ) -> tuple[np.ndarray, "pa.Table"]:
        """At most `most` of the `n_held_out` rows held out to measure on, as `rows` gives them."""
        limit = share * arrow.sufficient_limit(most, n_held_out)
        return self.lowest(columns, lambda numbers: uniform_hash(numbers, seed), limit, most)

    def fingerprint(self) -> str:
        """A hash of the files' names, sizes and footers, which list columns, row groups with their sizes and, where
        recorded, the least and greatest values. The data themselves are not read."""
        return hashlib.sha256(b"".join(for_each(arrow.identity, [file.path for file in self.files]))).hexdigest()

    def unseen(self, most: int | None = None) -> MemorySource:
        label, n_held_out = self.label, self._n_held_out
        refuse_absent(self._absent, self.where)
        most = MAX_MEASURED if most is None else most
        if n_held_out and label is not None:
            how = self.trained["test_share"], self.trained["seed"], n_held_out, most
            numbers, rows = self.held_out(self.columns, *how)
            used = f"{len(rows):,} of the {n_held_out:,} held-out rows are used."
            remark = f"The model was trained on {self.where}: {used}"
        else:
            numbers, rows = self.rows(self.columns, most=most)
            remark = _trained_on_all(self.where) if self._is_trained_on else ""
            if self.n_rows > most and not self._is_trained_on:
                remark = f"{self.where} has {self.n_rows:,} rows: the first {most:,} are used."
        X = rows.select(list(self.columns)).to_pandas().set_axis(numbers, axis=0)
        labels = None if label is None else rows[label].to_pandas().rename(label)
        where = [f"row {number} of {self.where}" for number in numbers]
        return self._unseen(X, labels, [remark] if remark else [], where)


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
            f"{display_name(path)} is on another machine, from which training reads only Parquet and Arrow files: copy "
            "the CSV file here first."
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
    X, y = split_target(table.frame, target, where, regress)
    y = y if regress else with_same(y, same_labels(*np.unique(y, return_counts=True)))
    classes = np.zeros(len(y)) if regress else y  # numbers make no classes
    if group is not None and time is not None:
        raise ValueError("Rows are held out by --group or by --time: leave one of them out.")
    if group is not None:
        groups = group_numbers(X[existing_column(group, X.columns, where)])
        return X, y, Division(classes, groups=groups, column=group)
    if time is not None:
        column = X[existing_column(time, X.columns, where)]
        times = time_numbers(column, time, lambda row: table.line(column.index[row]))
        return X, y, Division(classes, times=times, column=time)
    return X, y, Division(classes)


def refuse_csv_options(**options: Any) -> None:
    """Raise ValueError for options that Parquet and Arrow files do not have."""
    for name, value in options.items():
        if value:
            option = {"column_types": "column-type", "from_data": "queries"}.get(name, name.replace("_", "-"))
            raise ValueError(f"--{option} is for CSV files, not for Parquet and Arrow files, {ONLY_CSV[name]}.")


def refuse_absent(absent: Mapping[str, str], where: str) -> None:
    if absent:
        named = ", ".join([*absent.values()][:MOST_NAMED])
        raise ValueError(
            f"{where} lacks columns the model asks for: {named}. Add them; unknown answers may stay empty."
        )


def _trained_on_all(where: str) -> str:
    return f"Warning: the model was trained on all rows of {where}: its accuracy on them says little."
