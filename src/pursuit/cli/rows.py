"""The rows that `pursuit evaluate` and `pursuit explain` show a model: those it was not trained on."""

from typing import Any, NamedTuple

import numpy as np

from pursuit import tasks
from pursuit.cli.console import say
from pursuit.estimators import PursuitEstimator
from pursuit.tasks import TASKS, load_task


class UnseenRows(NamedTuple):
    """Rows that a model was not trained on."""

    name: str
    X: Any
    y: np.ndarray | None
    initially_known: np.ndarray | None = None


def unseen_rows(
    classifier: PursuitEstimator, data: str, target: str | None = None, missing: list[str] | None = None
) -> UnseenRows:
    """The rows of a task or a file that the model was not trained on; a file may have no labels."""
    trained = classifier.notes_.get("task", {})
    queries = [query.name for query in classifier.model_.query_set.queries]
    if data in TASKS:
        return _rows_of_task(data, queries, trained)
    columns = list(getattr(classifier, "feature_names_in_", queries))  # a query set may ask several things of a column
    X, y, remark = tasks.unseen_rows(data, columns, trained, target, missing or ())
    if remark:
        say(remark)
    classes = getattr(classifier, "classes_", None)
    if y is not None and classes is not None and classes.dtype.kind in "OU":
        y = y.astype(str)
    return UnseenRows(tasks.name_of(data), X, y)


def _rows_of_task(name: str, queries: list[str], trained: dict[str, Any]) -> UnseenRows:
    if trained.get("learnt_from_test_rows_of") == name:
        raise ValueError(
            f"The model was trained on test rows of {name}: measure it on {trained['name']}, whose test rows are held "
            "out."
        )
    task = load_task(name, trained.get("seed", 0) if trained.get("name") == name else 0)
    if [query.name for query in task.query_set.queries] != queries:
        whose = f" was trained on {trained['name']} and" if "name" in trained else ""
        raise ValueError(f"The model{whose} asks other queries than those of {name}: give it rows of its own kind.")
    return UnseenRows(name, task.X_test, task.y_test, task.initially_known_test)
