"""How long learning takes on one core. A step of training is measured by turns with its bare arithmetic: the matrix
products of its linear layers, forward and backward, and nothing else."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from benchmarks.common import read_table, split
from benchmarks.report import Record, grid, grouped, origins, wanted
from benchmarks.study import Study
from pursuit import VIPClassifier
from pursuit.training.step import TrainingStep

GOALS = {
    "heart": 3.0,
    "lymph": 3.0,
    "dermatology": 3.0,
    "sick": 10.0,
    "kr-vs-kp": 10.0,
    "bank": 10.0,
    "letter": 30.0,
    "symptoms-773": 90.0,
}
"""Seconds of one core: up to 500 rows, up to 5,000 rows of 40 columns, and two by name."""
STEP_TABLES, STEP_GOAL = ("heart", "titanic", "kr-vs-kp"), 3.0
WARM_UP, ROUNDS, STEPS_A_ROUND = 20, 12, 10
Product = tuple[Tensor, Tensor]


def measure(part: str, table: str, rows: int | None = None) -> Record:
    torch.set_num_threads(1)
    data = split(*read_table(table), 0)
    X, y = data.X_train[:rows], data.y_train[:rows]
    if part == "step":
        return step(lambda: VIPClassifier(random_state=0).fit(X, y))
    began = time.process_time()
    VIPClassifier(random_state=0).fit(X, y)
    return {"n_rows": len(y), "columns": X.shape[1], "seconds": time.process_time() - began}


def step(fit: Callable[[], object]) -> Record:
    """Interrupts a training in the middle, again and again, to do the bare arithmetic of a step."""
    pairs: list[tuple[float, float]] = []
    taken: list[float] = []
    products: list[Product] = []
    run = TrainingStep.run

    def timed(self: TrainingStep, step: int, n_steps: int) -> None:
        if step == WARM_UP and len(pairs) < ROUNDS:
            with noted(self.model, products):
                run(self, step, n_steps)
            return
        began = time.process_time()
        run(self, step, n_steps)
        taken.append(time.process_time() - began)
        if step > WARM_UP and len(pairs) < ROUNDS and len(taken) >= STEPS_A_ROUND:
            pairs.append((statistics.mean(taken[-STEPS_A_ROUND:]), bare_seconds(products)))
            taken.clear()

    TrainingStep.run = timed  # type: ignore[method-assign]
    try:
        fit()
    finally:
        TrainingStep.run = run  # type: ignore[method-assign]
    own, bare = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
    return {"milliseconds": own, "bare": bare, "ratio": statistics.median(one / other for one, other in pairs)}


@contextmanager
def noted(model: nn.Module, products: list[Product]) -> Iterator[None]:
    """Note the input and the weight of every linear layer that is called."""

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        products.append((inputs[0].detach().clone(), module.weight.detach().clone()))

    hooks = [module.register_forward_pre_hook(note) for module in model.modules() if isinstance(module, nn.Linear)]
    yield
    for hook in hooks:
        hook.remove()


def bare_seconds(products: list[Product]) -> float:
    for i in range(-1, STEPS_A_ROUND):
        if i == 0:  # the one before warms up
            began = time.process_time()
        for inputs, weight in products:
            outputs = inputs @ weight.T  # which stands for its gradient, too
            outputs.T @ inputs
            outputs @ weight
    return (time.process_time() - began) / STEPS_A_ROUND


def page(records: list[Record]) -> dict[str, str]:
    parts = grouped(records, "part")
    fits = {
        "rows": "n_rows|,",
        "columns": "columns",
        "seconds": "seconds|figure",
        "wanted": lambda each: wanted(each[0]["seconds"], most=GOALS.get(each[0]["table"])),
    }
    steps = {
        "step": "milliseconds|figure",
        "bare": "bare|figure",
        "ratio": "ratio|figure",
        "wanted": lambda each: wanted(each[0]["ratio"], most=STEP_GOAL),
    }
    fits_text, steps_text = (
        grid(grouped(parts.get(part, []), "table"), columns, "table")
        for part, columns in (("fit", fits), ("step", steps))
    )
    return {"speed.md#learning": fits_text, "speed.md#steps": steps_text + "\n" + origins(records)}


STUDY = Study(
    name="learning",
    runs=[
        *({"part": "fit", "table": table} for table in GOALS),
        *({"part": "step", "table": table} for table in STEP_TABLES),
    ],
    measure=measure,
    page=page,
    quick={"rows": 200},
)
