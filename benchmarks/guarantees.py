"""Are promises kept? `python benchmarks/guarantees.py [DATA_SET ...]` writes docs/results/guarantees.md; data sets that
are not named stay as they were measured before.

A model is trained once for each data set. All rows that it did not learn from are asked to the end and recorded, and
are then the whole world: what a promise says of new rows can be computed over all of them, without any error. Rows to
choose a threshold on are drawn from this world, 1,000 times, and each time it is looked up whether the promise holds.
The same is done with plain splits, where a half of the rows chooses and the other half judges, which adds the noise of
the half.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pursuit import Rows, Stage, VIPClassifier
from pursuit.estimators.guarantees import held_out_chains
from pursuit.estimators.risk import (
    HeldOutChains,
    choose_level,
    choose_levels,
    conformal_threshold,
    least_conformal_rows,
)
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Budget
from pursuit.tasks import find_recipe, load_task
from report import RESULTS, save, table, where
from table_data import default_folder, read

N_WORLDS, MODEL_SEED, SEED = 1000, 1, 1

LONGEST = 100
DELTA = 0.1
BRIEFLY = (Stage(60, batch_size=128),)
"""How models of tables are trained: what is measured are promises, not models."""
MOST_ROWS = 6000
"""The most rows of a world."""
SETS = (0.1,)
"""The alphas of sets of labels."""


WORLD_COLUMNS = ("data", "trained on", "rows", "labels", "questions at most", "wrong in the end", "measured")


@dataclass(frozen=True)
class DataSet:
    """A model's world: how it is learnt, and what is promised of it."""

    name: str
    title: str
    alphas: tuple[float, ...]
    n_chosen_on: int
    """How many rows choose a threshold."""
    stop: str = "confidence=0.95"
    """The rule at whose stop sets of labels are given."""
    effort: float = 1.0
    """How long to train, of what the recipe says."""


DATA_SETS = (
    DataSet("digits", "digits, 2x2 patches", (0.02, 0.05), 450),
    DataSet("symcat-200", "SymCAT-200, drawn patients", (0.1, 0.2), 2500, effort=0.1),
    DataSet("diamonds", "diamonds, the cut: noisy", (0.1, 0.2), 2000),
    DataSet("credit", "credit: noisy and small", (0.15, 0.2), 350),
    DataSet("sick", "sick: 6 % of the rows are", (0.01, 0.02), 1000),
)


@dataclass(frozen=True)
class World:
    """All held-out rows of a data set as the model asks them."""

    chains: HeldOutChains
    posterior: np.ndarray  # (N, C) at the stop
    y: np.ndarray  # (N,)
    n_trained_on: int
    seconds: float


