"""The numbers in the paper's tables, as data: what is printed, which runs measure it here, and what is read of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pursuit.experiments.beside import RANDOM_ORDER
from pursuit.experiments.paper.runs import INFORMATION, PLAN, STRAIGHT_THROUGH, PaperRun
from pursuit.experiments.results import NOTHING, Result
from pursuit.experiments.table import ALL_ANSWERS
from pursuit.tasks import TASKS

Read = Callable[[Result], float | None]
"""A number of a result; None if it was not measured."""
RELEASED = "released code"
"""How the protocol begins that the authors' code for these images follows."""

AXIS = "the axis of the printed area is not stated"
PATIENTS = "other patients"
OF_X = "no query answers"
NO_IMAGES = "the training images are not to be had"
QUEUED = "in the queue"


@dataclass(frozen=True)
class Cell:
    """A printed number and ours."""

    printed: float
    read: Read
    way: PaperRun | None
    """The runs that measure it, but for their seeds; None where nothing does."""
    spread: float | None = None
    """What is printed after ±."""
    not_comparable: str = ""
    not_run: str = QUEUED
    """Why there is no number of ours, where there is none."""


@dataclass(frozen=True)
class PaperTable:
    """A table in the layout of the paper."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...], ...]


def way(task: str, method: str = "vip", **wanted: Any) -> PaperRun | None:
    """The first way in which the plan measures a method on a task."""
    wanted = {"published": False, "is_ablation": False, **wanted}
    for run in PLAN:
        if (run.task, run.method) == (task, method) and all(getattr(run, key) == wanted[key] for key in wanted):
            return run.way
    return None


def area(result: Result) -> float | None:
    """Where everything was asked."""
    is_whole = len(result.evaluation.accuracy_by_asked) > result.evaluation.n_queries
    return result.evaluation.area if is_whole else None


def area_in_random_order(result: Result) -> float | None:
    return result.beside[RANDOM_ORDER].area if RANDOM_ORDER in result.beside else None


def after_20(result: Result) -> float | None:
    return result.evaluation.accuracy_by_asked[20]


def all_answers(result: Result) -> float | None:
    return result.evaluation.accuracy_all_answers


def at_printed_length(result: Result) -> float | None:
    return _stop(result)[1]


def length(result: Result) -> float | None:
    return _stop(result)[0]


def _stop(result: Result) -> tuple[float, float]:
    """Queries and accuracy where chains are about as long as the printed ones: by the protocol of the task, the
    released code's if it has several, or after as many queries."""
    if result.protocols:
        chosen = next((one for one in result.protocols if one.name.startswith(RELEASED)), result.protocols[0])
        return chosen.mean_counted, chosen.accuracy
    published = TASKS[result.run["task"]].published
    assert published is not None
    assert published.mean_answered is not None
    n = round(published.mean_answered)
    return float(n), result.evaluation.accuracy_by_asked[n]


NAMES = {
    "cub": "CUB",
    "huffpost": "HuffingtonNews",
    "mnist": "MNIST",
    "kmnist": "KMNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "symcat-200": "SymCAT-200",
    "symcat-300": "SymCAT-300",
    "symcat-400": "SymCAT-400",
    "muzhi": "MuZhi",
    "dxy": "Dxy",
}
AREAS: Mapping[str, tuple[tuple[float, float | None], ...]] = {
    "cub": ((0.557, 0.002), (0.662, 0.002), (0.695, 0.004), (0.736, None), (0.716, 0.008)),
    "huffpost": ((0.423, 0.015), (0.389, 0.010), (0.431, 0.003), (0.691, None), (0.680, 0.002)),
    "mnist": ((0.868, 0.002), (0.916, 0.005), (0.920, 0.007), (0.964, None), (0.956, 0.002)),
    "kmnist": ((0.775, 0.003), (0.832, 0.003), (0.841, 0.002), (0.872, None), (0.911, 0.008)),
    "fashion-mnist": ((0.735, 0.029), (0.770, 0.003), (0.804, 0.010), (0.831, None), (0.849, 0.010)),
}
"""Table 2 with the deviations of its extended version: Random, RAM, RAM+, G-IP, V-IP."""
AFTER_20: Mapping[str, tuple[tuple[float, float | None], ...]] = {
    "symcat-200": ((0.556, None), (0.548, None), (0.681, 0.004)),
    "symcat-300": ((0.475, None), (0.482, None), (0.599, 0.007)),
    "symcat-400": ((0.446, None), (0.438, None), (0.513, 0.009)),
    "muzhi": ((0.726, None), (0.718, None), (0.706, 0.011)),
    "dxy": ((0.811, None), (0.757, None), (0.806, 0.019)),
}
"""Table 3: BSODA, REFUEL, V-IP."""
STOPPED: Mapping[str, tuple[str, float, float, float, float, float]] = {
    "huffpost": ("MAP (0.99)", 195.89, 0.672, 0.712, 0.715, 0.865),
    "cub": ("Stability (0.001)", 18.82, 0.752, 0.763, 0.763, 0.827),
    "mnist": ("MAP (0.99)", 6.34, 0.971, 0.991, 0.992, 0.998),
    "kmnist": ("MAP (0.99)", 20.34, 0.916, 0.958, 0.951, 0.988),
    "fashion-mnist": ("MAP (0.99)", 19.42, 0.872, 0.876, 0.884, 0.967),
    "cifar10": ("Stability (0.127)", 9.79, 0.936, 0.946, 0.955, 0.955),
    "cifar100": ("Stability (1.438)", 12.82, 0.752, 0.788, 0.798, 0.798),
}
"""Table 5: criterion, length, accuracy there, given Q(X), black box given Q(X), black box given X."""


