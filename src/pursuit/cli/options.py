"""Options that commands share, and how fields of dataclasses become options.

A parameter of a command that is annotated with a dataclass stands for an option for each of its fields. The default of
the parameter is an instance whose values are the defaults, where those differ from the fields' own.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from pursuit.files import check_model, check_table
from pursuit.registry import Device, MaxQueries, Option, Stop, known

if TYPE_CHECKING:
    from pursuit.tables.engine import Engine


def existing(name: str) -> str:
    """The name of a task or a file, refused at once where it can only be a file that does not exist."""
    if name not in known("task"):
        check_table(name)
    return name


def existing_model(folder: Path) -> Path:
    """The folder of a model, refused at once where it does not exist."""
    check_model(folder)
    return folder


Source = Annotated[
    str,
    typer.Argument(
        help="A task (see `pursuit tasks`), a CSV, Excel or JSON file, Parquet files, or a database by its address.",
        metavar="TASK_OR_FILE",
        callback=existing,
    ),
]
Model = Annotated[Path, typer.Argument(help="The folder of a trained model.", metavar="MODEL", callback=existing_model)]
Data = Annotated[
    str,
    typer.Option(
        help="The rows: a task, a CSV, Excel or JSON file, Parquet files, or a database by its address.",
        metavar="TASK_OR_FILE",
        callback=existing,
    ),
]
Target = Annotated[str | None, Option("The column of a file that holds the label.")]
Regress = Annotated[bool, Option("Predict a number, by its distribution, and not one of several classes.")]
Address = Annotated[
    str | None,
    Option(
        "A Ray cluster that runs already; auto is the one of this machine. Implies --engine ray.",
        metavar="HOST:PORT",
        parameter="devices",
    ),
]
Seeds = Annotated[int, Option("How many seeds to train and measure.", min=1)]
Database = Annotated[
    str | None,
    Option(
        "Where sessions are kept: sqlite:///FILE, postgresql://USER@HOST/NAME or a file; by default where `pursuit "
        "serve` keeps those of this model.",
        metavar="URL",
    ),
]
AsJson = Annotated[bool, Option("Print exactly one JSON object.", "--json")]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Options for parsing text files."""

    missing: Annotated[
        list[str] | None, Option("A text that stands for a missing value in a file, such as '?'; repeatable.")
    ] = None
    encoding: Annotated[str | None, Option("The encoding of a CSV file, such as cp1252; by default it is guessed.")] = (
        None
    )
    decimal: Annotated[
        str | None, Option("The decimal separator of a CSV file, '.' or ','; by default it is guessed.")
    ] = None
    sheet: Annotated[str | None, Option("The sheet of an Excel workbook; by default the fullest.")] = None
    query: Annotated[
        str | None, Option("With the address of a database: which rows, as in 'SELECT * FROM repairs'.", metavar="SQL")
    ] = None

    def reading(self) -> dict[str, Any]:
        """Arguments of the functions that read files."""
        return {**vars(self), "missing": self.missing or ()}


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(ReadingOptions):
    """Which columns of a file are labels and queries, and of which type."""

    target: Target = None
    drop: Annotated[list[str] | None, Option("A column of a file to leave out; repeatable.")] = None
    column_type: Annotated[
        list[str] | None, Option("What a column of a CSV file is, as in born=date; repeatable.", metavar="COLUMN=TYPE")
    ] = None
    language: Annotated[
        str | None, Option("The language of questions made of columns' names, en or de; by default that of the file.")
    ] = None

    def reading(self) -> dict[str, Any]:
        """Arguments of `load_task`."""
        from pursuit.research.tasks.tables import parse_column_types

        given = super().reading()
        types = given.pop("column_type") or ()
        return {**given, "drop": self.drop or (), "column_types": parse_column_types(types)}


@dataclass(frozen=True, kw_only=True)
class TableOptions(ColumnOptions):
    """Options that turn a table into a learning task."""

    missing_informs: Annotated[
        bool, Option("Where many rows of a CSV file lack a value, let that be an answer of its own: not given.")
    ] = False
    group: Annotated[
        str | None,
        Option("A column of a CSV file, such as patient: rows with the same value are held out together."),
    ] = None
    time: Annotated[str | None, Option("A column of a CSV file, such as date: its latest rows are held out.")] = None
    queries: Annotated[
        str | None, Option("A query set by name to read a CSV file with; by default every column is a query.")
    ] = None
    questions: Annotated[
        Path | None, Option("How columns are asked, as `pursuit questions` drafts it for you.", metavar="FILE.toml")
    ] = None
    test_share: Annotated[
        float | None, Option("The share of a file's rows to hold out and measure on; by default 0.2.")
    ] = None
    cost: Annotated[
        list[str] | None,
        Option(
            "What a query costs, 1 by default; or a CSV file with the columns query and cost; repeatable.",
            metavar="NAME=NUMBER|FILE.csv",
        ),
    ] = None
    cost_aware: Annotated[
        bool | None,
        Option(
            "Ask by information per unit of cost, or by information alone; by default V-IP weighs costs if they "
            "differ, and other methods do not.",
            "--cost-aware/--no-cost-aware",
            parameter="cost_aware",
        ),
    ] = None

    def reading(self) -> dict[str, Any]:
        return {name: value for name, value in super().reading().items() if name not in ("cost", "cost_aware")}

    def costs(self) -> dict[str, float]:
        """The cost of each query that is named."""
        from pursuit.research.tasks.tables import parse_costs

        return parse_costs(self.cost or ())


