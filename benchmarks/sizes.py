"""Very long and very wide tables, by default settings: seconds and memory to learn and to predict."""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.report import Record, columns, grid, grouped, origins
from benchmarks.study import Study

N_TOLD, PREDICTED_ROWS = 10, 200
"""How many columns have to do with the label, and how many rows are predicted."""


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


def generate(n_rows: int, n_columns: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Half numbers and half words of four kinds; ten columns tell something about a label of three, and one cell in
    twenty is missing."""
    rng = np.random.default_rng(seed)
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


def measure(rows: int, columns: int) -> Record:
    from pursuit import VIPClassifier

    imports = peak_of_imports()
    X, y = generate(rows + PREDICTED_ROWS, columns)
    peak_of_rows, start = peak_bytes(), time.perf_counter()
    classifier = VIPClassifier(random_state=0).fit(X[:rows], y[:rows])
    fitted, peak_of_fit = time.perf_counter(), peak_bytes()
    right = classifier.predict(X[rows:]) == y[rows:]
    return {
        "fit_seconds": fitted - start,
        "predict_seconds": time.perf_counter() - fitted,
        "accuracy": float(right.mean()),
        "imports": imports,
        "peak_of_rows": peak_of_rows,
        "peak_of_fit": peak_of_fit,
        "peak": peak_bytes(),
    }


def page(records: list[Record]) -> dict[str, str]:
    for one in records:
        one |= {f"mb_{key}": (one[f"peak_of_{key}"] - one["imports"]) / 1e6 for key in ("rows", "fit")}
    shown = columns(
        "fit s = fit_seconds|figure; predict s = predict_seconds|figure; accuracy = accuracy|.3f;"
        "MB of the table = mb_rows|figure; MB at the peak = mb_fit|figure"
    )
    text = grid(grouped(records, "rows", "columns"), shown, "rows", "columns")
    return {"tables.md#sizes": text + "\n" + origins(records)}


STUDY = Study(
    name="sizes",
    runs=[{"rows": 1_000_000, "columns": 20}, {"rows": 500, "columns": 20_000}],
    measure=measure,
    page=page,
    quick={"rows": 300, "columns": 12},
    limit_seconds=14_400.0,
)
