"""Results class by class."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.metrics import classification_report, confusion_matrix

from pursuit import Stage, VIPClassifier
from pursuit.evaluation.classes import class_results


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=1))
def test_they_agree_with_scikit_learn(n_classes: int, rows: list[tuple[int, int, int]]) -> None:
    y, predicted = (np.array([row[i] % n_classes for row in rows]) for i in (0, 1))
    n_asked = np.array([row[2] for row in rows])
    names = [f"class {i}" for i in range(n_classes)]
    found = class_results(names, torch.from_numpy(y), torch.from_numpy(predicted), torch.from_numpy(n_asked))
    labels = list(range(n_classes))
    assert [list(row) for row in found.confusion] == confusion_matrix(y, predicted, labels=labels).tolist()
    wanted = classification_report(y, predicted, labels=labels, target_names=names, output_dict=True, zero_division=0)
    for i, result in enumerate(found.classes):
        report = wanted[result.label]
        assert (result.label, result.n_rows) == (names[i], report["support"])
        assert result.precision == pytest.approx(report["precision"])
        assert result.recall == pytest.approx(report["recall"])
        assert result.f1 == pytest.approx(report["f1-score"])
        mean = n_asked[y == i].mean() if (y == i).any() else None
        assert result.mean_asked == (None if mean is None else pytest.approx(mean))


def test_they_are_those_of_the_predictions_at_the_stop() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = VIPClassifier(stages=[Stage(epochs=5)], stop="confidence=0.8", random_state=0).fit(X, y)
    evaluation = model.evaluate(X, y)
    found = evaluation.by_class
    assert found is not None
    assert found.labels == [0, 1, 2]
    assert found.confusion_frame().to_numpy().tolist() == confusion_matrix(y, model.predict(X)).tolist()
    lengths = np.array([len(chain) for chain in model.explain(X)])
    assert found.frame()["mean_asked"].tolist() == pytest.approx([lengths[y == label].mean() for label in (0, 1, 2)])
    assert evaluation.to_dict()["by_class"]["confusion"] == found.confusion


def test_the_mistakes_made_most_often_come_first() -> None:
    y, predicted = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]), torch.tensor([1, 1, 0, 0, 1, 2, 0, 0])
    found = class_results(["a", "b", "c"], y, predicted, torch.ones(8))
    assert found.most_confused() == [("a", "b", 2), ("c", "a", 2), ("b", "a", 1)]
    assert found.most_confused(1) == [("a", "b", 2)]
    assert found.confusion_frame().loc["c", "a"] == 2
