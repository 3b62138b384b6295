"""What several studies measure with: tables and their splits, stopwatches, beliefs at the stop and along chains."""

import os
import socket
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from pursuit import Rows
from pursuit.estimators import PursuitClassifier
from pursuit.inference.history import History
from pursuit.inference.predictions import predict_rows
from pursuit.inference.pursuer import Pursuer, choose

TABLES_AND_TARGETS = """
heart num, lymph class, titanic survived, credit class, kr-vs-kp class, nursery class, sick Class, diamonds cut,
letter class, bank y, vowel Class, dermatology class, cylinder-bands band_type, symptoms-773 diseases
"""
TARGETS = dict(pair.split() for pair in TABLES_AND_TARGETS.split(","))
"""The column of labels of every table. A cell that is empty is missing in all of them, and nothing else is: "none" and
"unknown" are answers."""
TEST_SHARE = 0.2
VALIDATION_SEED = 1_000_003
"""Added to the seed where the rows to learn from are split again, to choose settings on other rows than test rows."""
MOST_CATEGORIES = 254
"""What gradient boosting takes; rarer ones are missing there."""
BINS, CHANCE_DRAWS = 10, 200
"""Bins of equal width between 0 and 1, by the confidence of the predicted label."""
AT_ONCE = 1000


def data_folder() -> Path:
    """Where data are: $PURSUIT_DATA, or the folder shared by everybody who works on this project."""
    return Path(os.environ.get("PURSUIT_DATA") or Path(__file__).parents[2] / "shared" / "data")


def read_frame(name: str) -> pd.DataFrame:
    """A table; only an empty cell is missing."""
    folder = data_folder() / "tables"
    path = next((found for end in (".csv.gz", ".csv") if (found := folder / f"{name}{end}").exists()), None)
    if path is None:
        raise FileNotFoundError(f"There is no table {folder / name}.csv.gz: PURSUIT_DATA names the folder of `tables`.")
    return pd.read_csv(path, keep_default_na=False, na_values=[""])


