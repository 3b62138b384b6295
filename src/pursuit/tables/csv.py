"""CSV files as people have them: the separator, the decimal comma and the encoding are found, not asked for, and
numbers are read as people and spreadsheets write them: 12,5 and 1.234,50 €; 1,234.5 and 12 %.

pandas reads the values. Python's own `csv`, which knows the line of every row, finds the separator and what is wrong.
"""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import pandas as pd

from pursuit.files import CSV_FILE, check_file
from pursuit.queries.column import BETWEEN_THOUSANDS, GROUPED_BY_SPACES, MINUS, fold, listed
from pursuit.queries.reading import MISSING_WORDS
from pursuit.tables import converted

COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
ZIP = b"PK\x03\x04", b"PK\x05\x06"  # with files, and without any
OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
"""How files are opened that begin with these bytes, whatever their name."""
NOT_TABLES = (
    (b"\xd0\xcf\x11\xe0", "an old Excel file: open it in Excel and save it as .xlsx or CSV"),
    (b"PAR1", "a Parquet file: give it a name that ends in .parquet"),
    (b"ARROW1", "an Arrow file: give it a name that ends in .arrow"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"\x89HDF", "an HDF5 file: read it in Python and write it as CSV or Parquet"),
    (b"\x93NUMPY", "a numpy array: read it in Python and write it as CSV or Parquet"),
    *((bytes([0x80, n]), "a pickle: read it in Python and write it as CSV or Parquet") for n in range(2, 6)),
    (
        b"SQLite format 3",
        "an SQLite database: write sqlite:///FILE, and what to read, as in --query 'SELECT * FROM table'",
    ),
    (b"$FL2", "an SPSS file: open it there and save it as CSV"),
    (b"%PDF", "a PDF file: a CSV file with the table is needed"),
    (b"<!doctype html", "a web page: download the file that it shows"),
    (b"<html", "a web page: download the file that it shows"),
    (b"version https://git-lfs", "only the pointer to a file in Git LFS: fetch the file by `git lfs pull`"),
)
"""What files that begin with these bytes are, in any case of letters, and what to do."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is the beginning of it
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
OLD_ENCODINGS = {"cp1252": "Windows-1252", "latin-1": "Latin-1"}
"""Tried in this order where a file is not UTF-8; every file can be read as the last."""
READ_BYTES, BUFFER_BYTES = 1 << 20, 1 << 16
MOST_TIMES, HARMLESS_BYTES = 200, 1 << 28
"""How many times its size a file may unpack to, unless that is still harmless: tables pack to a tenth or a fiftieth of
their size, a file of nothing but zeros to a thousandth."""


TOO_MUCH = (
    "{} unpacks to more than {} times its size, as files do that are made to fill a machine's memory. If it is meant "
    "to be like that, unpack it yourself and give the unpacked file."
)


@dataclass(frozen=True)
class TextFile:
    """A file that can be read as text."""

    path: Path
    encoding: str
    sheet: str | None = None
    """Which sheet of a workbook; by default the fullest."""
    remark: str = ""
    """What to tell a person about the encoding, if it is a guess that may be wrong."""
    is_converted: bool = False
    """Whether it is a workbook or JSON, read as a CSV file: commas do not separate what stands in it."""

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """Its text as it is, with the ends of lines that it has."""
        try:
            with open_bytes(self.path, self.sheet) as file, io.TextIOWrapper(file, self.encoding, newline="") as text:
                yield text
        except UnicodeError as error:
            raise ValueError(
                f"{self.path} is not text in the encoding {self.encoding} ({error}). Name the right one with "
                "--encoding, or leave --encoding out to have it guessed."
            ) from None


def find_text(path: Path, encoding: str | None = None, sheet: str | None = None) -> TextFile:
    """The file as text, in this encoding or one that it can be read in, of a workbook this sheet; raises an error that
    says what it is instead of a table."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder. Give the path of a CSV file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}. Give the path of {CSV_FILE}.")
    check_file(path, "a CSV file")
    if sheet is not None:
        if not converted.is_workbook(path):
            raise ValueError(f"{path} is not an Excel workbook, and has no sheets: leave --sheet out.")
        with open_bytes(path, sheet):
            return TextFile(path, "utf-8", sheet, is_converted=True)  # to which workbooks are converted
    with open_bytes(path) as file:
        start, is_converted = file.read(64), isinstance(file, io.BytesIO)
    for magic, what in NOT_TABLES:
        if start.lower().startswith(magic.lower()):
            raise ValueError(f"{path} is {what}.")
    if encoding is not None:
        return TextFile(path, "utf-8" if is_converted else _existing(encoding), is_converted=is_converted)
    for mark, marked in BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return TextFile(path, marked)
    if any(b"\0" in chunk for chunk in _chunks(path)):
        raise ValueError(
            f"{path} is not text. Give a CSV file; if it is one, in UTF-16 without a mark at its beginning, add "
            "--encoding utf-16-le."
        )
    if _can_be(path, "utf-8"):
        return TextFile(path, "utf-8", is_converted=is_converted)
    guess = next(name for name in OLD_ENCODINGS if _can_be(path, name))
    read_as = f"{path.name} is not UTF-8: it is read as {OLD_ENCODINGS[guess]}."
    return TextFile(path, guess, remark=f"{read_as} If letters look wrong, name another --encoding.")


