"""Files that are whole or not there, that are files at all, and which process writes to a folder."""

import errno
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

NOT_FILES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
"""What can be opened, but is not a file to read: a pipe may keep its reader waiting for ever, a device never end."""
REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space there, or choose a folder on another disk."),
    errno.EDQUOT: ("your share of the disk is used up", "Delete what you no longer need, or choose another folder."),
    errno.EROFS: ("the disk cannot be written to", "Choose a folder on another disk."),
    errno.EACCES: ("you are not allowed to", "Choose a folder of your own, or ask for permission to write there."),
    errno.EPERM: ("you are not allowed to", "Choose a folder of your own, or ask for permission to write there."),
    errno.EFBIG: ("the file would be too large for this disk", "Choose a folder on another disk."),
    errno.EIO: ("the disk reports an error", "Check the disk, or choose a folder on another one."),
    errno.EISDIR: ("there is a folder of this name", "Choose another name."),
    errno.ENOTDIR: ("what stands before the last / is a file, not a folder", "Choose another folder."),
    errno.ENOENT: ("the folder does not exist", "Make it first, or choose another one."),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter one."),
}
"""Why a file cannot be written, and what to do about it."""
ARROW_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
CSV_FILE = "a CSV file with a header line"
LOCK, OWNER = ".training.lock", ".training.json"
"""In a folder that is written to: what is locked, and who holds it."""


class DamagedFile(ValueError):
    """A file does not hold what was once written."""


class CannotWrite(OSError):
    """A file could not be written; what was there before is still there."""


class InUse(ValueError):
    """Another process writes to a folder."""


# ----------------------------------------------------------------------------------------------------------------------
# Reading


def check_file(path: str | Path, wanted: str = "a file") -> None:
    """Raise ValueError for anything but a file: a folder, a pipe, a device. What does not exist is left to whoever
    opens it."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return
    except ValueError:  # a NUL inside
        raise ValueError(f"{str(path)!r} cannot be the name of a file.") from None
    for is_one, what in NOT_FILES:
        if is_one(mode):
            raise ValueError(f"{path} is {what}: give the path of {wanted}.")


def check_model(folder: Path) -> None:
    """Raise FileNotFoundError, with what to do, where there is no folder to load a model from."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no model folder {folder}. Train one with: pursuit train TASK_OR_CSV --out {folder}"
        )


def check_table(path: str) -> None:
    """Raise FileNotFoundError for the name of one file on this machine that is not there. What may be something else,
    such as a task, a pattern or a remote file, is left to whoever reads it."""
    if Path(path).suffix and not re.search(r"://|[*?[]", path) and not Path(path).exists():
        wanted = "a Parquet file, a folder of them, or a pattern" if path.lower().endswith(ARROW_ENDINGS) else CSV_FILE
        raise FileNotFoundError(f"There is no file {path}. Give the path of {wanted}.")


def read_bytes(path: Path, wanted: str = "a file") -> bytes:
    """All of a file; raises ValueError for what is not one."""
    check_file(path, wanted)
    return path.read_bytes()


def parse_json(text: str | bytes) -> Any:
    """The value that JSON text holds; raises ValueError for what is not JSON, or is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises ValueError for what is not one."""
    return parse_json(read_bytes(path).decode("utf-8"))


# ----------------------------------------------------------------------------------------------------------------------
# Writing


def write_pair(described: Path, data: bytes, description: Path, text: bytes) -> None:
    """Write a file and the description that has its checksum, so that a crash at any moment leaves either both old
    files or both new ones, for `read_described`: until the new description is there, the new data wait beside the
    old."""
    with explained(described), suppress(FileNotFoundError):  # described data may still wait after a crash
        if hashlib.sha256(waiting(described).read_bytes()).hexdigest().encode() in description.read_bytes():
            waiting(described).replace(described)
    write_whole(waiting(described), data)
    write_whole(description, text)
    with explained(described):
        waiting(described).replace(described)


