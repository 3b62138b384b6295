"""Fetching a file: resumed where the connection broke, checked, and put in its place only if it is good."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pursuit.version import __version__

OnProgress = Callable[[int, int | None], None]
"""Takes the number of bytes so far and in all; None in all if the server does not say."""

TRIES = 4
"""How often in a row a transfer may fail without new bytes."""
TIMEOUT = 30.0
"""Seconds of silence after which a transfer counts as failed."""
CHUNK = 1 << 16
_TEMPORARY = {408, 425, 429, 500, 502, 503, 504}
"""Statuses of a server that may answer properly a little later."""


class DownloadFailed(OSError):
    """A file could not be fetched."""


class _BrokenOff(Exception):
    """A transfer that may work when tried again."""


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
    """Fetch `url` into the file `to`, unless it is there with the right checksums.

    What arrives is kept in `NAME.part`, and a later call continues from there. If several processes want the same file,
    one fetches it and the others wait.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise DownloadFailed(f"'{url}' cannot be fetched: an address must begin with http:// or https://.")
    with locked(to):
        if to.exists() and not wrong_checksum(to, md5, sha256):
            return
        transfer = _Transfer(url, to.with_name(f"{to.name}.part"), timeout, on_progress)
        try:
            if not (md5 or sha256):  # nothing would show that an old part belongs to another version of the file
                transfer.part.unlink(missing_ok=True)
            transfer.run(pause)
            if transfer.resumed and wrong_checksum(transfer.part, md5, sha256):
                transfer.start_again()  # the file may have changed since its first part was fetched
                transfer.run(pause)
            if wrong := wrong_checksum(transfer.part, md5, sha256):
                transfer.part.unlink()
                raise DownloadFailed(f"{url} sends another file than expected: {wrong}.")
            transfer.part.replace(to)
        except DownloadFailed:
            raise
        except OSError as error:
            raise DownloadFailed(f"{transfer.part} cannot be written: {error.strerror or error}.") from error


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
    """What is wrong with the checksums of a file, or "" if nothing is; a checksum that is not given is not checked."""
    for algorithm, wanted in (("sha256", sha256), ("md5", md5)):
        if wanted:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, partial(hashlib.new, algorithm, usedforsecurity=False)).hexdigest()
            if found != wanted.lower():
                return f"its {algorithm} is {found}, not {wanted.lower()}"
    return ""


@dataclass
class _Transfer:
    """One file on its way into `part`."""

    url: str
    part: Path
    timeout: float
    on_progress: OnProgress | None
    resumed: bool = False
    """Whether `part` may be put together from several responses of the server."""
    version: str = ""
    """The server's name for the version it began to send, if it says."""

    def start_again(self) -> None:
        self.part.unlink(missing_ok=True)
        self.resumed, self.version = False, ""

    def run(self, pause: Callable[[float], None]) -> None:
        """Try until the whole file is there, or until it has failed `TRIES` times in a row without new bytes."""
        failures, furthest = 0, 0
        while True:
            try:
                return self._try_once()
            except _BrokenOff as error:
                so_far = self._size()
                failures = failures + 1 if so_far <= furthest else 1
                furthest = max(furthest, so_far)
                if failures == TRIES:
                    kept = " What has arrived is kept for the next try." if so_far else ""
                    raise DownloadFailed(f"{self.url} cannot be fetched: {error}.{kept}") from error
                pause(2.0 ** (failures - 1))

    def _size(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _try_once(self) -> None:
        start = self._size()
        with self._opened(start) as response:
            if response.status == 416:
                self._settle(start, response)
                return
            if start and response.status == 206:
                if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                    self.start_again()
                    raise _BrokenOff("the server sent another part than requested")
                self.resumed = True
            else:  # the whole file: nothing was there, the server cannot resume, or the file has changed
                start, self.resumed = 0, False
            self.version = _version(response)
            self._receive(response, start)

    def _opened(self, start: int) -> http.client.HTTPResponse:
        """The server's response to a request for what follows the first `start` bytes."""
        headers = {"User-Agent": f"pursuit/{__version__}", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if self.version:
                headers["If-Range"] = self.version
        try:
            return urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=self.timeout)
        except urllib.error.HTTPError as error:
            if error.code == 416 and start:
                return error  # type: ignore[return-value]  # a response like any other
            answer = f"the server answers {error.code} {error.reason}".rstrip()
            error.close()
            if error.code in _TEMPORARY:
                raise _BrokenOff(answer) from error
            raise DownloadFailed(f"{self.url} cannot be fetched: {answer}. The file may have moved.") from error
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenOff(_reason(error)) from error
        except ValueError as error:  # an address with spaces, or a port that is not a number
            raise DownloadFailed(f"'{self.url}' cannot be fetched: {error}.") from error

    def _settle(self, start: int, response: http.client.HTTPResponse) -> None:
        """The server has no more than the bytes that are there: either they are the whole file, or they are wrong."""
        self.resumed = True
        if response.headers.get("Content-Range", "").removeprefix("bytes */") != str(start):
            self.start_again()
            raise _BrokenOff("the file on the server is shorter than what was fetched of it")

    def _receive(self, response: http.client.HTTPResponse, start: int) -> None:
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        done = start
        with self.part.open("ab" if start else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                done += len(chunk)
                if self.on_progress:
                    self.on_progress(done, total)
            file.flush()
            os.fsync(file.fileno())
        if total is not None and done != total:
            raise _BrokenOff(f"the connection ended after {done} of {total} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    """The next bytes; only errors of the connection count as broken off, not those of the disk."""
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOff(_reason(error)) from error


def _version(response: http.client.HTTPResponse) -> str:
    """A name by which the server knows whether the file has changed; weak tags do not cover every byte."""
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


def _reason(error: Exception) -> str:
    """What went wrong with a connection, in words."""
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "the server does not answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended too early"
    return (getattr(reason, "strerror", None) or str(reason) or type(reason).__name__).rstrip(".")
