"""A task: data, query set and class names, with the settings that suit it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pursuit.pursuer import Pursuer
from pursuit.queries import QuerySet
from pursuit.rows import StreamedRows
from pursuit.tasks.files import DataFile


@dataclass(frozen=True)
class Task:
    """Labelled rows in two parts: to learn from, and to measure on. The second is never seen in training."""

    name: str
    query_set: QuerySet
    X_train: Any
    """Rows as the query set reads them, or `StreamedRows`."""
    y_train: Any
    """Labels; None where rows are streamed with theirs."""
    X_test: Any
    y_test: np.ndarray
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Where the rows come from, as JSON values; kept in a saved model."""
    opening_train: np.ndarray | None = None
    """(N, Q) bool: the answers that are given before anything is asked, such as what a patient complains of."""
    opening_test: np.ndarray | None = None
    picture: Callable[[int], np.ndarray] | None = None
    """A picture (H, W, 3) of a row to measure on, where its queries are about one."""
    exact: Callable[[], Pursuer] | None = None
    """Exact Information Pursuit where it can be had, with the classes in their order; to compare with."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `VIPClassifier` that suit the task."""

    def to_choose_by(self, share: float = 0.1, seed: int = 0) -> "Task":
        """The same task measured on rows taken from those to learn from: to choose settings without a look at the
        test rows."""
        if isinstance(self.X_train, StreamedRows):
            raise ValueError(f"{self.name} streams its rows: load it with another seed to choose settings by.")
        order = np.random.default_rng(seed).permutation(len(self.y_train))
        test, train = np.split(order, [round(share * len(order))])

        def rows(index: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
            return (
                take_rows(self.X_train, index),
                self.y_train[index],
                None if self.opening_train is None else self.opening_train[index],
            )

        (X_train, y_train, opening_train), (X_test, y_test, opening_test) = rows(train), rows(test)
        return replace(
            self,
            X_train=X_train,
            y_train=y_train,
            X_test=X_test,
            y_test=y_test,
            notes={**self.notes, "measured_on": f"{share:.0%} of the rows to learn from"},
            opening_train=opening_train,
            opening_test=opening_test,
            picture=None,
        )


@dataclass(frozen=True)
class TaskInfo:
    """What is known of a task before its data are loaded."""

    name: str
    title: str
    load: Callable[[int], Task]
    """The task for a seed; official splits and query sets do not depend on it."""
    n_queries: int
    n_classes: int
    n_train: int
    n_test: int
    files: tuple[DataFile, ...] = ()
    """What must be on the machine; nothing for embedded tasks."""


def take_rows(X: Any, index: Any) -> Any:
    """Some rows of a DataFrame or an array, by their numbers or a slice."""
    return X.iloc[index] if hasattr(X, "iloc") else X[index]
