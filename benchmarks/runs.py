"""Runs of benchmarks: each is measured in a process of its own, within limits, and written to a JSON file."""

import argparse
import hashlib
import json
import math
import multiprocessing
import resource
import signal
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pursuit
from pursuit.files import write_whole
from report import cpu, rounded, where


@dataclass(frozen=True, kw_only=True)
class Run(ABC):
    """One measurement: what is measured, from which data, and into which folder it is written."""

    seed: int
    folder: Path
    data: Path

    limit_seconds = 3600.0
    """The most computing for it."""
    limit_gb = 8.0
    """The most memory for it."""
    is_own = True
    """Whether what is found depends on the code of this project."""
    not_available = ""
    """Why it cannot be run here, if so."""

    @property
    @abstractmethod
    def names(self) -> dict[str, str]:
        """What is measured, such as a table and a method: the first lines of the file."""

    @property
    @abstractmethod
    def path(self) -> Path: ...

    @abstractmethod
    def measure(self) -> dict[str, Any]: ...

    @property
    def label(self) -> str:
        return f"{', '.join(self.names.values())}, seed {self.seed}"

    @property
    def kin(self) -> Hashable:
        """The same for all seeds: what takes too long or too much memory with one is not tried with others."""
        return tuple(self.names.values())

    def read(self, source: str, keep: bool) -> dict[str, Any] | None:
        """What was found before, by this code if that matters."""
        if not self.path.exists():
            return None
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return found if keep or not self.is_own or found["source"] == source else None

    def write(self, found: dict[str, Any], source: str) -> None:
        about = {**self.names, "seed": self.seed, "source": source}
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


def names(text: str) -> list[str]:
    return text.split(",")


def parser_of_runs(description: str, seeds: Sequence[int]) -> argparse.ArgumentParser:
    """The options that all benchmarks of runs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in names(text)], default=list(seeds))
    parser.add_argument("--validation", action="store_true", help="measure on rows held out from those to learn from")
    parser.add_argument("--folder", "--out", type=Path, help="of the JSON files")
    parser.add_argument("--data", type=Path, help="the folder of the data")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each in a process of its own")
    parser.add_argument("--seconds", type=float, help="of computing: the most for a run")
    parser.add_argument("--keep", action="store_true", help="also keep what another version of our code measured")
    parser.add_argument("--page", action="store_true", help="only write the page")
    return parser


def check_names(parser: argparse.ArgumentParser, what: str, given: Iterable[str], known: Collection[str]) -> None:
    """End the program if one of the names is not known."""
    if unknown := [name for name in given if name not in known]:
        parser.error(f"There is no {what} {', '.join(unknown)}: choose from {', '.join(known)}.")


def measure_runs(runs: Sequence[Run], n_jobs: int, seconds: float | None, keep: bool) -> None:
    """Measure what is not measured yet, several at a time, by default within the usual limits. What ran out of time or
    memory with one seed is not tried with others."""
    source, waiting, at_work, gave_up = source_of_code(), [], {}, {}
    for run in runs:
        found = run.read(source, keep)
        if found and found.get("is_too_large"):
            gave_up[run.kin] = found["not_run"]
        elif not found and not run.not_available:
            waiting.append(run)
        elif not found:
            print(f"{run.label}: not run, because {run.not_available}")
    n_runs = len(waiting)
    while waiting or at_work:
        while waiting and len(at_work) < n_jobs:
            run = waiting.pop(0)
            if reason := gave_up.get(run.kin):
                run.write({"not_run": reason, "is_too_large": True}, source)
            else:
                job = Job.start(run, seconds or run.limit_seconds)
                at_work[job.results] = job
        for results in wait(list(at_work)) if at_work else ():
            job = at_work.pop(results)
            run, found = job.run, job.finish()
            run.write(found, source)
            took = time.perf_counter() - job.started
            reason = found.get("not_run")
            print(f"{run.label}: {reason or f'{took:.0f} s'}  ({n_runs - len(waiting)} of {n_runs})", flush=True)
            if reason and found["is_too_large"]:
                gave_up[run.kin] = reason


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
    for kind, limit in ((resource.RLIMIT_DATA, run.limit_gb * 2**30), (resource.RLIMIT_CPU, used + seconds)):
        resource.setrlimit(kind, (math.ceil(limit), resource.getrlimit(kind)[1]))
    try:
        found = run.measure()
    except Exception as error:
        is_too_large = isinstance(error, MemoryError) or "allocate memory" in str(error)  # the latter says torch
        reason = f"needs more than {run.limit_gb:g} GB" if is_too_large else f"{type(error).__name__}: {error}"
        found = {"not_run": reason, "is_too_large": is_too_large}
    sender.send(found)
