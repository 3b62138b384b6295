"""One run, shared by all experiments: a method is trained on a task with a seed, measured, and its result kept.

The folder of a run gets the model, its training (log and checkpoints), figures of chains if they are wanted, and
`result.json`. A run that stopped goes on where it was; one that is done is read.
"""

import copy
import hashlib
import json
import statistics
import time
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import safetensors.torch
import torch

from pursuit.estimators import CannotResume, Method, PursuitClassifier, PursuitEstimator
from pursuit.estimators.saving import RUN, WEIGHTS
from pursuit.evaluation.counts import EvaluationCounts
from pursuit.evaluation.curves import Evaluation, Setting, evaluate, evaluation_counts
from pursuit.evaluation.figures import draw_chain
from pursuit.evaluation.protocols import AtProtocol, Protocol, measure_protocols
from pursuit.evaluation.rollouts import placed
from pursuit.files import claimed, make_folder, write_whole
from pursuit.inference.pursuer import Pursuer, label_codes
from pursuit.inference.rollout import pursue, template_state
from pursuit.inference.stopping import Budget, StoppingRule, stopping_rule
from pursuit.methods.random_order import RandomOrder
from pursuit.methods.vip import VIPClassifier
from pursuit.registry import find
from pursuit.research.experiments.results import Beside, Failure, Result, provenance, read_result
from pursuit.research.tasks import Task, TaskInfo  # which makes all tasks known, on the workers of a cluster too
from pursuit.research.tasks.files import MissingData
from pursuit.research.tasks.recipe import Recipe
from pursuit.research.tasks.task import take_rows
from pursuit.tables.engine import Engine, Lost
from pursuit.training import Report, TrainingRun
from pursuit.training.devices import find_device
from pursuit.training.rows import Rows, StreamedRows
from pursuit.vip import InformationVIP

TEST_ROWS, VALIDATION_ROWS = "test rows", "held-out training rows"
"""Names of the rows that accuracy is measured on."""
VALIDATION_SEED = 1_000_003
"""Added to the seed of tasks that draw their rows, to choose settings on other rows than those of the results."""
TIMED_ROWS, TIMED_SECONDS = 5, 5.0
"""Number of rows that are timed step by step, and the most seconds that may take."""

DRAWN_FROM = 50
"""Number of test rows, the first ones, whose chains are looked at to draw some."""
WHOLE_ON_CPU = 100
"""Up to this many queries a curve goes to its end on a CPU too."""

Progress = Callable[[str], AbstractContextManager[Callable[[Report], None]]]
"""Takes the title of a training and gives the function that takes its reports."""
Say = Callable[[str], None]
"""Takes a line about how far an experiment is."""


@contextmanager
def no_progress(title: str) -> Iterator[Callable[[Report], None]]:
    """Progress that is not watched."""
    yield lambda report: None


def say_nothing(text: str) -> None:
    """Lines that are not shown."""


@dataclass(frozen=True)
class Measurement:
    """Measurements of a trained method besides its curve and the task's stopping rule."""

    max_queries: int | None = None
    """The number of queries at which the curve ends; by default all queries."""
    trade_off: tuple[StoppingRule, ...] = ()
    """Further stopping rules."""
    beside: tuple[str, ...] = ()
    """Other pursuers to measure on the same rows: titles such as RANDOM_ORDER."""
    protocols: tuple[Protocol, ...] = ()
    """Further rules to cut and count chains, for tasks with held-out rows to choose the confidence on."""
    protocol_length: float | None = None
    """The mean number of queries it is chosen for."""
    times_steps: bool = False
    times_queries: bool = False
    """Whether queries are timed on the device."""
    batch_rows: int | None = None
    """Number of rows that are asked side by side, and then written down; by default as many as suit the device."""
    n_chains: int = 0
    """Number of chains that are drawn, from short to long ones; a single one is of middle length."""


