"""Training logs: a CSV file or TensorBoard."""

import csv
import importlib.util
from pathlib import Path
from typing import Any, Literal, Protocol

from pursuit.files import check_file, explained, make_folder, write_whole

LogFormat = Literal["csv", "tensorboard"]


class Log(Protocol):
    def write(self, values: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


def check_log(log: str) -> None:
    """Raise ValueError for a log that cannot be written."""
    if log not in ("csv", "tensorboard"):
        raise ValueError(f"The log is csv or tensorboard, not '{log}'.")
    if log == "tensorboard" and importlib.util.find_spec("tensorboard") is None:
        raise ValueError("TensorBoard is not installed: run pip install 'pursuit[tensorboard]', or log to csv.")


def open_log(folder: Path | None, log: LogFormat, n_kept: int) -> Log:
    """A log in `folder` that goes on after its first `n_kept` entries; no folder, no log."""
    if folder is None:
        return _NoLog()
    make_folder(folder)
    return _CSVLog(folder / "log.csv", n_kept) if log == "csv" else _TensorBoardLog(folder / "tensorboard", n_kept)


class _NoLog:
    def write(self, values: dict[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


class _CSVLog:
    """One line a report. A resumed run goes on after the last checkpoint's line, which Fabric's CSVLogger cannot do."""

    def __init__(self, path: Path, n_kept: int):
        kept = _whole_lines(path, n_kept + 1) if n_kept else []
        write_whole(path, "".join(kept).encode())
        self._path, self._file = path, path.open("a", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._has_header = bool(kept)

    def write(self, values: dict[str, Any]) -> None:
        if not self._has_header:
            self._writer.writerow(values)
            self._has_header = True
        self._writer.writerow(f"{value:.6g}" if isinstance(value, float) else value for value in values.values())
        with explained(self._path):
            self._file.flush()

    def close(self) -> None:
        with explained(self._path):
            self._file.close()


def _whole_lines(path: Path, most: int) -> list[str]:
    """The first lines of a log, up to one that was torn when a machine failed: cut off, or with bytes that are not
    text."""
    check_file(path)
    if not path.exists():
        return []
    lines = path.read_bytes().decode("utf-8", errors="replace").splitlines(keepends=True)[:most]
    n_values = lines[0].count(",") if lines else 0
    whole = []
    for line in lines:
        if not line.endswith("\n") or line.count(",") != n_values or not line[:-1].isprintable():
            break
        whole.append(line)
    return whole


class _TensorBoardLog:
    def __init__(self, folder: Path, n_kept: int):
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        # What a crashed run wrote after its last checkpoint is purged.
        self._logger = TensorBoardLogger(folder.parent, folder.name, version="", purge_step=n_kept or None)
        self._n = n_kept

    def write(self, values: dict[str, Any]) -> None:
        self._logger.log_metrics({name: value for name, value in values.items() if value is not None}, self._n)
        self._n += 1

    def close(self) -> None:
        self._logger.finalize("success")
