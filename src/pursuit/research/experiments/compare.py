"""Compare methods: train and measure every method of a trial, and write the results after each of them.

A results folder holds `results.json`, `table.md` and `curve.png`; in METHOD/seed-K are the model and its result, or
`error.txt` if the method failed. The same trial goes on where it stopped.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pursuit.estimators import Method
from pursuit.files import write_whole
from pursuit.inference.stopping import parse_stop
from pursuit.methods import METHODS
from pursuit.networks import NetworkSettings
from pursuit.registry import find
from pursuit.research.experiments.options import TrialOptions
from pursuit.research.experiments.results import (
    Failure,
    MethodResults,
    Result,
    Results,
    draw_curves,
    in_brief,
    markdown_table,
)
from pursuit.research.experiments.run import (
    EXACT_IP,
    TEST_ROWS,
    VALIDATION_ROWS,
    Measurement,
    MethodRun,
    Progress,
    Say,
    curve_end,
    load_split,
    no_progress,
    outcomes,
    parameters_as_text,
    say_nothing,
)
from pursuit.research.tasks import TASKS, Task, find_recipe, load_task
from pursuit.research.tasks.recipe import Recipe
from pursuit.tables.engine import HERE, Engine
from pursuit.tables.source import name_of
from pursuit.training.devices import find_device

ALL, EXACT = "all", "exact"


DEFAULT_METHODS = ("vip", "random", "fixed", "tree", "naive-bayes", "all-answers")
"""Quick methods, and the baselines that every method has to beat."""
DEFAULT_RECIPE = "fast"


@dataclass(frozen=True)
class Trial(TrialOptions):
    """A comparison of methods. For each seed, all methods learn from the same rows and are measured on the same."""

    source: str | Path | Task
    """The name of a task, a CSV file, Parquet files, or a task itself, whose split is then that of all seeds."""
    methods: Sequence[str] = DEFAULT_METHODS
    """Names of methods; `exact` if the task has exact Information Pursuit; or the one word `all`."""
    seeds: Sequence[int] = (0,)
    costs: Mapping[str, float] = field(default_factory=dict)
    """Costs of queries by name; the others keep the task's own."""
    cost_aware: bool = False
    """Whether methods that can (`cost_aware`) ask by information for each unit of cost; the others ask as always."""
    table_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `load_task` for a file: `target`, `queries` and `table_options`."""
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
        """Changes to the task's own plan, in words for the name of a folder."""
        return [
            *([self.recipe_name] if self.recipe_name != DEFAULT_RECIPE else []),
            *([self.network] if self.network else []),
            *([f"effort {self.effort:g}"] if self.effort != 1 else []),
            *(["costs"] if self.costs else []),
            *(["cost aware"] if self.cost_aware else []),
            *(["validation"] if self.validation else []),
        ]

    def find_recipe(self) -> Recipe | None:
        """The recipe of a named task; None for a task without recipes, unless `recipe` names one."""
        if not self.is_named or (self.recipe is None and not TASKS[self.name].recipes):
            return None
        return find_recipe(self.name, self.recipe_name)

    @property
    def last_query(self) -> int | None:
        """The number of queries at which curves end; None: all queries."""
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
        """The identity of this trial's measurements, as JSON values."""
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
        """The settings that are known before any rows are loaded."""
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
            settings["stages"] = [stage.scaled(self.effort) for stage in task.stages(settings)]
        return settings


def compare(
    trial: Trial,
    folder: str | Path,
    progress: Progress = no_progress,
    say: Say = say_nothing,
    methods: Mapping[str, Method] = METHODS,
    only_collect: bool = False,
    engine: Engine = HERE,
) -> Results:
    """Train and measure every method of the trial that is not done yet, and write the results folder.

    `progress` is given a title for every training, and `say` a line for every method as soon as it is measured. A
    method that fails is noted with its error and tried again the next time; the others go on. `only_collect` trains
    nothing: it collects what is measured already, perhaps by several processes with different methods. `engine` says
    where and in which order methods are measured.
    """
    folder, titles, described = Path(folder), _titles(trial, methods), trial.described()
    runs = [
        MethodRun(
            run={**described, "method_parameters": parameters_as_text(methods[name]) if name in methods else {}},
            name=name,
            title=titles[name],
            method=methods.get(name),
            load=trial.load,
            seed=seed,
            folder=folder / name / f"seed-{seed}",
            device=trial.device,
            measurement=Measurement(trial.last_query, times_steps=True),
        )
        for seed in trial.seeds
        for name in titles
    ]
    found: dict[tuple[str, int], Result | Failure] = {}
    for run in runs:
        if result := run.read():
            found[run.name, run.seed] = result
            say(f"{run.label}: already measured, {in_brief(result)}")
    results = _write(folder, described, titles, found)
    left = [run for run in runs if (run.name, run.seed) not in found and not only_collect]
    for run, outcome in outcomes(left, engine, progress):
        found[run.name, run.seed] = outcome
        say(f"{run.label}: {in_brief(outcome)}")
        results = _write(folder, described, titles, found)
    return results


def _titles(trial: Trial, methods: Mapping[str, Method]) -> dict[str, str]:
    """The methods to compare by name, as figures and tables have them; raises ValueError for unknown ones."""
    names, known = list(dict.fromkeys(trial.methods)), [*vip_first(of_classes(methods)), EXACT]
    wanted = known if names == [ALL] else names
    if numeric := [name for name in wanted if name in methods and methods[name].predicts_numbers]:
        raise ValueError(
            f"{numeric[0]} predicts a number, and what is compared is the accuracy of classes: leave it out."
        )
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"'{unknown[0]}' is not a method: choose from {', '.join(known)}, or {ALL}.")
    if EXACT in wanted and trial.load(trial.seeds[0]).exact is None:
        if names != [ALL]:
            raise ValueError(f"Exact Information Pursuit is not available for {trial.name}: leave {EXACT} out.")
        wanted = [name for name in wanted if name != EXACT]
    if trial.cost_aware and not any(name == EXACT or methods[name].accepts("cost_aware") for name in wanted):
        able = ", ".join(name for name in known if name == EXACT or methods[name].accepts("cost_aware"))
        raise ValueError(f"--cost-aware does not apply to {', '.join(wanted)}: leave it out, or compare with {able}.")
    return {name: methods[name].title if name in methods else EXACT_IP for name in wanted}


def of_classes(methods: Mapping[str, Method]) -> list[str]:
    """The names of the methods that predict classes, which can be compared by their accuracy."""
    return [name for name, method in methods.items() if not method.predicts_numbers]


def vip_first(methods: Iterable[str]) -> list[str]:
    """Names of methods in the order of a table: V-IP, then its rivals."""
    return sorted(methods, key=lambda name: name != "vip")


def _write(
    folder: Path,
    described: dict[str, Any],
    titles: Mapping[str, str],
    found: Mapping[tuple[str, int], Result | Failure],
) -> Results:
    """Everything found so far, which is also written into the folder."""
    by_method = {name: [one for (method, _), one in found.items() if method == name] for name in titles}
    methods = {name: MethodResults.of(titles[name], seeds) for name, seeds in by_method.items() if seeds}
    results = Results(described, methods)
    if found:
        results.write(folder / "results.json")
        write_whole(folder / "table.md", markdown_table(results).encode())
        draw_curves(results, folder / "curve.png")
    return results
