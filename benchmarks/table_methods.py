"""What `benchmarks/tables.py` measures: V-IP, methods of ours that ask as well, and others on all columns at once."""

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pursuit.estimators import PursuitClassifier
from pursuit.evaluation.curves import evaluate
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Confidence
from pursuit.methods import METHODS
from table_data import Split, typed
from table_trees import measure_trees

BINS = 10
"""Of equal width between 0 and 1, by the confidence of the predicted label."""
CHANCE_DRAWS = 200
MOST_PAIRS, FEWER_ROWS = 100_000, 1_000
"""With more queries times labels than this, asking is measured on this many test rows: it takes too long on all."""
LONGEST = 100
"""How many questions a curve goes on for at most."""
RULES = tuple(Confidence(c) for c in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999))
"""Accuracy against the mean number of questions is measured by these."""
Found = dict[str, Any]


class Stopwatch:
    """Seconds since it was made: by the clock, and of computing, which a busy machine does not change as much."""

    def __init__(self) -> None:
        self.start, self.computed = time.perf_counter(), time.process_time()

    def read(self, what: str) -> dict[str, float]:
        seconds, computed = time.perf_counter() - self.start, time.process_time() - self.computed
        return {f"{what}_seconds": seconds, f"{what}_cpu_seconds": computed}


