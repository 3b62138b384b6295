"""A trial: on which rows methods are compared, and with which budget."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pursuit.estimators import default_stages
from pursuit.experiments.run import TEST_ROWS, VALIDATION_ROWS, curve_end, load_split
from pursuit.inference.stopping import parse_stop
from pursuit.networks import NetworkSettings
from pursuit.registry import find
from pursuit.tables.source import name_of
from pursuit.tasks import TASKS, Task, find_recipe, load_task
from pursuit.tasks.recipe import Recipe
from pursuit.training.devices import find_device

DEFAULT_METHODS = ("vip", "random", "fixed", "tree", "naive-bayes", "all-answers")
"""Quick ones, and what each of the others has to beat."""
DEFAULT_RECIPE = "fast"


@dataclass(frozen=True)
class Trial:
    """What is compared, and how. For each seed all methods learn from the same rows and are measured on the same."""

    source: str | Path | Task
    """The name of a task, a CSV file, Parquet files, or a task itself, whose split is then that of all seeds."""
    methods: Sequence[str] = DEFAULT_METHODS
    """Names of methods; `exact` if the task has exact Information Pursuit; or the one word `all`."""
    seeds: Sequence[int] = (0,)
    device: str = "cpu"
    recipe: str | None = None
    """The recipe of a named task whose network, training plan and stopping rule all methods get; `fast` by default."""
    effort: float = 1.0
    """How much longer to train than planned."""
    network: str | None = None
    """A network by name, with its usual sizes, instead of the task's own."""
    stop: str | None = None
    """The stopping rule that lengths are compared at, instead of the task's own."""
    max_queries: int | None = None
    """The most queries asked of a row, instead of the task's own limit; curves end there too, and otherwise as
    `curve_end` says."""
    max_rows: int | None = None
    """The most rows to measure on; they are the first ones."""
    validation: bool = False
    """Measure on held-out training rows instead of the test rows, to choose settings by."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """What queries cost, by name; the others cost what the task says."""
    cost_aware: bool = False
    """Whether methods that can (`cost_aware`) ask by information for each unit of cost; the others ask as always."""
    table_options: Mapping[str, Any] = field(default_factory=dict)
    """How to read a file: `target`, `queries` and `table_options` of `load_task`."""
    _loaded: dict[int, Task] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        find_device(self.device)
        if self.stop is not None:
            parse_stop(self.stop)
        if self.network is not None:
            find(NetworkSettings.registry_kind, self.network)
        if not self.seeds or not self.methods:
            raise ValueError("At least one method and one seed are needed for a comparison.")
        if not self.effort > 0:
            raise ValueError(f"The effort must be above 0, not {self.effort}.")
        if self.is_named:
            self.find_recipe()
            if any(value for name, value in self.table_options.items() if name != "test_share"):
                load_task(str(self.source), **self.table_options)  # which says why not
        elif self.recipe is not None:
            raise ValueError(f"'{self.name}' has no recipes: --recipe is for the tasks {', '.join(TASKS)}.")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": {}}  # whoever gets it loads the rows again

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
    def recipe_name(self) -> str:
        return self.recipe or DEFAULT_RECIPE

    @property
    def options(self) -> list[str]:
        """What differs from the task's own plan, in words that may stand in the name of a folder."""
        return [
            *([self.recipe_name] if self.recipe_name != DEFAULT_RECIPE else []),
            *([self.network] if self.network else []),
            *([f"effort {self.effort:g}"] if self.effort != 1 else []),
            *(["costs"] if self.costs else []),
            *(["cost aware"] if self.cost_aware else []),
            *(["validation"] if self.validation else []),
        ]

    def find_recipe(self) -> Recipe | None:
        """The recipe of a named task; None for a task that has none, unless one is asked for."""
        if not self.is_named or (self.recipe is None and not TASKS[self.name].recipes):
            return None
        return find_recipe(self.name, self.recipe_name)

    @property
    def last_query(self) -> int | None:
        """Where curves end; None where everything was asked."""
        if self.max_queries is not None:
            return self.max_queries
        if isinstance(self.source, Task):
            limit = self.source.settings.get("max_queries")
            return curve_end(len(self.source.query_set), limit, self.device)
        recipe = self.find_recipe()
        return curve_end(TASKS[self.name].n_queries, recipe.max_queries, self.device) if recipe else None

    def load(self, seed: int) -> Task:
        """The task for a seed, with the settings that all methods get; the one loaded last is kept."""
        if seed not in self._loaded:
            self._loaded.clear()  # one task in memory is enough
            self._loaded[seed] = self._load(seed)
        return self._loaded[seed]

    def described(self) -> dict[str, Any]:
        """What tells the measurements of this trial from those of others, as JSON values."""
        recipe = self.find_recipe()
        described: dict[str, Any] = {
            "task": self.name,
            "recipe": self.recipe_name if recipe else None,
            "effort": self.effort,
            "network": self.network,
            "stop": self.stop,
            "max_queries": self.max_queries,
            "curve_queries": self.last_query,
            "max_rows": self.max_rows,
            "measured_on": VALIDATION_ROWS if self.validation else TEST_ROWS,
            "settings": {key: str(value) for key, value in self._planned_settings(recipe).items()},
        }
        if self.costs or self.cost_aware:
            described |= {"costs": dict(self.costs), "cost_aware": self.cost_aware}
        if not self.is_named:  # the notes of a file have its checksum
            notes = {key: value for key, value in self.load(self.seeds[0]).notes.items() if key != "seed"}
            described |= {"notes": notes, "table_options": dict(self.table_options)}
        plain: dict[str, Any] = json.loads(json.dumps(described, default=str))
        return plain

    def _planned_settings(self, recipe: Recipe | None) -> dict[str, Any]:
        """What is known of the settings before any rows are loaded."""
        if recipe:
            return {**recipe.settings(), "query_options": dict(recipe.query_options)}
        return dict(self.source.settings) if isinstance(self.source, Task) else {}

    def _load(self, seed: int) -> Task:
        if isinstance(self.source, Task):
            task = self.source.with_costs(self.costs)
            task = task.validation_split() if self.validation else task
        elif self.is_named:
            task = load_split(self.name, self.find_recipe(), seed, self.validation).with_costs(self.costs)
        else:
            task = load_task(self.source, seed, costs=self.costs, **self.table_options)
            task = task.validation_split() if self.validation else task
        if self.costs or self.cost_aware:
            task = task.with_costs({}, self.cost_aware)
        if not len(task.y_test):
            raise ValueError(f"{self.name} has no held-out rows to measure on, so methods cannot be compared.")
        return replace(task.with_test_rows(slice(self.max_rows)), settings=self._settings(task))

    def _settings(self, task: Task) -> dict[str, Any]:
        """The parameters of estimators that the task suggests, as this trial changes them."""
        settings = dict(task.settings)
        network = self.network and find(NetworkSettings.registry_kind, self.network)()
        changes = (("network", network), ("stop", self.stop), ("max_queries", self.max_queries))
        settings |= {name: value for name, value in changes if value is not None}
        if self.effort != 1:
            n_rows, n_queries = len(task.X_train), len(task.query_set)
            stages = settings.get("stages") or default_stages(n_rows, n_queries, settings.get("max_queries"))
            settings["stages"] = [stage.scaled(self.effort) for stage in stages]
        return settings
