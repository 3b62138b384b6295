"""Ordinary tables, without a setting: V-IP, methods of ours that ask as well, and others on all columns at once."""

import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks.common import (
    TARGETS,
    Split,
    Stopwatch,
    at_stop,
    calibration,
    expected_error,
    fit,
    read_table,
    split,
    typed,
)
from benchmarks.readme import readme_section
from benchmarks.report import NOTHING, Record, columns, grid, grouped, met, origins, spread, table, wanted
from benchmarks.study import Run, Study
from pursuit.evaluation.curves import evaluate
from pursuit.inference.stopping import Confidence
from pursuit.methods import METHODS

MOST_PAIRS, FEWER_ROWS = 100_000, 1_000
"""With more queries times labels than this, asking is measured on this many test rows: it takes too long on all."""
LONGEST = 100
"""How many questions a curve goes on for at most."""
RULES = tuple(Confidence(c) for c in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999))
"""Accuracy against the mean number of questions is measured by these."""
DEPTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 1_000)
ALPHAS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""Where decision trees are cut off, and how they are pruned."""
N_FOLDS, SEEDS = 3, (0, 1, 2, 3, 4)
TITLES = {
    "vip": "V-IP",
    "naive-bayes": "naive-Bayes IP",
    "fixed": "fixed order",
    "tree": "decision tree",
    "logistic": "logistic regression",
    "hgb": "gradient boosting",
    "forest": "random forest",
    "ebm": "EBM",
}


# ---- what is measured


def measure(table: str, method: str, seed: int, validation: bool = False) -> Record:
    """One of `TITLES`, or any method of ours, on one table; for validation, on rows held out from those to learn from,
    where settings are chosen."""
    torch.manual_seed(seed)
    rows = split(*read_table(table), seed, validation)
    if method == "tree":
        found = measure_tree(rows, seed)
    elif method in ON_ALL:
        found = measure_all_columns(ON_ALL[method](seed), rows)
    else:
        found = measure_pursuer(METHODS[method].build(random_state=seed), rows)
    return {"shape": rows.shape, **found}


def measure_pursuer(classifier: Any, split: Split) -> Record:
    """An estimator that asks, with nothing set but its seed: at its own stop, along its chains, on all answers."""
    fit_time = fit(classifier, split.X_train, split.y_train)
    if split.X_test.shape[1] * len(classifier.classes_) > MOST_PAIRS:
        some = np.random.default_rng(0).permutation(len(split.y_test))[:FEWER_ROWS]
        split = replace(split, X_test=split.X_test.iloc[some], y_test=split.y_test[some])
    predicting = Stopwatch()
    rows = classifier.rows(split.X_test, split.y_test)
    asked, posterior = at_stop(classifier, rows)
    predict_time = predicting.read("predict")
    right = classifier.classes_[posterior.argmax(axis=1)] == split.y_test
    along = evaluate(classifier.model_, rows, None, LONGEST, trade_off=RULES)
    return {
        "n_test": len(split.y_test),
        "rule": str(classifier.stopping_rule()),
        "model": type(classifier.model_).__name__,
        "asked": float(asked.mean()),
        "at_stop": float(right.mean()),
        "calibration": calibration(posterior.max(axis=1), right),
        "all_answers": along.accuracy_all_answers,
        "curve": along.accuracy_by_asked,
        "trade_off": [[0.0, along.accuracy_by_asked[0]], *([one.mean_asked, one.accuracy] for one in along.trade_off)],
        **fit_time,
        **predict_time,
    }


def measure_all_columns(model: Any, split: Split) -> Record:
    """An estimator that sees all columns at once."""
    X, X_test = typed(split)
    fit_time = fit(model, X, split.y_train)
    predicting = Stopwatch()
    posterior = model.predict_proba(X_test)
    predict_time = predicting.read("predict")
    right = model.classes_[posterior.argmax(axis=1)] == split.y_test
    found = {"all_answers": float(right.mean()), "calibration": calibration(posterior.max(axis=1), right)}
    return {**found, **fit_time, **predict_time}


WORDS, NUMBERS = make_column_selector(dtype_include="category"), make_column_selector(dtype_exclude="category")


def one_hot() -> OneHotEncoder:
    """A missing word is one of the words."""
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)


def all_columns(model: Any, *scaling: Any) -> Pipeline:
    """A classifier behind one-hot words and numbers whose gaps are filled by medians, perhaps scaled."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), *scaling)
    return make_pipeline(make_column_transformer((numbers, NUMBERS), (one_hot(), WORDS)), model)


