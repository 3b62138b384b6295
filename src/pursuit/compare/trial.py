"""A trial: on which rows methods are compared, and with which budget."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pursuit.devices import find_device
from pursuit.estimators import default_stages
from pursuit.reproduce import ROWS_HELD_APART, TEST_ROWS, Run
from pursuit.stages import Stage
from pursuit.stopping import parse_stop
from pursuit.tasks import TASKS, Task, load_task
from pursuit.tasks.big_tables import name_of
from pursuit.tasks.recipes import find_recipe
from pursuit.tasks.task import take_rows

DEFAULT_METHODS = ("vip", "random", "fixed", "tree", "naive-bayes", "all-answers")
"""Quick ones, and what each of the others has to beat."""
DEFAULT_RECIPE = "fast"


@dataclass(frozen=True)
class Trial:
    """What is compared, and how. For each seed all methods learn from the same rows and are measured on the same."""

    source: str | Path | Task
    """The name of a task, a CSV file, Parquet files, or a task itself, whose split is then that of all seeds."""
    methods: Sequence[str] = DEFAULT_METHODS
    """Names of methods; `exact` where a task has exact pursuit; or the one word `all`."""
    seeds: Sequence[int] = (0,)
    device: str = "cpu"
    recipe: str | None = None
    """Of a task by name: whose network, training plan and stopping rule all methods get; `fast` by default."""
    effort: float = 1.0
    """Train so many times as long."""
    stop: str | None = None
    """The rule at which lengths are compared, instead of the task's own."""
    max_queries: int | None = None
    """The most queries asked of a row, instead of the task's own."""
    max_rows: int | None = None
    """Measure on so many rows at most, the first ones."""
    to_choose_by: bool = False
    """Measure on a part of the rows to learn from, not on the test rows."""
    table_options: Mapping[str, Any] = field(default_factory=dict)
    """How to read a file: `target`, `drop`, `missing` and `test_share` of `load_task`."""
    _loaded: dict[int, Task] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        find_device(self.device)
        if self.stop is not None:
            parse_stop(self.stop)
        if not self.seeds or not self.methods:
            raise ValueError("At least one method and one seed are needed to compare.")
        if not self.effort > 0:
            raise ValueError(f"The effort is above 0, not {self.effort}.")
        if self.is_named:
            find_recipe(str(self.source), self.recipe_name)
            if any(self.table_options.get(name) for name in ("target", "drop", "missing")):
                load_task(str(self.source), **self.table_options)  # which says why not
        elif self.recipe is not None:
            raise ValueError(f"'{self.name}' has no recipes: --recipe is for the tasks {', '.join(TASKS)}.")

    @property
    def is_named(self) -> bool:
        """Whether it is a task known by name."""
        return isinstance(self.source, str) and self.source in TASKS

    @cached_property
    def name(self) -> str:
        if isinstance(self.source, Task):
            return self.source.name
        return str(self.source) if self.is_named else name_of(self.source)

    @property
    def options(self) -> list[str]:
        """What differs from the task's own plan, in words that may stand in the name of a folder."""
        return [
            *([self.recipe_name] if self.recipe_name != DEFAULT_RECIPE else []),
            *([f"effort {self.effort:g}"] if self.effort != 1 else []),
            *(["validation"] if self.to_choose_by else []),
        ]

    def load(self, seed: int) -> Task:
        """The task for a seed, with the settings that all methods get; the one loaded last is kept."""
        if seed not in self._loaded:
            self._loaded.clear()  # one task in memory is enough
            self._loaded[seed] = self._load(seed)
        return self._loaded[seed]

    def described(self) -> dict[str, Any]:
        """What tells the measurements of this trial from those of others, as JSON values."""
        described = {
            "task": self.name,
            "recipe": self.recipe_name if self.is_named else None,
            "effort": self.effort,
            "stop": self.stop,
            "max_queries": self.max_queries,
            "max_rows": self.max_rows,
            "measured_on": ROWS_HELD_APART if self.to_choose_by else TEST_ROWS,
            "settings": {key: str(value) for key, value in self._own_settings().items()},
        }
        if not self.is_named:  # the notes of a file have its checksum
            notes = {key: value for key, value in self.load(self.seeds[0]).notes.items() if key != "seed"}
            described |= {"notes": notes, "table_options": dict(self.table_options)}
        return json.loads(json.dumps(described, default=str))

    @property
    def recipe_name(self) -> str:
        return self.recipe or DEFAULT_RECIPE

    def _own_settings(self) -> dict[str, Any]:
        """What the task suggests before any of its rows are seen."""
        if self.is_named:
            recipe = find_recipe(self.name, self.recipe_name)
            return {**recipe.settings(), "query_options": dict(recipe.query_options)}
        return dict(self.source.settings) if isinstance(self.source, Task) else {}

    def _load(self, seed: int) -> Task:
        if isinstance(self.source, Task):
            task = self.source.to_choose_by() if self.to_choose_by else self.source
        elif self.is_named:
            recipe = find_recipe(self.name, self.recipe_name)
            task = Run(self.name, self.recipe_name, recipe, to_choose_by=self.to_choose_by).load(seed)
            task = replace(task, settings=recipe.settings())
        else:
            task = load_task(self.source, seed, **self.table_options)
            task = task.to_choose_by() if self.to_choose_by else task
        if not len(task.y_test):
            raise ValueError(f"There are no rows of {self.name} kept apart to measure on: methods cannot be compared.")
        shown = slice(self.max_rows)
        return replace(
            task,
            X_test=take_rows(task.X_test, shown),
            y_test=task.y_test[shown],
            opening_test=None if task.opening_test is None else task.opening_test[shown],
            settings=self._settings(task),
        )

    def _settings(self, task: Task) -> dict[str, Any]:
        """The arguments of estimators that the task suggests, as this trial changes them."""
        settings = dict(task.settings)
        asking = (("stop", self.stop), ("max_queries", self.max_queries))
        settings |= {name: value for name, value in asking if value is not None}
        if self.effort != 1:
            n_rows, n_queries = len(task.X_train), len(task.query_set)
            stages = settings.get("stages") or default_stages(n_rows, n_queries, settings.get("max_queries"))
            settings["stages"] = [_stretched(stage, self.effort) for stage in stages]
        return settings


def _stretched(stage: Stage, effort: float) -> Stage:
    period = None if stage.period is None else stage.period * effort
    return replace(stage, epochs=stage.epochs * effort, period=period)
