"""Beliefs on some of the answers: docs/results/subsets.md, with a JSON file of every run beside it.

    python benchmarks/subsets.py                                  # everything that is not measured yet, and the page
    python benchmarks/subsets.py --tables heart,credit --seeds 0 --jobs 2
    python benchmarks/subsets.py --validation                     # on rows held out from those to learn from
    python benchmarks/subsets.py --page                           # only the page, from what is measured

Tables are read from --data, $PURSUIT_DATA/tables or ../shared/data/tables. A run is one table with one seed:
`TABLE-SEED.json`. With --validation, runs are written into results/subsets-validation, with a page there.
"""

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from beliefs import ask_everything, beliefs, score
from pursuit.data.rows import Rows
from pursuit.estimators import PursuitClassifier
from pursuit.methods import METHODS
from report import RESULTS, table
from runs import Run, check_names, measure_runs, names, parser_of_runs
from table_data import TEST_SHARE, Split, default_folder, read, split, typed
from table_methods import Stopwatch, at_stop, forest
from table_page import NOTHING, origins, spread

FOLDER, PAGE = RESULTS / "subsets", RESULTS / "subsets.md"
VALIDATION_FOLDER = Path("results") / "subsets-validation"
TABLES = ("bank", "credit", "cylinder-bands", "dermatology", "diamonds", "heart", "sick", "titanic", "vowel")
SEEDS = (0, 1, 2)
VIP, FOREST = "V-IP", "random forest"
SHARES = (0.25, 0.5, 0.75, 1.0)
N_SUBSETS = 10
STEPS = (1, 3, 5, 8, 12)
STOP = "stop"
GOALS = {0.25: (0.715, 0.66), 0.5: (0.805, 0.48), 0.75: (0.85, 0.375)}
"""Accuracy to reach and log loss not to exceed, on average over all tables, by the share of the answers."""
Found = dict[str, Any]
Runs = dict[str, list[Found]]
"""By table, the runs of all seeds."""


@dataclass(frozen=True, kw_only=True)
class SubsetRun(Run):
    """One table with one seed."""

    table: str
    is_validation: bool = False
    n_subsets: int = N_SUBSETS

    @property
    def names(self) -> dict[str, str]:
        return {"table": self.table}

    @property
    def path(self) -> Path:
        return self.folder / f"{self.table}-{self.seed}.json"

    def measure(self) -> Found:
        X, y = read(self.table, self.data)
        rows = split(X, y, self.seed, self.is_validation, by=split_in_two)
        return {"shape": rows.shape, **measure(rows, self.seed, self.n_subsets)}


def split_in_two(y: np.ndarray, seed: int) -> Sequence[np.ndarray]:
    """Row numbers to learn from and to test on, stratified."""
    return train_test_split(np.arange(len(y)), test_size=TEST_SHARE, random_state=seed, stratify=y)


def measure(split: Split, seed: int, n_subsets: int) -> Found:
    """Beliefs of V-IP by default on random subsets and along its own chains, and of forests on the same subsets."""
    torch.manual_seed(seed)
    fitting = Stopwatch()
    classifier = METHODS["vip"].build(random_state=seed).fit(split.X_train, split.y_train)
    fit_time = fitting.read("fit")
    rows = classifier.rows(split.X_test, split.y_test)
    columns = split.X_train.columns[split.X_train.notna().any()]
    asked, posterior = at_stop(classifier, split.X_test)
    along = ask_everything(classifier.model_, rows, max(STEPS)).posterior
    chain = {str(n): score(along[min(n, len(along) - 1)], rows.y.numpy()) for n in (0, *STEPS)}
    return {
        "model": type(classifier.model_).__name__,
        "chosen": [str(reason) for reason in classifier.chosen_],
        "rule": str(classifier.stopping_rule()),
        "own_subsets": on_own_subsets(classifier, rows, columns, seed, n_subsets),
        "shared_subsets": on_shared_subsets(classifier, rows, split, seed, n_subsets),
        "chain": {**chain, STOP: {**score(posterior, rows.y.numpy()), "asked": float(asked.mean())}},
        **fit_time,
    }


def share_name(share: float) -> str:
    return f"{share:.0%}"


def n_of(share: float, n_columns: int) -> int:
    """How many columns a share is."""
    return max(1, round(share * n_columns))


