"""Labels as users give them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import VIPClassifier
from pursuit.estimators.validation import plain_labels
from small_table import QUICKEST, patients

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("as_object", [lambda y: np.array(y, dtype=object), lambda y: pd.Series(y, dtype=object)])
def test_numbers_among_words_are_words(as_object: Any) -> None:
    assert plain_labels(as_object([1, "high", 2.0, 2.5])).tolist() == ["1", "high", "2", "2.5"]


def test_labels_of_one_type_stay_as_they_are() -> None:
    for labels in (np.array([1, 2]), ["a", "b"], pd.Series([1.0, 2.0]), np.array([1, 2], dtype=object)):
        assert plain_labels(labels) is labels
    assert plain_labels(np.array([1, 2]), as_words=True).tolist() == ["1", "2"]
    missing = np.array([1, "a", None], dtype=object)
    assert plain_labels(missing) is missing  # which the estimator refuses


@pytest.mark.parametrize(
    "of_library",
    [
        pl.Series,
        lambda y: pl.Series(y, dtype=pl.Categorical),
        lambda y: pa.chunked_array([list(y)]),
        pa.array,
        pd.Series,
    ],
    ids=["polars", "categories", "arrow", "arrow array", "pandas"],
)
def test_labels_of_any_library(of_library: Any) -> None:
    X, y = patients()
    model = VIPClassifier(random_state=0, **QUICKEST).fit(X, of_library(y.tolist()))
    assert model.classes_.tolist() == ["flu", "gastritis", "migraine"]
    assert model.score(X, of_library(y.tolist())) == model.score(X, y)


def test_labels_of_several_types_are_learnt_and_measured() -> None:
    X, y = patients()
    labels = np.array([{"flu": 1, "gastritis": "stomach", "migraine": 2}[label] for label in y], dtype=object)
    model = VIPClassifier(random_state=0, **QUICKEST).fit(X, labels)
    assert model.classes_.tolist() == ["1", "2", "stomach"]
    numbers = labels != "stomach"
    assert model.evaluate(X[numbers], labels[numbers].astype(int)).n_rows == numbers.sum()
    assert model.score(X, labels) == np.mean(model.predict(X) == labels.astype(str))
