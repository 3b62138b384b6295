"""The queue: runs side by side, each in a process of its own, the most valuable ones first, as time allows."""

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from shutil import rmtree
from typing import Protocol

import torch

from pursuit.estimators.network import RUN
from pursuit.experiments.paper import records
from pursuit.experiments.paper.runs import PaperRun
from pursuit.experiments.results import read_result
from pursuit.experiments.run import Say, no_progress, say_nothing
from pursuit.experiments.sweep import ERROR
from pursuit.experiments.table import in_brief
from pursuit.files import make_folder, write_whole

GRACE_SECONDS = 5.0
"""How long a process has to end by itself."""


@dataclass(frozen=True)
class Place:
    """Where runs compute, and where they write."""

    out: Path
    """A small file for each run that is done."""
    work: Path
    """A folder with models and checkpoints for each run that is not."""
    device: str = "auto"
    threads: int = 1

    def result(self, run: PaperRun) -> Path:
        return self.out / f"{run.name}.json"

    def folder(self, run: PaperRun) -> Path:
        return self.work / run.name

    def has_begun(self, run: PaperRun) -> bool:
        """Whether a run was stopped that can go on."""
        return (self.folder(run) / RUN).exists()


class Worker(Protocol):
    """A process, as `multiprocessing` has it."""

    @property
    def sentinel(self) -> int: ...
    @property
    def exitcode(self) -> int | None: ...
    def is_alive(self) -> bool: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


Begin = Callable[[PaperRun, Place], Worker]


def begin_process(run: PaperRun, place: Place) -> Worker:
    process = get_context("spawn").Process(target=measure, args=(run, place), name=run.name)
    process.start()
    return process


def measure(run: PaperRun, place: Place) -> None:
    """Train and measure a run, write its result, and leave no model behind; a run that was stopped goes on."""
    torch.set_num_threads(place.threads)
    folder = place.folder(run)
    error_file = folder / ERROR
    error_file.unlink(missing_ok=True)
    try:
        result = run.method_run(folder, place.device).read_or_measure(no_progress, say_nothing)
        records.write(result, place.result(run))
    except Exception:
        make_folder(folder)
        write_whole(error_file, traceback.format_exc().encode())
        raise SystemExit(1) from None
    rmtree(folder, ignore_errors=True)


def next_run(left: Iterable[PaperRun], minutes: float, place: Place) -> PaperRun | None:
    """The most valuable run that ends within the minutes left, or that was begun before; of several the longest."""
    fitting = [run for run in left if run.minutes <= minutes or place.has_begun(run)]
    return max(fitting, key=lambda run: (run.value, run.minutes), default=None)


def work_through(
    runs: Iterable[PaperRun],
    minutes: float,
    jobs: int,
    place: Place,
    say: Say = say_nothing,
    begin: Begin = begin_process,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Run `jobs` at a time until the minutes are over; gives the names of those that failed. What still runs then is
    stopped, and goes on from its last checkpoint the next time."""
    left, failed = list(runs), []
    running: dict[PaperRun, tuple[Worker, float]] = {}
    started = clock()
    try:
        while True:
            for run in [run for run, (worker, _) in running.items() if not worker.is_alive()]:
                worker, began = running.pop(run)
                outcome = _outcome(run, place)
                failed += [run.name] if outcome is None else []
                say(f"{run.name}: {outcome or _why(run, worker, place)} ({(clock() - began) / 60:.1f} minutes)")
            minutes_left = minutes - (clock() - started) / 60
            while len(running) < jobs and (run_now := next_run(left, minutes_left, place)) and minutes_left > 0:
                left.remove(run_now)
                say(f"{run_now.name}: {'goes on' if place.has_begun(run_now) else 'begins'}")
                running[run_now] = begin(run_now, place), clock()
            if not running or minutes_left <= 0:
                return failed
            connection.wait([worker.sentinel for worker, _ in running.values()], min(1.0, 60 * minutes_left))
    finally:
        stop([worker for worker, _ in running.values()])
        for run in running:
            say(f"{run.name}: {_outcome(run, place) or 'stopped'}{', can go on' if place.has_begun(run) else ''}")


def stop(workers: Sequence[Worker]) -> None:
    """End processes; their checkpoints are whole whenever that happens."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(GRACE_SECONDS)
        if worker.is_alive():
            worker.kill()
            worker.join()


def _outcome(run: PaperRun, place: Place) -> str | None:
    """What came out, in brief; None if nothing did."""
    result = read_result(place.result(run))
    return in_brief(result) if result else None


def _why(run: PaperRun, worker: Worker, place: Place) -> str:
    error_file = place.folder(run) / ERROR
    if error_file.exists():
        return f"failed: {error_file.read_text().strip().splitlines()[-1]} (see {error_file})"
    return f"failed: its process ended with {worker.exitcode}"
