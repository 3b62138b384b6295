"""What is read as a CSV file is, though it is none: Excel workbooks, JSON, and the rows of a database selected by SQL.

A database is named by its address, as SQLAlchemy has it, with the query after a #, as in
`sqlite:///repairs.db#SELECT * FROM repairs`; on the command line --query is the query.
"""

import codecs
import csv
import datetime
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Engine


ENDINGS = (".xlsx", ".xlsm", ".json", ".jsonl", ".ndjson")
UNIT = re.compile(r"(?<!\[)\$|[%€£¥]|EUR|USD|GBP|CHF")
"""The unit in a number format of Excel; $ may also begin a code, as in [$€-407]."""
HEADER_SHARE = 0.8
"""The header line is the first with at least this share of the cells of the fullest line."""


def is_json(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a list of JSON objects, or has one on each line."""
    return re.match(rb"\s*(\[\s*)?\{\s*\"", start.removeprefix(codecs.BOM_UTF8)) is not None


@lru_cache(maxsize=2)  # it is asked for several times while a file is read
def json_as_csv(path: Path, content: bytes) -> bytes:
    """Objects of a JSON list, or of lines, as the text of a CSV file in UTF-8. What is inside an object is a column
    named by both, as in `address.town`, and what is in a list stands side by side, after semicolons."""
    try:
        rows = _objects(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read as JSON ({error}): write it again, as a list of objects or as CSV."
        ) from None
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} is JSON, but not a list of objects, nor one on each line: a table is needed.")
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([names, *([row.get(name, "") for name in names] for row in flat)])
    return file.getvalue().encode()


def _objects(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return found if isinstance(found, list) else [found]


def _flat(row: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif isinstance(value, list):
            yield f"{above}{key}", "; ".join(map(cell_text, value))
        else:
            yield f"{above}{key}", cell_text(value)


def is_workbook(path: Path) -> bool:
    """Whether a zip archive is an Excel workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def n_bytes_unpacked(path: Path) -> int:
    """How many bytes a workbook unpacks to."""
    with zipfile.ZipFile(path) as archive:
        return sum(member.file_size for member in archive.infolist())


def workbook_as_csv(path: Path, sheet: str | None = None) -> bytes:
    """A sheet, by default that with the most filled cells, as the text of a CSV file in UTF-8. Title lines above the
    header line are empty lines, so that lines are numbered as in Excel."""
    stat = path.stat()
    return _converted(path, stat.st_mtime_ns, stat.st_size, sheet)


@lru_cache(maxsize=2)
def _converted(path: Path, _changed: int, _size: int, wanted: str | None) -> bytes:
    try:
        import openpyxl
    except ImportError:
        raise ValueError(
            f"{path} is an Excel file, which needs openpyxl to be read: pip install openpyxl. Or open it there and "
            "save it as CSV (UTF-8)."
        ) from None
    try:
        workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
        names = [sheet.title for sheet in workbook]
        sheets = [_cells(sheet) for sheet in workbook if wanted is None or sheet.title == wanted]
        workbook.close()
    except Exception as error:  # a damaged workbook can raise anything
        raise ValueError(
            f"{path} cannot be read as an Excel file ({type(error).__name__}: {error}). Open it there and save it "
            "again, or as CSV (UTF-8)."
        ) from None
    if wanted is not None and not sheets:
        raise ValueError(f"{path} has no sheet '{wanted}'. Its sheets are: {', '.join(names)}.")
    rows = max(sheets, key=_n_filled, default=[])
    first = _header(rows)
    used = [i for i in range(max(map(len, rows), default=0)) if any(i < len(row) and row[i] for row in rows[first:])]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    for number, row in enumerate(rows):
        cells = [row[i] if i < len(row) else "" for i in used]
        writer.writerow(cells if number >= first and any(cells) else [])
    return file.getvalue().encode()


def _cells(sheet: Any) -> list[list[str]]:
    return [[cell_text(cell.value, str(cell.number_format or "")) for cell in row] for row in sheet.iter_rows()]


def _n_filled(rows: Sequence[Sequence[str]]) -> int:
    return sum(bool(cell) for row in rows for cell in row)


def _header(rows: Sequence[Sequence[str]]) -> int:
    """The place of the header line."""
    filled = [sum(map(bool, row)) for row in rows]
    most = max(filled, default=0)
    return next((i for i, n in enumerate(filled) if n and n >= HEADER_SHARE * most), 0)


def cell_text(cell: Any, number_format: str = "") -> str:
    """What a cell shows, for people and for those who read numbers: money and percent with their units."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ") if cell.time() != datetime.time() else cell.date().isoformat()
    if isinstance(cell, int | float) and (unit := UNIT.search(number_format)):
        return f"{100 * cell if unit[0] == '%' else cell:.12g} {unit[0]}"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell).strip()


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


@dataclass(frozen=True)
class QueryResult:
    """What a query finds in a database, as the text of a CSV file."""

    address: str
    """Perhaps with a password in it."""
    query: str

    @classmethod
    def of(cls, source: str) -> "QueryResult":
        address, _, query = source.partition("#")
        return cls(address, query.strip())

    @cached_property
    def shown(self) -> str:
        """The address without a password."""
        from sqlalchemy.engine import make_url

        return make_url(self.address).render_as_string(hide_password=True).replace(":***@", "@")

    @property
    def name(self) -> str:
        return PurePosixPath(self.shown.partition("?")[0]).name or "database"

    @cached_property
    def content(self) -> bytes:
        """The rows, with a header line, in UTF-8."""
        with self._explained(), self._engine().connect() as connection:
            from sqlalchemy import inspect, text

            if not self.query:
                tables = inspect(connection).get_table_names()
                raise ValueError(
                    f"Which rows of {self.shown}? Say so with {EXAMPLE.format(tables[0] if tables else 'TABLE')}. "
                    f"Its tables are: {', '.join(tables[:20]) or 'none'}."
                )
            result = connection.execute(text(self.query))
            if not result.returns_rows:
                raise ValueError(f"The query selects no rows. Write one that does: {EXAMPLE.format('TABLE')}.")
            file = io.StringIO(newline="")
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(result.keys())
            writer.writerows([cell_text(value) for value in row] for row in result)
        return file.getvalue().encode()  # nothing is committed: the connection is closed before

    def version(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def _engine(self) -> "Engine":
        from sqlalchemy import create_engine
        from sqlalchemy.engine import make_url

        url = make_url(self.address)
        url = url.set(drivername=DRIVERS.get(url.drivername, url.drivername))
        if url.get_backend_name() == "sqlite" and url.database:
            # Opened as it is: a name that is wrong must not make a new, empty database.
            url = url.set(database=f"file:{url.database}", query={**url.query, "mode": "ro", "uri": "true"})
        return create_engine(url)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            from sqlalchemy.exc import SQLAlchemyError
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "Databases are read by SQLAlchemy, which is not installed: pip install 'pursuit[sql]'"
            ) from None
        try:
            yield
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{self.shown} needs a package that is not installed ({error.name}): pip install it first; for "
                "PostgreSQL, pip install 'pursuit[postgres]'."
            ) from None
        except SQLAlchemyError as error:
            reason = (str(getattr(error, "orig", None) or error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{self.shown} cannot be read ({reason.rstrip('.')}): check its address and the query."
            ) from None
