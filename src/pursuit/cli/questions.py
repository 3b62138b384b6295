"""`pursuit questions`: a first draft of how the columns of a file are asked, to edit and to train with."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import Decimal, Drop, Encoding, Kind, Missing, Source, Target
from pursuit.cli.console import err, escaped, remark_on_task
from pursuit.files import write_whole
from pursuit.queries import Questions
from pursuit.tasks import TASKS, load_task
from pursuit.tasks.tables import parse_kinds


def questions(
    source: Source,
    target: Target = None,
    to: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("questions.toml"),
    drop: Drop = None,
    missing: Missing = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    kind: Kind = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write down how the columns of a file would be asked: a TOML file to edit, for `pursuit train --questions`."""
    if source in TASKS:
        raise ValueError(f"'{source}' is a task with its own questions: give a CSV file or Parquet files.")
    if to.exists() and (to.is_dir() or not force):
        raise ValueError(f"{to} is there already: choose another --out, or add --force to replace it.")
    if not to.parent.is_dir():
        raise ValueError(f"There is no folder {to.parent} to write {to.name} into: make it first.")
    reading = {"missing": missing or (), "encoding": encoding, "decimal": decimal, "kinds": parse_kinds(kind or ())}
    task = load_task(source, 0, target, drop=drop or (), test_share=0.0, **reading)  # type: ignore[arg-type]
    remark_on_task(task)
    options = [word for text in missing or () for word in ("--missing", text)]
    options += [word for text in kind or () for word in ("--kind", text)]
    options += [*(["--encoding", encoding] if encoding else []), *(["--decimal", decimal] if decimal else [])]
    command = ["pursuit", "train", source, "--target", str(target), *options, "--questions", str(to)]
    text = Questions.draft(task.query_set, shlex.join(command), never_asked=drop or ())
    write_whole(to, text.encode())
    err.print(escaped(f"Written to {to}. Edit it, then: {shlex.join(command)}"), soft_wrap=True, highlight=False)