@dataclass(frozen=True, kw_only=True)
class RowsOptions:
    """Which rows a model is shown, when it stops asking, and where that is computed."""

    data: Data
    file: ReadingOptions = ReadingOptions()
    stop: Stop = None
    engine: Annotated[
        str | None,
        Option(
            "Work through all rows of files share by share: local in this process, ray on all cores or on a cluster.",
            metavar="ENGINE",
        ),
    ] = None
    address: Address = None

    @property
    def names_engine(self) -> bool:
        return self.engine is not None or self.address is not None


@dataclass(frozen=True, kw_only=True)
class MeasuringOptions(RowsOptions):
    """The rows with labels that a model is measured on."""

    target: Target = None
    max_queries: MaxQueries = None
    device: Device = "cpu"
    keep: Annotated[
        str | None, Option("With --engine: a folder that keeps what was counted, to go on if it is interrupted.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The machines that many trainings run on."""

    engine: Annotated[
        str | None,
        Option("Train side by side: ray, on all cores or on a cluster. By default one by one.", metavar="ENGINE"),
    ] = None
    address: Address = None
    gpu_share: Annotated[
        float, Option("With --engine ray: the share of a GPU that each training has.", min=0, max=1)
    ] = 0.0

    def find_engine(self) -> "Engine":
        from pursuit.tables.engine import find_engine

        return find_engine(self.engine, self.address, self.gpu_share)


def chosen_parameters(options: Any) -> dict[str, str]:
    """The options of a dataclass that differ from their defaults, each with the parameter that it sets; those that any
    estimator has are left out."""
    return {name: option.parameter for name, option, _ in _given(options) if option.parameter}


def words_of(options: Any) -> list[str]:
    """The options of a dataclass that differ from their defaults, as a command line has them."""
    words: list[str] = []
    for name, option, value in _given(options):
        if isinstance(value, bool):
            words.append((option.name or name).split("/")[0 if value else -1])
        else:
            words += [word for one in (value if isinstance(value, list) else [value]) for word in (name, str(one))]
    return words


def _given(options: Any) -> Iterator[tuple[str, Option, Any]]:
    """The options that differ from their defaults: the name of each, what is declared of it, and its value."""
    hints = get_type_hints(type(options), include_extras=True)
    for field in fields(options):
        value = getattr(options, field.name)
        option = next((extra for extra in get_args(hints[field.name]) if isinstance(extra, Option)), None)
        if option and value != field.default and value != []:
            yield f"--{field.name.replace('_', '-')}", option, value


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer takes it: with an option for each field of its parameters that are dataclasses."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _parameters(parameter.annotation, parameter.default)
        else:
            parameters.append(_parameter(parameter.name, parameter.annotation, parameter.default))

    @functools.wraps(command)
    def gathered(**given: Any) -> None:
        command(**{name: _instance(group, given) for name, group in groups.items()}, **given)

    gathered.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return gathered


def _parameters(group: Any, defaults: Any) -> list[Parameter]:
    """A parameter for each field of a dataclass, and for those of dataclasses among its fields."""
    found: list[Parameter] = []
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = getattr(defaults, field.name) if isinstance(defaults, group) else field.default
        if is_dataclass(hints[field.name]):
            found += _parameters(hints[field.name], default)
        else:
            found.append(_parameter(field.name, hints[field.name], Parameter.empty if default is MISSING else default))
    return found


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    """A parameter as Typer takes it."""
    value, *extras = get_args(hint) or (hint,)
    if extras and isinstance(option := extras[0], Option):
        names = [option.name] if option.name else [f"--{name.replace('_', '-')}"] if value is bool else []
        hint = Annotated[
            value, typer.Option(*names, help=option.help, metavar=option.metavar, min=option.min, max=option.max)
        ]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _instance(group: Any, given: dict[str, Any]) -> Any:
    """A dataclass with the values given for its fields, which are taken out of `given`."""
    hints = get_type_hints(group)
    return group(
        **{
            field.name: _instance(hints[field.name], given)
            if is_dataclass(hints[field.name])
            else given.pop(field.name)
            for field in fields(group)
        }
    )
