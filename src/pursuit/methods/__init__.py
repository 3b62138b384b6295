"""Methods: one file each, with a pursuer, at most one frozen settings class, and one estimator.

The smallest is `all_answers.py`. A method that is trained writes a learner with `forward` (V-IP's is `pursuit.vip.VIP`)
and an estimator with its `Model` and the decorator `@method`; one that is not writes `learn`, as `decision_tree.py`
does. A file dropped into this package is a method by being here, and one of your own may live in any file of yours
(docs/extending.md). What several methods share is in `shared`.
"""

import importlib
import pkgutil

from pursuit.estimators import Method, PursuitEstimator
from pursuit.methods.all_answers import AllAnswers, AllAnswersClassifier
from pursuit.methods.decision_tree import DecisionTree, TreeClassifier, TreeSettings
from pursuit.methods.dime import DIME, DIMEClassifier, DIMESettings
from pursuit.methods.fixed_order import FixedOrder, FixedOrderClassifier
from pursuit.methods.g_ip import GIP, ConvLayers, GIPClassifier, GIPSettings, Langevin
from pursuit.methods.gdfs import GDFS, GDFSClassifier, GDFSSettings
from pursuit.methods.naive_bayes import NaiveBayesIP, NaiveBayesIPClassifier, NaiveBayesSettings
from pursuit.methods.partial_vae import PartialVAE, PartialVAEClassifier, PartialVAESettings
from pursuit.methods.ram import RAM, RAMClassifier, RAMSettings
from pursuit.methods.random_order import RandomOrder, RandomOrderClassifier
from pursuit.methods.refuel import REFUEL, REFUELClassifier, REFUELSettings
from pursuit.methods.sefa import SEFA, SEFAClassifier, SEFASettings
from pursuit.methods.vip import VIPClassifier, VIPRegressor
from pursuit.registry import known

for _module in pkgutil.iter_modules(__path__):  # whatever else was dropped in
    importlib.import_module(f"{__name__}.{_module.name}")

METHODS = known(Method.registry_kind)
"""All methods by name, those registered later included."""


def method_of(estimator: PursuitEstimator) -> Method:
    """The method that an estimator is of, by its class and its parameters."""
    fitting = [
        method
        for method in METHODS.values()
        if type(estimator) is method.estimator
        and all(getattr(estimator, name) == value for name, value in method.parameters.items())
    ]
    unnamed = Method(type(estimator).__name__, type(estimator).__name__, type(estimator))
    return max(fitting, key=lambda method: len(method.parameters), default=unnamed)


__all__ = [
    "DIME",
    "GDFS",
    "GIP",
    "METHODS",
    "RAM",
    "REFUEL",
    "SEFA",
    "AllAnswers",
    "AllAnswersClassifier",
    "ConvLayers",
    "DIMEClassifier",
    "DIMESettings",
    "DecisionTree",
    "FixedOrder",
    "FixedOrderClassifier",
    "GDFSClassifier",
    "GDFSSettings",
    "GIPClassifier",
    "GIPSettings",
    "Langevin",
    "NaiveBayesIP",
    "NaiveBayesIPClassifier",
    "NaiveBayesSettings",
    "PartialVAE",
    "PartialVAEClassifier",
    "PartialVAESettings",
    "RAMClassifier",
    "RAMSettings",
    "REFUELClassifier",
    "REFUELSettings",
    "RandomOrder",
    "RandomOrderClassifier",
    "SEFAClassifier",
    "SEFASettings",
    "TreeClassifier",
    "TreeSettings",
    "VIPClassifier",
    "VIPRegressor",
    "method_of",
]
