"""How long the program takes to start: seconds of CPU of a fresh process; of `serve` and `make demo`, on the clock."""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from benchmarks.common import free_port
from benchmarks.report import RESULTS, Record, columns, grid, grouped, origins, wanted
from benchmarks.study import Study, every
from pursuit.cli.app import COMMANDS

PROGRAM = [sys.executable, "-m", "pursuit"]
IMPORT = (
    "import time, torch; t = time.process_time(); import pursuit; pursuit.VIPClassifier; print(time.process_time() - t)"
)
ROUNDS, PATIENCE = 1, 120.0
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
IMPORTED, TORCH = (
    "`import pursuit; pursuit.VIPClassifier`, after torch",
    "`import torch`, of what commands that compute take",
)
FIRST_LINE, ANSWERS = "`pursuit serve`: says what it loads, on the clock", "`pursuit serve`: answers, on the clock"
DEMO = "`make demo` in an empty clone, on the clock"
GOALS = {**dict.fromkeys((*AT_ONCE, IMPORTED, FIRST_LINE), 1.0), ANSWERS: 5.0, DEMO: 120.0}


def measure(what: str, rounds: int = ROUNDS) -> Record:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as everywhere
    with tempfile.TemporaryDirectory() as folder:
        if what in AT_ONCE:
            return {"seconds": max(cpu_seconds([*PROGRAM, *one], folder, rounds) for one in AT_ONCE[what])}
        if what == TORCH:
            return {"seconds": cpu_seconds([sys.executable, "-c", "import torch"], folder, rounds)}
        if what == IMPORTED:
            printed = [float(subprocess.check_output([sys.executable, "-c", IMPORT])) for _ in range(rounds + 1)]
            return {"seconds": statistics.median(printed[1:])}
        if what == DEMO:
            clone = ["git", "clone", "--quiet", str(RESULTS.parents[1]), "clone"]
            subprocess.run(clone, cwd=folder, check=True)
            began = time.monotonic()
            subprocess.run(["make", "demo"], cwd=Path(folder) / "clone", check=True)
            return {"seconds": time.monotonic() - began}
        shutil.copy(RESULTS.parent / "examples" / "repairs.csv", Path(folder) / "rows.csv")
        train = ["train", "rows.csv", "--target", "fault", "--out", "model", "--epochs", "3"]
        subprocess.run([*PROGRAM, *train], cwd=folder, check=True, capture_output=True)
        if what in COMPUTING:
            return {"seconds": cpu_seconds([*PROGRAM, *COMPUTING[what]], folder, rounds)}
        return {"seconds": dict(zip((FIRST_LINE, ANSWERS), serve(folder), strict=True))[what]}


def cpu_seconds(command: list[str], folder: str, rounds: int) -> float:
    """The CPU time of a process, whatever it ends with."""
    taken = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


def serve(folder: str) -> tuple[float, float]:
    """Seconds until `pursuit serve` prints something, and until it answers a request."""
    began, port = time.monotonic(), free_port()
    command = [*PROGRAM, "serve", "model", "--port", str(port), "--no-open", "--database", "sqlite:///sessions.db"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
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


def page(records: list[Record]) -> dict[str, str]:
    shown = {
        **columns("seconds = seconds|figure"),
        "wanted": lambda each: wanted(each[0]["seconds"], most=GOALS.get(each[0]["what"])),
    }
    return {"speed.md#starting": grid(grouped(records, "what"), shown, "what") + "\n" + origins(records)}


STUDY = Study(
    name="starting",
    runs=every(what=(*AT_ONCE, IMPORTED, *COMPUTING, FIRST_LINE, ANSWERS, DEMO, TORCH)),
    measure=measure,
    page=page,
    quick={"rounds": 1},
)