def forest(seed: int) -> Pipeline:
    return all_columns(RandomForestClassifier(300, n_jobs=1, random_state=seed))


def ebm(seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier  # pip install interpret-core

    return ExplainableBoostingClassifier(n_jobs=1, random_state=seed)


ON_ALL: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: all_columns(LogisticRegression(max_iter=1000), StandardScaler()),
    "hgb": lambda seed: HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed),
    "forest": forest,
    "ebm": ebm,
}
"""What sees all columns at once."""


# ---- decision trees, judged by what they ask: the distinct columns on a row's way to its leaf


def measure_tree(split: Split, seed: int) -> Record:
    """Trees of many sizes; which of them is shown depends on how much V-IP asks. Numbers keep their gaps."""
    fitting = Stopwatch()
    X, X_test = typed(split)
    words, numbers = WORDS(X), NUMBERS(X)
    inputs = make_column_transformer((one_hot(), words), ("passthrough", numbers))
    parts = [np.asarray(part, dtype=np.float32) for part in (inputs.fit_transform(X), inputs.transform(X_test))]
    categories = inputs.named_transformers_["onehotencoder"].categories_ if len(words) else []
    column_of = np.repeat(np.arange(X.shape[1]), [*map(len, categories), *[1] * len(numbers)])
    labels, y = np.unique(split.y_train, return_inverse=True)
    return {
        "trees": measure_trees(parts[0], y, parts[1], np.searchsorted(labels, split.y_test), column_of, seed),
        **fitting.read("fit"),
    }


