"""Text files as people have them: compressed or not, but not made to fill a machine's memory; in UTF-8 or an older
encoding; and what is not text at all."""

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from pursuit.files import CSV_FILE, check_file
from pursuit.tables import converted

COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
ZIP = b"PK\x03\x04", b"PK\x05\x06"  # with files, and without any
OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
"""How files are opened that begin with these bytes, whatever their name."""
NOT_TABLES = (
    (b"\xd0\xcf\x11\xe0", "an old Excel file: open it there and save it as CSV"),
    (b"PAR1", "a Parquet file: give it a name that ends in .parquet"),
    (b"ARROW1", "an Arrow file: give it a name that ends in .arrow"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"\x89HDF", "an HDF5 file: read it in Python and write it as CSV or Parquet"),
    (b"\x93NUMPY", "a numpy array: read it in Python and write it as CSV or Parquet"),
    (b"\x80\x02", "a pickle: read it in Python and write it as CSV or Parquet"),
    (b"\x80\x03", "a pickle: read it in Python and write it as CSV or Parquet"),
    (b"\x80\x04", "a pickle: read it in Python and write it as CSV or Parquet"),
    (b"\x80\x05", "a pickle: read it in Python and write it as CSV or Parquet"),
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
OLD_ENCODINGS = ("cp1252", "latin-1")
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
            return TextFile(path, "utf-8", sheet)  # to which workbooks are converted
    with open_bytes(path) as file:
        start = file.read(64)
    for magic, what in NOT_TABLES:
        if start.lower().startswith(magic.lower()):
            raise ValueError(f"{path} is {what}.")
    if encoding is not None:
        with open_bytes(path) as file:
            is_converted = isinstance(file, io.BytesIO)  # to UTF-8, whatever the file is in
        return TextFile(path, "utf-8" if is_converted else _existing(encoding))
    for mark, marked in BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return TextFile(path, marked)
    if _holds_zeros(path):
        raise ValueError(
            f"{path} is not text. Give a CSV file; if it is one, in UTF-16 without a mark at its beginning, add "
            "--encoding utf-16-le."
        )
    if _can_be(path, "utf-8"):
        return TextFile(path, "utf-8")
    guess = next(name for name in OLD_ENCODINGS if _can_be(path, name))
    shown = {"cp1252": "Windows-1252", "latin-1": "Latin-1"}[guess]
    return TextFile(
        path,
        guess,
        remark=f"{path.name} is not UTF-8: it is read as {shown}. If letters look wrong, name another --encoding.",
    )


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
            if converted.n_bytes_unpacked(path) > max(HARMLESS_BYTES, MOST_TIMES * path.stat().st_size):
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


def _holds_zeros(path: Path) -> bool:
    with open_bytes(path) as file:
        return any(b"\0" in chunk for chunk in iter(lambda: file.read(READ_BYTES), b""))


def _can_be(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with open_bytes(path) as file:
            for chunk in iter(lambda: file.read(READ_BYTES), b""):
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def unpacked(content: BinaryIO, path: Path) -> BinaryIO:
    """What is unpacked from the file at `path`, to be read from its beginning; raises ValueError once that is far more
    than any table packs to."""
    return io.BufferedReader(_Unpacked(content, path), BUFFER_BYTES)


class _Unpacked(io.RawIOBase):
    def __init__(self, content: BinaryIO, path: Path):
        self._content, self._path, self._n_read = content, path, 0
        self._most = max(HARMLESS_BYTES, MOST_TIMES * path.stat().st_size)

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
