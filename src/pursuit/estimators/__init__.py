"""Estimators in scikit-learn's manner: what those of all methods share, and how they are saved."""

from pursuit.estimators.classifier import PursuitClassifier
from pursuit.estimators.method import Method, MethodClassifier, method
from pursuit.estimators.network import CannotResume, LearnerClassifier, NetworkClassifier, default_stages
from pursuit.estimators.saving import load

__all__ = [
    "CannotResume",
    "LearnerClassifier",
    "Method",
    "MethodClassifier",
    "NetworkClassifier",
    "PursuitClassifier",
    "default_stages",
    "load",
    "method",
]
