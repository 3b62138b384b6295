"""The field's own benchmarks: docs/results/field.md, with a JSON file of every run beside it.

    python benchmarks/field.py                                    # everything that is not measured yet, and the page
    python benchmarks/field.py --sets syn1,california --methods vip --seeds 0,1 --jobs 2
    python benchmarks/field.py --rows 500 --train-rows 2000       # a quick look, into results/field-quick
    python benchmarks/field.py --validation                       # on its validation rows: results/field-validation
    python benchmarks/field.py --page                             # only the page, from what is measured

Data are read from --data, $PURSUIT_DATA or ../shared/data: the folders `field`, `mnist` and `fashion-mnist`. A run is
one method on one set with one seed: `SET-METHOD-SEED.json`.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from beliefs import Chains, ask_everything
from field_data import SETS, relevant
from pursuit.methods import METHODS
from report import RESULTS, table
from runs import Run, check_names, measure_runs, names, parser_of_runs
from table_data import data_folder
from table_methods import Stopwatch
from table_page import NOTHING, origins, spread

FOLDER, PAGE = RESULTS / "field", RESULTS / "field.md"
VALIDATION_FOLDER, QUICK_FOLDER = Path("results") / "field-validation", Path("results") / "field-quick"
TITLES = {"vip": "V-IP by default", "vip-straight-through": "straight-through", "vip-information": "information"}
SEEDS = (0, 1, 2)
MADE = {"syn1": 1, "syn2": 2, "syn3": 3}
AUROC, ACCURACY, STEPS = "AUROC", "accuracy", "steps"
METRICS = {
    **dict.fromkeys((*MADE, "bank-full"), AUROC),
    **dict.fromkeys(("mnist-20", "fashion-20", "california"), ACCURACY),
}
PUBLISHED = {
    "SEFA": ("4.017", "4.099", "5.084", ".761", ".721", ".919", ".676"),
    "Opportunistic RL": ("4.201", "4.846", "5.850", ".740", ".708", ".910", ".657"),
    "DIME": ("4.079", "4.581", "5.667", ".731", ".703", ".907", ".661"),
    "GDFS": ("4.568", "4.484", "5.587", ".732", ".692", ".907", ".653"),
    "ACFlow": ("7.730", "7.527", "9.194"),
    "random order": ("9.484", "9.499", "9.987"),
}
"""In the order of `SETS`: steps of the made sets, and means over the curve of the others."""
GOALS = dict(zip(SETS, (4.1, 4.2, 5.4, 0.74, 0.71, 0.915, 0.676), strict=True))
"""For V-IP by default: the most steps on made sets, the least mean of the curve on others."""
SHOWN = (1, 2, 3, 4, 5, 8, 10, 15, 20)
Found = dict[str, Any]
Runs = dict[str, dict[str, list[Found]]]
"""By set and method, the runs of all seeds."""


@dataclass(frozen=True, kw_only=True)
class FieldRun(Run):
    """One method on one set with one seed."""

    name: str
    method: str
    is_validation: bool = False
    n_train: int | None = None
    n_test: int | None = None

    limit_seconds, limit_gb = 6 * 3600.0, 16.0

    @property
    def names(self) -> dict[str, str]:
        return {"set": self.name, "method": self.method}

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}-{self.method}-{self.seed}.json"

    def measure(self) -> Found:
        torch.manual_seed(self.seed)
        data = SETS[self.name](self.data).cut(self.n_train, self.n_test)
        test = data.validation if self.is_validation else data.test
        n_features = data.train.X.shape[1]
        fitting = Stopwatch()
        classifier = METHODS[self.method].build(random_state=self.seed).fit(data.train.X, data.train.y)
        fit_time = fitting.read("fit")
        asking = Stopwatch()
        chains = ask_everything(classifier.model_, classifier.rows(test.X, test.y))
        ask_time = asking.read("ask")
        n_steps = {"steps": steps_to_relevant(self.name, test.X, classifier, chains)} if self.name in MADE else {}
        curves = {metric: padded(curve_of(metric, chains, test.y), n_features) for metric in metrics_of(self.name)}
        return {
            "shape": {"train": len(data.train.y), "test": len(test.y), "features": n_features},
            "model": type(classifier.model_).__name__,
            "chosen": [str(reason) for reason in classifier.chosen_],
            **n_steps,
            "mean": {metric: statistics.fmean(curve[1:]) for metric, curve in curves.items()},
            "curve": curves,
            **fit_time,
            **ask_time,
        }


def metrics_of(name: str) -> tuple[str, ...]:
    """The metric of a set, and the accuracy in any case."""
    return (METRICS[name], ACCURACY) if METRICS[name] != ACCURACY else (ACCURACY,)


def curve_of(metric: str, chains: Chains, y: np.ndarray) -> list[float]:
    """The metric over all rows after 0, 1, ... answers; labels are their own indices."""
    if metric == AUROC:
        return [float(roc_auc_score(y, posterior[:, 1])) for posterior in chains.posterior]
    return [float((posterior.argmax(axis=1) == y).mean()) for posterior in chains.posterior]


def padded(curve: list[float], n_features: int) -> list[float]:
    """Columns that are not asked for, because they are the same in all rows, count as steps that tell nothing."""
    return curve + [curve[-1]] * (n_features + 1 - len(curve))


def steps_to_relevant(name: str, X: Any, classifier: Any, chains: Chains) -> float:
    """The step after which all that the label of a row depends on has been asked, on average."""
    step = np.full(X.shape, X.shape[1])
    place = [X.columns.get_loc(query.name) for query in classifier.model_.query_set.queries]
    step[:, place] = chains.query.argsort(axis=1) + 1
    return float(np.where(relevant(MADE[name], X), step, 0).max(axis=1).mean())


def main(arguments: Sequence[str]) -> None:
    parser = parser_of_runs("Measure the benchmarks of the field.", SEEDS)
    parser.add_argument("--sets", type=names, default=list(SETS), help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument(
        "--methods", type=names, default=list(TITLES), help=f"as in vip; by default {', '.join(TITLES)}"
    )
    parser.add_argument("--rows", type=int, help="test rows, for a quick look; by default all")
    parser.add_argument("--train-rows", type=int, help="rows to learn from, for a quick look; by default all")
    given = parser.parse_args(arguments)
    check_names(parser, "set", given.sets, SETS)
    check_names(parser, "method", given.methods, METHODS)
    usual = VALIDATION_FOLDER if given.validation else FOLDER
    folder = given.folder or (QUICK_FOLDER if given.rows or given.train_rows else usual)
    if not given.page:
        shared = {"folder": folder, "data": given.data or data_folder(), "is_validation": given.validation}
        runs = [
            FieldRun(name=name, method=method, seed=seed, n_train=given.train_rows, n_test=given.rows, **shared)
            for seed in given.seeds
            for name in given.sets
            for method in given.methods
        ]
        measure_runs(runs, given.jobs, given.seconds, given.keep)
    path = PAGE if folder == FOLDER else folder / PAGE.name
    text = page(read_runs(folder))
    path.write_text(text, encoding="utf-8")
    print(text[text.index("## What was aimed at") :])
    print(f"Written: {path}")


def read_runs(folder: Path) -> Runs:
    found: Runs = {name: {} for name in SETS}
    for path in sorted(folder.glob("*.json")):
        one = json.loads(path.read_text(encoding="utf-8"))
        found[one["set"]].setdefault(one["method"], []).append(one)
    return {name: methods for name, methods in found.items() if methods}


ABOUT = """\
# The field's own benchmarks

