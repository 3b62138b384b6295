"""The library's speed beside that of the plain per-row implementation, measured by turns in short rounds: cores may be
taken away for moments, so what counts is the median of the rounds' ratios."""

import copy
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import worlds
from benchmarks.per_row import PerRow, confident
from benchmarks.report import Record, columns, figure, grid, grouped, met, origins, wanted
from benchmarks.study import Study, every
from pursuit import MLP, CarriedHistories, Confidence, PaperConv, Session, Stage, StoppingRule, TrainingRun
from pursuit.evaluation.curves import evaluate
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Standing
from pursuit.research.tasks import find_recipe
from pursuit.training import Report, train
from pursuit.training.rows import Rows
from pursuit.vip import VIP

WORLDS: dict[str, Callable[[int], worlds.World]] = {
    "mnist": worlds.mnist,
    "huffpost": worlds.huffpost,
    "symcat-200": lambda n_rows: worlds.symcat(200, n_rows),
    "symcat-400": lambda n_rows: worlds.symcat(400, n_rows),
}
TRAINING = {
    "mnist, random": ("mnist", None, 1.3, 2, 2, 1),
    "symcat-200, random": ("symcat-200", None, 3.0, 30, 5, 3),
    "mnist, biased": ("mnist", 21, 6.0, 2, 1, 1),
    "huffpost, biased": ("huffpost", 999, 50.0, 30, 1, 3),
}
"""Stages of `paper` recipes: task, longest biased history (None: random ones), the ratio wanted, steps a round of the
library and of the plain implementation, and of warm-up."""
EVALUATION_GOAL, SESSION_GOAL_MS, ROUNDS, MNIST_LENGTH = 3.0, 1.0, 3, 6.34
"""The last: how many queries the paper's V-IP asks of an image of MNIST, on average."""


# ---- how time is measured


def histories_per_second(model: VIP, rows: Rows, stage: Stage, n_steps: int, warmup: int) -> float:
    """How fast `train` is over `n_steps` steps after `warmup` ones, by the times of its reports; trains the model."""
    marks: list[tuple[int, float]] = []

    def mark(report: Report) -> None:
        if report.step >= warmup:
            marks.append((report.step, time.perf_counter()))

    epochs = (warmup + n_steps) * stage.batch_size / len(rows)
    train(model, rows, [replace(stage, epochs=epochs)], run=TrainingRun(on_report=mark))
    if len(marks) < 2:
        raise ValueError(f"Training reported {len(marks)} times after its {warmup} steps of warm-up: use more steps.")
    (first, began), (last, ended) = marks[0], marks[-1]
    return stage.batch_size * (last - first) / (ended - began)


