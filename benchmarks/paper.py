"""Every number of the paper's tables beside ours, with a verdict; `pursuit reproduce paper --next MINUTES` measures
what is missing."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import NOTHING, RESULTS, Record, table
from benchmarks.study import Study
from pursuit.evaluation.curves import AtStop
from pursuit.methods import METHODS
from pursuit.research.experiments.paper import (
    G_IP,
    INFORMATION,
    PLAN,
    STRAIGHT_THROUGH,
    TEMPERATURES,
    PaperRun,
    minutes_of,
    read_records,
)
from pursuit.research.experiments.results import ALL_ANSWERS, Result, mean_and_sd, mean_and_spread
from pursuit.research.experiments.run import EXACT_IP, RANDOM_ORDER
from pursuit.research.tasks import TASKS, find_recipe

FOLDER = RESULTS / "paper"
SOME_ROWS = "some test rows and queries"
AXIS, PATIENTS = "axis not stated", "other patients"
OF_X = "quoted in the paper; it learns from images or texts themselves"
SEE_ALL = ("cifar10", "cifar100")
"""Tasks whose queries show everything there is to see: a black box given Q(X) is one given X."""
PUBLISHED_AS = {"partial-vae": "BSODA's reward"}
"""What is published of a rival's settings, where that is not all."""
NO_IMAGES, QUEUED = "its training images were not at hand", "in the queue"
NAMES = {
    **{
        "cub": "CUB",
        "huffpost": "HuffingtonNews",
        "mnist": "MNIST",
        "kmnist": "KMNIST",
        "muzhi": "MuZhi",
        "dxy": "Dxy",
    },
    **{"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"},
    **{f"symcat-{n}": f"SymCAT-{n}" for n in (200, 300, 400)},
}
Printed = tuple[tuple[float, float | None], ...]
AREAS: Mapping[str, Printed] = {
    "cub": ((0.557, 0.002), (0.662, 0.002), (0.695, 0.004), (0.736, None), (0.716, 0.008)),
    "huffpost": ((0.423, 0.015), (0.389, 0.010), (0.431, 0.003), (0.691, None), (0.680, 0.002)),
    "mnist": ((0.868, 0.002), (0.916, 0.005), (0.920, 0.007), (0.964, None), (0.956, 0.002)),
    "kmnist": ((0.775, 0.003), (0.832, 0.003), (0.841, 0.002), (0.872, None), (0.911, 0.008)),
    "fashion-mnist": ((0.735, 0.029), (0.770, 0.003), (0.804, 0.010), (0.831, None), (0.849, 0.010)),
}
"""Table 2 with the deviations of its extended version: Random, RAM, RAM+, G-IP, V-IP."""
AFTER_20: Mapping[str, Printed] = {
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


@dataclass(frozen=True)
class Cell:
    """A printed number and ours."""

    printed: float
    read: str
    """Which number of a result is meant."""
    way: PaperRun | None
    """The runs that measure it, but for their seeds; None where nothing does."""
    spread: float | None = None
    """What is printed after ±."""
    not_comparable: str = ""
    not_run: str = QUEUED
    """Why there is no number of ours, where there is none."""
    beside: PaperRun | None = None
    """V-IP on the same rows, where these are some of the test rows."""
    stronger: Sequence[PaperRun] = ()
    """The same with more training or other settings: the first of them that is done stands here."""


def way(task: str, method: str = "vip", **wanted: Any) -> PaperRun | None:
    """The first way in which the plan measures a method on a task."""
    wanted = {"task": task, "method": method, "published": False, "is_ablation": False, "rows": None, **wanted}
    return next((run.way for run in PLAN if all(getattr(run, key) == wanted[key] for key in wanted)), None)


def at_effort(one: PaperRun | None) -> str:
    return f" at effort {one.effort:g}" if one and one.effort != 1 else ""


def rival_ways(task: str, method: str) -> list[PaperRun]:
    """The ways in which the plan measures a rival on all test rows."""
    return list(dict.fromkeys(run.way for run in PLAN if (run.task, run.method, run.rows) == (task, method, None)))


def strongest_first(task: str, method: str) -> list[PaperRun]:
    """The same, the published one first, then those with the most training, as a multiple of their recipe's."""
    return sorted(rival_ways(task, method), key=lambda one: (one.published, one.effort), reverse=True)


def some_rows(task: str, method: str) -> int | None:
    """The number of test rows that a method is measured on; None: all of them."""
    return next((run.rows for run in PLAN if (run.task, run.method) == (task, method)), None)


def stop(result: Result) -> tuple[float, float]:
    """Queries and accuracy where chains are about as long as the printed ones: by the protocol of the task, the
    released code's if it has several, or after as many queries."""
    if result.protocols:
        chosen = next((one for one in result.protocols if one.name.startswith("released code")), result.protocols[0])
        return chosen.mean_counted, chosen.accuracy
    n = round(TASKS[result.run["task"]].published.mean_answered)
    return float(n), result.evaluation.accuracy_by_asked[n]


def area(result: Result) -> float | None:
    """Where everything was asked."""
    is_whole = len(result.evaluation.accuracy_by_asked) > result.evaluation.n_queries
    return result.evaluation.area if is_whole else None


LENGTH, SO_FAR, EXACT_AFTER = "length", "area so far", (5, 10, 20)
READ: Mapping[str, Callable[[Result], float | None]] = {
    SO_FAR: lambda result: result.evaluation.area,
    "area": area,
    "random area": lambda result: result.beside[RANDOM_ORDER].area if RANDOM_ORDER in result.beside else None,
    "after 20": lambda result: result.evaluation.accuracy_by_asked[20],
    "all answers": lambda result: result.evaluation.accuracy_all_answers,
    LENGTH: lambda result: stop(result)[0],
    "accuracy there": lambda result: stop(result)[1],
}
"""A number of a result; None if it was not measured."""


def verdict(printed: float, values: Sequence[float], n_test: int | None) -> str:
    """Whether the mean over seeds is ahead of a printed accuracy, level with it or behind: two standard errors, of our
    mean over seeds and over test rows together, or over seeds alone where the number of rows is None."""
    found = mean_and_sd(values)
    of_rows = found.mean * (1 - found.mean) / n_test if n_test else 0.0
    error = math.sqrt(found.sd**2 / len(values) + of_rows)
    gap = found.mean - printed
    return "level" if abs(gap) <= 2 * error else "ahead" if gap > 0 else "behind"


def measured(cell: Cell, done: Mapping[PaperRun, Result]) -> tuple[PaperRun | None, list[Result], list[float]]:
    """The runs of a cell, their results, and the number that it reads of them; the stronger ones if they are done."""
    ways = {run.way for run in done}
    one = next((one for one in cell.stronger if one in ways), cell.way)
    results = [result for run, result in done.items() if run.way == one]
    return one, results, [value for result in results if (value := READ[cell.read](result)) is not None]


def cell_text(cell: Cell | str, done: Mapping[PaperRun, Result]) -> str:
    """Printed, ours, seeds and verdict."""
    if isinstance(cell, str):
        return cell
    printed = f"{cell.printed:.3f}" if cell.printed < 1 else f"{cell.printed:.2f}"
    printed += "" if cell.spread is None else f" ± {cell.spread:.3f}"
    one, results, values = measured(cell, done)
    effort = at_effort(one)
    if not values:
        cost = f"{effort}, {_duration(minutes_of(one, done))}" if one else ""
        parts = [printed, NOTHING, "0", f"not run ({cell.not_run}{cost})"]
    elif cell.read == SO_FAR:
        found = _on_some_rows(results, effort, cell.beside, done)
        parts = [printed, found, str(len(values)), f"not comparable ({SOME_ROWS})"]
    elif cell.read == LENGTH:
        parts = [printed, f"{mean_and_sd(values).mean:.2f}", str(len(values))]
    else:
        judged = f"not comparable ({cell.not_comparable})" if cell.not_comparable else ""
        judged = judged or verdict(cell.printed, values, results[0].n_test)
        if judged == "behind" and one and one.recipe == "paper" and one.effort < 1:
            judged = PARTLY
        parts = [printed, mean_and_spread(mean_and_sd(values)) + effort, str(len(values)), judged]
    return r" \| ".join(parts)


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.0f} hours"


