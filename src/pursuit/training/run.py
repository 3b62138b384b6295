"""Training a learner: `train` sets up devices and processes, runs the loop, and keeps logs and checkpoints."""

import csv
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from pursuit.files import check_file, explained, make_folder, write_whole
from pursuit.networks.dense import fast_products, has_only_dense_layers
from pursuit.training.checkpoints import load_checkpoint, load_state, remove_checkpoints, save_checkpoint, state_of
from pursuit.training.devices import fast_convolutions, find_device, launched, n_processes, own_randomness
from pursuit.training.held_out import EarlyStopping, Kept
from pursuit.training.learner import Learner
from pursuit.training.loop import Report, Trainer
from pursuit.training.rows import RowSource
from pursuit.training.schedule import Stage

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


def open_log(folder: Path, log: LogFormat, n_kept: int) -> Log:
    """A log in `folder` that goes on after its first `n_kept` entries."""
    make_folder(folder)
    return _CSVLog(folder / "log.csv", n_kept) if log == "csv" else _TensorBoardLog(folder / "tensorboard", n_kept)


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


CHECKPOINTS = "checkpoints"
"""Where they are in the folder of a training."""
CHECKPOINT_PAUSE = 20
"""The pause between checkpoints is at least this many times what it takes to write one."""


@dataclass(frozen=True)
class TrainingRun:
    """Where a training is kept, whether it resumes, and who watches it."""

    folder: Path | str | None = None
    """Gets a log and checkpoints. None: nothing is written."""
    resume: bool = False
    """Whether to go on from the newest good checkpoint in the folder. On a CPU this ends with bit for bit the weights
    of a run that was never interrupted."""
    log: LogFormat = "csv"
    on_report: Callable[[Report], None] | None = None
    """Called with every report."""
    checkpoint_seconds: float = 2.0
    """The least time between checkpoints."""
    identity: str = ""
    """What tells this run from others: a checkpoint carries it, and only a run of the same identity goes on from there.
    Estimators make it of settings, seed and rows."""
    is_claimed: bool = False
    """Whether whoever started this keeps other processes from the folder already."""

    @property
    def path(self) -> Path | None:
        return None if self.folder is None else Path(self.folder)


def train(
    model: Learner,
    rows: RowSource,
    stages: Sequence[Stage],
    *,
    seed: int = 0,
    device: str = "cpu",
    devices: int = 1,
    precision: Any = None,
    compiled: bool | None = None,
    early_stopping: EarlyStopping | None = None,
    run: TrainingRun | None = None,
) -> list[Kept]:
    """Train `model` in place on `rows`, stage after stage, and say which weights each stage ended with.

    By default the precision is bf16-mixed on an NVIDIA GPU and full elsewhere, and on such a GPU the objective is
    `compiled` where that pays. With several `devices` (or started by torchrun), as many processes train the model
    together: each learns from a part of the rows and of every batch, and the first one reports and writes files. Fabric
    starts them by running the program again up to this point.
    """
    run = run or TrainingRun()
    check_plan(stages, device, run.log, n_processes(devices))
    fabric = launched(device, devices, precision, in_phases=any(stage.phase for stage in stages))
    with (
        own_randomness(seed + fabric.global_rank, fabric.device),
        fast_convolutions(model, fabric.device),
        fast_products(has_only_dense_layers(model)),
    ):
        trainer = Trainer(fabric, model, rows, stages, seed, early_stopping, compiled)
        _train_and_save(trainer, run)
    fabric.barrier()
    model.to("cpu").eval()
    return trainer.kept


def _train_and_save(trainer: Trainer, run: TrainingRun) -> None:
    """Train to the end, from a checkpoint if there is one to resume from; log every report and save checkpoints."""
    fabric, folder = trainer.fabric, run.path
    checkpoints = folder / CHECKPOINTS if folder else None
    saved = load_checkpoint(checkpoints, run.identity) if checkpoints and run.resume else None
    _check_all_see(fabric, saved[1]["n_reports"] if saved else 0)
    if saved:
        load_state(trainer, *saved)
    elif checkpoints and fabric.is_global_zero:
        remove_checkpoints(checkpoints)
    log = open_log(folder, run.log, n_kept=trainer.n_reports) if folder and fabric.is_global_zero else None
    last_saved, pause = time.monotonic(), run.checkpoint_seconds
    try:
        for report in trainer.run():
            if log is not None:
                log.write(asdict(report))
            if run.on_report and fabric.is_global_zero:
                run.on_report(report)
            began = time.monotonic()
            is_due = began - last_saved >= pause or report.step == report.n_steps
            if checkpoints and fabric.broadcast(is_due):  # by the clock of the first process
                state = state_of(trainer)
                if fabric.is_global_zero:
                    save_checkpoint(checkpoints, trainer.n_reports, *state, run.identity)
                last_saved = time.monotonic()
                # Large models take long to write, and most of the time is for training.
                pause = max(run.checkpoint_seconds, CHECKPOINT_PAUSE * (last_saved - began))
    finally:
        if log is not None:
            log.close()


def _check_all_see(fabric: Any, n_reports: int) -> None:
    """Raise RuntimeError if processes would go on from different checkpoints: machines may see what was written to a
    folder that they share at different times."""
    if n_reports != (first := fabric.broadcast(n_reports)):
        raise RuntimeError(
            f"This process finds the checkpoint of report {n_reports}, and the first one that of report {first}: do "
            "all machines see the same folder? Try again in a minute."
        )


def check_plan(stages: Sequence[Stage], device: str, log: str, n_processes: int = 1) -> None:
    """Raise ValueError for what can be seen to be wrong before anything is trained or written."""
    if not stages:
        raise ValueError("There are no stages to train: at least one is needed.")
    uneven = [stage.batch_size for stage in stages if stage.batch_size % n_processes]
    if uneven:
        raise ValueError(
            f"A batch of {uneven[0]} rows cannot be divided evenly among {n_processes} processes: choose another "
            "batch_size or number of devices."
        )
    find_device(device)
    check_log(log)
