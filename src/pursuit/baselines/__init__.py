"""Rivals of V-IP: one file a method, each a pursuer with an estimator around it. What several share is in `shared`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pursuit import saving
from pursuit.baselines.all_answers import AllAnswers, AllAnswersClassifier
from pursuit.baselines.decision_tree import DecisionTree, TreeClassifier
from pursuit.baselines.dime import DIME, DIMEClassifier, DIMESettings
from pursuit.baselines.fixed_order import FixedOrder, FixedOrderClassifier
from pursuit.baselines.g_ip import GIP, GIPClassifier, GIPSettings
from pursuit.baselines.gdfs import GDFS, GDFSClassifier, GDFSSettings
from pursuit.baselines.naive_bayes import NaiveBayesIP, NaiveBayesIPClassifier
from pursuit.baselines.partial_vae import PartialVAE, PartialVAEClassifier, PartialVAESettings
from pursuit.baselines.ram import PPO, RAM, RAMClassifier
from pursuit.baselines.random_order import RandomOrder, RandomOrderClassifier
from pursuit.baselines.refuel import REFUEL, PolicyGradient, REFUELClassifier
from pursuit.estimators import PursuitClassifier, VIPClassifier


@dataclass(frozen=True)
class Method:
    """A way to ask and to believe, by the name it has in the program."""

    name: str
    title: str
    """As figures and tables have it."""
    estimator: type[PursuitClassifier]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the estimator that make it this method."""


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("vip", "V-IP", VIPClassifier),
        Method("random", "random order", RandomOrderClassifier),
        Method("fixed", "fixed order", FixedOrderClassifier),
        Method("tree", "decision tree", TreeClassifier),
        Method("naive-bayes", "naive-Bayes IP", NaiveBayesIPClassifier),
        Method("all-answers", "all answers", AllAnswersClassifier),
        Method("g-ip", "G-IP", GIPClassifier),
        Method("ram", "RAM", RAMClassifier, {"settings": PPO.quick("last")}),
        Method("ram+", "RAM+", RAMClassifier, {"settings": PPO.quick("sum")}),
        Method("partial-vae", "Partial VAE", PartialVAEClassifier),
        Method("gdfs", "GDFS", GDFSClassifier),
        Method("dime", "DIME", DIMEClassifier),
        Method("refuel", "REFUEL", REFUELClassifier),
    )
}


def load_classifier(folder: str | Path) -> PursuitClassifier:
    """The classifier that any of the methods saved in `folder`."""
    kind = saving.kind_of(folder)
    estimators = {method.estimator.kind.__name__: method.estimator for method in METHODS.values()}
    if kind not in estimators:
        raise ValueError(f"{folder} holds a {kind}, which no method here knows: {', '.join(METHODS)}.")
    return estimators[kind].load(folder)


__all__ = [
    "DIME",
    "GDFS",
    "GIP",
    "METHODS",
    "PPO",
    "RAM",
    "REFUEL",
    "AllAnswers",
    "AllAnswersClassifier",
    "DIMEClassifier",
    "DIMESettings",
    "DecisionTree",
    "FixedOrder",
    "FixedOrderClassifier",
    "GDFSClassifier",
    "GDFSSettings",
    "GIPClassifier",
    "GIPSettings",
    "Method",
    "NaiveBayesIP",
    "NaiveBayesIPClassifier",
    "PartialVAE",
    "PartialVAEClassifier",
    "PartialVAESettings",
    "PolicyGradient",
    "RAMClassifier",
    "REFUELClassifier",
    "RandomOrder",
    "RandomOrderClassifier",
    "TreeClassifier",
    "load_classifier",
]
