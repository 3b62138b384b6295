"""Output of the program: results on standard output, remarks on standard error. Nothing here is slow to import."""

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.control import Control
from rich.progress import Progress, TextColumn
from rich.segment import Segment
from rich.table import Column, Table

from pursuit.files import cannot_write, is_first

if TYPE_CHECKING:
    from pursuit.estimators.plan import Reason
    from pursuit.research.tasks.recipe import Recipe
    from pursuit.research.tasks.task import Task
    from pursuit.training import Report

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
"""Errors that only writing has."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal acts on instead of printing them: escape sequences, which may rewrite the screen or the
clipboard, and marks that turn the direction of writing. Tabs and the ends of lines are harmless."""


def visible(text: str) -> str:
    """A text with control characters written out, as in \\x1b."""
    return CONTROL.sub(lambda found: _code(found[0]), text)


def _code(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


class _Visible:
    """Anything that rich prints, with all control characters written out except rich's own."""

    def __init__(self, renderable: Any):
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


class _MakeVisible(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [one if isinstance(one, Control) else _Visible(one) for one in renderables]


def _console(**options: Any) -> Console:
    console = Console(quiet=not is_first(), **options)  # of several processes that train together, one speaks
    console.push_render_hook(_MakeVisible())
    return console


out, err = _console(), _console(stderr=True)


def plain_table(*columns: Column | str, gap: int = 1) -> Table:
    """A table without lines, with underlined titles and this gap between columns."""
    return Table(*columns, box=None, padding=(0, gap, 0, 0), header_style="underline")


def show(text: str, end: str = "\n") -> None:
    """Print a result as plain text, with control characters written out."""
    print(visible(text), end=end, flush=True)


class _Terminal:
    """Standard output where somebody looks at it."""

    def write(self, text: str) -> int:
        return sys.stdout.write(visible(text))


def standard_output() -> TextIO:
    """The stream for data; in a terminal, control characters are written out."""
    return cast(TextIO, _Terminal()) if _is_looked_at() else sys.stdout


def _is_looked_at() -> bool:
    return sys.stdout.isatty()


def print_json(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    print(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def escaped(text: str) -> str:
    """Text that may hold square brackets, which rich would read as style, and control characters."""
    return visible(text).replace("[", r"\[")


def in_words(error: Exception) -> str:
    """The message of an error; that of a system error names the file and the remedy."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    if error.errno in FULL:
        return cannot_write(os.fsdecode(error.filename) if error.filename else "A file", error)
    return f"{os.fsdecode(error.filename)}: {error.strerror}." if error.filename else str(error)


def say(text: str) -> None:
    """Print a remark on standard error."""
    err.print(escaped(text), soft_wrap=True, highlight=False)


MANY_COLUMNS, LONGEST_HEADER = 5000, 1 << 24


def say_if_wide(source: str) -> None:
    """Say beforehand that it takes long to read a CSV file with very many columns, by its first line."""
    path = Path(source)
    if path.suffix.lower() in (".csv", ".tsv", ".tab", ".txt") and path.is_file():
        with path.open("rb") as file:
            header = file.readline(LONGEST_HEADER)
        n_columns = 1 + max(header.count(separator) for separator in (b",", b";", b"\t", b"|"))
        if n_columns > MANY_COLUMNS:
            say(f"{source} has {n_columns:,} columns: reading takes about half a minute for every 20,000 of them.")


@contextmanager
def stoppable(advice: str = "Run the same command again to continue.") -> Iterator[None]:
    """Tell a person who stops the command how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"Stopped. {advice}", soft_wrap=True)
        raise typer.Exit(130) from None


def remark_on_recipe(recipe: "Recipe | None", device: str) -> None:
    """Print the note of a recipe if training runs on a CPU."""
    from pursuit.training.devices import find_device

    if recipe and recipe.note and find_device(device).type == "cpu":
        say(f"This recipe is {recipe.note}.")


def remark_on_task(task: "Task") -> None:
    """Print the remarks on a file before training."""
    if task.y_train is None and "n_test" in task.notes:  # rows are streamed together with their labels
        say(
            f"{len(task.X_train):,} rows are streamed; {task.notes['n_test']:,} are held out, and "
            f"{len(task.y_test):,} of these are measured on."
        )
    for line in task.notes.get("remarks", ()):
        say(line)
    if unlabelled := task.notes.get("n_rows_without_label"):
        rows, are = ("row", "is") if unlabelled == 1 else ("rows", "are")
        say(f"{unlabelled:,} {rows} without a label {are} left out.")


def print_chosen(reasons: "Sequence[Reason]") -> None:
    """Print the settings that training chose, one line each."""
    if reasons:
        show("\n".join(["Settings:", *(f"  {reason}" for reason in reasons)]))


def print_trained(model: str, source: str, query: str | None = None) -> None:
    from pursuit.tables.filesystem import display_name

    folder, data = shlex.quote(model), shlex.quote(display_name(source) if query else source)
    data += f" --query {shlex.quote(query)}" if query else ""
    show(f"Saved in {model}. Try next:\n  pursuit explain {folder} --data {data}\n  pursuit ask {folder}")


def training_bar(title: str, console: Console = err) -> "AbstractContextManager[Callable[[Report], None]]":
    """A progress bar of training, with its loss and the time left; gives the function that takes the reports."""
    from pursuit.training import progress

    return progress.training_bar(title, console)


@contextmanager
def rows_bar(title: str, console: Console = err) -> Iterator[Callable[[int], None]]:
    """A counter of rows; gives the function that takes the number of rows done."""
    from pursuit.report.facts import count

    if not console.is_terminal:
        from pursuit.training.progress import lines

        with lines(console) as show:
            yield lambda n_rows: show(f"{title}: {count(n_rows, 'row')}")
        return
    with Progress(TextColumn("{task.description}"), console=console) as progress:
        title = escaped(title)
        bar = progress.add_task(title)
        yield lambda n_rows: progress.update(bar, description=f"{title}: {count(n_rows, 'row')}")
