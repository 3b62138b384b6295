"""Parquet and Arrow files: found, compared with each other, and read piece by piece in bounded memory."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pursuit.files import ARROW_ENDINGS, check_file
from pursuit.registry import did_you_mean
from pursuit.tables.filesystem import AnyPath, CannotReach, RemotePath, explained, files_below, find_path
from pursuit.version import require

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


class _ParquetFile:
    """Row groups of a Parquet file."""

    def __init__(self, path: AnyPath):
        import pyarrow.parquet as pq

        self.path = path
        with pq.ParquetFile(_source(path)) as file:
            self.metadata = file.metadata
            self.column_types, self.categorical = _column_types(file.schema_arrow, path)
        self.group_rows = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]

    def batches(self, piece: Piece, columns: list[str], chunk_rows: int) -> Iterator["pa.RecordBatch"]:
        import pyarrow.parquet as pq

        # On other machines, reading a whole row group at once takes fewer requests. Here it is read bit by bit, unless
        # the file is small: a damaged page would be given as much memory as it says that it is long.
        at_once = not isinstance(self.path, Path) or self.path.stat().st_size <= READ_AHEAD
        size = 0 if at_once else max(4096, min(READ_AHEAD, READ_BYTES // len(columns)))
        position, stop = 0, piece.start + piece.n_rows
        options = {"metadata": self.metadata, "buffer_size": size, "pre_buffer": not isinstance(self.path, Path)}
        with pq.ParquetFile(_source(self.path), **options) as file:
            for batch in file.iter_batches(chunk_rows, row_groups=[piece.group], columns=columns):
                first, last = max(piece.start, position), min(stop, position + batch.num_rows)
                if last > first:
                    yield batch.slice(first - position, last - first)
                position += batch.num_rows
                if position >= stop:
                    return


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


ArrowFile = _ParquetFile | _ArrowFile


def joint_types(files: Sequence[ArrowFile], wanted: Collection[str | None]) -> dict[str, str]:
    """What every column that is wanted holds in all files together; raises ValueError if they do not go together."""
    by_file = [{name: held for name, held in file.column_types.items() if name in wanted} for file in files]
    first = files[0].path, by_file[0]
    for file, types in zip(files, by_file, strict=True):
        this = file.path, types
        for (path, columns), (other_path, other_columns) in ((first, this), (this, first)):
            absent = [name for name in columns if name not in other_columns]
            if absent:
                raise ValueError(
                    f"{other_path} lacks columns that {path} has: {', '.join(absent[:10])}. All files need the same "
                    "columns: add them, or drop them everywhere."
                )
    return {name: _joint_type(files, [types[name] for types in by_file], name) for name in by_file[0]}


def _joint_type(files: Sequence[ArrowFile], types: list[str], name: str) -> str:
    """What a column holds in all files together, from what it holds in each."""
    found = set(types) - {"nothing"}
    if len(found) <= 1:
        return found.pop() if found else "nothing"
    if found <= NUMERIC:
        return "numbers" if "numbers" in found else "whole numbers"
    one, other = sorted(found, key=types.index)[:2]
    first, second = (files[types.index(held)].path for held in (one, other))
    raise ValueError(f"Column '{name}' holds {one} in {first}, but {other} in {second}: make them alike, or drop it.")


def require_pyarrow() -> None:
    """Raise ModuleNotFoundError, with what to install, if pyarrow is absent."""
    require("parquet", "Reading Parquet and Arrow files", "pyarrow")


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
    several = [part.strip() for part in name.split(",")]
    hint = did_you_mean(name, names, f"It has: {', '.join(names[:20])}.")
    if len(several) > 1 and all(part in names for part in several):
        hint = f"These are {len(several)} columns: name each with an option of its own."
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


def open_file(path: AnyPath) -> ArrowFile:
    if isinstance(path, Path):
        check_file(path, "a Parquet or Arrow file")
    with explained_errors(path):
        return _ArrowFile(path) if path.suffix.lower() in IPC_ENDINGS else _ParquetFile(path)


@contextmanager
def explained_errors(path: AnyPath) -> Iterator[None]:
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

    twice = sorted(name for name, n in Counter(schema.names).items() if n > 1)
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


def arrow_type(column_type: str, as_stored: bool) -> "pa.DataType":
    import pyarrow as pa

    if column_type == "words":
        return pa.large_string()
    stored = {"yes/no": pa.bool_(), "whole numbers": pa.int64()}
    return stored.get(column_type, pa.float64()) if as_stored else pa.float64()


def canonical(batch: "pa.RecordBatch", types: dict[str, "pa.DataType"], missing: Sequence[str]) -> "pa.Table":
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


def identity(path: AnyPath) -> bytes:
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