def measure_trees(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, column_of: np.ndarray, seed: int
) -> list[dict[str, float]]:
    """Trees of all depths and prunings: `asked` and `accuracy` on the test rows, and on rows held out in turn from
    those to learn from (`cv_asked`, `cv_accuracy`), to choose by."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y))
    found = []
    for alpha, depth in product(ALPHAS, DEPTHS):
        tree = DecisionTreeClassifier(max_depth=depth, ccp_alpha=alpha, random_state=seed)
        held_out = [asked_and_right(tree.fit(X[i], y[i]), column_of, X[j], y[j]) for i, j in folds]
        cv_asked, cv_accuracy = np.mean(held_out, axis=0).tolist()
        asked, accuracy = asked_and_right(tree.fit(X, y), column_of, X_test, y_test)
        chosen_by = {"depth": depth, "alpha": alpha, "cv_asked": cv_asked, "cv_accuracy": cv_accuracy}
        found.append({**chosen_by, "asked": asked, "accuracy": accuracy})
    return found


def asked_and_right(
    tree: DecisionTreeClassifier, column_of: np.ndarray, X: np.ndarray, y: np.ndarray
) -> tuple[float, float]:
    """Distinct columns asked on average, and accuracy, given the column that each feature belongs to: one that is split
    on twice is asked once, and all indicators of a word are one question. Nothing is asked where all leaves below say
    the same."""
    inner, label = tree.tree_, tree.tree_.value[:, 0, :].argmax(axis=1)
    is_end = inner.children_left < 0
    for node in reversed(np.flatnonzero(~is_end)):  # children come after their parents
        one, other = inner.children_left[node], inner.children_right[node]
        if is_end[one] and is_end[other] and label[one] == label[other]:
            is_end[node], label[node] = True, label[one]
    nodes = np.flatnonzero(~is_end)
    columns = np.zeros((inner.node_count, column_of.max() + 1), dtype=bool)
    columns[nodes, column_of[inner.feature[nodes]]] = True
    asked = (tree.decision_path(X) @ csr_matrix(columns)).getnnz() / len(X)
    return float(asked), float(tree.score(X, y))


def best_tree(trees: Sequence[dict[str, float]], most_asked: float = np.inf) -> dict[str, float] | None:
    """The tree with the highest accuracy on rows held out from those to learn from, among those that ask at most so
    many columns there; of equals the one that asks least. None if all ask more."""
    allowed = [tree for tree in trees if tree["cv_asked"] <= most_asked]
    return max(allowed, key=lambda tree: (tree["cv_accuracy"], -tree["cv_asked"]), default=None)


def accuracy_at(points: Sequence[Sequence[float]], asked: float) -> float:
    """The accuracy at a mean number of questions, on a line through points (mean asked, accuracy); beyond them it is
    that of the nearest."""
    return float(np.interp(asked, *np.array(sorted((float(n), float(right)) for n, right in points)).T))


# ---- what the pages say

SHOWN, WIDE, WIDE_SHOWN = (3, 5, 10), "symptoms-773", 30
MOST_ROWS, MOST_COLUMNS, MOST_SECONDS, ROUNDING = 30_000, 50, 60.0, 1e-9
WANTED_SECONDS = {
    **dict.fromkeys(("heart", "lymph", "dermatology"), 3.0),
    **dict.fromkeys(("sick", "kr-vs-kp", "bank"), 10.0),
    **{"letter": 30.0, WIDE: 90.0},
}
"""To learn, of one core: up to 500 rows, up to 5,000 rows of 40 columns, and two by name."""


class Runs:
    """The runs that came to an end, by table and method."""

    def __init__(self, records: list[Record]):
        self.all = records
        self.found = grouped((one for one in records if "not_run" not in one), "table", "method")
        self.tables = list(grouped(records, "table"))

    def of(self, table: str, method: str = "vip") -> list[Record]:
        return self.found.get((table, method), [])

    @property
    def vip(self) -> dict[str, list[Record]]:
        return {table: own for table in self.tables if (own := self.of(table))}

    def pairs(self, table: str, method: str) -> list[tuple[Record, Record]]:
        """The runs of V-IP and of another method with the same seed."""
        others = {one["seed"]: one for one in self.of(table, method)}
        return [(one, others[one["seed"]]) for one in self.of(table) if one["seed"] in others]

    def best_other(self, table: str) -> tuple[str, float] | None:
        """What is best on all columns, and its mean accuracy, on the seeds that V-IP was measured on; a method that was
        not measured on all of them is not compared."""
        seeds, means = {one["seed"] for one in self.of(table)}, {}
        for method in ON_ALL:
            each = {one["seed"]: one["all_answers"] for one in self.of(table, method)}
            if each and seeds <= each.keys():
                means[method] = statistics.fmean(each[seed] for seed in seeds or each)
        return max(means.items(), key=lambda item: item[1]) if means else None

    def trees(self, table: str, is_within: bool) -> list[tuple[float, float, float]]:
        """V-IP, the best tree, and how much the tree asks, seed by seed: within what V-IP asks at its own stop, or the
        best of all trees, with V-IP on the line through its stopping rules."""
        found = []
        for vip, other in self.pairs(table, "tree"):
            if tree := best_tree(other["trees"], vip["asked"] if is_within else np.inf):
                own = vip["at_stop"] if is_within else accuracy_at(vip["trade_off"], tree["asked"])
                found.append((own, tree["accuracy"], tree["asked"]))
        return found


def mean(records: Sequence[Record], key: str) -> float:
    return statistics.fmean(one[key] for one in records)


def after(run: Record, n: int) -> float:
    """The accuracy after n questions; a curve that is shorter has everything asked."""
    curve: list[float] = run["curve"]
    return curve[n] if n < len(curve) else run["all_answers"] if len(curve) > run["shape"]["columns"] else curve[-1]


def pooled_error(each: Sequence[Record]) -> float:
    """The calibration error of the test rows of all seeds together: those of a single seed may be very few."""
    bins = zip(*(one["calibration"]["bins"] for one in each), strict=True)
    return expected_error([[sum(part) for part in zip(*one, strict=True)] for one in bins])


def size(each: Sequence[Record]) -> str:
    return "{rows:,} x {columns}, {labels}".format(**each[0]["shape"])


def goal(
    text: str, values: Mapping[str, float], form: str, mean_most: float = np.inf, most: float = np.inf
) -> list[str]:
    """What was aimed at, what was found, and whether that is enough: a value of every table, whose mean, the largest of
    which, or both have a limit."""
    if not values:
        return [text, NOTHING, met(None)]
    average, name = statistics.fmean(values.values()), max(values, key=lambda name: values[name])
    excess = max(average - mean_most, values[name] - most)
    return [text, f"{average:{form}} on average, {values[name]:{form}} at most ({name})", met(excess, most=ROUNDING)]


def goals(runs: Runs) -> list[list[str]]:
    own, others = runs.vip, {table: best[1] for table in runs.tables if (best := runs.best_other(table))}
    stops, alls = ({name: mean(each, key) for name, each in own.items()} for key in ("at_stop", "all_answers"))
    shares = {
        name: statistics.fmean(one["asked"] / one["shape"]["columns"] for one in each) for name, each in own.items()
    }
    within, of_all = (
        {
            name: float(np.mean([tree - vip for vip, tree, _ in found]))
            for name in own
            if (found := runs.trees(name, is_within))
        }
        for is_within in (True, False)
    )
    seconds = {
        name: max(one["fit_cpu_seconds"] for one in each)
        for name, each in own.items()
        if each[0]["shape"]["rows"] <= MOST_ROWS and each[0]["shape"]["columns"] <= MOST_COLUMNS
    }

    def on_wide(text: str, right: list[float], least: float) -> list[str]:
        return [
            f"On {WIDE} the accuracy is {text}",
            spread(right),
            met(statistics.fmean(right) if right else None, least=least),
        ]

    return [
        goal(
            "With all answers V-IP is at most 0.01 behind the best other on average, and 0.03 on every table",
            {name: others[name] - right for name, right in alls.items() if name in others},
            ".3f",
            0.01,
            0.03,
        ),
        goal(
            "Where V-IP stops, it is at most 0.01 behind what it knows with all answers, on average",
            {name: alls[name] - right for name, right in stops.items()},
            ".3f",
            0.01,
        ),
        goal("By then it has asked at most half of the columns, on average over tables", shares, ".0%", 0.5),
        goal(
            "At its own stop V-IP is at most 0.01 behind the best tree that asks no more, on every table",
            within,
            ".3f",
            most=0.01,
        ),
        goal(
            "With as many questions as the best tree of all, it is at most 0.01 behind, on every table",
            of_all,
            ".3f",
            most=0.01,
        ),
        goal(
            "Where V-IP stops, its calibration error is below 0.05 on every table (test rows of all seeds together)",
            {name: pooled_error(each) for name, each in own.items()},
            ".3f",
            most=0.05,
        ),
        on_wide("0.85 with all answers", [one["all_answers"] for one in runs.of(WIDE)], 0.85),
        on_wide(f"0.55 after {WIDE_SHOWN} questions", [after(one, WIDE_SHOWN) for one in runs.of(WIDE)], 0.55),
        goal(
            f"V-IP learns in at most {MOST_SECONDS:.0f} s, up to {MOST_ROWS:,} rows and {MOST_COLUMNS} columns",
            seconds,
            ".0f",
            most=MOST_SECONDS,
        ),
    ]


def vip_table(runs: Runs) -> str:
    shown = {
        "rows x columns, labels": size,
        **columns("asked = asked|.1f±; at stop = at_stop|.3f±"),
        **{f"after {n}": (lambda each, n=n: spread(after(one, n) for one in each)) for n in SHOWN},
        f"after {WIDE_SHOWN}": lambda each: spread(
            after(one, WIDE_SHOWN) for one in each if one["shape"]["columns"] >= WIDE_SHOWN
        ),
        **columns("all answers = all_answers|.3f±; calibration = calibration.ece|.3f±"),
        "all seeds": lambda each: f"{pooled_error(each):.3f}",
        **columns("by chance = calibration.by_chance|.3f; fit s = fit_cpu_seconds|.1f±"),
        "wanted": lambda each: wanted(mean(each, "fit_cpu_seconds"), most=WANTED_SECONDS.get(each[0]["table"])),
    }
    return grid(runs.vip, shown, "table")


def all_answers_table(runs: Runs) -> str:
    """The accuracy of everybody on all columns; the best of the others, on V-IP's seeds, is bold."""
    methods = ["vip", *ON_ALL, "naive-bayes", "fixed"]
    rows = []
    for name in runs.tables:
        best = runs.best_other(name)
        cells = {method: spread(one["all_answers"] for one in runs.of(name, method)) for method in methods}
        rows.append([name, *(f"**{text}**" if best and method == best[0] else text for method, text in cells.items())])
    return table(["table", *(TITLES[method] for method in methods)], rows)


