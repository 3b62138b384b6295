"""`pursuit tasks`: the tasks that can be named."""

from rich.table import Column

from pursuit.cli.console import escaped, out, plain_table, print_json, show
from pursuit.cli.listing import listing
from pursuit.cli.options import AsJson
from pursuit.research.tasks.files import folders

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
