"""`pursuit tasks`: what can be trained on by name."""

from rich.table import Column, Table

from pursuit.cli.app import AsJson
from pursuit.cli.console import escaped, out, print_json
from pursuit.tasks import TASKS, files

WIDE = 120
"""From this many columns on, a terminal has room for what each task is about."""


def tasks(as_json: AsJson = False) -> None:
    """List the tasks, their recipes, and whether their data are on this machine."""
    rows = [
        {
            "task": name,
            "n_queries": info.n_queries,
            "n_classes": info.n_classes,
            "n_train": info.n_train,
            "n_test": info.n_test,
            "recipes": list(info.recipes),
            "present": all(files.locate(file) for file in info.files),
            "title": info.title,
        }
        for name, info in TASKS.items()
    ]
    if as_json:
        print_json({"tasks": rows})
        return
    is_wide = out.width >= WIDE
    titles = ("queries", "classes", "rows", "recipes", "data", *(["what"] if is_wide else []))
    columns = [Column(title, overflow="fold") for title in titles]
    table = Table(Column("task", no_wrap=True), *columns, box=None, padding=(0, 1, 0, 0), header_style="underline")
    for row, info in zip(rows, TASKS.values(), strict=True):
        table.add_row(
            escaped(info.name),
            str(info.n_queries),
            str(info.n_classes),
            f"{info.n_train:,} + {info.n_test:,}",
            ", ".join(info.recipes),
            "here" if row["present"] else "absent",
            *([escaped(info.title)] if is_wide else []),
        )
    out.print(table)
    if not all(row["present"] for row in rows):
        out.print("Missing data are fetched when a task is first used, or with: pursuit data get TASK")
    out.print("Any CSV or Parquet file is a task too: pursuit train FILE.csv --target COLUMN")
