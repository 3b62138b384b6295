"""Data files of the tasks: where they are looked for, what they must be, and how they get there.

A file is looked for below `$PURSUIT_DATA`, then below the cache folder (`$PURSUIT_CACHE`, or the user's own). Where it
is in neither, it is fetched into the cache from the site that publishes it.
"""

import gzip
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from shutil import copyfileobj, rmtree
from typing import NamedTuple

from pursuit.tasks.download import DownloadFailed, OnProgress, download, locked, wrong_checksum


class MissingData(FileNotFoundError):
    """A data file is not on the machine and cannot be fetched."""


@dataclass(frozen=True)
class DataFile:
    """A file a task reads, as its publisher offers it. It may be a folder, where an archive holds one."""

    path: str
    """Below the data folder, as in "mnist/train-images-idx3-ubyte.gz"."""
    md5: str = ""
    sha256: str = ""
    url: str = ""
    size: int = 0
    """In bytes, where known."""
    archive: "DataFile | None" = None
    """The tar file it is published in, which is unpacked into the folder of its own path."""
    alternatives: tuple["DataFile", ...] = ()
    """Files of other layouts that serve as well: one that is on the machine is taken before anything is fetched."""
    origin: str = ""
    """A sentence on where to get the file, for those without an address that anyone may fetch."""


class Found(NamedTuple):
    """A file that is on the machine: what was wanted, or one of its alternatives."""

    file: DataFile
    path: Path


def cache_folder() -> Path:
    """Where fetched files are kept."""
    if named := os.environ.get("PURSUIT_CACHE"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("pursuit", appauthor=False))


def folders() -> dict[str, Path]:
    """The folders that files are looked for in, in order, by what names them."""
    own = os.environ.get("PURSUIT_DATA")
    cache = "$PURSUIT_CACHE" if os.environ.get("PURSUIT_CACHE") else "cache"
    return ({"$PURSUIT_DATA": Path(own).expanduser().absolute()} if own else {}) | {cache: cache_folder()}


def locate(file: DataFile) -> Found | None:
    """The file where it is on the machine, or an alternative that is; nothing is fetched or checked."""
    for choice in (file, *file.alternatives):
        for folder in folders().values():
            if (folder / choice.path).exists():
                return Found(choice, folder / choice.path)
    return None


def find(file: DataFile, task: str = "TASK", on_progress: OnProgress | None = None) -> Path:
    """The path of a file, or of an alternative that is on the machine already; it is fetched where neither is.

    What is fetched is checked then, and what is there is taken as it is: `damage` checks. Raises MissingData, which
    names `task` in what it advises.
    """
    if found := locate(file):
        return found.path
    failures = []
    for choice in (file, *file.alternatives):
        if _can_be_had(choice):
            try:
                return _fetch(choice, on_progress)
            except DownloadFailed as error:
                failures.append(str(error))
    raise MissingData(_missing(file, task, failures))


def get(file: DataFile, task: str = "TASK", on_progress: OnProgress | None = None) -> Path:
    """As `find`, but what is there is checked too, and fetched anew where the copy in the cache is damaged."""
    found = locate(file)
    if found and (wrong := damage(*found)):
        if not _can_be_had(found.file):
            origin = found.file.origin or file.origin
            raise ValueError(f"{found.path} is damaged: {wrong}. Replace it. {origin}".rstrip())
        if not found.path.is_relative_to(cache_folder()):
            raise ValueError(f"{found.path} is damaged: {wrong}. Replace it, or remove it to have it fetched.")
        found.path.rmdir() if found.path.is_dir() else found.path.unlink()
    return find(file, task, on_progress)


def damage(file: DataFile, path: Path) -> str:
    """What is wrong with a file that is there, or nothing. Of a folder only that it is not empty can be said."""
    if path.is_dir():
        return "" if any(path.iterdir()) else "it is empty"
    size = path.stat().st_size
    if size == 0:
        return "it is empty"
    if file.size and size != file.size:
        return f"it has {size} bytes and not {file.size}"
    return wrong_checksum(path, file.md5, file.sha256)


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar file into a folder, one process at a time; every file of it is there whole or not at all.

    Files and folders are unpacked and nothing else: links and devices are left out, and a name that leads out of the
    folder is refused.
    """
    with _temporary_folder(into) as temporary:
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    _extract(tar, member, temporary)
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, LZMAError) as error:
            raise ValueError(f"{archive} is damaged: {error}.") from error
        _move_content(temporary, into)


def _can_be_had(file: DataFile) -> bool:
    """Whether there is something to fetch, or to unpack."""
    return bool(file.url or (file.archive and (file.archive.url or locate(file.archive))))


def _fetch(file: DataFile, on_progress: OnProgress | None) -> Path:
    to = cache_folder() / file.path
    if file.archive is None:
        download(file.url, to, file.md5, file.sha256, on_progress)
        return to
    with locked(_folder_of(file.archive) / "unpacking"):
        if not to.exists():  # another process may have been quicker
            _unpack_published(file.archive, on_progress)
        if not to.exists():
            raise DownloadFailed(f"{file.archive.path} holds no {file.path}.")
    return to


def _folder_of(archive: DataFile) -> Path:
    return (cache_folder() / archive.path).parent


def _unpack_published(archive: DataFile, on_progress: OnProgress | None) -> None:
    """Unpack an archive into the cache, fetched where no good copy of it is on the machine."""
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
        path.unlink()  # all of it lies beside it now


@contextmanager
def _temporary_folder(beside: Path) -> Iterator[Path]:
    """A folder on the same disk as `beside`, so that files can be renamed from one into the other."""
    beside.mkdir(parents=True, exist_ok=True)
    for torn in beside.glob(".unpacking-*"):  # of a process that was killed
        rmtree(torn, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=beside))
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or any(sign in member.name for sign in "\\:\0"):
        raise ValueError(f"{tar.name!s} is not to be trusted: '{member.name}' in it leads out of its folder.")
    if member.isdir():
        (into / name).mkdir(parents=True, exist_ok=True)
    elif member.isreg():
        content = tar.extractfile(member)
        assert content is not None  # only links and devices have none
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        with content, (into / name).open("wb") as file:
            copyfileobj(content, file)


def _move_content(source: Path, target: Path) -> None:
    """Rename what is in `source` into `target`; where a folder is there already, what is in it one by one."""
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if entry.is_dir() and place.is_dir():
            _move_content(entry, place)
        else:
            entry.replace(place)


def _missing(file: DataFile, task: str, failures: list[str]) -> str:
    looked_in = " or ".join(str(folder) for folder in folders().values())
    names = " or ".join(choice.path for choice in (file, *file.alternatives))
    command = f"`pursuit data get {task}`"
    if failures:
        advice = f"{' '.join(failures)} The command to try again: {command}."
    else:
        advice = f"It has no address to fetch it from: put it there yourself, and {command} will check it."
    return f"There is no {names} below {looked_in}. {advice} {file.origin}".rstrip()
