"""Reproduce a task of the paper: train V-IP by a recipe, measure it on test rows, and write the results.

Beside it, a black box with the same network and plan learns from all answers at once. Where the task or the recipe has
protocols, a part of the training rows is held out from both, to choose at which confidence V-IP stops.

A results folder holds `results.json`, `table.md` (with the published figures below), `curve.png`, in
seed-K the model, its result and a few chains as figures, and in all-answers/seed-K the black box. A run that was
interrupted goes on where it stopped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pursuit.evaluation.curves import Evaluation
from pursuit.evaluation.protocols import Protocol
from pursuit.files import write_whole
from pursuit.inference.stopping import Confidence, Stability
from pursuit.methods import METHODS
from pursuit.registry import find
from pursuit.research.experiments.options import ReproductionOptions
from pursuit.research.experiments.results import (
    ALL_ANSWERS,
    Beside,
    Failure,
    MethodResults,
    Result,
    Results,
    draw_accuracy,
    in_brief,
    markdown_table,
    mean_and_spread,
)
from pursuit.research.experiments.run import (
    ERROR,
    EXACT_IP,
    LOGISTIC_REGRESSION,
    RANDOM_ORDER,
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
    say_nothing,
)
from pursuit.research.tasks import EMBEDDED, find_recipe
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.task import Task, TaskInfo
from pursuit.tables.engine import HERE, Engine
from pursuit.training.devices import find_device

N_CHAINS = 3
VIP = "vip"
TRADE_OFF = (
    *(Confidence(level) for level in (0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.98, 0.99, 0.995, 0.999)),
    *(Stability(epsilon, n) for epsilon in (0.1, 0.03, 0.01, 0.003, 0.002, 0.001, 0.0003) for n in (1, 3)),
)
"""Accuracy against length, as the paper draws it: by varying the stopping rule."""


@dataclass(frozen=True)
class Reproduction(ReproductionOptions):
    """A reproduction of a task by a recipe."""

    task: str
    recipe_name: str
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)
    options: tuple[str, ...] = ()
    """Changes to the recipe, in words."""

    def __post_init__(self) -> None:
        find_device(self.device)

    @property
    def name(self) -> str:
        """The name for folders and files."""
        return run_name(self.task, self.recipe_name, [*self.options, *(["validation"] if self.validation else [])])

    @property
    def info(self) -> TaskInfo:
        info: TaskInfo = find(TaskInfo.registry_kind, self.task)
        return info

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """Rules to cut and count chains: those of the task, then those of the recipe."""
        return self.info.protocols + self.recipe.protocols

    @property
    def last_query(self) -> int | None:
        """The number of queries at which the curve ends; None: all queries."""
        return self.curve_queries or curve_end(self.info.n_queries, self.recipe.max_queries, self.device)

    def load(self, seed: int) -> Task:
        task = load_split(self.task, self.recipe, seed, self.validation)
        if not self.protocols or task.held_out is not None:
            return task
        return task.hold_out(self.info.protocol_share, seed)

    def described(self) -> dict[str, Any]:
        """The identity of this run, as JSON values."""
        return {
            "task": self.task,
            "recipe": self.recipe_name,
            "options": list(self.options),
            "measured_on": VALIDATION_ROWS if self.validation else TEST_ROWS,
            "settings": {key: str(value) for key, value in self.recipe.settings().items()},
            "query_options": dict(self.recipe.query_options),
            "curve_queries": self.last_query,
            "protocols": [str(protocol) for protocol in self.protocols],
        }

    def method_run(self, seed: int, folder: Path, measurement: Measurement, name: str = VIP) -> MethodRun:
        """A method with one seed; by default V-IP."""
        method = METHODS[name]
        return MethodRun(
            self.described(), name, method.title, method, self.load, seed, folder, self.device, measurement
        )


def run_name(task: str, recipe: str, options: Sequence[str]) -> str:
    """Words that may stand in the name of a folder or file."""
    return "-".join([task, recipe, *(option.replace(" ", "-") for option in options)])


def reproduce(
    reproduction: Reproduction,
    folder: Path,
    progress: Progress = no_progress,
    say: Say = say_nothing,
    engine: Engine = HERE,
) -> Results:
    """Train and measure every seed that is not done yet, and write the results folder; `engine` says where and in which
    order. Where a training fails, the others are measured all the same, and ValueError says which failed."""
    found: dict[str, list[Result]] = {VIP: [], ALL_ANSWERS: []}
    left = []
    for run in _runs(reproduction, folder):
        if result := run.read():
            found[run.name].append(result)
            say(f"{run.label}: already measured in {run.folder}.")
        elif run.name == VIP or reproduction.black_box:
            left.append(run)
    failed = []
    for run, outcome in outcomes(left, engine, progress):
        say(f"{run.label}: {in_brief(outcome)}")
        if isinstance(outcome, Failure):
            failed.append(f"{run.label}: {outcome.error} (see {run.folder / ERROR})")
        else:
            found[run.name].append(outcome)
    if failed:
        raise ValueError(
            "The results are not complete, because these failed: "
            f"{'; '.join(failed)}. The same command again tries only these."
        )
    methods = {name: MethodResults.of(METHODS[name].title, seeds) for name, seeds in found.items() if seeds}
    results = Results(reproduction.described(), methods)
    results.write(folder / "results.json")
    write_whole(folder / "table.md", report(results).encode())
    _draw_curves(results, folder / "curve.png")
    return results


def _runs(reproduction: Reproduction, folder: Path) -> Iterator[MethodRun]:
    """V-IP and the black box with every seed."""
    measurement = Measurement(
        max_queries=reproduction.last_query,
        trade_off=TRADE_OFF,
        beside=(RANDOM_ORDER, EXACT_IP, *([LOGISTIC_REGRESSION] if reproduction.black_box else [])),
        protocols=reproduction.protocols,
        protocol_length=reproduction.info.protocol_length,
        n_chains=N_CHAINS,
    )
    # What it knows with all answers is all there is to know of a black box: its curve need not be long.
    short = Measurement(max_queries=1)
    for seed in reproduction.seeds:
        yield reproduction.method_run(seed, folder / f"seed-{seed}", measurement)
        yield reproduction.method_run(seed, folder / ALL_ANSWERS / f"seed-{seed}", short, ALL_ANSWERS)


def report(results: Results) -> str:
    """V-IP and the black box as a table, and below it the recipe, what was measured beside them, and the paper's
    figures."""
    (found, summary), run = results.worked[VIP], results.run
    info: TaskInfo = find(TaskInfo.registry_kind, run["task"])
    changes = f" ({', '.join(run['options'])})" if run["options"] else ""
    queriers = ", ".join(sorted({seed.querier for seed in found.seeds if seed.querier}))
    lines = [f"By the recipe {run['recipe']}{changes}; V-IP has the {queriers} querier."]
    if summary.at_stop and summary.at_stop.cut_short and summary.at_stop.cut_short.mean:
        lines.append(f"Of the rows, {summary.at_stop.cut_short.mean:.1%} were cut off after {summary.longest} queries.")
    lines += [
        f"By the protocol '{name}', {mean_and_spread(at.accuracy)} are right, with {at.mean_counted.mean:.2f} queries "
        "counted."
        for name, at in summary.protocols.items()
    ]
    lines += [f"The area of {title} is {mean_and_spread(area)}." for title, area in summary.area_beside.items()]
    if published := info.published:
        figures = {
            "queries": published.mean_answered,
            "accuracy there": published.accuracy,
            "all answers": published.all_answers,
            "black box": published.black_box,
            "after 20": published.after_20,
        }
        printed = ", ".join(f"{name} {figure:g}" for name, figure in figures.items() if figure is not None)
        lines.append(f"The paper prints: {printed}{'' if published.comparable else ' (not comparable)'}.")
    return f"{markdown_table(results)}\n{chr(10).join(lines)}\n"


def _draw_curves(results: Results, path: Path) -> None:
    found, summary = results.worked[VIP]
    measured: dict[str, list[Evaluation | Beside]] = {found.title: [seed.evaluation for seed in found.seeds]}
    for title in (EXACT_IP, RANDOM_ORDER):
        if others := [seed.beside[title] for seed in found.seeds if title in seed.beside]:
            measured[title] = [*others]
    draw_accuracy(
        measured,
        {found.title: summary.at_stop} if summary.at_stop else {},
        path,
        title=f"{results.run['task']}: accuracy on {found.seeds[0].n_test:,} {results.run['measured_on']}",
        all_answers=summary.accuracy_all_answers.mean,
    )


# ----------------------------------------------------------------------------------------------------------------------
# The demonstration: train on the embedded tasks, compare with random order, and draw the results.


RECIPE = "demo"
MOST_ROWS = 300
"""Number of rows to measure on: enough to draw a curve, and quick."""


@dataclass(frozen=True)
class DemoResult:
    """The result of the demonstration on one task."""

    result: Result
    folder: Path
    """Holds the model."""
    figures: tuple[Path, ...]

    @property
    def task(self) -> str:
        return str(self.result.run["task"])

    def to_dict(self) -> dict[str, Any]:
        figures = [str(path) for path in self.figures]
        return {"task": self.task, "model": str(self.folder), "figures": figures, **self.result.to_dict()}


def run_demo(
    folder: Path, seed: int = 0, progress: Progress = no_progress, say: Say = say_nothing
) -> Iterator[DemoResult]:
    """Train, measure and draw every embedded task, into `folder`/TASK."""
    for name in EMBEDDED:
        reproduction = Reproduction(name, RECIPE, find_recipe(name, RECIPE))
        measurement = Measurement(reproduction.last_query, beside=(RANDOM_ORDER,), n_chains=1)
        run = reproduction.method_run(seed, folder / name, measurement)
        run = replace(run, run={**run.run, "max_rows": MOST_ROWS}, load=partial(_load, run.load))
        result = run.read_or_measure(progress, say)
        curve = run.folder / "curve.png"
        _draw_curves(Results(result.run, {VIP: MethodResults.of(run.title, [result])}), curve)
        yield DemoResult(result, run.folder, (curve, run.folder / "chain-0.png"))


def _load(load: Callable[[int], Task], seed: int) -> Task:
    """A task with some of its test rows."""
    return load(seed).some_test_rows(MOST_ROWS, seed)
