"""Data files of the tasks: found on the machine or fetched, checked, and read.

A file is looked for below `$PURSUIT_DATA`, then below the cache folder (`$PURSUIT_CACHE`, or the user's own). If it is
in neither, it is fetched into the cache from the site that publishes it. Where its checksum is known, a file that does
not have it is not read, unless `$PURSUIT_UNCHECKED` is 1.
"""

import gzip
import hashlib
import logging
import lzma
import math
import os
import pickle
import tarfile
import tempfile
import time
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from lzma import LZMAError
from pathlib import Path
from shutil import rmtree
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from pursuit.files import check_file, parse_json
from pursuit.version import __version__

OnProgress = Callable[[int, int | None], None]
"""Takes the number of bytes so far and in all; None in all if the server does not say."""
TRIES, TIMEOUT = 4, 30.0
"""Attempts at a transfer, and the seconds of silence after which it counts as failed."""
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
"""Statuses of a server that may answer properly a little later."""
UNCHECKED = "PURSUIT_UNCHECKED"
"""The variable that lets files be read whatever their checksums are."""
_good: set[tuple[str, int, int]] = set()
"""Path, size and time of the files that this process has found to be the published ones."""


class MissingData(FileNotFoundError):
    """A data file is not on the machine and cannot be fetched."""


@dataclass(frozen=True)
class DataFile:
    """A file a task reads, as it is published; or a folder, if an archive holds one."""

    path: str
    """Below the data folder, as in "mnist/train-images-idx3-ubyte.gz"."""
    md5: str = ""
    sha256: str = ""
    url: str = ""
    size: int = 0
    """In bytes, if known."""
    archive: "DataFile | None" = None
    """The tar file it is published in, which is unpacked into the folder that holds the tar file."""
    alternatives: tuple["DataFile", ...] = ()
    """Files of other layouts that serve as well: one that is on the machine is used before anything is fetched."""
    origin: str = ""
    """A sentence that says where to get a file that has no public address."""


class Found(NamedTuple):
    """A file that is on the machine: the one wanted, or one of its alternatives."""

    file: DataFile
    path: Path


def cache_folder() -> Path:
    """The folder that files are fetched into."""
    if named := os.environ.get("PURSUIT_CACHE"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("pursuit", appauthor=False))


def folders() -> dict[str, Path]:
    """The folders that files are looked for in, in order, by the variable that names them."""
    own = os.environ.get("PURSUIT_DATA")
    cache = "$PURSUIT_CACHE" if os.environ.get("PURSUIT_CACHE") else "cache"
    return ({"$PURSUIT_DATA": Path(own).expanduser().absolute()} if own else {}) | {cache: cache_folder()}


def locate(file: DataFile) -> Found | None:
    """The file, or else an alternative, if it is on the machine; nothing is fetched or checked."""
    for choice in (file, *file.alternatives):
        for folder in folders().values():
            if (folder / choice.path).exists():
                return Found(choice, folder / choice.path)
    return None


def find(file: DataFile, task: str = "TASK", on_progress: OnProgress | None = None) -> Path:
    """The path of a file, or of an alternative that is on the machine; the file is fetched if neither is.

    Either is checked, as `damage` does: a changed file would give figures that look like any others. Raises ValueError
    if it is not the published one, and MissingData, with advice that names `task`, if there is none.
    """
    if found := locate(file):
        _refuse_changed(found, file.origin, task)
        return found.path
    failures = []
    for choice in (file, *file.alternatives):
        if _is_available(choice):
            try:
                return _fetch(choice, on_progress)
            except DownloadFailed as error:
                failures.append(str(error))
    raise MissingData(_missing(file, task, failures))


def get(file: DataFile, task: str = "TASK", on_progress: OnProgress | None = None) -> Path:
    """As `find`, but a file that is there is checked too, and fetched again if the copy in the cache is damaged."""
    found = locate(file)
    if found and (wrong := damage(*found)):
        if not _is_available(found.file):
            origin = found.file.origin or file.origin
            raise ValueError(f"{found.path} is damaged: {wrong}. Replace it. {origin}".rstrip())
        if not found.path.is_relative_to(cache_folder()):
            raise ValueError(f"{found.path} is damaged: {wrong}. Replace it, or remove it so that it is fetched.")
        found.path.rmdir() if found.path.is_dir() else found.path.unlink()
    return find(file, task, on_progress)


