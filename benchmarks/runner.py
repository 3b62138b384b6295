"""Measure a study, and write its pages.

    python -m benchmarks                                     # which studies there are
    python -m benchmarks tables                              # all runs that are not done yet, and the page
    python -m benchmarks tables --only heart,credit vip --seeds 0,1 --jobs 2
    python -m benchmarks tables --run table=heart method=dime seed=0
    python -m benchmarks tables --quick --only heart         # as small as it can be, into results/benchmarks
    python -m benchmarks tables --page                       # only the page, from what is measured

A run is measured in a process of its own and written down as soon as it ends; runs that are done with the same settings
are skipped. Data are read from $PURSUIT_DATA or ../shared/data.
"""

import argparse
import importlib
import json
import math
import multiprocessing
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, Record, significant, where
from benchmarks.study import Run, Study, source_of_code

ELSEWHERE = Path("results") / "benchmarks"


def names() -> list[str]:
    """Of all studies: every file that defines one."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [path.stem for path in files if "\nSTUDY = " in path.read_text(encoding="utf-8")]


def find_study(name: str) -> Study:
    module = name.replace("-", "_")
    if module not in names():
        raise SystemExit(f"There is no study {name}: choose from {', '.join(names())}.")
    return importlib.import_module(f"benchmarks.{module}").STUDY


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?")
    parser.add_argument("--only", nargs="*", default=[], help="runs with one of these settings, for every word a,b")
    parser.add_argument("--run", nargs="*", default=[], help="a run of these settings, instead of those planned")
    parser.add_argument("--set", nargs="*", default=[], help="settings of all runs, as in device=cuda")
    parser.add_argument("--seeds", help="instead of those planned, as in 0,1,2")
    parser.add_argument("--quick", action="store_true", help="as small as it can be, to see that it works")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--again", action="store_true", help="also measure what is done")
    parser.add_argument("--changed", action="store_true", help="also what another version of our code measured")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--note", help="a sentence about the circumstances, kept with the results")
    parser.add_argument("--out", type=Path, help=f"by default docs/results, or {ELSEWHERE} with --set and --quick")
    given = parser.parse_args(words)
    if given.study is None:
        for name in names():
            print(f"{name:<14} {len(find_study(name).runs)} runs")
        return
    study = find_study(given.study)
    folder = given.out or (ELSEWHERE if given.set or given.quick else RESULTS)
    n_failed = 0
    if not given.page:
        extra = {**(study.quick if given.quick else {}), **settings(given.set)}
        runs = [settings(given.run)] if given.run else chosen(study.runs, given.only, given.seeds)
        runs = [{**run, **extra} for run in runs]
        check(study, runs, parser)
        n_failed = measure_runs(study, runs, folder, given)
    if study.draw and not given.page:
        study.draw(study.read(folder), folder)
    for path, sections in study.write_pages(folder.resolve()).items():
        print("\n".join(sections.values()) if path.name == f"{study.name}.md" else "")
        print(f"Written: {path}")
    if n_failed:
        raise SystemExit(f"{n_failed} runs failed.")


def settings(words: Sequence[str]) -> Run:
    """`rows=500 table=heart` as a dict, with values read as JSON where they are."""
    found = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def chosen(runs: Sequence[Run], only: Sequence[str], seeds: str | None) -> list[Run]:
    """The runs that have one of the settings of every word, perhaps with other seeds."""
    kept = [run for run in runs if all({word, *word.split(",")} & set(map(str, run.values())) for word in only)]
    if only and not kept:
        known = sorted({str(value) for run in runs for value in run.values()})
        raise SystemExit(f"No run has {' and '.join(only)}: settings are {', '.join(known)}.")
    if seeds is None:
        return kept
    without = [{key: value for key, value in run.items() if key != "seed"} for run in kept]
    different = {json.dumps(run): run for run in without}.values()
    return [{**run, "seed": int(seed)} for run in different for seed in seeds.split(",")]


def check(study: Study, runs: Sequence[Run], parser: argparse.ArgumentParser) -> None:
    known = study.settings({})
    if unknown := sorted({key for run in runs for key in run} - known.keys()):
        parser.error(f"{study.name} has no setting {', '.join(unknown)}, but {', '.join(known)}.")


def measure_runs(study: Study, runs: Sequence[Run], folder: Path, given: argparse.Namespace) -> int:
    """Measure what is not done, several at a time, and write down each as it ends; how many failed. What is too large
    with one seed is not tried with others."""
    waiting, at_work, too_large, n_failed = [], {}, {}, 0
    done = {study.key(record): record for record in study.read(folder)}
    for run in runs:
        found = done.get(study.key(run))
        is_old = found and given.changed and study.does_depend(run) and found.get("source") != source_of_code()
        if not found or given.again or is_old:
            waiting.append(run)
        elif found.get("is_too_large"):
            too_large[kin(run)] = found["not_run"]
    print(f"{study.name}: {len(waiting)} of {len(runs)} runs to measure", flush=True)
    if any(run.get("device") == "cuda" for run in waiting):
        import torch

        if not torch.cuda.is_available():
            on_cpu = [run for run in waiting if run.get("device") != "cuda"]
            print(f"{len(waiting) - len(on_cpu)} of them need an NVIDIA GPU and are left out.", flush=True)
            waiting = on_cpu
    while waiting or at_work:
        while waiting and len(at_work) < given.jobs:
            run = waiting.pop(0)
            if reason := too_large.get(kin(run)):
                finish(study, run, {"not_run": reason, "is_too_large": True}, folder, given.note)
            else:
                job = Job.start(study, run)
                at_work[job.results] = job
        for results in wait(list(at_work)) if at_work else ():
            job = at_work.pop(results)
            found = job.finish()
            print(f"{', '.join(map(str, job.run.values()))}: {found.get('failed') or found.get('not_run') or 'done'}")
            print(f"  {time.perf_counter() - job.started:.0f} s; {len(waiting)} to go", flush=True)
            if "failed" in found:
                n_failed += 1
                continue
            finish(study, job.run, found, folder, given.note)
            if found.get("is_too_large"):
                too_large[kin(job.run)] = found["not_run"]
    return n_failed


def kin(run: Run) -> str:
    return json.dumps({key: value for key, value in run.items() if key != "seed"})


def finish(study: Study, run: Run, found: Record, folder: Path, note: str | None) -> None:
    place = {**where(str(run.get("device", "cpu"))), **({"note": note} if note else {})}
    record = {**run, "source": source_of_code(), **found, "where": place}
    study.write(run, significant(record), folder)


@dataclass(frozen=True)
class Job:
    """A run in a process of its own."""

    run: Run
    seconds: float | None
    process: Any
    results: Connection
    started: float

    @classmethod
    def start(cls, study: Study, run: Run) -> "Job":
        # A server of processes that has imported the study, but computed nothing: no thread and no GPU is in use.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([study.measure.__module__])
        results, sender = context.Pipe(duplex=False)
        arguments = (study.measure, run, sender, study.limit_seconds, study.limit_gb)
        process = context.Process(target=_work, args=arguments)
        process.start()
        sender.close()
        return cls(run, study.limit_seconds, process, results, time.perf_counter())

    def finish(self) -> Record:
        """What it found, or why it found nothing; waits for its end."""
        try:
            found = self.results.recv()
        except EOFError:
            found = None
        self.process.join()
        if found is not None:
            return found
        is_over_time = self.process.exitcode == -signal.SIGXCPU
        reason = f"takes more than {self.seconds} s of computing" if is_over_time else "its process was killed"
        return {"not_run": reason, "is_too_large": True} if is_over_time else {"failed": reason}


def _work(measure: Any, run: Run, sender: Connection, seconds: float | None, gigabytes: float | None) -> None:
    """Send what a run finds, or why it fails. The system ends it after so many seconds of computing, not counting the
    imports before it: on a machine that is busy otherwise, those of a clock say little."""
    warnings.simplefilter("ignore")
    cpu_seconds = seconds and time.process_time() + seconds
    limits = [(resource.RLIMIT_DATA, gigabytes and gigabytes * 2**30), (resource.RLIMIT_CPU, cpu_seconds)]
    for kind, limit in limits:
        if limit:
            resource.setrlimit(kind, (math.ceil(limit), resource.getrlimit(kind)[1]))
    try:
        found = measure(**run)
    except Exception as error:
        is_too_large = isinstance(error, MemoryError) or "allocate memory" in str(error)  # the latter says torch
        found = {"failed": traceback.format_exc()}
        if is_too_large and gigabytes:
            found = {"not_run": f"needs more than {gigabytes:g} GB", "is_too_large": True}
    sender.send(found)
