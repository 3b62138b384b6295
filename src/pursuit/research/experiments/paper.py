"""The whole paper: the runs behind its tables and figures as data, those that are done, and a queue for the rest.

The queue runs several processes side by side, the most valuable runs first, as time allows."""

import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Any

import torch

from pursuit.estimators import Method
from pursuit.estimators.saving import RUN
from pursuit.files import make_folder, write_whole
from pursuit.methods import METHODS
from pursuit.methods.g_ip import GIPSettings
from pursuit.methods.partial_vae import PartialVAESettings
from pursuit.methods.ram import RAMSettings
from pursuit.queries import QuerySet
from pursuit.research.experiments.options import Changes
from pursuit.research.experiments.reproduce import TRADE_OFF, VIP, Reproduction, run_name
from pursuit.research.experiments.results import ALL_ANSWERS, Result, in_brief, read_result
from pursuit.research.experiments.run import (
    ERROR,
    EXACT_IP,
    RANDOM_ORDER,
    Measurement,
    MethodRun,
    Say,
    no_progress,
    parameters_as_text,
    say_nothing,
)
from pursuit.research.tasks import TASKS, Task, files, find_recipe

STRAIGHT_THROUGH, INFORMATION = "straight-through", "information"
G_IP, G_IP_ROWS = "g-ip", 16
"""The name of the generative pursuit, and how many rows it asks side by side: their samples take much memory."""
PUBLISHED: Mapping[str, RAMSettings | PartialVAESettings] = {
    "ram": RAMSettings("last"),
    "ram+": RAMSettings("sum"),
    "partial-vae": PartialVAESettings(latent=64, width=512, reward="label", candidates=None),
}
"""The published learning rate of RAM and RAM+, where ours is quicker; of the partial VAE BSODA's reward, where ours is
EDDI's, with sizes that suit SymCAT."""
FIRST_SEEDS = 3
"""Further seeds are worth less than anything else that is missing."""


@dataclass(frozen=True)
class PaperRun(Changes):
    """One method trained on one task with one seed, as options of the program."""

    task: str
    method: str = VIP
    recipe: str = "gpu"
    published: bool = False
    """Whether it has settings that it was published with: those of `PUBLISHED`, G-IP those of its authors' code."""
    rows: int | None = None
    """The number of test rows it is measured on, the same ones for all methods; None: all of them."""
    seed: int = 0
    curve: int | None = field(default=None, compare=False)
    """The number of queries at which its curve ends; None: all queries."""
    minutes: float = field(default=1.0, compare=False)
    """Estimated time beside other runs on one H200, measuring included."""
    value: int = field(default=0, compare=False)
    """Which runs come first: the higher, the sooner."""
    fills: str = field(default="", compare=False)
    """The tables and figures that show it."""

    @property
    def way(self) -> "PaperRun":
        """The same run with the first seed, which stands for all seeds."""
        return replace(self, seed=0)

    @property
    def name(self) -> str:
        """The name of its file."""
        method = [self.method] if self.method != VIP else []
        published = ["published settings"] if self.published else []
        rows = [f"{self.rows} rows"] if self.rows else []
        changes = self.applied(find_recipe(self.task, self.recipe))[1]
        return run_name(self.task, self.recipe, [*method, *published, *changes, *rows, f"seed {self.seed}"])

    @property
    def has_data(self) -> bool:
        """Whether the files of its task are on this machine."""
        return all(files.locate(file) for file in TASKS[self.task].files)

    @property
    def fills_device(self) -> bool:
        """Whether its queries, which cost too much to be measured on all test rows, take as much of a device as there
        is: others beside it would take many times as long."""
        return self.method != VIP and self.rows is not None

    def goes_beside(self, other: "PaperRun") -> bool:
        """Whether two runs share a device well. By the paper's recipes a step is thousands of small operations one
        after another, each of which waits behind the large ones of other recipes."""
        return not (self.fills_device or other.fills_device) and (self.recipe == "paper") == (other.recipe == "paper")

    @property
    def is_ablation(self) -> bool:
        return bool(self.sampling or self.network or self.tau)

    def scaled(self, effort: float) -> "PaperRun":
        """The same run with more or less training: another run, with another name."""
        return replace(self, effort=self.effort * effort, minutes=self.minutes * effort)

    def method_run(self, folder: Path, device: str) -> MethodRun:
        """The `MethodRun` that trains and measures it."""
        recipe, options = self.applied(find_recipe(self.task, self.recipe))
        reproduction = Reproduction(
            self.task, self.recipe, recipe, device=device, options=tuple(options), curve_queries=self.curve
        )
        run = reproduction.method_run(self.seed, folder, self._measurement(reproduction), self.method)
        identity = {**run.run, "method_settings": parameters_as_text(self._method)}
        run = replace(run, run=identity, method=self._method)
        if self.rows is None:
            return run
        return replace(run, run={**identity, "rows": self.rows}, load=partial(_load_some, run.load, self.rows))

    @property
    def _method(self) -> Method:
        method = METHODS[self.method]
        if self.published and self.method == G_IP:
            return ReleasedGIP(method.name, method.title, method.estimator)
        return replace(method, parameters={"settings": PUBLISHED[self.method]}) if self.published else method

    def _measurement(self, reproduction: Reproduction) -> Measurement:
        if self.method == ALL_ANSWERS:
            return Measurement(max_queries=1)
        of_vip = self.method == VIP and not self.is_ablation and self.rows is None
        return Measurement(
            max_queries=reproduction.last_query,
            trade_off=TRADE_OFF,
            times_queries=self.rows is not None,
            batch_rows=G_IP_ROWS if self.method == G_IP else None,
            beside=(RANDOM_ORDER, EXACT_IP) if of_vip else (),
            protocols=reproduction.protocols if of_vip else (),
            protocol_length=reproduction.info.protocol_length,
        )


