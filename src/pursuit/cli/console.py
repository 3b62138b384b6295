"""What the program shows people: tables on standard output, remarks on standard error."""

import contextlib
import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.table import Column, Table

from pursuit.data.rows import StreamedRows
from pursuit.evaluation import Evaluation, NumberScores, RegressionEvaluation
from pursuit.experiments.beside import RANDOM_ORDER
from pursuit.experiments.demo import DemoResult
from pursuit.experiments.results import Results, asked_and_answered
from pursuit.experiments.table import cells, header, remark, stop_length
from pursuit.tasks.recipe import Recipe
from pursuit.tasks.task import Task
from pursuit.training.devices import find_device, is_first

SHOWN_COSTS = 7
"""Every seventh cost of a curve is printed, the first and the last among them."""

T = TypeVar("T")

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


def remark_on_recipe(recipe: Recipe | None, device: str) -> None:
    """What a user without a GPU should know before training by a recipe."""
    if recipe and recipe.note and find_device(device).type == "cpu":
        say(f"This recipe is {recipe.note}.")


def remark_on_task(task: Task) -> None:
    """What a user should know about a file before training."""
    if isinstance(task.X_train, StreamedRows) and "n_test" in task.notes:
        say(
            f"{len(task.X_train):,} rows are streamed; {task.notes['n_test']:,} are held out, and "
            f"{len(task.y_test):,} of these are measured on."
        )
    if unlabelled := task.notes.get("n_rows_without_label"):
        say(f"{unlabelled:,} rows without a label are left out.")
    if silent := task.notes.get("silent_columns"):
        say(f"Left out because they are empty or the same in every row: {', '.join(silent)}.")
    for name in task.notes.get("numbering_columns", ()):
        say(f"Warning: column '{name}' only numbers the rows. Leave it out with --drop.")


def print_regression(name: str, evaluation: RegressionEvaluation) -> None:
    title = f"{name}: {evaluation.n_rows:,} rows, {evaluation.n_queries} queries"
    table = Table("queries", "R²", "mean error", "in 90 % interval", "its width", title=title)

    def row(start: str, scores: NumberScores, style: str | None = None) -> None:
        numbers = f"{scores.r2:.3f}", f"{scores.mae:.4g}", f"{scores.coverage:.1%}", f"{scores.width:.4g}"
        table.add_row(start, *numbers, style=style)

    for n, scores in thin(evaluation.by_asked):
        row(str(n), scores)
    row("all", evaluation.all_answers, "dim")
    out.print(table)
    if stop := evaluation.at_stop:
        asked = asked_and_answered(stop.mean_asked, stop.mean_answered, noun=" queries on average")
        out.print(
            f"Stopping at {stop.rule}: R² {stop.r2:.3f} and a mean error of {stop.mae:.4g} after {asked}; "
            f"{stop.coverage:.1%} lie in their 90 % intervals.",
            highlight=False,
            soft_wrap=True,
        )


def print_evaluation(name: str, evaluation: Evaluation | RegressionEvaluation) -> None:
    if isinstance(evaluation, RegressionEvaluation):
        print_regression(name, evaluation)
        return
    by_asked, by_answered = evaluation.accuracy_by_asked, evaluation.accuracy_by_answered
    lacks_answers = by_asked != by_answered
    titles = ["queries", "after as many asked", "after as many answered"] if lacks_answers else ["queries", "accuracy"]
    table = Table(*titles, title=f"{name}: {evaluation.n_rows:,} rows, {evaluation.n_queries} queries")
    for n, accuracy in thin(by_asked):
        table.add_row(str(n), f"{accuracy:.3f}", *([f"{by_answered[n]:.3f}"] if lacks_answers else []))
    table.add_row("all", *[f"{evaluation.accuracy_all_answers:.3f}"] * (len(titles) - 1), style="dim")
    out.print(table)
    if evaluation.accuracy_by_cost:
        table = Table("cost", "accuracy")
        for spent, accuracy in evaluation.accuracy_by_cost[::SHOWN_COSTS]:
            table.add_row(f"{spent:.4g}", f"{accuracy:.3f}")
        out.print(table)
    if stop := evaluation.at_stop:
        low, high = stop.accuracy_interval
        cost = f", which cost {stop.mean_cost:.4g}" if evaluation.accuracy_by_cost else ""
        out.print(
            f"Stopping at {stop.rule}: accuracy {stop.accuracy:.3f} (95 % interval {low:.3f} to {high:.3f}) "
            f"after {stop_length(stop, noun=' queries on average')}{cost}; "
            f"mean confidence {stop.mean_confidence:.3f}.",
            highlight=False,
            soft_wrap=True,
        )


def print_demo(shown: DemoResult) -> None:
    result = shown.result
    evaluation, random = result.evaluation, result.beside[RANDOM_ORDER].accuracy_by_asked or []
    title = (
        f"{shown.task}: {result.n_test:,} held-out rows, {evaluation.n_queries} queries, "
        f"trained in {result.training_seconds:.0f} s"
    )
    table = Table("queries", "V-IP", RANDOM_ORDER, title=title)
    for n, accuracy in thin(evaluation.accuracy_by_asked):
        table.add_row(str(n), f"{accuracy:.3f}", f"{random[n]:.3f}")
    out.print(table)
    if stop := evaluation.at_stop:
        out.print(
            f"Stopping at {stop.rule}: accuracy {stop.accuracy:.3f} after "
            f"{stop_length(stop, 1, ' queries on average')}; "
            f"with all answers {evaluation.accuracy_all_answers:.3f}.",
            highlight=False,
            soft_wrap=True,
        )
    files = ", ".join(str(path) for path in (shown.folder, *shown.figures))
    out.print(f"Model and figures: {escaped(files)}\n", highlight=False, soft_wrap=True)


def print_comparison(results: Results) -> None:
    """A row a method: means over seeds alone, to fit a terminal; the file beside them says more."""
    name, *titles = header(results, in_full=False)
    columns = [Column(title, justify="right", overflow="fold") for title in titles]
    table = Table(Column(name, no_wrap=True), *columns, box=None, padding=(0, 1, 0, 0), header_style="underline")
    failed = []
    for method, found in results.methods.items():
        if found.summary:
            table.add_row(*map(escaped, cells(results, method, in_full=False)))
        failed += [f"{found.title}, seed {failure.seed} failed: {failure.error}" for failure in found.failed]
    if table.row_count:
        out.print(table)
    for line in (*failed, remark(results)):
        out.print(escaped(line), highlight=False, soft_wrap=True)


def print_trained(model: str, source: str) -> None:
    folder, data = shlex.quote(model), shlex.quote(source)
    print(f"Saved in {model}. Try next:\n  pursuit explain {folder} --data {data}\n  pursuit ask {folder}")


def thin(accuracy: Sequence[T]) -> list[tuple[int, T]]:
    """Enough of a long list to see its course: the first ones, then fewer and fewer, and the last."""
    last = len(accuracy) - 1
    wanted = {n for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000) if n <= last} | {last}
    return [(n, accuracy[n]) for n in sorted(wanted)]