def _refuse_changed(found: Found, origin: str, task: str) -> None:
    """Raise ValueError for a file that is not the published one. Hashing takes about a second for a gigabyte: within a
    process, a file of the same size and time is not read again."""
    status = found.path.stat()
    seen = str(found.path), status.st_size, status.st_mtime_ns
    if seen in _good:
        return
    wrong = damage(*found)
    if not wrong:
        _good.add(seen)
    elif os.environ.get(UNCHECKED) == "1":
        warnings.warn(f"{found.path} is not the published file ({wrong}), and is used all the same.", stacklevel=3)
    else:
        how = f"by `pursuit data get {task}`" if _is_available(found.file) else "yourself"
        advice = f"Replace it {how}, or set {UNCHECKED}=1 to use it as it is. {found.file.origin or origin}".rstrip()
        raise ValueError(
            f"{found.path} is not the published file: {wrong}. It was changed or is damaged, and figures from it would "
            f"mean nothing. {advice}"
        )


def damage(file: DataFile, path: Path) -> str:
    """The damage of a file in words, or "" if it is good. A folder is only checked not to be empty."""
    if path.is_dir():
        return "" if any(path.iterdir()) else "it is empty"
    if not path.is_file():
        return "it is not a file"
    size = path.stat().st_size
    if size == 0:
        return "it is empty"
    if file.size and size != file.size:
        return f"it has {size} bytes, not {file.size}"
    return wrong_checksum(path, file.md5, file.sha256)


class DownloadFailed(OSError):
    """A file could not be fetched."""


def download(
    url: str,
    to: Path,
    md5: str = "",
    sha256: str = "",
    on_progress: OnProgress | None = None,
    *,
    pause: Callable[[float], None] = time.sleep,
    timeout: float = TIMEOUT,
) -> None:
    """Fetch `url` into the file `to`, unless it is there with the right checksum; it is put in place when it is whole
    and its checksum is right. If several processes want the same file, one fetches it and the others wait."""
    if not url.startswith(("http://", "https://")):
        raise DownloadFailed(f"'{url}' cannot be fetched: an address must begin with http:// or https://.")
    known_hash = f"sha256:{sha256}" if sha256 else f"md5:{md5}" if md5 else None
    with locked(to):
        for failures in range(TRIES):
            try:
                _retrieve(url, to, known_hash, on_progress, timeout)
                return
            except _Temporary as error:
                if failures == TRIES - 1:
                    raise DownloadFailed(f"{url} cannot be fetched: {error}.") from error
                pause(2.0**failures)


class _Temporary(Exception):
    """A transfer that may work when tried again."""


def _retrieve(url: str, to: Path, known_hash: str | None, on_progress: OnProgress | None, timeout: float) -> None:
    """Fetch a file once, by pooch."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.ERROR)
    # An encoding for the transfer would be undone on the way, and progress counted in other bytes.
    headers = {"User-Agent": f"pursuit/{__version__}", "Accept-Encoding": "identity"}
    bar = _Progress(on_progress) if on_progress else False
    downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=timeout, headers=headers)
    try:
        pooch.retrieve(url, known_hash, to.name, to.parent, downloader=downloader)
    except requests.HTTPError as error:
        status = getattr(error.response, "status_code", 0)
        answer = f"the server answers {status} {getattr(error.response, 'reason', '')}"
        if status in TEMPORARY:
            raise _Temporary(answer) from error
        raise DownloadFailed(f"{url} cannot be fetched: {answer}. The file may have moved.") from error
    except requests.Timeout as error:
        raise _Temporary("the server does not answer in time") from error
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
        raise _Temporary(_reason(error)) from error
    except requests.RequestException as error:  # an address with spaces, or a port that is not a number
        raise DownloadFailed(f"'{url}' cannot be fetched: {error}") from error
    except ValueError as error:
        raise DownloadFailed(f"{url} sends another file than expected: {error}") from error
    except OSError as error:
        raise DownloadFailed(f"{to} cannot be written: {error.strerror or error}.") from error


def _reason(error: Exception) -> str:
    """Why a connection failed, without the names of the objects that report it."""
    inner = error.args[0] if error.args else type(error).__name__
    return str(getattr(inner, "reason", inner)).split("): ", 1)[-1]


class _Progress:
    """A progress bar as pooch takes it, which passes the numbers on."""

    def __init__(self, on_progress: OnProgress):
        self.on_progress, self.total, self.done = on_progress, 0, 0

    def update(self, n_bytes: int) -> None:
        self.done += n_bytes
        self.on_progress(min(self.done, self.total or self.done), self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        return


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` among processes, and make its folder; a process that dies releases its locks."""
    from filelock import FileLock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        lock.acquire()
    except OSError as error:
        raise DownloadFailed(
            f"{path.parent} cannot be written: {error.strerror or error}. Name another folder in $PURSUIT_CACHE."
        ) from error
    try:
        yield
    finally:
        lock.release()


