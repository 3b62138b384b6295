"""`pursuit questions`: a first draft of how the columns of a file are asked, to edit and to train with."""

import shlex
from pathlib import Path
from typing import Annotated

from pursuit.cli.console import err, escaped, remark_on_task
from pursuit.cli.options import ColumnOptions, Source
from pursuit.files import write_whole
from pursuit.options import Option


def questions(
    source: Source,
    *,
    to: Annotated[Path, Option("The file to write.", "--out")] = Path("questions.toml"),
    table: ColumnOptions,
    force: Annotated[bool, Option("Replace the file if it is there.", "--force")] = False,
) -> None:
    """Write down how the columns of a file would be asked: a TOML file to edit, for `pursuit train --questions`."""
    from pursuit.queries import Questions
    from pursuit.research.tasks import TASKS, load_task

    if source in TASKS:
        raise ValueError(f"'{source}' is a task with its own questions: give a CSV file or Parquet files.")
    if to.exists() and (to.is_dir() or not force):
        raise ValueError(f"{to} is there already: choose another --out, or add --force to replace it.")
    if not to.parent.is_dir():
        raise ValueError(f"There is no folder {to.parent} to write {to.name} into: make it first.")
    task = load_task(source, test_share=0.0, **table.reading())
    remark_on_task(task)
    once = {
        "--encoding": table.encoding,
        "--decimal": table.decimal,
        "--sheet": table.sheet,
        "--query": table.query,
    }
    repeated = {"--missing": table.missing, "--column-type": table.column_type}
    options = [word for option, texts in repeated.items() for text in texts or () for word in (option, text)]
    options += [word for option, text in once.items() if text for word in (option, text)]
    command = ["pursuit", "train", source, "--target", str(table.target), *options, "--questions", str(to)]
    text = Questions.draft(task.query_set, shlex.join(command), never_asked=table.drop or ())
    write_whole(to, text.encode())
    err.print(escaped(f"Written to {to}. Edit it, then: {shlex.join(command)}"), soft_wrap=True, highlight=False)
