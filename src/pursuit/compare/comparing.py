"""Train and measure every method of a trial, and write down what came out after each of them.

A results folder holds `results.json` (everything), `table.md` and `curve.png`; in METHOD/seed-K lie the model, its
training and `result.json`, or `error.txt` where the method failed. The same trial goes on where it stopped.
"""

import copy
import json
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pursuit.baselines import METHODS, Method
from pursuit.chains import follow_none, pursue
from pursuit.checkpoints import write_whole
from pursuit.compare.table import draw_curves, in_brief, markdown_table, summarise
from pursuit.compare.trial import Trial
from pursuit.estimators import VIPClassifier
from pursuit.evaluation import evaluate
from pursuit.provenance import provenance
from pursuit.pursuer import Pursuer
from pursuit.reproduce import Progress, read_result, train_in
from pursuit.rows import Rows
from pursuit.stopping import Budget
from pursuit.tasks import Task
from pursuit.training import Report

ALL, EXACT = "all", "exact"
TIMED_ROWS, TIMED_SECONDS = 5, 5.0
"""So many rows are timed step by step, and not much longer than this."""

Methods = Mapping[str, Method]


@contextmanager
def in_silence(title: str) -> Iterator[Callable[[Report], None]]:
    """Progress that nobody watches."""
    yield lambda report: None


def compare(
    trial: Trial,
    folder: str | Path,
    progress: Progress = in_silence,
    say: Callable[[str], None] = lambda text: None,
    known: Methods = METHODS,
    only_collect: bool = False,
) -> dict[str, Any]:
    """Train and measure every method of the trial that is not done yet, and write the results folder.

    `progress` is given a title for every training, and `say` a line for every method as soon as it is measured. A
    method that fails is noted with its error and tried again the next time; the others are not lost. `only_collect`
    trains nothing: the results are of what is measured already, by several processes perhaps, each of other methods.
    """
    folder, titles, described = Path(folder), _titles(trial, known), trial.described()
    all_of_them = [
        _One(trial, name, titles[name], known.get(name), seed, described, folder / name / f"seed-{seed}")
        for seed in trial.seeds
        for name in titles
    ]
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for one in all_of_them:
        if result := one.measured_before():
            found[one.name, one.seed] = result
            say(f"{one.told}: already measured, {in_brief(result)}")
    results = _written(folder, described, titles, found)
    for one in all_of_them:
        if (one.name, one.seed) not in found and not only_collect:
            result = found[one.name, one.seed] = one.measure(progress)
            say(f"{one.told}: {in_brief(result)}")
            results = _written(folder, described, titles, found)
    return results


def _titles(trial: Trial, known: Methods) -> dict[str, str]:
    """The methods to compare by name, as figures and tables have them; raises ValueError for those there are not."""
    names = list(dict.fromkeys(trial.methods))
    wanted = [*known, EXACT] if names == [ALL] else names
    there = [*known, EXACT]
    if unknown := [name for name in wanted if name not in there]:
        raise ValueError(f"'{unknown[0]}' is no method: choose of {', '.join(there)}, or {ALL}.")
    if EXACT in wanted and trial.load(trial.seeds[0]).exact is None:
        if names != [ALL]:
            raise ValueError(f"Exact pursuit is not to be had for {trial.name}: leave {EXACT} out.")
        wanted.remove(EXACT)
    return {name: known[name].title if name in known else "exact IP" for name in wanted}


def _written(
    folder: Path, described: dict[str, Any], titles: Mapping[str, str], found: Mapping[tuple[str, int], dict[str, Any]]
) -> dict[str, Any]:
    """Everything found so far, which is also written into the folder."""
    methods = {}
    for name, title in titles.items():
        own = [found[key] for key in sorted(found) if key[0] == name]
        if not own:  # its turn has not come
            continue
        seeds, failed = ([result for result in own if ("error" in result) == is_error] for is_error in (False, True))
        summary = summarise(seeds) if seeds else None
        methods[name] = {"title": title, "summary": summary, "failed": failed, "seeds": seeds}
    results = {**described, "methods": methods}
    if found:
        write_whole(folder / "results.json", json.dumps(results, indent=1).encode())
        write_whole(folder / "table.md", markdown_table(results).encode())
        draw_curves(results, folder / "curve.png")
    return results


