"""Beliefs on some of the answers: V-IP by default on random subsets and along its own chains, and forests that learn
for exactly the same subsets."""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.common import Split, ask_everything, at_stop, beliefs, fit, means, read_table, score, split, typed
from benchmarks.report import NOTHING, Record, cell, grid, grouped, met, origins, table
from benchmarks.study import Study, every
from benchmarks.tables import forest
from pursuit import Rows, VIPClassifier

TABLES = ("bank", "credit", "cylinder-bands", "dermatology", "diamonds", "heart", "sick", "titanic", "vowel")
VIP, FOREST, STOP, STEPS = "V-IP", "random forest", "stop", (1, 3, 5, 8, 12)
SHARES = {"25%": 0.25, "50%": 0.5, "75%": 0.75, "100%": 1.0}
GOALS = {"25%": (0.715, 0.66), "50%": (0.805, 0.48), "75%": (0.85, 0.375)}
"""Accuracy to reach and log loss not to exceed, on average over all tables, by the share of the answers."""


def measure(table: str, seed: int, n_subsets: int = 10, validation: bool = False) -> Record:
    torch.manual_seed(seed)
    parts = split(*read_table(table), seed, validation)
    classifier = VIPClassifier(random_state=seed)
    fit_time = fit(classifier, parts.X_train, parts.y_train)
    rows = classifier.rows(parts.X_test, parts.y_test)
    asked, posterior = at_stop(classifier, rows)
    along, _ = ask_everything(classifier.model_, rows, max(STEPS))
    chain = {str(n): score(along[min(n, len(along) - 1)], rows.y.numpy()) for n in (0, *STEPS)}
    return {
        "shape": parts.shape,
        "model": type(classifier.model_).__name__,
        "chosen": [str(reason) for reason in classifier.chosen_],
        "rule": str(classifier.stopping_rule()),
        **on_subsets(classifier, rows, parts, seed, n_subsets),
        "chain": {**chain, STOP: {**score(posterior, rows.y.numpy()), "asked": float(asked.mean())}},
        **fit_time,
    }


def on_subsets(classifier: Any, rows: Rows, parts: Split, seed: int, n_subsets: int) -> Record:
    """Means over random subsets: where every row has columns of its own, and where all rows have the same ones, for
    which a forest learns from these columns alone."""
    X, X_test = typed(parts)
    labels, y = np.unique(parts.y_train, return_inverse=True)
    truth, place = rows.y.numpy(), {str(name): i for i, name in enumerate(X.columns)}
    queries = [place[query.name] for query in classifier.model_.query_set.queries]  # some columns may not be asked for

    def believed(is_known: np.ndarray) -> dict[str, float]:
        return score(beliefs(classifier.model_, rows, torch.from_numpy(is_known[:, queries])), truth)

    def drawn(shape: Any) -> Any:
        for name, share in SHARES.items():
            n, rng_order = max(1, round(share * X.shape[1])), range(n_subsets if share < 1 else 1)
            yield name, [shape().argsort(axis=-1).argsort(axis=-1) < n for _ in rng_order]

    rng = np.random.default_rng(seed)
    own = {
        name: means([believed(one) for one in subsets])
        for name, subsets in drawn(lambda: rng.random((len(rows), X.shape[1])))
    }
    rng, shared = np.random.default_rng(seed), {}
    for name, subsets in drawn(lambda: rng.random(X.shape[1])):
        forests = [(forest(seed).fit(X.loc[:, known], y), known) for known in subsets]
        voted = [with_one_more_vote(model, X_test.loc[:, known]) for model, known in forests]
        shared[name] = {
            VIP: means([believed(np.tile(known, (len(rows), 1))) for known in subsets]),
            FOREST: means([score(posterior, np.searchsorted(labels, parts.y_test)) for posterior in voted]),
        }
    return {"own_subsets": own, "shared_subsets": shared}


