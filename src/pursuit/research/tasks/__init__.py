"""Tasks: data with a query set. One file a data set, found by being in this package; a CSV or Parquet file of your own
is a task too. `loading` finds them all; it is imported on first access to one of the names below."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pursuit.research.tasks.loading import EMBEDDED, TASKS, find_recipe, load_task
    from pursuit.research.tasks.task import Task, TaskInfo

__all__ = ["EMBEDDED", "TASKS", "Task", "TaskInfo", "find_recipe", "load_task"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("pursuit.research.tasks.loading"), name)
