"""How time and memory grow with the number of queries, rows and labels, with a plot. Yes/no queries independent given
the label, generated; every point is measured in a process of its own, so that its peak memory is its own."""

import math
import statistics
from itertools import pairwise
from pathlib import Path

import torch

from benchmarks.report import Record, figure, grouped, origins, table
from benchmarks.sizes import peak_bytes, peak_of_imports
from benchmarks.speed import latencies, seconds_of, session_steps, training_pace
from benchmarks.study import Study
from benchmarks.worlds import YesNoRows
from pursuit import Budget, CarriedHistories, Session, Stage
from pursuit.evaluation.curves import evaluate

AXES = {"n_queries": "queries", "n_rows": "rows in memory", "n_classes": "labels"}
HIDDEN, BATCH, FEW_QUERIES, STEEP = (256,), 256, 5, 1.1
"""An exponent above the last is worse than linear by more than noise."""
COLUMNS = {
    "histories/s": ("histories_per_second", "training"),
    "start s": ("start_seconds", "start"),
    "rows/s at 5 queries": ("rows_per_second", "evaluation"),
    "all steps µs": ("all_steps_us", "all_steps"),
    "session p50 ms": ("p50_ms", "session"),
    "p99": ("p99_ms", None),
    "training MB": ("peak_of_training_mb", "peak_of_training_mb"),
    "peak MB": ("peak_mb", "peak_mb"),
}
"""What is shown, and by which cost its growth is judged."""


def measure(
    axis: str,
    n_queries: int = 320,
    n_rows: int = 10_000,
    n_classes: int = 10,
    in_memory: bool = False,
    n_steps: int = 200,
    warmup: int = 5,
    eval_rows: int = 512,
    all_steps_rows: int = 16,
    n_sessions: int = 6,
) -> Record:
    """Rows to train on are kept in memory, or drawn as they are needed; 0 rows are asked everything where that takes
    too long."""
    imports = peak_of_imports()
    source = YesNoRows.random(n_classes, n_queries, n_rows)
    rows = source.in_memory(n_rows) if in_memory else source
    peaks = {"peak_of_rows": peak_bytes()}
    model = source.build(HIDDEN)
    stage = Stage(1, CarriedHistories(min(20, n_queries)), batch_size=BATCH)
    pace = training_pace(model, rows, stage, n_steps, warmup)
    peaks["peak_of_training"] = peak_bytes()
    held_out, few = source.draw(eval_rows, torch.Generator().manual_seed(2)), min(FEW_QUERIES, n_queries)
    people = source.draw(n_sessions, torch.Generator().manual_seed(3))
    steps = [session_steps(Session(model), (x > 0).long().tolist(), min(20, n_queries)) for x in people.x]
    whole = None
    if all_steps_rows:
        some = held_out.take(torch.arange(all_steps_rows))
        whole = 1e6 * median_seconds(lambda: evaluate(model, some)) / (all_steps_rows * n_queries)
    peaks["peak"] = peak_bytes()
    return {
        "value": {"n_queries": n_queries, "n_rows": n_rows, "n_classes": n_classes}[axis],
        "histories_per_second": pace.typical_per_second,
        "start_seconds": pace.start_seconds,
        "rows_per_second": eval_rows / median_seconds(lambda: evaluate(model, held_out, Budget(few), few)),
        "all_steps_us": whole,
        **latencies(steps),
        "imports_mb": imports / 1e6,
        **{f"{key}_mb": max(0, value - imports) / 1e6 for key, value in peaks.items()},
    }


def median_seconds(action: object) -> float:
    """The median time of an action, repeated until half a second is over or it was done 20 times."""
    times = [seconds_of(action)]
    while sum(times) < 0.5 and len(times) < 20:
        times.append(seconds_of(action))
    return statistics.median(times)


def costs(found: Record) -> dict[str, float]:
    """What grows: seconds or bytes of the same work, so that an exponent of 1 means linear."""
    values = {
        "training": 1 / found["histories_per_second"],
        "start": found["start_seconds"],
        "evaluation": 1 / found["rows_per_second"],
        "all_steps": found["all_steps_us"],
        "session": found["p50_ms"],
        "peak_of_training_mb": found["peak_of_training_mb"],
        "peak_mb": found["peak_mb"],
    }
    return {key: value for key, value in values.items() if value}


def exponents(points: list[Record]) -> list[dict[str, float]]:
    """From each point to the next, by what power of the axis each cost grows."""
    found = []
    for here, there in pairwise(points):
        before, after = costs(here), costs(there)
        times_more = math.log(there["value"] / here["value"])
        found.append({key: math.log(after[key] / before[key]) / times_more for key in before if key in after})
    return found


def page(records: list[Record]) -> dict[str, str]:
    sections, steep = {}, []
    for axis, points in grouped(records, "axis").items():
        rows, powers = [], [{}, *exponents(points)]
        for point, power in zip(points, powers, strict=True):
            cells = [f"{point['value']:,}"]
            for key, cost in COLUMNS.values():
                cells += [figure(point[key]), *([f"{power[cost]:.2f}" if cost in power else ""] if cost else [])]
            rows.append(cells)
        for (here, there), power in zip(pairwise(points), powers[1:], strict=True):
            span = f"from {here['value']:,} to {there['value']:,} {AXES[axis]}"
            steep += [f"{cost} {span} ({value:.2f})" for cost, value in power.items() if value > STEEP]
        header = [title for name, (_, cost) in COLUMNS.items() for title in ((name, "^") if cost else (name,))]
        sections[AXES[axis]] = table([AXES[axis], *header], rows)
    said = f"Steeper than linear (above {STEEP}): {'; '.join(steep) or 'nothing'}.\n"
    return {**sections, "steep": said, "origins": origins(records)}


def draw(records: list[Record], folder: Path) -> None:
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
    axes = grouped(records, "axis")
    drawing, grid = pyplot.subplots(len(panels), len(axes), figsize=(3.6 * len(axes), 9), sharex="col", squeeze=False)
    for column, (axis, points) in enumerate(axes.items()):
        values = [point["value"] for point in points]
        for row, (name, lines) in enumerate(panels.items()):
            panel = grid[row][column]
            for label, cost in lines.items():
                panel.loglog(values, [cost(point) for point in points], marker="o", label=label)
            first = max(1e-6, next(iter(lines.values()))(points[0]))
            panel.loglog(values, [first * value / values[0] for value in values], "--", color="grey", linewidth=1)
            panel.set_ylabel(name if column == 0 else "")
            if len(lines) > 1:
                panel.legend(fontsize="small")
        grid[-1][column].set_xlabel(AXES[axis])
    drawing.tight_layout()
    drawing.savefig(folder / "growth.png", dpi=110)
    pyplot.close(drawing)


STUDY = Study(
    name="growth",
    runs=[
        {"axis": "n_queries", "n_queries": 32},
        {"axis": "n_queries", "n_queries": 320},
        {"axis": "n_queries", "n_queries": 3_200, "n_steps": 40},
        {"axis": "n_queries", "n_queries": 32_000, "n_steps": 6, "warmup": 2, "all_steps_rows": 0},
        *({"axis": "n_rows", "n_queries": 16, "n_rows": 10**k, "in_memory": True} for k in (4, 5, 6, 7)),
        *({"axis": "n_classes", "n_classes": n} for n in (2, 10, 100, 1_000)),
    ],
    measure=measure,
    page=page,
    draw=draw,
    quick={
        "n_queries": 8,
        "n_rows": 64,
        "n_steps": 3,
        "warmup": 1,
        "eval_rows": 8,
        "all_steps_rows": 2,
        "n_sessions": 2,
    },
)
