"""Files and folders here and on other machines: object storage and distributed file systems, through pyarrow; and the
rows of a database, which are read as a CSV file is.

A `RemotePath` has those of pathlib's functions that reading and writing rows takes, so that whoever reads and writes
need not know where. On object storage a file appears at once and whole, or not at all. A database is named by its
address, as SQLAlchemy has it, with the query after a #, as in `sqlite:///repairs.db#SELECT * FROM repairs`; on the
command line --query is the query.
"""

import hashlib
import io
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pursuit import files
from pursuit.files import whole_file, write_whole
from pursuit.tables.converted import as_csv, cell_text
from pursuit.version import require

if TYPE_CHECKING:
    from sqlalchemy import Engine

T = TypeVar("T")

MOST_FILES = 200_000
"""A folder with more files and folders below it is hardly one of tables."""
AT_ONCE = 32
"""How many files on other machines are looked at together."""
GOOGLE = ("gs://", "gcs://")
GOOGLE_PATIENCE = "retry_limit_seconds=10"
"""Google's own patience with a storage that does not answer is a quarter of an hour."""
WORDY = (r".*(?=AWS Error)", r".*with a last message of ", r"\s*\(Request ID: \w*\)", r"; Details:.*| error_info=.*")
"""What storages say before and after what is wrong."""
IN_PLACE = ("hdfs", "local")
"""File systems whose files can be seen while they are written."""


DATABASE = re.compile(r"(?:sqlite|postgres|postgresql|mysql|mariadb|oracle|mssql|duckdb)(?:\+\w+)?://")
DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}
"""What reads databases whose address names no driver."""
EXAMPLE = "--query 'SELECT * FROM {}'"


def is_database(source: Any) -> bool:
    """Whether a text is the address of a database."""
    return isinstance(source, str) and DATABASE.match(source) is not None


def with_query(source: Any, query: str | None) -> Any:
    """The source with the query that is to be read; raises ValueError where it cannot have one."""
    if query is None:
        return source
    if not is_database(source) or "#" in source:
        raise ValueError("--query is for the address of a database, as in sqlite:///repairs.db: leave it out.")
    return f"{source}#{query}"


class CannotReach(OSError):
    """Something on another machine could not be read or written."""


def is_remote(source: Any) -> bool:
    """Whether it is the name of something on another machine, as s3://bucket/folder is."""
    return isinstance(source, RemotePath) or (
        isinstance(source, str) and "://" in source and not source.startswith("file://")
    )


def find_path(source: "str | AnyPath") -> "AnyPath":
    """The folder or file that a text names: here, or at s3://, gs://, abfs:// or hdfs://, with options of pyarrow such
    as ?endpoint_override=HOST:PORT behind it."""
    if isinstance(source, RemotePath):
        return source
    if is_database(source):
        return SqlTable.of(str(source))
    if not is_remote(source):
        return Path(str(source).removeprefix("file://"))
    uri = str(source)
    if uri.startswith(GOOGLE) and "retry_limit_seconds" not in uri:
        uri += ("&" if "?" in uri else "?") + GOOGLE_PATIENCE
    return RemotePath(_file_system(uri)[1].rstrip("/"), uri)


def display_name(source: "str | AnyPath") -> str:
    """A name without options behind it, and without a password in it."""
    if isinstance(source, SqlTable) or is_database(source):
        return str(find_path(source))
    return re.sub("//[^/@]*:[^/@]*@", "//", str(source).partition("?")[0]) if is_remote(source) else str(source)


@lru_cache(maxsize=64)
def _file_system(uri: str) -> tuple[Any, str]:
    """What reads and writes there, and how it calls the path."""
    require("parquet", "Reading and writing on other machines", "pyarrow")
    import pyarrow.fs

    shown = display_name(uri)
    try:
        found: tuple[Any, str] = pyarrow.fs.FileSystem.from_uri(uri)
    except (ValueError, NotImplementedError) as error:
        raise ValueError(
            f"{shown} cannot be used ({_reason(error)}): give a folder, or one at s3://, gs://, abfs:// or hdfs://."
        ) from None
    except OSError as error:
        raise _cannot_reach(shown, error) from None
    return found


