"""Figures of a trained task for the documentation: a chain, and a heat map of what is asked when.

They show patches, words and symptoms of test rows, never a photo that a task only asks concepts of.
"""

import json
from pathlib import Path

import torch

from pursuit import load
from pursuit.estimators import PursuitClassifier
from pursuit.evaluation.details import shares_asked
from pursuit.evaluation.figures import DPI, asked_map, draw_chain
from pursuit.experiments.results import Results
from pursuit.tasks import TASKS
from pursuit.tasks.task import Task, take_rows
from report import RESULTS

IMAGES = RESULTS.parent / "images" / "tasks"
MOST_ROWS, MOST_BYTES = 2000, 150_000
LONGEST_CHAIN = 24
"""Chains are drawn to this many queries: more do not fit on a page."""


def paths(name: str) -> dict[str, Path]:
    """Where the figures of a run are, by what they show."""
    return {"a chain": IMAGES / f"{name}-chain.png", "what is asked when": IMAGES / f"{name}-asked.png"}


def draw(folder: Path, name: str, device: str = "auto") -> list[Path]:
    """Draw the first test row's chain and the map of queries, with the first model of a results folder."""
    run = Results.from_dict(json.loads((folder / "results.json").read_text(encoding="utf-8"))).run
    model_folder = min(folder.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    classifier, seed = load(model_folder), int(model_folder.name.removeprefix("seed-"))
    assert isinstance(classifier, PursuitClassifier)
    task = TASKS[run["task"]].load(seed)
    chain, asked = paths(name).values()
    _draw_chain(classifier, task, chain)
    _draw_asked(classifier, task, asked, device)
    return [chain, asked]


def _draw_chain(classifier: PursuitClassifier, task: Task, path: Path) -> None:
    X, known = take_rows(task.X_test, slice(0, 1)), task.initially_known_test
    rule = f"{classifier.stopping_rule()},budget={LONGEST_CHAIN}"
    chain = classifier.explain(X, rule, initially_known=None if known is None else known[:1])[0]
    title = f"{task.name}, the first test row: {task.y_test[0]}"
    figure = draw_chain(classifier.model_.query_set, X, chain, path, title)  # without a picture, which is a photo
    _shrink(figure, path)


def _draw_asked(classifier: PursuitClassifier, task: Task, path: Path, device: str) -> None:
    n, known = min(MOST_ROWS, len(task.y_test)), task.initially_known_test
    X, y = take_rows(task.X_test, slice(n)), task.y_test[:n]
    rows = classifier.rows(X, y, initially_known=None if known is None else known[:n])
    rule = classifier.stopping_rule()
    shares = shares_asked(classifier.model_, rows, rule, device if torch.cuda.is_available() else "cpu")
    title = f"{task.name}: what is asked of {n:,} test rows until {rule}"
    _shrink(asked_map(classifier.model_.query_set, shares, path, title), path)


def _shrink(figure: object, path: Path) -> None:
    """Write a figure again with fewer pixels until it is small enough for a repository."""
    dpi = DPI
    while path.stat().st_size > MOST_BYTES and dpi > 40:
        dpi = round(dpi * 0.8)
        figure.savefig(path, dpi=dpi)  # type: ignore[attr-defined]
