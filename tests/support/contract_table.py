"""The table of the contract suite: how each method is trained there, in seconds, and what is peculiar to it.

A method that is not here fails `test_contract.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pursuit.estimators import PursuitClassifier
from pursuit.estimators.tuned import Tuned
from pursuit.inference.stopping import Budget, Confidence
from pursuit.information import AnswerSettings
from pursuit.methods import (
    METHODS,
    DIMESettings,
    GDFSSettings,
    GIPSettings,
    NaiveBayesSettings,
    PartialVAESettings,
    RAMSettings,
    REFUELSettings,
    SEFASettings,
    TreeSettings,
)
from pursuit.methods.g_ip import Langevin
from pursuit.networks import MLP, SetNetwork
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.training import SGD, Adam, AdamW, CarriedHistories, RandomHistories, RolledOutHistories, Stage
from pursuit.training.rows import Shifts, Unreliable

NETWORKS = {"network": MLP((24,)), "stages": [Stage(6, optimizer=AdamW(3e-2), batch_size=32)]}
UNTAUGHT = {**NETWORKS, "teachers": None}
QUICK: dict[str, dict[str, Any]] = {
    "vip": NETWORKS,
    "vip-information": NETWORKS,
    "vip-straight-through": NETWORKS,
    "random": UNTAUGHT,
    "fixed": UNTAUGHT,
    "tree": {},
    "naive-bayes": {},
    "all-answers": UNTAUGHT,
    "g-ip": {
        "stages": [Stage(20, optimizer=AdamW(1.5e-2), batch_size=32)],
        "settings": GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=16)),
    },
    "ram": NETWORKS,
    "ram+": NETWORKS,
    "partial-vae": {**NETWORKS, "settings": PartialVAESettings(latent=4, width=24)},
    "gdfs": UNTAUGHT,
    "dime": UNTAUGHT,
    "refuel": NETWORKS,
    "sefa": {**UNTAUGHT, "settings": SEFASettings(latent=3, width=8, samples=16)},
}
"""Parameters with which a method learns enough, and is quick enough, for tests."""

TINY: dict[str, Any] = {"network": MLP((4,)), "stages": [Stage(0.1, batch_size=32)], "teachers": None}
"""Parameters for those of scikit-learn's checks that do not look at what was learnt."""
SHORT: dict[str, Any] = {
    "network": MLP((24,)),
    "stages": [Stage(8, CarriedHistories(4), AdamW(0.03), batch_size=32, average=0.5)],
}
CHECKED: dict[str, dict[str, Any]] = {
    **{name: {**parameters, **SHORT} if "network" in parameters else parameters for name, parameters in QUICK.items()},
    **{name: {**SHORT, "teachers": None} for name in ("vip", "vip-information", "vip-straight-through")},
    "tree": {"settings": TreeSettings(pruning=0.01)},
    "g-ip": {
        "stages": SHORT["stages"],
        "settings": GIPSettings(latent=2, hidden=(16,), langevin=Langevin(n_chains=4, burn_in=5)),
    },
    "partial-vae": {**SHORT, "settings": PartialVAESettings(latent=4, width=24, samples=4)},
    "ram": {**SHORT, "settings": RAMSettings(lr=0.03)},
    "refuel": {**SHORT, "stages": [stage.scaled(3) for stage in SHORT["stages"]]},
}
"""Parameters for those of scikit-learn's checks that want to see something learnt."""