@contextmanager
def open_bytes(path: Path, sheet: str | None = None) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked if they are compressed; those of a CSV file where it is one of another kind."""
    with _open_unpacked(path, sheet) as file:
        is_json = isinstance(file, io.BufferedReader) and converted.is_json(file.peek(64))
        yield io.BytesIO(converted.json_as_csv(path, file.read())) if is_json else file


@contextmanager
def _open_unpacked(path: Path, sheet: str | None) -> Iterator[BinaryIO]:
    check_file(path)
    try:
        with path.open("rb") as file:
            start = file.read(8)
        if start.startswith(ZIP) and converted.is_workbook(path):
            if converted.n_bytes_unpacked(path) > _most_unpacked(path):
                raise ValueError(TOO_MUCH.format(path, MOST_TIMES))
            yield io.BytesIO(converted.workbook_as_csv(path, sheet))
            return
        if start.startswith(ZIP):
            with zipfile.ZipFile(path) as archive, archive.open(_only_file(path, archive.namelist())) as member:
                yield unpacked(cast(BinaryIO, member), path)
            return
        opener = next((found for magic, found in OPENERS if start.startswith(magic)), None)
        if opener is None:
            with path.open("rb") as plain:
                yield plain
            return
        with opener(path, "rb") as content:
            yield unpacked(cast(BinaryIO, content), path)
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged or was cut off ({error}). Fetch or pack it again.") from None
    except (RuntimeError, NotImplementedError) as error:  # of an archive with a password, or in an unknown format
        raise ValueError(f"{path} cannot be unpacked here ({error}): unpack it first.") from None


def _only_file(path: Path, names: list[str]) -> str:
    """The one file in a zip archive."""
    if "[Content_Types].xml" in names:
        raise ValueError(f"{path} is a document of an office program: open it there and save its table as CSV (UTF-8).")
    if "mimetype" in names and "content.xml" in names:
        raise ValueError(f"{path} is a spreadsheet: open it there and save it as CSV.")
    hidden = ("__MACOSX", ".")
    files = [name for name in names if not name.endswith("/") and not name.startswith(hidden)]
    if len(files) != 1:
        held = f"{len(files)} files ({', '.join(files[:5])})" if files else "no file"
        raise ValueError(f"{path} holds {held}: unpack it, and give the path of one CSV file.")
    return files[0]


def _existing(encoding: str) -> str:
    """The encoding, if there is one of this name that is for text."""
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
    except LookupError:
        raise ValueError(
            f"'{encoding}' is not a known encoding. Common ones are utf-8, cp1252 (Windows), latin-1, utf-16 and "
            "shift_jis."
        ) from None
    return "utf-8-sig" if name == "utf-8" else name  # which reads files with and without a mark


def _chunks(path: Path) -> Iterator[bytes]:
    with open_bytes(path) as file:
        yield from iter(lambda: file.read(READ_BYTES), b"")


def _can_be(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def unpacked(content: BinaryIO, path: Path) -> BinaryIO:
    """What is unpacked from the file at `path`, to be read from its beginning; raises ValueError once that is far more
    than any table packs to."""
    return io.BufferedReader(_Unpacked(content, path), BUFFER_BYTES)


def _most_unpacked(path: Path) -> int:
    """The number of bytes that a file may unpack to."""
    return max(HARMLESS_BYTES, MOST_TIMES * path.stat().st_size)


class _Unpacked(io.RawIOBase):
    def __init__(self, content: BinaryIO, path: Path):
        self._content, self._path, self._n_read = content, path, 0
        self._most = _most_unpacked(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._content.read(min(len(buffer), self._most - self._n_read + 1))
        self._n_read += len(data)
        if self._n_read > self._most:
            raise ValueError(TOO_MUCH.format(self._path, MOST_TIMES))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._content.close()
        super().close()


ENDINGS = (
    *(f"{ending}{packed}" for ending in (".csv", ".tsv", ".tab", ".txt") for packed in ("", *COMPRESSED)),
    *converted.ENDINGS,
)
"""How the names of CSV files end, and of those that are read like them."""
SEPARATORS = ",;\t|"
NO_SEPARATOR = "\x1f"
"""Stands for the separator of a file of a single column: no text holds it."""
SNIFFED_CHARACTERS, SNIFFED_ROWS = 1 << 20, 50
"""How much of a file is looked at to find its separator."""
QUALTRICS_ID = '"ImportId":'
"""Marks the cells of the third line of a Qualtrics file, below names and wordings."""
FEWEST_BELOW = 3
"""A further header line is only recognised above at least this many rows."""
LONGEST_HEADER = 1 << 24
"""Characters of a header line that are read even where it is longer than that."""
SPREADSHEET_ERRORS = ("#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#BEZUG!", "#WERT!", "#ZAHL!", "#NV")
NO_STATEMENT = ("k.A.", "k. A.", *SPREADSHEET_ERRORS)
"""What N/A is in German, and cells that spreadsheets could not compute; pandas knows N/A in English."""
NEARLY_ALL = 0.9
SPACE = r"[\s\u00a0\u202f]*"
CURRENCY = r"(?:[$€£¥]|EUR|USD|GBP|CHF)"
LETTER = r"[^\W\d_]"
SIGN = rf"(?:^|(?<=^-)){CURRENCY}{SPACE}|{SPACE}(?:%|{CURRENCY})$"
UNIT = rf"{SIGN}|(?<=\d){SPACE}(?:{LETTER}|[°‰])(?:{LETTER}|[°%/·²³]){{0,15}}(?:/c?m[23])?$"
"""The sign of a currency, that of percent, or a word behind a number: 40 kg, 2.1 mg/dL, 27 kg/m2."""
BRACKETS = rf"({CURRENCY}?){SPACE}\(([^()-]*\d[^()-]*)\)"
"""(1,234) and $(1,234), as accountants write negative amounts."""
FEET = rf"(\d+){SPACE}(?:['’′]|ft\.?|feet)(?:{SPACE}((?:0?\d|1[01])(?:\.\d+)?){SPACE}(?:[\"”″]|''|in\.?|inch(?:es)?)?)?"
"""5'11" and 5 ft 11 in, and 6' or 6 ft beside them."""
PLURAL = r"(?<=[a-z]{3})s$"
WORD_TEXTS = 10
"""Words are units where more texts than this differ: 2WD and 4WD are choices."""
DIGIT = re.compile(r"\d")
NUMBER_LIKE = r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?"
PLAIN = NUMBER_LIKE.replace(".,", ".")
"""A number without commas and units."""
COMMA_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+(?=$|[,eE])|(?=,))(?:,\d+)?(?:[eE][+-]?\d+)?"
"""12,5 and 12, and 1.234,5 and 1.234, which is a whole number then."""
POINT_NUMBER = r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+(?=$|[.eE])|(?=\.))(?:\.\d+)?(?:[eE][+-]?\d+)?"
GROUPED_BY_POINTS = r"[+-]?(?:0|[1-9]\d{0,2}(?:\.\d{3})*)"
"""0, 950, 1.234 and 1.234.567, but not 1234."""
THOUSANDS = r"[+-]?\d{1,3}(?:,\d{3})+"
"""What 1,234 may be, if commas are not decimal."""


@dataclass(frozen=True)
class CsvOptions:
    """How to read a CSV file, where that is not to be guessed."""

    missing: Sequence[str] = ()
    """Texts that mean missing, in addition to the usual ones."""
    encoding: str | None = None
    decimal: str | None = None
    """What stands before the decimals: "." or ","."""
    sheet: str | None = None
    """The sheet of an Excel workbook; by default the fullest."""
    usual_decimal: str | None = None
    """What stands before decimals in the file of training: 1.234 is read as there where this one does not show it."""

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise ValueError(
                f"The decimal separator is a point or a comma: --decimal . or --decimal , but not '{self.decimal}'."
            )


@dataclass(frozen=True)
class _Layout:
    """How the lines of a file are to be read."""

    separator: str
    header: list[str]
    n_skipped: int
    """Lines before the header line that are not part of the table."""
    has_title: bool = False
    """Whether these have words in them."""
    n_explained: int = 0
    """Rows below the header line that are further header lines."""


@dataclass(frozen=True)
class CsvTable:
    """What a CSV file holds."""

    frame: pd.DataFrame
    text: TextFile
    layout: _Layout
    remarks: list[str] = field(default_factory=list)
    """What a person should know of how it was read."""
    units: dict[str, str] = field(default_factory=dict)
    """The units of columns of numbers that stand in their cells, such as € and %."""
    decimal: str | None = None
    """What stands before decimals in all of the file, if its columns show that."""

    @cached_property
    def _lines(self) -> list[int]:
        try:
            return [line for line, _ in itertools.islice(_records(self.text, self.layout), 1, None)]
        except csv.Error:  # a field that is too long for Python's reader
            return []

    @property
    def lines(self) -> list[int] | None:
        """The line of the file in which every row begins, as an editor counts them: the header line is 1; None if they
        cannot be counted."""
        return self._lines if len(self._lines) == len(self.frame) else None

    def line(self, row: int) -> int | None:
        """The line of the file in which a row begins."""
        return None if self.lines is None else self.lines[row]


def read_csv(
    path: Path,
    options: CsvOptions | None = None,
    as_text: bool = False,
    texts: Sequence[str] = (),
    names: Collection[str] = (),
) -> CsvTable:
    """The file as a table; `as_text` reads every value as it is written, and otherwise those of the columns `texts` are
    not turned into numbers. `names` are columns that it should have. Raises ValueError saying what is wrong."""
    options = options or CsvOptions()
    text = find_text(path, options.encoding, options.sheet)
    layout = _find_layout(text, names)
    if as_text:
        return CsvTable(_parse(text, layout, options, dtype=str, keep_default_na=False), text, layout)
    frame = _parse(text, layout, options, dtype=dict.fromkeys(texts, str))
    remarks = [text.remark] if text.remark else []
    if layout.has_title:
        remarks.append(f"What stands above the header line, which is line {layout.n_skipped + 1}, is left out.")
    if layout.n_explained:
        rows = "row" if layout.n_explained == 1 else f"{layout.n_explained} rows"
        remarks.append(f"Left out, as further header lines: the {rows} below the header line.")
    with_digits = _texts_with_digits(frame)  # all that may be written numbers
    with_commas, grouped = [], []
    if options.decimal is None:
        between = "\t" if text.is_converted else layout.separator
        with_commas, grouped = _decimal_comma_columns(with_digits, between), _grouped_money(with_digits)
    has_usual = options.usual_decimal == "," and layout.separator != ","
    as_usual = has_usual and options.decimal is None and not with_commas
    if with_commas or grouped or options.decimal == "," or as_usual:
        written, are_sure = _parse(text, layout, options, dtype=str), options.decimal == ","
        names = list(written.columns)
        if options.decimal is None and (layout.separator == "," or not (with_commas or as_usual)):
            # Between commas, only some columns have decimal commas: those of money, as a rule.
            grouped = [name for name in names if groups_thousands(written[name])] if with_commas else grouped
            names = [*with_commas, *grouped]
        pointed = {name: with_points(written[name], are_sure) for name in names if name not in texts}
        if as_usual:
            numbers = [name for name in pointed if frame[name].dtype.kind == "f" and name not in grouped]
            grouped += [name for name in numbers if (pointed[name] != frame[name])[frame[name].notna()].any()]
        frame = _with_columns(frame, pointed)
    if with_commas:
        remarks.append(f"12,5 is read as 12.5, as in {listed(with_commas)}. If that is wrong, add --decimal .")
    if grouped:
        remarks.append(f"1.234 is read as 1234, as in {listed(grouped)}. If that is wrong, add --decimal .")
    commas_group = options.decimal == "." or (layout.separator == "," and options.decimal is None)
    rewritten = {}
    if not with_commas or layout.separator == ",":
        rewritten = _plainly_written(frame[list(with_digits.columns)], texts, commas_group)
    if rewritten:
        frame = _with_columns(frame, rewritten)
        remarks.append(
            f"Read without units, and without commas and spaces between thousands: {listed(list(rewritten))}."
        )
    frame = _with_columns(frame, _codes(text, layout, options, frame))
    if frame.iloc[:, -1].isna().any() and (short := _too_short(text, layout)):
        remarks.append(short)
    changed = [name for name in with_digits.columns if not frame[name].equals(with_digits[name])]
    units = {name: unit for name in changed if (unit := unit_of(with_digits[name]))}
    if negative := [name for name in changed if not without_brackets(with_digits[name]).equals(with_digits[name])]:
        remarks.append(f"(5) is read as -5, as in {listed(negative)}.")
    if feet := [name for name in changed if not in_inches(with_digits[name]).equals(with_digits[name])]:
        remarks.append(f"5'11\" is read as 71 inches, as in {listed(feet)}.")
    decimal = "," if with_commas and layout.separator != "," else None
    return CsvTable(frame, text, layout, remarks, units, decimal)


def _find_layout(text: TextFile, names: Collection[str] = ()) -> _Layout:
    """The separator that divides the first rows most evenly, and the header line, which has some of the `names`, if
    they are known."""
    with text.open() as file:
        sample = file.read(SNIFFED_CHARACTERS) + file.readline(LONGEST_HEADER)
    if not sample.strip():
        raise ValueError(f"{text.path} is empty: it needs a header line and at least one row.")
    told = re.match(r"\s*sep=(.)\r?\n", sample)  # as Excel writes and reads it
    if told:
        layouts = [_Layout(told[1], [], told[0].count("\n"))]
    else:
        layouts = [_Layout(separator, [], 0) for separator in SEPARATORS]
    sampled = [(layout, _sampled_rows(sample, layout)) for layout in layouts]
    if any(rows and len(rows[0][1]) > 1 and len({len(row) for _, row in rows}) == 1 for _, rows in sampled):
        sampled = [max(sampled, key=lambda pair: _evenness([row for _, row in pair[1]]))]  # also of titles, if any
    layout, rows = max((_below_titles(*pair, names) for pair in sampled), key=lambda pair: _evenness(pair[1]))
    divides_a_name = bool(rows) and len(rows[0]) > 1 and sample.split("\n")[0].strip() in names
    if not told and (divides_a_name or _is_single_column(rows)):
        layout = _Layout(NO_SEPARATOR, [], 0)
        rows = [row for _, row in _sampled_rows(sample, layout)]
    header = [name.strip() for name in rows[0]] if rows else []
    for name, n in Counter(header).items():
        if name and n > 1:
            numbers = [str(number) for number, other in enumerate(header, start=1) if other == name]
            raise ValueError(
                f"{text.path} has more than one column '{name:.100}' (columns {' and '.join(numbers)}): give each a "
                "name of its own in the header line. If the first line is data, put a line with names above it."
            )
    if n_explained := _n_explained(rows[1:]):
        layout = replace(layout, n_skipped=_sampled_rows(sample, layout)[0][0], n_explained=n_explained)
    return replace(layout, header=header)


def _n_explained(rows: list[list[str]]) -> int:
    """The number of first rows that are further header lines: wordings, ids or units."""
    if len(rows) > 1 and all(QUALTRICS_ID in cell for cell in rows[1]):
        return 2
    may_be = [n for n in (2, 1) if len(rows) >= n + FEWEST_BELOW]
    return next((n for n in may_be if all(_is_header(row, rows[n:]) for row in rows[:n])), 0)


def _is_header(row: list[str], others: list[list[str]]) -> bool:
    """Whether a row is a further header line above the others: it holds no number, but several texts in columns of
    numbers, or one text and several gaps in columns that have none elsewhere."""
    if any(re.fullmatch(NUMBER_LIKE, cell.strip()) for cell in row):
        return False
    texts, n_gaps = set(), 0
    for name, *cells in itertools.zip_longest(row, *others, fillvalue=""):
        filled = [cell.strip() for cell in cells if cell.strip()]
        if len(filled) < FEWEST_BELOW or not all(re.fullmatch(NUMBER_LIKE, cell) for cell in filled):
            continue
        n_gaps += not name.strip() and len(filled) == len(cells)
        texts |= {fold(name)} - MISSING_WORDS
    return len(texts) > 1 or (len(texts) == 1 and n_gaps > 1)


def _is_single_column(rows: list[list[str]]) -> bool:
    """Whether a separator is in the header line alone, or only below it, so that it separates nothing."""
    if not rows or len(rows[0]) == 1:
        return any("".join(row[1:]).strip() for row in rows[1:])
    return len(rows) > 1 and all(len(row) == 1 for row in rows[1:])


def _below_titles(
    layout: _Layout, rows: list[tuple[int, list[str]]], known: Collection[str]
) -> tuple[_Layout, list[list[str]]]:
    """The layout and the rows without title lines, as spreadsheets have them above the header line: lines with hardly
    anything in them, before one with names in nearly all columns. A line with the name of a `known` column is none."""
    filled = [sum(bool(cell.strip()) for cell in row) for _, row in rows]
    most = max(filled, default=0)
    first = next((i for i, n in enumerate(filled) if 2 * n > most), 0)
    names = [cell.strip() for cell in rows[first][1] if cell.strip()] if rows else []
    is_header = len(names) >= converted.HEADER_SHARE * most and len(set(names)) == len(names) and first + 1 < len(rows)
    titles = [cell for _, row in rows[:first] for cell in row]
    may_be_titles = first and "\n" not in "".join(titles) and not any(title.strip() in known for title in titles)
    if not may_be_titles or not is_header or any(re.fullmatch(NUMBER_LIKE, name) for name in names):
        return layout, [row for _, row in rows]
    return replace(layout, n_skipped=rows[first][0], has_title=True), [row for _, row in rows[first:]]


def _sampled_rows(sample: str, layout: _Layout) -> list[tuple[int, list[str]]]:
    """The first rows, each with the number of lines before it."""
    reader = csv.reader(_after_skipped(io.StringIO(sample, newline=""), layout), **_dialect(layout))
    rows: list[tuple[int, list[str]]] = []
    try:
        line = layout.n_skipped
        for row in reader:
            if not _is_blank(row):
                rows.append((line, row))
            line = layout.n_skipped + reader.line_num
            if len(rows) > SNIFFED_ROWS:
                break
    except csv.Error:
        return rows[:1]  # a separator that does not divide long lines
    is_cut = len(sample) >= SNIFFED_CHARACTERS and len(rows) <= SNIFFED_ROWS
    return rows[:-1] if is_cut and len(rows) > 1 else rows


def _evenness(rows: list[list[str]]) -> float:
    """How many of the first rows have as many fields as the header line, and that it has several."""
    if not rows or len(rows[0]) < 2:
        return 0.0
    n_fields = len(rows[0])
    return sum(len(row) == n_fields for row in rows) / len(rows) * (1 - 1 / n_fields)


def _dialect(layout: _Layout) -> dict[str, Any]:
    return {"delimiter": layout.separator, "skipinitialspace": True}


def _after_skipped(file: Any, layout: _Layout) -> Any:
    for _ in range(layout.n_skipped):
        file.readline()
    return file


def _is_blank(row: list[str]) -> bool:
    return len(row) < 2 and not "".join(row).strip()


def _records(text: TextFile, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
    """The header and all rows, each with the line of the file in which it begins."""
    with text.open() as file:
        reader = csv.reader(_after_skipped(file, layout), **_dialect(layout))
        line, n_rows = 1 + layout.n_skipped, 0
        for row in reader:
            if not _is_blank(row):
                if not 1 <= n_rows <= layout.n_explained:
                    yield line, row
                n_rows += 1
            line = 1 + layout.n_skipped + reader.line_num


def _parse(text: TextFile, layout: _Layout, options: CsvOptions, **of_pandas: Any) -> pd.DataFrame:
    """The values, without spaces around them."""
    below = layout.n_skipped + 1
    usual: dict[str, Any] = {
        "sep": layout.separator,
        "index_col": False,
        "skiprows": [*range(layout.n_skipped), *range(below, below + layout.n_explained)],
        "skipinitialspace": True,
        "na_values": [*options.missing, *(NO_STATEMENT if of_pandas.get("keep_default_na", True) else ())],
        "low_memory": False,  # which would guess types anew in every part of a long file
        **of_pandas,
    }
    try:
        frame = _read(text, usual)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{text.path} is empty: it needs a header line and at least one row.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        _refuse_open_quote(text, layout, error)
        _refuse_too_long(text, layout)
        frame = _read(text, {**usual, "usecols": range(len(layout.header))})  # without separators at the ends of lines
    if frame.empty:
        raise ValueError(f"{text.path} has no rows below its header line.")
    return _stripped(frame, usual["na_values"], of_pandas.get("dtype"))


def _read(text: TextFile, options: dict[str, Any]) -> pd.DataFrame:
    with text.open() as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # of values beyond the last name
        try:
            return pd.read_csv(file, **options)
        except OverflowError:  # of some versions of pandas
            raise ValueError(f"{text.path} has a whole number of more digits than numbers can have, 308.") from None


def _refuse_open_quote(text: TextFile, layout: _Layout, error: Exception) -> None:
    if "EOF inside string" not in str(error):
        return
    try:
        *_, (line, _) = _records(text, layout)
        where = f"opened in the row of line {line}"
    except csv.Error:
        where = "opened somewhere"
    raise ValueError(
        f'{text.path} has a quotation mark {where} that is never closed. Close it, or write it twice ("") if it is '
        "part of a text."
    ) from None


def _refuse_too_long(text: TextFile, layout: _Layout) -> None:
    """Raise ValueError for the first row with more values than the header has names, unless they are empty."""
    n_names = len(layout.header)
    for line, row in _records(text, layout):
        if any(value.strip() for value in row[n_names:]):
            shown = {"\t": "tab"}.get(layout.separator, layout.separator)
            raise ValueError(
                f"{text.path} has {len(row)} values in line {line}, but only {n_names} names in its header line. Put "
                f"quotation marks around values that hold the separator '{shown}', or name every column. The header "
                "line comes first: delete what stands above it."
            )


def _too_short(text: TextFile, layout: _Layout) -> str:
    """A remark on rows with fewer values than the header has names; empty if there are none."""
    try:
        lines = [line for line, row in _records(text, layout) if len(row) < len(layout.header)]
    except csv.Error:
        return ""
    if not lines:
        return ""
    rows = "1 row has" if len(lines) == 1 else f"{len(lines):,} rows have"
    where = f"line {lines[0]}" if len(lines) == 1 else f"the first in line {lines[0]}"
    return f"Warning: {rows} fewer values than the header line has names ({where}); those absent count as missing."


def _stripped(frame: pd.DataFrame, missing: Sequence[str], texts: Any) -> pd.DataFrame:
    """The table without spaces around names and texts, and without columns that have neither a name nor a value; a
    text of nothing but spaces is missing. Columns that turn out to be numbers become numbers, but for `texts`."""
    nameless = [name for name in frame.columns if str(name).startswith("Unnamed: ") and frame[name].isna().all()]
    frame = frame.drop(columns=nameless).rename(columns=lambda name: str(name).strip())
    changed = {}
    for name in _text_columns(frame):
        column, are_texts = frame[name].str.strip(), texts is str or name in texts
        is_blank = column.isin(["", *missing])
        if is_blank.any():
            column = column.mask(is_blank) if are_texts else as_numbers(column.mask(is_blank))
        if not column.equals(frame[name]):
            changed[name] = column
    return _with_columns(frame, changed)


def _with_columns(frame: pd.DataFrame, columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    """The table with some of its columns replaced; one after the other, each would take longer the more there are."""
    if not columns:
        return frame
    return pd.concat([frame.drop(columns=list(columns)), pd.DataFrame(columns)], axis=1)[list(frame.columns)]


def _text_columns(frame: pd.DataFrame) -> list[str]:
    """The columns of texts. All types are looked at first: pandas takes long to give out a column of a wide table."""
    may_be = frame.columns[[dtype.kind == "O" for dtype in frame.dtypes]]
    return [name for name in may_be if pd.api.types.is_string_dtype(frame[name])]


def _texts_with_digits(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of texts some of which have a digit."""
    distinct = {name: frame[name].unique() for name in _text_columns(frame)}
    return frame[[name for name, texts in distinct.items() if any(DIGIT.search(str(text)) for text in texts)]]


