"""How much rows and classes count in training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from pursuit.inference.pursuer import Labels, label_list

BALANCED = "balanced"


def checked_weights(sample_weight: Any, y: np.ndarray) -> np.ndarray:
    """The weights of rows as numbers (N,): 0 or more, not all of them 0."""
    weights: np.ndarray = _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
    return weights


def check_class_weight(class_weight: Any) -> None:
    """Raise ValueError for what is not a class_weight, whatever the classes."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == BALANCED):
        return
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight is 'balanced' or says by label how many rows one counts as, not {class_weight!r}."
        )
    wrong = [label for label, weight in class_weight.items() if not 0 < weight < np.inf]
    if wrong:
        raise ValueError(f"The class_weight of '{wrong[0]}' must be above 0 and finite, not {class_weight[wrong[0]]}.")


def weights_of_classes(class_weight: Any, classes: Labels, counts: np.ndarray) -> np.ndarray:
    """How many rows one of each class counts as (C,), from how many there are or from their shares; a class that a
    mapping does not name counts as it is."""
    labels = label_list(classes)
    if isinstance(class_weight, str):
        return counts.sum() / (len(labels) * counts)
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        named = ", ".join(map(str, labels[:10]))
        raise ValueError(f"class_weight names '{unknown[0]}', which is not a label of these rows ({named}).")
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])