OTHER_PARAMETERS: dict[str, Any] = {
    "query_set": ColumnQueries([yes_no(name) for name in "abcdefgh"]),
    "stop": Confidence(0.9) | Budget(7),
    "column_types": {"a": "choice"},
    "missing_informs": True,
    "class_weight": {0: 2.0, 3: 0.5},
    "max_queries": 5,
    "random_state": 17,
    "verbose": False,
    "device": "auto",
    "stages": [
        Stage(2, RandomHistories(3), Adam(1e-4, amsgrad=True), schedule="constant", exploration=(0.2, 0.1)),
        Stage(0.5, RolledOutHistories(), SGD(0.1), period=0.25, average=0.0, augment=Shifts(1), phase="late"),
    ],
    "held_out": 0.2,
    "devices": 2,
    "network": SetNetwork(4, "max", 5, (6,)),
    "standardise": True,
    "shared": True,
    "querier": "information",
    "lookahead": 3,
    "cost_aware": True,
    "answers": AnswerSettings(rank=3, n_bins=4, smoothing=1.0),
    "teachers": None,
    "calibration": 0.1,
    "unreliable": Unreliable(withheld=0.1, wrong=0.05),
    "tuned": Tuned(lr=2.0, weight_decay=0.5, effort=2.0, random_share=0.5, width=2.0, dropout=0.5),
    "guarantee_share": 0.3,
}
"""Parameters of which none is the default, for every estimator that has them."""
OTHER_SETTINGS: dict[str, Any] = {
    "tree": TreeSettings(pruning=0.01),
    "naive-bayes": NaiveBayesSettings(smoothing=0.5, n_bins=5, cost_aware=True),
    "g-ip": GIPSettings(latent=3, hidden=(9, 7), langevin=Langevin(n_chains=4, burn_in=5, step=0.2, clip=None)),
    "ram": RAMSettings("sum", lr=1e-3, clip=0.3, entropy=0.02, passes=2, trace=0.9, random_share=0.5),
    "ram+": RAMSettings("sum", lr=1e-3, clip=0.3, entropy=0.02, passes=2, trace=0.9, random_share=0.5),
    "partial-vae": PartialVAESettings(4, 24, label_weight=2.0, reward="label", samples=4, candidates=None, labels=8),
    "gdfs": GDFSSettings(temperature=(1.0, 0.2), pretraining=0.25),
    "dime": DIMESettings(penalty=0.01, epsilon=(0.3, 0.1), candidates=2, pretraining=0.25),
    "sefa": SEFASettings(latent=3, width=8, beta=0.01, training_samples=3, samples=12, labels=2),
    "refuel": REFUELSettings(
        lr=1e-3, positive=0.5, rebuilding=0.5, entropy=0.02, discount=0.9, trace=0.4, random_share=0.5
    ),
}
"""Settings of which none is the default, for every method that has settings of its own."""

EQUIVALENT_WEIGHTS = tuple(f"check_sample_weight_equivalence_on_{data}_data" for data in ("dense", "sparse"))
"""scikit-learn's checks that a row of weight 2 is the same as a row twice, to the last digit."""
OF_WHAT_IS_LEARNT = {
    "check_class_weight_balanced_classifiers",
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_regressors_train",
}
"""scikit-learn's checks that want good predictions; the others fit, but do not look at what was learnt."""
UNSUITED = {("refuel", "patches"), ("vip-information", "patches")}
"""Methods that say of a world that it is not for them."""
RANDOM = {"random"}
"""Methods whose scores are drawn again each time."""
SAMPLED = {"g-ip"}
"""Methods whose posterior is estimated from samples, and differs a little with the way to a history."""


@dataclass(frozen=True)
class World:
    query_set: QuerySet | None
    X: Any
    y: np.ndarray
    initially_known: np.ndarray | None = None


def table() -> World:
    """Yes/no, words and numbers, a tenth of the answers missing; labels are words."""
    randomness = np.random.default_rng(0)
    n = 160
    y = randomness.choice(["allergy", "cold", "flu"], n, p=[0.2, 0.5, 0.3])
    fever = randomness.random(n) < np.select([y == "allergy", y == "cold"], [0.05, 0.3], 0.95)
    season = np.where(y == "allergy", "spring", randomness.choice(["summer", "winter", "autumn"], n))
    age = randomness.normal(np.where(y == "flu", 60, 30), 12)
    X = pd.DataFrame({"fever": fever, "season": season, "age": age, "smokes": randomness.random(n) < 0.3})
    X = X.astype({"fever": object, "smokes": object}).mask(randomness.random(X.shape) < 0.1)
    return World(None, X, y)


def reports() -> World:
    """Yes/no queries, of which one yes is given unasked, as patients report a symptom."""
    randomness = np.random.default_rng(1)
    yes = randomness.random((4, 8))
    y = randomness.integers(4, size=240)
    X = (randomness.random((240, 8)) < yes[y]).astype(int)
    initially_known = np.zeros((240, 8), dtype=bool)
    reporting = X.any(axis=1)
    initially_known[reporting, X[reporting].argmax(axis=1)] = True
    return World(None, X, y, initially_known)


def patches() -> World:
    """Three pictures of 6x6 pixels, black and white, each pixel wrong in a tenth of the rows."""
    randomness = np.random.default_rng(2)
    pictures = randomness.random((3, 6, 6)) < 0.5
    y = randomness.integers(3, size=150)
    X = pictures[y] ^ (randomness.random((150, 6, 6)) < 0.1)
    return World(PatchQueries((1, 6, 6), size=2, stride=2, threshold=0.5), X.astype(np.float32), y)


WORLDS: dict[str, Callable[[], World]] = {"table": table, "reports": reports, "patches": patches}


def make_estimator(method: str, world: str, **parameters: Any) -> PursuitClassifier:
    """The estimator of a method for a world, with quick parameters."""
    chosen = METHODS[method]
    given = {"random_state": 0, **QUICK[method], **chosen.parameters, **parameters}
    return chosen.estimator(WORLDS[world]().query_set, **given)