def _on_some_rows(
    results: Sequence[Result], effort: str, beside: PaperRun | None, done: Mapping[PaperRun, Result]
) -> str:
    """The area so far and the time of a query, with those of V-IP on the same rows."""
    vip = [result for run, result in done.items() if run.way == beside]
    texts = []
    for title, found in (("", results), ("V-IP there ", vip)):
        times = [result.query_milliseconds for result in found if result.query_milliseconds is not None]
        text = mean_and_spread(mean_and_sd([result.evaluation.area for result in found])) if found else NOTHING
        texts.append(title + text + (f", {mean_and_sd(times).mean:.3g} ms a query" if times else ""))
    one = results[0]
    n_queries = len(one.evaluation.accuracy_by_asked) - 1
    return f"{texts[0]}{effort} on {one.n_test} rows to {n_queries} queries ({texts[1]})"


def area_row(task: str) -> list[str | Cell]:
    straight, information = (way(task, querier=querier) for querier in (STRAIGHT_THROUGH, INFORMATION))
    rams = [(way(task, method), "area") for method in ("ram", "ram+")]
    released = [(way(task, method, published=True), "area") for method in ("ram", "ram+")]
    g_ip = way(task, G_IP, published=True, rows=some_rows(task, G_IP)), SO_FAR
    ours = [(straight, "random area"), *rams, *released, g_ip, (straight, "area"), (information, "area")]
    of_random, ram, ram_plus, of_g_ip, vip = AREAS[task]
    pairs = zip([of_random, ram, ram_plus, ram, ram_plus, of_g_ip, vip, vip], ours, strict=True)
    why = NO_IMAGES if task == "kmnist" else QUEUED
    beside = way(task, querier=STRAIGHT_THROUGH, rows=some_rows(task, G_IP))
    cells = [
        Cell(printed, read, one, spread, AXIS, why, beside if read == SO_FAR else None)
        for (printed, spread), (one, read) in pairs
    ]
    return [NAMES[task], *(cells if information else [*cells[:-1], NOTHING])]