def questions_table(runs: Runs) -> str:
    rows = []
    for name in runs.tables:
        within, best = (list(zip(*runs.trees(name, which), strict=True)) for which in (True, False))
        rivals = [
            spread(accuracy_at(rival["trade_off"], vip["asked"]) for vip, rival in runs.pairs(name, method))
            for method in ("naive-bayes", "fixed")
        ]
        own = [spread((one["asked"] for one in runs.of(name)), ".1f±"), spread(one["at_stop"] for one in runs.of(name))]
        tree = f"{spread(within[1])} ({statistics.fmean(within[2]):.1f})" if within else NOTHING
        of_best = [spread(best[2], ".1f"), spread(best[0]), spread(best[1])] if best else [NOTHING] * 3
        rows.append([name, *own, tree, *rivals, *of_best])
    at_stop = ["asked", "V-IP", "decision tree (asked)", "naive-Bayes IP", "fixed order"]
    return table(["table", *at_stop, "best tree asks", "V-IP there", "best tree"], rows)


def not_run(runs: Runs) -> str:
    """What did not come to an end, and why."""
    reasons = grouped((one for one in runs.all if "not_run" in one), "table", "method", "not_run")
    lines = [
        f"- {name}, {TITLES.get(method, method)} (seeds {', '.join(str(one['seed']) for one in each)}): {reason}\n"
        for (name, method, reason), each in reasons.items()
    ]
    return "".join(lines) or "Everything came to an end."


