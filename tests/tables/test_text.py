"""Files are read as text in whatever they are packed and encoded, and what is not text is called by its name."""

import bz2
import gzip
import io
import lzma
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from pursuit.research.tasks import load_task
from pursuit.research.tasks.files import _read, read_idx, read_json, read_jsonl
from pursuit.tables import csv as text_files
from pursuit.tables.csv import find_text, open_bytes

TEXT = "größe,y\r\n1,ja\r\n"


def read(path: Path, encoding: str | None = None) -> str:
    with find_text(path, encoding).open() as file:
        return file.read()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252"])
def test_encodings_are_found(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes(TEXT.encode(encoding))
    assert read(tmp_path / "t.csv") == TEXT
    is_guess = encoding in ("latin-1", "cp1252")
    assert bool(find_text(tmp_path / "t.csv").remark) == is_guess


def test_what_is_not_utf_8_is_read_as_windows_1252_or_latin_1_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"price\n" + b"x" * 3_000_000 + b"\n5 \x80\n")  # a euro sign, far from the beginning
    assert find_text(path).remark == (
        "t.csv is not UTF-8: it is read as Windows-1252. If letters look wrong, name another --encoding."
    )
    assert read(path).endswith("5 €\n")
    path.write_bytes(b"price\n5 \x81\n")  # which Windows-1252 does not have
    assert "it is read as Latin-1" in find_text(path).remark
    assert read(path) == "price\n5 \x81\n"


def test_a_letter_cut_in_two_by_the_size_of_chunks_is_whole(tmp_path: Path) -> None:
    text = "a" * ((1 << 20) - 1) + "ü" * 10
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert find_text(tmp_path / "t.csv").encoding == "utf-8"


def test_an_encoding_that_is_given_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(TEXT.encode("utf-16-le"))
    with pytest.raises(ValueError, match=r"is not text. .* add --encoding utf-16-le"):
        read(path)
    assert read(path, "utf-16-le") == TEXT
    path.write_bytes(TEXT.encode("utf-8-sig"))
    assert read(path, "UTF8") == TEXT
    with pytest.raises(ValueError, match=r"not text in the encoding ascii .* Name the right one with --encoding"):
        read(path, "ascii")
    for unknown in ("latin9x", "base64"):
        with pytest.raises(ValueError, match=f"'{unknown}' is not a known encoding. Common ones are utf-8, cp1252"):
            read(path, unknown)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_packed_files_are_unpacked_by_what_they_hold(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"a": ["ä"]})
    frame.to_csv(tmp_path / f"t.csv.{ending}", index=False)
    (tmp_path / f"t.csv.{ending}").rename(tmp_path / "t.csv")
    assert read(tmp_path / "t.csv") == "a\nä\n"


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
def test_packed_files_that_are_cut_off_are_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.csv.{ending}"
    pd.DataFrame({"a": range(9999)}).to_csv(path)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"is damaged or was cut off \(.*\). Fetch or pack it again"):
        read(path)


def test_a_zip_archive_holds_one_table(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("__MACOSX/._a.csv", "x")
        archive.writestr("folder/", "")
        archive.writestr("folder/a.csv", TEXT)
    assert read(tmp_path / "t.zip") == TEXT
    with zipfile.ZipFile(tmp_path / "t.zip", "a") as archive:
        archive.writestr("b.csv", TEXT)
    with pytest.raises(ValueError, match=r"holds 2 files \(folder/a.csv, b.csv\): unpack it, and give the path of one"):
        read(tmp_path / "t.zip")
    zipfile.ZipFile(tmp_path / "empty.zip", "w").close()
    with pytest.raises(ValueError, match="holds no file"):
        read(tmp_path / "empty.zip")


def test_files_of_other_programs_are_called_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for content, message in (
        (b"\xd0\xcf\x11\xe0 old", "an old Excel file: open it in Excel and save it as .xlsx or CSV"),
        (pickle.dumps([1]), "a pickle: read it in Python and write it as CSV or Parquet"),
        (b'[{"a": 1}, 5]', "is JSON, but not a list of objects"),
        (b'[{"a": 1}', "cannot be read as JSON"),
        (b"PAR1 columns", r"a Parquet file: give it a name that ends in .parquet"),
        (b"<!DOCTYPE HTML><html>", "a web page: download the file that it shows"),
        (gzip.compress(b"SQLite format 3\0"), "an SQLite database"),
        (b"a,b\n\0\1\2", "is not text"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    with pytest.raises(ValueError, match=r"t.csv is a document of an office program: open it there"):
        read(path)


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a folder. Give the path of a CSV file"):
        find_text(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere.csv"):
        find_text(tmp_path / "nowhere.csv")


def test_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\0\1")
    with open_bytes(tmp_path / "t") as file:
        assert file.read() == b"\0\1"


BOMB = b"a,y\n" + b"1," * 2_000_000


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", data)
    return file.getvalue()


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "HARMLESS_BYTES", 1_000_000)


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zipped])
def test_a_file_made_to_fill_memory_is_refused_with_what_to_do(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "t.csv.gz").write_bytes(pack(BOMB))
    with pytest.raises(ValueError, match=r"t.csv.gz unpacks to more than 200 times its size.*unpack it yourself"):
        load_task(tmp_path / "t.csv.gz", target="y")


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize(("read", "part"), [(read_idx, b"\0"), (read_jsonl, b'{"a": 1}\n'), (read_json, b" ")])
def test_data_files_are_bounded_too(tmp_path: Path, read: Callable[[Path], object], part: bytes) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(2_000_000 // len(part) * part))
    with pytest.raises(ValueError, match="unpacks to more than 200 times its size"):
        read(tmp_path / "file.gz")


@pytest.mark.usefixtures("few_bytes")
def test_no_more_is_unpacked_than_may_be(tmp_path: Path) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(BOMB))
    with open_bytes(tmp_path / "file.gz") as file:
        assert sum(len(file.read(100_000)) for _ in range(9)) == 900_000
        with pytest.raises(ValueError, match="unpacks to more"):
            file.read(100_001)


def test_what_is_packed_as_usual_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(BOMB))  # much, but harmless
    assert find_text(tmp_path / "t.csv.gz").encoding == "utf-8"
    (tmp_path / "plain").write_bytes(BOMB)
    assert _read(tmp_path / "t.csv.gz") == _read(tmp_path / "plain") == BOMB