@dataclass(frozen=True)
class ReleasedGIP(Method):
    """G-IP by the settings of its authors' code, which depend on the query set."""

    def build(self, query_set: QuerySet | None = None, **parameters: Any) -> Any:
        assert query_set is not None
        settings = {"settings": GIPSettings.released(query_set)}
        return Method(self.name, self.title, self.estimator, settings).build(query_set, **parameters)


def _load_some(load: Callable[[int], Task], n_rows: int, seed: int) -> Task:
    return load(seed).some_test_rows(n_rows)


def planned(fills: str, value: int, n_seeds: int, minutes: Mapping[str, float], **how: Any) -> Iterator[PaperRun]:
    """Runs of several tasks, with the minutes of each. First seeds come first, and further seeds last of all."""
    for seed in range(n_seeds):
        for task, taken in minutes.items():
            worth = value - seed if seed < FIRST_SEEDS else -seed
            yield PaperRun(task, seed=seed, minutes=taken, value=worth, fills=fills, **how)


CUB_AND_WORDS = {"cub": 5.0, "huffpost": 7.0}
SYMCAT = {"symcat-200": 8.0, "symcat-300": 8.5, "symcat-400": 9.0}
DIALOGUES = {"muzhi": 0.5, "dxy": 0.5}
DIGITS = {"mnist": 8.0, "fashion-mnist": 9.0}
PHOTOS = {"cifar10": 14.0, "cifar100": 15.0}
ABLATED = {**CUB_AND_WORDS, **DIGITS}
TEMPERATURES = ("1:0.2", "1:1", "0.2:0.2")
"""Of the straight-through softmax, at the beginning and the end of training; the first is the paper's."""
BSODA: Mapping[str, Any] = {"method": "partial-vae", "published": True}
TABLES_2_5, TABLE_3, FIG_5C = "Tables 2 and 5, Fig. 4", "Table 3", "Table 3, Fig. 5c"

