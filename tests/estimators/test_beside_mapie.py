"""Our sets of labels and thresholds beside those of MAPIE, on the same beliefs."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

from pursuit import ConformalSet
from pursuit.estimators.guarantees import HeldOutChains, choose_level, conformal_threshold

mapie_classification = pytest.importorskip("mapie.classification")


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are the beliefs themselves."""

    def fit(self, X: Any, y: Any) -> "Given":
        self.classes_ = np.arange(np.shape(X)[1])
        self.is_fitted_ = True
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(X)

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(X).argmax(axis=1)


def beliefs(n: int, seed: int, spread: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated beliefs over five labels, and labels."""
    randomness = np.random.default_rng(seed)
    posterior = randomness.dirichlet([spread] * 5, n)
    return posterior, np.array([randomness.choice(5, p=row) for row in posterior])


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
def test_sets_are_those_of_mapie_with_the_likeliest_label_added(alpha: float) -> None:
    posterior, y = beliefs(400, 0)
    new, _ = beliefs(300, 1)
    theirs = mapie_classification.SplitConformalClassifier(
        Given().fit(posterior, y), confidence_level=1 - alpha, conformity_score="lac", prefit=True
    )
    theirs.conformalize(posterior, y)
    _, sets = theirs.predict_set(new)
    least = conformal_threshold(posterior[np.arange(len(y)), y], alpha)
    own = ConformalSet(alpha, least=(least,)).label_set(torch.from_numpy(new)).numpy()
    likeliest = new == new.max(axis=1, keepdims=True)
    assert np.array_equal(own, sets[:, :, 0] | likeliest)
    if alpha == 0.5:
        assert not sets[:, :, 0].any(axis=1).all()  # there are empty sets, which say nothing to a person


def test_thresholds_decide_as_many_rows_as_those_of_mapie() -> None:
    """Where every row is asked the same, "decided and right" is precision, which MAPIE can control too: by Hoeffding
    and Bentkus' bound, corrected for the number of thresholds, where ours is exact and needs no correction."""
    risk_control = pytest.importorskip("mapie.risk_control")
    ours, theirs = [], []
    for seed in range(5):
        posterior, y = beliefs(500, seed, 0.15)
        sure, right = posterior.max(axis=1), posterior.argmax(axis=1) == y
        controller = risk_control.BinaryClassificationController(
            predict_function=lambda X: np.column_stack([1 - X[:, 0], X[:, 0]]),
            risk="precision",
            target_level=0.9,
            confidence_level=0.9,
            list_predict_params=np.linspace(0.5, 0.99, 50),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where none is found
            controller.calibrate(sure[:, None], right.astype(int))
        found = controller.best_predict_param
        theirs.append(0.0 if found is None else float(np.mean(sure >= found)))
        stops, wrong = HeldOutChains(sure[:, None].astype(np.float32), ~right[:, None]).at_every_level()
        level = choose_level(stops, wrong, 0, 0.1, 0.1)
        ours.append(0.0 if level is None else float((stops[level] == 0).mean()))
    assert np.mean(ours) >= np.mean(theirs) > 0