def medical_row(task: str) -> list[str | Cell]:
    by_querier = [way(task, querier=querier) for querier in (STRAIGHT_THROUGH, INFORMATION)]
    by_paper = way(task, querier=STRAIGHT_THROUGH, recipe="paper")
    ways = [way(task, "partial-vae"), way(task, "refuel"), *by_querier, by_paper]
    *rivals, vip = AFTER_20[task]
    stronger = [strongest_first(task, method) for method in ("partial-vae", "refuel")] + [[]] * 3
    of_all = zip([*rivals, vip, vip, vip], ways, stronger, strict=True)
    why = PATIENTS if task.startswith("symcat") else ""
    return [
        NAMES[task],
        *(Cell(printed, "after 20", one, spread, why, stronger=other) for (printed, spread), one, other in of_all),
    ]


def _variants(task: str) -> dict[str, PaperRun]:
    """The ways of V-IP on a task, in words."""
    ways = {
        "straight-through": way(task, querier=STRAIGHT_THROUGH),
        "information": way(task, querier=INFORMATION),
        "straight-through, recipe `paper`": way(task, querier=STRAIGHT_THROUGH, recipe="paper"),
    }
    return {title: one for title, one in ways.items() if one is not None}


def stopped_rows(task: str) -> list[list[str | Cell]]:
    criterion, printed_length, accuracy, given_all, black_box, of_x = STOPPED[task]
    why = NO_IMAGES if task == "kmnist" else QUEUED
    box = Cell(black_box, "all answers", way(task, ALL_ANSWERS), not_run=why)
    beside = [box, replace(box, printed=of_x) if task in SEE_ALL else Cell(of_x, "all answers", None, not_run=OF_X)]
    rows: list[list[str | Cell]] = []
    for title, one in _variants(task).items():
        reads = ((printed_length, LENGTH), (accuracy, "accuracy there"), (given_all, "all answers"))
        cells = [Cell(printed, read, one, not_run=why) for printed, read in reads]
        n_queries = str(TASKS[task].n_queries)
        rows.append([NAMES[task], title, n_queries, criterion, *cells, *([NOTHING] * 2 if rows else beside)])
    return rows


