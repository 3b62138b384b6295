"""How time and memory grow with the number of queries, rows and labels: docs/results/growth.md, with a plot.

    python benchmarks/growth.py            # some minutes on two cores
    python benchmarks/growth.py --quick    # toy sizes: only to see that it works

Every point is measured in a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from pursuit.evaluation.curves import evaluate
from pursuit.inference.stopping import Budget
from pursuit.sessions.session import Session
from pursuit.training import CarriedHistories, Stage
from pursuit.vip import VIP
from report import RESULTS, cpu, figure, origin, save, table, where
from timing import median_seconds, quantile, session_steps, training_pace
from worlds import YesNoRows

BASELINE = "baseline"
HIDDEN, BATCH, FEW_QUERIES = (256,), 256, 5
AXES = {"n_queries": "queries", "n_rows": "rows in memory", "n_classes": "labels"}
STEEP = 1.1
"""An exponent above this is worse than linear by more than noise."""


@dataclass(frozen=True)
class Point:
    """What is measured, and on how much."""

    axis: str
    n_queries: int = 320
    n_rows: int = 10_000
    n_classes: int = 10
    in_memory: bool = False
    """Whether the rows to train on are kept, or drawn as they are needed."""
    n_steps: int = 200
    warmup: int = 5
    eval_rows: int = 512
    all_steps_rows: int = 16
    """Rows that are asked everything; 0 if that takes too long."""
    n_sessions: int = 6
    session_steps: int = 20

    @property
    def value(self) -> int:
        return int(getattr(self, self.axis))


POINTS = (
    Point("n_queries", n_queries=32),
    Point("n_queries", n_queries=320),
    Point("n_queries", n_queries=3_200, n_steps=40),
    Point("n_queries", n_queries=32_000, n_steps=6, warmup=2, all_steps_rows=0),
    *(Point("n_rows", n_queries=16, n_rows=10**k, in_memory=True) for k in (4, 5, 6, 7)),
    *(Point("n_classes", n_classes=n) for n in (2, 10, 100, 1_000)),
)
_TOY: dict[str, Any] = {"n_steps": 2, "warmup": 1, "eval_rows": 8, "all_steps_rows": 2, "n_sessions": 2}
QUICK = (
    Point("n_queries", n_queries=4, n_rows=64, session_steps=2, **_TOY),
    Point("n_queries", n_queries=8, n_rows=64, session_steps=2, **_TOY),
    Point("n_rows", n_queries=4, n_rows=64, in_memory=True, session_steps=2, **_TOY),
)


def measure_point(point: Point) -> dict[str, Any]:
    """Everything that is measured of one point, in this process."""
    source = YesNoRows.random(point.n_classes, point.n_queries, point.n_rows)
    rows = source.in_memory(point.n_rows) if point.in_memory else source
    peak_of_rows = peak_bytes()
    model = source.build(HIDDEN)
    stage = Stage(1, CarriedHistories(min(20, point.n_queries)), batch_size=BATCH)
    pace = training_pace(model, rows, stage, point.n_steps, point.warmup)
    peak_of_training = peak_bytes()
    held_out = source.draw(point.eval_rows, torch.Generator().manual_seed(2))
    few = min(FEW_QUERIES, point.n_queries)
    stopping = median_seconds(lambda: evaluate(model, held_out, Budget(few), few), at_least=0.5, most=20)
    found = {
        "histories_per_second": pace.typical_per_second,
        "start_seconds": pace.start_seconds,
        "rows_per_second": point.eval_rows / stopping,
        "all_steps_us": None,
        **_session(model, source, point),
    }
    if point.all_steps_rows:
        some = held_out.take(torch.arange(point.all_steps_rows))
        whole = median_seconds(lambda: evaluate(model, some), at_least=0.5, most=20)
        found["all_steps_us"] = 1e6 * whole / (point.all_steps_rows * point.n_queries)
    peaks = {"peak_of_rows": peak_of_rows, "peak_of_training": peak_of_training, "peak": peak_bytes()}
    return {**asdict(point), "value": point.value, **found, **peaks}


def _session(model: VIP, source: YesNoRows, point: Point) -> dict[str, float]:
    """Milliseconds of a step of a session; the first session warms up."""
    people = source.draw(point.n_sessions, torch.Generator().manual_seed(3))
    n_steps = min(point.session_steps, point.n_queries)
    times = [session_steps(Session(model), (x > 0).long().tolist(), n_steps) for x in people.x]
    later = [step for steps in times[1:] for step in steps]
    return {"p50_ms": 1e3 * quantile(later, 0.5), "p99_ms": 1e3 * quantile(later, 0.99)}


def peak_bytes() -> int:
    """The most memory this process ever had.

    Where the system tells it, of the program alone: the figure of `getrusage` may be that of the process that
    started this one.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_own_process(what: str) -> dict[str, Any]:
    """Measure a point, given as JSON, or the memory of a process that only imports."""
    command = [sys.executable, __file__, "--point", what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Measuring {what} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(points: tuple[Point, ...]) -> dict[str, Any]:
    measured: dict[str, Any] = {"where": {**where(), "processor": cpu()}}
    imports = in_own_process(BASELINE)["peak"]
    measured["imports_mb"] = imports / 1e6
    measured["points"] = []
    for point in points:
        found = in_own_process(json.dumps(asdict(point)))
        for key in ("peak_of_rows", "peak_of_training", "peak"):
            found[f"{key}_mb"] = max(0, found.pop(key) - imports) / 1e6
        measured["points"].append(found)
        print(point.axis, point.value, _costs(found), flush=True)
    return measured


def _costs(found: dict[str, Any]) -> dict[str, float]:
    """What grows: seconds or bytes of the same work, so that an exponent of 1 means linear."""
    costs = {
        "training": 1 / found["histories_per_second"],
        "start": found["start_seconds"],
        "evaluation": 1 / found["rows_per_second"],
        "all_steps": found["all_steps_us"],
        "session": found["p50_ms"],
        "peak_of_training_mb": found["peak_of_training_mb"],
        "peak_mb": found["peak_mb"],
    }
    return {key: value for key, value in costs.items() if value}


def exponents(points: list[dict[str, Any]]) -> list[dict[str, float]]:
    """From each point to the next, by what power of the axis each cost grows."""
    found = []
    for here, there in pairwise(points):
        before, after = _costs(here), _costs(there)
        times_more = math.log(there["value"] / here["value"])
        found.append({key: math.log(after[key] / before[key]) / times_more for key in before if key in after})
    return found


ABOUT = """\
# How time and memory grow

Written by `make bench-speed`; the figures are in `growth.json` beside this page. Yes/no queries independent given the
label, generated; an MLP with one hidden layer of 256 for each of querier and classifier, which sees answers and mask;
carried histories of up to 20 queries, batches of 256. One of |Q|, N and C varies at a time. A column "^" has the
exponent from the point above: by which power of the axis the time (or memory) of the same work grew. 1 is linear, the
dashed line of the plot; 0 is no growth.

- **training**: histories a second of `train`, by the median time between its reports; **start** is the time from the
  call to its first step.
- **at 5 queries**: rows a second of `evaluate` with `Budget(5)`, and not asked beyond.
- **all steps**: microseconds for each row and step of `evaluate` where every row is asked everything.
- **session**: milliseconds to ask and to hear an answer.
- **memory**: peak of the process above that of one that only imports ({imports:.0f} MB), in training alone and in all.

![growth of time and memory](growth.png)
"""
NOTES = """\
## Reading it

- **|Q|**: a step scores every query and reads every answer, so its time is a constant plus one linear in |Q|. Asking a
  row everything takes |Q| such steps, so that its time is quadratic in |Q| in any implementation: the table has the
  time of one row and step. It is not measured at 32,000, where one row would be asked 32,000 times.
- **N**: rows that are generated take no memory and are not shown. For those kept in memory the peak is the rows
  themselves and two shuffled orders, and the time of a history does not depend on N: an epoch is linear in it. The
  start shuffles all rows twice, for this pass and the next, and a random order of ten million numbers no longer fits
  the caches: that is why it may grow a little faster than N there.
- **C**: labels cost one output of the classifier each, and the table that generates the rows C x |Q| numbers.
"""
FIXED = {
    "n_queries": "10 labels, rows drawn as they are needed",
    "n_rows": "16 queries, 10 labels",
    "n_classes": "320 queries, rows drawn as they are needed",
}
COLUMNS = (
    ("histories/s", "histories_per_second", "training"),
    ("start s", "start_seconds", "start"),
    ("rows/s at 5 queries", "rows_per_second", "evaluation"),
    ("all steps µs", "all_steps_us", "all_steps"),
    ("session p50 ms", "p50_ms", "session"),
    ("p99", "p99_ms", None),
    ("training MB", "peak_of_training_mb", "peak_of_training_mb"),
    ("peak MB", "peak_mb", "peak_mb"),
)


def by_axis(measured: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for point in measured["points"]:
        found.setdefault(point["axis"], []).append(point)
    return found


def page(measured: dict[str, Any]) -> str:
    parts = [ABOUT.format(imports=measured["imports_mb"]), origin(measured)]
    for axis, points in by_axis(measured).items():
        parts += [f"## {AXES[axis].capitalize()} ({FIXED[axis]})\n", _axis_table(axis, points)]
    return "\n".join([*parts, NOTES, _steep_list(measured)])


def _axis_table(axis: str, points: list[dict[str, Any]]) -> str:
    header = [AXES[axis]]
    for name, _, cost in COLUMNS:
        header += [name, "^"] if cost else [name]
    rows = []
    for point, powers in zip(points, [{}, *exponents(points)], strict=True):
        cells = [f"{point['value']:,}"]
        for _, key, cost in COLUMNS:
            cells.append(figure(point[key]))
            if cost:
                cells.append(f"{powers[cost]:.2f}" if cost in powers else "")
        rows.append(cells)
    return table(header, rows)


def _steep_list(measured: dict[str, Any]) -> str:
    """Names everything that grew faster than linearly."""
    found = [
        f"{cost} from {here['value']:,} to {there['value']:,} {AXES[axis]} ({power:.2f})"
        for axis, points in by_axis(measured).items()
        for (here, there), powers in zip(pairwise(points), exponents(points), strict=True)
        for cost, power in powers.items()
        if power > STEEP
    ]
    return f"Steeper than linear (above {STEEP}): {'; '.join(found) or 'nothing'}.\n"


def plot(measured: dict[str, Any], path: Path) -> None:
    """Time and memory against each axis, log-log; the dashed line through the first point is linear growth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {
        "ms a history": {"training": lambda p: 1e3 / p["histories_per_second"]},
        "ms a row, 5 queries": {"evaluation": lambda p: 1e3 / p["rows_per_second"]},
        "ms a session step": {"p50": lambda p: p["p50_ms"], "p99": lambda p: p["p99_ms"]},
        "peak memory, MB": {"in all": lambda p: p["peak_mb"], "training": lambda p: p["peak_of_training_mb"]},
    }
    axes = by_axis(measured)
    figure_, grid = pyplot.subplots(len(panels), len(axes), figsize=(3.6 * len(axes), 9), sharex="col", squeeze=False)
    for column, (axis, points) in enumerate(axes.items()):
        values = [point["value"] for point in points]
        for row, (name, lines) in enumerate(panels.items()):
            panel = grid[row][column]
            for label, cost in lines.items():
                panel.loglog(values, [cost(point) for point in points], marker="o", label=label)
            first = max(1e-6, next(iter(lines.values()))(points[0]))
            panel.loglog(values, [first * value / values[0] for value in values], "--", color="grey", linewidth=1)
            if column == 0:
                panel.set_ylabel(name)
            if len(lines) > 1:
                panel.legend(fontsize="small")
        grid[-1][column].set_xlabel(AXES[axis])
    figure_.tight_layout()
    figure_.savefig(path, dpi=110)
    pyplot.close(figure_)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how time and memory grow with queries, rows and labels.")
    parser.add_argument("--quick", action="store_true", help="toy sizes, only to see that it works")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder to write growth.json, .md and .png into")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        import lightning_fabric  # noqa: F401  (training imports it, and the baseline must have it, too)

        is_baseline = arguments.point == BASELINE
        found = {"peak": peak_bytes()} if is_baseline else measure_point(Point(**json.loads(arguments.point)))
        print(json.dumps(found))
        return
    measured = measure(QUICK if arguments.quick else POINTS)
    arguments.into.mkdir(parents=True, exist_ok=True)
    plot(measured, arguments.into / "growth.png")
    print(save(measured, page, "growth", arguments.into))


if __name__ == "__main__":
    main()