def _codes(text: TextFile, layout: _Layout, options: CsvOptions, frame: pd.DataFrame) -> dict[str, pd.Series]:
    """The columns of whole numbers of as many digits each, three or more, some of which are leading zeros, as they are
    written: 007 beside 123 is a code, 07 beside 12 or 123 a number that somebody padded."""
    may_be = re.compile(r'[{0}"\s]0\d+[{0}"\s]'.format(re.escape(layout.separator)))
    with text.open() as file:
        parts = iter(lambda: "".join(file.readlines(SNIFFED_CHARACTERS)), "")
        if not any(may_be.search(f"\n{part}\n") for part in parts):
            return {}
    numbers = frame.select_dtypes("number")
    names = {name for name in numbers if numbers[name].dropna().mod(1).eq(0).all()}
    if not names:
        return {}
    written = _parse(text, layout, options, dtype=str, usecols=lambda name: str(name).strip() in names)
    each = {name: written[name].dropna().str for name in frame.columns if name in names}
    are_codes = {
        name: of.fullmatch(r"\d{3,}").all() and of.match("0").any() and of.len().nunique() == 1
        for name, of in each.items()
    }
    return {name: written[name] for name, is_code in are_codes.items() if is_code}


def _plainly_written(frame: pd.DataFrame, texts: Sequence[str], commas_group: bool) -> dict[str, pd.Series]:
    """The columns that are numbers, or nearly, once they are written without units and without what stands between
    thousands."""
    columns = [name for name in _text_columns(frame) if name not in texts]
    written = {name: plainly_written(frame[name], commas_group) for name in columns}
    return {name: column for name, column in written.items() if column is not None}


