"""Predicting numbers: V-IP by its distribution after a few questions, beside models that read every column.

Four tables, each in five folds: models learn from four of them and are measured on the fifth. Settings were chosen with
--validation, which measures on a quarter of the rows to learn from instead, and never reads the others.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
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

from pursuit import VIPRegressor
from pursuit.training import Stage
from report import RESULTS, figure, origin, save, table, where

COVERAGE = 0.9
BUDGETS = (1, 3, 5)
"""After how many questions the page shows R²."""
VIP, VIP_ALL = "V-IP at its stop", "V-IP, all answers"
RIDGE, BOOSTING, MEAN = "ridge regression", "gradient boosting", "mean"


@dataclass(frozen=True)
class Target:
    """A column of a table that is predicted from the others."""

    name: str
    file: str | None
    column: str
    about: str


TARGETS = (
    Target("diabetes", None, "progression", "how far diabetes has come after a year, by ten measurements"),
    Target("diamonds", "diamonds", "price", "the price of a diamond in dollars, by its size and grades"),
    Target("credit", "credit", "credit_amount", "how much money a person borrows, by what the bank knows of them"),
    Target("bank", "bank", "age", "the age of a bank's customer, by their answers and the market on the day of a call"),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    n_folds: int = 5
    max_rows: int | None = None
    epochs: float | None = None
    """Passes over the rows; by default as many as suit their number."""
    validation: bool = False
    """Measure on a quarter of the rows to learn from, to choose settings."""


QUICK = Size(n_folds=2, max_rows=120, epochs=2)


def read(target: Target, tables: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows of a table without the column to predict, and that column."""
    if target.file is None:
        X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
        return X, y.to_numpy(dtype=float)
    path = next((p for p in (tables / f"{target.file}{end}" for end in (".csv", ".csv.gz")) if p.exists()), None)
    if path is None:
        raise FileNotFoundError(
            f"There is no {target.file}.csv in {tables}: give the folder of tables by --tables, or set PURSUIT_DATA."
        )
    frame = pd.read_csv(path)
    return frame.drop(columns=target.column), frame[target.column].to_numpy(dtype=float)


def splits(X: pd.DataFrame, y: np.ndarray, size: Size) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Row numbers to learn from and to measure on."""
    for fold, (train, test) in enumerate(KFold(size.n_folds, shuffle=True, random_state=0).split(X)):
        if size.validation:
            train, test = train_test_split(train, test_size=0.25, random_state=fold)
        yield train, test


def ridge() -> Any:
    """With words as indicators and numbers on one scale; the penalty by leaving rows out one at a time."""
    numbers, words = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    indicators = OneHotEncoder(handle_unknown="ignore", min_frequency=5)
    return make_pipeline(
        make_column_transformer((scaled, numbers), (indicators, words)), RidgeCV(np.logspace(-3, 4, 15))
    )


def boosting(**loss: Any) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0, **loss)


def with_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Words as categories, which boosting takes as they are."""
    words = X.select_dtypes(exclude="number").columns
    return X.astype(dict.fromkeys(words, "category"))


def scores(y: np.ndarray, predicted: np.ndarray, interval: np.ndarray | None = None) -> dict[str, Any]:
    """R² and mean absolute error, and of intervals (N, 2) how many rows they cover and how wide they are."""
    found = {"r2": r2_score(y, predicted), "mae": mean_absolute_error(y, predicted)}
    if interval is not None:
        low, high = interval.T
        found |= {"coverage": float(np.mean((low <= y) & (y <= high))), "width": float(np.mean(high - low))}
    return found


def measure_fold(
    X: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray, fold: int, size: Size, vip: Mapping[str, Any]
) -> dict[str, Any]:
    """What each model gives on the rows `test`, having learnt from `train`."""
    X_train, X_test, y_train, y_test = X.iloc[train], X.iloc[test], y[train], y[test]
    stages = {} if size.epochs is None else {"stages": [Stage(size.epochs)]}
    started = time.monotonic()
    model = VIPRegressor(random_state=fold, **{**stages, **vip}).fit(X_train, y_train)
    seconds = time.monotonic() - started
    evaluation = model.evaluate(X_test, y_test)
    assert evaluation.at_stop is not None
    categories = with_categories(X)
    boosted = {
        name: boosting(**loss).fit(categories.iloc[train], y_train).predict(categories.iloc[test])
        for name, loss in {
            "mean": {},
            "low": {"loss": "quantile", "quantile": (1 - COVERAGE) / 2},
            "high": {"loss": "quantile", "quantile": (1 + COVERAGE) / 2},
        }.items()
    }
    return {
        VIP: {**asdict(evaluation.at_stop), "seconds": seconds, "n_bins": len(model.bins_)},
        VIP_ALL: asdict(evaluation.all_answers),
        "r2_by_asked": [point.r2 for point in evaluation.by_asked],
        RIDGE: scores(y_test, ridge().fit(X_train, y_train).predict(X_test)),
        BOOSTING: scores(y_test, boosted["mean"], np.stack([boosted["low"], boosted["high"]], axis=1)),
        MEAN: scores(y_test, np.full(len(test), y_train.mean())),
    }


