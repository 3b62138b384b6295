"""The library's speed beside that of the plain per-row implementation, in one run: docs/results/speed.md.

python benchmarks/speed.py            # some minutes on two cores
python benchmarks/speed.py --quick    # toy sizes: only to see that it works
"""

import argparse
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import learning
import starting
import worlds
from per_row import PerRow, confident
from pursuit.data.rows import Rows
from pursuit.evaluation.curves import evaluate
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Confidence, Standing, StoppingRule
from pursuit.networks import MLP, PaperConv
from pursuit.sessions.session import Session
from pursuit.tasks import find_recipe
from pursuit.training import CarriedHistories, Stage, train
from pursuit.vip import VIP
from quality import GOALS, LOOK_EVERY, PLANS, time_to_quality
from report import RESULTS, cpu, figure, origin, save, table, where
from timing import by_turns, quantile, seconds, session_steps, steps_per_second, training_pace

SECTIONS = {"learning": learning, "starting": starting}
"""Which measure themselves."""
WORLDS: dict[str, Callable[[int], worlds.World]] = {
    "mnist": worlds.mnist,
    "huffpost": worlds.huffpost,
    "symcat-200": lambda n_rows: worlds.symcat(200, n_rows),
    "symcat-400": lambda n_rows: worlds.symcat(400, n_rows),
}
EVALUATION_GOAL, SESSION_GOAL_MS = 3.0, 1.0
MNIST_LENGTH = 6.34
"""How many queries the paper's V-IP asks of an image of MNIST, on average."""


@dataclass(frozen=True)
class TrainingCase:
    """A stage of a `paper` recipe: its networks, optimizer and batch size."""

    task: str
    max_queries: int | None
    """Of biased histories; None for random ones."""
    goal: float
    steps: int
    """A round of the library."""
    per_row_steps: int
    warmup: int = 3


