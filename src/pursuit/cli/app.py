"""The app, the options that commands share, and `main`."""

import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.commands import CommandsByName, add_commands
from pursuit.cli.console import err, escaped, in_words, show
from pursuit.cli.plugins import PLUGINS_VARIABLE, load_plugins
from pursuit.files import check_model, check_table
from pursuit.registry import known
from pursuit.version import __version__

app = typer.Typer(
    name="pursuit",
    cls=CommandsByName,
    help="Predictions that explain themselves by the questions they ask.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def existing(name: str) -> str:
    """The name of a task or a file, refused at once where it can only be a file that is not there."""
    if name not in known("task"):
        check_table(name)
    return name


def existing_model(folder: Path) -> Path:
    """The folder of a model, refused at once where it is not there."""
    check_model(folder)
    return folder


Source = Annotated[
    str,
    typer.Argument(
        help="A task (see `pursuit tasks`), a CSV file, or Parquet files.", metavar="TASK_OR_FILE", callback=existing
    ),
]
Model = Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="MODEL", callback=existing_model)]
Data = Annotated[
    str,
    typer.Option(
        "--data", help="The rows: a task, a CSV file, or Parquet files.", metavar="TASK_OR_FILE", callback=existing
    ),
]
Target = Annotated[str | None, typer.Option(help="The column of a file that holds the label.")]
Drop = Annotated[list[str] | None, typer.Option(help="A column of a file to leave out; repeatable.")]
Missing = Annotated[
    list[str] | None, typer.Option(help="A text that stands for a missing value in a file, such as '?'; repeatable.")
]
Encoding = Annotated[
    str | None, typer.Option(help="The encoding of a CSV file, such as cp1252; by default it is guessed.")
]
Decimal = Annotated[
    str | None, typer.Option(help="The decimal separator of a CSV file, '.' or ','; by default it is guessed.")
]
Kind = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN=KIND", help="What a column of a CSV file is, as in born=date; repeatable."),
]
MissingInforms = Annotated[
    bool,
    typer.Option(
        "--missing-informs",
        help="Where many rows of a CSV file lack a value, let that be an answer of its own: not given.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(help="A column of a CSV file, such as patient: rows with the same value are held out together."),
]
Time = Annotated[str | None, typer.Option(help="A column of a CSV file, such as date: its latest rows are held out.")]
Cost = Annotated[
    list[str] | None,
    typer.Option(
        "--cost",
        metavar="NAME=NUMBER|FILE.csv",
        help="What a query costs, 1 by default; or a CSV file with the columns query and cost; repeatable.",
    ),
]
CostAware = Annotated[
    bool | None,
    typer.Option(
        "--cost-aware/--no-cost-aware",
        help="Ask by information per unit of cost, or by information alone; by default V-IP weighs costs if they "
        "differ, and other methods do not.",
    ),
]
Querier = Annotated[
    str | None,
    typer.Option(
        metavar="auto|information|straight-through",
        help="How V-IP learns what to ask: from the information expected of every query, or by the paper's gradient; "
        "by default what suits the data.",
    ),
]
TestShare = Annotated[
    float | None, typer.Option(help="The share of a file's rows to hold out and measure on; by default 0.2.")
]
Stop = Annotated[
    str | None,
    typer.Option(
        help="When to stop asking: confidence=0.99, budget=20, stability=0.001 (the entropy changes by fewer bits; or "
        "0.001nats), bits=0.01 (no query left promises more), cost=20 (never spend more), width=20 (the 90 % interval "
        "of a number); risk=0.05 (at most 5 % of what is decided wrong, else not sure) and conformal=0.1 (a set of "
        "labels with the right one in 90 %), for which training holds rows out; with commas: at the first of several."
    ),
]
Network = Annotated[
    str | None,
    typer.Option(help="A network by name, with its usual sizes: MLP, SetNetwork (the paper's), Conv, or your own."),
]
Queries = Annotated[
    str | None, typer.Option(help="A query set by name to read a CSV file with; by default every column is a query.")
]
QuestionsFile = Annotated[
    Path | None,
    typer.Option(
        "--questions", metavar="FILE.toml", help="How columns are asked, as `pursuit questions` drafts it for you."
    ),
]
MaxQueries = Annotated[int | None, typer.Option(help="The most queries to ask of a row.", min=1)]
Seed = Annotated[int, typer.Option(help="The seed of everything random.", min=0, max=2**32 - 1)]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, mps or auto.")]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Work through all rows of files share by share: local in this process, ray on all cores or on a cluster.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="A Ray cluster that runs already; auto is the one of this machine. Implies --engine ray.",
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(help="With --engine: a folder that keeps what was counted, to go on if it is interrupted."),
]
SweepEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Train side by side: ray, on all cores or on a cluster. By default one by one.",
    ),
]
TrainingEngine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Train on a cluster: ray, with as many processes as --devices. By default on this machine.",
    ),
]
GpuShare = Annotated[
    float, typer.Option(help="With --engine ray: the share of a GPU that each training has.", min=0, max=1)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]


def main() -> None:
    """Run the program; an error that a user can mend is one sentence, without a traceback."""
    warnings.showwarning = lambda message, *_: err.print(f"Warning: {escaped(str(message))}", soft_wrap=True)
    gc.set_threshold(50_000)  # imports make many objects and no garbage, and collecting by default takes long
    try:
        app()
    except BrokenPipeError:  # whoever reads what is printed has had enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ModuleNotFoundError) as error:
        err.quiet = False  # whichever process it happens in
        err.print(f"[bold red]Error:[/] {escaped(in_words(error))}", soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("Stopped.")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE_OR_FILE.py",
            help="Import your own module or file first, so that what it registers is known: stopping rules, networks, "
            f"query sets, methods, tasks. Repeatable; also from {PLUGINS_VARIABLE}, separated by '{os.pathsep}'.",
        ),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        show(__version__)
        raise typer.Exit
    load_plugins(plugin or [])
    if context.invoked_subcommand is None:
        show(context.get_help())


add_commands(app)