STRAIGHT, BY_INFORMATION = "V-IP (straight-through)", "V-IP (information)"
BY_RECIPE, OF_ALL = "V-IP (straight-through, recipe `paper`)", "V-IP given Q(X)"
STOPPED_COLUMNS = ["dataset", "querier", "&#124;Q&#124;", "criterion of the paper", "explanation length"]
STOPPED_COLUMNS += ["V-IP given the criterion", OF_ALL, "black box given Q(X)", "black box given X"]
TABLES = {
    "table 2": (
        ["dataset", "Random", "RAM", "RAM+", "RAM, published", "RAM+, published", "G-IP", STRAIGHT, BY_INFORMATION],
        [area_row(task) for task in AREAS],
    ),
    "table 3": (
        ["dataset", "BSODA (Partial VAE)", "REFUEL", STRAIGHT, BY_INFORMATION, BY_RECIPE],
        [medical_row(task) for task in AFTER_20],
    ),
    "table 5": (STOPPED_COLUMNS, [row for task in STOPPED for row in stopped_rows(task)]),
}


@dataclass(frozen=True)
class Line:
    """A curve of a figure: a mean over seeds."""

    way: PaperRun | None
    colour: str
    style: str = "-"
    measured: str = ""
    """`BUDGET`: by the number of queries asked, whatever the panel shows; or what was measured beside it."""


@dataclass(frozen=True)
class Panel:
    """Curves of accuracy of one task, as a figure of the paper has them."""

    task: str
    rule: str
    """Which stopping rules are varied, as a regular expression of their names, or `BUDGET`."""
    lines: Mapping[str, Line]
    longest: int
    """Where the axis ends."""
    note: str = ""
    """What its title says besides the task."""


BUDGET, BY_CONFIDENCE, BY_STABILITY = "budget", r"confidence=[\d.]+", r"stability=[\d.]+"
BY_THREE_STABLE = BY_STABILITY + "x3"
LONGEST = {"cub": 150, "huffpost": 600, "mnist": 60, "fashion-mnist": 150, "cifar10": 49, "cifar100": 49}


def rivals(task: str, rule: str) -> Panel:
    """V-IP by both queriers beside what it is compared with."""
    straight, information = (way(task, querier=querier) for querier in (STRAIGHT_THROUGH, INFORMATION))
    lines = {STRAIGHT: Line(straight, "C0"), BY_INFORMATION: Line(information, "C1")}
    for number, method in enumerate(("ram", "ram+", "partial-vae", "refuel"), start=2):
        rows = some_rows(task, method)
        title = METHODS[method].title + (f" on {rows:,} rows" if rows else "")
        first = way(task, method, rows=rows)
        lines[title] = Line(first, f"C{number}")
        strongest = next(iter(strongest_first(task, method)), first)
        if strongest and strongest != first:
            how = PUBLISHED_AS.get(method, "published") if strongest.published else strongest.recipe
            lines[f"{title}, {how}"] = Line(strongest, f"C{number}", "--")
    by_budget = "" if rule == BUDGET else ", by budget"
    if by_budget:
        lines[f"{STRAIGHT}, by budget"] = Line(straight, "C0", "--", BUDGET)
    lines[f"random order{by_budget}"] = Line(straight, "0.4", ":", RANDOM_ORDER)
    lines["exact IP"] = Line(straight, "black", "--", EXACT_IP)
    return Panel(task, rule, lines, LONGEST.get(task, 20))


def on_some_rows(task: str) -> Panel:
    """G-IP and V-IP on the same rows."""
    of_g_ip = way(task, G_IP, published=True, rows=some_rows(task, G_IP))
    vip = way(task, querier=STRAIGHT_THROUGH, rows=some_rows(task, G_IP))
    lines = {STRAIGHT: Line(vip, "C0"), "G-IP": Line(of_g_ip, "C6")}
    return Panel(task, BUDGET, lines, LONGEST[task], f", {some_rows(task, G_IP)} test rows")


def ablation(task: str, rule: str, titles: Mapping[str, Mapping[str, Any]]) -> Panel:
    ways = {title: way(task, is_ablation=True, **wanted) for title, wanted in titles.items()}
    lines = {title: Line(one, f"C{number}") for number, (title, one) in enumerate(ways.items())}
    return Panel(task, rule, lines, LONGEST.get(task, 20))


