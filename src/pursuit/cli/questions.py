"""`pursuit questions`: a first draft of how the columns of a file are asked, to edit and to train with."""

import re
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pursuit.cli.console import remark_on_task, say, say_if_wide, show
from pursuit.cli.options import ColumnOptions, Regress, Source, words_of
from pursuit.files import read_bytes, write_whole
from pursuit.registry import Option

MOST_LABELS = 20
"""More numbers than this are a number that is predicted, not labels."""


def questions(
    source: Source,
    *,
    to: Annotated[Path, Option("The file to write.", "--out")] = Path("questions.toml"),
    regress: Regress = False,
    table: ColumnOptions,
    force: Annotated[bool, Option("Replace the file if it is there.", "--force")] = False,
    prompt: Annotated[
        bool, Option("Print a prompt instead, which any language model answers with the questions.", "--prompt")
    ] = False,
    prompt_language: Annotated[str | None, Option("With --prompt: the language to write in, such as German.")] = None,
    reply: Annotated[
        Path | None, Option("The reply of a language model to the prompt: it is checked, compared and written.")
    ] = None,
) -> None:
    """Write down how the columns of a file would be asked: a TOML file to edit, for `pursuit train --questions`."""
    from pursuit.queries import Questions
    from pursuit.research.tasks import TASKS, load_task

    if source in TASKS:
        raise ValueError(f"'{source}' is a task with its own questions: give a CSV file or Parquet files.")
    if prompt and reply is not None:
        raise ValueError("First --prompt, then --reply with what the language model answered.")
    if prompt_language is not None and not prompt:
        raise ValueError("--prompt-language is that of the reply: it goes with --prompt.")
    if not prompt and to.exists() and (to.is_dir() or not force):
        raise ValueError(f"{to} is there already: choose another --out, or add --force to replace it.")
    if not prompt and not to.parent.is_dir():
        raise ValueError(f"There is no folder {to.parent} to write {to.name} into: make it first.")
    say_if_wide(source)
    task = load_task(source, test_share=0.0, regress=regress, **table.reading())
    remark_on_task(task)
    if prompt:
        _print_prompt(task, table, prompt_language)
        return
    # What is dropped is written down as never asked.
    chosen = [*(["--regress"] if regress else []), *words_of(replace(table, drop=None))]
    command = ["pursuit", "train", source, *chosen, "--questions", str(to)]
    text = Questions.draft(task.query_set, shlex.join(command), never_asked=table.drop or ())
    if reply is not None:
        text = _replied(task, reply)
    write_whole(to, text.encode())
    say(f"Written to {to}. Edit it, then: {shlex.join(command)}")


def _print_prompt(task: Any, table: ColumnOptions, language: str | None) -> None:
    from pursuit.web.connect.prompt import prompt_for

    labels = sorted({str(label) for label in task.y_train})
    is_number = len(labels) > MOST_LABELS and all(re.fullmatch(r"-?\d+(\.\d+)?", label) for label in labels)
    show(prompt_for(task.query_set, str(table.target), None if is_number else labels, language), end="")


def _replied(task: Any, reply: Path) -> str:
    """The questions file that a reply makes, after showing what it changes."""
    from pursuit.web.connect.prompt import difference, merged, narrow_ranges, read_reply

    content = read_bytes(reply, "a reply")
    try:
        text = content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{reply} is not UTF-8 text: save the reply as such.") from None
    read = read_reply(text, task.query_set)
    before, after = merged(task.query_set, read)
    show(difference(before, after) or "The reply changes nothing.")
    absent = [one.name for one in after.settings if one.name not in {other.name for other in read.settings}]
    if absent:
        say(f"The reply says nothing of {', '.join(absent)}: they stay as they were.")
    for sentence in narrow_ranges(task.query_set, read, task.X_train):
        say(sentence)
    return after.to_toml()