def _decimal_comma_columns(frame: pd.DataFrame, separator: str) -> list[str]:
    """The columns of texts whose numbers have a decimal comma, as far as one can see."""
    return [
        name
        for name in frame.columns
        if has_decimal_comma(frame[name], separator == ";") and (separator != "," or _is_surely_comma(frame[name]))
    ]


def _grouped_money(frame: pd.DataFrame) -> list[str]:
    """The columns of texts that are money with points between thousands, since money does not have three decimals."""
    money = [name for name in frame.columns if frame[name].str.contains(CURRENCY, na=False).any()]
    return [name for name in money if groups_thousands(frame[name], r"\.")]


def groups_thousands(texts: pd.Series, evidence: str = r"\..*(?:\.|0$)") -> bool:
    """Whether nearly all texts of a column are numbers with points between thousands, and some has the evidence: by
    default a second point, or a zero in the end, which programs do not write behind decimal points."""
    values = without_unit(texts.dropna().drop_duplicates())
    numbers = values[values.str.fullmatch(NUMBER_LIKE)]
    is_grouped = numbers.str.fullmatch(GROUPED_BY_POINTS).all() and numbers.str.contains(evidence).any()
    return bool(is_grouped and len(numbers) >= NEARLY_ALL * len(values))


def _is_surely_comma(column: pd.Series) -> bool:
    """Whether a column between commas has decimal commas, and not lists such as 1,2: it has a currency, or points
    between thousands."""
    return bool(column.str.contains(CURRENCY, na=False).any() or column.str.contains(r"\d\.\d{3},\d", na=False).any())


