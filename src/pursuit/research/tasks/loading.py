"""All tasks by name, and how they are loaded."""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pursuit.inference.pursuer import label_list, label_text
from pursuit.queries import QuerySet, Questions
from pursuit.queries.parts import BETWEEN
from pursuit.registry import find, known
from pursuit.research.tasks import tables
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.tables.csv import ENDINGS
from pursuit.tables.filesystem import is_database, with_query
from pursuit.tables.source import find_csv_file
from pursuit.tables.streaming import ParquetRows

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    importlib.import_module(f"{__package__}.{_module.name}")  # registers the tasks it has

TASKS: Mapping[str, TaskInfo] = known(TaskInfo.registry_kind)
"""All tasks by name, those registered later included."""
EMBEDDED = ("animals", "digits")
"""Tasks that need no files."""
FILE_OPTIONS = {"column_types": "column-type", "missing_informs": "missing-informs"}
"""Options of the program that read files, where they are not called as in Python."""


def load_task(
    source: str | Path,
    seed: int = 0,
    target: str | None = None,
    *,
    queries: str | None = None,
    costs: Mapping[str, float] | None = None,
    questions: str | Path | Questions | None = None,
    **table_options: Any,
) -> Task:
    """The task named `source`, with the settings of its fast recipe if it has one, or the CSV or Parquet files at that
    path (`tables.load_table`).

    `queries` names a registered query set to read the rows of a CSV file with, by its `from_data`; by default every
    column is a query. `costs` says by name what queries cost; those of columns that are left out do not matter.
    `questions` is a questions file, which says how columns are asked. Of a database, by its address, the option `query`
    selects the rows.
    """
    source = with_query(source, table_options.pop("query", None))
    asked_as = None if questions is None else Questions.read(questions)
    if asked_as is not None:
        if str(source) in TASKS or queries:
            raise ValueError("A questions file is for CSV and Parquet files, where every column is a query.")
        drop = table_options.get("drop", ())
        table_options["drop"] = [
            *drop,
            *(name for name in asked_as.never_asked if name not in drop and BETWEEN not in name),
        ]
        table_options["column_types"] = {**asked_as.column_types, **(table_options.get("column_types") or {})}
    task = _load(source, seed, target, queries, table_options)
    left_out = {*table_options.get("drop", ()), *task.notes.get("unasked_columns", ())}
    if asked_as is not None:
        labels = None if table_options.get("regress") else _labels(task)
        asked_as.check_results(labels)
        task = _asked_as(task, asked_as, left_out)
        asked_as.check_languages(task.query_set, labels)
    return task.with_costs({name: cost for name, cost in (costs or {}).items() if name not in left_out})


def _labels(task: Task) -> list[str]:
    labels = task.X_train.classes if isinstance(task.X_train, ParquetRows) else np.unique(task.y_train)
    return [label_text(label) for label in label_list(labels)]


def _asked_as(task: Task, questions: Questions, left_out: Collection[str]) -> Task:
    """The task of a file, with its columns asked as the questions say."""
    query_set = questions.apply(task.query_set, left_out)
    X_train = task.X_train.with_queries(query_set) if isinstance(task.X_train, ParquetRows) else task.X_train
    notes = {**task.notes, "questions": questions.to_toml()}
    return replace(task, query_set=query_set, X_train=X_train, notes=notes)


def _load(
    source: str | Path, seed: int, target: str | None, queries: str | None, table_options: Mapping[str, Any]
) -> Task:
    if str(source) in TASKS:
        given = {"target": target, "queries": queries, **table_options, "test_share": None}  # which is never absent
        options = [f"--{FILE_OPTIONS.get(name, name)}" for name, value in given.items() if value]
        if options:
            raise ValueError(
                f"'{source}' is a task with its own queries and labels: {' and '.join(options)} "
                f"{'is' if len(options) == 1 else 'are'} for CSV files and Parquet files."
            )
        info = TASKS[str(source)]
        task = info.load(seed)
        return task.with_recipe(info.recipes["fast"]) if "fast" in info.recipes else task
    path = None if is_database(source) else find_csv_file(source)
    if path is not None and not path.exists() and not path.name.lower().endswith(ENDINGS):
        raise ValueError(
            f"'{source}' is neither a task ({', '.join(TASKS)}) nor a CSV or Parquet file that exists. If it is a task "
            "of your own, import the module that registers it first, or name that module: pursuit --plugin MODULE …"
        )
    from_data = _from_data(queries) if queries else None
    return tables.load_table(source, target, seed=seed, from_data=from_data, **table_options)


def _from_data(name: str) -> Callable[[Any], QuerySet]:
    """The function that makes the query set of this name from training rows."""
    make: Callable[[Any], QuerySet] | None = getattr(find(QuerySet.registry_kind, name), "from_data", None)
    if make is None:
        raise ValueError(f"{name} cannot be made from a table: it has no from_data.")
    return make


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