PLAN: tuple[PaperRun, ...] = (
    # V-IP by the paper's querier. For patches it is ours, too.
    *planned(TABLES_2_5, 100, 5, CUB_AND_WORDS, querier=STRAIGHT_THROUGH),
    *planned(FIG_5C, 100, 5, SYMCAT, querier=STRAIGHT_THROUGH, curve=40),
    *planned(TABLE_3, 100, 10, DIALOGUES, querier=STRAIGHT_THROUGH, recipe="fast"),
    *planned(TABLES_2_5, 100, 5, {"mnist": 8.0}, querier=STRAIGHT_THROUGH),
    *planned(TABLES_2_5, 100, 3, {"fashion-mnist": 9.0}, querier=STRAIGHT_THROUGH),
    *planned("Table 5, Figs. 5a, b", 100, 3, PHOTOS, querier=STRAIGHT_THROUGH),
    *planned(TABLES_2_5, 100, 3, {"kmnist": 8.0}, querier=STRAIGHT_THROUGH, recipe="fast"),
    # Rivals. The steps of a policy cost as many forward passes as it asks queries.
    *planned(TABLES_2_5, 80, 3, {"mnist": 7.0, "fashion-mnist": 8.0}, method="ram", recipe="fast", effort=0.2),
    *planned(TABLES_2_5, 80, 3, {"mnist": 7.0, "fashion-mnist": 8.0}, method="ram+", recipe="fast", effort=0.2),
    *planned(TABLES_2_5, 78, 3, CUB_AND_WORDS, method="ram"),
    *planned(TABLES_2_5, 78, 3, CUB_AND_WORDS, method="ram+"),
    # `fast` of the dialogues is short, because V-IP begins there as naive Bayes; these do not.
    *planned(TABLE_3, 77, 3, dict.fromkeys(DIALOGUES, 3.0), method="partial-vae", recipe="fast", effort=10, curve=20),
    *planned(TABLE_3, 77, 3, dict.fromkeys(DIALOGUES, 3.0), method="refuel", recipe="fast", effort=10, curve=20),
    *planned(FIG_5C, 74, 1, dict.fromkeys(SYMCAT, 9.0), method="partial-vae", effort=0.2, curve=20),
    *planned(FIG_5C, 74, 1, dict.fromkeys(SYMCAT, 9.0), method="refuel", effort=0.2, curve=20),
    # With more training, to see whether it helps them.
    *planned(FIG_5C, 73, 1, dict.fromkeys(SYMCAT, 4.0), method="partial-vae", curve=20),
    *planned(FIG_5C, 73, 1, dict.fromkeys(SYMCAT, 6.0), method="refuel", curve=20),
    # The same amounts with the smaller networks and batches of `fast`.
    *planned(FIG_5C, 72, 1, dict.fromkeys(SYMCAT, 1.0), method="partial-vae", recipe="fast", effort=6, curve=20),
    *planned(FIG_5C, 72, 1, dict.fromkeys(SYMCAT, 4.0), method="refuel", recipe="fast", effort=6, curve=20),
    *planned(FIG_5C, 73, 1, dict.fromkeys(SYMCAT, 3.0), method="partial-vae", recipe="fast", effort=30, curve=20),
    *planned(FIG_5C, 73, 1, dict.fromkeys(SYMCAT, 15.0), method="refuel", recipe="fast", effort=30, curve=20),
    *planned(FIG_5C, 73, 1, dict.fromkeys(SYMCAT, 5.0), **BSODA, recipe="fast", effort=30, curve=20),
    *planned("Table 5", 72, 3, {"cub": 3.0, "huffpost": 2.0, "mnist": 3.0, "fashion-mnist": 2.0}, method=ALL_ANSWERS),
    *planned("Table 5", 72, 3, dict.fromkeys(PHOTOS, 10.0), method=ALL_ANSWERS),
    *planned(TABLES_2_5, 70, 1, {**DIGITS, **CUB_AND_WORDS}, method="ram", published=True),
    *planned(TABLES_2_5, 70, 1, {**DIGITS, **CUB_AND_WORDS}, method="ram+", published=True),
    *planned("Figs. 5a, b", 64, 1, dict.fromkeys(PHOTOS, 6.0), method="ram", effort=0.2),
    # Each query takes 128 passes a row through the network, a query of all test photos as much as the training.
    *planned("Figs. 5a, b", 64, 1, dict.fromkeys(PHOTOS, 4.0), method="partial-vae", effort=0.1, rows=500, curve=20),
    # Ablations.
    *planned("Fig. 12", 60, 1, ABLATED, sampling="irs"),
    *planned("Fig. 12", 60, 1, ABLATED, sampling="sbs"),
    *planned("Fig. 12", 60, 1, ABLATED, sampling="irs+sbs"),
    *planned("Fig. 12", 60, 1, {"cifar10": 5.0}, sampling="irs", effort=0.2),
    *planned("Fig. 12", 60, 1, {"cifar10": 5.0}, sampling="sbs", effort=0.2),
    *planned("Fig. 12", 60, 1, {"cifar10": 5.0}, sampling="irs+sbs", effort=0.2),
    *planned("Fig. 12", 60, 1, SYMCAT, sampling="irs", curve=40),
    *planned("Fig. 12", 60, 1, SYMCAT, sampling="sbs", curve=40),
    *planned("Fig. 12", 60, 1, SYMCAT, sampling="irs+sbs", curve=40),
    *planned("Fig. 11", 60, 3, {"cub": 5.0}, network="set"),
    *planned("Fig. 11", 60, 3, {"cub": 5.0}, network="masked"),
    *(
        run
        for tau in TEMPERATURES
        for run in planned("Temperature", 50, 3, {"symcat-200": 4.0}, recipe="fast", tau=tau, effort=0.25, curve=20)
    ),
    # V-IP by our querier, and by the paper's recipes.
    *planned(TABLES_2_5, 55, 3, CUB_AND_WORDS, querier=INFORMATION),
    *planned(TABLE_3, 55, 3, SYMCAT, querier=INFORMATION, curve=40),
    *planned(TABLE_3, 55, 10, DIALOGUES, querier=INFORMATION, recipe="fast"),
    # The paper's recipes: in full, or with as much of them as half an hour is enough for. A step with histories of the
    # querier takes as many forward passes as the longest has queries: 25 ms for birds, 2.4 for SymCAT, 115 for words
    # and 87 for photos of CIFAR-10, recorded and with nothing beside them; beside convolutions, several times that.
    *planned(TABLE_3, 67, 10, dict.fromkeys(DIALOGUES, 7.0), querier=STRAIGHT_THROUGH, recipe="paper"),
    *planned(TABLES_2_5, 67, 1, {"mnist": 26.0}, querier=STRAIGHT_THROUGH, recipe="paper"),
    *planned(TABLES_2_5, 67, 1, {"fashion-mnist": 6.0}, querier=STRAIGHT_THROUGH, recipe="paper", effort=0.2),
    *planned(TABLES_2_5, 67, 1, {"cub": 5.0}, querier=STRAIGHT_THROUGH, recipe="paper", effort=0.05),
    *planned(TABLES_2_5, 67, 1, {"cub": 10.0}, querier=STRAIGHT_THROUGH, recipe="paper"),
    *planned(TABLES_2_5, 66, 1, {"huffpost": 5.0}, querier=STRAIGHT_THROUGH, recipe="paper", effort=0.01),
    *planned(TABLE_3, 65, 1, dict.fromkeys(SYMCAT, 5.0), querier=STRAIGHT_THROUGH, recipe="paper", effort=0.02),
    *planned("Table 5", 45, 1, {"cifar10": 10.0}, querier=STRAIGHT_THROUGH, recipe="paper", effort=0.02),
    *planned("Table 5", 45, 1, {"cifar100": 12.0}, querier=STRAIGHT_THROUGH, recipe="paper", effort=0.01),
    # The generative pursuit on some test rows, and V-IP on the same ones. By counting, a query of a row takes 52 TFLOP
    # for images, 5.5 for birds and 0.7 for words, and the posterior given all answers 146, 16 and 2. The minutes assume
    # that nothing else runs on the device: beside a dozen other runs each step takes many times as long.
    *planned(
        TABLES_2_5, 69, 1, dict.fromkeys(DIGITS, 8.0), method=G_IP, published=True, effort=0.3, rows=100, curve=10
    ),
    *planned(TABLES_2_5, 69, 1, {"cub": 4.0, "huffpost": 12.0}, method=G_IP, published=True, rows=100, curve=20),
    *planned(TABLES_2_5, 69, 1, DIGITS, querier=STRAIGHT_THROUGH, rows=100, curve=10),
    *planned(TABLES_2_5, 69, 1, CUB_AND_WORDS, querier=STRAIGHT_THROUGH, rows=100, curve=20),
)


