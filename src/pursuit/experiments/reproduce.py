"""Reproduce a task of the paper: train V-IP by a recipe, measure it on test rows, and write down what came out.

A results folder holds `results.json`, `row.md` (one row of a table beside the published figures), `curve.png`, and in
seed-K the model, its result and a few chains as figures. A run that was interrupted goes on where it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pursuit.evaluation.curves import Evaluation
from pursuit.experiments.beside import EXACT_IP, LOGISTIC_REGRESSION, RANDOM_ORDER
from pursuit.experiments.results import (
    NOTHING,
    SHOWN_BUDGETS,
    Beside,
    MethodResults,
    Results,
    Summary,
    mean_and_spread,
)
from pursuit.experiments.run import (
    TEST_ROWS,
    VALIDATION_ROWS,
    Measurement,
    MethodRun,
    Progress,
    Say,
    load_split,
    no_progress,
    say_nothing,
)
from pursuit.experiments.table import draw_accuracy, stop_length
from pursuit.files import write_whole
from pursuit.inference.stopping import Confidence, Stability
from pursuit.methods import METHODS
from pursuit.registry import find
from pursuit.tasks.recipe import Published, Recipe
from pursuit.tasks.task import Task, TaskInfo

N_CHAINS = 3
VIP = "vip"
TRADE_OFF = (
    *(Confidence(level) for level in (0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.98, 0.99, 0.995, 0.999)),
    *(Stability(epsilon, n) for epsilon in (0.1, 0.03, 0.01, 0.003, 0.002, 0.001, 0.0003) for n in (1, 3)),
)
"""Accuracy against length, as the paper draws it: by varying the stopping rule."""


@dataclass(frozen=True)
class Reproduction:
    """What to reproduce, and how."""

    task: str
    recipe_name: str
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)
    device: str = "cpu"
    options: tuple[str, ...] = ()
    """What was changed in the recipe, in words."""
    validation: bool = False
    """Measure on held-out training rows instead of the test rows, to choose settings by."""
    curve_queries: int | None = None
    """Where the curve ends; by default at the recipe's own limit."""

    @property
    def name(self) -> str:
        """What it is called in the names of folders and files."""
        return run_name(self.task, self.recipe_name, [*self.options, *(["validation"] if self.validation else [])])

    def load(self, seed: int) -> Task:
        return load_split(self.task, self.recipe, seed, self.validation)

    def described(self) -> dict[str, Any]:
        """What tells this run from others, as JSON values."""
        return {
            "task": self.task,
            "recipe": self.recipe_name,
            "options": list(self.options),
            "measured_on": VALIDATION_ROWS if self.validation else TEST_ROWS,
            "settings": {key: str(value) for key, value in self.recipe.settings().items()},
            "query_options": dict(self.recipe.query_options),
            "curve_queries": self.curve_queries,
        }

    def method_run(self, seed: int, folder: Path, measurement: Measurement) -> MethodRun:
        """V-IP with one seed."""
        vip = METHODS[VIP]
        return MethodRun(self.described(), VIP, vip.title, vip, self.load, seed, folder, self.device, measurement)


def run_name(task: str, recipe: str, options: Sequence[str]) -> str:
    """Words that may stand in the name of a folder or file."""
    return "-".join([task, recipe, *(option.replace(" ", "-") for option in options)])


def reproduce(
    reproduction: Reproduction, folder: Path, progress: Progress = no_progress, say: Say = say_nothing
) -> Results:
    """Train and measure every seed that is not done yet, and write the results folder."""
    measurement = Measurement(
        max_queries=reproduction.curve_queries,
        trade_off=TRADE_OFF,
        beside=(RANDOM_ORDER, EXACT_IP, LOGISTIC_REGRESSION),
        n_chains=N_CHAINS,
    )
    runs = [reproduction.method_run(seed, folder / f"seed-{seed}", measurement) for seed in reproduction.seeds]
    measured = [run.read_or_measure(progress, say) for run in runs]
    results = Results(reproduction.described(), {VIP: MethodResults.of(METHODS[VIP].title, measured)})
    results.write(folder / "results.json")
    write_whole(folder / "row.md", f"{HEADER}\n{markdown_row(results)}\n".encode())
    _draw_curves(results, folder / "curve.png")
    return results


def vip_of(results: Results) -> tuple[MethodResults, Summary]:
    """The only method of a reproduction, all of whose seeds worked."""
    return results.worked[VIP]


def published_for(task: str) -> Published | None:
    info: TaskInfo = find(TaskInfo.registry_kind, task)
    return info.published


HEADER = (
    "| task | recipe | stops after | accuracy there | after 5 / 10 / 20 | all answers | area (random order) "
    "| paper: stops after, accuracy there, all answers, after 20 | seeds | rows | device, training | commit |\n"
    "|" + "---|" * 12
)


def markdown_row(results: Results) -> str:
    """One row of a table, ours beside the published figures."""
    (found, summary), run = vip_of(results), results.run
    one, stop = found.seeds[0], summary.at_stop
    after = [mean_and_spread(summary.accuracy_after.get(n)) for n in SHOWN_BUDGETS]
    # Whatever makes the row less than it seems is said in it.
    measured_on = run["measured_on"]
    options = [*run["options"], *([f"measured on {measured_on}"] if measured_on != TEST_ROWS else [])]
    cut = f", cut short in {stop.cut_short.mean:.1%}" if stop and stop.cut_short and stop.cut_short.mean else ""
    resumed = ", resumed" if any(seed.resumed for seed in found.seeds) else ""
    cells = [
        run["task"],
        run["recipe"] + (f" ({', '.join(options)})" if options else ""),
        f"{stop_length(stop)} ({stop.rule}{cut})" if stop else NOTHING,
        mean_and_spread(stop.accuracy if stop else None),
        " / ".join(after),
        mean_and_spread(summary.accuracy_all_answers),
        f"{mean_and_spread(summary.area)} ({mean_and_spread(summary.area_beside.get(RANDOM_ORDER))})",
        _published_cell(run["task"]),
        str(summary.n_seeds),
        f"{one.n_train:,} / {one.n_test:,}",
        f"{one.provenance['device']}, {summary.training_seconds.mean:.0f} s{resumed}",
        str(one.provenance["commit"]),
    ]
    return "| " + " | ".join(cells) + " |"


def _published_cell(task: str) -> str:
    published = published_for(task)
    if published is None:
        return NOTHING
    figures: Sequence[float | None] = (
        published.mean_answered,
        published.accuracy,
        published.all_answers,
        published.after_20,
    )
    return ", ".join(NOTHING if figure is None else f"{figure:g}" for figure in figures)


def _draw_curves(results: Results, path: Path) -> None:
    found, summary = vip_of(results)
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