BY_SAMPLING = {title: {"sampling": title.lower()} for title in ("IRS", "SBS", "IRS+SBS")}
BY_NETWORK = {"set": {"network": "set"}, "masked": {"network": "masked"}}
FIGURES: Mapping[str, Sequence[Panel]] = {
    "figure-4": [
        *(rivals(task, BY_CONFIDENCE) for task in ("mnist", "fashion-mnist", "huffpost")),
        rivals("cub", BY_STABILITY),
        *(on_some_rows(task) for task in ("mnist", "fashion-mnist", "huffpost", "cub")),
    ],
    "figure-5": [rivals(task, BUDGET) for task in ("cifar10", "cifar100", "symcat-200")],
    "figure-11": [ablation("cub", rule, BY_NETWORK) for rule in (BY_THREE_STABLE, BUDGET)],
    "figure-12": [
        *(ablation(task, BY_CONFIDENCE, BY_SAMPLING) for task in ("mnist", "fashion-mnist", "huffpost")),
        *(ablation(task, BUDGET, BY_SAMPLING) for task in ("symcat-200", "symcat-300", "symcat-400")),
        ablation("cub", BY_STABILITY, BY_SAMPLING),
        ablation("cifar10", BUDGET, BY_SAMPLING),
    ],
}
"""The paper's figures with curves, in its axes: accuracy against the mean length, by varying the stopping rule, or
against a budget."""


def curve(result: Result, rule: str) -> tuple[list[float], list[float]]:
    """Mean lengths, rising, and the accuracy at each, by the rules of a panel or as a `Line` is measured."""
    if rule in (BUDGET, RANDOM_ORDER, EXACT_IP):
        measured = result.evaluation if rule == BUDGET else result.beside.get(rule)
        accuracy = (measured.accuracy_by_asked if measured else None) or []
        return [float(n) for n in range(len(accuracy))], accuracy
    rules = (at for at in result.evaluation.trade_off if re.fullmatch(rule, at.rule))
    points = sorted((at.mean_asked, at.accuracy) for at in rules)
    return [length for length, _ in points], [accuracy for _, accuracy in points]


def draw_panel(axes: Any, panel: Panel, done: Mapping[PaperRun, Result]) -> None:
    """A mean over seeds for every curve, with a band of a standard deviation where there are several. The axis has room
    for all that panels compare, but for its first twentieth."""
    from matplotlib.transforms import ScaledTranslation

    lowest = 1.0
    for title, line in panel.lines.items():
        results = [result for run, result in done.items() if line.way and run.way == line.way]
        curves = [each for result in results if (each := curve(result, line.measured or panel.rule))[0]]
        if not curves:
            continue
        ends = max(each[0][0] for each in curves), min(min(each[0][-1] for each in curves), panel.longest)
        grid = np.linspace(*ends, 400)
        values = np.stack([np.interp(grid, *each) for each in curves])
        mean, sd = values.mean(axis=0), values.std(axis=0, ddof=len(curves) > 1)
        n_seeds = "1 seed" if len(curves) == 1 else f"{len(curves)} seeds"
        axes.plot(grid, mean, line.style, color=line.colour, label=f"{title}{at_effort(line.way)}, {n_seeds}")
        axes.fill_between(grid, mean - sd, mean + sd, color=line.colour, alpha=0.2, linewidth=0)
        is_seen = grid >= ends[1] / 20
        lowest = lowest if line.measured else min(lowest, (mean - sd)[is_seen].min(initial=1.0))
    axes.set(title=NAMES[panel.task] + panel.note, xlim=(0, None), ylim=(max(0, lowest - 0.02), None))
    axes.set_xlabel("queries" if panel.rule == BUDGET else "mean length")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:  # below, where no curve can be: so many inches, however high the axes are
        below = axes.transAxes + ScaledTranslation(0, -0.42, axes.figure.dpi_scale_trans)
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, frameon=False)


