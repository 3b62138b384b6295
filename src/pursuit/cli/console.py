"""How the program speaks: results on standard output, remarks on standard error. Nothing here is slow to import."""

import contextlib
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from pursuit.processes import is_first

if TYPE_CHECKING:
    from pursuit.estimators.reasons import Reason
    from pursuit.tasks.recipe import Recipe
    from pursuit.tasks.task import Task

# Of several processes that train together, one speaks.
out, err = Console(quiet=not is_first()), Console(stderr=True, quiet=not is_first())


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=False))


def escaped(text: str) -> str:
    """Text that may hold square brackets, which rich would read as style."""
    return text.replace("[", r"\[")


def say(text: str) -> None:
    """A line about how far a command is, on standard error."""
    err.print(escaped(text), soft_wrap=True, highlight=False)


@contextlib.contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Tell a person who stops the command how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"Stopped. {advice}", soft_wrap=True)
        raise typer.Exit(130) from None


def remark_on_recipe(recipe: "Recipe | None", device: str) -> None:
    """What a user without a GPU should know before training by a recipe."""
    from pursuit.training.devices import find_device

    if recipe and recipe.note and find_device(device).type == "cpu":
        say(f"This recipe is {recipe.note}.")


def remark_on_task(task: "Task") -> None:
    """What a user should know about a file before training."""
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
    """What was chosen in training where the user left it open, a line each."""
    if reasons:
        print("\n".join(["Settings:", *(f"  {reason}" for reason in reasons)]))


def print_trained(model: str, source: str) -> None:
    folder, data = shlex.quote(model), shlex.quote(source)
    print(f"Saved in {model}. Try next:\n  pursuit explain {folder} --data {data}\n  pursuit ask {folder}")