@dataclass(frozen=True)
class MethodRun:
    """One method on one task with one seed."""

    run: Mapping[str, Any]
    """The identity of the run as JSON values, `task` among them. The result of another run is not read."""
    name: str
    title: str
    method: Method | None
    """None is exact Information Pursuit, which needs no training."""
    load: Callable[[int], Task]
    """The task for a seed, whose settings the method gets."""
    seed: int
    folder: Path
    device: str = "cpu"
    measurement: Measurement = Measurement()

    @property
    def label(self) -> str:
        return f"{self.run['task']}, {self.title}, seed {self.seed}"

    @property
    def path(self) -> Path:
        return self.folder / "result.json"

    def read(self) -> Result | None:
        """The result, if this run was measured before."""
        result = read_result(self.path)
        if result is None or (result.run, result.method, result.seed) != (self.run, self.name, self.seed):
            return None
        return result

    def prepare(self) -> None:
        """Load the rows: data that are missing are not a failure of the method."""
        self.load(self.seed)

    def read_or_measure(self, progress: Progress, say: Say) -> Result:
        if result := self.read():
            say(f"{self.label}: already measured in {self.folder}.")
            return result
        return self.measure(progress, say)

    def measure(self, progress: Progress = no_progress, say: Say = say_nothing) -> Result:
        """Train the method, or go on where its training stopped, measure it, and write the result."""
        task = self.load(self.seed)  # where data are missing, nothing is written
        with claimed(self.folder):
            return self._measure(task, progress, say)

    def _measure(self, task: Task, progress: Progress, say: Say) -> Result:
        self.path.unlink(missing_ok=True)  # a result of other settings says nothing about the model that comes
        started = time.monotonic()
        classifier, resumed = self._train(task, progress)
        training_seconds = time.monotonic() - started if classifier else 0.0
        if classifier:
            say(f"{self.label}: trained in {training_seconds:.0f} s, measuring on {len(task.y_test):,} rows.")
        started = time.monotonic()
        pursuer, rows = _pursuer_and_rows(classifier, task)
        evaluation = self._evaluate(pursuer, rows, task)
        limit = task.settings.get("max_queries") or evaluation.n_queries
        longest, timed = self.measurement.max_queries or evaluation.n_queries, self.measurement.times_queries
        result = Result(
            run=dict(self.run),
            method=self.name,
            seed=self.seed,
            n_train=len(task.X_train),
            n_test=len(rows),
            training_seconds=round(training_seconds, 1),
            evaluation=evaluation,
            provenance=provenance(self.device),
            notes=dict(task.notes),
            resumed=resumed,
            n_histories=_n_histories(classifier, task),
            step_milliseconds=step_milliseconds(pursuer, rows, limit) if self.measurement.times_steps else None,
            query_milliseconds=query_milliseconds(pursuer, rows, longest, self.device) if timed else None,
            beside=self._beside(classifier, task, rows) if classifier else {},
            protocols=self._protocols(classifier, task, rows) if classifier else [],
            querier=_querier(classifier),
        )
        result = replace(result, measuring_seconds=round(time.monotonic() - started, 1))
        result.write(self.path)  # before the figures, which may want more files than the measurement
        if classifier:
            _draw_chains(classifier, task, self.folder, self.measurement.n_chains)
        return result

    def _train(self, task: Task, progress: Progress) -> tuple[PursuitClassifier | None, bool]:
        """A trained classifier, which is saved, and whether its training went on from before."""
        if self.method is None:
            return None, False
        # A copy, because a training that fails on a GPU leaves its query set there.
        query_set = copy.deepcopy(task.query_set)
        settings = {**task.settings, "random_state": self.seed, "device": self.device}
        classifier = self.method.build(query_set, **settings)
        with progress(self.label) as on_report:
            resumed = fit_or_resume(classifier, task, self.folder, on_report)
        classifier.save(self.folder, {"task": {"name": task.name, **task.notes}})
        return classifier, resumed

    def _evaluate(self, pursuer: Pursuer, rows: Rows, task: Task) -> Evaluation:
        """By the rule of the task, so that all methods are measured by the same."""
        stop, limit = task.settings.get("stop"), task.settings.get("max_queries")
        rule, measurement = stopping_rule(stop, limit), self.measurement
        setting = Setting.of(pursuer, rule, measurement.max_queries, measurement.trade_off)
        n = measurement.batch_rows or len(rows)
        if len(rows) <= n:
            return setting.evaluation(evaluation_counts(pursuer, rows, setting, self.device))
        # What is counted on some rows counts only together with what the same model gives by the same setting.
        measured = json.dumps([dict(self.run), setting.longest, [str(rule) for rule in setting.rules], n])
        name = hashlib.sha256((self.folder / WEIGHTS).read_bytes() + measured.encode()).hexdigest()[:16]
        parts = (
            self._counted(pursuer, rows.take(slice(start, start + n)), setting, f"{name}-{start}")
            for start in range(0, len(rows), n)
        )
        return setting.evaluation(reduce(add, parts))

    def _counted(self, pursuer: Pursuer, rows: Rows, setting: Setting, name: str) -> EvaluationCounts:
        """What was counted on some rows, or is now: where measuring takes long, it goes on where it stopped."""
        path = self.folder / f"counted-{name}.safetensors"
        if path.exists():
            return EvaluationCounts.from_tensors(safetensors.torch.load(path.read_bytes()))
        counts = evaluation_counts(pursuer, rows, setting, self.device, self.measurement.batch_rows).cpu()
        write_whole(path, safetensors.torch.save(counts.tensors()))
        return counts

    def _protocols(self, classifier: PursuitClassifier, task: Task, rows: Rows) -> list[AtProtocol]:
        """Results by the protocols, at a confidence chosen on rows that were held out from training."""
        protocols, wanted, held_out = self.measurement.protocols, self.measurement.protocol_length, task.held_out
        if not protocols or wanted is None or held_out is None:
            return []
        known = held_out.initially_known_test
        to_choose = classifier.rows(held_out.X_test, held_out.y_test, initially_known=known)
        return measure_protocols(classifier.model_, to_choose, rows, protocols, wanted, self.device)

    def _beside(self, classifier: PursuitClassifier, task: Task, rows: Rows) -> dict[str, Beside]:
        longest = self.measurement.max_queries
        found = {
            title: measure_beside(title, classifier, task, rows, longest, self.device)
            for title in self.measurement.beside
        }
        return {title: beside for title, beside in found.items() if beside is not None}


