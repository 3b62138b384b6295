"""Tables in Parquet and Arrow files: found, compared with each other, and read piece by piece in bounded memory."""

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pursuit.files import ARROW_ENDINGS, check_file
from pursuit.queries import NotAQuestion
from pursuit.tables.filesystem import AnyPath, CannotReach, RemotePath, explained, files_below, find_path, for_each
from pursuit.tables.splitting import uniform_hash

if TYPE_CHECKING:
    import pyarrow as pa

IPC_ENDINGS = (".arrow", ".feather", ".ipc")
"""Of the files that are Arrow's own; others are Parquet."""
CHUNK_ROWS, CHUNK_BYTES = 65_536, 1 << 25
"""The most rows and bytes of a chunk: wide rows are read fewer at a time."""
READ_AHEAD, READ_BYTES = 1 << 20, 1 << 25
"""How much of a column, and of all columns together, is read at a time, however large row groups are."""
PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""Row numbers that pandas writes beside a table; they are not a column of it."""
NUMERIC = {"yes/no", "whole numbers", "numbers"}
UNASKABLE = {
    "dates or times": "turn it into numbers (days since …, month, hour) or leave it out",
    "lists or other objects": "only words, numbers, yes/no and missing values can be asked for, so leave it out",
}


@dataclass(frozen=True)
class Piece:
    """Rows that lie together: a row group of a Parquet file, a record batch of an Arrow file, or a part of one."""

    file: int
    group: int
    start: int  # the first row within the group
    n_rows: int
    first: int  # the first row's number in the whole table

    def part(self, start: int, stop: int) -> "Piece":
        return replace(self, start=self.start + start, n_rows=stop - start, first=self.first + start)


class ArrowTable:
    """One table in one or several files with the same columns, of which only the structure is kept in memory.

    `paths` is a file, a folder, a pattern such as "data/*.parquet", or a list of those. Columns in `drop`, and all but
    those in `only`, may be of any type and need not be in every file; texts in `missing` are read as missing.
    """

    def __init__(
        self, paths: Any, drop: Sequence[str] = (), missing: Sequence[str] = (), only: Sequence[str] | None = None
    ):
        require_pyarrow()
        self.missing = tuple(missing)
        self.files = for_each(_open, find_files(paths))
        self.name = self.files[0].path.name if len(self.files) == 1 else f"{len(self.files)} files"
        all_names = list(dict.fromkeys(column for file in self.files for column in file.column_types))
        for name in drop:
            existing_column(name, all_names, self.name)
        wanted = set(all_names if only is None else only) - set(drop)
        by_file = [{name: held for name, held in file.column_types.items() if name in wanted} for file in self.files]
        self._check_same_columns(by_file)
        self.column_types = {name: self._joint_type([types[name] for types in by_file], name) for name in by_file[0]}
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
            raise ValueError(f"{self.name} has no rows: at least one is needed.")

    def check_column(self, name: str) -> str:
        return existing_column(name, list(self.column_types), self.name)

    def refuse_unaskable(self, columns: Sequence[str]) -> None:
        """Raise NotAQuestion if some of these columns cannot be asked for."""
        wrong = {name: held for name in columns if (held := self.column_types[name]) in UNASKABLE}
        if wrong:
            problems = [f"Column '{name}' holds {held}: {UNASKABLE[held]}." for name, held in wrong.items()]
            raise NotAQuestion(" ".join(problems), list(wrong))

    def read(
        self, piece: Piece, columns: Sequence[str], as_stored: Sequence[str] = (), chunk_rows: int | None = None
    ) -> Iterator[tuple[int, "pa.Table"]]:
        """The rows of a piece in chunks, each with the number of its first row.

        Numbers are read as floats, because pandas has missing values only there; yes/no and whole numbers of the
        columns `as_stored` keep their type.
        """
        self.refuse_unaskable(columns)
        types = self._arrow_types(columns, as_stored)
        file, first = self.files[piece.file], piece.first
        with _explained_errors(file.path):
            for batch in file.batches(piece, list(columns), chunk_rows or rows_in_a_chunk(8 * len(columns))):
                yield first, _canonical(batch, types, self.missing)
                first += batch.num_rows
        if first != piece.first + piece.n_rows:
            raise ValueError(f"{file.path} changed while it was being read: leave it as it is, and start again.")

    def empty(self, columns: Sequence[str], as_stored: Sequence[str] = ()) -> "pa.Table":
        """The table that `read` gives, without rows."""
        import pyarrow as pa

        return pa.schema(self._arrow_types(columns, as_stored)).empty_table()

    def _arrow_types(self, columns: Sequence[str], as_stored: Sequence[str]) -> dict[str, "pa.DataType"]:
        return {name: _arrow_type(self.column_types[name], name in as_stored) for name in columns}

    def rows(
        self,
        columns: Sequence[str],
        target: str | None,
        chosen: Callable[[np.ndarray], np.ndarray] | None = None,
        pieces: Sequence[Piece] | None = None,
        most: int | None = None,
    ) -> tuple[np.ndarray, "pa.Table"]:
        """The numbers of the first rows, and a table of `columns` and the target; only rows with a label where there is
        a target, and of these only those whose numbers are `chosen`. Pieces without any such row are not read."""
        import pyarrow as pa

        as_stored = [] if target is None else [target]
        read = [*columns, *as_stored]
        numbers, parts, n_found = [np.empty(0, dtype=np.int64)], [self.empty(read, as_stored)], 0
        wanted = (
            piece
            for piece in (self.pieces if pieces is None else pieces)
            if chosen is None or chosen(np.arange(piece.first, piece.first + piece.n_rows)).any()
        )
        for first, chunk in (found for piece in wanted for found in self.read(piece, read, as_stored)):
            rows = np.arange(first, first + len(chunk))
            is_wanted = np.ones(len(rows), dtype=bool) if target is None else is_present(chunk[target])
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
        target: str,
        chance: Callable[[np.ndarray], np.ndarray],
        limit: float,
        most: int,
        pieces: Sequence[Piece] | None = None,
    ) -> tuple[np.ndarray, "pa.Table"]:
        """The labelled rows with the lowest `chance`, at most `most` of those below `limit`, as `rows` gives them."""
        found, rows = self.rows(columns, target, lambda numbers: chance(numbers) < limit, pieces)
        if len(found) > most:
            best = np.sort(np.argsort(chance(found), kind="stable")[:most])
            found, rows = found[best], rows.take(best)
        return found, rows

    def held_out(
        self, columns: Sequence[str], target: str, share: float, seed: int, n_held_out: int, most: int
    ) -> tuple[np.ndarray, "pa.Table"]:
        """At most `most` of the `n_held_out` rows held out to measure on, as `rows` gives them."""
        limit = share * sufficient_limit(most, n_held_out)
        return self.lowest(columns, target, lambda numbers: uniform_hash(numbers, seed), limit, most)

    def bounds(self, piece: Piece, name: str) -> tuple[float, float] | None:
        """The least and the greatest number of a column, if the file itself records them."""
        return self.files[piece.file].bounds(piece, name)

    def fingerprint(self) -> str:
        """A hash of the files' names, sizes and footers, which list columns, row groups with their sizes and, where
        recorded, the least and greatest values. The data themselves are not read."""
        digest = hashlib.sha256()
        for identity in for_each(_identity, [file.path for file in self.files]):
            digest.update(identity)
        return digest.hexdigest()

    def _check_same_columns(self, by_file: list[dict[str, str]]) -> None:
        first = self.files[0].path, by_file[0]
        for file, types in zip(self.files, by_file, strict=True):
            this = file.path, types
            for (path, columns), (other_path, other_columns) in ((first, this), (this, first)):
                absent = [name for name in columns if name not in other_columns]
                if absent:
                    raise ValueError(
                        f"{other_path} lacks columns that {path} has: {', '.join(absent[:10])}. All files need the "
                        "same columns: add them, or drop them everywhere."
                    )

    def _joint_type(self, types: list[str], name: str) -> str:
        """What a column holds in all files together, from what it holds in each."""
        found = set(types) - {"nothing"}
        if len(found) <= 1:
            return found.pop() if found else "nothing"
        if found <= NUMERIC:
            return "numbers" if "numbers" in found else "whole numbers"
        one, other = sorted(found, key=types.index)[:2]
        first, second = (self.files[types.index(held)].path for held in (one, other))
        raise ValueError(
            f"Column '{name}' holds {one} in {first}, but {other} in {second}: make them alike, or drop it."
        )


class _ParquetFile:
    """Row groups of a Parquet file."""

    def __init__(self, path: AnyPath):
        import pyarrow.parquet as pq

        self.path = path
        with pq.ParquetFile(_source(path)) as file:
            self.metadata = file.metadata
            self.column_types, self.categorical = _column_types(file.schema_arrow, path)
        self.group_rows = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]
        self._positions = (
            {self.metadata.row_group(0).column(i).path_in_schema: i for i in range(self.metadata.num_columns)}
            if self.group_rows
            else {}
        )

    def batches(self, piece: Piece, columns: list[str], chunk_rows: int) -> Iterator["pa.RecordBatch"]:
        import pyarrow.parquet as pq

        # By default a whole row group is read at once. On other machines that takes fewer requests.
        small = {"buffer_size": max(4096, min(READ_AHEAD, READ_BYTES // len(columns))), "pre_buffer": False}
        bounded: dict[str, Any] = small if isinstance(self.path, Path) else {"pre_buffer": True}
        with pq.ParquetFile(_source(self.path), metadata=self.metadata, **bounded) as file:
            position, stop = 0, piece.start + piece.n_rows
            for batch in file.iter_batches(chunk_rows, row_groups=[piece.group], columns=columns):
                first, last = max(piece.start, position), min(stop, position + batch.num_rows)
                if last > first:
                    yield batch.slice(first - position, last - first)
                position += batch.num_rows
                if position >= stop:
                    return

    def bounds(self, piece: Piece, name: str) -> tuple[float, float] | None:
        position = self._positions.get(name, -1)
        column = self.metadata.row_group(piece.group).column(max(position, 0))
        if position < 0 or column.physical_type != self.metadata.schema.column(position).physical_type:
            # pyarrow ends the whole process when it is asked for the statistics of such a column
            raise ValueError(f"{self.path} is damaged: it says two things of the column '{name}'. Write it again.")
        statistics = column.statistics
        if statistics is None or not statistics.has_min_max or isinstance(statistics.min, str | bytes):
            return None
        return float(statistics.min), float(statistics.max)


class _ArrowFile:
    """Record batches of an Arrow (Feather) file."""

    def __init__(self, path: AnyPath):
        self.path = path
        with self._reader([0]) as reader:
            self.group_rows = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
        with self._reader(None) as reader:
            self.column_types, self.categorical = _column_types(reader.schema, path)
            self._names = list(reader.schema.names)

    @contextmanager
    def _reader(self, fields: list[int] | None) -> Iterator[Any]:
        import pyarrow as pa

        options = pa.ipc.IpcReadOptions(included_fields=fields or [])
        opened = pa.memory_map(str(self.path)) if isinstance(self.path, Path) else self.path.open()
        with opened as source, pa.ipc.open_file(source, options=options) as reader:
            yield reader

    def batches(self, piece: Piece, columns: list[str], chunk_rows: int) -> Iterator["pa.RecordBatch"]:
        with self._reader(sorted(self._names.index(name) for name in columns)) as reader:
            batch = reader.get_batch(piece.group).slice(piece.start, piece.n_rows).select(columns)
            for start in range(0, batch.num_rows, chunk_rows):
                yield batch.slice(start, chunk_rows)

    def bounds(self, piece: Piece, name: str) -> tuple[float, float] | None:
        return None


def require_pyarrow() -> None:
    """Raise ModuleNotFoundError, with what to install, if pyarrow is absent."""
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Parquet and Arrow files are read by pyarrow, which is not installed: pip install 'pursuit[parquet]'."
        ) from None


def find_files(paths: Any) -> list[AnyPath]:
    """The files that a path, a folder, a pattern or a list of those means, each once; those of a folder by name."""
    found: dict[AnyPath, None] = {}
    for given in [paths] if isinstance(paths, str | Path | RemotePath) else list(paths):
        path = find_path(given)
        if path.is_dir():
            inside = files_below(path, ARROW_ENDINGS)
            if not inside:
                raise ValueError(f"The folder {path} holds no files that end in {', '.join(ARROW_ENDINGS)}.")
            found |= dict.fromkeys(inside)
        elif path.exists():
            found[path] = None
        elif isinstance(path, RemotePath):
            raise FileNotFoundError(f"There is nothing at {path}. Give a file, or a folder of them.")
        else:
            pattern = str(path.relative_to(path.anchor))
            matching = [p for p in sorted(Path(path.anchor).glob(pattern)) if p.is_file() and p.name[0] not in "._"]
            if not matching:
                raise FileNotFoundError(
                    f"There is no file {given}. Give the path of a Parquet file, a folder of them, or a pattern."
                )
            found |= dict.fromkeys(matching)
    if not found:
        raise ValueError("There are no files to read: give at least one.")
    return list(found)


def existing_column(name: str, names: Sequence[str] | pd.Index, where: str) -> str:
    """The name, if there is such a column; otherwise a ValueError that suggests a similar name or lists all."""
    if name in names:
        return name
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    hint = f"Did you mean '{close[0]}'?" if close else f"It has: {', '.join(names[:20])}."
    raise ValueError(f"{where} has no column '{name}'. {hint}")


def is_present(column: "pa.ChunkedArray") -> np.ndarray:
    """Which values are not missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return ~pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy()


