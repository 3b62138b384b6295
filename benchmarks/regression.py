"""Predicting numbers: V-IP by its distribution after a few questions, beside models that read every column. Four
tables, each in five folds; settings were chosen with `--set validation=true`, which measures on a quarter of the rows
to learn from instead, and never reads the others."""

import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.common import read_frame
from benchmarks.report import NOTHING, Record, cell, grouped, origins, table
from benchmarks.study import Study, every
from pursuit import Stage, VIPRegressor

COVERAGE, N_FOLDS = 0.9, 5
TARGETS = {"diabetes": "progression", "diamonds": "price", "credit": "credit_amount", "bank": "age"}
MODELS = ("V-IP at its stop", "V-IP, all answers", "ridge regression", "gradient boosting", "mean")


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows of a table without the column to predict, and that column."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
        return X, y.to_numpy(dtype=float)
    frame = read_frame(name)
    return frame.drop(columns=TARGETS[name]), frame[TARGETS[name]].to_numpy(dtype=float)


def ridge() -> Any:
    """With words as indicators and numbers on one scale; the penalty by leaving rows out one at a time."""
    numbers, words = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    parts = (
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", min_frequency=5), words),
    )
    return make_pipeline(make_column_transformer(*parts), RidgeCV(np.logspace(-3, 4, 15)))


def scores(y: np.ndarray, predicted: np.ndarray, low: Any = None, high: Any = None) -> Record:
    """R² and mean absolute error, and of intervals how many rows they cover and how wide they are."""
    found = {"r2": r2_score(y, predicted), "mae": mean_absolute_error(y, predicted)}
    if low is not None:
        found |= {"coverage": float(np.mean((low <= y) & (y <= high))), "width": float(np.mean(high - low))}
    return found


def measure(
    target: str,
    fold: int,
    validation: bool = False,
    max_rows: int | None = None,
    epochs: float | None = None,
    vip: Record | None = None,
) -> Record:
    """What each model gives on the rows of a fold, having learnt from the others; `vip` has settings of V-IP."""
    X, y = (part[:max_rows] for part in read(target))
    train, test = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(X))[fold]
    if validation:
        train, test = train_test_split(train, test_size=0.25, random_state=fold)
    stages = {} if epochs is None else {"stages": [Stage(epochs)]}
    started = time.monotonic()
    model = VIPRegressor(random_state=fold, **stages, **(vip or {})).fit(X.iloc[train], y[train])
    seconds = time.monotonic() - started
    evaluation = model.evaluate(X.iloc[test], y[test])
    categories = X.astype(dict.fromkeys(X.select_dtypes(exclude="number").columns, "category"))

    def boosted(**loss: Any) -> np.ndarray:
        learner = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0, **loss)
        return learner.fit(categories.iloc[train], y[train]).predict(categories.iloc[test])

    ends = (boosted(loss="quantile", quantile=(1 + sign * COVERAGE) / 2) for sign in (-1, 1))
    return {
        "n_rows": len(y),
        "n_columns": X.shape[1],
        "spread": float(y.std()),
        "models": {
            MODELS[0]: {**asdict(evaluation.at_stop), "seconds": seconds, "n_bins": len(model.bins_)},
            MODELS[1]: asdict(evaluation.all_answers),
            MODELS[2]: scores(y[test], ridge().fit(X.iloc[train], y[train]).predict(X.iloc[test])),
            MODELS[3]: scores(y[test], boosted(), *ends),
            MODELS[4]: scores(y[test], np.full(len(test), y[train].mean())),
        },
        "r2_by_asked": [point.r2 for point in evaluation.by_asked],
    }


def page(records: list[Record]) -> dict[str, str]:
    sections = {}
    for name, folds in grouped(records, "target").items():
        after = ", ".join(f"{cell(folds, f'r2_by_asked.{n}|.3f')} after {n}" for n in (1, 3, 5))
        first = folds[0]["models"][MODELS[0]]
        said = (
            f"{folds[0]['n_rows']:,} rows, {folds[0]['n_columns']} columns; the standard deviation is "
            f"{cell(folds, 'spread|figure')}. {first['n_bins']} bins; the rule of the first fold is `{first['rule']}`. "
            f"R² of V-IP: {after} questions.\n\n"
        )
        forms = {"r2": ".3f±", "mae": "figure", "coverage": ".1%", "width": "figure"}
        rows = []
        for model in MODELS:
            asked = cell(folds, f"models.{model}.mean_asked|.1f")
            asked = folds[0]["n_columns"] if asked == NOTHING else asked
            rows.append([model, asked, *(cell(folds, f"models.{model}.{key}|{form}") for key, form in forms.items())])
        sections[name] = said + table(["model", "questions", "R²", "mean error", "covered", "width"], rows)
    return {**sections, "origins": origins(records, "target")}


STUDY = Study(
    name="regression",
    runs=every(target=TARGETS, fold=range(N_FOLDS)),
    measure=measure,
    page=page,
    quick={"max_rows": 120, "epochs": 2},
)