def parameters_as_text(method: Method) -> dict[str, str]:
    """The parameters that make an estimator this method, for the identity of a run."""
    return {key: str(value) for key, value in method.parameters.items()}


def curve_end(n_queries: int, limit: int | None, device: str) -> int | None:
    """The default end of a curve: after all queries (None), but at the `limit` of the task's
    settings where there are many queries and no GPU to ask them all."""
    return None if n_queries <= WHOLE_ON_CPU or find_device(device).type == "cuda" else limit


def load_split(task: str, recipe: Recipe | None, seed: int, validation: bool) -> Task:
    """The task of this name with the settings of a recipe. For `validation` its test rows are other ones: a part of the
    training rows, or for rows that are drawn those of another seed."""
    info: TaskInfo = find(TaskInfo.registry_kind, task)
    loaded = info.load(seed)
    if validation and isinstance(loaded.X_train, StreamedRows):
        loaded = info.load(seed + VALIDATION_SEED)
    elif validation:
        loaded = loaded.validation_split()
    return loaded if recipe is None else loaded.with_recipe(recipe)


def fit_or_resume(estimator: PursuitEstimator, task: Task, folder: Path, on_report: Callable[[Report], None]) -> bool:
    """Train, going on where a run with the same settings stopped in this folder; whether there was one."""
    run = TrainingRun(folder, resume=(folder / RUN).exists(), on_report=on_report)
    try:
        task.fit(estimator, run)
    except CannotResume:
        run = replace(run, resume=False)
        task.fit(estimator, run)
    return run.resume