def has_decimal_comma(column: pd.Series, is_usual: bool) -> bool:
    """Whether nearly all texts of a column are numbers with a decimal comma or whole; 1,234 counts only where decimal
    commas are usual."""
    values = without_unit(column.dropna().drop_duplicates())
    are_numbers = values.str.fullmatch(NUMBER_LIKE)
    numbers = values[are_numbers]
    if not len(numbers) or are_numbers.mean() < NEARLY_ALL:
        return False
    have_comma = numbers.str.contains(",")
    if not is_usual:
        have_comma &= ~numbers.str.fullmatch(THOUSANDS)
    return bool(have_comma.any() and numbers.str.fullmatch(COMMA_NUMBER).mean() >= NEARLY_ALL)


def with_points(column: pd.Series, even_if_few: bool) -> pd.Series:
    """Texts of a file with decimal commas, written with points, and as numbers if all of them are; if numbers are not
    nearly all of them, only `even_if_few`."""
    texts = without_unit(column)
    is_number = texts.str.fullmatch(COMMA_NUMBER, na=False)
    if (texts.str.fullmatch(NUMBER_LIKE, na=False) & ~is_number & texts.str.contains(".", regex=False)).any():
        is_number &= ~texts.str.contains(".", regex=False, na=False)  # points are decimal in this column
    if even_if_few or is_number.sum() >= NEARLY_ALL * column.notna().sum():
        pointed = texts.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        column = column.mask(is_number, pointed)
    return as_numbers(column)