def record(data: DataSet, seed: int = MODEL_SEED) -> World:
    """Train once, and ask all other rows to the end."""
    start = time.perf_counter()
    X: Any
    if data.name in ("digits", "symcat-200"):
        task, recipe = load_task(data.name, seed), find_recipe(data.name, "fast")
        recipe = recipe.scaled(data.effort)
        model = VIPClassifier(task.query_set, random_state=seed, **recipe.settings())
        if data.name == "digits":  # half of all digits are held out: the test rows alone are few
            X, y = np.concatenate([task.X_train, task.X_test]), np.concatenate([task.y_train, task.y_test])
            order = np.random.default_rng(seed).permutation(len(y))
            learnt, others = order[: len(y) // 2], order[len(y) // 2 :]
            model.fit(X[learnt], y[learnt])
            rows, n_learnt = model.rows(X[others], y[others]), len(learnt)
        else:
            task.fit(model)
            some = slice(MOST_ROWS)
            rows = model.rows(task.X_test[some], task.y_test[some], initially_known=task.initially_known_test[some])
            # Patients are drawn as training needs them, so no more than these were seen.
            n_learnt = round(sum(stage.epochs for stage in recipe.stages) * len(task.X_train))
    else:
        frame, y = read(data.name, default_folder())
        order = np.random.default_rng(seed).permutation(len(y))
        n_learnt = min(len(y) // 4 if len(y) > 2000 else len(y) * 3 // 10, 4000)
        learnt, others = order[:n_learnt], order[n_learnt:][:MOST_ROWS]
        model = VIPClassifier(stages=list(BRIEFLY), calibration=0.2, random_state=seed)
        model.fit(frame.iloc[learnt], y[learnt])
        others = others[np.isin(y[others], model.classes_)]
        rows = model.rows(frame.iloc[others], y[others])
    chains = held_out_chains(model.model_, rows, Budget(min(LONGEST, model.max_queries or LONGEST)))
    posterior = _at_stop(model, rows, data.stop)
    return World(chains, posterior, rows.y.numpy(), n_learnt, time.perf_counter() - start)


def _at_stop(model: VIPClassifier, rows: Rows, stop: str) -> np.ndarray:
    posterior = torch.zeros(len(rows), len(model.classes_))
    for step in pursue_in_batches(
        model.model_, rows.x, rows.available, model.stopping_rule(stop), rows.initially_known
    ):
        posterior[step.rows] = step.log_posterior.exp().float()
    return posterior.numpy()


# ---- the share of wrong labels


@dataclass(frozen=True)
class Ruled:
    """What thresholds do to all rows of a world."""

    stops: np.ndarray  # (..., N) after how many questions a row is decided
    wrong: np.ndarray  # (..., N) bool, whether wrongly
    lengths: np.ndarray  # (N,) of whole chains
    longest: int

    def over(self, rows: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
        """The share decided, how much of that is wrong (0 where nothing is), and the questions a row."""
        stops, wrong = self.stops[..., rows], self.wrong[..., rows]
        decided = stops <= self.longest
        n = decided.sum(axis=-1)
        asked = np.where(decided, stops, self.lengths[rows]).mean(axis=-1)
        return {"risk": wrong.sum(axis=-1) / np.maximum(n, 1), "decided": decided.mean(axis=-1), "asked": asked}


def worst_by_length(ruled: Ruled, rows: np.ndarray | slice = slice(None)) -> float:
    """The largest share of wrong labels among those decided after t questions or fewer, over all t."""
    stops, wrong = ruled.stops[rows], ruled.wrong[rows]
    n = np.bincount(stops, minlength=ruled.longest + 2)[:-1].cumsum()
    k = np.bincount(stops, wrong, minlength=ruled.longest + 2)[:-1].cumsum()
    return float((k[n > 0] / n[n > 0]).max(initial=0.0))


def simulate_risk(
    world: World, alpha: float, n: int, by_length: bool, randomness: np.random.Generator
) -> dict[str, Any]:
    """Choose thresholds on n rows drawn from the world, and on halves of it, N_WORLDS times."""
    chains, longest = world.chains, world.chains.confidence.shape[1] - 1
    stops, wrong = chains.at_every_level()
    every = Ruled(stops, wrong, chains.lengths, longest)
    over_all = every.over()
    best = int(np.flatnonzero(over_all["risk"] <= alpha)[-1])  # the boldest in hindsight
    nothing = Ruled(np.full(len(chains), longest + 1), np.zeros(len(chains), dtype=bool), chains.lengths, longest)
    found: dict[str, list[Any]] = {"risk": [], "decided": [], "asked": [], "naive": [], "test_risk": []}
    for is_split in (False,) if by_length else (False, True):  # which takes long by length, and says less
        for _ in range(N_WORLDS):
            if is_split:
                order = randomness.permutation(len(chains))
                chosen_on, judged = order[: len(order) // 2], order[len(order) // 2 :]
            else:
                chosen_on, judged = randomness.integers(0, len(chains), n), slice(None)
            if by_length:
                levels = choose_levels(chains.take(chosen_on), alpha, DELTA)
                ruled = nothing
                if levels is not None:
                    at = chains.stops(levels)
                    ruled = Ruled(at, chains.wrong_at(at), chains.lengths, longest)
                risk = worst_by_length(ruled, judged)
            else:
                place = choose_level(stops[:, chosen_on], wrong[:, chosen_on], longest, alpha, DELTA)
                ruled = nothing if place is None else Ruled(stops[place], wrong[place], chains.lengths, longest)
                risk = float(ruled.over(judged)["risk"])
            if is_split:
                found["test_risk"].append(risk)
                continue
            at_once = ruled.over()
            found["risk"].append(risk)
            found["decided"].append(float(at_once["decided"]))
            found["asked"].append(float(at_once["asked"]))
            seen = every.over(chosen_on)
            found["naive"].append(float(over_all["risk"][int(np.flatnonzero(seen["risk"] <= alpha)[-1])]))
    return {
        "alpha": alpha,
        "delta": DELTA,
        "by_length": by_length,
        "chosen_on": n,
        "broken": float(np.mean(np.array(found["risk"]) > alpha)),
        "mean_risk": float(np.mean(found["risk"])),
        "nothing_decided": float(np.mean(np.array(found["decided"]) == 0)),
        "decided": float(np.mean(found["decided"])),
        "asked": float(np.mean(found["asked"])),
        "best": {name: float(values[best]) for name, values in over_all.items()},
        "naive_broken": float(np.mean(np.array(found["naive"]) > alpha)),
        "split_over": None if by_length else float(np.mean(np.array(found["test_risk"]) > alpha)),
        "split_mean_risk": None if by_length else float(np.mean(found["test_risk"])),
    }


# ---- sets of labels


def simulate_sets(
    world: World, alpha: float, n: int, by_class: bool, randomness: np.random.Generator
) -> dict[str, Any]:
    """Choose sets on n rows, N_WORLDS times, and count over all others how often the right label is among them."""
    posterior, y = world.posterior, world.y
    is_top = posterior == posterior.max(axis=1, keepdims=True)
    of_right = posterior[np.arange(len(y)), y]
    right_is_top = is_top[np.arange(len(y)), y]
    n_classes, least_rows = posterior.shape[1], least_conformal_rows(alpha)
    coverage, sizes, refused = [], [], 0
    by_label = np.zeros((2, n_classes))
    for _ in range(N_WORLDS):
        order = randomness.permutation(len(y))
        chosen_on, judged = order[:n], order[n:]
        if by_class:
            if np.bincount(y[chosen_on], minlength=n_classes).min() < least_rows:
                refused += 1
                continue
            least = np.array(
                [conformal_threshold(of_right[chosen_on[y[chosen_on] == i]], alpha) for i in range(n_classes)]
            )
        else:
            least = np.full(n_classes, conformal_threshold(of_right[chosen_on], alpha))
        covered = (of_right[judged] >= least[y[judged]]) | right_is_top[judged]
        coverage.append(covered.mean())
        by_label += [np.bincount(y[judged], covered, n_classes), np.bincount(y[judged], minlength=n_classes)]
        if len(sizes) < 100:  # a mean needs no more
            sizes.append(((posterior[judged] >= least) | is_top[judged]).sum(axis=1).mean())
    if not coverage:
        return {"alpha": alpha, "by_class": by_class, "chosen_on": n, "refused": refused}
    per_class = by_label[0] / by_label[1]
    return {
        "alpha": alpha,
        "by_class": by_class,
        "chosen_on": n,
        "refused": refused,
        "coverage": float(np.mean(coverage)),
        "error_of_mean": float(np.std(coverage) / np.sqrt(len(coverage))),
        "worst_class": float(np.nanmin(per_class)),
        "size": float(np.mean(sizes)),
        "accuracy": float(right_is_top.mean()),
    }


# ---- measuring and writing


def measure(data: DataSet) -> dict[str, Any]:
    """All promises about a data set."""
    world = record(data)
    n_rows, randomness = len(world.y), np.random.default_rng(SEED)
    n = min(data.n_chosen_on, n_rows // 2)
    risks = [
        simulate_risk(world, alpha, n, by_length, randomness) for alpha in data.alphas for by_length in (False, True)
    ]
    sets = [simulate_sets(world, alpha, n, by_class, randomness) for alpha in SETS for by_class in (False, True)]
    return {
        "name": data.name,
        "title": data.title,
        "where": {**where(), "seed of models": MODEL_SEED, "seed of draws": SEED},
        "trained_on": world.n_trained_on,
        "rows": n_rows,
        "labels": world.posterior.shape[1],
        "longest": world.chains.confidence.shape[1] - 1,
        "error_in_the_end": float(world.chains.wrong[np.arange(n_rows), world.chains.lengths].mean()),
        "seconds_to_record": world.seconds,
        "stop_of_sets": data.stop,
        "risks": risks,
        "sets": sets,
    }


def before() -> list[dict[str, Any]]:
    """What was measured of all data sets so far."""
    path = RESULTS / "guarantees.json"
    return json.loads(path.read_text(encoding="utf-8"))["data"] if path.exists() else []


def page(measured: dict[str, Any]) -> str:
    """The results as Markdown."""
    risks = [
        [
            data["title"],
            f"{one['alpha']:.0%}" + (", by length" if one["by_length"] else ""),
            f"{one['chosen_on']:,}",
            f"**{one['broken']:.1%}**",
            f"{one['mean_risk']:.2%}",
            f"{one['decided']:.0%}",
            f"{one['asked']:.1f}",
            f"{one['best']['decided']:.0%}",
            f"{one['best']['asked']:.1f}",
            f"{one['naive_broken']:.0%}",
            "–" if one["split_over"] is None else f"{one['split_over']:.1%}",
        ]
        for data in measured["data"]
        for one in data["risks"]
    ]
    columns = ["data", "alpha", "chosen on", "promise broken", "mean share wrong", "decided", "asked"]
    columns += ["best: decided", "best: asked", "untested: broken", "splits: over alpha"]
    sets = [
        [
            data["title"],
            f"{1 - one['alpha']:.0%}" + (", every class" if one["by_class"] else ""),
            f"{one['chosen_on']:,}",
            *(
                [f"refused in {one['refused']:,} of {measured['worlds']:,} draws: too few rows of a label", "", "", ""]
                if "coverage" not in one
                else [
                    f"**{one['coverage']:.2%}** ± {one['error_of_mean']:.2%}",
                    f"{one['worst_class']:.1%}",
                    f"{one['size']:.2f} of {data['labels']}",
                    f"{one['accuracy']:.1%}",
                ]
            ),
        ]
        for data in measured["data"]
        for one in data["sets"]
    ]
    set_columns = ["data", "promised", "chosen on", "right label among them", "worst class", "labels in a set"]
    worlds = [
        [
            data["title"],
            f"{data['trained_on']:,}",
            f"{data['rows']:,}",
            data["labels"],
            data["longest"],
            f"{data['error_in_the_end']:.1%}",
            f"commit {data['where']['commit']}, {data['where']['machine']}",
        ]
        for data in measured["data"]
    ]
    most = max(one["broken"] for data in measured["data"] for one in data["risks"])
    return f"""# Promises kept

Written by `python benchmarks/guarantees.py`; all figures are in `guarantees.json` beside this page. What is promised
and what is assumed is in [Guarantees](../guarantees.md).

A model was trained once for each data set: by the recipe `fast` for digits and, a tenth as long, for SymCAT-200, and
briefly for tables, with a fifth of its rows to fit beliefs to. All rows it did not learn from were asked to the end,
and are taken for the whole world:

{table(WORLD_COLUMNS, worlds)}
## At most a share alpha of what is decided is wrong

`RiskControlled(alpha, {DELTA})` may break its promise in {DELTA:.0%} of all draws of the rows it is chosen on. Of
{measured["worlds"]:,} draws, each row drawn from the whole world with replacement, the promise was broken in at most
{most:.1%}, where "broken" is exact: the share that is wrong among all rows of the world that the threshold decides.
"By length" is broken if that share is too large for those decided after t questions or fewer, for any t.
Rows by length of commit d703609 predate a correction that may decide a little less; digits came out the same.

{table(columns, risks)}
- *Best*: the boldest single threshold whose share over the whole world is at most alpha, chosen in hindsight. It has no
  margin, and nobody could know it. Questions are those of all rows, decided or left to a person after all questions.
- *Untested*: the boldest threshold whose share among the rows it is chosen on is at most alpha, without a test. It is
  what one would do without this, and breaks the promise about every other time.
- *Splits*: half of the rows choose, and the other half judges. That half is itself a sample, so a share above alpha
  there does not mean that the promise is broken; by chance alone it would be above a true share of alpha every
  other time.
- A promise that nothing can be decided under is kept, and useless: see the share decided.

## Sets of labels that have the right one

`ConformalSet({SETS[0]})` at the stop of `confidence=0.95`. Of {measured["worlds"]:,} splits, the share of the other
rows whose right label is in the set, with the standard error of its mean; "worst class" is the least share of any
class, over all splits together. Without "every class", nothing is promised of a class by itself.

{table([*set_columns, "accuracy of one label"], sets)}
The most probable label is always in the set, so coverage is above what is promised where that label alone is right more
often. Where testing begins (`STARTS` in `estimators/risk.py`) was chosen on models of another seed.
"""


def main(words: Sequence[str]) -> None:
    """Names of data sets may be given; by default all of them."""
    for data in DATA_SETS:
        if words and data.name not in words:
            continue
        measured = measure(data)
        found = {**{one["name"]: one for one in before()}, data.name: measured}
        ordered = [found[one.name] for one in DATA_SETS if one.name in found]
        print(save({"worlds": N_WORLDS, "data": ordered}, page, "guarantees", RESULTS), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