def read_described(described: Path, sha256: str) -> bytes | None:
    """The file with this checksum; None if there is none but others, and FileNotFoundError if there is none at all."""
    found = None
    for path in (described, waiting(described), described):  # the last again: it may just have taken its place
        with suppress(FileNotFoundError):
            found = read_bytes(path)
            if hashlib.sha256(found).hexdigest() == sha256:
                return found
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(described))
    return None


def waiting(path: Path) -> Path:
    """The path that new data have until their description is written."""
    return path.with_name(f"{path.name}.new")


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a crash at any moment leaves either the old file or the new one."""
    with whole_file(path) as file:
        file.write(data)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes its place at `path` once all is written: a crash or an error at any moment leaves
    the old file, or none."""
    with explained(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_temporary_prefix(path))
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        if os.name == "posix":  # other systems cannot synchronise folders
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say which file could not be written, why, and what to do, where the system only gives a number."""
    try:
        yield
    except OSError as error:
        named = path if error.filename is None else Path(os.fsdecode(error.filename))
        is_other = not (named.parent == path.parent or path.is_relative_to(named))  # one that is read meanwhile
        if is_other or error.errno not in REASONS:  # or in words already
            raise
        raise CannotWrite(cannot_write(path, error)) from error


def cannot_write(path: str | Path, error: OSError) -> str:
    """Why a file cannot be written, and what to do, in a sentence or two."""
    why, advice = REASONS.get(error.errno or 0, (str(error.strerror or error), "Choose another folder."))
    return f"{path} cannot be written: {why}. {advice}"


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there."""
    try:
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CannotWrite(f"{folder} cannot be made: there is a file of this name. Choose another folder.") from None


def remove_torn(folder: Path, *names: str) -> None:
    """Remove what a process that was killed had begun to write in place of these files."""
    for name in names:
        for torn in folder.glob(f"{_temporary_prefix(Path(name))}*"):
            torn.unlink(missing_ok=True)


def _temporary_prefix(path: Path) -> str:
    return f".{path.name}."


def _umask() -> int:
    """The permissions that new files of this process lack; the only way to read them is to set them."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ----------------------------------------------------------------------------------------------------------------------
# One process at a time


def process_number() -> int:
    """The rank of this process among those that train together, from 0.

    Fabric's own helper reads the same variables, but importing Fabric takes seconds, and every command asks this.
    """
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))


def is_first() -> bool:
    """Whether this process is the one that reports and writes files."""
    return process_number() == 0


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make a folder and keep other processes from it; raises InUse, naming the process, if one is there already. May
    be nested, and ends with the process however that ends."""
    from filelock import FileLock, Timeout

    is_new = not folder.exists()
    make_folder(folder)
    lock = FileLock(folder.resolve() / LOCK, is_singleton=True, thread_local=False)
    is_ours = lock.is_locked
    try:
        with explained(folder / LOCK):
            lock.acquire(blocking=False)
    except Timeout:
        raise InUse(
            f"{folder} is in use by {_owner(folder)}, which is training there: wait until it is done, stop it, or "
            "choose another folder."
        ) from None
    try:
        if not is_ours:
            write_whole(folder / OWNER, json.dumps({"process": os.getpid(), "host": _host()}).encode())
        yield
    finally:
        if not is_ours:
            with suppress(OSError):  # some systems remove no file that is open
                (folder / OWNER).unlink(missing_ok=True)
                (folder / LOCK).unlink(missing_ok=True)
                if is_new and not holds_anything(folder):
                    folder.rmdir()
        lock.release()


def holds_anything(folder: Path) -> bool:
    """Whether there are files in a folder besides those that `claimed` leaves."""
    return folder.is_dir() and any(path.name not in (LOCK, OWNER) for path in folder.iterdir())


def _owner(folder: Path) -> str:
    """Who holds the lock of a folder, in words."""
    try:
        owner = read_json(folder / OWNER)
        return f"process {int(owner['process'])}" + (f" on {owner['host']}" if owner["host"] != _host() else "")
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