def calibration(confidence: np.ndarray, right: np.ndarray) -> Found:
    """The mean gap between confidence and accuracy over ten bins, with the rows and the sums of each bin (`bins`), so
    that those of several seeds can be put together. `by_chance` is the gap that a perfectly calibrated classifier with
    these confidences has on average, because there are only so many rows."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    n, sure, hits = (np.bincount(bins, part, BINS) for part in (np.ones_like(confidence), confidence, right))
    drawn = np.random.default_rng(0).random((CHANCE_DRAWS, len(confidence))) < confidence
    by_chance = [np.abs(sure - np.bincount(bins, one, BINS)).sum() / len(right) for one in drawn]
    each = [list(one) for one in zip(n.astype(int).tolist(), sure.tolist(), hits.tolist(), strict=True)]
    return {"ece": expected_error(each), "by_chance": float(np.mean(by_chance)), "bins": each}


def expected_error(bins: list[list[float]]) -> float:
    """The calibration error of bins (rows, sum of confidences, rows that are right)."""
    return sum(abs(sure - right) for _, sure, right in bins) / sum(n for n, _, _ in bins)


def measure_pursuer(classifier: PursuitClassifier, split: Split) -> Found:
    """An estimator that asks, with nothing set but its seed: at its own stop, along its chains, on all answers."""
    fitting = Stopwatch()
    classifier.fit(split.X_train, split.y_train)
    fit_time = fitting.read("fit")
    if split.X_test.shape[1] * len(classifier.classes_) > MOST_PAIRS:
        some = np.random.default_rng(0).permutation(len(split.y_test))[:FEWER_ROWS]
        split = replace(split, X_test=split.X_test.iloc[some], y_test=split.y_test[some])
    predicting = Stopwatch()
    asked, posterior = at_stop(classifier, split.X_test)
    predict_time = predicting.read("predict")
    right = classifier.classes_[posterior.argmax(axis=1)] == split.y_test
    rows = classifier.rows(split.X_test, split.y_test)
    along = evaluate(classifier.model_, rows, None, LONGEST, trade_off=RULES)
    return {
        "n_test": len(split.y_test),
        "rule": str(classifier.stopping_rule()),
        "model": type(classifier.model_).__name__,
        "asked": float(asked.mean()),
        "at_stop": float(right.mean()),
        "calibration": calibration(posterior.max(axis=1), right),
        "all_answers": along.accuracy_all_answers,
        "curve": along.accuracy_by_asked,
        "trade_off": [[0.0, along.accuracy_by_asked[0]], *([one.mean_asked, one.accuracy] for one in along.trade_off)],
        **fit_time,
        **predict_time,
    }


@torch.no_grad()
def at_stop(classifier: PursuitClassifier, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """How much is asked of each row (N,), and the belief then (N, C), as `predict_proba` gives it."""
    answers = classifier.rows(X, np.repeat(classifier.classes_[:1], len(X)))
    asked, posterior = torch.zeros(len(X)), torch.zeros(len(X), len(classifier.classes_))
    for step in pursue_in_batches(classifier.model_, answers.x, answers.available, classifier.stopping_rule()):
        asked[step.rows] = step.n_asked.float()
        posterior[step.rows] = step.log_posterior.exp().float()
    return asked.numpy(), posterior.numpy()


def measure_all_columns(model: BaseEstimator, split: Split) -> Found:
    """An estimator that sees all columns at once."""
    X, X_test = typed(split)
    fitting = Stopwatch()
    model.fit(X, split.y_train)
    fit_time = fitting.read("fit")
    predicting = Stopwatch()
    posterior = model.predict_proba(X_test)
    predict_time = predicting.read("predict")
    right = model.classes_[posterior.argmax(axis=1)] == split.y_test
    return {
        "all_answers": float(right.mean()),
        "calibration": calibration(posterior.max(axis=1), right),
        **fit_time,
        **predict_time,
    }


def indicators(X: pd.DataFrame) -> Any:
    """One-hot words, a missing one included, and numbers as they are."""
    words = X.columns[X.dtypes == "category"]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    return one_hot, words, X.columns.difference(words, sort=False)


class AllColumns(BaseEstimator):
    """A classifier behind one-hot words and numbers whose gaps are filled by medians, perhaps standardised."""

    def __init__(self, model: Any, standardise: bool):
        self.model, self.standardise = model, standardise

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> "AllColumns":
        one_hot, words, numbers = indicators(X)
        steps = [SimpleImputer(strategy="median"), *([StandardScaler()] if self.standardise else [])]
        columns = make_column_transformer((make_pipeline(*steps), numbers), (one_hot, words))
        self.pipeline_ = make_pipeline(columns, self.model).fit(X, y)
        self.classes_ = self.pipeline_.classes_
        return self

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.pipeline_.predict_proba(X)


def logistic(seed: int) -> Any:
    return AllColumns(LogisticRegression(max_iter=1000), standardise=True)


def boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)


def forest(seed: int) -> Any:
    return AllColumns(RandomForestClassifier(300, n_jobs=1, random_state=seed), standardise=False)


def ebm(seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(n_jobs=1, random_state=seed)


def measure_tree(split: Split, seed: int) -> Found:
    """Trees of many sizes; which of them is shown depends on how much V-IP asks. Numbers keep their gaps."""
    fitting = Stopwatch()
    X, X_test = typed(split)
    one_hot, words, numbers = indicators(X)
    columns = make_column_transformer((one_hot, words), ("passthrough", numbers), verbose_feature_names_out=False)
    features, features_test = (
        np.asarray(part, dtype=np.float32) for part in (columns.fit_transform(X), columns.transform(X_test))
    )
    n_of_word = (
        [len(categories) for categories in columns.named_transformers_["onehotencoder"].categories_]
        if len(words)
        else []
    )
    column_of = np.repeat(np.arange(X.shape[1]), [*n_of_word, *[1] * len(numbers)])
    labels, y = np.unique(split.y_train, return_inverse=True)
    trees = measure_trees(features, y, features_test, np.searchsorted(labels, split.y_test), column_of, seed)
    return {"trees": trees, **fitting.read("fit")}


TITLES = {
    "vip": "V-IP",
    "naive-bayes": "naive-Bayes IP",
    "gdfs": "GDFS",
    "tree": "decision tree",
    "logistic": "logistic regression",
    "hgb": "gradient boosting",
    "forest": "random forest",
    "ebm": "EBM",
}
ON_ALL: dict[str, Callable[[int], Any]] = {"logistic": logistic, "hgb": boosting, "forest": forest, "ebm": ebm}
"""What sees all columns at once."""


def measure(method: str, split: Split, seed: int) -> Found:
    """What is found by a method: one of `TITLES`, or any method of ours by its name."""
    torch.manual_seed(seed)
    if method == "tree":
        return measure_tree(split, seed)
    if method in ON_ALL:
        return measure_all_columns(ON_ALL[method](seed), split)
    return measure_pursuer(METHODS[method].build(random_state=seed), split)


def is_own(method: str) -> bool:
    """Whether what is found depends on the code of this project."""
    return method in METHODS and method not in ON_ALL and method != "tree"


def available(method: str) -> bool:
    return method != "ebm" or find_spec("interpret") is not None