def on_own_subsets(classifier: PursuitClassifier, rows: Rows, columns: Sequence[str], seed: int, n_draws: int) -> Found:
    """V-IP where every row has random columns of its own. Means over draws."""
    rng, found = np.random.default_rng(seed), {}
    for share in SHARES:
        scores = []
        for _ in range(n_draws if share < 1 else 1):
            place = rng.random((len(rows), len(columns))).argsort(axis=1).argsort(axis=1)
            known = known_queries(classifier, columns, place < n_of(share, len(columns)))
            scores.append(score(beliefs(classifier.model_, rows, known), rows.y.numpy()))
        found[share_name(share)] = means(scores)
    return found


def on_shared_subsets(classifier: PursuitClassifier, rows: Rows, split: Split, seed: int, n_subsets: int) -> Found:
    """V-IP and forests where all rows have the same random columns: for every subset a forest that learns from these
    columns alone. Means over subsets."""
    X, X_test = typed(split)
    labels, y = np.unique(split.y_train, return_inverse=True)
    y_test = np.searchsorted(labels, split.y_test)
    rng, found = np.random.default_rng(seed), {}
    for share in SHARES:
        scores: dict[str, list[dict[str, float]]] = {VIP: [], FOREST: []}
        for _ in range(n_subsets if share < 1 else 1):
            is_known = rng.random(X.shape[1]).argsort().argsort() < n_of(share, X.shape[1])
            known = known_queries(classifier, X.columns, np.tile(is_known, (len(rows), 1)))
            scores[VIP].append(score(beliefs(classifier.model_, rows, known), rows.y.numpy()))
            model = forest(seed).fit(X.loc[:, is_known], y)
            scores[FOREST].append(score(with_one_more_vote(model, X_test.loc[:, is_known]), y_test))
        found[share_name(share)] = {who: means(each) for who, each in scores.items()}
    return found


def known_queries(classifier: PursuitClassifier, columns: Sequence[str], is_known: np.ndarray) -> torch.Tensor:
    """Which queries (N, Q) are known if these columns (N, D) are; some columns may not be asked for at all."""
    place = {str(name): i for i, name in enumerate(columns)}
    return torch.from_numpy(is_known[:, [place[query.name] for query in classifier.model_.query_set.queries]])


def means(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.fmean(one[key] for one in scores) for key in scores[0]}


def with_one_more_vote(model: Any, X: Any) -> np.ndarray:
    """The beliefs of a forest with one tree more that votes for all labels alike: a log loss is then finite."""
    n_trees, posterior = model.model.n_estimators, model.predict_proba(X)
    return (n_trees * posterior + 1 / posterior.shape[1]) / (n_trees + 1)


def main(arguments: Sequence[str]) -> None:
    parser = parser_of_runs("Measure what V-IP believes on random subsets of the answers.", SEEDS)
    parser.add_argument("--tables", type=names, default=list(TABLES), help="as in heart,credit; by default all")
    parser.add_argument("--subsets", type=int, default=N_SUBSETS, help="random subsets for each share of the answers")
    given = parser.parse_args(arguments)
    check_names(parser, "table", given.tables, TABLES)
    folder = given.folder or (VALIDATION_FOLDER if given.validation else FOLDER)
    if not given.page:
        shared = {"folder": folder, "data": given.data or default_folder(), "is_validation": given.validation}
        runs = [
            SubsetRun(table=table, seed=seed, n_subsets=given.subsets, **shared)
            for seed in given.seeds
            for table in given.tables
        ]
        measure_runs(runs, given.jobs, given.seconds, given.keep)
    path = PAGE if folder == FOLDER else folder / PAGE.name
    text = page(read_runs(folder))
    path.write_text(text, encoding="utf-8")
    print(text[text.index("## What was aimed at") :])
    print(f"Written: {path}")


def read_runs(folder: Path) -> Runs:
    found: Runs = {}
    for path in sorted(folder.glob("*.json")):
        one = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(one["table"], []).append(one)
    return found


ABOUT = """\
# Beliefs on some of the answers

Written by `make bench-subsets`; every run is a JSON file in `subsets/`. People skip questions, do not know, or tell
what they were not asked: a belief should be good on any subset of the answers. V-IP is `VIPClassifier()` with nothing
set but its seed. For each seed four fifths of the rows, stratified by label, are to learn from, the rest to test on.
After ± comes the standard deviation over seeds.

- **own subsets**: every test row has random columns of its own; {n_subsets} draws for each share.
- **shared subsets**: all test rows have the same random columns, and a **random forest** (300 trees, by default) learns
  for exactly these columns; {n_subsets} subsets for each share, the same for both. One more tree votes for all labels
  alike, so that its log loss is finite. A missing value tells the forest that it is missing, and V-IP nothing.
- **own chains**: V-IP asks what it wants, with no stop, and at its own stop. Only answers count, not queries that a row
  has no value for.
"""


