"""Tasks: data with a query set. One file a data set; a CSV file of the user's is a task too."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pursuit.tasks import animals, digits, tables
from pursuit.tasks.task import Task


class Embedded(NamedTuple):
    """A task that needs no download."""

    title: str
    load: Callable[[int], Task]


TASKS: dict[str, Embedded] = {
    "animals": Embedded(animals.TITLE, animals.load),
    "digits": Embedded(digits.TITLE, digits.load),
}


def load_task(source: str | Path, seed: int = 0, target: str | None = None, **table_options: Any) -> Task:
    """The embedded task named `source`, or the CSV file at that path (see `tables.load`)."""
    if str(source) in TASKS:
        if target is not None or any(table_options.get(name) for name in ("drop", "missing")):
            raise ValueError(
                f"'{source}' is an embedded task with its own labels: --target, --drop and --missing are for CSV files."
            )
        return TASKS[str(source)].load(seed)
    if not Path(source).exists() and not str(source).lower().endswith((".csv", ".tsv", ".txt")):
        raise ValueError(f"'{source}' is neither a task ({', '.join(TASKS)}) nor a CSV file that exists.")
    return tables.load(source, target, seed=seed, **table_options)


__all__ = ["TASKS", "Task", "load_task"]
