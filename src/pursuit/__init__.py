"""Predictions that explain themselves by the questions they ask: Variational Information Pursuit."""

from pursuit.estimators import VIPClassifier
from pursuit.networks import DLA, MLP, Conv, DenseNet, PaperConv, Residual, SetNetwork
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, Query, QuerySet
from pursuit.session import Session
from pursuit.stages import Stage
from pursuit.stopping import AnyOf, Budget, Confidence, Stability, StoppingRule
from pursuit.version import __version__
from pursuit.vip import VIP

__all__ = [
    "DLA",
    "MLP",
    "VIP",
    "AnyOf",
    "Budget",
    "Choice",
    "ColumnQueries",
    "Confidence",
    "Conv",
    "DenseNet",
    "Number",
    "PaperConv",
    "PatchQueries",
    "Query",
    "QuerySet",
    "Residual",
    "Session",
    "SetNetwork",
    "Stability",
    "Stage",
    "StoppingRule",
    "VIPClassifier",
    "__version__",
]