@dataclass(frozen=True)
class _One:
    """One method with one seed: what it learns, and what is measured of it."""

    trial: Trial
    name: str
    title: str
    method: Method | None
    """None is exact pursuit, which needs no training."""
    seed: int
    described: dict[str, Any]
    folder: Path

    @property
    def told(self) -> str:
        return f"{self.trial.name}, {self.title}, seed {self.seed}"

    @property
    def run(self) -> dict[str, Any]:
        """What tells its result from others."""
        settings = {} if self.method is None else {key: str(value) for key, value in self.method.settings.items()}
        return {**self.described, "method": self.name, "method_settings": settings}

    def measured_before(self) -> dict[str, Any] | None:
        return read_result(self.folder / "result.json", self.run)

    def measure(self, progress: Progress) -> dict[str, Any]:
        """The result, or where something went wrong the error."""
        task = self.trial.load(self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("result.json", "error.txt"):  # of other settings: they say nothing of the model that comes
            (self.folder / name).unlink(missing_ok=True)
        try:
            result = self._measured(task, progress)
        except Exception as error:  # whatever a method does, the others are not to be lost
            write_whole(self.folder / "error.txt", traceback.format_exc().encode())
            return {"seed": self.seed, "error": f"{type(error).__name__}: {error}"}
        write_whole(self.folder / "result.json", json.dumps(result, indent=1).encode())
        return result

    def _measured(self, task: Task, progress: Progress) -> dict[str, Any]:
        started = time.monotonic()
        pursuer, rows, resumed = self._learnt(task, progress)
        training_seconds = 0.0 if self.method is None else time.monotonic() - started
        stop, longest = task.settings.get("stop"), task.settings.get("max_queries")
        rule = VIPClassifier(stop=stop, max_queries=longest).stopping_rule()  # the same for all
        evaluation = evaluate(pursuer, rows, rule, longest, self.trial.device)
        return {
            "run": self.run,
            "seed": self.seed,
            "n_train": len(task.X_train),
            "n_test": len(rows),
            "training_seconds": round(training_seconds, 1),
            "resumed": resumed,  # the seconds are those of the last part then
            "step_milliseconds": step_milliseconds(pursuer, rows, len(evaluation.accuracy_by_n_queries) - 1),
            "evaluation": evaluation.to_dict(),
            "provenance": provenance(self.trial.device),
            "notes": dict(task.notes),
        }

    def _learnt(self, task: Task, progress: Progress) -> tuple[Pursuer, Rows, bool]:
        """A pursuer, the rows to measure it on, and whether its training went on from before."""
        if self.method is None:
            assert task.exact is not None
            pursuer = task.exact()
            return pursuer, _rows(pursuer, task), False
        # A copy: on a GPU a training that fails leaves its query set there.
        query_set = copy.deepcopy(task.query_set)
        model = self.method.estimator(query_set, **arguments(self.method, task, self.seed, self.trial.device))
        with progress(self.told) as on_report:
            resumed = train_in(self.folder, model, task, on_report)
        model.save(self.folder, {"task": {"name": task.name, **task.notes}})
        return model.model_, model.rows(task.X_test, task.y_test, opening=task.opening_test), resumed


def arguments(method: Method, task: Task, seed: int, device: str) -> dict[str, Any]:
    """Of the task's settings those that the method's estimator has, and the method's own."""
    there = method.estimator._get_param_names()
    given = {**task.settings, "random_state": seed, "device": device}
    return {name: value for name, value in given.items() if name in there} | dict(method.settings)


def _rows(pursuer: Pursuer, task: Task) -> Rows:
    """The rows to measure on for a pursuer that no estimator is around."""
    codes = pd.Index(pursuer.classes).get_indexer(pd.Index(task.y_test))
    opening = None if task.opening_test is None else torch.from_numpy(task.opening_test)
    return Rows(*pursuer.query_set.answers(task.X_test), torch.from_numpy(codes.astype(np.int64)), opening)


def step_milliseconds(
    pursuer: Pursuer, rows: Rows, longest: int, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """How long a step takes where one row is asked at a time on the CPU, as a person is served: the median over the
    steps of a few rows. None where nothing is asked."""
    spent = list(_step_seconds(pursuer, rows, longest, clock))
    return 1000 * statistics.median(spent) if spent else None


def _step_seconds(pursuer: Pursuer, rows: Rows, longest: int, clock: Callable[[], float]) -> Iterator[float]:
    started, like = clock(), follow_none(pursuer, rows.x)
    for i in range(min(TIMED_ROWS, len(rows))):
        row = rows.take(slice(i, i + 1))
        began = clock()
        for turn in pursue(pursuer, row.x, row.available, Budget(longest), row.opening, like):
            now = clock()
            if turn.goes_on.any():
                yield now - began
            if now - started > TIMED_SECONDS:
                return
            began = clock()
