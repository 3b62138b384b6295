"""A task: data, query set and class names, with the settings that suit it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pursuit.queries import QuerySet


@dataclass(frozen=True)
class Task:
    """Labelled rows in two parts: to learn from, and to measure on. The second is never seen in training."""

    name: str
    query_set: QuerySet
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `VIPClassifier` that suit the task."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Where the rows come from, as JSON values; kept in a saved model."""
