"""Reproduce a task of the paper: train by a recipe, measure on rows kept apart, and write down what came out.

A results folder holds `results.json` (everything, seed by seed), `row.md` (one row of a table beside the published
figures), `curve.png`, a few chains as figures, and the model of each seed. A run that was interrupted goes on where it
stopped.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pursuit.baselines import RandomOrder
from pursuit.checkpoints import write_whole
from pursuit.demo import draw_chain
from pursuit.estimators import CannotResume, PursuitClassifier, VIPClassifier
from pursuit.evaluation import evaluate, wilson_interval
from pursuit.figures import accuracy_curve
from pursuit.provenance import provenance
from pursuit.rows import GeneratedRows, Rows
from pursuit.stopping import Confidence, Stability
from pursuit.tasks import TASKS, Task
from pursuit.tasks.recipes import PUBLISHED, Recipe
from pursuit.tasks.task import take_rows
from pursuit.training import Report

N_CHAINS = 3
TEST_ROWS, ROWS_HELD_APART = "test rows", "rows to learn from, held apart"
"""What accuracy is measured on."""
SHOWN_BUDGETS = (5, 10, 20)
CHOOSING_SEED = 1_000_003
"""Added to the seed of tasks that draw their rows, where settings are chosen: other rows than those of the results."""

TRADE_OFF = (
    *(Confidence(level) for level in (0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.98, 0.99, 0.995, 0.999)),
    *(Stability(epsilon, n) for epsilon in (0.1, 0.03, 0.01, 0.003, 0.002, 0.001, 0.0003) for n in (1, 3)),
)
"""Accuracy against length, as the paper draws it: by varying the stopping rule."""

Progress = Callable[[str], AbstractContextManager[Callable[[Report], None]]]


@dataclass(frozen=True)
class Run:
    """What to reproduce, and how."""

    task: str
    recipe_name: str
    recipe: Recipe
    seeds: tuple[int, ...] = (0,)
    device: str = "cpu"
    options: tuple[str, ...] = ()
    """What was changed in the recipe, in words."""
    to_choose_by: bool = False
    """Measure on a part of the rows to learn from, not on the test rows."""
    curve_queries: int | None = None
    """How far accuracy is measured; by default as far as the recipe asks."""

    def load(self, seed: int) -> Task:
        info = TASKS[self.task]
        task = info.load(seed)
        if self.to_choose_by and isinstance(task.X_train, GeneratedRows):
            task = info.load(seed + CHOOSING_SEED)  # other test rows are other rows
        elif self.to_choose_by:
            task = task.to_choose_by()
        options = self.recipe.query_options
        return replace(task, query_set=task.query_set.with_options(**options)) if options else task

    def described(self) -> dict[str, Any]:
        """What tells this run from others, as JSON values."""
        return {
            "task": self.task,
            "recipe": self.recipe_name,
            "options": list(self.options),
            "measured_on": ROWS_HELD_APART if self.to_choose_by else TEST_ROWS,
            "settings": {key: str(value) for key, value in self.recipe.settings().items()},
            "query_options": dict(self.recipe.query_options),
            "curve_queries": self.curve_queries,
        }


def run_name(task: str, recipe: str, options: Sequence[str]) -> str:
    """What a run is called in the names of folders and files."""
    return "-".join([task, recipe, *(option.replace(" ", "-") for option in options)])


def reproduce(run: Run, folder: Path, progress: Progress, say: Callable[[str], None]) -> dict[str, Any]:
    """Train and measure every seed that is not done yet, and write the results folder."""
    measured = [_one_seed(run, seed, folder / f"seed-{seed}", progress, say) for seed in run.seeds]
    results = {**run.described(), "summary": summarise(measured), "seeds": measured}
    write_whole(folder / "results.json", json.dumps(results, indent=1).encode())
    write_whole(folder / "row.md", f"{HEADER}\n{markdown_row(results)}\n".encode())
    _draw_curves(results, folder / "curve.png")
    return results


def _one_seed(run: Run, seed: int, folder: Path, progress: Progress, say: Callable[[str], None]) -> dict[str, Any]:
    """What one seed gives; read from its folder where it is there already."""
    path = folder / "result.json"
    if done := read_result(path, run.described()):
        say(f"{run.task}, seed {seed}: already measured in {folder}.")
        return done
    task = run.load(seed)
    model = VIPClassifier(task.query_set, random_state=seed, device=run.device, **run.recipe.settings())
    started = time.monotonic()
    with progress(f"{run.task}, seed {seed}") as on_report:
        resumed = train_in(folder, model, task, on_report)
    training_seconds = time.monotonic() - started
    model.save(folder, {"task": {"name": task.name, **task.notes}})
    say(f"{run.task}, seed {seed}: trained in {training_seconds:.0f} s, measuring on {len(task.y_test)} rows.")
    started = time.monotonic()
    result = {
        "run": run.described(),
        "seed": seed,
        "n_train": len(task.X_train),
        "n_test": len(task.y_test),
        "histories": round(sum(stage.epochs for stage in run.recipe.stages) * len(task.X_train)),
        "training_seconds": round(training_seconds, 1),
        "resumed": resumed,  # the seconds are those of the last part then
        **_measure(run, model, task),
        "provenance": provenance(run.device),
        "notes": dict(task.notes),
    }
    result["measuring_seconds"] = round(time.monotonic() - started, 1)
    _draw_chains(model, task, folder)
    write_whole(path, json.dumps(result, indent=1).encode())
    return result


def read_result(path: Path, described: dict[str, Any]) -> dict[str, Any] | None:
    """What the run so described wrote before; None where there is nothing of it, or only a damaged file."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        return result if result["run"] == described else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def train_in(folder: Path, model: PursuitClassifier, task: Task, on_report: Callable[[Report], None]) -> bool:
    """Train, going on where a run of the same settings stopped in this folder; whether there was one."""
    inputs: dict[str, Any] = {"opening": task.opening_train, "folder": folder, "on_report": on_report}
    resume = (folder / "run.json").exists()
    try:
        model.fit(task.X_train, task.y_train, resume=resume, **inputs)
    except CannotResume:
        resume = False
        model.fit(task.X_train, task.y_train, **inputs)
    return resume


