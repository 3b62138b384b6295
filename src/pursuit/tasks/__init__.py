"""Tasks: data with a query set. One file a data set, found by being in this package; a CSV or Parquet file of your own
is a task too."""

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pursuit.registry import find, known
from pursuit.tasks import big_tables, tables
from pursuit.tasks.recipe import Recipe
from pursuit.tasks.task import Task, TaskInfo

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")  # registers the tasks it has


def load_task(source: str | Path, seed: int = 0, target: str | None = None, **table_options: Any) -> Task:
    """The task named `source`, with the settings of its fast recipe if it has one, or the CSV file (`tables.load`) or
    Parquet files (`big_tables.load`) at that path."""
    if str(source) in TASKS:
        if target is not None or any(table_options.get(name) for name in ("drop", "missing")):
            raise ValueError(
                f"'{source}' is a task with its own labels: --target, --drop and --missing are for CSV files and "
                "Parquet files."
            )
        info = TASKS[str(source)]
        task = info.load(seed)
        return task.with_recipe(info.recipes["fast"]) if "fast" in info.recipes else task
    if big_tables.is_big_table(source):
        return big_tables.load(source, target, seed=seed, **table_options)
    if not Path(source).exists() and not str(source).lower().endswith((".csv", ".tsv", ".txt")):
        raise ValueError(
            f"'{source}' is neither a task ({', '.join(TASKS)}) nor a CSV or Parquet file that exists. If it is a task "
            "of your own, import the module that registers it first, or name that module: pursuit --plugin MODULE …"
        )
    return tables.load(source, target, seed=seed, **table_options)


def find_recipe(task: str, name: str = "fast") -> Recipe:
    """The recipe of a task; raises ValueError naming those there are."""
    recipes: Mapping[str, Recipe] = find(TaskInfo.registry_kind, task).recipes
    if name not in recipes:
        raise ValueError(
            f"{task} has no recipe '{name}', only {', '.join(recipes)}."
            if recipes
            else f"{task} has no recipes: give the network, the stages and the stopping rule yourself."
        )
    return recipes[name]


# Below all definitions, because this loads the modules that installed packages register tasks in, which may use them.
TASKS: Mapping[str, TaskInfo] = known(TaskInfo.registry_kind)
EMBEDDED = tuple(
    name for name, info in TASKS.items() if not info.files and info.load.__module__.startswith(f"{__name__}.")
)
"""Tasks of our own that need no files."""

__all__ = ["EMBEDDED", "TASKS", "Task", "TaskInfo", "find_recipe", "load_task"]