def plainly_written(column: pd.Series, commas_group: bool) -> pd.Series | None:
    """The column without a unit, spaces and, if `commas_group`, commas between thousands, where that turns nearly all
    of its texts into numbers; None where it does not, or where they are numbers already."""
    values = column.dropna().drop_duplicates()
    texts = without_unit(values)
    is_number = texts.str.fullmatch(POINT_NUMBER if commas_group else POINT_NUMBER.replace(",", "(?!)"))
    if not len(values) or is_number.mean() < NEARLY_ALL or values[is_number].str.fullmatch(PLAIN).all():
        return None
    plain = dict(zip(values[is_number], texts[is_number].str.replace(",", "", regex=False), strict=True))
    return as_numbers(column.map(lambda text: plain.get(text, text), na_action="ignore"))


def without_unit(texts: pd.Series) -> pd.Series:
    """Texts without their unit, and without spaces between thousands; a minus is a hyphen, as computers read it."""
    texts = in_inches(without_brackets(texts.str.replace(MINUS, "-", regex=False)))
    texts = texts.str.replace(UNIT, "", regex=True) if unit_of(texts) else texts
    is_grouped = texts.str.fullmatch(GROUPED_BY_SPACES, na=False)
    return texts.mask(is_grouped, texts.str.replace(BETWEEN_THOUSANDS, "", regex=True)) if is_grouped.any() else texts


