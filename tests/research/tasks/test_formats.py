"""Reading what data sets are published in: made files, damaged and hostile ones, and the real ones where present."""

import gzip
import hashlib
import json
import lzma
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pursuit.research.tasks.files import (
    read_cifar,
    read_idx,
    read_json,
    read_jsonl,
    read_npz,
)

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array: np.ndarray) -> bytes:
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@given(
    array=st.sampled_from(sorted(CODES)).flatmap(
        lambda kind: arrays.arrays(kind, arrays.array_shapes(max_dims=4, max_side=5))
    ),
    packed=st.sampled_from([bytes, gzip.compress]),
)
def test_idx_round_trip(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, packed: Callable[[bytes], bytes]
) -> None:
    path = tmp_path_factory.mktemp("idx") / "array"
    path.write_bytes(packed(idx(array)))
    read = read_idx(path)
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype
    assert read.flags.writeable


GOOD_IDX = idx(np.arange(24, dtype="u1").reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"\0", "start like an idx file"),
        (b"<html>not found</html>", "start like an idx file"),
        (b"\0\0\x07\x01\0\0\0\0", "start like an idx file"),
        (GOOD_IDX[:9], "ends within its header"),
        (GOOD_IDX[:-1], "has 39 bytes, but its header says 40"),
        (GOOD_IDX + b"\0", "has 41 bytes"),
        (b"\0\0\x0e\x03" + b"\xff" * 12, "its header says"),
        (gzip.compress(GOOD_IDX, mtime=0)[:-4], "ended before the end-of-stream"),
        (gzip.compress(GOOD_IDX, mtime=0)[:-8] + b"\0" * 8, "CRC"),
        (gzip.compress(GOOD_IDX, mtime=0)[:12], "ended before the end-of-stream"),
        (gzip.compress(b"", mtime=0), "it is empty"),
    ],
)
def test_damaged_idx(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert "pursuit data get" in str(caught.value)


@given(content=st.binary(max_size=60), start=st.sampled_from([b"", b"\0\0\x08\x01", b"\x1f\x8b\x08\0", b"\xfd7zXZ\0"]))
@pytest.mark.parametrize("read", [read_idx, lambda path: read_cifar(path, 2), read_jsonl, read_json])
def test_garbage_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, read: Callable[[Path], Any], content: bytes, start: bytes
) -> None:
    path = tmp_path_factory.mktemp("garbage") / "file"
    path.write_bytes(start + content)
    message = str(path)
    try:
        read(path)
    except ValueError as error:
        message = str(error)
    assert str(path) in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for read in (read_idx, read_json, read_jsonl):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nothing")


def cifar_rows(n_rows: int, limits: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    randomness = np.random.default_rng(seed)
    images = randomness.integers(0, 256, (n_rows, 3, 32, 32), dtype=np.uint8)
    return images, randomness.integers(0, limits, (n_rows, len(limits)))


def write_binary(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    path.write_bytes(np.concatenate([labels.astype(np.uint8), images.reshape(len(images), -1)], axis=1).tobytes())
    return path


@pytest.mark.parametrize("limits", [(10,), (20, 100)])
def test_cifar_binary(tmp_path: Path, limits: tuple[int, ...]) -> None:
    written = cifar_rows(4, limits)
    images, labels = read_cifar(write_binary(tmp_path / "a.bin", *written), len(limits))
    np.testing.assert_array_equal(images, written[0])
    np.testing.assert_array_equal(labels, written[1])
    assert images.shape == (4, 3, 32, 32)
    assert (images.dtype, labels.dtype) == (np.uint8, np.int64)


def test_damaged_cifar_binary(tmp_path: Path) -> None:
    path = write_binary(tmp_path / "a.bin", *cifar_rows(3, (10,)))
    with pytest.raises(ValueError, match=r"a.bin is damaged: its 9219 bytes are not a whole number of rows"):
        read_cifar(path, 2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="whole number of rows"):
        read_cifar(path, 1)
    images, labels = cifar_rows(3, (10,))
    write_binary(path, images, labels + 10)
    with pytest.raises(ValueError, match=r"labels up to \[1\d\], but there are \[10\] classes"):
        read_cifar(path, 1)


@pytest.mark.parametrize("packed", [bytes, gzip.compress, lzma.compress])
def test_json_plain_or_packed(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    rows = [{"text": "Größe 大小\u2028", "n": i} for i in range(3)]
    (tmp_path / "rows").write_bytes(packed("\n".join(json.dumps(row) for row in rows).encode() + b"\n\n"))
    assert read_jsonl(tmp_path / "rows") == rows
    (tmp_path / "value").write_bytes(packed(json.dumps(rows, ensure_ascii=False).encode()))
    assert read_json(tmp_path / "value") == rows


def test_lines_end_with_newlines_alone(tmp_path: Path) -> None:
    """Other signs that some take for ends of lines may stand in a text."""
    (tmp_path / "rows").write_bytes('{"text": "a\u2028b\u0085c"}\r\n{"text": "d"}'.encode())
    assert [row["text"] for row in read_jsonl(tmp_path / "rows")] == ["a\u2028b\u0085c", "d"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b'{"a": 1}\n{"a": ', "line 2 is not JSON"),
        (b'{"a": 1}\n[1]\n', "line 2 is not a JSON object"),
        (b'{"a": "\xff"}\n', "line 1 is not JSON"),
        (lzma.compress(b'{"a": 1}\n' * 99)[:-9], "ended before"),
        (gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-9], "ended before"),
    ],
)
def test_damaged_jsonl(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "rows").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_jsonl(tmp_path / "rows")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", gzip.compress(b"{}", mtime=0)[:-3], b"[" * 100_000])
def test_damaged_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "value").write_bytes(content)
    with pytest.raises(ValueError, match=r"value is damaged.*pursuit data get"):
        read_json(tmp_path / "value")


