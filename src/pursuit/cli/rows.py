"""The rows that commands show a model: those it was not trained on, to measure it, or all rows of a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pursuit import tasks
from pursuit.cli.console import say
from pursuit.public import PursuitClassifier, PursuitEstimator, PursuitRegressor, load
from pursuit.report.kept import Measured, kept
from pursuit.tasks import TASKS, load_task
from pursuit.tasks.every_row import EveryRow, RowsPart
from pursuit.tasks.every_row import every_row as rows_of_file


class UnseenRows(NamedTuple):
    """Rows that a model was not trained on."""

    name: str
    X: Any
    y: np.ndarray | None
    initially_known: np.ndarray | None = None


def unseen_rows(classifier: PursuitEstimator, data: str, target: str | None = None, **reading: Any) -> UnseenRows:
    """The rows of a task or a file that the model was not trained on; a file may have no labels. It is read as that of
    the training rows was, but for the options of `reading` that are given (missing, encoding, decimal)."""
    trained = classifier.notes_.get("task", {})
    if data in TASKS:
        return _rows_of_task(data, _queries(classifier), trained)
    given = {name: value for name, value in reading.items() if value}
    X, y, remark = tasks.unseen_rows(data, columns_read(classifier), trained, target, **given)
    if remark:
        say(remark)
    classes = getattr(classifier, "classes_", None)
    if y is not None and classes is not None and classes.dtype.kind in "OU":
        y = y.astype(str)
    return UnseenRows(tasks.name_of(data), X, y)


def model_and_labelled_rows(
    model: Path, data: str, target: str | None, device: str, max_queries: int | None, **reading: Any
) -> tuple[PursuitClassifier | PursuitRegressor, UnseenRows]:
    """A model that computes on `device` and asks at most `max_queries`, and the rows to measure it by: those that it
    was not trained on, with their labels."""
    estimator = load(model)
    estimator.device = device
    if max_queries is not None:
        estimator.max_queries = max_queries
    rows = unseen_rows(estimator, data, target, **reading)
    if rows.y is None:
        raise ValueError(f"{data} has no labels to measure by: name their column with --target.")
    return estimator, rows


def kept_measurement(model: Path, estimator: PursuitEstimator, rows: UnseenRows, stop: str | None) -> Measured | None:
    """What training measured, where that was on these rows and by this rule."""
    if str(estimator.stopping_rule(stop)) != str(estimator.stopping_rule()):
        return None
    assert isinstance(estimator, PursuitClassifier | PursuitRegressor)
    return kept(model, estimator, estimator.rows(rows.X, rows.y, initially_known=rows.initially_known))


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


def every_row(
    classifier: PursuitEstimator,
    data: str,
    target: str | None = None,
    id_column: str | None = None,
    **reading: Any,
) -> Iterator[RowsPart]:
    """All rows of a file, part by part and read as `unseen_rows` are, or those of a task that the model was not trained
    on."""
    trained = classifier.notes_.get("task", {})
    if data in TASKS:
        if id_column is not None:
            raise ValueError(f"{data} is a task, and its rows have no columns to name them by: leave --id out.")
        rows = _rows_of_task(data, _queries(classifier), trained)
        numbers = np.arange(len(rows.X))
        labels = None if rows.y is None else pd.Series(rows.y)
        yield RowsPart(rows.X, labels, "row", numbers, None, (), rows.initially_known)
        return
    for number, part in enumerate(rows_of_files(classifier, data, target, id_column, **reading)):
        for line in part.remarks:
            say(line)
        if part.absent and number == 0:
            say(
                f"{tasks.name_of(data)} lacks columns the model may ask for: {', '.join(part.absent[:10])}. They count "
                "as unknown."
            )
        yield part


def rows_of_files(
    classifier: PursuitEstimator,
    data: str,
    target: str | None = None,
    id_column: str | None = None,
    **reading: Any,
) -> EveryRow:
    """All rows of files, read as `unseen_rows` are."""
    if data in TASKS:
        raise ValueError(f"{data} is a task, whose rows are in memory: leave --engine out, or give files.")
    columns, given = columns_read(classifier), {name: value for name, value in reading.items() if value}
    trained = classifier.notes_.get("task", {})
    return rows_of_file(data, columns, trained, target=target, id_column=id_column, **given)


def columns_read(classifier: PursuitEstimator) -> list[str]:
    """The columns of a file that a model reads: a query set may ask several things of one."""
    return list(getattr(classifier, "feature_names_in_", _queries(classifier)))


def _queries(classifier: PursuitEstimator) -> list[str]:
    return [query.name for query in classifier.model_.query_set.queries]