def page(runs: Runs) -> str:
    runs = {name: kept for name, each in runs.items() if (kept := [one for one in each if "not_run" not in one])}
    parts = [ABOUT.format(n_subsets=N_SUBSETS), "## What was aimed at\n", goals(runs)]
    for title, key, best in (("Accuracy", "accuracy", max), ("Log loss", "log_loss", min)):
        parts += [f"## {title} on random subsets\n", subsets_table(runs, key, best)]
        parts += [f"## {title} along own chains\n", chains_table(runs, key)]
    parts += ["## What was learnt\n", models_table(runs)]
    by_method = {name: {"V-IP and forests": each} for name, each in runs.items()}
    return "\n".join([*parts, "## Where the figures come from\n", origins(by_method)])


def mean_of_tables(runs: Runs, figure: Callable[[Found], float]) -> float:
    """The mean over tables of the means over seeds."""
    return statistics.fmean(statistics.fmean(figure(one) for one in each) for each in runs.values())


def goals(runs: Runs) -> str:
    missing = [name for name in TABLES if name not in runs]
    rows = []
    for share, limits in GOALS.items():
        name = share_name(share)
        for key, goal, sign in (("accuracy", limits[0], 1), ("log_loss", limits[1], -1)):
            words = f"{name} of the answers, own subsets: {key.replace('_', ' ')} {'≥' if sign > 0 else '≤'} {goal}"
            if not runs:
                rows.append([words, NOTHING, "not measured"])
                continue
            mean = mean_of_tables(runs, lambda one, name=name, key=key: one["own_subsets"][name][key])
            rows.append([words, f"{mean:.3f}", "met" if sign * (mean - goal) >= 0 else "**missed**"])
    text = table([f"mean of {len(runs)} tables", "found", ""], rows)
    return text + (f"\nNot measured: {', '.join(missing)}.\n" if missing else "")


def subsets_table(runs: Runs, key: str, best: Callable[..., Any]) -> str:
    """Own subsets, and shared ones beside a forest; the better of the two is bold."""
    shares = [share_name(share) for share in SHARES]
    rows = []
    for name, each in runs.items():
        cells = [spread(one["own_subsets"][share][key] for one in each) for share in shares]
        for share in shares:
            both = [statistics.fmean(one["shared_subsets"][share][who][key] for one in each) for who in (VIP, FOREST)]
            cells += [f"**{mean:.3f}**" if mean == best(both) else f"{mean:.3f}" for mean in both]
        rows.append([name, *cells])
    if runs:
        cells = [
            f"{mean_of_tables(runs, lambda one, share=share: one['own_subsets'][share][key]):.3f}" for share in shares
        ]
        cells += [
            f"{mean_of_tables(runs, lambda one, share=share, who=who: one['shared_subsets'][share][who][key]):.3f}"
            for share in shares
            for who in (VIP, FOREST)
        ]
        rows.append(["**mean**", *cells])
    shared = [f"{share} shared, {who}" for share in shares for who in (VIP, "forest")]
    return table(["table", *(f"{share} own" for share in shares), *shared], rows)


def chains_table(runs: Runs, key: str) -> str:
    steps = [*map(str, STEPS), STOP]
    rows = [
        [
            name,
            *(spread(one["chain"][step][key] for one in each) for step in steps),
            spread((one["chain"][STOP]["asked"] for one in each), 1),
        ]
        for name, each in runs.items()
    ]
    if runs:
        means = [f"{mean_of_tables(runs, lambda one, step=step: one['chain'][step][key]):.3f}" for step in steps]
        rows.append(["**mean**", *means, f"{mean_of_tables(runs, lambda one: one['chain'][STOP]['asked']):.1f}"])
    return table(["table", *(f"after {n}" for n in STEPS), "at the stop", "asked by then"], rows)


def models_table(runs: Runs) -> str:
    rows = [
        [
            name,
            ", ".join(map(str, sorted(one["seed"] for one in each))),
            ", ".join(sorted({one["model"] for one in each})),
            spread((one["fit_cpu_seconds"] for one in each), 0),
        ]
        for name, each in runs.items()
    ]
    return table(["table", "seeds", "model", "CPU seconds to learn"], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