TRAINING = (
    TrainingCase("mnist", None, 1.3, steps=2, per_row_steps=2, warmup=1),
    TrainingCase("symcat-200", None, 3.0, steps=30, per_row_steps=5),
    TrainingCase("mnist", 21, 6.0, steps=2, per_row_steps=1, warmup=1),
    TrainingCase("huffpost", 999, 50.0, steps=30, per_row_steps=1),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int = 3
    rows: int = 2000
    batch_size: int | None = None
    most_queries: int = 1000
    most_steps: int = 1000
    image_rows: int = 128
    digits_rows: int = 360
    digits_epochs: float = 180
    sessions: int = 30
    session_steps: int = 20
    quality_steps: int = 800
    goals: tuple[float, ...] = GOALS


QUICK = Size(
    rounds=1,
    rows=40,
    batch_size=4,
    most_queries=3,
    most_steps=1,
    image_rows=2,
    digits_rows=20,
    digits_epochs=0.5,
    sessions=2,
    session_steps=3,
    quality_steps=20,
    goals=(0.01, 1.01),
)


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


def measure(size: Size) -> dict[str, Any]:
    measured: dict[str, Any] = {"where": {**where(), "processor": cpu()}, "rounds": size.rounds}
    measured["training"] = [_said(training(case, size)) for case in TRAINING]
    measured["evaluation"] = [_said(case) for case in (digits_evaluation(size), mnist_evaluation(size))]
    measured["session"] = [_said(session(name, size)) for name in ("paper", "fast")]
    measured["quality"] = _said(time_to_quality(size.quality_steps, size.goals))
    return measured


def _said(result: dict[str, Any]) -> dict[str, Any]:
    print(result, flush=True)
    return result


def training(case: TrainingCase, size: Size) -> dict[str, Any]:
    """Histories a second of `train`, and of the plain loop over the same rows."""
    recipe = find_recipe(case.task, "paper")
    world = WORLDS[case.task](size.rows)
    model = world.build(recipe.network, recipe.shared)
    limit = None if case.max_queries is None else min(case.max_queries, size.most_queries)
    stage = replace(recipe.stages[0 if limit is None else 1], batch_size=size.batch_size or recipe.stages[0].batch_size)
    if limit is not None:
        stage = replace(stage, histories=CarriedHistories(limit, random_share=0.0))
    reference = PerRow(copy.deepcopy(model))

    def draw(x: Tensor, known: Tensor) -> Tensor:
        return reference.random_masks(known) if limit is None else reference.biased_masks(x, known, limit)

    def steps(draw: Callable[[Tensor, Tensor], Tensor]) -> Iterator[float]:
        return reference.training(world.rows, stage.batch_size, stage.optimizer, draw)

    next(steps(lambda _, known: reference.random_masks(known)))  # the plain loop's warm-up is one quick step
    plain = steps(draw)
    n_steps, n_plain = (min(n, size.most_steps) for n in (case.steps, case.per_row_steps))
    compared = by_turns(
        lambda: training_pace(copy.deepcopy(model), world.rows, stage, n_steps, case.warmup).histories_per_second,
        lambda: stage.batch_size * steps_per_second(plain, n_plain),
        size.rounds,
    )
    kind = "random" if limit is None else f"biased, up to {limit} queries"
    about = {"task": case.task, "histories": kind, "batch_size": stage.batch_size, "network": str(recipe.network)}
    return {**about, "unit": "histories/s", "goal": case.goal, **compared}


def digits_evaluation(size: Size) -> dict[str, Any]:
    """A model that can read digits, stopping when it is sure: the library with early exit, the other looking back."""
    world, held_out = worlds.digits_in_black_and_white()
    model = world.build(MLP((256, 256)))
    train(model, world.rows, [Stage(size.digits_epochs, CarriedHistories(20))])
    held_out, rule = held_out.take(torch.arange(size.digits_rows)), Confidence(0.99)
    about = {"task": "digits", "network": str(MLP((256, 256))), "rule": str(rule)}
    return {**about, **_evaluations(model, held_out, rule, confident(rule.level), len(model.query_set), size.rounds)}


def mnist_evaluation(size: Size) -> dict[str, Any]:
    """The paper's networks on images; rows stop after as many queries as the paper's do, drawn from an exponential."""
    world = worlds.mnist(size.image_rows)
    limit = min(21, size.most_queries)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.empty(size.image_rows).exponential_(1 / (MNIST_LENGTH - 0.5), generator=generator)
    rule = GivenLengths((1 + drawn).long().clamp(max=limit))
    model = world.build(PaperConv()).eval()
    about = {"task": "mnist", "network": str(PaperConv()), "rule": "lengths drawn"}
    return {**about, **_evaluations(model, world.rows, rule, rule.looking_back, limit, size.rounds)}


def _evaluations(
    model: VIP,
    rows: Rows,
    rule: StoppingRule,
    enough: Callable[[Tensor], Tensor],
    limit: int,
    rounds: int,
) -> dict[str, Any]:
    """Rows a second: what a rule gives, and the whole curve up to `limit` queries. The plain way to both is one."""
    reference, found = PerRow(model), {}

    def at_rule() -> None:
        steps = pursue_in_batches(model, rows.x, rows.available, rule, rows.initially_known)
        found["mean_answered"] = sum(int(step.goes_on.sum()) for step in steps) / len(rows)

    def plain() -> float:
        return len(rows) / seconds(lambda: reference.evaluate(rows, limit, enough, batch_size=1024))

    at_rule()
    stopping = by_turns(lambda: len(rows) / seconds(at_rule), plain, rounds)
    curve = by_turns(lambda: len(rows) / seconds(lambda: evaluate(model, rows, max_queries=limit)), plain, rounds)
    return {"rows": len(rows), "steps": limit, **found, "unit": "rows/s", "stopping": stopping, "curve": curve}


def session(recipe_name: str, size: Size) -> dict[str, Any]:
    """Milliseconds of a step, asking and hearing the answer, on symcat-400."""
    recipe = find_recipe("symcat-400", recipe_name)
    world = WORLDS["symcat-400"](size.sessions + 1)
    model = world.build(recipe.network, recipe.shared).eval()
    # The other network sees which answers are known, which the plain implementation's do not.
    reference = PerRow(model) if recipe_name == "paper" else None
    ours, plain = [], []
    for row in range(len(world.rows)):
        ours.append(_library_steps(model, world.rows, row, size.session_steps))
        if reference:
            plain.append(_per_row_steps(reference, world.rows, row, size.session_steps))
    found: dict[str, Any] = {"recipe": recipe_name, "network": str(recipe.network), "goal_ms": SESSION_GOAL_MS}
    found["library"] = _latencies(ours)
    if plain:
        found["per_row"] = _latencies(plain)
        found["ratio"] = found["per_row"]["p50_ms"] / found["library"]["p50_ms"]
    return found


def _library_steps(model: VIP, rows: Rows, row: int, n_steps: int) -> list[float]:
    names = [query.name for query in model.query_set.queries]
    answers = (rows.x[row] > 0).long().tolist()
    live = Session(model)
    assert rows.initially_known is not None
    for query in rows.initially_known[row].nonzero()[:, 0].tolist():
        live.tell(answers[query], names[query])
    return session_steps(live, answers, n_steps)


def _per_row_steps(reference: PerRow, rows: Rows, row: int, n_steps: int) -> list[float]:
    assert rows.initially_known is not None
    steps = reference.session(rows.x[row : row + 1], rows.initially_known[row : row + 1].float(), n_steps)
    return [1 / steps_per_second(steps, 1) for _ in range(n_steps)]


def _latencies(sessions: list[list[float]]) -> dict[str, float]:
    """Of all steps but those of the first session, which warms up."""
    times = [step for steps in sessions[1:] for step in steps]
    return {"p50_ms": 1e3 * quantile(times, 0.5), "p99_ms": 1e3 * quantile(times, 0.99), "steps": len(times)}


ABOUT = """\
# Speed beside a plain per-row implementation

Written by `make bench-speed`; the rounds are in `speed.json` beside this page. The plain implementation
([per_row.py](../../benchmarks/per_row.py)) is what one would write straight from the paper's text and in the manner of
the authors' released code, with the same networks, weights, optimizer, batch size and number of threads. The two are
measured by turns in one run; the ratio is the median over rounds, with the lowest and the highest in brackets. Data are
generated in the shapes of the tasks, except for digits.
"""
TRAINED = """\
## Training

The library is timed inside `train`, by its reports; settings are those of the `paper` recipes. Random histories are
`RandomHistories`. For biased ones the library has `CarriedHistories` without a random share; the plain implementation
rolls all rows out as far as the longest history wants and looks back.
"""
EVALUATED = """\
## Evaluation

"At the rule" is what a stopping rule gives: `pursue` leaves rows out once they have stopped, and the plain
implementation computes all steps of all rows and looks back. "Whole curve" is accuracy after every number of queries
(`evaluate`), which the plain implementation has computed on the way. On mnist's shapes the networks are untrained, and
rows stop after lengths drawn with about the mean the paper reports.
"""
LASTED = """\
## A step of a session

Asking and hearing the answer, on symcat-400 (355 queries, 400 labels), one row at a time, in milliseconds. The plain
implementation's step has no wording, no checks and no undo.
"""
REACHED = """\
## Time to a stated quality

Digits in black and white (49 patches, MLP of 256 and 256): seconds of training, without those of measuring, until so
many of the held-out images are right after {n_queries} answers; steps in brackets. Looked at every {every} steps or a
few more, up to {most_steps} steps of the plain implementation and {library_steps} of the library, which take less time;
one seed. The plain implementation has the paper's two plans, and the ratio is that of the quicker one.
"""


def page(measured: dict[str, Any]) -> str:
    parts = [ABOUT, origin(measured), TRAINED, _training_table(measured), EVALUATED, _evaluation_table(measured)]
    parts += [LASTED, _session_table(measured), *_quality_section(measured["quality"])]
    for name, of in SECTIONS.items():
        parts += of.section(measured[name]) if name in measured else []
    return "\n".join(parts)


def _ratio(compared: dict[str, Any]) -> str:
    return f"{figure(compared['ratio'])} ({figure(compared['ratios'][0])} to {figure(compared['ratios'][-1])})"


def _against(goal: float, value: float) -> str:
    return f"{goal:g}, {'met' if value >= goal else 'missed'}"


def _training_table(measured: dict[str, Any]) -> str:
    rows = [
        [
            case["task"],
            case["histories"],
            case["network"],
            case["batch_size"],
            figure(case["library"]),
            figure(case["per_row"]),
            _ratio(case),
            _against(case["goal"], case["ratio"]),
        ]
        for case in measured["training"]
    ]
    columns = ["task", "histories", "network", "batch", "histories/s", "per-row", "ratio", "wanted"]
    return table(columns, rows)


def _evaluation_table(measured: dict[str, Any]) -> str:
    rows = []
    for case in measured["evaluation"]:
        asked = f"{case['rule']}: {case['mean_answered']:.2f} of {case['steps']}"
        for key, name in (("stopping", f"at the rule ({asked})"), ("curve", f"whole curve ({case['steps']} steps)")):
            compared = case[key]
            wanted = _against(EVALUATION_GOAL, compared["ratio"]) if key == "stopping" else "–"
            shown = [figure(compared["library"]), figure(compared["per_row"]), _ratio(compared)]
            rows.append([case["task"], name, case["rows"], *shown, wanted])
    return table(["task", "what", "rows", "rows/s", "per-row", "ratio", "wanted"], rows)


def _session_table(measured: dict[str, Any]) -> str:
    rows = []
    for case in measured["session"]:
        plain = case.get("per_row", {})
        met = "met" if case["library"]["p50_ms"] < case["goal_ms"] else "missed"
        figures = [figure(side.get(key)) for side in (case["library"], plain) for key in ("p50_ms", "p99_ms")]
        wanted = f"median below {case['goal_ms']:g}, {met}"
        rows.append([case["recipe"], case["network"], *figures, figure(case.get("ratio")), wanted])
    return table(["recipe", "network", "p50", "p99", "per-row p50", "p99", "ratio", "wanted"], rows)


def _quality_section(found: dict[str, Any]) -> list[str]:
    def shown(run: dict[str, float] | None) -> str:
        return f"{figure(run['seconds'])} ({run['steps']})" if run else "not reached"

    names = ("library", *PLANS)
    rows = [
        [goal["accuracy"], *(shown(goal["by"][name]) for name in names), figure(goal["ratio"])]
        for goal in found["goals"]
    ]
    about = REACHED.format(
        every=LOOK_EVERY, **{key: found[key] for key in ("n_queries", "most_steps", "library_steps")}
    )
    columns = ["accuracy", "library, carried histories", *(f"per-row, {plan}" for plan in PLANS), "ratio"]
    return [about, table(columns, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the library's speed beside a plain implementation.")
    parser.add_argument("--quick", action="store_true", help="toy sizes, only to see that it works")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder to write speed.json and speed.md into")
    arguments = parser.parse_args()
    measured = measure(QUICK if arguments.quick else Size())
    if (before := arguments.into / "speed.json").exists():
        measured |= {key: value for key, value in json.loads(before.read_text()).items() if key in SECTIONS}
    print(save(measured, page, "speed", arguments.into))


if __name__ == "__main__":
    main()
