"""The demonstration: train on the embedded tasks, compare with random order, draw what came out."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from pursuit.baselines import RandomOrder
from pursuit.chains import Chain
from pursuit.estimators import VIPClassifier
from pursuit.evaluation import Evaluation, evaluate
from pursuit.figures import accuracy_curve, answer_chain, image_chain
from pursuit.progress import training_bar
from pursuit.queries import PatchQueries, QuerySet
from pursuit.tasks import EMBEDDED, load_task


@dataclass(frozen=True)
class Comparison:
    """What the demonstration found on one task."""

    task: str
    folder: Path
    files: tuple[Path, ...]
    seconds: float
    evaluation: Evaluation
    random_order: Evaluation
    """The same classifier on queries in random order."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "model": str(self.folder),
            "files": [str(path) for path in self.files],
            "training_seconds": self.seconds,
            "vip": self.evaluation.to_dict(),
            "random_order": self.random_order.to_dict(),
        }


def run_demo(folder: Path, seed: int, console: Console) -> Iterator[Comparison]:
    """Train, measure and draw every embedded task, into `folder`/TASK."""
    for name in EMBEDDED:
        task = load_task(name, seed)
        model = VIPClassifier(task.query_set, random_state=seed, **task.settings)
        started = time.monotonic()
        with training_bar(name, console) as on_report:
            model.fit(task.X_train, task.y_train, on_report=on_report)
        seconds = time.monotonic() - started
        model.save(folder / name, {"task": {"name": name, **task.notes}})
        yield _measured(name, folder / name, seconds, model, task.X_test, task.y_test)


def _measured(name: str, folder: Path, seconds: float, model: VIPClassifier, X: Any, y: Any) -> Comparison:
    evaluation = model.evaluate(X, y)
    random_order = evaluate(RandomOrder(model.model_), model.rows(X, y), max_queries=model.max_queries)
    stop = evaluation.stop
    curve = folder / "curve.png"
    accuracy_curve(
        {"V-IP": evaluation.accuracy_by_n_queries, "random order": random_order.accuracy_by_n_queries},
        curve,
        title=f"{name}: accuracy on {evaluation.n_rows} rows kept apart",
        stops={"V-IP": (stop.mean_queries, stop.accuracy)} if stop else None,
        all_answers=evaluation.accuracy_all_answers,
    )
    first = X[:1]
    chain_figure = folder / "chain.png"
    draw_chain(model.model_.query_set, first, model.explain(first)[0], chain_figure, f"{name}: truly {y[0]}")
    return Comparison(name, folder, (folder, curve, chain_figure), seconds, evaluation, random_order)


def draw_chain(
    query_set: QuerySet, X: Any, chain: Chain, path: Path, title: str, picture: np.ndarray | None = None
) -> None:
    """A chain as a figure: on the image where queries are patches, otherwise as a heat map of posteriors.

    `X` holds the row of the chain first; a `picture` of it stands beside the heat map.
    """
    if isinstance(query_set, PatchQueries):
        image_chain(chain, query_set, query_set.answers(X).x[0], path, title)
    else:
        answer_chain(chain, path, title, picture=picture)
