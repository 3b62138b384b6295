"""How time and memory grow with the number of queries, rows and labels: yes/no queries independent given the label,
generated; and what very long and very wide tables take by default settings. Every point is measured in a process of its
own, so that its peak memory is its own."""

import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.report import Record, columns, grid, grouped, origins
from benchmarks.speed import latencies, seconds_of, session_steps, training_pace
from benchmarks.study import Study
from benchmarks.worlds import YesNoRows
from pursuit import Budget, CarriedHistories, Session, Stage, VIPClassifier
from pursuit.evaluation.curves import evaluate

AXES = {"n_queries": "queries", "n_rows": "rows in memory", "n_classes": "labels"}
TABLE = "table"
HIDDEN, BATCH, FEW_QUERIES = (256,), 256, 5
N_TOLD, PREDICTED_ROWS = 10, 200
"""Of generated tables: how many columns have to do with the label, and how many rows are predicted."""


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
    if axis == TABLE:
        return learnt_table(n_rows, n_queries)
    imports = peak_of_imports()
    source = YesNoRows.random(n_classes, n_queries, n_rows)
    rows = source.in_memory() if in_memory else source
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


def learnt_table(n_rows: int, n_columns: int) -> Record:
    imports = peak_of_imports()
    X, y = generate(n_rows + PREDICTED_ROWS, n_columns)
    of_rows, start = peak_bytes(), time.perf_counter()
    classifier = VIPClassifier(random_state=0).fit(X[:n_rows], y[:n_rows])
    fitted, of_fit = time.perf_counter(), peak_bytes()
    right = classifier.predict(X[n_rows:]) == y[n_rows:]
    return {
        "fit_seconds": fitted - start,
        "predict_seconds": time.perf_counter() - fitted,
        "accuracy": float(right.mean()),
        "peak_of_rows_mb": (of_rows - imports) / 1e6,
        "peak_of_fit_mb": (of_fit - imports) / 1e6,
    }


def generate(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Half numbers and half words of four kinds; ten columns tell something about a label of three, and one cell in
    twenty is missing."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    columns: dict[str, Any] = {}
    for i in range(n_columns):
        told, missing = i < N_TOLD, rng.random(n_rows) < 0.05
        if i % 2:
            code = np.where(told & (rng.random(n_rows) < 0.4), (y + i) % 4, rng.integers(4, size=n_rows))
            words = np.array(["north", "east", "south", "west"], dtype=object)[code]
            words[missing] = None
            columns[f"word {i}"] = words
        else:
            number = rng.normal(size=n_rows) + (0.7 * (y == i % 3) if told else 0)
            number[missing] = np.nan
            columns[f"number {i}"] = number
    return pd.DataFrame(columns), np.array(["a", "b", "c"])[y]


def peak_bytes() -> int:
    """The most memory this process ever had. Where the system tells it, of the program alone: the figure of `getrusage`
    may be that of the process that started this one."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_of_imports() -> int:
    """With everything that training imports."""
    import lightning_fabric  # noqa: F401

    import pursuit.methods  # noqa: F401

    return peak_bytes()


def median_seconds(action: Callable[[], Any]) -> float:
    """The median time of an action, repeated until half a second is over or it was done 20 times."""
    times = [seconds_of(action)]
    while sum(times) < 0.5 and len(times) < 20:
        times.append(seconds_of(action))
    return statistics.median(times)


def page(records: list[Record]) -> dict[str, str]:
    shown = columns(
        "histories/s = histories_per_second|figure; start s = start_seconds|figure;"
        "rows/s at 5 queries = rows_per_second|figure; all steps µs = all_steps_us|figure;"
        "session p50 ms = p50_ms|figure; p99 = p99_ms|figure; training MB = peak_of_training_mb|figure;"
        "peak MB = peak_mb|figure"
    )
    of_tables = columns(
        "fit s = fit_seconds|figure; predict s = predict_seconds|figure; accuracy = accuracy|.3f;"
        "MB of the table = peak_of_rows_mb|figure; MB at the peak = peak_of_fit_mb|figure"
    )
    by_axis = grouped(records, "axis")
    tables = by_axis.pop(TABLE, [])
    sections = {AXES[axis]: grid(grouped(points, "value"), shown, AXES[axis]) for axis, points in by_axis.items()}
    wide = grid(grouped(tables, "n_rows", "n_queries"), of_tables, "rows", "columns")
    return {**sections, "tables": wide, "origins": origins(records, "axis")}


STUDY = Study(
    name="growth",
    runs=[
        {"axis": "n_queries", "n_queries": 32},
        {"axis": "n_queries", "n_queries": 320},
        {"axis": "n_queries", "n_queries": 3_200, "n_steps": 40},
        {"axis": "n_queries", "n_queries": 32_000, "n_steps": 6, "warmup": 2, "all_steps_rows": 0},
        *({"axis": "n_rows", "n_queries": 16, "n_rows": 10**k, "in_memory": True} for k in (4, 5, 6, 7)),
        *({"axis": "n_classes", "n_classes": n} for n in (2, 10, 100, 1_000)),
        {"axis": TABLE, "n_rows": 1_000_000, "n_queries": 20},
        {"axis": TABLE, "n_rows": 500, "n_queries": 20_000},
    ],
    measure=measure,
    page=page,
    quick={"n_queries": 8, "n_rows": 64, "n_steps": 3, "warmup": 1, "eval_rows": 8, "all_steps_rows": 2}
    | {"n_sessions": 2},
    limit_seconds=14_400.0,
)
