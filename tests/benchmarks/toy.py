"""A study whose runs tell what happens to them."""

import os
import signal
import time
from pathlib import Path

from benchmarks.report import Record, grid, grouped
from benchmarks.study import Study


def measure(folder: str, name: str, seed: int, size: int = 3) -> Record:
    log = Path(folder) / f"{name}-{seed}-{size}.log"
    with log.open("a") as file:
        file.write("begun\n")
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "slow":
        time.sleep(1.0)
    if name == "wrong":
        raise ValueError("a run that fails")
    if name == "endless":
        while True:
            pass
    return {"value": seed / 3, "size_seen": size, "long": list(range(5000))}


def page(records: list[Record]) -> dict[str, str]:
    return {"figures": grid(grouped(records, "name"), {"value": "value|.3f±"}, "name")}


def study(folder: Path, *runs: tuple[str, int], file: str = "", limit_seconds: float | None = None) -> Study:
    settings = [{"folder": str(folder), "name": name, "seed": seed} for name, seed in runs]
    return Study(name="toy", runs=settings, measure=measure, page=page, file=file, limit_seconds=limit_seconds)