def _measure(run: Run, model: VIPClassifier, task: Task) -> dict[str, Any]:
    """V-IP, random order, and where they can be had exact pursuit and a black box, on the same rows."""
    rows = model.rows(task.X_test, task.y_test, opening=task.opening_test)
    stop = model.stopping_rule()
    longest = run.curve_queries or model.max_queries
    vip = evaluate(model.model_, rows, stop, longest, run.device, trade_off=TRADE_OFF)
    random_order = evaluate(RandomOrder(model.model_, seed=0), rows, None, longest, run.device)
    found: dict[str, Any] = {
        "vip": vip.to_dict(),
        "random_order": {"accuracy_by_n_queries": random_order.accuracy_by_n_queries, "auc": random_order.auc},
    }
    if task.exact:
        exact = evaluate(task.exact(), rows, None, longest, run.device)
        found["exact"] = {
            "accuracy_by_n_queries": exact.accuracy_by_n_queries,
            "auc": exact.auc,
            "accuracy_all_answers": exact.accuracy_all_answers,
        }
    if not isinstance(task.X_train, GeneratedRows) and rows.x.dim() == 2:
        learnt = model.rows(task.X_train, task.y_train)
        found["logistic_regression"] = {"accuracy_all_answers": _logistic_regression(learnt, rows)}
    return found


def _logistic_regression(train: Rows, test: Rows) -> float:
    """A black box that sees all answers at once; of few rows, its strength is chosen by cross-validation on them."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    (X, y), (X_test, y_test) = ((rows.x.numpy(), rows.y.numpy()) for rows in (train, test))
    strengths = {"C": [0.01, 0.1, 1.0]}
    if len(y) > 20_000:
        return float(LogisticRegression(C=0.1, max_iter=200).fit(X, y).score(X_test, y_test))
    return float(GridSearchCV(LogisticRegression(max_iter=500), strengths, cv=3).fit(X, y).score(X_test, y_test))


def summarise(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, with the standard deviation over seeds, and the interval that so few test rows leave."""

    def over_seeds(get: Callable[[dict[str, Any]], float]) -> dict[str, float]:
        return mean_and_sd([get(result) for result in measured])

    first = measured[0]["vip"]
    shown = [n for n in SHOWN_BUDGETS if n < len(first["accuracy_by_n_queries"])]
    summary: dict[str, Any] = {
        "n_seeds": len(measured),
        "auc": over_seeds(lambda result: result["vip"]["auc"]),
        "auc_random_order": over_seeds(lambda result: result["random_order"]["auc"]),
        "accuracy_all_answers": over_seeds(lambda result: result["vip"]["accuracy_all_answers"]),
        "training_seconds": over_seeds(lambda result: result["training_seconds"]),
    }
    for n in shown:
        after = over_seeds(lambda result, n=n: result["vip"]["accuracy_by_n_queries"][n])  # type: ignore[misc]
        summary[f"accuracy_after_{n}"] = {**after, "interval": wilson_interval(after["mean"], measured[0]["n_test"])}
    if first["stop"]:
        summary["stop"] = {
            "rule": first["stop"]["rule"],
            "mean_queries": over_seeds(lambda result: result["vip"]["stop"]["mean_queries"]),
            "accuracy": over_seeds(lambda result: result["vip"]["stop"]["accuracy"]),
            "cut_short": over_seeds(lambda result: result["vip"]["stop"].get("cut_short", 0.0)),
        }
    return summary


