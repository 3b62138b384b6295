"""Reading the file formats that data sets are published in, with nothing but numpy.

A damaged file raises a ValueError that names it.
"""

import gzip
import lzma
import math
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from pursuit.files import check_file, parse_json
from pursuit.tables.csv import unpacked

IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
CIFAR_IMAGE = (3, 32, 32)
CIFAR_CLASSES = {1: (10,), 2: (20, 100)}
"""The number of classes of each label, by the number of labels."""


def read_idx(path: str | Path) -> np.ndarray:
    """The array in an idx file, the format of MNIST and its relatives; plain or gz."""
    data = _read(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in IDX_TYPES:
        raise _damaged(path, "it does not start like an idx file")
    n_dimensions, start = data[3], 4 + 4 * data[3]
    if len(data) < start:
        raise _damaged(path, "it ends within its header")
    shape = [int(n) for n in np.frombuffer(data, ">u4", n_dimensions, offset=4)]
    dtype = np.dtype(IDX_TYPES[data[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise _damaged(path, f"it has {len(data)} bytes, but its header says {expected}")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_cifar(path: str | Path, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (N, 3, 32, 32) and labels int64 (N, n_labels) of the binary version of CIFAR.

    CIFAR-10 has one label; CIFAR-100 has a coarse and a fine one."""
    data, row = np.frombuffer(_read(path), np.uint8), n_labels + math.prod(CIFAR_IMAGE)
    if len(data) % row:
        raise _damaged(path, f"its {len(data)} bytes are not a whole number of rows of {row} bytes")
    labels, images = np.split(data.reshape(-1, row), [n_labels], axis=1)
    limits = np.array(CIFAR_CLASSES[n_labels])
    if (labels >= limits).any():
        raise _damaged(path, f"it has labels up to {labels.max(axis=0)}, but there are {limits} classes")
    return images.reshape(-1, *CIFAR_IMAGE), labels.astype(np.int64)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """The JSON objects in a file with one per line; plain, gz or xz."""
    rows = []
    with _naming_damage(path), _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if line := line.strip():
                row = _parsed(path, line, f"line {number}")
                if not isinstance(row, dict):
                    raise _damaged(path, f"line {number} is not a JSON object")
                rows.append(row)
    if not rows:
        raise _damaged(path, "it is empty")
    return rows


def read_json(path: str | Path) -> Any:
    """The value in a JSON file; plain, gz or xz."""
    return _parsed(path, _read(path), "its content")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text that are not empty; plain, gz or xz."""
    try:
        return [line.strip() for line in _read(path).decode("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise _damaged(path, f"it is not text ({error})") from None


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays in an npz file by name; nothing is unpickled."""
    check_file(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise _damaged(path, f"it is not an npz file of plain arrays ({error})") from None


def read_plain_pickle(path: str | Path) -> Any:
    """The value in a pickle of dictionaries, lists, sets, texts and numbers. One that names anything else is refused
    before it is called: a pickle can make a program run whatever it likes."""
    with _naming_damage(path), _opened(path) as file:
        try:
            return _ContainerUnpickler(file).load()
        except Exception as error:  # a damaged pickle can raise anything
            raise _damaged(path, f"it is not a pickle of plain values ({error})") from error


@contextmanager
def content_of(path: str | Path) -> Iterator[None]:
    """Report a file as damaged when something that is looked up in its content is not there."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise _damaged(path, f"it does not contain what is expected ({type(error).__name__}: {error})") from error


def _parsed(path: str | Path, text: bytes, what: str) -> Any:
    try:
        return parse_json(text.decode("utf-8"))
    except ValueError as error:  # text that is not UTF-8 is a ValueError too
        raise _damaged(path, f"{what} is not JSON ({error})") from None


def _damaged(path: str | Path, what: str) -> ValueError:
    return ValueError(
        f"{path} is damaged: {what}. Remove it: `pursuit data get` then fetches it again, or says where to get it."
    )


@contextmanager
def _naming_damage(path: str | Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise _damaged(path, str(error).rstrip(".")) from error


def _opened(path: str | Path) -> BinaryIO:
    """A file to read from, decompressed if it starts like gz or xz, whatever its name."""
    path = Path(path)
    check_file(path)
    with path.open("rb") as file:
        start = file.read(6)
    if start[:2] == b"\x1f\x8b":
        return unpacked(cast(BinaryIO, gzip.open(path)), path)
    return unpacked(cast(BinaryIO, lzma.open(path)), path) if start == b"\xfd7zXZ\0" else path.open("rb")


def _read(path: str | Path) -> bytes:
    with _naming_damage(path), _opened(path) as file:
        data = file.read()
    if not data:
        raise _damaged(path, "it is empty")
    return data


class _ContainerUnpickler(pickle.Unpickler):
    """Reads pickles that name nothing but containers, which old versions of the format do."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("builtins" | "__builtin__", "set"):
                return set
            case ("collections", "OrderedDict"):
                return OrderedDict
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data set needs")
