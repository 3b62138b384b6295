"""How far a command is, on standard error: a moving bar in a terminal, and elsewhere a line now and then."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, TextColumn

from pursuit.cli.console import err, escaped

if TYPE_CHECKING:
    from pursuit.training import Report


def training_bar(title: str, console: Console = err) -> "AbstractContextManager[Callable[[Report], None]]":
    """Give a function that takes training's reports and shows how far it is, at what loss, and how long it takes."""
    from pursuit.training import progress

    return progress.training_bar(title, console)


@contextmanager
def rows_bar(title: str, console: Console = err) -> Iterator[Callable[[int], None]]:
    """Give a function that takes the number of rows that are done and shows it."""
    if not console.is_terminal:
        from pursuit.training.progress import lines

        with lines(console) as show:
            yield lambda n_rows: show(f"{title}: {n_rows:,} rows")
        return
    title = escaped(title)
    with Progress(TextColumn("{task.description}"), console=console) as progress:
        bar = progress.add_task(title)
        yield lambda n_rows: progress.update(bar, description=f"{title}: {n_rows:,} rows")
