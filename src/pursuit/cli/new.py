"""`pursuit new`: from a file to a served interview. Each step is asked for in a terminal, has a default, and is an
option."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pursuit.cli.console import escaped, out, plain_table, remark_on_task, say, say_if_wide, show
from pursuit.cli.options import ColumnOptions, Source, TableOptions, words_of
from pursuit.files import make_folder, write_whole
from pursuit.registry import Option

if TYPE_CHECKING:
    import pandas as pd

    from pursuit.research.tasks.task import Task

MOST_SHOWN = 100
"""Number of questions that are listed."""
GUESSED_ROWS = 5000
"""The label of Parquet and Arrow files is guessed by about this many of their rows."""


def new(
    source: Source,
    *,
    table: ColumnOptions,
    keep: Annotated[list[str] | None, Option("A column that gives the label away, to be asked all the same.")] = None,
    questions: Annotated[
        Path | None,
        Option("How columns are asked; by default a first draft, which is written beside the model.", metavar="FILE"),
    ] = None,
    to: Annotated[Path | None, Option("The folder of the model; by default runs/NAME.", "--out")] = None,
    overwrite: Annotated[bool, Option("Replace the model that is in the folder.")] = False,
    yes: Annotated[bool, Option("Ask nothing, and take every default; so it is without a terminal, too.")] = False,
    serves: Annotated[bool, Option("Serve the interview in the end.", "--serve/--no-serve")] = True,
    port: Annotated[int, Option("The port to serve on; 0 takes any that is free.", min=0, max=65535)] = 8000,
) -> None:
    """Make an interview of a file: choose the label, look at the questions, train, and serve it."""
    from pursuit.cli.train import TrainingOptions, check_free, train
    from pursuit.research.tasks import TASKS, load_task
    from pursuit.tables.labels import guess_target, is_amount, leaking_columns, split_target

    if source in TASKS:
        raise ValueError(f"'{source}' is a task with its own questions: train it with pursuit train {source}.")
    asks = not yes and _somebody_is_there()
    say_if_wide(source)
    frame = _frame(source, table)
    target = table.target
    if target is None:
        target = _answer(asks, "Which column is to be found out?", guess_target(frame, source), list(frame.columns))
        say(f"The interview finds out '{target}'. Another: --target COLUMN")
    regress = target in frame.columns and is_amount(frame[target].dropna())
    columns = replace(table, target=target)
    task = load_task(source, questions=questions, regress=regress, **columns.reading())
    folder = to or Path("runs") / task.name
    check_free(folder, resume=False, overwrite=overwrite)  # before anything more is asked
    X, y = task.X_train, task.y_train
    if y is None:  # rows are streamed
        X, y = split_target(frame, target, source)
        X = X[list(task.X_test.columns)]
    leaking = leaking_columns(X, y, regress)
    left_out = [name for name in leaking if name not in (keep or ()) and len(X.columns) > len(leaking)]
    for name in left_out:
        why = f"'{name}' gives '{target}' away by itself, as what is known only afterwards does."
        if _agreed(asks, f"{why} Leave it out?"):
            columns = replace(columns, drop=[*(columns.drop or ()), name])
            say(f"{why} It is left out; --keep '{name}' asks for it.")
    if columns.drop != table.drop:
        task = load_task(source, questions=questions, regress=regress, **columns.reading())
    if asks:  # others read the same when training begins
        remark_on_task(task)
    _print_questions(task)
    while asks and (typed := typer.prompt("Ask a column in another way? COLUMN=TYPE, or nothing", default="").strip()):
        try:
            changed = replace(columns, column_type=[*(columns.column_type or ()), typed])
            task = load_task(source, questions=questions, regress=regress, **changed.reading())
            columns = changed
            _print_questions(task)
        except ValueError as error:
            say(str(error))
    if questions is None:
        questions = folder.with_name(f"{folder.name}.toml")
        if questions.exists():
            say(f"It asks as {questions} says, which was there before: remove that file to begin with a new one.")
        else:
            make_folder(questions.parent)
            write_whole(questions, _draft(task, source, columns, questions).encode())
            say(f"How it is asked is written to {questions}: edit it to change words, and train again.")
        if asks:
            typer.prompt(f"Edit {questions} now if you like, then press Enter", default="", show_default=False)
    train(
        source,
        to=folder,
        regress=regress,
        table=TableOptions(**vars(columns), questions=questions),
        options=TrainingOptions(),
        overwrite=overwrite,
    )
    if serves and _agreed(asks, "Serve it now?"):
        from pursuit.cli.serve import serve
        from pursuit.web.serving.options import ServingOptions

        serve(models=[folder], port=port, serving=ServingOptions())
    else:
        show(f"Serve it: pursuit serve {folder}")


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _frame(source: str, table: ColumnOptions) -> "pd.DataFrame":
    """The table, to guess by; of Parquet and Arrow files, which may be larger than memory, some of the rows."""
    from pursuit.tables.arrow import UNASKABLE
    from pursuit.tables.csv import CsvOptions, read_csv
    from pursuit.tables.filesystem import find_path, is_database, local, with_query
    from pursuit.tables.source import ArrowSource, csv_files, find_csv_file

    source, missing = with_query(source, table.query), tuple(table.missing or ())
    if not is_database(source) and (not csv_files(source) or find_csv_file(source) is None):
        rows = ArrowSource(source, missing=missing)
        columns = [name for name, held in rows.column_types.items() if held not in UNASKABLE]
        every = -(-rows.n_rows // GUESSED_ROWS)
        return rows.rows(columns, lambda numbers: numbers % every == 0)[1].to_pandas()
    with local(find_path(source)) as path:
        return read_csv(path, CsvOptions(missing, table.encoding, table.decimal, table.sheet)).frame


def _answer(asks: bool, question: str, default: str, choices: list[str]) -> str:
    """What a person chooses, by its name or its number; the default where nobody is asked."""
    if not asks:
        return default
    for number, choice in enumerate(choices, start=1):
        show(f"  {number:>3}  {choice}")
    while True:
        typed: str = typer.prompt(question, default=default).strip()
        if typed in choices:
            return typed
        if typed.isdecimal() and 1 <= int(typed) <= len(choices):
            return choices[int(typed) - 1]
        say(f"There is no column '{typed}'.")


def _agreed(asks: bool, question: str) -> bool:
    return typer.confirm(question, default=True) if asks else True


def _print_questions(task: "Task") -> None:
    shown = plain_table("column", "question", "answers", gap=3)
    queries = task.query_set.queries
    for query in queries[:MOST_SHOWN]:
        shown.add_row(*(escaped(text) for text in (query.name, query.text, query.expected)))
    out.print(shown)
    if len(queries) > MOST_SHOWN:
        say(f"These are the first of {len(queries):,} questions.")


def _draft(task: "Task", source: str, columns: ColumnOptions, to: Path) -> str:
    from pursuit.queries import Questions
    from pursuit.tables.filesystem import display_name

    command = ["pursuit", "new", display_name(source), *words_of(columns), "--questions", str(to), "--overwrite"]
    return Questions.draft(task.query_set, shlex.join(command))
