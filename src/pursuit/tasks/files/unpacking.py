"""Files that are unpacked while they are read, but not if they were made to fill a machine's memory."""

import io
from pathlib import Path
from typing import Any, BinaryIO, cast

MOST_TIMES, HARMLESS_BYTES = 200, 1 << 28
"""How many times its size a file may unpack to, unless that is still harmless: tables pack to a tenth or a fiftieth of
their size, a file of nothing but zeros to a thousandth."""


def unpacked(content: BinaryIO, path: Path) -> BinaryIO:
    """What is unpacked from the file at `path`, to be read from its beginning; raises ValueError once that is far more
    than any table packs to."""
    return cast(BinaryIO, _Unpacked(content, path))


class _Unpacked(io.BufferedIOBase):
    def __init__(self, content: BinaryIO, path: Path):
        self._content, self._path, self._n_read = content, path, 0
        self._most = max(HARMLESS_BYTES, MOST_TIMES * path.stat().st_size)

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._most - self._n_read + 1 if size is None or size < 0 else size
        return self._counted(self._content.read(wanted))

    def read1(self, size: int = -1) -> bytes:
        return self.read(io.DEFAULT_BUFFER_SIZE if size < 0 else size)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readline(self, size: int | None = -1) -> bytes:
        most = self._most - self._n_read + 1 if size is None or size < 0 else size
        return self._counted(self._content.readline(most))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self._content.close()
        super().close()

    def _counted(self, data: bytes) -> bytes:
        self._n_read += len(data)
        if self._n_read > self._most:
            raise ValueError(
                f"{self._path} unpacks to more than {MOST_TIMES} times its size, as files do that are made to fill a "
                "machine's memory. If it is meant to be like that, unpack it yourself and give the unpacked file."
            )
        return data
