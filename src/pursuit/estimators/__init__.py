"""Estimators in scikit-learn's manner: `VIPClassifier`, and what those around its rivals are made of."""

from pursuit.estimators.classifier import Fit, PursuitClassifier
from pursuit.estimators.network import CannotResume, NetworkClassifier, VIPClassifier, default_stages

__all__ = ["CannotResume", "Fit", "NetworkClassifier", "PursuitClassifier", "VIPClassifier", "default_stages"]
