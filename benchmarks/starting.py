"""How long the program takes to start: a section of docs/results/speed.md.

python benchmarks/starting.py          # a minute
python benchmarks/starting.py --demo   # also `make demo` in an empty clone, environment included: some minutes
"""

import argparse
import csv
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from pursuit.cli.commands import COMMANDS
from report import RESULTS, cpu, figure, save, table, where

ROOT = RESULTS.parent.parent
PROGRAM = [sys.executable, "-m", "pursuit"]
IMPORT = """
import time, torch
began = time.process_time()
import pursuit
pursuit.VIPClassifier
print(time.process_time() - began)
"""
ROUNDS = 3
AT_ONCE = {
    "the help of a command, the slowest of all": [[name, "--help"] for name in COMMANDS],
    "`pursuit methods`": [["methods"]],
    "`pursuit tasks`": [["tasks"]],
    "a misspelt command or option": [["trian"], ["train", "--trget", "label"]],
    "a file or a model that is not there": [["train", "nowhere.csv"], ["show", "nowhere"]],
}
COMPUTING = {
    "`pursuit show`": ["show", "model"],
    "`pursuit explain`, one row": ["explain", "model", "--data", "rows.csv", "--row", "0"],
    "`pursuit export`": ["export", "model", "page.html"],
    "`pursuit report`": ["report", "model", "--data", "rows.csv"],
}
GOAL, ANSWERS_GOAL, DEMO_GOAL = 1.0, 5.0, 120.0
PATIENCE = 120.0
ABOUT = """\
## Starting

By `python benchmarks/starting.py`: seconds of CPU that a fresh process takes, the median of {rounds} rounds, and for
`serve` and `make demo` seconds on the clock. Of the commands that compute, {torch:.1f} s are `import torch`. Other
programs share the cores, so times vary. ({origin})
"""


def measure(rounds: int, with_demo: bool) -> dict[str, Any]:
    """All times, in seconds; `wanted` is the goal, where there is one."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as everywhere
    with tempfile.TemporaryDirectory() as folder:
        _rows(Path(folder) / "rows.csv")
        run = ["train", "rows.csv", "--target", "label", "--out", "model", "--epochs", "3"]
        subprocess.run([*PROGRAM, *run], cwd=folder, check=True, capture_output=True)
        times = [
            _said(name, max(_cpu_seconds([*PROGRAM, *one], folder, rounds) for one in commands), GOAL)
            for name, commands in AT_ONCE.items()
        ]
        subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True)
        printed = [float(subprocess.check_output([sys.executable, "-c", IMPORT])) for _ in range(rounds)]
        name = "`import pursuit; pursuit.VIPClassifier`, after torch"
        times.append(_said(name, statistics.median(printed), GOAL))
        times += [_said(name, _cpu_seconds([*PROGRAM, *one], folder, rounds)) for name, one in COMPUTING.items()]
        first_line, answers = _serve(folder)
        times.append(_said("`pursuit serve`: says what it loads, on the clock", first_line, GOAL))
        times.append(_said("`pursuit serve`: answers, on the clock", answers, ANSWERS_GOAL))
    if with_demo:
        times.append(_said("`make demo` in an empty clone, on the clock", _demo(), DEMO_GOAL))
    torch = _cpu_seconds([sys.executable, "-c", "import torch"], ".", rounds)
    return {"where": {**where(), "processor": cpu()}, "rounds": rounds, "torch": torch, "times": times}


def _said(name: str, seconds: float, wanted: float | None = None) -> dict[str, Any]:
    print(f"{name}: {seconds:.2f} s", flush=True)
    return {"what": name, "seconds": seconds, "wanted": wanted}


def _cpu_seconds(command: list[str], folder: str, rounds: int) -> float:
    """The CPU time of a process, whatever it ends with."""
    taken = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


def _serve(folder: str) -> tuple[float, float]:
    """Seconds until `pursuit serve` prints something, and until it answers a request."""
    began, port = time.monotonic(), random.randrange(20_000, 60_000)
    options = ["--port", str(port), "--no-open", "--database", "sqlite:///sessions.db"]
    command = [*PROGRAM, "serve", "model", *options]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **pipe) as server:  # type: ignore[call-overload]
        server.stdout.readline()
        first_line = time.monotonic() - began
        try:
            while time.monotonic() - began < PATIENCE:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE).close()
                    return first_line, time.monotonic() - began
                except urllib.error.URLError:
                    time.sleep(0.02)
        finally:
            server.terminate()
    raise TimeoutError("pursuit serve does not answer")


def _demo() -> float:
    """Seconds of `make demo` in a fresh clone of the last commit."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), "clone"], cwd=folder, check=True)
        began = time.monotonic()
        subprocess.run(["make", "demo"], cwd=Path(folder) / "clone", check=True)
        return time.monotonic() - began


def _rows(path: Path) -> None:
    randomness = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"question_{i}" for i in range(5)), "label"])
        for _ in range(200):
            answers = [randomness.choice(("yes", "no")) for _ in range(5)]
            writer.writerow([*answers, "ill" if answers[:2] == ["yes", "yes"] else "well"])


def section(found: dict[str, Any]) -> list[str]:
    """The lines of the page."""
    origin = ", ".join(f"{key} {found['where'][key]}" for key in ("commit", "processor", "machine"))
    about = ABOUT.format(rounds=found["rounds"], torch=found["torch"], origin=origin)
    rows = [[one["what"], figure(one["seconds"]), _wanted(one)] for one in found["times"]]
    return [about, table(["what", "seconds", "wanted"], rows)]


def _wanted(one: dict[str, Any]) -> str:
    if one["wanted"] is None:
        return "–"
    return f"{one['wanted']:g}, {'met' if one['seconds'] <= one['wanted'] else 'missed'}"


def main() -> None:
    import speed  # which has the other sections of the page

    parser = argparse.ArgumentParser(description="Measure how long the program takes to start.")
    parser.add_argument("--demo", action="store_true", help="also `make demo` in an empty clone")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder with speed.json")
    arguments = parser.parse_args()
    measured = json.loads((arguments.into / "speed.json").read_text(encoding="utf-8"))
    measured["starting"] = measure(arguments.rounds, arguments.demo)
    print("\n".join(section(measured["starting"])))
    save(measured, speed.page, "speed", arguments.into)


if __name__ == "__main__":
    main()
