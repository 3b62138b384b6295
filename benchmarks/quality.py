"""Time to a stated quality: how long the library and the plain per-row implementation train until they are as good.

Both have the same networks from the same weights, optimizer, learning rate and batch size; weights are not averaged.
Every few steps the clock stands still while accuracy on held-out rows is measured, by the same function for both.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch

from per_row import PerRow
from pursuit.data.rows import Rows
from pursuit.evaluation.curves import evaluate
from pursuit.networks import MLP
from pursuit.training import AdamW, CarriedHistories, Report, Stage, TrainingRun, train
from pursuit.vip import VIP
from worlds import World, digits_in_black_and_white

N_QUERIES, GOALS = 7, (0.90, 0.93, 0.95)
"""The qualities: accuracies on held-out digits after this many answers."""
CHAIN_QUERIES, BATCH, LOOK_EVERY = 20, 128, 20
RANDOM_STEPS = 300
"""How long the plain implementation trains on random histories before it goes on with biased ones, as in the paper."""
LIBRARY_STEPS = 4
"""How many steps the library may take for one of the plain implementation: still a shorter time."""
OPTIMIZER = AdamW(1e-3)
PLANS = ("random, then biased", "random only")


class _Reached(Exception):
    """Ends training early."""


class Judge:
    """A clock that runs while a model trains, and stands still while its accuracy is measured."""

    def __init__(self, model: VIP, held_out: Rows, goals: Sequence[float]):
        self.model, self.held_out, self.goals = model, held_out, goals
        self.seconds, self._since = 0.0, time.perf_counter()
        self.reached: dict[float, dict[str, float]] = {}

    def look(self, n_steps: int) -> bool:
        """Whether the model has been as good as the highest of the goals by now."""
        self.seconds += time.perf_counter() - self._since
        self.model.eval()
        measured = evaluate(self.model, self.held_out, max_queries=N_QUERIES).accuracy_by_asked[N_QUERIES]
        self.model.train()
        for goal in self.goals:
            if measured >= goal and goal not in self.reached:
                self.reached[goal] = {"seconds": self.seconds, "steps": n_steps}
        self._since = time.perf_counter()
        return max(self.goals) in self.reached


def time_to_quality(most_steps: int = 800, goals: Sequence[float] = GOALS) -> dict[str, Any]:
    """Seconds and steps to each goal, of the library and of each plan of the plain implementation.

    None if a goal was not reached; the ratio is to the quickest plan.
    """
    import lightning_fabric  # noqa: F401  (takes seconds to import, once a process)

    world, held_out = digits_in_black_and_white()
    by = {"library": _library(world, held_out, LIBRARY_STEPS * most_steps, goals)}
    by |= {plan: _per_row(world, held_out, plan, most_steps, goals) for plan in PLANS}
    found = []
    for goal in goals:
        reached = {name: times.get(goal) for name, times in by.items()}
        plain = [run["seconds"] for plan in PLANS if (run := reached[plan])]
        ours = reached["library"]
        found.append(
            {"accuracy": goal, "by": reached, "ratio": min(plain) / ours["seconds"] if plain and ours else None}
        )
    steps = {"most_steps": most_steps, "library_steps": LIBRARY_STEPS * most_steps}
    return {"n_queries": N_QUERIES, **steps, "goals": found}


def _library(world: World, held_out: Rows, most_steps: int, goals: Sequence[float]) -> dict[float, dict[str, float]]:
    model = world.build(MLP((256, 256)))
    stage = Stage(
        most_steps * BATCH / len(world.rows),
        CarriedHistories(CHAIN_QUERIES),
        OPTIMIZER,
        schedule="constant",
        batch_size=BATCH,
        average=0.0,
    )
    judge, n_steps = Judge(model, held_out, goals), 0

    def on_report(report: Report) -> None:
        nonlocal n_steps
        if report.step - n_steps >= LOOK_EVERY:
            n_steps = report.step
            if judge.look(n_steps):
                raise _Reached

    with suppress(_Reached):
        train(model, world.rows, [stage], run=TrainingRun(on_report=on_report))
    return judge.reached


def _per_row(
    world: World, held_out: Rows, plan: str, most_steps: int, goals: Sequence[float]
) -> dict[float, dict[str, float]]:
    torch.manual_seed(0)
    model = world.build(MLP((256, 256)))
    judge = Judge(model, held_out, goals)
    for n_steps, _ in enumerate(_steps(PerRow(model), world.rows, plan), start=1):
        if n_steps % LOOK_EVERY == 0 and (judge.look(n_steps) or n_steps >= most_steps):
            break
    return judge.reached


def _steps(reference: PerRow, rows: Rows, plan: str) -> Iterator[float]:
    """The training steps of a plan of the paper."""
    n_steps = 0

    def draw(x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        if plan == "random only" or n_steps < RANDOM_STEPS:
            return reference.random_masks(known)
        return reference.biased_masks(x, known, CHAIN_QUERIES)

    for loss in reference.training(rows, BATCH, OPTIMIZER, draw):
        yield loss
        n_steps += 1
