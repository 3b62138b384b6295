"""`pursuit methods` and `pursuit tasks`: what can be named. They are listed from a file, because importing all methods
and tasks takes seconds. `python -m pursuit.cli.listing` writes the file, and a test holds it equal to the registry."""

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rich.table import Column

from pursuit import registry
from pursuit.cli.console import escaped, out, plain_table, print_json, show
from pursuit.cli.options import AsJson
from pursuit.research.tasks.files import folders

FILE = Path(__file__).with_suffix(".json")


def listing() -> dict[str, Any]:
    """The modules, methods and tasks there are: as the file says unless others may be known, from plugins or files
    dropped into the packages."""
    has_others = registry.is_in_use() or entry_points(group=registry.ENTRY_POINTS)
    if not has_others:
        written: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
        if written["modules"] == _modules():
            return written
    return registered()


def registered() -> dict[str, Any]:
    """The same from the registry, as JSON values."""
    from pursuit import METHODS
    from pursuit.research.experiments.compare import vip_first
    from pursuit.research.tasks import TASKS
    from pursuit.research.tasks.files import is_published

    methods = [{"method": name, "title": METHODS[name].title} for name in vip_first(METHODS)]
    tasks = [
        {
            "task": name,
            "n_queries": info.n_queries,
            "n_classes": info.n_classes,
            "n_train": info.n_train,
            "n_test": info.n_test,
            "recipes": list(info.recipes),
            "files": [[choice.path for choice in (file, *file.alternatives)] for file in info.files],
            "by_hand": list(dict.fromkeys(file.origin for file in info.files if not is_published(file))),
            "title": info.title,
        }
        for name, info in TASKS.items()
    ]
    return {"modules": _modules(), "methods": methods, "tasks": tasks}


def _modules() -> list[str]:
    """The files that methods and tasks are found in."""
    packages = (FILE.parents[1] / name for name in ("methods", "research/tasks"))
    return sorted(f"{package.name}/{path.name}" for package in packages for path in package.glob("*.py"))


def methods(as_json: AsJson = False) -> None:
    """List the methods: their names, and their titles in tables and figures."""
    known = listing()["methods"]
    if as_json:
        print_json({"methods": known})
        return
    table = plain_table(Column("method", no_wrap=True), "title", gap=2)
    for method in known:
        table.add_row(escaped(method["method"]), escaped(method["title"]))
    out.print(table)
    show("Train one with: pursuit train TASK_OR_FILE --method NAME")
    show("Compare some with: pursuit compare TASK_OR_FILE --methods NAME,NAME")


WIDE = 120
"""Least width of a terminal that has room for the titles of tasks."""


def tasks(as_json: AsJson = False) -> None:
    """List the tasks, their recipes, and whether their data are on this machine."""
    rows = [{**row, "present": all(map(_is_here, row.pop("files")))} for row in listing()["tasks"]]
    if as_json:
        print_json({"tasks": rows})
        return
    is_wide = out.width >= WIDE
    titles = ("queries", "classes", "rows", "recipes", "data", *(["what"] if is_wide else []))
    columns = [Column(title, overflow="fold") for title in titles]
    table = plain_table(Column("task", no_wrap=True), *columns)
    for row in rows:
        table.add_row(
            escaped(row["task"]),
            str(row["n_queries"]),
            str(row["n_classes"]),
            f"{row['n_train']:,} + {row['n_test']:,}",
            ", ".join(row["recipes"]),
            "here" if row["present"] else "absent",
            *([escaped(row["title"])] if is_wide else []),
        )
    out.print(table)
    absent = [row for row in rows if not row["present"]]
    if absent:
        show("Missing data are fetched when a task is first used, or with: pursuit data get TASK")
    by_hand: dict[str, list[str]] = {}
    for row in absent:
        if row["by_hand"]:
            by_hand.setdefault(" ".join(row["by_hand"]), []).append(row["task"])
    if by_hand:
        show(f"Files that have no public address belong below {next(iter(folders().values()))}:")
        for origin, names in by_hand.items():
            show(f"  {', '.join(names)}: {origin}")
    show("Any CSV or Parquet file is a task too: pursuit train FILE.csv --target COLUMN")


def _is_here(choices: list[str]) -> bool:
    """Whether one of the files that serve the same purpose is on the machine."""
    return any((folder / path).exists() for path in choices for folder in folders().values())


if __name__ == "__main__":
    FILE.write_text(json.dumps(registered(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