Written by `make bench-field`; every run is a JSON file in `field/`. The sets, splits and metrics are those of
[SEFA](https://github.com/a-norcliffe/SEFA); nothing is set but the seed and, where it says so, the querier. Its
validation rows are left out: what V-IP holds out, it takes from the rows to learn from. Nothing stops a chain: all
features are asked one after the other, and a missing value, which tells nothing, last of all. After each step the
metric is taken over all test rows, and the figure is its mean over steps 1 to d. After ± comes the standard deviation
over seeds.

- **syn1, syn2, syn3**: eleven normal numbers, of which the last decides what the label depends on. The figure is the
  step after which all that the label of a row depends on has been asked, on average; the best possible are 4, 4 and 5.
  60,000 rows to learn from, 10,000 to test on.
- **mnist-20, fashion-20**: twenty pixels, accuracy; 50,000 rows to learn from, the official test rows.
- **bank-full**: fifteen columns, AUROC; **california**: eight columns, four classes of equal size, accuracy. Eight
  tenths of the rows to learn from, one tenth to test on.

Published figures come from a third party's digest of SEFA's paper (its tables 1 and 2 by that account), not from the
paper itself; they are means over five trainings of a configuration that was chosen on validation rows, out of nine.
"""


def page(runs: Runs) -> str:
    runs = {
        name: {method: kept for method, each in methods.items() if (kept := [o for o in each if "not_run" not in o])}
        for name, methods in runs.items()
    }
    parts = [ABOUT, "## What was aimed at\n", goals(runs), "## Beside published figures\n", figures_table(runs)]
    parts += ["## The made sets by AUROC\n", auroc_table(runs)]
    parts += ["## Along the curve\n", curves_table(runs), "## What was learnt\n", models_table(runs)]
    return "\n".join([*parts, "## Where the figures come from\n", origins(runs)])


def methods_in(runs: Runs) -> list[str]:
    """The methods that were measured, the usual ones first."""
    found = {method for methods in runs.values() for method in methods}
    return [*(method for method in TITLES if method in found), *sorted(found - TITLES.keys())]


def title(method: str) -> str:
    return TITLES.get(method) or METHODS[method].title


def figure(name: str, run: Found) -> float:
    """What is compared: steps, or the mean over the curve."""
    return run[STEPS] if name in MADE else run["mean"][METRICS[name]]


def goals(runs: Runs) -> str:
    rows = []
    for name, goal in GOALS.items():
        each = [figure(name, one) for one in runs.get(name, {}).get("vip", [])]
        words = f"{name}: at most {goal} steps" if name in MADE else f"{name}: mean {METRICS[name]} at least {goal}"
        is_met = each and (statistics.fmean(each) - goal) * (-1 if name in MADE else 1) >= 0
        rows.append([words, spread(each), "met" if is_met else "**missed**" if each else "not measured"])
    return table(["goal of V-IP by default", "found", ""], rows)


def figures_table(runs: Runs) -> str:
    heads = [f"{name}, {STEPS if name in MADE else METRICS[name]}" for name in SETS]
    rows = [
        [title(method), *(spread(figure(name, one) for one in runs.get(name, {}).get(method, [])) for name in SETS)]
        for method in methods_in(runs)
    ]
    rows += [[f"{who} (published)", *cells, *[NOTHING] * (len(SETS) - len(cells))] for who, cells in PUBLISHED.items()]
    return table(["", *heads], rows)


def auroc_table(runs: Runs) -> str:
    rows = [
        [title(method), *(spread(one["mean"][AUROC] for one in runs.get(name, {}).get(method, [])) for name in MADE)]
        for method in methods_in(runs)
    ]
    return table(["mean over the curve", *MADE], rows)


def curves_table(runs: Runs) -> str:
    rows = []
    for name, methods in runs.items():
        for method in methods_in({name: methods}):
            curves = [one["curve"][METRICS[name]] for one in methods[method]]
            means = [statistics.fmean(at) for at in zip(*curves, strict=True)]
            cells = [f"{means[n]:.3f}" if n < len(means) else NOTHING for n in SHOWN]
            rows.append([name, METRICS[name], title(method), *cells, f"{means[-1]:.3f}"])
    return table(["set", "metric", "V-IP", *(f"after {n}" for n in SHOWN), "all"], rows)


def models_table(runs: Runs) -> str:
    rows = []
    for name, methods in runs.items():
        for method in methods_in({name: methods}):
            each = methods[method]
            chosen = {text for one in each for text in one["chosen"] if text.startswith("querier")}
            seeds, models = sorted(one["seed"] for one in each), sorted({one["model"] for one in each})
            seconds = spread((one["fit_cpu_seconds"] for one in each), 0)
            cells = [", ".join(map(str, seeds)), ", ".join(models), "; ".join(sorted(chosen)) or NOTHING, seconds]
            rows.append([name, title(method), *cells, f"{each[0]['shape']['test']:,}"])
    return table(["set", "V-IP", "seeds", "model", "querier chosen", "CPU seconds to learn", "test rows"], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
