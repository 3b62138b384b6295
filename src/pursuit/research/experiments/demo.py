"""The demonstration: train on the embedded tasks, compare with random order, and draw the results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pursuit.evaluation.figures import accuracy_curve
from pursuit.research.experiments.reproduce import Reproduction
from pursuit.research.experiments.results import Result
from pursuit.research.experiments.run import RANDOM_ORDER, Measurement, Progress, Say, no_progress, say_nothing
from pursuit.research.tasks import EMBEDDED, Task, find_recipe

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
        _draw_curve(result, run.title, curve)
        yield DemoResult(result, run.folder, (curve, run.folder / "chain-0.png"))


def _load(load: Callable[[int], Task], seed: int) -> Task:
    """A task with some of its test rows."""
    task = load(seed)
    return task.with_test_rows(np.sort(np.random.default_rng(seed).permutation(len(task.y_test))[:MOST_ROWS]))


def _draw_curve(result: Result, title: str, path: Path) -> None:
    evaluation, beside = result.evaluation, result.beside[RANDOM_ORDER].accuracy_by_asked
    assert beside is not None
    stop = evaluation.at_stop
    accuracy_curve(
        {title: evaluation.accuracy_by_asked, RANDOM_ORDER: beside},
        path,
        title=f"{result.run['task']}: accuracy on {result.n_test:,} {result.run['measured_on']}",
        stops={title: (stop.mean_asked, stop.accuracy)} if stop else None,
        all_answers=evaluation.accuracy_all_answers,
    )
