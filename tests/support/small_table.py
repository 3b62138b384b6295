"""What tests of estimators share: a small messy table, patients drawn by a rule, and a plan that takes a second."""

from typing import Any

import numpy as np
import pandas as pd
import torch

from pursuit import MLP, ColumnQueries, Stage, VIPClassifier, yes_no
from pursuit.research.tasks.symcat import Patients
from pursuit.training import AdamW

QUICK = {"network": MLP((32,)), "stages": [Stage(20, optimizer=AdamW(1e-2), batch_size=32)], "teachers": None}
QUICKEST = {"network": MLP((4,)), "stages": [Stage(0.1, batch_size=32)], "teachers": None}
"""Where it does not matter what is learnt."""


def patients(n: int = 120, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Yes/no, words, numbers and missing values; two columns give the label away."""
    randomness = np.random.default_rng(seed)
    fever = randomness.random(n) < 0.5
    where = randomness.choice(["head", "chest", "belly"], n)
    y = np.where(where == "belly", "gastritis", np.where(fever, "flu", "migraine"))
    X = pd.DataFrame(
        {
            "fever": np.where(fever, "yes", "no"),
            "where": pd.Categorical(where),
            "age": randomness.integers(1, 90, n).astype(float),
            "smokes": randomness.random(n) < 0.3,
        }
    )
    X.loc[::9, "age"] = np.nan
    X.loc[::13, "where"] = np.nan
    return X, y


def reporting_patients(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The same table, with about a third of the answers initially known."""
    X, y = patients(seed=seed)
    return X, y, np.random.default_rng(seed).random(X.shape) < 0.35


DISEASES = torch.tensor([[0.9, 0.1, 0.6, 0.0], [0.1, 0.8, 0.6, 0.1], [0.05, 0.05, 0.5, 0.9]])
SYMPTOMS = ColumnQueries([yes_no(name) for name in ("fever", "rash", "cough", "itch")])
PATIENTS = Patients(["flu", "measles", "eczema"], DISEASES, n_rows=200)


def symptom_classifier(**changes: Any) -> VIPClassifier:
    """An estimator for patients that are drawn while it learns."""
    plan = {"network": MLP((16,)), "stages": [Stage(8, optimizer=AdamW(1e-2), batch_size=32)], "random_state": 0}
    return VIPClassifier(SYMPTOMS, **{**plan, **changes})


def drawn_patients(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Their symptoms, diseases, and what they report unasked."""
    rows = PATIENTS.draw(n, torch.Generator().manual_seed(99))
    assert rows.initially_known is not None
    return (rows.x > 0).int().numpy(), np.array(PATIENTS.classes)[rows.y.numpy()], rows.initially_known.numpy()