def _pursuer_and_rows(classifier: PursuitClassifier | None, task: Task) -> tuple[Pursuer, Rows]:
    """The pursuer to measure, and the test rows in its answer space; without a classifier it is exact IP."""
    if classifier:
        return classifier.model_, classifier.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    if task.exact is None:
        raise ValueError(f"Exact Information Pursuit is not available for {task.name}.")
    pursuer = task.exact()
    known = None if task.initially_known_test is None else torch.from_numpy(task.initially_known_test)
    return pursuer, Rows(*pursuer.query_set.answers(task.X_test), label_codes(pursuer.classes, task.y_test), known)


def _querier(classifier: PursuitClassifier | None) -> str | None:
    """The querier of V-IP; None for other methods."""
    if not isinstance(classifier, VIPClassifier):
        return None
    return "information" if isinstance(classifier.model_, InformationVIP) else "straight-through"


def _n_histories(classifier: PursuitClassifier | None, task: Task) -> int | None:
    stages = getattr(classifier, "stages", None)
    return round(sum(stage.epochs for stage in stages) * len(task.X_train)) if stages else None


def _draw_chains(classifier: PursuitClassifier, task: Task, folder: Path, n_chains: int) -> None:
    """Chains of test rows as chain-0.png, chain-1.png …, evenly spread over their lengths."""
    n_rows = min(DRAWN_FROM, len(task.y_test))
    if not n_chains or not n_rows:
        return
    known = None if task.initially_known_test is None else task.initially_known_test[:n_rows]
    chains = classifier.explain(take_rows(task.X_test, slice(n_rows)), initially_known=known)
    lengths = [chain.n_asked for chain in chains]
    by_length, n_drawn = np.argsort(lengths, kind="stable"), min(n_chains, n_rows)
    for number, place in enumerate((np.arange(n_drawn) + 0.5) / n_drawn * n_rows):
        i = int(by_length[int(np.ceil(place)) - 1])
        title = (
            f"{task.name}, true label: {task.y_test[i]}. Queries asked: {lengths[i]} ({min(lengths)} to {max(lengths)} "
            f"on {n_rows} test rows, median {sorted(lengths)[(n_rows - 1) // 2]})"
        )
        X, path = take_rows(task.X_test, slice(i, i + 1)), folder / f"chain-{number}.png"
        draw_chain(classifier.model_.query_set, X, chains[i], path, title, _picture(task, i))


def _picture(task: Task, row: int) -> np.ndarray | None:
    """The picture of a row, if it has one and the file is on the machine."""
    try:
        return task.picture(row) if task.picture else None
    except MissingData:
        return None