def _area_row(task: str) -> tuple[str | Cell, ...]:
    straight, information = (way(task, querier=querier) for querier in (STRAIGHT_THROUGH, INFORMATION))
    rivals = [(way(task, method), area) for method in ("ram", "ram+", "g-ip")]
    ours = [(straight, area_in_random_order), *rivals, (straight, area), (information, area)]
    why = NO_IMAGES if task == "kmnist" else QUEUED
    cells = [
        Cell(printed, read, one, spread, AXIS, why)
        for (printed, spread), (one, read) in zip([*AREAS[task], AREAS[task][-1]], ours, strict=True)
    ]
    return (NAMES[task], *(cells if information else [*cells[:-1], NOTHING]))


def _medical_row(task: str) -> tuple[str | Cell, ...]:
    by_querier = [way(task, querier=querier) for querier in (STRAIGHT_THROUGH, INFORMATION)]
    by_paper = way(task, querier=STRAIGHT_THROUGH, recipe="paper")
    ways = [way(task, "partial-vae"), way(task, "refuel"), *by_querier, by_paper]
    *rivals, vip = AFTER_20[task]
    why = PATIENTS if task.startswith("symcat") else ""
    cells = [
        Cell(printed, after_20, one, spread, why)
        for (printed, spread), one in zip([*rivals, vip, vip, vip], ways, strict=True)
    ]
    return (NAMES[task], *cells)


def _stopped_rows(task: str) -> list[tuple[str | Cell, ...]]:
    criterion, printed_length, accuracy, given_all, black_box, of_x = STOPPED[task]
    why = NO_IMAGES if task == "kmnist" else QUEUED
    variants = {
        "straight-through": way(task, querier=STRAIGHT_THROUGH),
        "information": way(task, querier=INFORMATION),
        "straight-through, recipe `paper`": way(task, querier=STRAIGHT_THROUGH, recipe="paper"),
    }
    boxes = (
        Cell(black_box, all_answers, way(task, ALL_ANSWERS), not_run=why),
        Cell(of_x, all_answers, None, not_run=OF_X),
    )
    rows: list[tuple[str | Cell, ...]] = []
    for title, one in variants.items():
        if one is not None:
            stop = Cell(printed_length, length, one, not_run=why)
            there = Cell(accuracy, at_printed_length, one, not_run=why)
            of_all = Cell(given_all, all_answers, one, not_run=why)
            beside = (NOTHING, NOTHING) if rows else boxes
            n_queries = str(TASKS[task].n_queries)
            rows.append((NAMES[task], title, n_queries, criterion, stop, there, of_all, *beside))
    return rows


TABLES = (
    PaperTable(
        "Table 2: area under the curve of accuracy against explanation length",
        ("dataset", "Random", "RAM", "RAM+", "G-IP", "V-IP (straight-through)", "V-IP (information)"),
        tuple(_area_row(task) for task in AREAS),
    ),
    PaperTable(
        "Table 3: accuracy after 20 queries",
        (
            "dataset",
            "BSODA (Partial VAE)",
            "REFUEL",
            "V-IP (straight-through)",
            "V-IP (information)",
            "V-IP (straight-through, recipe `paper`)",
        ),
        tuple(_medical_row(task) for task in AFTER_20),
    ),
    PaperTable(
        "Table 5: with a stopping criterion, with all answers, and black boxes",
        (
            "dataset",
            "querier",
            "&#124;Q&#124;",
            "criterion of the paper",
            "explanation length",
            "V-IP given the criterion",
            "V-IP given Q(X)",
            "black box given Q(X)",
            "black box given X",
        ),
        tuple(row for task in STOPPED for row in _stopped_rows(task)),
    ),
)
