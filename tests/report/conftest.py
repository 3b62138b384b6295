"""Models that learn in no time: naive Bayes on a small table with hostile names, on patches, and for a number."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pages import EVIL, HOSTILE
from pursuit import PatchQueries
from pursuit.methods import NaiveBayesIPClassifier


@pytest.fixture(scope="session")
def table() -> tuple[pd.DataFrame, np.ndarray]:
    randomness = np.random.default_rng(0)
    n = 400
    fever, where, age = randomness.random(n) < 0.5, randomness.choice(["head", EVIL], n), randomness.integers(1, 90, n)
    label = np.where(where == EVIL, HOSTILE, np.where(age > 50, "stroke", np.where(fever, "flu & co", "migraine")))
    X = pd.DataFrame({HOSTILE: np.where(fever, "yes", "no"), "where": where, "age": age})
    X.loc[::20, "where"] = None
    return X, label


@pytest.fixture(scope="session")
def model(table: tuple[pd.DataFrame, np.ndarray]) -> Any:
    return NaiveBayesIPClassifier(stop="confidence=0.95").fit(*table)


@pytest.fixture(scope="session")
def images() -> tuple[np.ndarray, np.ndarray]:
    randomness = np.random.default_rng(0)
    y = randomness.integers(0, 3, 90)
    X = randomness.random((90, 1, 4, 4)) * 0.3
    for row, label in enumerate(y):
        X[row, 0, :, label] = 1.0
    return X, y


@pytest.fixture(scope="session")
def image_model(images: tuple[np.ndarray, np.ndarray]) -> Any:
    queries = PatchQueries((1, 4, 4), size=2, stride=2, threshold=0.5)
    return NaiveBayesIPClassifier(queries, stop="confidence=0.95").fit(*images)
