"""The page of `benchmarks/tables.py`, from its JSON files: what was aimed at, whether it is met, and all figures."""

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import table
from table_data import TARGETS
from table_methods import ON_ALL, TITLES, expected_error
from table_sizes import sizes_section
from table_trees import accuracy_at, best_tree

VIP, TREE, WIDE = "vip", "tree", "symptoms-773"
SHOWN = (3, 5, 10)
WIDE_SHOWN = 30
MOST_ROWS, MOST_COLUMNS, MOST_SECONDS = 30_000, 50, 60.0
NOTHING, ROUNDING = "–", 1e-9
Found = dict[str, Any]
Runs = dict[str, dict[str, list[Found]]]
"""By table and method, the runs of all seeds."""


def read_runs(folder: Path) -> Runs:
    """What was measured, in the order of tables and seeds."""
    order = {name: i for i, name in enumerate(TARGETS)}
    found: Runs = {}
    values = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/*-*.json"))]
    for one in sorted(values, key=lambda one: (order.get(one["table"], len(order)), one["table"], one["seed"])):
        found.setdefault(one["table"], {}).setdefault(one["method"], []).append(one)
    return found


def measured(runs: Runs, name: str, method: str) -> list[Found]:
    """The runs of a method that came to an end."""
    return [one for one in runs.get(name, {}).get(method, []) if "not_run" not in one]


def spread(values: Iterable[float], digits: int = 3) -> str:
    """Mean and standard deviation over seeds."""
    values = list(values)
    if not values:
        return NOTHING
    mean = f"{statistics.fmean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def after(run: Found, n: int) -> float:
    """The accuracy after n questions; a curve that is shorter has everything asked."""
    curve: list[float] = run["curve"]
    return curve[n] if n < len(curve) else run["all_answers"] if len(curve) > run["shape"]["columns"] else curve[-1]


def pooled_error(each: Sequence[Found]) -> float:
    """The calibration error of the test rows of all seeds together: those of a single seed may be very few."""
    bins = zip(*(one["calibration"]["bins"] for one in each), strict=True)
    return expected_error([[sum(part) for part in zip(*one, strict=True)] for one in bins])


@dataclass(frozen=True)
class Beside:
    """V-IP and the best tree with the same number of questions, seed by seed."""

    vip: list[float]
    tree: list[float]
    asked: list[float]
    """By the tree."""

    @property
    def gap(self) -> float:
        return statistics.fmean(self.vip) - statistics.fmean(self.tree)


def by_seed(runs: Runs, name: str, *methods: str) -> list[tuple[Found, ...]]:
    """The runs of several methods with the same seed."""
    each = [{one["seed"]: one for one in measured(runs, name, method)} for method in methods]
    return [tuple(one[seed] for one in each) for seed in each[0] if all(seed in one for one in each)]


def trees_within(runs: Runs, name: str) -> Beside | None:
    """At V-IP's own stop: the best tree that asks no more than V-IP does."""
    pairs = [(vip, best_tree(tree["trees"], vip["asked"])) for vip, tree in by_seed(runs, name, VIP, TREE)]
    kept = [(vip["at_stop"], tree["accuracy"], tree["asked"]) for vip, tree in pairs if tree]
    return Beside(*(list(part) for part in zip(*kept, strict=True))) if kept else None


def best_trees(runs: Runs, name: str) -> Beside | None:
    """At the number of questions of the best tree of all: V-IP on the line through its stopping rules."""
    kept = []
    for vip, tree in by_seed(runs, name, VIP, TREE):
        best = best_tree(tree["trees"])
        assert best
        kept.append((accuracy_at(vip["trade_off"], best["asked"]), best["accuracy"], best["asked"]))
    return Beside(*(list(part) for part in zip(*kept, strict=True))) if kept else None


def best_other(runs: Runs, name: str) -> tuple[str, float] | None:
    """What is best on all columns, and its mean accuracy, on the seeds that V-IP was measured on; a method that was not
    measured on all of them is not compared."""
    seeds = {one["seed"] for one in measured(runs, name, VIP)}
    means = {}
    for method in ON_ALL:
        each = [one for one in measured(runs, name, method) if not seeds or one["seed"] in seeds]
        if each and seeds <= {one["seed"] for one in each}:
            means[method] = statistics.fmean(one["all_answers"] for one in each)
    return max(means.items(), key=lambda item: item[1]) if means else None


@dataclass(frozen=True)
class Goal:
    """What was aimed at, what was found, and whether that is enough; None where nothing was measured."""

    text: str
    found: str
    is_met: bool | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.is_met is None else "met" if self.is_met else "**missed**"


def goals(runs: Runs) -> list[Goal]:
    return [
        _all_answers_goal(runs),
        *_at_stop_goals(runs),
        _tree_goal(
            "At its own stop V-IP is not more than 1 point behind the best tree that asks no more", runs, trees_within
        ),
        _tree_goal(
            "With as many questions as the best tree of all, it is not more than 1 point behind", runs, best_trees
        ),
        _calibration_goal(runs),
        *_wide_goals(runs),
        _seconds_goal(runs),
    ]


def _points(gap: float) -> str:
    return f"{100 * gap:+.1f}"


def _gaps(text: str, gaps: Mapping[str, float], mean_least: float | None, least: float | None) -> Goal:
    """A goal about a gap on every table: its mean, the smallest, or both have a limit."""
    if not gaps:
        return Goal(text, NOTHING, None)
    mean, worst = statistics.fmean(gaps.values()), min(gaps, key=lambda name: gaps[name])
    missed = [name for name, gap in gaps.items() if least is not None and gap < least - ROUNDING]
    is_met = not missed and (mean_least is None or mean >= mean_least - ROUNDING)
    words = f"{_points(mean)} points on average, {_points(gaps[worst])} at worst ({worst})"
    return Goal(text, words + (f"; missed on {', '.join(missed)}" if missed else ""), is_met)


def _all_answers_goal(runs: Runs) -> Goal:
    gaps = {}
    for name in runs:
        own, other = measured(runs, name, VIP), best_other(runs, name)
        if own and other:
            gaps[name] = statistics.fmean(one["all_answers"] for one in own) - other[1]
    text = "With all answers V-IP is within 1 point of the best other on average, and within 3 on every table"
    return _gaps(text, gaps, -0.01, -0.03)


def _at_stop_goals(runs: Runs) -> list[Goal]:
    each = {name: own for name in runs if (own := measured(runs, name, VIP))}
    gaps = {name: statistics.fmean(one["at_stop"] - one["all_answers"] for one in own) for name, own in each.items()}
    shares = {
        name: statistics.fmean(one["asked"] / one["shape"]["columns"] for one in own) for name, own in each.items()
    }
    within = _gaps(
        "Where V-IP stops, it is within 1 point of what it knows with all answers, on average", gaps, -0.01, None
    )
    text = "By then it has asked at most half of the columns, on average over tables"
    if not shares:
        return [within, Goal(text, NOTHING, None)]
    mean, most = statistics.fmean(shares.values()), max(shares, key=lambda name: shares[name])
    return [within, Goal(text, f"{mean:.0%} on average, {shares[most]:.0%} at most ({most})", mean <= 0.5)]


def _tree_goal(text: str, runs: Runs, compare: Callable[[Runs, str], Beside | None]) -> Goal:
    gaps = {name: beside.gap for name in runs if (beside := compare(runs, name))}
    return _gaps(text, gaps, None, -0.01)


def _calibration_goal(runs: Runs) -> Goal:
    errors = {name: pooled_error(own) for name in runs if (own := measured(runs, name, VIP))}
    text = "Where V-IP stops, its calibration error is below 0.05 on every table (test rows of all seeds together)"
    if not errors:
        return Goal(text, NOTHING, None)
    missed = [f"{name} {error:.3f}" for name, error in errors.items() if error >= 0.05]
    most = max(errors, key=lambda name: errors[name])
    words = f"missed on {', '.join(missed)}" if missed else f"{errors[most]:.3f} at most ({most})"
    return Goal(text, words, not missed)


def _wide_goals(runs: Runs) -> list[Goal]:
    own = measured(runs, WIDE, VIP)
    found = {
        f"On {WIDE} the accuracy is 0.85 with all answers": ([one["all_answers"] for one in own], 0.85),
        f"On {WIDE} the accuracy is 0.55 after {WIDE_SHOWN} questions": ([after(one, WIDE_SHOWN) for one in own], 0.55),
    }
    return [
        Goal(text, spread(values), statistics.fmean(values) >= least if values else None)
        for text, (values, least) in found.items()
    ]


def _seconds_goal(runs: Runs) -> Goal:
    seconds = {
        name: max(one["fit_cpu_seconds"] for one in own)
        for name in runs
        if (own := measured(runs, name, VIP))
        and own[0]["shape"]["rows"] <= MOST_ROWS
        and own[0]["shape"]["columns"] <= MOST_COLUMNS
    }
    text = (
        f"V-IP learns in less than {MOST_SECONDS:.0f} s on 2 cores, up to {MOST_ROWS:,} rows and {MOST_COLUMNS} columns"
    )
    if not seconds:
        return Goal(text, NOTHING, None)
    most = max(seconds, key=lambda name: seconds[name])
    machine = measured(runs, most, VIP)[0]["where"]["machine"]
    return Goal(text, f"{seconds[most]:.0f} s at most ({most}; {machine})", seconds[most] < MOST_SECONDS)


ABOUT = """\
# Ordinary tables, without a setting

Written by `make bench-tables`; every run is a JSON file in `tables/`. Fourteen tables as files have them: texts,
numbers and empty cells. For each seed rows are split, stratified by label: four fifths to learn from, the rest to test
on, and the same rows for every method. V-IP is `VIPClassifier()` with nothing set but its seed. After ± comes the
standard deviation over seeds. Settings of V-IP were chosen on rows held out from those to learn from, by the splits of
`--validation`, with one exception: that tables of 2,000 rows and more are trained to the end, unless held-out rows are
clearly predicted worse, was decided after the first test split of sick had been seen. Held-out training rows of that
table had said the same before.

- **logistic regression** (words one-hot, gaps of numbers filled with the median, standardised), **gradient boosting**
  (scikit-learn's, with its own handling of categories and gaps), **random forest** (300 trees) and **EBM** see all
  columns at once, by their default settings.
- **decision tree**: it asks the distinct columns on a row's way to its leaf, and nothing where all leaves below say the
  same. Depth and pruning are chosen by cross-validation on the rows to learn from, among the trees that ask no more
  than V-IP does, or among all.
- **naive-Bayes IP** and **GDFS** ask as V-IP does, and are shown at V-IP's mean number of questions, on a line through
  their accuracies by stopping rules of confidence.
- **calibration error**: mean gap between confidence and accuracy over ten bins of equal width of the confidence in the
  predicted label, weighted by rows. That of few rows is large by chance: "by chance" is what a perfectly calibrated
  classifier with the same confidences would show.
- **fit s**: seconds of computing to learn, in all threads together, which other work on the machine hardly changes.
"""


def page(runs: Runs, sizes: Mapping[str, Any] | None) -> str:
    parts = [
        ABOUT,
        "## What was aimed at\n",
        table(["goal", "found", ""], [[goal.text, goal.found, goal.verdict] for goal in goals(runs)]),
        "## V-IP\n",
        vip_table(runs),
        "## All answers\n",
        all_answers_table(runs),
        "## As many questions\n",
        "At V-IP's mean number of questions where it stops; and at that of the best tree of all.\n",
        questions_table(runs),
    ]
    if unfinished := not_run(runs):
        parts += ["## Not run\n", unfinished]
    if sizes:
        parts += ["## Long and wide tables\n", sizes_section(sizes)]
    return "\n".join([*parts, "## Where the figures come from\n", origins(runs)])


def vip_table(runs: Runs) -> str:
    rows = []
    for name in runs:
        if own := measured(runs, name, VIP):
            shape = own[0]["shape"]
            rows.append(
                [
                    name,
                    f"{shape['rows']:,} x {shape['columns']}, {shape['labels']}",
                    spread((one["asked"] for one in own), 1),
                    spread(one["at_stop"] for one in own),
                    *(spread(after(one, n) for one in own) for n in SHOWN),
                    spread((after(one, WIDE_SHOWN) for one in own) if shape["columns"] >= WIDE_SHOWN else ()),
                    spread(one["all_answers"] for one in own),
                    spread(one["calibration"]["ece"] for one in own),
                    f"{pooled_error(own):.3f}",
                    f"{statistics.fmean(one['calibration']['by_chance'] for one in own):.3f}",
                    spread((one["fit_cpu_seconds"] for one in own), 1),
                ]
            )
    columns = ["table", "rows x columns, labels", "asked", "at stop", *(f"after {n}" for n in (*SHOWN, WIDE_SHOWN))]
    return table([*columns, "all answers", "calibration", "all seeds", "by chance", "fit s"], rows)


def all_answers_table(runs: Runs) -> str:
    """The accuracy of everybody on all columns; the best of the others, on V-IP's seeds, is bold."""
    methods = [VIP, *ON_ALL, "naive-bayes", "gdfs"]
    rows = []
    for name in runs:
        best = best_other(runs, name)
        cells = []
        for method in methods:
            cell = spread(one["all_answers"] for one in measured(runs, name, method))
            cells.append(f"**{cell}**" if best and method == best[0] else cell)
        rows.append([name, *cells])
    return table(["table", *(TITLES[method] for method in methods)], rows)


def questions_table(runs: Runs) -> str:
    rows = []
    for name in runs:
        own = measured(runs, name, VIP)
        within, best = trees_within(runs, name), best_trees(runs, name)
        rivals = [
            spread(accuracy_at(rival["trade_off"], vip["asked"]) for vip, rival in by_seed(runs, name, VIP, method))
            for method in ("naive-bayes", "gdfs")
        ]
        rows.append(
            [
                name,
                spread((one["asked"] for one in own), 1),
                spread(one["at_stop"] for one in own),
                f"{spread(within.tree)} ({statistics.fmean(within.asked):.1f})" if within else NOTHING,
                *rivals,
                f"{statistics.fmean(best.asked):.1f}" if best else NOTHING,
                spread(best.vip) if best else NOTHING,
                spread(best.tree) if best else NOTHING,
            ]
        )
    at_stop = ["asked", "V-IP", "decision tree (asked)", "naive-Bayes IP", "GDFS"]
    return table(["table", *at_stop, "best tree asks", "V-IP there", "best tree"], rows)


def not_run(runs: Runs) -> str:
    """What did not come to an end, and why."""
    reasons: dict[tuple[str, str, str], list[int]] = {}
    for name, methods in runs.items():
        for method, each in methods.items():
            for one in each:
                if "not_run" in one:
                    reasons.setdefault((name, method, one["not_run"]), []).append(one["seed"])
    return "".join(
        f"- {name}, {TITLES.get(method, method)} (seeds {', '.join(map(str, seeds))}): {reason}\n"
        for (name, method, reason), seeds in reasons.items()
    )


def origins(runs: Runs) -> str:
    """Machines, versions and commits of every method."""
    places: dict[str, dict[str, None]] = {}
    for methods in runs.values():
        for method, each in methods.items():
            for one in each:
                here = one["where"]
                versions = ", ".join(f"{key} {here[key]}" for key in ("python", "torch", "scikit-learn"))
                text = f"commit {here['commit']}, {here['processor']} ({here['machine']}), {versions}"
                places.setdefault(TITLES.get(method, method), {})[text] = None
    return "".join(f"- {title}: {'; '.join(texts)}\n" for title, texts in places.items())


def summary(runs: Runs, names: Sequence[str]) -> str:
    """A short table to read in a terminal: means over seeds of what is measured."""
    methods = sorted({method for name in names for method in runs.get(name, {})}, key=_position)
    lines = [
        f"{'':15}"
        + "".join(f"{method[:11]:>12}" for method in methods)
        + f"{'asked':>12}{'at stop':>9}{'ECE':>7}{'fit s':>8}"
    ]
    for name in names:
        cells = []
        for method in methods:
            each = measured(runs, name, method)
            known = (
                [best["accuracy"] for one in each if (best := best_tree(one["trees"]))]
                if method == TREE
                else [one["all_answers"] for one in each]
            )
            cells.append(f"{statistics.fmean(known) if known else float('nan'):12.3f}")
        line = f"{name:15}" + "".join(cells)
        if own := measured(runs, name, VIP):
            asked, stop, seconds = (
                statistics.fmean(one[key] for one in own) for key in ("asked", "at_stop", "fit_cpu_seconds")
            )
            line += f"{asked:6.1f} of {own[0]['shape']['columns']:<3}{stop:8.3f}{pooled_error(own):7.3f}{seconds:8.1f}"
        lines.append(line)
    return "\n".join(lines)


def _position(method: str) -> tuple[int, str]:
    return (list(TITLES).index(method) if method in TITLES else len(TITLES), method)