def read_table(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and labels of a table."""
    frame = read_frame(name)
    labels = frame.pop(TARGETS.get(name, frame.columns[-1]))
    return frame, labels.to_numpy(dtype=str if pd.api.types.is_string_dtype(labels) else None)


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to measure on, as a practitioner's file has them: texts, numbers, missing cells."""

    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray

    @property
    def shape(self) -> dict[str, int]:
        n_train, n_test = len(self.y_train), len(self.y_test)
        sizes = {"rows": n_train + n_test, "test_rows": n_test, "columns": self.X_train.shape[1]}
        return {**sizes, "labels": len(np.unique(self.y_train))}


def split_rows(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to learn from and to test on, stratified; a label without rows to learn from is not tested."""
    rows = np.arange(len(y))
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = rows[counts[codes] > 1]  # a label with a single row cannot be on both sides
    _, test = train_test_split(several, test_size=round(TEST_SHARE * len(y)), random_state=seed, stratify=y[several])
    train = np.setdiff1d(rows, test)
    return train, np.sort(test[np.isin(y[test], y[train])])


def split(X: pd.DataFrame, y: np.ndarray, seed: int, validation: bool = False) -> Split:
    """Rows by a seed, four fifths to learn from; for validation these are split again, and test rows left out."""
    train, test = split_rows(y, seed)
    if validation:
        inner, held_out = split_rows(y[train], seed + VALIDATION_SEED)
        train, test = train[inner], train[held_out]
    return Split(X.iloc[train], y[train], X.iloc[test], y[test])


def typed(split: Split) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Columns to learn from and to test on, in the form that others take: texts and yes/no as categories of the rows to
    learn from, numbers as floats, missing cells kept. Columns without any value to learn from are left out."""
    parts: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for name in split.X_train.columns[split.X_train.notna().any()]:
        both = [split.X_train[name], split.X_test[name]]
        if pd.api.types.is_bool_dtype(both[0]) or not pd.api.types.is_numeric_dtype(both[0]):
            both = [column.astype(object).where(column.isna(), column.astype(str)) for column in both]
            kept = pd.CategoricalDtype(sorted(both[0].value_counts().index[:MOST_CATEGORIES]))
            both = [column.where(column.isin(kept.categories), None).astype(kept) for column in both]
        else:
            both = [column.astype(float) for column in both]
        for part, column in zip(parts, both, strict=True):
            part[name] = column
    train, test = parts
    return pd.DataFrame(train, index=split.X_train.index), pd.DataFrame(test, index=split.X_test.index)


class Stopwatch:
    """Seconds since it was made: by the clock, and of computing, which a busy machine does not change as much."""

    def __init__(self) -> None:
        self.start, self.computed = time.perf_counter(), time.process_time()

    def read(self, what: str) -> dict[str, float]:
        seconds, computed = time.perf_counter() - self.start, time.process_time() - self.computed
        return {f"{what}_seconds": seconds, f"{what}_cpu_seconds": computed}


def fit(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Let a model learn; how long it takes."""
    stopwatch = Stopwatch()
    model.fit(X, y)
    return stopwatch.read("fit")


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


# ---- beliefs


def at_stop(classifier: PursuitClassifier, rows: Rows, stop: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """How much is asked of each row (N,), and the belief then (N, C), as `predict_proba` gives it."""
    rule = classifier.stopping_rule(stop)
    found = predict_rows(classifier.model_, rows.x, rows.available, rule, rows.initially_known)
    return (found.query >= 0).sum(dim=1).numpy(), found.posterior.numpy()


def bins_of(confidence: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """By bins of confidence: rows, the sum of confidences, and rows that are right."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    parts = (np.bincount(bins, part, BINS).tolist() for part in (np.ones_like(confidence), confidence, right))
    return [[int(n), sure, hits] for n, sure, hits in zip(*parts, strict=True)]


def expected_error(bins: Sequence[Sequence[float]]) -> float:
    """The calibration error of bins: the mean gap between confidence and accuracy."""
    return sum(abs(sure - right) for _, sure, right in bins) / sum(n for n, _, _ in bins)


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """The calibration error with its bins, so that those of several seeds can be put together. `by_chance` is the error
    that a perfectly calibrated classifier with these confidences has on average, because there are so few rows."""
    drawn = np.random.default_rng(0).random((CHANCE_DRAWS, len(confidence))) < confidence
    by_chance = float(np.mean([expected_error(bins_of(confidence, one)) for one in drawn]))
    bins = bins_of(confidence, right)
    return {"ece": expected_error(bins), "by_chance": by_chance, "bins": bins}


@torch.no_grad()
def beliefs(model: Pursuer, rows: Rows, known: Tensor) -> np.ndarray:
    """The posterior (N, C) given the answers of `known` (N, Q), as far as rows have them."""
    given = known & rows.available
    parts = torch.arange(len(rows)).split(AT_ONCE)
    found = [model.log_posterior(History(rows.x[part], given[part], given[part])) for part in parts]
    return torch.cat(found).double().exp().numpy()


@torch.no_grad()
def ask_everything(model: Pursuer, rows: Rows, longest: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Ask every row what the model would, without a stop: beliefs (S + 1, N, C) after 0 to S answers, and the queries
    (N, S), -1 where nothing is left. A query without an answer is not asked: it would leave the belief as it is."""
    n_steps = min(longest or rows.n_queries, rows.n_queries)
    posterior = torch.zeros(n_steps + 1, len(rows), len(model.classes), dtype=torch.double)
    queries = torch.full((len(rows), n_steps), -1)
    for part in torch.arange(len(rows)).split(AT_ONCE):
        x, available = rows.x[part], rows.available[part]
        history = History(x, torch.zeros_like(available), ~available)
        posterior[0, part] = model.log_posterior(history).double().exp()
        for step in range(n_steps):
            query, is_left = choose(model.scores(history), history.asked), ~history.asked.all(dim=1)
            queries[part, step] = torch.where(is_left, query, -1)
            history = history.ask(query, available)
            posterior[step + 1, part] = model.log_posterior(history).double().exp()
    return posterior.numpy(), queries.numpy()


def score(posterior: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy and log loss of beliefs (N, C) about labels y (N,) given as indices."""
    of_label = np.maximum(posterior[np.arange(len(y)), y], 1e-12)
    return {"accuracy": float((posterior.argmax(axis=1) == y).mean()), "log_loss": float(-np.log(of_label).mean())}


def means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each figure."""
    return {key: statistics.fmean(float(one[key]) for one in found) for key in found[0]}