def overview(runs: Runs) -> str:
    """A row a table, and how many goals were met."""

    def best(each: list[Record]) -> str:
        found = runs.best_other(each[0]["table"])
        return f"{found[1]:.3f} ({TITLES[found[0]]})" if found else NOTHING

    def tree(each: list[Record]) -> str:
        found = runs.trees(each[0]["table"], is_within=True)
        return "{1:.3f} ({2:.1f})".format(*np.mean(found, axis=0)) if found else NOTHING

    shown = {
        "rows x columns, labels": size,
        **columns("asked = asked|.1f; accuracy = at_stop|.3f"),
        "best on all columns": best,
        "best tree that asks no more": tree,
    }
    found = goals(runs)
    n_met = sum(verdict == "met" for *_, verdict in found)
    return grid(runs.vip, shown, "table") + f"\nOf the {len(found)} goals that were set, {n_met} were met.\n"


def page(records: list[Record]) -> dict[str, str]:
    runs = Runs(records)
    titled = [{**one, "title": TITLES.get(one["method"], one["method"])} for one in records]
    return {
        "goals": table(["goal", "found", ""], goals(runs)),
        "vip": vip_table(runs),
        "all answers": all_answers_table(runs),
        "questions": questions_table(runs),
        "not run": not_run(runs),
        "origins": origins(titled, "title"),
        "index.md#tables": overview(runs),
        "../../README.md#results": readme_section(),
    }


def does_depend(run: Run) -> bool:
    return run["method"] not in (*ON_ALL, "tree")


STUDY = Study(
    name="tables",
    runs=[{"table": one, "method": method, "seed": seed} for one, method, seed in product(TARGETS, TITLES, SEEDS)],
    measure=measure,
    page=page,
    file="tables/{table}/{method}-{seed}.json",
    limit_seconds=3600.0,
    limit_gb=8.0,
    does_depend=does_depend,
)
