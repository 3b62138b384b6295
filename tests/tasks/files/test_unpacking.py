"""Files that unpack to far more than they are."""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pursuit.tasks import load_task
from pursuit.tasks.files import read_idx, read_json, read_jsonl, unpacking
from pursuit.tasks.files.readers import _read
from pursuit.tasks.files.text import find_text, open_bytes

BOMB = b"a,y\n" + b"1," * 2_000_000


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("table.csv", data)
    return file.getvalue()


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "HARMLESS_BYTES", 1_000_000)


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zipped])
def test_a_file_made_to_fill_memory_is_refused_with_what_to_do(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "t.csv.gz").write_bytes(pack(BOMB))
    with pytest.raises(ValueError, match=r"t.csv.gz unpacks to more than 200 times its size.*unpack it yourself"):
        load_task(tmp_path / "t.csv.gz", target="y")


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize(("read", "part"), [(read_idx, b"\0"), (read_jsonl, b'{"a": 1}\n'), (read_json, b" ")])
def test_data_files_are_bounded_too(tmp_path: Path, read: Callable[[Path], object], part: bytes) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(2_000_000 * part))
    with pytest.raises(ValueError, match="unpacks to more than 200 times its size"):
        read(tmp_path / "file.gz")


@pytest.mark.usefixtures("few_bytes")
def test_no_more_is_unpacked_than_may_be(tmp_path: Path) -> None:
    (tmp_path / "file.gz").write_bytes(gzip.compress(BOMB))
    with open_bytes(tmp_path / "file.gz") as file:
        assert sum(len(file.read(100_000)) for _ in range(10)) == 1_000_000
        with pytest.raises(ValueError, match="unpacks to more"):
            file.read(1)


def test_what_is_packed_as_usual_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(BOMB))  # much, but harmless
    assert find_text(tmp_path / "t.csv.gz").encoding == "utf-8"
    (tmp_path / "plain").write_bytes(BOMB)
    assert _read(tmp_path / "t.csv.gz") == _read(tmp_path / "plain") == BOMB