def write_record(result: Result, path: Path) -> None:
    """Write the part of a result that pages show, to four decimal places."""
    evaluation = replace(result.evaluation, confidence_by_asked=[], calibration_error_by_asked=[], brier_by_asked=[])
    text = json.dumps(replace(result, evaluation=evaluation).to_dict())
    make_folder(path.parent)
    Result.from_dict(json.loads(text, parse_float=lambda number: round(float(number), 4))).write(path)


def read_records(folder: Path, plan: tuple[PaperRun, ...] = PLAN) -> dict[PaperRun, Result]:
    """The runs that are done, from their files in a folder."""
    found = ((run, read_result(folder / f"{run.name}.json")) for run in plan)
    return {run: result for run, result in found if result}


def minutes_of(run: PaperRun, done: Mapping[PaperRun, Result]) -> float:
    """The time of a run: that of its slowest seed so far that was trained in one go, or the estimate."""
    took = [
        (result.training_seconds + (result.measuring_seconds or 0)) / 60
        for other, result in done.items()
        if other.way == run.way and not result.resumed
    ]
    return max(took, default=run.minutes)


GRACE_SECONDS = 5.0
"""Seconds that a process has to end by itself."""


@dataclass(frozen=True)
class Place:
    """The device and the folders of runs."""

    out: Path
    """A small file for each run that is done."""
    work: Path
    """A folder with models and checkpoints for each run that is not."""
    device: str = "auto"
    threads: int = 1

    def result(self, run: PaperRun) -> Path:
        return self.out / f"{run.name}.json"

    def folder(self, run: PaperRun) -> Path:
        return self.work / run.name

    def has_begun(self, run: PaperRun) -> bool:
        """Whether a run was stopped that can go on."""
        return (self.folder(run) / RUN).exists()


