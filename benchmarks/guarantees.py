"""Are promises kept? A model is trained once for each data set. All rows that it did not learn from are asked to the
end, and are then the whole world: what a promise says of new rows can be computed over all of them, without any error.
Rows to choose a threshold on are drawn from this world, 1,000 times, and each time it is looked up whether the promise
holds. The same is done with plain splits, where a half of the rows chooses and the other half judges."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common import at_stop, read_table
from benchmarks.report import Record, columns, grid, grouped, met, origins
from benchmarks.study import Study
from pursuit import Budget, Stage, VIPClassifier
from pursuit.estimators.guarantees import (
    HeldOutChains,
    choose_level,
    choose_levels,
    conformal_threshold,
    held_out_chains,
    least_conformal_rows,
)
from pursuit.research.tasks import find_recipe, load_task

MODEL_SEED, SEED, LONGEST, DELTA, SETS_ALPHA, STOP, MOST_ROWS = 1, 1, 100, 0.1, 0.1, "confidence=0.95", 6000
DATA_SETS: dict[str, tuple[str, tuple[float, ...], int]] = {
    "digits": ("digits, 2x2 patches", (0.02, 0.05), 450),
    "symcat-200": ("SymCAT-200, drawn patients", (0.1, 0.2), 2500),
    "diamonds": ("diamonds, the cut: noisy", (0.1, 0.2), 2000),
    "credit": ("credit: noisy and small", (0.15, 0.2), 350),
    "sick": ("sick: 6 % of the rows are", (0.01, 0.02), 1000),
}
"""What is promised of each: alphas, and how many rows choose a threshold."""
EFFORTS = {"digits": 1.0, "symcat-200": 0.1}
"""How much of its recipe a task is trained by; the others are tables."""


@dataclass(frozen=True)
class World:
    """All held-out rows of a data set as the model asks them."""

    chains: HeldOutChains
    posterior: np.ndarray  # (N, C) at the stop
    y: np.ndarray  # (N,)
    n_trained_on: int


def record(name: str, effort: float) -> World:
    """Train once, and ask all other rows to the end. Tables are trained briefly: what is measured are promises."""
    order = np.random.default_rng(MODEL_SEED)
    if name in EFFORTS:
        task, recipe = load_task(name, MODEL_SEED), find_recipe(name).scaled(effort * EFFORTS[name])
        model = VIPClassifier(task.query_set, random_state=MODEL_SEED, **recipe.settings())
    if name == "symcat-200":
        task.fit(model)
        n_learnt = round(sum(stage.epochs for stage in recipe.stages) * len(task.X_train))
        known = task.initially_known_test[:MOST_ROWS]
        rows = model.rows(task.X_test[:MOST_ROWS], task.y_test[:MOST_ROWS], initially_known=known)
    elif name == "digits":  # half of all digits are held out: the test rows alone are few
        X, y = np.concatenate([task.X_train, task.X_test]), np.concatenate([task.y_train, task.y_test])
        learnt, others = np.split(order.permutation(len(y)), [n_learnt := len(y) // 2])
        rows = model.fit(X[learnt], y[learnt]).rows(X[others], y[others])
    else:
        frame, y = read_table(name)
        n_learnt = min(len(y) // 4 if len(y) > 2000 else len(y) * 3 // 10, 4000)
        learnt, others = np.split(order.permutation(len(y)), [n_learnt])
        stages = [Stage(60 * effort, batch_size=128)]
        model = VIPClassifier(stages=stages, calibration=0.2, random_state=MODEL_SEED)
        model.fit(frame.iloc[learnt], y[learnt])
        others = others[:MOST_ROWS]
        others = others[np.isin(y[others], model.classes_)]
        rows = model.rows(frame.iloc[others], y[others])
    chains = held_out_chains(model.model_, rows, Budget(min(LONGEST, model.max_queries or LONGEST)))
    return World(chains, at_stop(model, rows, STOP)[1], rows.y.numpy(), n_learnt)


@dataclass(frozen=True)
class Ruled:
    """What thresholds do to all rows of a world."""

    stops: np.ndarray  # (..., N) after how many questions a row is decided
    wrong: np.ndarray  # (..., N) bool, whether wrongly
    lengths: np.ndarray  # (N,) of whole chains
    longest: int

    def over(self, rows: Any = slice(None)) -> dict[str, np.ndarray]:
        """The share decided, how much of that is wrong (0 where nothing is), and the questions a row."""
        stops, wrong = self.stops[..., rows], self.wrong[..., rows]
        decided = stops <= self.longest
        asked = np.where(decided, stops, self.lengths[rows]).mean(axis=-1)
        risk = wrong.sum(axis=-1) / np.maximum(decided.sum(axis=-1), 1)
        return {"risk": risk, "decided": decided.mean(axis=-1), "asked": asked}

    def worst_by_length(self, rows: Any) -> float:
        """The largest share of wrong labels among those decided after t questions or fewer, over all t."""
        stops, most = self.stops[rows], self.longest + 2
        n = np.bincount(stops, minlength=most)[:-1].cumsum()
        k = np.bincount(stops, self.wrong[rows], minlength=most)[:-1].cumsum()
        return float((k[n > 0] / n[n > 0]).max(initial=0.0))


def simulate_risk(
    world: World, alpha: float, n: int, by_length: bool, draws: int, randomness: np.random.Generator
) -> Record:
    """Choose thresholds on n rows drawn from the world, and on halves of it."""
    chains, longest, lengths = world.chains, world.chains.confidence.shape[1] - 1, world.chains.lengths
    stops, wrong = chains.at_every_level()
    every = Ruled(stops, wrong, lengths, longest)
    over_all = every.over()
    best = int(np.flatnonzero(over_all["risk"] <= alpha)[-1])  # the boldest in hindsight
    nothing = Ruled(np.full(len(chains), longest + 1), np.zeros(len(chains), dtype=bool), lengths, longest)

    def chosen(rows: np.ndarray) -> Ruled:
        if by_length:
            levels = choose_levels(chains.take(rows), alpha, DELTA)
            at = None if levels is None else chains.stops(levels)
            return nothing if at is None else Ruled(at, chains.wrong_at(at), lengths, longest)
        place = choose_level(stops[:, rows], wrong[:, rows], longest, alpha, DELTA)
        return nothing if place is None else Ruled(stops[place], wrong[place], lengths, longest)

    def risk(ruled: Ruled, rows: Any = slice(None)) -> float:
        return ruled.worst_by_length(rows) if by_length else float(ruled.over(rows)["risk"])

    found: dict[str, list[float]] = {key: [] for key in ("risk", "decided", "asked", "naive", "split")}
    for _ in range(draws):
        rows = randomness.integers(0, len(chains), n)
        ruled = chosen(rows)
        found["risk"].append(risk(ruled))
        for key in ("decided", "asked"):
            found[key].append(float(ruled.over()[key]))
        found["naive"].append(float(over_all["risk"][int(np.flatnonzero(every.over(rows)["risk"] <= alpha)[-1])]))
    for _ in range(0 if by_length else draws):  # which takes long by length, and says less
        half, other = np.array_split(randomness.permutation(len(chains)), [len(chains) // 2])
        found["split"].append(risk(chosen(half), other))
    mean = {key: float(np.mean(values)) if values else None for key, values in found.items()}
    broken = {key: float(np.mean(np.array(values) > alpha)) if values else None for key, values in found.items()}
    return {
        "alpha": alpha,
        "delta": DELTA,
        "by_length": by_length,
        "chosen_on": n,
        "broken": broken["risk"],
        "mean_risk": mean["risk"],
        "nothing_decided": float(np.mean(np.array(found["decided"]) == 0)),
        "decided": mean["decided"],
        "asked": mean["asked"],
        "best": {name: float(values[best]) for name, values in over_all.items()},
        "naive_broken": broken["naive"],
        "split_over": broken["split"],
        "split_mean_risk": mean["split"],
    }


def simulate_sets(world: World, n: int, by_class: bool, draws: int, randomness: np.random.Generator) -> Record:
    """Choose sets on n rows, and count over all others how often the right label is among them."""
    posterior, y, alpha = world.posterior, world.y, SETS_ALPHA
    is_top, n_classes = posterior == posterior.max(axis=1, keepdims=True), posterior.shape[1]
    of_right, right_is_top = posterior[np.arange(len(y)), y], is_top[np.arange(len(y)), y]
    coverage, sizes, refused, by_label = [], [], 0, np.zeros((2, n_classes))
    for _ in range(draws):
        chosen_on, judged = np.split(randomness.permutation(len(y)), [n])
        if by_class and np.bincount(y[chosen_on], minlength=n_classes).min() < least_conformal_rows(alpha):
            refused += 1
            continue
        groups = [chosen_on[y[chosen_on] == i] for i in range(n_classes)] if by_class else [chosen_on]
        least = np.resize([conformal_threshold(of_right[rows], alpha) for rows in groups], n_classes)
        covered = (of_right[judged] >= least[y[judged]]) | right_is_top[judged]
        coverage.append(covered.mean())
        by_label += [np.bincount(y[judged], covered, n_classes), np.bincount(y[judged], minlength=n_classes)]
        if len(sizes) < 100:  # a mean needs no more
            sizes.append(((posterior[judged] >= least) | is_top[judged]).sum(axis=1).mean())
    about = {"alpha": alpha, "by_class": by_class, "chosen_on": n, "refused": refused}
    if not coverage:
        return about
    return {
        **about,
        "coverage": float(np.mean(coverage)),
        "error_of_mean": float(np.std(coverage) / np.sqrt(len(coverage))),
        "worst_class": float(np.nanmin(by_label[0] / by_label[1])),
        "size": float(np.mean(sizes)),
        "accuracy": float(right_is_top.mean()),
    }


def measure(name: str, draws: int = 1000, effort: float = 1.0) -> Record:
    """All promises about a data set."""
    start, (title, alphas, n_chosen_on) = time.perf_counter(), DATA_SETS[name]
    world = record(name, effort)
    seconds, n_rows, randomness = time.perf_counter() - start, len(world.y), np.random.default_rng(SEED)
    n = min(n_chosen_on, n_rows // 2)
    return {
        "title": title,
        "trained_on": world.n_trained_on,
        "rows": n_rows,
        "labels": world.posterior.shape[1],
        "longest": world.chains.confidence.shape[1] - 1,
        "error_in_the_end": float(world.chains.wrong[np.arange(n_rows), world.chains.lengths].mean()),
        "seconds_to_record": seconds,
        "stop_of_sets": STOP,
        "risks": [simulate_risk(world, alpha, n, by, draws, randomness) for alpha in alphas for by in (False, True)],
        "sets": [simulate_sets(world, n, by, draws, randomness) for by in (False, True)],
    }


def rows_of(records: list[Record], kind: str, promised: Callable[[Record], str]) -> dict[tuple[str, str], list[Record]]:
    """Risks or sets, each as a row of its own."""
    return {
        (one["title"], promised(part)): [{**part, "labels": one["labels"]}] for one in records for part in one[kind]
    }


def page(records: list[Record]) -> dict[str, str]:
    risks = rows_of(records, "risks", lambda one: f"{one['alpha']:.0%}" + ", by length" * one["by_length"])
    sets = rows_of(records, "sets", lambda one: f"{1 - one['alpha']:.0%}" + ", every class" * one["by_class"])
    worlds = columns(
        "trained on = trained_on|,; rows = rows|,; labels = labels; questions at most = longest;"
        "wrong in the end = error_in_the_end|.1%"
    )
    of_risks = columns(
        "chosen on = chosen_on|,; promise broken = broken|.1%; mean share wrong = mean_risk|.2%;"
        "decided = decided|.0%; asked = asked|.1f; best: decided = best.decided|.0%; best: asked = best.asked|.1f;"
        "untested: broken = naive_broken|.0%; splits: over alpha = split_over|.1%"
    )
    of_sets = columns(
        "chosen on = chosen_on|,; refused: too few rows of a label = refused|,;"
        "right label among them = coverage|.2%; standard error = error_of_mean|.2%; worst class = worst_class|.1%;"
        "labels in a set = size|.2f; of = labels; accuracy of one label = accuracy|.1%"
    )
    most = max((one["broken"] for [one] in risks.values()), default=None)
    said = "–" if most is None else f"{most:.1%}"
    verdict = f"Broken in at most {said} of the draws; {DELTA:.0%} are allowed: {met(most, most=DELTA)}.\n"
    return {
        "worlds": grid(grouped(records, "title"), worlds, "data"),
        "risks": verdict + "\n" + grid(risks, of_risks, "data", "alpha"),
        "sets": grid(sets, of_sets, "data", "promised"),
        "origins": origins(records, "name"),
    }


STUDY = Study(
    name="guarantees",
    runs=[{"name": name} for name in DATA_SETS],
    measure=measure,
    page=page,
    quick={"draws": 3, "effort": 0.02},
)