def real(name: str) -> Path:
    """A real data file, or the test is left out."""
    folder = os.environ.get("PURSUIT_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not below $PURSUIT_DATA")
    return Path(folder) / name


OFFICIAL_MD5 = {
    "mnist/train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "mnist/train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "mnist/t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "mnist/t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    "fashion-mnist/train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "fashion-mnist/train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "fashion-mnist/t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "fashion-mnist/t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    "kmnist/train-images-idx3-ubyte.gz": "bdb82020997e1d708af4cf47b453dcf7",
    "kmnist/train-labels-idx1-ubyte.gz": "e144d726b3acfaa3e44228e80efcd344",
    "kmnist/t10k-images-idx3-ubyte.gz": "5c965bf0a639b31b8f53240b1b52f4d7",
    "kmnist/t10k-labels-idx1-ubyte.gz": "7320c461ea6c1c855c0b718fb2a4b134",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFICIAL_MD5)
def test_real_idx_files(name: str) -> None:
    path = real(name)
    assert hashlib.md5(path.read_bytes()).hexdigest() == OFFICIAL_MD5[name]
    array = read_idx(path)
    n_rows = 60_000 if "train" in name else 10_000
    assert array.dtype == np.uint8
    if "images" in name:
        assert array.shape == (n_rows, 28, 28)
        assert (array.min(), array.max()) == (0, 255)
        return
    assert array.shape == (n_rows,)
    counts = np.bincount(array)
    assert len(counts) == 10
    if name.startswith("mnist"):
        first_and_last = (5923, 5949) if "train" in name else (980, 1009)
        assert (counts[0], counts[9]) == first_and_last
    else:
        assert (counts == n_rows // 10).all(), "Fashion-MNIST and KMNIST have as many of every class"


def test_real_cifar_10() -> None:
    path = real("cifar10/cifar-10-batches-bin/test_batch.bin")
    images, labels = read_cifar(path, 1)
    assert images.shape == (10_000, 3, 32, 32)
    assert (np.bincount(labels[:, 0]) == 1000).all()


@pytest.mark.slow
def test_real_news() -> None:
    rows = read_jsonl(real("huffpost/huffpost_v3.jsonl.xz"))
    assert len(rows) == 209_527
    assert {"headline", "short_description", "category", "date"} <= rows[0].keys()


@pytest.mark.parametrize("name", ["muzhi/muzhi.json.gz", "dxy/dxy.json.gz", "symcat/symcat_names.json"])
def test_real_json(name: str) -> None:
    assert isinstance(read_json(real(name)), dict)


def test_npz_files_are_read_without_pickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", a=np.arange(3), b=np.array(["x"]))
    read = read_npz(tmp_path / "good.npz")
    assert {name: array.tolist() for name, array in read.items()} == {"a": [0, 1, 2], "b": ["x"]}
    whole = (tmp_path / "good.npz").read_bytes()
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "single.npy", np.arange(3))
    for name, content in {"cut.npz": whole[:-30], "empty.npz": b"", "text.npz": b"text"}.items():
        (tmp_path / name).write_bytes(content)
    for name in ("pickled.npz", "single.npy", "cut.npz", "empty.npz", "text.npz"):
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            read_npz(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "none.npz")


def test_archives_of_a_version_that_nobody_knows_are_damaged(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 6] = 255  # the version needed to unpack it
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.npz is damaged: it is not an npz file of plain arrays"):
        read_npz(tmp_path / "a.npz")
