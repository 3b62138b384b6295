"""Training a learner: `train` sets up devices and processes, runs the loop, and keeps logs and checkpoints."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pursuit.networks.dense import fast_products, has_only_dense_layers
from pursuit.training.checkpoints import load_checkpoint, remove_checkpoints, save_checkpoint
from pursuit.training.devices import fast_convolutions, find_device, launched, n_processes, own_randomness
from pursuit.training.held_out import EarlyStopping, Kept
from pursuit.training.learner import Learner
from pursuit.training.logs import LogFormat, check_log, open_log
from pursuit.training.loop import Report, Trainer
from pursuit.training.rows import RowSource
from pursuit.training.schedule import Stage
from pursuit.training.state import load_state, state_of

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
    log = open_log(folder if fabric.is_global_zero else None, run.log, n_kept=trainer.n_reports)
    last_saved, pause = time.monotonic(), run.checkpoint_seconds
    try:
        for report in trainer.run():
            log.write({name: value for name, value in asdict(report).items() if name != "trial"})
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
