"""Sweeps: many runs, each measured by itself, one after the other or elsewhere side by side."""

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pursuit.experiments.results import Failure
from pursuit.experiments.run import Progress, no_progress
from pursuit.files import make_folder, write_whole

ERROR = "error.txt"
"""In the folder of a run that failed: where and why."""


class Run(Protocol):
    """One training and its measurement, which any process can do that sees its folder."""

    @property
    def seed(self) -> int: ...

    @property
    def folder(self) -> Path: ...

    @property
    def label(self) -> str:
        """What it is, for people."""

    def prepare(self) -> None:
        """Load the rows, which raises if they are missing: that is not a failure of the run."""

    def measure(self, progress: Progress = no_progress) -> Any:
        """What comes out; a run that stopped goes on where it was."""


R = TypeVar("R", bound=Run)


class Sweep(Protocol):
    """Measures runs, anywhere and in any order, and gives each of them with its result, or the `Failure`. The next run
    is taken when there is a place for it, so that runs may depend on what came of those before."""

    def __call__(self, runs: Iterable[R], progress: Progress) -> Iterator[tuple[R, Any]]: ...


def one_by_one(runs: Iterable[R], progress: Progress) -> Iterator[tuple[R, Any]]:
    """Measure runs here, one after the other."""
    for run in runs:
        yield run, outcome_of(run, progress)


def outcome_of(run: Run, progress: Progress = no_progress) -> Any:
    """The result, or the error if the run failed: whatever it does, the others go on."""
    run.prepare()
    error_file = run.folder / ERROR
    error_file.unlink(missing_ok=True)
    try:
        return run.measure(progress)
    except Exception as error:
        make_folder(run.folder)
        write_whole(error_file, traceback.format_exc().encode())
        return Failure(run.seed, f"{type(error).__name__}: {error}")