def without_brackets(texts: pd.Series) -> pd.Series:
    """(5) as -5, where others have no brackets and none has a minus: (1), (2), (3) are items of a list."""
    in_brackets = texts.str.fullmatch(BRACKETS, na=False)
    if not in_brackets.any():
        return texts
    others = texts[~in_brackets]
    if others.str.contains(r"^-.*\d", na=False).any() or not others.str.contains(DIGIT, na=False).any():
        return texts
    return texts.mask(in_brackets, texts.str.replace(BRACKETS, r"-\1\2", regex=True))


def in_inches(texts: pd.Series) -> pd.Series:
    """5'11" as 71, where some texts have inches behind the feet; 6 ft alone stay feet."""
    found = texts.str.extract(f"^{FEET}$")
    if not found[1].notna().any():
        return texts
    inches = 12 * found[0].astype(float) + found[1].astype(float).fillna(0)
    return texts.mask(inches.notna(), inches.map("{:g}".format))


def unit_of(texts: pd.Series) -> str:
    """The sign of a currency, or that of percent, if it is the same in all texts that have one; or the word behind most
    numbers, if there is one word."""
    if not in_inches(texts).equals(texts):
        return "in"
    if not texts.str.contains(UNIT, na=False).any():
        return ""
    found = texts.str.extract(f"({UNIT})", expand=False).str.replace(SPACE, "", regex=True)
    units = found.dropna().str.replace(PLURAL, "", regex=True).unique()
    if len(units) != 1:
        return ""
    is_word = not re.fullmatch(f"%|{CURRENCY}", units[0])
    is_seldom = texts.nunique() <= WORD_TEXTS or 2 * found.count() <= texts.count()
    return "" if is_word and is_seldom else str(units[0])


def as_numbers(column: pd.Series) -> pd.Series:
    """Texts as numbers, if all of them are."""
    try:
        return pd.to_numeric(column)
    except (ValueError, OverflowError):  # of more digits than numbers have
        return column