def _reason(error: Exception) -> str:
    """What went wrong, without what only the storage understands."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    for wordy in WORDY:
        line = re.sub(wordy, "", line)
    return line.rstrip(". ")


def _cannot_reach(shown: str, error: Exception) -> CannotReach:
    return CannotReach(
        f"{shown} cannot be reached ({_reason(error)}). Check its name, and the credentials and the address of the "
        "storage, on every machine that uses it."
    )


@contextmanager
def explained(path: "AnyPath") -> Iterator[None]:
    """Say of what is on another machine why it cannot be reached, and what to do."""
    try:
        yield
    except (FileNotFoundError, CannotReach):
        raise
    except OSError as error:
        if isinstance(path, Path):
            raise
        raise _cannot_reach(str(path), error) from None


@dataclass(frozen=True)
class RemotePath:
    """A file or folder on another machine, by the name that its file system has for it."""

    path: str
    uri: str = field(repr=False)
    """What the file system is found by, perhaps with a password in it."""

    def __str__(self) -> str:
        return f"{self.uri.partition(':')[0]}://{self.path}"

    def __lt__(self, other: "RemotePath") -> bool:
        return PurePosixPath(self.path) < PurePosixPath(other.path)  # as the same folders are sorted on a disk

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self.path}/{name}", self.uri)

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix

    @property
    def parent(self) -> "RemotePath":
        return RemotePath(str(PurePosixPath(self.path).parent), self.uri)

    @property
    def _files(self) -> Any:
        return _file_system(self.uri)[0]

    def _info(self) -> Any:
        with explained(self):
            return self._files.get_file_info(self.path)

    def exists(self) -> bool:
        return bool(self._info().type.name in ("File", "Directory"))

    def is_dir(self) -> bool:
        return bool(self._info().type.name == "Directory")

    def is_file(self) -> bool:
        return bool(self._info().type.name == "File")

    def version(self) -> str:
        """What changes when the file does: its size and when it was written."""
        info = self._info()
        return f"{info.size} {info.mtime_ns}"

    @property
    def size(self) -> int:
        return int(self._info().size)

    def relative_to(self, folder: "RemotePath") -> PurePosixPath:
        return PurePosixPath(self.path).relative_to(folder.path)

    def iterdir(self) -> "Iterator[RemotePath]":
        return self._listed(recursive=False)

    def rglob(self, pattern: str) -> "Iterator[RemotePath]":
        """All files in the folder and in those below; `pattern` is *."""
        return self._listed(recursive=True)

    def _listed(self, recursive: bool) -> "Iterator[RemotePath]":
        from pyarrow.fs import FileSelector

        with explained(self):
            inside = self._files.get_file_info(FileSelector(self.path, recursive=recursive))
        return (RemotePath(info.path, self.uri) for info in inside if info.type.name == "File")

    def open(self, mode: str = "rb") -> Any:
        """The file to read, of which only what is wanted is fetched."""
        with explained(self):
            return self._files.open_input_file(self.path)

    def read_bytes(self) -> bytes:
        with explained(self), self.open() as file:
            content: bytes = file.read()
        return content

    def read_text(self) -> str:
        return self.read_bytes().decode("utf-8")

    def remove_folder(self) -> None:
        with explained(self):
            self._files.delete_dir(self.path)

    def make_folder(self) -> None:
        with explained(self):
            self._files.create_dir(self.path, recursive=True)

    def write_whole(self, data: bytes) -> None:
        """Write a file that is there once it is whole."""
        with explained(self):
            is_seen = self._files.type_name in IN_PLACE
            torn = (self.parent / f".{self.name}.{uuid.uuid4().hex}").path if is_seen else self.path
            with self._files.open_output_stream(torn) as file:
                file.write(data)
            if is_seen:
                self._files.move(torn, self.path)


@dataclass(frozen=True)
class SqlTable(RemotePath):
    """What a query finds in a database, as a CSV file: its path is the query."""

    @classmethod
    def of(cls, source: str) -> "SqlTable":
        address, _, query = source.partition("#")
        return cls(query.strip(), address)

    def __str__(self) -> str:
        """The address without a password."""
        from sqlalchemy.engine import make_url

        return make_url(self.uri).render_as_string(hide_password=True).replace(":***@", "@")

    @property
    def name(self) -> str:
        return PurePosixPath(str(self).partition("?")[0]).name or "database"

    @property
    def suffix(self) -> str:
        return ".csv"

    def exists(self) -> bool:
        return True  # or reading it says what is wrong

    def is_dir(self) -> bool:
        return False

    def is_file(self) -> bool:
        return True

    def version(self) -> str:
        return hashlib.sha256(self._content).hexdigest()

    def read_bytes(self) -> bytes:
        return self._content

    @cached_property
    def _content(self) -> bytes:
        """The rows, with a header line, in UTF-8."""
        with self._explained(), self._engine().connect() as connection:
            from sqlalchemy import inspect, text

            if not self.path:
                tables = inspect(connection).get_table_names()
                raise ValueError(
                    f"Which rows of {self}? Say so with {EXAMPLE.format(tables[0] if tables else 'TABLE')}. "
                    f"Its tables are: {', '.join(tables[:20]) or 'none'}."
                )
            result = connection.execute(text(self.path))
            if not result.returns_rows:
                raise ValueError(f"The query selects no rows. Write one that does: {EXAMPLE.format('TABLE')}.")
            # Nothing is committed: the connection is closed before.
            return as_csv(chain([list(result.keys())], ([cell_text(value) for value in row] for row in result)))

    def _engine(self) -> "Engine":
        from sqlalchemy import create_engine
        from sqlalchemy.engine import make_url

        url = make_url(self.uri)
        url = url.set(drivername=DRIVERS.get(url.drivername, url.drivername))
        if url.get_backend_name() == "sqlite" and url.database:
            # Opened as it is: a name that is wrong must not make a new, empty database.
            url = url.set(database=f"file:{url.database}", query={**url.query, "mode": "ro", "uri": "true"})
        return create_engine(url)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        require("sql", "Reading a database", "sqlalchemy")
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{self} needs a package that is not installed ({error.name}): pip install it first; for "
                "PostgreSQL, pip install 'pursuit[postgres]'."
            ) from None
        except SQLAlchemyError as error:
            reason = (str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{self} cannot be read ({reason.rstrip('.')}): check its address and the query."
            ) from None


AnyPath = Path | RemotePath


def write(path: AnyPath, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    write_whole(path, data) if isinstance(path, Path) else path.write_whole(data)


@contextmanager
def open_to_write(path: AnyPath) -> Iterator[BinaryIO]:
    """A file to write to that takes its place once all is written. One on another machine is in memory until then."""
    if isinstance(path, Path):
        with whole_file(path) as file:
            yield file
        return
    memory = io.BytesIO()
    yield memory
    path.write_whole(memory.getvalue())


def files_below(folder: AnyPath, endings: tuple[str, ...]) -> list[AnyPath]:
    """The files in a folder and in those below it whose names end so, by name, without those that other programs keep
    beside the data, such as _metadata."""
    if isinstance(folder, Path):
        return sorted(_files_here(folder, endings))
    found: list[Any] = sorted(folder.rglob("*"))
    return [
        path
        for path in found
        if path.name.lower().endswith(endings)
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]


def _files_here(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """The same on this machine, without a look into folders of other programs: large ones have millions of files."""
    n_seen = 0
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        n_seen += len(folders) + len(names)
        if n_seen > MOST_FILES:
            raise ValueError(
                f"{folder} holds more than {MOST_FILES:,} files and folders: give the path of those with the table."
            )
        yield from (
            Path(above, name) for name in names if name.lower().endswith(endings) and not name.startswith((".", "_"))
        )


def for_each(function: Callable[[AnyPath], T], paths: Sequence[AnyPath]) -> list[T]:
    """What it gives for every file; on other machines many at a time, because each has to be waited for."""
    if not any(isinstance(path, RemotePath) for path in paths):
        return [function(path) for path in paths]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, paths))


def make_folder(folder: AnyPath) -> None:
    """Make a folder and those above it, where they are not there."""
    files.make_folder(folder) if isinstance(folder, Path) else folder.make_folder()


def remove_folder(folder: AnyPath) -> None:
    """Remove a folder with all that is in it."""
    shutil.rmtree(folder) if isinstance(folder, Path) else folder.remove_folder()


@contextmanager
def local(path: AnyPath) -> Iterator[Path]:
    """The file itself, or for what is on another machine a copy of it on this one, as long as it is needed."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(path.read_bytes())
        try:
            yield copy
        except ValueError as error:
            if str(copy) not in str(error):
                raise
            raise ValueError(str(error).replace(str(copy), str(path))) from None