def with_one_more_vote(model: Any, X: Any) -> np.ndarray:
    """The beliefs of a forest with one tree more that votes for all labels alike: a log loss is then finite."""
    n_trees, posterior = model[-1].n_estimators, model.predict_proba(X)
    return (n_trees * posterior + 1 / posterior.shape[1]) / (n_trees + 1)


def page(records: list[Record]) -> dict[str, str]:
    done = [one for one in records if "not_run" not in one]
    by_table = dict(sorted(grouped(done, "table").items()))

    def mean(path: str, form: str = ".3f") -> str:
        """The mean over tables of the means over seeds."""
        each = [float(cell(runs, f"{path}|.17g")) for runs in by_table.values()]
        return format(statistics.fmean(each), form) if each else NOTHING

    goals = []
    for share, limits in GOALS.items():
        for key, limit, sign in zip(("accuracy", "log_loss"), limits, ("least", "most"), strict=True):
            words = f"{share} of the answers, own subsets: {key.replace('_', ' ')} "
            words += f"{'≥' if sign == 'least' else '≤'} {limit}"
            found = mean(f"own_subsets.{share}.{key}", ".17g")
            value = None if found == NOTHING else float(found)
            goals.append([words, mean(f"own_subsets.{share}.{key}"), met(value, **{sign: limit})])
    missing = [name for name in TABLES if name not in by_table]
    said = f"\nNot measured: {', '.join(missing)}.\n" if missing else ""
    sections = {"goals": table([f"mean of {len(by_table)} tables", "found", ""], goals) + said}
    for key, best in (("accuracy", max), ("log_loss", min)):
        sections[f"{key} on subsets"] = subsets_table(by_table, key, best, mean)
        paths = {**{f"after {n}": f"chain.{n}.{key}" for n in STEPS}, "at the stop": f"chain.{STOP}.{key}"}
        rows = [
            [name, *(cell(runs, f"{path}|.3f±") for path in paths.values()), cell(runs, f"chain.{STOP}.asked|.1f±")]
            for name, runs in by_table.items()
        ]
        rows.append(["**mean**", *(mean(path) for path in paths.values()), mean(f"chain.{STOP}.asked", ".1f")])
        sections[f"{key} along chains"] = table(["table", *paths, "asked by then"], rows)
    columns = {"seeds": "seed", "model": "model", "CPU seconds to learn": "fit_cpu_seconds|.0f±"}
    return {**sections, "models": grid(by_table, columns, "table"), "origins": origins(done, "table")}


def subsets_table(by_table: dict[str, list[Record]], key: str, best: Callable[..., Any], mean: Any) -> str:
    """Own subsets, and shared ones beside a forest; the better of the two is bold."""
    both = [f"shared_subsets.{{}}.{who}.{key}" for who in (VIP, FOREST)]
    rows = []
    for name, runs in by_table.items():
        cells = [cell(runs, f"own_subsets.{share}.{key}|.3f±") for share in SHARES]
        for share in SHARES:
            pair = [cell(runs, f"{path.format(share)}|.17g") for path in both]
            top = best(map(float, pair))
            cells += [f"**{float(one):.3f}**" if float(one) == top else f"{float(one):.3f}" for one in pair]
        rows.append([name, *cells])
    shared = [mean(path.format(share)) for share in SHARES for path in both]
    rows.append(["**mean**", *(mean(f"own_subsets.{share}.{key}") for share in SHARES), *shared])
    titles = [f"{share} shared, {who}" for share in SHARES for who in (VIP, "forest")]
    return table(["table", *(f"{share} own" for share in SHARES), *titles], rows)


STUDY = Study(
    name="subsets",
    runs=every(seed=(0, 1, 2), table=TABLES),
    measure=measure,
    page=page,
    quick={"n_subsets": 1},
    file="subsets/{table}-{seed}.json",
    limit_seconds=3600.0,
    limit_gb=8.0,
)
