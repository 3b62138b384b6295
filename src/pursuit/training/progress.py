"""How far training is: a moving bar in a terminal or a notebook, and elsewhere a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pursuit.files import is_first
from pursuit.training.loop import Report
from pursuit.training.run import TrainingRun

if TYPE_CHECKING:
    from rich.console import Console

PAUSE = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def with_bar(run: TrainingRun, title: str, verbose: bool | None) -> Iterator[TrainingRun]:
    """The run with a bar that watches it, on standard error, unless somebody watches it already. None: with a bar where
    there is a terminal or a notebook."""
    may_be_seen = verbose or (verbose is None and (sys.stderr.isatty() or "ipykernel" in sys.modules))
    if run.on_report is not None or not may_be_seen or not is_first():
        yield run
        return
    from rich.console import Console

    with training_bar(title, Console(stderr=True)) as on_report:
        yield replace(run, on_report=on_report)


@contextmanager
def training_bar(title: str, console: "Console") -> Iterator[Callable[[Report], None]]:
    """Give a function that takes training's reports and shows how far it is, at what loss, and how long it takes.
    Nothing is shown before the first of them: what is wrong from the start is said without a bar."""
    if not (console.is_terminal or console.is_jupyter):
        with lines(console) as show:
            yield lambda report: show(
                f"{title}, stage {report.stage}: step {report.step:,} of {report.n_steps:,}, {_losses(report)}",
                f", {_time(report.seconds_left)} left",
            )
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    text, state = (TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[state]"))
    progress = Progress(text, BarColumn(), TaskProgressColumn(), state, console=console)
    bar = progress.add_task(title, total=None, state="")

    def on_report(report: Report) -> None:
        progress.start()
        progress.update(
            bar,
            total=report.n_steps,
            completed=report.step,
            description=f"{title}, stage {report.stage}",
            state=f"{_losses(report)}, {_time(report.seconds_left)} left",
        )

    try:
        yield on_report
    finally:
        if progress.live.is_started:
            progress.stop()


@contextmanager
def lines(console: "Console") -> Iterator[Callable[..., None]]:
    """Give a function that shows a text, at most one every `PAUSE` seconds, and the last one in the end, with the time
    that all took; what is `ahead` is only shown on the way."""
    start = shown = time.monotonic()
    last = ""

    def show(text: str, ahead: str = "") -> None:
        nonlocal last, shown
        last = text
        if time.monotonic() - shown >= PAUSE:
            shown = time.monotonic()
            console.print(text + ahead, soft_wrap=True, highlight=False, markup=False)

    yield show
    if last:
        text = f"{last}, done in {_time(time.monotonic() - start)}"
        console.print(text, soft_wrap=True, highlight=False, markup=False)


def _losses(report: Report) -> str:
    held_out = "" if report.held_out_loss is None else f", held out {report.held_out_loss:.3f}"
    return f"loss {report.loss:.3f}{held_out}"


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