def draw(_: list[Record], folder: Path) -> None:
    """Each figure of `FIGURES` as a picture, with the panels that compare something by now."""
    import matplotlib.pyplot as plt
    from PIL import Image

    done = read_records(FOLDER)
    ways = {run.way for run in done}
    for name, panels in FIGURES.items():
        shown = [panel for panel in panels if sum(line.way in ways for line in panel.lines.values()) > 1]
        if shown:
            n_columns = min(len(shown), 4)
            shape = -(-len(shown) // n_columns), n_columns
            figure, axes = plt.subplots(*shape, figsize=(4 * shape[1], 4 * shape[0]), squeeze=False)
            for panel, own in zip_longest(shown, axes.flat):
                if panel is None:
                    own.set_axis_off()
                else:
                    draw_panel(own, panel, done)
            for first in axes[:, 0]:
                first.set_ylabel("accuracy")
            figure.tight_layout()
            path = folder / "paper" / f"{name}.png"
            figure.savefig(path, dpi=110)
            plt.close(figure)
            few = Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            few.save(path, optimize=True)


PARTLY = "behind with part of the training"
VERDICTS = ("ahead", "level", "behind", PARTLY, "not comparable", "not run")


def counts_table(done: Mapping[PaperRun, Result]) -> str:
    """How many cells of each table have which verdict, and how many of those are in columns of V-IP; and what of the
    level ones seeds alone would say."""
    rows, by_seeds = [], []
    for name, (columns, lines) in TABLES.items():
        found = []
        for title, cell in (pair for line in lines for pair in zip(columns, line, strict=True)):
            if isinstance(cell, str) or cell.read == LENGTH:
                continue
            judged = cell_text(cell, done).split(r" \| ")[-1].split(" (")[0]
            found.append((judged, title.startswith("V-IP")))
            if judged == "level" and len(values := measured(cell, done)[2]) > 1:
                by_seeds.append(verdict(cell.printed, values, None))
        numbers = [(sum(one == each for one, _ in found), found.count((each, True))) for each in VERDICTS]
        rows.append([name.capitalize(), *(f"{n} ({n_vip})" for n, n_vip in numbers)])
    counts = table(["cells, in brackets those of V-IP", *VERDICTS], rows)
    if not by_seeds:
        return counts
    n_ahead, n_behind = by_seeds.count("ahead"), by_seeds.count("behind")
    alone = f"{n_ahead} would be ahead and {n_behind} behind by the standard error over seeds alone"
    return f"{counts.rstrip()}\n\nOf the {len(by_seeds)} *level* cells with several seeds, {alone}."


def longer_table(done: Mapping[PaperRun, Result]) -> str:
    """The accuracy of rivals on SymCAT after 20 queries, by how they were trained."""
    tasks = [task for task in AFTER_20 if task.startswith("symcat")]

    def text(one: PaperRun) -> str:
        values = [result.evaluation.accuracy_by_asked[20] for run, result in done.items() if run.way == one]
        return mean_and_spread(mean_and_sd(values)) if values else NOTHING

    rows = []
    for method in ("partial-vae", "refuel"):
        for one in rival_ways(tasks[0], method):
            stages = one.applied(find_recipe(one.task, one.recipe))[0].stages
            millions = sum(stage.epochs for stage in stages) * TASKS[one.task].n_train / 1e6
            cells = [text(replace(one, task=task)) for task in tasks]
            title = METHODS[method].title + (f", {PUBLISHED_AS[method]}" if one.published else "")
            rows.append([title, f"`{one.recipe}`", f"{millions:.1f} million", *cells])
    return table(["method", "recipe", "histories", *(NAMES[task] for task in tasks)], rows)


def axis_table(done: Mapping[PaperRun, Result]) -> str:
    """The areas of Table 2 over the first queries, as many as give Random, or V-IP, its printed area."""
    titles = [title for title in TABLES["table 2"][0][1:] if title != "G-IP"]
    rows = []
    for task in AREAS:
        cells = [cell for cell in area_row(task)[1:] if isinstance(cell, Cell) and cell.read != SO_FAR]
        curves = [
            [means for run, own in done.items() if run.way == cell.way for means in areas(own, cell)] for cell in cells
        ]
        for ruler in (titles.index(title) for title in ("Random", STRAIGHT)):
            if not curves[ruler]:
                continue
            n = int(np.abs(np.mean(curves[ruler], axis=0) - cells[ruler].printed).argmin())
            row = [_over_axis(cell, [means[n] for means in own], task) for cell, own in zip(cells, curves, strict=True)]
            ours = float(np.mean([means[n] for means in curves[ruler]]))
            if abs(ours - cells[ruler].printed) < 0.002:
                row[ruler] = re.sub(r"\w+$", "sets the axis", row[ruler])
            else:
                row[ruler] += ", and no axis brings it nearer"
            rows.append([NAMES[task], titles[ruler], f"1 to {n + 1}", *row, *[NOTHING] * (len(titles) - len(row))])
    return table(["dataset", "axis set by", "queries", *titles], rows)


def areas(result: Result, cell: Cell) -> list[np.ndarray]:
    """The mean accuracy over 1 to each number of queries, where everything was asked."""
    measured = result.beside.get(RANDOM_ORDER) if cell.read == "random area" else result.evaluation
    accuracy = np.array((measured and measured.accuracy_by_asked) or [0.0])[1:]
    is_whole = len(accuracy) == result.evaluation.n_queries
    return [accuracy.cumsum() / np.arange(1, len(accuracy) + 1)] if is_whole else []


def _over_axis(cell: Cell, ours: Sequence[float], task: str) -> str:
    if not ours:
        return NOTHING
    effort = at_effort(cell.way)
    judged = verdict(cell.printed, ours, TASKS[task].n_test)
    return rf"{cell.printed:.3f} \| {mean_and_spread(mean_and_sd(ours))}{effort} \| {judged}"


def exact_table(done: Mapping[PaperRun, Result]) -> str:
    """V-IP beside exact Information Pursuit on the same patients, and how far it is behind."""
    rows = []
    for task in (task for task in AFTER_20 if task.startswith("symcat")):
        for querier in (STRAIGHT_THROUGH, INFORMATION):
            found = [result for run, result in done.items() if run.way == way(task, querier=querier)]
            pairs = [
                (result.evaluation.accuracy_by_asked, result.beside[EXACT_IP].accuracy_by_asked)
                for result in found
                if EXACT_IP in result.beside
            ]
            if not pairs:
                continue
            cells = [
                f"{mean_and_spread(mean_and_sd([own[n] for own, _ in pairs]))} "
                f"({mean_and_sd([exact[n] for _, exact in pairs]).mean:.3f})"
                for n in EXACT_AFTER
            ]
            gaps = [exact[EXACT_AFTER[-1]] - own[EXACT_AFTER[-1]] for own, exact in pairs]
            rows.append([NAMES[task], querier, *cells, mean_and_spread(mean_and_sd(gaps)), len(pairs)])
    return table(["dataset", "querier", *(f"after {n}" for n in EXACT_AFTER), "behind after 20", "seeds"], rows)


def at_criterion(result: Result) -> AtStop | None:
    """By the printed criterion, and by the cap of the recipe where it has one; None if that was not measured."""
    printed = TASKS[result.run["task"]].published.rule
    found = (at for at in (result.evaluation.at_stop, *result.evaluation.trade_off) if at)
    return next((at for at in found if at.rule.split(",")[0] == printed), None)


def otherwise_table(done: Mapping[PaperRun, Result]) -> str:
    """The chains of Table 5 by the printed criterion itself, and with as many queries asked of every row."""
    rows = []
    for task, (criterion, printed_length, accuracy, *_) in STOPPED.items():
        n_queries = round(printed_length)
        for title, one in _variants(task).items():
            results = [result for run, result in done.items() if run.way == one]
            if not results:
                continue
            stops = [at for result in results if (at := at_criterion(result))]
            length = f"{mean_and_sd([at.mean_asked for at in stops]).mean:.1f}" if stops else NOTHING
            there = mean_and_spread(mean_and_sd([at.accuracy for at in stops])) if stops else NOTHING
            after = [result.evaluation.accuracy_by_asked[n_queries] for result in results]
            judged = verdict(accuracy, after, results[0].n_test)
            ours = f"{mean_and_spread(mean_and_sd(after))} after {n_queries}"
            budget = r" \| ".join([f"{accuracy:.3f} after {printed_length:.2f}", ours, str(len(after)), judged])
            stable = NOTHING
            if criterion.startswith("Stability"):
                curves = (curve(result, BY_STABILITY) for result in results)
                between = [value for each in curves if (value := accuracy_at(printed_length, *each)) is not None]
                if len(between) == len(results):
                    judged_there = verdict(accuracy, between, results[0].n_test)
                    stable = rf"{mean_and_spread(mean_and_sd(between))} \| {judged_there}"
            free = [one for result in results for one in result.protocols if one.name == "no cap"]
            uncapped = NOTHING
            if free:
                level, counted = (mean_and_sd([getattr(one, key) for one in free]) for key in ("level", "mean_counted"))
                right = mean_and_spread(mean_and_sd([one.accuracy for one in free]))
                uncapped = f"{right} after {counted.mean:.2f}, at {level.mean:.3f}"
            rows.append([NAMES[task], title + at_effort(one), criterion, length, there, uncapped, stable, budget])
    columns = ["dataset", "querier", "criterion", "its length", "accuracy there", "a lower confidence, no cap"]
    return table([*columns, "stability, at the printed length", "a budget for every row"], rows)


def accuracy_at(length: float, lengths: Sequence[float], accuracies: Sequence[float]) -> float | None:
    """Between two measured levels of a rule, on the line from one to the other; None if all levels have longer chains,
    or all have shorter ones."""
    is_between = bool(lengths) and lengths[0] <= length <= lengths[-1]
    return float(np.interp(length, lengths, accuracies)) if is_between else None


def runs_table(done: Mapping[PaperRun, Result]) -> str:
    """Commit, device and time of the runs that the tables show."""
    cells = [cell for _, rows in TABLES.values() for row in rows for cell in row if isinstance(cell, Cell)]
    rows = []
    for one in dict.fromkeys(one for cell in cells for one in (cell.way, *cell.stronger[:1]) if one):
        results = [result for run, result in done.items() if run.way == one]
        if results:
            seconds = [result.training_seconds for result in results if not result.resumed]
            minutes = f"{mean_and_sd(seconds).mean / 60:.1f}" if seconds else "in parts"
            places = [
                ", ".join(dict.fromkeys(str(result.provenance[key]) for result in results))
                for key in ("commit", "device")
            ]
            rows.append([one.name.removesuffix("-seed-0"), len(results), places[1], minutes, places[0]])
    return table(["run", "seeds", "device", "minutes of training", "commit"], rows)


def left_text(done: Mapping[PaperRun, Result]) -> str:
    """The runs that were not done, with the number of their seeds."""
    left = Counter(run.way.name.removesuffix("-seed-0") for run in PLAN if run not in done)
    names = (f"`{name}`" + (f" ({n} seeds)" if n > 1 else "") for name, n in left.items())
    return f"Not done: {', '.join(names)}." if left else "All are done."


def temperature_table(done: Mapping[PaperRun, Result]) -> str:
    """V-IP by the temperature of the straight-through softmax at the beginning and the end of training."""
    rows = []
    for tau in TEMPERATURES:
        one = way("symcat-200", is_ablation=True, tau=tau)
        curves = [result.evaluation.accuracy_by_asked for run, result in done.items() if run.way == one]
        if curves:
            cells = [mean_and_spread(mean_and_sd([each[n] for each in curves])) for n in EXACT_AFTER]
            rows.append([tau.replace(":", " to "), *cells, len(curves)])
    return table(["temperature", *(f"after {n}" for n in EXACT_AFTER), "seeds"], rows)


def page(_: list[Record]) -> dict[str, str]:
    done = read_records(FOLDER)
    n_done = sum(run in done for run in PLAN)
    return {
        "done": f"{n_done} of the {len(PLAN)} planned runs are done.",
        **{
            name: table(columns, [[cell_text(cell, done) for cell in row] for row in rows])
            for name, (columns, rows) in TABLES.items()
        },
        "verdicts": counts_table(done),
        "longer": longer_table(done),
        "axis": axis_table(done),
        "otherwise": otherwise_table(done),
        "exact": exact_table(done),
        "temperature": temperature_table(done),
        "runs": runs_table(done),
        "left": left_text(done),
    }


def measure(name: str) -> Record:
    raise ValueError("`pursuit reproduce paper --next MINUTES` measures these.")


STUDY = Study(name="paper", runs=[], measure=measure, page=page, draw=draw, file="paper/{name}.json")