def wrong_checksum(path: Path, md5: str = "", sha256: str = "") -> str:
    """The checksum of a file that is wrong, in words, or ""; a checksum that is not given is not checked."""
    for algorithm, wanted in (("sha256", sha256), ("md5", md5)):
        if wanted:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, partial(hashlib.new, algorithm, usedforsecurity=False)).hexdigest()
            if found != wanted.lower():
                return f"its {algorithm} is {found}, not {wanted.lower()}"
    return ""


def unpack(archive: Path, into: Path) -> None:
    """Unpack the files and folders of a tar file into a folder; each file is then there whole or not at all.

    Only one process at a time may unpack into a folder.
    """
    with _temporary_folder(into) as temporary:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter=_files_and_folders)
        except tarfile.FilterError as error:
            raise ValueError(f"{archive} cannot be trusted: {error}.") from error
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, LZMAError) as error:
            raise ValueError(f"{archive} is damaged: {error}.") from error
        _move_content(temporary, into)


def _files_and_folders(member: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
    # Links are left out, unlike by Python's filter: data sets need none, and links have been a way round that filter.
    return tarfile.data_filter(member, into) if member.isreg() or member.isdir() else None


def _is_available(file: DataFile) -> bool:
    """Whether there is something to fetch or to unpack."""
    return bool(file.url or (file.archive and (file.archive.url or locate(file.archive))))


def is_published(file: DataFile) -> bool:
    """Whether the file, or an alternative, has a public address that it is fetched from."""
    return any(bool(one.url or (one.archive and one.archive.url)) for one in (file, *file.alternatives))


def _fetch(file: DataFile, on_progress: OnProgress | None) -> Path:
    to = cache_folder() / file.path
    if file.archive is None:
        download(file.url, to, file.md5, file.sha256, on_progress)
        return to
    with locked(_folder_of(file.archive) / "unpacking"):
        if not to.exists():  # another process may have been quicker
            _unpack_published(file.archive, on_progress)
        if not to.exists():
            raise DownloadFailed(f"{file.archive.path} does not contain {file.path}.")
    return to


def _folder_of(archive: DataFile) -> Path:
    return (cache_folder() / archive.path).parent


def _unpack_published(archive: DataFile, on_progress: OnProgress | None) -> None:
    """Unpack an archive into the cache; it is fetched if there is no good copy of it on the machine."""
    found = locate(archive)
    wrong = damage(*found) if found else "it is not there"
    if wrong and not archive.url:
        raise DownloadFailed(f"{archive.path} cannot be unpacked: {wrong}.")
    path = found.path if found and not wrong else _fetch(archive, on_progress)
    in_cache = path.is_relative_to(cache_folder())
    try:
        unpack(path, _folder_of(archive))
    except ValueError as error:
        if in_cache:
            path.unlink()
        raise DownloadFailed(str(error)) from error
    except OSError as error:
        raise DownloadFailed(f"{path} cannot be unpacked: {error.strerror or error}.") from error
    if in_cache:
        path.unlink()  # all of its content is beside it now


@contextmanager
def _temporary_folder(parent: Path) -> Iterator[Path]:
    """A folder inside `parent`, and so on the same disk: files can be renamed from one into the other."""
    parent.mkdir(parents=True, exist_ok=True)
    for abandoned in parent.glob(".unpacking-*"):  # by a process that was killed
        rmtree(abandoned, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=parent))
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def _move_content(source: Path, target: Path) -> None:
    """Move the content of `source` to `target`; existing folders are merged."""
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if entry.is_dir() and place.is_dir():
            _move_content(entry, place)
        else:
            entry.replace(place)


def _missing(file: DataFile, task: str, failures: list[str]) -> str:
    looked_in = " or ".join(str(folder) for folder in folders().values())
    command = f"`pursuit data get {task}`"
    why = [*failures, f"To try again: {command}."] if failures else ["It has no public address."]
    advice = [*why, file.origin, *([] if failures else [f"{command} checks it."])]
    return f"There is no {file.path} below {looked_in}. {' '.join(filter(None, advice))}"


# ----------------------------------------------------------------------------------------------------------------------
# Reading the file formats that data sets are published in, with nothing but numpy.
#
# A damaged file raises a ValueError that names it.


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
    from pursuit.tables.csv import unpacked  # which imports pandas: `pursuit tasks` looks for files only

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