Begin = Callable[[PaperRun, Place], BaseProcess]


def begin_process(run: PaperRun, place: Place) -> BaseProcess:
    process = get_context("spawn").Process(target=measure, args=(run, place), name=run.name)
    process.start()
    return process


def end_with_parent() -> None:
    """End this process as soon as the one that began it is gone, killed or not: nobody would wait for its result."""
    if parent := parent_process():

        def wait() -> None:
            parent.join()
            os._exit(1)

        Thread(target=wait, daemon=True).start()


def measure(run: PaperRun, place: Place) -> None:
    """Train and measure a run, write its result, and leave no model behind; a run that was stopped goes on."""
    end_with_parent()
    torch.set_num_threads(place.threads)
    folder = place.folder(run)
    error_file = folder / ERROR
    error_file.unlink(missing_ok=True)
    try:
        result = run.method_run(folder, place.device).read_or_measure(no_progress, say_nothing)
        write_record(result, place.result(run))
    except Exception:
        make_folder(folder)
        write_whole(error_file, traceback.format_exc().encode())
        raise SystemExit(1) from None
    rmtree(folder, ignore_errors=True)


def next_run(
    left: Iterable[PaperRun], minutes: float, place: Place, running: Iterable[PaperRun] = ()
) -> PaperRun | None:
    """The most valuable run that ends within the minutes left, or that was begun before, and that goes beside those
    that are running; of several the longest."""
    others = list(running)
    beside = (run for run in left if all(run.goes_beside(other) for other in others))
    fitting = [run for run in beside if run.minutes <= minutes or place.has_begun(run)]
    return max(fitting, key=lambda run: (run.value, run.minutes), default=None)


def work_through(
    runs: Iterable[PaperRun],
    minutes: float,
    jobs: int,
    place: Place,
    say: Say = say_nothing,
    begin: Begin = begin_process,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Run `jobs` at a time until the minutes are over; gives the names of those that failed. What still runs then is
    stopped, and goes on from its last checkpoint the next time."""
    left, failed = list(runs), []
    running: dict[PaperRun, tuple[BaseProcess, float]] = {}
    started = clock()
    try:
        while True:
            for run in [run for run, (worker, _) in running.items() if not worker.is_alive()]:
                worker, began = running.pop(run)
                outcome = _outcome(run, place)
                failed += [run.name] if outcome is None else []
                say(f"{run.name}: {outcome or _why(run, worker, place)} ({(clock() - began) / 60:.1f} minutes)")
            minutes_left = minutes - (clock() - started) / 60
            while (
                len(running) < jobs and (run_now := next_run(left, minutes_left, place, running)) and minutes_left > 0
            ):
                left.remove(run_now)
                say(f"{run_now.name}: {'goes on' if place.has_begun(run_now) else 'begins'}")
                running[run_now] = begin(run_now, place), clock()
            if not running or minutes_left <= 0:
                return failed
            connection.wait([worker.sentinel for worker, _ in running.values()], min(1.0, 60 * minutes_left))
    finally:
        stop([worker for worker, _ in running.values()])
        for run in running:
            say(f"{run.name}: {_outcome(run, place) or 'stopped'}{', can go on' if place.has_begun(run) else ''}")


def stop(workers: Sequence[BaseProcess]) -> None:
    """End processes; their checkpoints are whole whenever that happens."""
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(GRACE_SECONDS)
        if worker.is_alive():
            worker.kill()
            worker.join()


def _outcome(run: PaperRun, place: Place) -> str | None:
    """The result in brief; None if there is none."""
    result = read_result(place.result(run))
    return in_brief(result) if result else None


def _why(run: PaperRun, worker: BaseProcess, place: Place) -> str:
    error_file = place.folder(run) / ERROR
    if error_file.exists():
        return f"failed: {error_file.read_text().strip().splitlines()[-1]} (see {error_file})"
    return f"failed: its process ended with {worker.exitcode}"
