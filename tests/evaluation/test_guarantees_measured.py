"""What becomes of promises on rows with labels, against what the model says of each row."""

from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit.evaluation.curves import Setting, evaluation_counts
from pursuit.methods.naive_bayes import NaiveBayesIPClassifier


def noisy(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Three labels, and six columns that each tell one of them badly."""
    randomness = np.random.default_rng(seed)
    y = randomness.integers(3, size=n)
    tells = y[:, None] == np.arange(6) % 3
    answers = np.where(randomness.random((n, 6)) < 0.25, ~tells, tells)
    return pd.DataFrame(np.where(answers, "yes", "no"), columns=[f"q{i}" for i in range(6)]), np.array(list("abc"))[y]


@pytest.fixture(scope="module")
def model() -> NaiveBayesIPClassifier:
    return NaiveBayesIPClassifier(stop="risk=0.3,conformal=0.1", random_state=0).fit(*noisy(2000, 0))


def test_they_are_measured_at_the_stop(model: NaiveBayesIPClassifier) -> None:
    X, y = noisy(500, 1)
    found = model.evaluate(X, y).at_stop
    assert found is not None
    decided, remain = model.decided(X), model.predict_sets(X)
    assert 0 < decided.mean() < 1
    assert found.decided == pytest.approx(decided.mean())
    assert found.wrong_of_decided == pytest.approx((model.predict(X) != y)[decided].mean())
    assert found.covered == pytest.approx(remain[np.arange(500), np.searchsorted(model.classes_, y)].mean())
    assert found.mean_labels == pytest.approx(remain.sum(axis=1).mean())


def test_other_rules_promise_nothing(model: NaiveBayesIPClassifier) -> None:
    found = model.evaluate(*noisy(50, 1), stop="confidence=0.9").at_stop
    assert found is not None
    assert (found.decided, found.wrong_of_decided, found.covered, found.mean_labels) == (None,) * 4


def test_parts_add_up(model: NaiveBayesIPClassifier) -> None:
    rows = model.rows(*noisy(300, 2))
    setting = Setting.of(model.model_, model.stopping_rule(), in_detail=True)
    parts = [evaluation_counts(model.model_, rows.take(some), setting) for some in torch.arange(300).split(70)]
    assert setting.evaluation(reduce(add, parts)) == model.evaluate(*noisy(300, 2))


def test_without_any_row_decided_none_of_these_is_wrong() -> None:
    X, y = noisy(400, 3)
    with pytest.warns(UserWarning, match="left to a person"):
        model = NaiveBayesIPClassifier(stop="risk=0.05", random_state=0).fit(X, y)
    found = model.evaluate(X, y).at_stop
    assert found is not None
    assert (found.decided, found.wrong_of_decided) == (0.0, None)
