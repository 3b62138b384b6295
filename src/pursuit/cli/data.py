"""`pursuit data`: the files of the tasks: where they are, whether they are good, and how to fetch them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Column, Table

from pursuit.cli.console import err, escaped, out, print_json, say, show
from pursuit.cli.options import AsJson, with_options
from pursuit.registry import find
from pursuit.research.tasks import files
from pursuit.research.tasks.files import DataFile

commands = typer.Typer(no_args_is_help=True, add_completion=False)

STYLES = {"good": "green", "damaged": "bold red", "absent": "dim", "unchecked": "yellow"}


@commands.callback()
def data() -> None:
    """The data files of the tasks: list, get, verify."""


@commands.command("list")
@with_options
def list_files(as_json: AsJson = False) -> None:
    """List the tasks with their files: which are there, their size, and where they are."""
    from pursuit.research.tasks import TASKS

    tasks: list[dict[str, Any]] = [
        {
            "task": name,
            "complete": all(files.locate(file) for file in info.files),
            "files": [_listed(file) for file in info.files],
        }
        for name, info in TASKS.items()
    ]
    if as_json:
        print_json({"tasks": tasks})
        return
    table = Table(Column("task", no_wrap=True), "files", "size", "where", Column("absent", overflow="fold"))
    for task in tasks:
        table.add_row(*_row(task), style=None if task["complete"] else "dim")
    out.print(table)
    show("To fetch missing files: pursuit data get TASK. To list the folders: pursuit data where.")


@commands.command()
@with_options
def get(
    tasks: Annotated[list[str], typer.Argument(help="Names of tasks (see `pursuit data list`).", metavar="TASK...")],
    as_json: AsJson = False,
) -> None:
    """Fetch the files of tasks that are absent or damaged."""
    from pursuit.research.tasks import TASKS

    _check_names(tasks)
    results: list[dict[str, Any]] = []
    with _download_bars() as progress:
        for name in dict.fromkeys(tasks):
            results.append({"task": name, "files": _get_all(name, TASKS[name].files, progress)})
    failed = [file for task in results for file in task["files"] if file["error"]]
    if as_json:
        print_json({"complete": not failed, "tasks": results})
    for task in () if as_json else results:
        n_files, n_failed = len(task["files"]), sum(bool(file["error"]) for file in task["files"])
        state = f"{n_files - n_failed} of {n_files} files are there" if n_files else "embedded, no files are needed"
        show(f"{task['task']}: {state}.")
    for error in dict.fromkeys(file["error"] for file in failed):
        err.print(f"[bold red]Error:[/] {escaped(error)}", soft_wrap=True)
    if failed:
        raise typer.Exit(1)


@commands.command()
@with_options
def verify(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Names of tasks; by default all.", metavar="[TASK...]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the checksums of the files that are there; the exit code is 1 if a file is damaged."""
    from pursuit.research.tasks import TASKS

    _check_names(tasks or [])
    known: dict[DataFile, dict[str, Any]] = {}  # tasks may share files
    rows = []
    for name in dict.fromkeys(tasks or TASKS):
        for file in TASKS[name].files:
            if file not in known:
                known[file] = _verified(file)
            rows.append({"task": name, **known[file]})
    damaged = any(row["state"] == "damaged" for row in rows)
    if as_json:
        print_json({"good": not damaged, "files": rows})
    elif not rows:
        show("These tasks are embedded: they need no files.")
    else:
        table = Table(Column("file", overflow="fold"), Column("state", no_wrap=True))
        different = {row["file"]: row for row in rows}.values()
        for row in different:
            table.add_row(row["file"], row["state"], style=STYLES[row["state"]])
        out.print(table)
        for row in different:
            if row["remark"]:  # not in the table, which would break its path
                show(row["remark"])
        if any(row["state"] == "unchecked" for row in rows):
            show("Unchecked files have no published checksum.")
    if damaged:
        say("To fetch damaged files again: pursuit data get TASK")
        raise typer.Exit(1)


@commands.command()
@with_options
def where(as_json: AsJson = False) -> None:
    """Show the folders that are searched for files, in order; files are fetched into the last."""
    rows: list[dict[str, Any]] = [
        {"name": name, "folder": str(folder), "exists": folder.is_dir()} for name, folder in files.folders().items()
    ]
    if as_json:
        print_json({"folders": rows})
        return
    for number, row in enumerate(rows, start=1):  # no table, which would break long paths
        there = "" if row["exists"] else " (does not exist yet)"
        out.print(f"{number}. {row['name']}: {escaped(row['folder'])}{there}", soft_wrap=True, highlight=False)
    show("Name your own with the environment variables PURSUIT_DATA and PURSUIT_CACHE.")


def _check_names(names: Sequence[str]) -> None:
    """Raise ValueError for the first that is not a task."""
    from pursuit.research.tasks import TaskInfo

    for name in names:
        find(TaskInfo.registry_kind, name)


def _row(task: dict[str, Any]) -> list[str]:
    """A task's line of the list, short enough for a screen."""
    if not task["files"]:
        return [task["task"], "none needed", "", "embedded", ""]
    present = [file for file in task["files"] if file["present"]]
    absent = [Path(file["file"]).name for file in task["files"] if not file["present"]]
    return [
        task["task"],
        f"{len(present)} of {len(task['files'])}",
        decimal(sum(file["size"] for file in present)) if present else "",
        "\n".join(dict.fromkeys(_folder_name(Path(file["where"])) for file in present)),
        escaped(", ".join(absent[:1]) + (f" and {len(absent) - 1} more" if len(absent) > 1 else "")),
    ]


def _folder_name(path: Path) -> str:
    return next(name for name, folder in files.folders().items() if path.is_relative_to(folder))


def _listed(file: DataFile) -> dict[str, Any]:
    found = files.locate(file)
    path = found.path if found else None
    return {
        "file": file.path,
        "present": path is not None,
        "size": _bytes(path) if path else file.size or None,
        "where": str(path) if path else None,
        "url": file.url or (file.archive.url if file.archive else ""),
        "origin": file.origin,
    }


def _verified(file: DataFile) -> dict[str, Any]:
    row: dict[str, Any] = {"file": file.path, "state": "absent", "where": None, "remark": ""}
    if found := files.locate(file):
        row |= {"file": found.file.path, "where": str(found.path)}
        wrong = files.damage(*found)
        if wrong:
            row |= {"state": "damaged", "remark": f"{found.path}: {wrong}"}
        elif found.path.is_dir() or not (found.file.md5 or found.file.sha256):
            row["state"] = "unchecked"
        else:
            row["state"] = "good"
    return row


def _get_all(task: str, wanted: Sequence[DataFile], progress: Progress) -> list[dict[str, Any]]:
    """Get the files one by one; if one fails, the others are got all the same."""
    failures: dict[DataFile, str] = {}  # of an archive: the other files in it need not be tried
    results = []
    for file in wanted:
        source = file.archive or file
        bar = progress.add_task(file.path, total=None, visible=False)

        def on_progress(done: int, total: int | None, bar: Any = bar) -> None:
            progress.update(bar, completed=done, total=total, visible=True)

        path = None
        if source not in failures:
            try:
                path = str(files.get(file, task, on_progress))
            except (ValueError, OSError) as error:
                failures[source] = str(error)
        results.append({"file": file.path, "where": path, "error": None if path else failures[source]})
    return results


def _download_bars() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=err)


def _bytes(path: Path) -> int:
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size
