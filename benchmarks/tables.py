"""Ordinary tables, without a setting: docs/results/tables.md, with a JSON file of every run beside it.

    python benchmarks/tables.py                                   # everything that is not measured yet, and the page
    python benchmarks/tables.py --tables heart,credit --seeds 0,1 --methods vip,hgb
    python benchmarks/tables.py --validation --methods vip        # on rows held out from those to learn from
    python benchmarks/tables.py --page                            # only the page, from what is measured
    python benchmarks/tables.py --sizes                           # only time and memory on very long and wide tables

Tables are read from --data, $PURSUIT_DATA/tables or ../shared/data/tables. A run is one method on one table with one
seed: `TABLE/METHOD-SEED.json`. It is not measured again, but for methods of ours whose code has changed. What stands on
the page is what the JSON files say. With --validation, runs are written into results/tables-validation and there is no
page: settings are chosen there, and test rows have no say in it.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import resource
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pursuit
import table_overview
import table_page
import table_sizes
from pursuit.files import write_whole
from pursuit.methods import METHODS
from readme import write_readme
from report import OVERVIEW, RESULTS, cpu, into_page, rounded, where
from table_data import TARGETS, default_folder, read, split
from table_methods import TITLES, available, is_own, measure

FOLDER, PAGE, VALIDATION_FOLDER = RESULTS / "tables", RESULTS / "tables.md", Path("results") / "tables-validation"
SEEDS = (0, 1, 2, 3, 4)
LIMIT_SECONDS, OWN_LIMIT_SECONDS, LIMIT_GB = 900.0, 3600.0, 8.0
"""The most for a run: computing of others and of our methods, and memory."""


@dataclass(frozen=True)
class Run:
    """One method on one table with one seed."""

    table: str
    method: str
    seed: int
    folder: Path
    data: Path
    is_validation: bool = False

    @property
    def path(self) -> Path:
        return self.folder / self.table / f"{self.method}-{self.seed}.json"

    @property
    def label(self) -> str:
        return f"{self.table}, {self.method}, seed {self.seed}"

    def read(self, source: str, keep: bool) -> dict[str, Any] | None:
        """What was found before, by this code if that matters."""
        if not self.path.exists():
            return None
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return found if keep or not is_own(self.method) or found["source"] == source else None

    def measure(self) -> dict[str, Any]:
        X, y = read(self.table, self.data)
        rows = split(X, y, self.seed, self.is_validation)
        return {"shape": rows.shape, **measure(self.method, rows, self.seed)}

    def write(self, found: dict[str, Any], source: str) -> None:
        about = {"table": self.table, "method": self.method, "seed": self.seed, "source": source}
        values = rounded({**about, **found, "where": {**where(), "processor": cpu()}})
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]  # one for each value
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def source_of_code() -> str:
    """Names the code of the package by its contents, so that a change of a page alone changes nothing."""
    folder, digest = Path(pursuit.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def main(arguments: Sequence[str]) -> None:
    parser = _parser()
    given = parser.parse_args(arguments)
    for what, names, known in (("table", given.tables, TARGETS), ("method", given.methods, {**TITLES, **METHODS})):
        if unknown := [name for name in names if name not in known]:
            parser.error(f"There is no {what} {', '.join(unknown)}: choose from {', '.join(known)}.")
    folder = given.folder or (VALIDATION_FOLDER if given.validation else FOLDER)
    if given.sizes:
        table_sizes.measure_all(folder)
    elif not given.page:
        runs = [
            Run(table, method, seed, folder, given.data or default_folder(), given.validation)
            for table in given.tables
            for method in given.methods
            for seed in given.seeds
        ]
        measure_runs(runs, given.jobs, given.seconds, given.keep)
    found = table_page.read_runs(folder)
    print(table_page.summary(found, given.tables))
    if not given.validation:
        page = PAGE if folder == FOLDER else folder / "tables.md"
        page.write_text(table_page.page(found, table_sizes.read(folder)), encoding="utf-8")
        if folder == FOLDER:
            into_page(OVERVIEW, "tables", table_overview.overview_section(found))
            write_readme()
        print(f"Written: {page}")


def _parser() -> argparse.ArgumentParser:
    def names(text: str) -> list[str]:
        return text.split(",")

    parser = argparse.ArgumentParser(description="Measure V-IP and others on ordinary tables, without a setting.")
    parser.add_argument("--tables", type=names, default=list(TARGETS), help="as in heart,credit; by default all")
    parser.add_argument("--methods", type=names, default=list(TITLES), help=f"as in vip,hgb; of {', '.join(TITLES)}")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=list(SEEDS))
    parser.add_argument("--validation", action="store_true", help="measure on rows held out from those to learn from")
    parser.add_argument("--folder", type=Path, help="of the JSON files")
    parser.add_argument("--data", type=Path, help="the folder of the tables")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each in a process of its own")
    parser.add_argument("--seconds", type=float, help="of computing: the most for a run")
    parser.add_argument("--keep", action="store_true", help="also keep what another version of our code measured")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--sizes", action="store_true", help="only measure very long and very wide tables")
    return parser


def measure_runs(runs: Sequence[Run], n_jobs: int, seconds: float | None, keep: bool) -> None:
    """Measure what is not measured yet, several at a time, by default within the usual limits. What ran out of time or
    memory with one seed is not tried with others."""
    source, waiting, at_work, gave_up = source_of_code(), [], {}, {}
    for run in runs:
        found = run.read(source, keep)
        if found and found.get("is_too_large"):
            gave_up[run.table, run.method] = found["not_run"]
        elif not found and available(run.method):
            waiting.append(run)
        elif not found:
            print(f"{run.label}: not run, because interpret is not installed (pip install interpret-core)")
    n_runs = len(waiting)
    while waiting or at_work:
        while waiting and len(at_work) < n_jobs:
            run = waiting.pop(0)
            if reason := gave_up.get((run.table, run.method)):
                run.write({"not_run": reason, "is_too_large": True}, source)
            else:
                limit = seconds or (OWN_LIMIT_SECONDS if is_own(run.method) else LIMIT_SECONDS)
                job = Job.start(run, limit)
                at_work[job.results] = job
        for results in wait(list(at_work)) if at_work else ():
            job = at_work.pop(results)
            run, found = job.run, job.finish()
            run.write(found, source)
            took = time.perf_counter() - job.started
            reason = found.get("not_run")
            print(f"{run.label}: {reason or f'{took:.0f} s'}  ({n_runs - len(waiting)} of {n_runs})", flush=True)
            if reason and found["is_too_large"]:
                gave_up[run.table, run.method] = reason


@dataclass(frozen=True)
class Job:
    """A run in a process of its own."""

    run: Run
    seconds: float
    """How long it may compute."""
    process: Any
    results: Connection
    started: float

    @classmethod
    def start(cls, run: Run, seconds: float) -> "Job":
        context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
        results, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(run, sender, seconds))
        process.start()
        sender.close()
        return cls(run, seconds, process, results, time.perf_counter())

    def finish(self) -> dict[str, Any]:
        """What it found, or why it found nothing; waits for its end."""
        try:
            found = self.results.recv()
        except EOFError:
            found = None
        self.process.join()
        if found is not None:
            return found
        is_over_time = self.process.exitcode == -signal.SIGXCPU
        reason = f"takes more than {self.seconds:g} s of computing" if is_over_time else "its process was killed"
        return {"not_run": reason, "is_too_large": True}


def _work(run: Run, sender: Connection, seconds: float) -> None:
    """Send what a run finds, or why it fails. The system ends it after so many seconds of computing: on a machine that
    is busy otherwise, those of a clock say little."""
    warnings.simplefilter("ignore")
    used = time.process_time()
    for kind, limit in ((resource.RLIMIT_DATA, LIMIT_GB * 2**30), (resource.RLIMIT_CPU, used + seconds)):
        resource.setrlimit(kind, (math.ceil(limit), resource.getrlimit(kind)[1]))
    try:
        found = run.measure()
    except Exception as error:
        is_too_large = isinstance(error, MemoryError) or "allocate memory" in str(error)  # the latter says torch
        reason = f"needs more than {LIMIT_GB:g} GB" if is_too_large else f"{type(error).__name__}: {error}"
        found = {"not_run": reason, "is_too_large": is_too_large}
    sender.send(found)


if __name__ == "__main__":
    main(sys.argv[1:])
