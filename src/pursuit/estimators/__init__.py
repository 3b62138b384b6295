"""Estimators in scikit-learn's manner: what those of all methods share, and how they are saved."""

from pursuit.estimators.lazy_imports import without_statistics

with without_statistics():
    import sklearn.base  # noqa: F401

from pursuit.estimators.base import PursuitEstimator
from pursuit.estimators.classifier import PursuitClassifier
from pursuit.estimators.method import Method, MethodClassifier, method
from pursuit.estimators.network import (
    LearnerClassifier,
    LearnerEstimator,
    NetworkClassifier,
    NetworkEstimator,
    TaughtClassifier,
    TaughtEstimator,
)
from pursuit.estimators.plan import default_stages
from pursuit.estimators.regressor import PursuitRegressor
from pursuit.estimators.saving import fingerprint, load
from pursuit.training.checkpoints import CannotResume

__all__ = [
    "CannotResume",
    "LearnerClassifier",
    "LearnerEstimator",
    "Method",
    "MethodClassifier",
    "NetworkClassifier",
    "NetworkEstimator",
    "PursuitClassifier",
    "PursuitEstimator",
    "PursuitRegressor",
    "TaughtClassifier",
    "TaughtEstimator",
    "default_stages",
    "fingerprint",
    "load",
    "method",
]
