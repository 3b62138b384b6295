"""Tasks: data with a query set. One file a data set; CSV and Parquet files of the user's are tasks too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pursuit.tasks import animals, big_tables, cifar, cub, dialogues, digits, huffpost, mnist, symcat, tables
from pursuit.tasks.recipes import find_recipe
from pursuit.tasks.task import Task, TaskInfo

EMBEDDED = ("animals", "digits")
TASKS: dict[str, TaskInfo] = {
    info.name: info
    for info in (
        animals.INFO,
        digits.INFO,
        *mnist.INFOS,
        *cifar.INFOS,
        cub.INFO,
        huffpost.INFO,
        *symcat.INFOS,
        *dialogues.INFOS,
    )
}


def load_task(source: str | Path, seed: int = 0, target: str | None = None, **table_options: Any) -> Task:
    """The task named `source`, with the settings of its fast recipe, or the CSV file (`tables.load`) or Parquet files
    (`big_tables.load`) at that path."""
    if str(source) in TASKS:
        if target is not None or any(table_options.get(name) for name in ("drop", "missing")):
            raise ValueError(
                f"'{source}' is a task with its own labels: --target, --drop and --missing are for CSV files and "
                "Parquet files."
            )
        recipe, task = find_recipe(str(source)), TASKS[str(source)].load(seed)
        query_set = task.query_set.with_options(**recipe.query_options) if recipe.query_options else task.query_set
        return replace(task, query_set=query_set, settings=recipe.settings())
    if big_tables.is_big_table(source):
        return big_tables.load(source, target, seed=seed, **table_options)
    if not Path(source).exists() and not str(source).lower().endswith((".csv", ".tsv", ".txt")):
        raise ValueError(f"'{source}' is neither a task ({', '.join(TASKS)}) nor a CSV or Parquet file that exists.")
    return tables.load(source, target, seed=seed, **table_options)


__all__ = ["EMBEDDED", "TASKS", "Task", "TaskInfo", "load_task"]
