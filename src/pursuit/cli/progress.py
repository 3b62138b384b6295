"""The progress bar of training: how far it is, at what loss, and how long it still takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from pursuit.cli.console import err
from pursuit.training import Report


@contextmanager
def training_bar(title: str, console: Console = err) -> Iterator[Callable[[Report], None]]:
    """Give a function that takes training's reports and moves the bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(title, total=None, state="")

        def on_report(report: Report) -> None:
            held_out = "" if report.held_out_loss is None else f", held out {report.held_out_loss:.3f}"
            progress.update(
                bar,
                total=report.n_steps,
                completed=report.step,
                description=f"{title}, stage {report.stage}",
                state=f"loss {report.loss:.3f}{held_out}, {_time(report.seconds_left)} left",
            )

        yield on_report


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