def sufficient_limit(n: int, n_there: int) -> float:
    """The limit below which at least n of `n_there` uniform chances lie, almost surely."""
    return min(1.0, (n + 5 * n**0.5 + 10) / max(1, n_there))


def rows_in_a_chunk(row_bytes: int) -> int:
    return max(256, min(CHUNK_ROWS, CHUNK_BYTES // max(1, row_bytes)))


def _source(path: AnyPath) -> Any:
    return path if isinstance(path, Path) else path.open()


def _open(path: AnyPath) -> _ParquetFile | _ArrowFile:
    if isinstance(path, Path):
        check_file(path, "a Parquet or Arrow file")
    with _explained_errors(path):
        return _ArrowFile(path) if path.suffix.lower() in IPC_ENDINGS else _ParquetFile(path)


@contextmanager
def _explained_errors(path: AnyPath) -> Iterator[None]:
    """Raise pyarrow's errors about a file as a ValueError that says what to do."""
    import pyarrow as pa

    try:
        with explained(path):
            yield
    except (FileNotFoundError, PermissionError, IsADirectoryError, CannotReach):
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        file_format = "an Arrow" if path.suffix.lower() in IPC_ENDINGS else "a Parquet"
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise ValueError(
            f"{path} cannot be read: it is not {file_format} file, is damaged or was cut off ({reason}). Write it "
            "again, or leave it out."
        ) from error


def _column_types(schema: "pa.Schema", path: AnyPath) -> tuple[dict[str, str], set[str]]:
    """What every column holds, and which columns of numbers are categories."""
    import pyarrow as pa

    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise ValueError(f"Column names must differ, but {path} has these more than once: {', '.join(twice)}.")
    stored = {field.name: field.type for field in schema if not PANDAS_INDEX.fullmatch(field.name)}
    coded = {name: type_.value_type for name, type_ in stored.items() if pa.types.is_dictionary(type_)}
    types = {name: _in_words(coded.get(name, type_)) for name, type_ in stored.items()}
    return types, {name for name in coded if types[name] in NUMERIC}


def _in_words(stored: "pa.DataType") -> str:
    from pyarrow import types

    if types.is_string(stored) or types.is_large_string(stored) or types.is_string_view(stored):
        return "words"
    if types.is_boolean(stored):
        return "yes/no"
    if types.is_integer(stored):
        return "whole numbers"
    if types.is_floating(stored) or types.is_decimal(stored):
        return "numbers"
    if types.is_null(stored):
        return "nothing"
    return "dates or times" if types.is_temporal(stored) else "lists or other objects"


def _arrow_type(column_type: str, as_stored: bool) -> "pa.DataType":
    import pyarrow as pa

    if column_type == "words":
        return pa.large_string()
    stored = {"yes/no": pa.bool_(), "whole numbers": pa.int64()}
    return stored.get(column_type, pa.float64()) if as_stored else pa.float64()


def _canonical(batch: "pa.RecordBatch", types: dict[str, "pa.DataType"], missing: Sequence[str]) -> "pa.Table":
    """A batch with columns of these types, and null for the texts that mean missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = {}
    for name, type_ in types.items():
        column = batch.column(name)
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        column = column.cast(type_, safe=False)
        if missing and pa.types.is_large_string(type_):
            is_missing = pc.is_in(column, value_set=pa.array(missing, type_))
            column = pc.if_else(is_missing, pa.scalar(None, type_), column)
        columns[name] = column
    return pa.table(columns)


def _identity(path: AnyPath) -> bytes:
    """What tells a file from others: its name, its size and its footer."""
    size = path.stat().st_size if isinstance(path, Path) else path.size
    return f"{path.name}\n{size}\n".encode() + _footer(path)


def _footer(path: AnyPath) -> bytes:
    """What a Parquet or Arrow file says about itself after its data."""
    tail = 10 if path.suffix.lower() in IPC_ENDINGS else 8  # the length in 4 bytes, then a mark
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - tail))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - tail - length))
        return file.read(length)
