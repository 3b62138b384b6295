"""Very long and very wide tables, by default settings: seconds and memory to learn and to predict.

Every size is measured in a process of its own, so that its peak memory is its own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from growth import peak_bytes
from report import cpu, figure, rounded, table, where

SIZES = {"long": (1_000_000, 20), "wide": (500, 20_000)}
"""Rows and columns."""
N_TOLD, PREDICTED_ROWS = 10, 200
"""How many columns have to do with the label, and how many rows are predicted."""
LIMIT_SECONDS = 7_200.0
"""The most for a size, by the clock."""
FILE = "sizes.json"
BASELINE = "baseline"


def generate(n_rows: int, n_columns: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Half numbers and half words of four kinds; ten columns tell something about a label of three, and one cell in
    twenty is missing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    columns: dict[str, Any] = {}
    for i in range(n_columns):
        told = i < N_TOLD
        missing = rng.random(n_rows) < 0.05
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


def measure(n_rows: int, n_columns: int) -> dict[str, Any]:
    """In this process."""
    from pursuit.methods import VIPClassifier

    X, y = generate(n_rows + PREDICTED_ROWS, n_columns)
    train, test = slice(0, n_rows), slice(n_rows, None)
    peak_of_rows, start = peak_bytes(), time.perf_counter()
    classifier = VIPClassifier(random_state=0).fit(X[train], y[train])
    fitted, peak_of_fit = time.perf_counter(), peak_bytes()
    right = classifier.predict(X[test]) == y[test]
    return {
        "rows": n_rows,
        "columns": n_columns,
        "fit_seconds": fitted - start,
        "predict_seconds": time.perf_counter() - fitted,
        "accuracy": float(right.mean()),
        "peak_of_rows": peak_of_rows,
        "peak_of_fit": peak_of_fit,
        "peak": peak_bytes(),
    }


def in_own_process(size: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [sys.executable, __file__, size], capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"not_run": f"takes more than {LIMIT_SECONDS:,.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"not_run": last}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_all(folder: Path) -> None:
    """Measure all sizes and write them into the folder."""
    found = {"where": {**where(), "processor": cpu()}, "imports": in_own_process(BASELINE)["peak"]}
    for name, (n_rows, n_columns) in SIZES.items():
        found[name] = {"rows": n_rows, "columns": n_columns, **in_own_process(f"{n_rows}x{n_columns}")}
        print(name, found[name], flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(rounded(found), indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, Any] | None:
    path = folder / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


ABOUT = """\
Generated: half numbers, half words of four kinds, one cell in twenty missing; ten columns tell something about a label
of three. V-IP by default settings learns from all rows and predicts {n:,} others. Memory is the peak of the process
above that of one that only imports ({imports:,.0f} MB): with the table alone, and once V-IP has learnt.
"""


def sizes_section(found: Mapping[str, Any]) -> str:
    rows = []
    for name in SIZES:
        one, before = found[name], found["imports"]
        size = [f"{one['rows']:,}", f"{one['columns']:,}"]
        if "not_run" in one:
            rows.append([*size, f"not run: {one['not_run']}", "", "", "", ""])
            continue
        memory = (figure((one[key] - before) / 1e6) for key in ("peak_of_rows", "peak_of_fit"))
        seconds = (figure(one[key]) for key in ("fit_seconds", "predict_seconds"))
        rows.append([*size, *seconds, f"{one['accuracy']:.3f}", *memory])
    columns = ["rows", "columns", "fit s", "predict s", "accuracy", "MB of the table", "MB at the peak"]
    here = found["where"]
    origin = f"Commit {here['commit']}, {here['processor']} ({here['machine']}).\n"
    return "\n".join([ABOUT.format(n=PREDICTED_ROWS, imports=found["imports"] / 1e6), table(columns, rows), origin])


if __name__ == "__main__":
    if sys.argv[1] == BASELINE:
        import lightning_fabric  # noqa: F401  (training imports it, and the baseline must have it, too)

        import pursuit.methods  # noqa: F401

        print(json.dumps({"peak": peak_bytes()}))
    else:
        n_rows, n_columns = map(int, sys.argv[1].split("x"))
        print(json.dumps(measure(n_rows, n_columns)))
