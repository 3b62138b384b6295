"""The progress bar of training: how far it is, at what loss, and how long it still takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from pursuit.cli.console import err
from pursuit.training import Report


@contextmanager
def training_bar(title: str, console: Console = err) -> Iterator[Callable[[Report], None]]:
    """Give a function that takes training's reports and moves the bar, which appears with the first of them: what is
    wrong from the start is said without one."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"))
    progress = Progress(*columns, console=console)
    bar = progress.add_task(title, total=None, state="")

    def on_report(report: Report) -> None:
        progress.start()
        held_out = "" if report.held_out_loss is None else f", held out {report.held_out_loss:.3f}"
        progress.update(
            bar,
            total=report.n_steps,
            completed=report.step,
            description=f"{title}, stage {report.stage}",
            state=f"loss {report.loss:.3f}{held_out}, {_time(report.seconds_left)} left",
        )

    try:
        yield on_report
    finally:
        if progress.live.is_started:
            progress.stop()


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