def seconds_of(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def session_steps(session: Session, answers: Sequence[Any], n_steps: int) -> list[float]:
    """Seconds of each step of a session: asking, and hearing the answer."""
    return [seconds_of(lambda: session.tell(answers[session.ask().query])) for _ in range(n_steps)]


def latencies(sessions: Sequence[Sequence[float]]) -> dict[str, float]:
    """Of all steps but those of the first session, which warms up."""
    times = [step for steps in sessions[1:] for step in steps]
    p50, p99 = (1e3 * float(np.quantile(times, share)) for share in (0.5, 0.99))
    return {"p50_ms": p50, "p99_ms": p99, "steps": len(times)}


def by_turns(library: Callable[[], float], per_row: Callable[[], float], rounds: int) -> Record:
    """Measure paces one after the other, round after round. The ratio says how many times better the library is."""
    pairs = [(library(), per_row()) for _ in range(rounds)]
    ratios = sorted(ours / plain for ours, plain in pairs)
    ours, plain = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {"library": ours, "per_row": plain, "ratio": statistics.median(ratios), "ratios": ratios}


# ---- what is measured


def training(case: str, rounds: int, rows: int, quick: bool) -> Record:
    """Histories a second of `train`, and of the plain loop over the same rows."""
    task, longest, goal, n_steps, n_plain, warmup = TRAINING[case]
    recipe, world = find_recipe(task, "paper"), WORLDS[task](rows)
    model = world.build(recipe.network, recipe.shared)
    limit = longest and (min(longest, 3) if quick else longest)
    stage = replace(recipe.stages[1 if limit else 0], batch_size=4 if quick else recipe.stages[0].batch_size)
    if limit:
        stage = replace(stage, histories=CarriedHistories(limit, random_share=0.0))
    reference = PerRow(copy.deepcopy(model))

    def draw(x: Tensor, known: Tensor) -> Tensor:
        return reference.biased_masks(x, known, limit) if limit else reference.random_masks(known)

    def steps(draw: Callable[[Tensor, Tensor], Tensor]) -> Iterator[float]:
        return reference.training(world.rows, stage.batch_size, stage.optimizer, draw)

    next(steps(lambda _, known: reference.random_masks(known)))  # the plain loop's warm-up is one quick step
    plain = steps(draw)
    compared = by_turns(
        lambda: histories_per_second(copy.deepcopy(model), world.rows, stage, n_steps, warmup),
        lambda: stage.batch_size * n_plain / seconds_of(lambda: [next(plain) for _ in range(n_plain)]),
        rounds,
    )
    kind = f"biased, up to {limit} queries" if limit else "random"
    about = {"task": task, "histories": kind, "batch_size": stage.batch_size, "network": str(recipe.network)}
    return {**about, "goal": goal, **compared}


class GivenLengths(StoppingRule):
    """Rows stop after lengths drawn beforehand, in their order: early exit as after training, without training."""

    memory_size = 1

    def __init__(self, lengths: Tensor):
        self.lengths = lengths

    def start(self, n_rows: int, device: torch.device | None = None) -> Tensor:
        return self.lengths[:n_rows, None].float().to(device)

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return standing.n_asked >= memory[:, 0], memory

    def looking_back(self, beliefs: Tensor) -> Tensor:
        """The same of all beliefs (B, steps + 1, C): (B, steps + 1)."""
        return torch.arange(beliefs.shape[1]) >= self.lengths[: len(beliefs), None]


def evaluation(case: str, rounds: int, rows: int, quick: bool) -> Record:
    """Rows a second: what a rule gives, and the whole curve. The plain way to both is one. Digits are read by a trained
    model that stops when it is sure; images by the paper's networks, untrained, and rows stop after as many queries as
    the paper's do, drawn from an exponential."""
    if case == "digits":
        world, held_out = worlds.digits_in_black_and_white()
        network = MLP((256, 256))
        model = world.build(network)
        train(model, world.rows, [Stage(0.5 if quick else 180, CarriedHistories(20))])
        some, limit = held_out.take(torch.arange(20 if quick else 360)), len(model.query_set)
        rule: Any = Confidence(0.99)
        title, enough = str(rule), confident(rule.level)
    else:
        n, limit, generator = 2 if quick else 128, 3 if quick else 21, torch.Generator().manual_seed(0)
        world, network = worlds.mnist(n), PaperConv()
        drawn = torch.empty(n).exponential_(1 / (MNIST_LENGTH - 0.5), generator=generator)
        rule = GivenLengths((1 + drawn).long().clamp(max=limit))
        model, some, title, enough = world.build(network).eval(), world.rows, "lengths drawn", rule.looking_back
    reference, found = PerRow(model), {}

    def at_rule() -> None:
        steps = pursue_in_batches(model, some.x, some.available, rule, some.initially_known)
        found["mean_answered"] = sum(int(step.goes_on.sum()) for step in steps) / len(some)

    def plain() -> float:
        return len(some) / seconds_of(lambda: reference.evaluate(some, limit, enough, batch_size=1024))

    at_rule()
    stopping = by_turns(lambda: len(some) / seconds_of(at_rule), plain, rounds)
    curve = by_turns(lambda: len(some) / seconds_of(lambda: evaluate(model, some, max_queries=limit)), plain, rounds)
    about = {"task": case, "network": str(network), "rule": title, "n_rows": len(some), "steps": limit, **found}
    return {**about, "stopping": stopping, "curve": curve}


def session(case: str, rounds: int, rows: int, quick: bool) -> Record:
    """Milliseconds of a step, asking and hearing the answer, on symcat-400."""
    recipe, n_steps = find_recipe("symcat-400", case), 3 if quick else 20
    people = WORLDS["symcat-400"](3 if quick else 31)
    model, known = people.build(recipe.network, recipe.shared).eval(), people.rows.initially_known
    # The other network sees which answers are known, which the plain implementation's do not.
    reference = PerRow(model) if case == "paper" else None
    names, ours, plain = [query.name for query in model.query_set.queries], [], []
    for row in range(len(people.rows)):
        live, answers = Session(model), (people.rows.x[row] > 0).long().tolist()
        for query in known[row].nonzero()[:, 0].tolist():
            live.tell(answers[query], names[query])
        ours.append(session_steps(live, answers, n_steps))
        if reference:
            steps = reference.session(people.rows.x[row : row + 1], known[row : row + 1].float(), n_steps)
            plain.append([seconds_of(lambda: next(steps)) for _ in range(n_steps)])  # noqa: B023
    found: Record = {"recipe": case, "network": str(recipe.network), "library": latencies(ours)}
    if plain:
        found |= {"per_row": latencies(plain)}
        found["ratio"] = found["per_row"]["p50_ms"] / found["library"]["p50_ms"]
    return found


PARTS = {"training": training, "evaluation": evaluation, "session": session}


def measure(part: str, case: str, rounds: int = ROUNDS, rows: int = 2000, quick: bool = False) -> Record:
    return PARTS[part](case, rounds, rows, quick)


# ---- what the pages say


def ratio(compared: Record) -> str:
    return f"{figure(compared['ratio'])} ({figure(compared['ratios'][0])} to {figure(compared['ratios'][-1])})"


def page(records: list[Record]) -> dict[str, str]:
    parts = grouped(records, "part")
    compared = {
        **columns("per-row = per_row|figure"),
        "ratio": lambda each: ratio(each[0]),
        "wanted": lambda each: wanted(each[0]["ratio"], least=each[0].get("goal")),
    }
    trained = columns("histories = histories; network = network; batch = batch_size; histories/s = library|figure")
    evaluated = []
    for one in parts.get("evaluation", []):
        asked = f"at the rule ({one['rule']}: {one['mean_answered']:.2f} of {one['steps']})"
        curve = f"whole curve ({one['steps']} steps)"
        evaluated += [{**one, "what": asked, "goal": EVALUATION_GOAL, **one["stopping"]}]
        evaluated += [{**one, "what": curve, **one["curve"]}]
    asked = {
        **columns(
            "network = network; p50 = library.p50_ms|figure; p99 = library.p99_ms|figure;"
            "per-row p50 = per_row.p50_ms|figure; per-row p99 = per_row.p99_ms|figure; ratio = ratio|figure"
        ),
        f"p50 below {SESSION_GOAL_MS:g}": lambda each: met(each[0]["library"]["p50_ms"], most=SESSION_GOAL_MS),
    }
    by_rows = columns("rows = n_rows; rows/s = library|figure")
    return {
        "training": grid(grouped(parts.get("training", []), "case"), {**trained, **compared}, "case"),
        "evaluation": grid(grouped(evaluated, "task", "what"), {**by_rows, **compared}, "task", "what"),
        "session": grid(grouped(parts.get("session", []), "recipe"), asked, "recipe"),
        "origins": origins(records, "part"),
    }


STUDY = Study(
    name="speed",
    runs=[
        *every(part=["training"], case=TRAINING),
        *every(part=["evaluation"], case=("digits", "mnist")),
        *every(part=["session"], case=("paper", "fast")),
    ],
    measure=measure,
    page=page,
    quick={"rounds": 1, "rows": 40, "quick": True},
)
