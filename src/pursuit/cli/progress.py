"""How far a command is, on standard error: a moving bar in a terminal, and elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from pursuit.cli.console import err, escaped

if TYPE_CHECKING:
    from pursuit.training import Report

PAUSE = 10.0
"""Seconds between two lines where there is no terminal."""


@contextmanager
def training_bar(title: str, console: Console = err) -> Iterator[Callable[["Report"], None]]:
    """Give a function that takes training's reports and shows how far it is, at what loss, and how long it takes.
    Nothing is shown before the first of them: what is wrong from the start is said without a bar."""
    if not console.is_terminal:
        with _lines(console) as show:
            yield lambda report: show(
                f"{title}, {_part(report)}: step {report.step:,} of {report.n_steps:,}, {_losses(report)}",
                f", {_time(report.seconds_left)} left",
            )
        return
    title = escaped(title)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"))
    progress = Progress(*columns, console=console)
    bar = progress.add_task(title, total=None, state="")

    def on_report(report: "Report") -> None:
        progress.start()
        progress.update(
            bar,
            total=report.n_steps,
            completed=report.step,
            description=f"{title}, {_part(report)}",
            state=f"{_losses(report)}, {_time(report.seconds_left)} left",
        )

    try:
        yield on_report
    finally:
        if progress.live.is_started:
            progress.stop()


@contextmanager
def rows_bar(title: str, console: Console = err) -> Iterator[Callable[[int], None]]:
    """Give a function that takes the number of rows that are done and shows it."""
    if not console.is_terminal:
        with _lines(console) as show:
            yield lambda n_rows: show(f"{title}: {n_rows:,} rows")
        return
    title = escaped(title)
    with Progress(TextColumn("{task.description}"), console=console) as progress:
        bar = progress.add_task(title)
        yield lambda n_rows: progress.update(bar, description=f"{title}: {n_rows:,} rows")


@contextmanager
def _lines(console: Console) -> Iterator[Callable[..., None]]:
    """Give a function that shows a text, at most one every `PAUSE` seconds, and the last one in the end, with the time
    that all took; what is `ahead` is only shown on the way."""
    start = shown = time.monotonic()
    last = ""

    def show(text: str, ahead: str = "") -> None:
        nonlocal last, shown
        last = text
        if time.monotonic() - shown >= PAUSE:
            shown = time.monotonic()
            console.print(escaped(text + ahead), soft_wrap=True, highlight=False)

    yield show
    if last:
        console.print(escaped(f"{last}, done in {_time(time.monotonic() - start)}"), soft_wrap=True, highlight=False)


def _part(report: "Report") -> str:
    return report.trial or f"stage {report.stage}"


def _losses(report: "Report") -> str:
    held_out = "" if report.held_out_loss is None else f", held out {report.held_out_loss:.3f}"
    return f"loss {report.loss:.3f}{held_out}"


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
