"""What is read as a CSV file is, though it is none: Excel workbooks and JSON."""

import codecs
import csv
import datetime
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

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
    return as_csv([names, *([row.get(name, "") for name in names] for row in flat)])


def as_csv(rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows, of which the first is the header line, as a CSV file in UTF-8."""
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()


def _objects(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        rows: list[Any] = []
        for number, line in enumerate(text.split("\n"), start=1):  # other ends of lines may be part of texts
            try:
                rows += [json.loads(line)] if line.strip() else []
            except json.JSONDecodeError as of_line:
                raise ValueError(f"line {number}: {of_line.msg}") if rows else error from None
        return rows
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
        with path.open("rb") as content:  # whose name may end in anything
            workbook = openpyxl.load_workbook(content, read_only=True, data_only=True)
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
    rows = max(sheets, key=lambda rows: sum(bool(cell) for row in rows for cell in row), default=[])
    first = _header(rows)
    used = [i for i in range(max(map(len, rows), default=0)) if any(i < len(row) and row[i] for row in rows[first:])]
    cells = [[row[i] if i < len(row) else "" for i in used] for row in rows]
    return as_csv(row if number >= first and any(row) else [] for number, row in enumerate(cells))


def _cells(sheet: Any) -> list[list[str]]:
    return [[cell_text(cell.value, str(cell.number_format or "")) for cell in row] for row in sheet.iter_rows()]


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
