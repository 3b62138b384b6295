"""How long learning takes on one core: a section of docs/results/speed.md.

    python benchmarks/learning.py                       # some minutes
    python benchmarks/learning.py --tables heart,lymph  # only these, and the step

Tables are those of `benchmarks/tables.py`, with all of their training rows (seed 0). A step of training is measured by
turns with its bare arithmetic: the matrix products of its linear layers, forward and backward, and nothing else.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pursuit import VIPClassifier
from pursuit.training.step import TrainingStep
from report import RESULTS, cpu, figure, save, table, where
from table_data import default_folder, read, split

GOALS = {
    **dict.fromkeys(("heart", "lymph", "dermatology"), 3.0),
    **dict.fromkeys(("sick", "kr-vs-kp", "bank"), 10.0),
    "letter": 30.0,
    "symptoms-773": 90.0,
}
"""Seconds of one core: up to 500 rows, up to 5,000 rows of 40 columns, and two by name."""
STEP_TABLES, STEP_GOAL = ("heart", "titanic", "kr-vs-kp"), 3.0
WARM_UP, ROUNDS, STEPS_A_ROUND = 20, 12, 10
ABOUT = """\
## Learning

By `python benchmarks/learning.py`: seconds of CPU that `VIPClassifier().fit` takes on one core, teachers and the choice
of querier and stopping rule included. ({origin})
"""
ABOUT_STEPS = """\
A step of training beside its bare arithmetic, in milliseconds of CPU: the same matrix products alone, forward and
backward, measured by turns with the step, {steps} at a time; the ratio is the median of {rounds} rounds.
"""
Product = tuple[Tensor, Tensor]


def measure(tables: list[str], data: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    fits = [_fit(name, data) for name in tables]
    steps = [_step(name, data) for name in STEP_TABLES if name in tables or tables == list(GOALS)]
    return {"where": {**where(), "processor": cpu()}, "fits": fits, "steps": steps}


def _fit(name: str, data: Path) -> dict[str, Any]:
    X, y = read(name, data)
    rows = split(X, y, 0)
    began = time.process_time()
    VIPClassifier(random_state=0).fit(rows.X_train, rows.y_train)
    seconds = time.process_time() - began
    print(f"{name}: {seconds:.1f} s", flush=True)
    return {"table": name, "rows": len(rows.X_train), "columns": rows.X_train.shape[1], "seconds": seconds}


def _step(name: str, data: Path) -> dict[str, Any]:
    """Interrupts the training of a table in the middle, again and again, to do the bare arithmetic of a step."""
    X, y = read(name, data)
    rows = split(X, y, 0)
    pairs: list[tuple[float, float]] = []
    taken: list[float] = []
    products: list[Product] = []
    run = TrainingStep.run

    def timed(self: TrainingStep, step: int, n_steps: int) -> None:
        if step == WARM_UP and len(pairs) < ROUNDS:
            with _noted(self.model, products):
                run(self, step, n_steps)
            return
        began = time.process_time()
        run(self, step, n_steps)
        taken.append(time.process_time() - began)
        if step > WARM_UP and len(pairs) < ROUNDS and len(taken) >= STEPS_A_ROUND:
            last = statistics.mean(taken[-STEPS_A_ROUND:])
            pairs.append((last, _seconds(lambda: _multiply(products))))
            taken.clear()

    TrainingStep.run = timed  # type: ignore[method-assign]
    try:
        VIPClassifier(random_state=0).fit(rows.X_train, rows.y_train)
    finally:
        TrainingStep.run = run  # type: ignore[method-assign]
    own, bare = (statistics.median(one[i] for one in pairs) * 1e3 for i in (0, 1))
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{name}: {own:.2f} ms a step, {bare:.2f} ms bare, ratio {ratio:.2f}", flush=True)
    return {"table": name, "milliseconds": own, "bare": bare, "ratio": ratio}


@contextmanager
def _noted(model: nn.Module, products: list[Product]) -> Iterator[None]:
    """Note the input and the weight of every linear layer that is called."""

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(module, nn.Linear)
        products.append((inputs[0].detach().clone(), module.weight.detach().clone()))

    hooks = [module.register_forward_pre_hook(note) for module in model.modules() if isinstance(module, nn.Linear)]
    yield
    for hook in hooks:
        hook.remove()


def _multiply(products: list[Product]) -> None:
    for inputs, weight in products:
        outputs = inputs @ weight.T  # which stands for its gradient, too
        outputs.T @ inputs
        outputs @ weight


def _seconds(work: Callable[[], None]) -> float:
    work()
    began = time.process_time()
    for _ in range(STEPS_A_ROUND):
        work()
    return (time.process_time() - began) / STEPS_A_ROUND


def section(found: dict[str, Any]) -> list[str]:
    """The lines of the page."""
    origin = ", ".join(f"{key} {found['where'][key]}" for key in ("commit", "processor", "machine"))
    fits = [
        [one["table"], f"{one['rows']:,}", one["columns"], figure(one["seconds"]), _wanted(one["seconds"], goal)]
        for one in found["fits"]
        for goal in [GOALS.get(one["table"])]
    ]
    steps = [
        [
            one["table"],
            figure(one["milliseconds"]),
            figure(one["bare"]),
            figure(one["ratio"]),
            _wanted(one["ratio"], STEP_GOAL),
        ]
        for one in found["steps"]
    ]
    about_steps = ABOUT_STEPS.format(steps=STEPS_A_ROUND, rounds=ROUNDS)
    return [
        ABOUT.format(origin=origin),
        table(["table", "rows", "columns", "seconds", "wanted"], fits),
        about_steps,
        table(["table", "step", "bare", "ratio", "wanted"], steps),
    ]


def _wanted(value: float, goal: float | None) -> str:
    return "–" if goal is None else f"{goal:g}, {'met' if value <= goal else 'missed'}"


def main() -> None:
    import speed  # which has the other sections of the page

    parser = argparse.ArgumentParser(description="Measure how long learning takes on one core.")
    parser.add_argument("--tables", default=",".join(GOALS), help="names, with commas")
    parser.add_argument("--data", type=Path, help="the folder of tables")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder with speed.json")
    arguments = parser.parse_args()
    measured = json.loads((arguments.into / "speed.json").read_text(encoding="utf-8"))
    measured["learning"] = measure(arguments.tables.split(","), arguments.data or default_folder())
    save(measured, speed.page, "speed", arguments.into)


if __name__ == "__main__":
    main()