HEADER = (
    "| task | recipe | stops after | accuracy there | after 5 / 10 / 20 | all answers | area (random order) "
    "| paper: stops after, accuracy there, all answers, after 20 | seeds | rows | device, training | commit |\n"
    "|" + "---|" * 12
)


def markdown_row(results: dict[str, Any]) -> str:
    """One row of a table, ours beside the published."""
    summary, one = results["summary"], results["seeds"][0]
    published = PUBLISHED.get(results["task"])
    stop = summary.get("stop")
    after = [mean_and_spread(summary.get(f"accuracy_after_{n}")) for n in SHOWN_BUDGETS]
    paper = (
        ", ".join(_plain(value) for value in (published.mean_queries, published.accuracy, published.all_answers))
        + f", {_plain(published.after_20)}"
        if published
        else "–"
    )
    # Whatever makes the row less than it seems is said in it; results of earlier versions say less.
    measured_on = results.get("measured_on", TEST_ROWS)
    options = [*results["options"], *([f"measured on {measured_on}"] if measured_on != TEST_ROWS else [])]
    cut_short = stop.get("cut_short", {}).get("mean", 0) if stop else 0
    cut = f", cut short in {cut_short:.1%}" if cut_short else ""
    resumed = ", resumed" if any(seed.get("resumed") for seed in results["seeds"]) else ""
    cells = [
        results["task"],
        results["recipe"] + (f" ({', '.join(options)})" if options else ""),
        f"{stop['mean_queries']['mean']:.2f} ({stop['rule']}{cut})" if stop else "–",
        mean_and_spread(stop["accuracy"]) if stop else "–",
        " / ".join(after),
        mean_and_spread(summary["accuracy_all_answers"]),
        f"{mean_and_spread(summary['auc'])} ({mean_and_spread(summary['auc_random_order'])})",
        paper,
        str(summary["n_seeds"]),
        f"{one['n_train']:,} / {one['n_test']:,}",
        f"{one['provenance']['device']}, {summary['training_seconds']['mean']:.0f} s{resumed}",
        str(one["provenance"]["commit"]),
    ]
    return "| " + " | ".join(cells) + " |"


def mean_and_sd(values: Sequence[float]) -> dict[str, float]:
    """What the seeds gave, in two numbers."""
    return {"mean": float(np.mean(values)), "sd": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}


def mean_and_spread(value: dict[str, Any] | None) -> str:
    """A mean over seeds, with the standard deviation over them where there is one."""
    if value is None:
        return "–"
    spread = f" ± {value['sd']:.3f}" if value["sd"] else ""
    return f"{value['mean']:.3f}{spread}"


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _draw_curves(results: dict[str, Any], path: Path) -> None:
    seeds = results["seeds"]
    curves = {
        name: [result[key]["accuracy_by_n_queries"] for result in seeds]
        for name, key in (("V-IP", "vip"), ("exact IP", "exact"), ("random order", "random_order"))
        if key in seeds[0]
    }
    stop = results["summary"].get("stop")
    accuracy_curve(
        curves,
        path,
        title=f"{results['task']}: accuracy on {seeds[0]['n_test']:,} {results['measured_on']}",
        stops={"V-IP": (stop["mean_queries"]["mean"], stop["accuracy"]["mean"])} if stop else None,
        all_answers=results["summary"]["accuracy_all_answers"]["mean"],
    )


def _draw_chains(model: VIPClassifier, task: Task, folder: Path) -> None:
    """The chains of the first few test rows, whatever comes of them."""
    for i in range(min(N_CHAINS, len(task.y_test))):
        X = take_rows(task.X_test, slice(i, i + 1))
        opening = None if task.opening_test is None else task.opening_test[i : i + 1]
        chain = model.explain(X, opening=opening)[0]
        picture = task.picture(i) if task.picture else None
        title = f"{task.name}: truly {task.y_test[i]}"
        draw_chain(model.model_.query_set, X, chain, folder / f"chain-{i}.png", title, picture)