def measure(
    targets: Sequence[Target],
    tables: Path,
    size: Size,
    vip: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    measured: dict[str, Any] = {"where": where("cpu"), "size": asdict(size), "targets": {}}
    for target in targets:
        X, y = read(target, tables)
        X, y = X[: size.max_rows], y[: size.max_rows]
        folds = []
        for fold, (train, test) in enumerate(splits(X, y, size)):
            folds.append(measure_fold(X, y, train, test, fold, size, vip or {}))
            at_stop = folds[-1][VIP]
            say(
                f"{target.name}, fold {fold}: R² {at_stop['r2']:.3f} after {at_stop['mean_asked']:.1f} questions, "
                f"{folds[-1][VIP_ALL]['r2']:.3f} after all; {RIDGE} {folds[-1][RIDGE]['r2']:.3f}, "
                f"{BOOSTING} {folds[-1][BOOSTING]['r2']:.3f}; covered {at_stop['coverage']:.1%}"
            )
        about = {"about": target.about, "column": target.column, "n_rows": len(y), "n_columns": X.shape[1]}
        measured["targets"][target.name] = {**about, "spread": float(y.std()), "folds": folds}
    return measured


ABOUT = """# Predicting numbers

Written by `python benchmarks/regression.py`. `VIPRegressor` with its defaults stands beside models that read every
column: ridge regression, whose penalty is cross-validated, and scikit-learn's gradient boosting with its defaults,
whose intervals come from two more models of quantiles. Each table is cut into {n_folds} folds; models learn from the
others and are measured on one. Figures are means over the folds, R² with their standard deviation. *Covered* is the
share of the rows that lie in their 90 % intervals, and *width* how wide these are on average. Every row of V-IP is
asked until its interval is narrow or no question promises much.

"""


def page(measured: dict[str, Any]) -> str:
    parts = [ABOUT.format(**measured["size"]) + origin(measured)]
    for name, found in measured["targets"].items():
        folds = found["folds"]
        curve = [fold["r2_by_asked"] for fold in folds]
        after = ", ".join(f"{_mean(line[min(n, len(line) - 1)] for line in curve):.3f} after {n}" for n in BUDGETS)
        rule, n_bins = folds[0][VIP]["rule"], folds[0][VIP]["n_bins"]
        parts.append(
            f"\n## {name[0].upper()}{name[1:]}\n\n`{found['column']}`: {found['about']}. {found['n_rows']:,} rows, "
            f"{found['n_columns']} columns; the standard deviation is {figure(found['spread'])}. {n_bins} bins; the "
            f"rule of the first fold is `{rule}`. R² of V-IP: {after} questions.\n\n"
        )
        rows = [[method, *_line([fold[method] for fold in folds], found)] for method in METHODS_SHOWN]
        parts.append(table(["model", "questions", "R²", "mean error", "covered", "width"], rows))
    return "".join(parts)


METHODS_SHOWN = (VIP, VIP_ALL, RIDGE, BOOSTING, MEAN)


def _line(folds: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> list[str]:
    def shown(key: str, form: Callable[[float], str]) -> str:
        return form(_mean(fold[key] for fold in folds)) if key in folds[0] else "–"

    r2 = [fold["r2"] for fold in folds]
    asked = shown("mean_asked", lambda mean: f"{mean:.1f}") if "mean_asked" in folds[0] else str(found["n_columns"])
    return [
        asked,
        f"{_mean(r2):.3f} ± {statistics.stdev(r2):.3f}",
        shown("mae", figure),
        shown("coverage", lambda share: f"{share:.1%}"),
        shown("width", figure),
    ]


def _mean(values: Any) -> float:
    return statistics.fmean(values)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure predictions of numbers.")
    tables = Path(os.environ.get("PURSUIT_DATA", ".")) / "tables"
    parser.add_argument("--tables", type=Path, default=tables, help="the folder of the tables")
    parser.add_argument("--targets", default=",".join(target.name for target in TARGETS), help="names, with commas")
    parser.add_argument("--validation", action="store_true", help="measure on rows to learn from, to choose settings")
    parser.add_argument("--bins", type=int, help="how many bins, instead of the default")
    parser.add_argument("--neighbours", type=float, help="how far rows count beyond their bin, instead of the default")
    parser.add_argument("--stop", help="the stopping rule, instead of the default")
    parser.add_argument("--quick", action="store_true", help="toy sizes, only to see that it works")
    parser.add_argument("--into", type=Path, default=RESULTS, help="where to write regression.json and regression.md")
    arguments = parser.parse_args()
    given = {"n_bins": arguments.bins, "neighbours": arguments.neighbours, "stop": arguments.stop}
    vip = {name: value for name, value in given.items() if value is not None}
    size = replace(QUICK if arguments.quick else Size(), validation=arguments.validation)
    wanted = [target for target in TARGETS if target.name in arguments.targets.split(",")]
    try:
        measured = measure(wanted, arguments.tables, size, vip)
    except FileNotFoundError as error:
        parser.error(str(error))
    if arguments.validation or vip:  # which is no result to keep
        print(page(measured))
    else:
        print(save(measured, page, "regression", arguments.into))


if __name__ == "__main__":
    main()
