"""The command line: every command is a few lines over the library."""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.table import Column, Table

import pursuit
from pursuit.baselines import load_classifier
from pursuit.demo import draw_chain, run_demo
from pursuit.devices import find_device
from pursuit.estimators import PursuitClassifier, VIPClassifier, default_stages
from pursuit.processes import is_first
from pursuit.progress import training_bar
from pursuit.rows import StreamedRows
from pursuit.screen import err, escaped, out, print_comparison, print_evaluation, print_json, print_trained
from pursuit.tasks import TASKS, Task, big_tables, files, load_task, tables
from pursuit.tasks.recipes import RECIPES, Recipe, find_recipe
from pursuit.tasks.task import take_rows

app = typer.Typer(
    name="pursuit",
    help="Predictions that explain themselves by the questions they ask.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Source = Annotated[
    str, typer.Argument(help="A task (see `pursuit tasks`), a CSV file, or Parquet files.", metavar="TASK_OR_FILE")
]
Model = Annotated[Path, typer.Argument(help="Folder of a trained model.", metavar="MODEL")]
Data = Annotated[str, typer.Option("--data", help="A task, a CSV file, or Parquet files.", metavar="TASK_OR_FILE")]
Target = Annotated[str | None, typer.Option(help="The column of a file that is the label.")]
Missing = Annotated[
    list[str] | None, typer.Option(help="A text that means missing in a file, such as '?'; repeatable.")
]
Stop = Annotated[
    str | None, typer.Option(help="When to stop: confidence=0.99, budget=20, stability=0.001; commas mean any of.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0, max=2**32 - 1)]
WIDE = 120
"""Columns of a terminal from which on a table may be wide."""
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]


def main() -> None:
    """Run the program; what a user can mend is told in a sentence, without a traceback."""
    warnings.showwarning = lambda message, *_: err.print(f"Warning: {escaped(str(message))}", soft_wrap=True)
    try:
        app()
    except (ValueError, OSError, ModuleNotFoundError) as error:
        err.quiet = False  # whichever process it happens in
        err.print(f"[bold red]Error:[/] {escaped(str(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("Stopped.")
        sys.exit(130)


@contextlib.contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """Tell a person who stops what is done here how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(f"Stopped. {advice}", soft_wrap=True)
        raise typer.Exit(130) from None


def tell_of_recipe(recipe: Recipe, device: str) -> None:
    """What a user should know before a training by a recipe; it was written down for those without a GPU."""
    if recipe.note and find_device(device).type == "cpu":
        err.print(f"This recipe is {escaped(recipe.note)}.", soft_wrap=True)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(pursuit.__version__)
        raise typer.Exit


@app.command()
def demo(
    to: Annotated[Path, typer.Option("--out", help="Folder for models and figures.")] = Path("demo"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train on two embedded tasks, compare with random order, and draw figures."""
    results = []
    for result in run_demo(to, seed, err):
        results.append(result)
        if not as_json:
            print_comparison(result)
    if as_json:
        print_json({"tasks": [result.to_dict() for result in results]})
        return
    model = results[0].folder
    out.print("Try next:", style="bold")
    for command, what in (
        (f"pursuit ask {model}", "think of an animal and be asked"),
        (f"pursuit explain {model} --data animals", "read the chains of a few players"),
        ("pursuit train yours.csv --target COLUMN", "your own table, every column a question"),
    ):
        out.print(f"  {command:<44} {what}", highlight=False, soft_wrap=True)


@app.command()
def tasks(as_json: AsJson = False) -> None:
    """List the tasks, their recipes, and whether their data are on this machine."""
    rows = [
        {
            "task": name,
            "n_queries": info.n_queries,
            "n_classes": info.n_classes,
            "n_train": info.n_train,
            "n_test": info.n_test,
            "recipes": list(RECIPES[name]),
            "present": all(files.locate(file) for file in info.files),
            "title": info.title,
        }
        for name, info in TASKS.items()
    ]
    if as_json:
        print_json({"tasks": rows})
        return
    # Without frames it fits 80 columns, where there is no room for what a task is about.
    titles = ("queries", "classes", "rows", "recipes", "data", *(["what"] if out.width >= WIDE else []))
    columns = [Column(title, overflow="fold") for title in titles]
    table = Table(Column("task", no_wrap=True), *columns, box=None, padding=(0, 1, 0, 0), header_style="underline")
    for row in rows:
        table.add_row(
            *(str(row[name]) for name in ("task", "n_queries", "n_classes")),
            f"{row['n_train']:,} + {row['n_test']:,}",
            ", ".join(RECIPES[str(row["task"])]),
            "here" if row["present"] else "absent",
            *([str(row["title"])] if out.width >= WIDE else []),
        )
    out.print(table)
    if not all(row["present"] for row in rows):
        out.print("Absent data are fetched when a task is used, or with: pursuit data get TASK")
    out.print("Any CSV or Parquet file is a task too: pursuit train FILE.csv --target COLUMN")


@app.command()
def train(
    source: Source,
    to: Annotated[Path | None, typer.Option("--out", help="Folder to write; by default runs/NAME.")] = None,
    target: Target = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column of a file to leave out; repeatable.")] = None,
    missing: Missing = None,
    stop: Stop = None,
    max_queries: Annotated[int | None, typer.Option(help="The most queries ever asked of a row.", min=1)] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the rows; by default as many as suit their number.")
    ] = None,
    held_out: Annotated[float, typer.Option(help="Share of the training rows for early stopping.")] = 0.0,
    test_share: Annotated[float, typer.Option(help="Share of a file's rows kept to measure on.")] = 0.2,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
    devices: Annotated[int, typer.Option(help="How many of them train together.", min=1)] = 1,
    log: Annotated[str, typer.Option(help="csv or tensorboard.")] = "csv",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a killed run of the same command stopped.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train on a task, a CSV file or Parquet files, measure on rows kept apart, and save the model."""
    task = load_task(source, seed, target, drop=drop or (), missing=missing or (), test_share=test_share)
    folder = to or Path("runs") / task.name
    if is_first():
        _check_free(folder, resume, overwrite)
    settings = {**task.settings, "random_state": seed, "device": device, "devices": devices, "held_out": held_out}
    settings |= {name: value for name, value in (("stop", stop), ("max_queries", max_queries)) if value is not None}
    if epochs is not None:
        plan = settings.get("stages") or default_stages(len(task.X_train), len(task.query_set), max_queries)
        settings["stages"] = [replace(stage, epochs=epochs) for stage in plan]
    model = VIPClassifier(task.query_set, **settings)
    tell_about(task)
    if source in TASKS and epochs is None:
        tell_of_recipe(find_recipe(source), device)
    with stoppable("The same command and --resume go on."), training_bar(task.name, err) as on_report:
        model.fit(
            task.X_train,
            task.y_train,
            opening=task.opening_train,
            folder=folder,
            resume=resume,
            log=log,
            on_report=on_report,
        )
    if not is_first():
        return
    model.save(folder, {"task": {"name": task.name, **task.notes}})
    if not len(task.y_test):
        (print_json if as_json else print_trained)({"model": str(folder), "task": task.name})
        return
    evaluation = model.evaluate(task.X_test, task.y_test, opening=task.opening_test)
    if as_json:
        print_json({"model": str(folder), "task": task.name, **evaluation.to_dict()})
        return
    print_evaluation(task.name, evaluation)
    print_trained({"model": str(folder), "task": source})


@app.command()
def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    missing: Missing = None,
    stop: Stop = None,
    max_queries: Annotated[int | None, typer.Option(help="The most queries ever asked of a row.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure accuracy against number of queries, and at a stopping rule."""
    classifier = load_classifier(model)
    classifier.device = device
    if max_queries is not None:
        classifier.max_queries = max_queries
    rows = _data_of(classifier, data, target, missing)
    if rows.y is None:
        raise ValueError(f"{data} has no labels to measure by: name their column with --target.")
    evaluation = classifier.evaluate(rows.X, rows.y, stop, opening=rows.opening)
    if as_json:
        print_json({"task": rows.name, **evaluation.to_dict()})
    else:
        print_evaluation(rows.name, evaluation)


@app.command()
def explain(
    model: Model,
    data: Data,
    row: Annotated[
        list[int] | None, typer.Option(help="Number of a row, from 0; repeatable. By default 0, 1 and 2.")
    ] = None,
    target: Target = None,
    missing: Missing = None,
    stop: Stop = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the first chain into this file (png, svg or pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the chains of questions and answers that lead to predictions: as text, JSON or a figure."""
    classifier = load_classifier(model)
    rows = _data_of(classifier, data, target, missing)
    wanted = row if row else list(range(min(3, len(rows.X))))
    beyond = [number for number in wanted if not 0 <= number < len(rows.X)]
    if beyond:
        raise ValueError(f"There is no row {beyond[0]}: rows go from 0 to {len(rows.X) - 1}.")
    X = take_rows(rows.X, wanted)
    labels = [None if rows.y is None else str(rows.y[number]) for number in wanted]
    titles = [_row_title(rows, number, label) for number, label in zip(wanted, labels, strict=True)]
    chains = classifier.explain(X, stop, opening=None if rows.opening is None else rows.opening[wanted])
    if figure:
        draw_chain(classifier.model_.query_set, X, chains[0], figure, titles[0])
    if as_json:
        told = zip(wanted, labels, chains, strict=True)
        print_json({"task": rows.name, "chains": [{"row": n, "label": y, **chain.to_dict()} for n, y, chain in told]})
        return
    for title, chain in zip(titles, chains, strict=True):
        out.print(escaped(title), style="bold", highlight=False)
        print(f"{chain}\n")
    if figure:
        out.print(f"Drawn into {figure}", soft_wrap=True)


class _Measured(NamedTuple):
    """Rows that the model has not learnt from."""

    name: str
    X: Any
    y: np.ndarray | None
    opening: np.ndarray | None = None


def _data_of(classifier: PursuitClassifier, data: str, target: str | None, missing: list[str] | None) -> _Measured:
    """The rows of `data` that the model has not learnt from; labels may be absent from a file."""
    trained = classifier.notes_.get("task", {})
    names = [query.name for query in classifier.model_.query_set.queries]
    if data in TASKS:
        if trained.get("learnt_from_test_rows_of") == data:
            raise ValueError(
                f"The model has learnt from test rows of {data}: measure it on {trained['name']}, whose are kept apart."
            )
        task = load_task(data, trained.get("seed", 0) if trained.get("name") == data else 0)
        if [query.name for query in task.query_set.queries] != names:
            whose = f" was trained on {trained['name']} and" if "name" in trained else ""
            raise ValueError(f"The model{whose} asks other queries than those of {data}: give it rows of its own kind.")
        return _Measured(data, task.X_test, task.y_test, task.opening_test)
    kind = big_tables if big_tables.is_big_table(data) else tables
    X, y, remark = kind.unseen_rows(data, names, trained, target, missing or ())
    if remark:
        err.print(remark, soft_wrap=True)
    if y is not None and classifier.classes_.dtype.kind in "OU":
        y = y.astype(str)
    return _Measured(big_tables.name_of(data), X, y)


def _row_title(rows: _Measured, number: int, label: str | None) -> str:
    """The number of a row among those measured on, and in the file it stands in where that is another one."""
    in_file = rows.X.index[number] if hasattr(rows.X, "index") else number
    return (
        f"Row {number}"
        + (f" (row {in_file} of the file)" if in_file != number else "")
        + (f", truly {label}" if label else "")
    )


def _check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise ValueError where training into `folder` would destroy or mix up what is there."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, but a folder is needed: choose another --out.")
    if resume or overwrite or not folder.exists() or not any(folder.iterdir()):
        return
    if (folder / "model.json").exists():
        raise ValueError(f"{folder} holds a model already: choose another --out, or add --overwrite to replace it.")
    if (folder / "run.json").exists():
        raise ValueError(f"{folder} holds an unfinished run: add --resume to go on, or --overwrite to start anew.")
    raise ValueError(f"{folder} holds other files: choose another --out, or add --overwrite to write beside them.")


def tell_about(task: Task) -> None:
    """What a user should know of a file before training."""
    if isinstance(task.X_train, StreamedRows) and "n_test" in task.notes:
        err.print(
            f"{len(task.X_train):,} rows are streamed; {task.notes['n_test']:,} are kept apart, of which "
            f"{len(task.y_test):,} are measured on."
        )
    if unlabelled := task.notes.get("n_rows_without_label"):
        err.print(f"{unlabelled:,} rows without a label are left out.")
    if silent := task.notes.get("silent_columns"):
        err.print(
            f"Left out, for they are empty or the same in every row: {escaped(', '.join(silent))}.", soft_wrap=True
        )
    for name in task.notes.get("numbering_columns", ()):
        err.print(f"Warning: column '{escaped(name)}' only numbers the rows. Leave it out with --drop.", soft_wrap=True)