def step_milliseconds(
    pursuer: Pursuer, rows: Rows, longest: int, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """The median time of a step if one row is asked at a time on the CPU, as in a session; None if nothing is asked."""
    spent = list(_step_seconds(pursuer, rows, longest, clock))
    return 1000 * statistics.median(spent) if spent else None


def _step_seconds(pursuer: Pursuer, rows: Rows, longest: int, clock: Callable[[], float]) -> Iterator[float]:
    started, template = clock(), template_state(pursuer, rows.x)
    for i in range(min(TIMED_ROWS, len(rows))):
        row = rows.take(slice(i, i + 1))
        began = clock()
        for step in pursue(pursuer, row.x, row.available, Budget(longest), row.initially_known, template):
            now = clock()
            if step.goes_on.any():
                yield now - began
            if now - started > TIMED_SECONDS:
                return
            began = clock()


@torch.no_grad()
def query_milliseconds(pursuer: Pursuer, rows: Rows, longest: int, device: str) -> float:
    """The time of a query of a row on the device: that of asking a few rows side by side, by all they are asked."""
    rows = rows.take(slice(TIMED_ROWS))
    with placed(pursuer, device) as place:
        rows, template = rows.to(place), template_state(pursuer, rows.x[:0].to(place))

        def ask(n_queries: int) -> int:
            steps = pursue(pursuer, rows.x, rows.available, Budget(n_queries), rows.initially_known, template)
            return sum(int(step.goes_on.sum()) for step in steps)  # which waits for the device

        ask(1)  # what is only done once is not timed
        started = time.perf_counter()
        n_asked = ask(longest)
        return 1000 * (time.perf_counter() - started) / max(1, n_asked)


RANDOM_ORDER, EXACT_IP, LOGISTIC_REGRESSION = "random order", "exact IP", "logistic regression"


def measure_beside(
    title: str, classifier: PursuitClassifier, task: Task, rows: Rows, max_queries: int | None, device: str
) -> Beside | None:
    """The pursuer of this title on the same rows; None if the task does not have it. Random order has the posterior of
    the trained classifier."""
    if title == LOGISTIC_REGRESSION:
        return _logistic_regression(classifier, task, rows)
    if title == EXACT_IP and task.exact is None:
        return None
    pursuer = task.exact() if title == EXACT_IP and task.exact else RandomOrder(classifier.model_, seed=0)
    found = evaluate(pursuer, rows, None, max_queries, device)
    return Beside(found.accuracy_by_asked, found.area, found.accuracy_all_answers, found.accuracy_by_cost)


def _logistic_regression(classifier: PursuitClassifier, task: Task, rows: Rows) -> Beside | None:
    """Logistic regression on all answers at once; on few rows its strength is chosen on a fifth of them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, ShuffleSplit

    if isinstance(task.X_train, StreamedRows) or rows.x.dim() != 2:
        return None
    train = classifier.rows(task.X_train, task.y_train)
    (X, y), (X_test, y_test) = ((part.x.numpy(), part.y.numpy()) for part in (train, rows))
    if len(y) > 20_000:
        regression = LogisticRegression(C=0.1, max_iter=200)
    else:
        held_out = ShuffleSplit(1, test_size=0.2, random_state=0)
        regression = GridSearchCV(LogisticRegression(max_iter=200), {"C": [0.01, 0.1, 1.0]}, cv=held_out)
    return Beside(accuracy_all_answers=float(regression.fit(X, y).score(X_test, y_test)))


ERROR = "error.txt"
"""The file with the traceback of a failed run, in its folder."""


class Run(typing.Protocol):
    """One training and its measurement, which any process can do that sees its folder."""

    @property
    def seed(self) -> int: ...

    @property
    def folder(self) -> Path: ...

    @property
    def label(self) -> str:
        """A title for people."""

    def prepare(self) -> None:
        """Load the rows, which raises if they are missing: that is not a failure of the run."""

    def measure(self, progress: Progress = no_progress) -> Any:
        """The result; an interrupted run is resumed."""


R = TypeVar("R", bound=Run)


def outcomes(runs: Iterable[R], engine: Engine, progress: Progress) -> Iterator[tuple[R, Any]]:
    """Measure runs, anywhere and in any order: each with its result, or its `Failure`. Their folders must be seen by
    every machine: a training whose machine is lost goes on elsewhere from its last checkpoint there."""
    measure = partial(outcome_of, progress=progress) if engine.is_here else outcome_of
    for run, outcome in engine.each(measure, runs):
        yield run, Failure(run.seed, outcome.reason) if isinstance(outcome, Lost) else outcome


def outcome_of(run: Run, progress: Progress = no_progress) -> Any:
    """The result, or the error if the run failed: whatever it does, the others go on."""
    run.prepare()
    error_file = run.folder / ERROR
    error_file.unlink(missing_ok=True)
    try:
        return run.measure(progress)
    except Exception as error:
        make_folder(run.folder)
        write_whole(error_file, traceback.format_exc().encode())
        return Failure(run.seed, f"{type(error).__name__}: {error}")
