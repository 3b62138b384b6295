"""The tables of `benchmarks/tables.py`: where they lie, how they are read, and how their rows are split."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

TARGETS = {
    "heart": "num",
    "lymph": "class",
    "titanic": "survived",
    "credit": "class",
    "kr-vs-kp": "class",
    "nursery": "class",
    "sick": "Class",
    "diamonds": "cut",
    "letter": "class",
    "bank": "y",
    "vowel": "Class",
    "dermatology": "class",
    "cylinder-bands": "band_type",
    "symptoms-773": "diseases",
}
"""The column of labels of every table. A cell that is empty is missing in all of them, and nothing else is: "none" and
"unknown" are answers."""
TEST_SHARE = 0.2
VALIDATION_SEED = 1_000_003
"""Added to the seed where the rows to learn from are split again, to choose settings on other rows than test rows."""
MOST_CATEGORIES = 254
"""What gradient boosting takes; rarer ones are missing there."""


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to measure on, as a practitioner's file has them: texts, numbers, missing cells."""

    X_train: pd.DataFrame
    y_train: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray

    @property
    def shape(self) -> dict[str, int]:
        return {
            "rows": len(self.y_train) + len(self.y_test),
            "test_rows": len(self.y_test),
            "columns": self.X_train.shape[1],
            "labels": len(np.unique(self.y_train)),
        }


def data_folder() -> Path:
    """Where data are: $PURSUIT_DATA, or the folder shared by everybody who works on this project."""
    return Path(os.environ.get("PURSUIT_DATA") or Path(__file__).parents[2] / "shared" / "data")


def default_folder() -> Path:
    return data_folder() / "tables"


def read(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns and labels of a table; only an empty cell is missing."""
    path = next((found for ending in (".csv.gz", ".csv") if (found := folder / f"{name}{ending}").exists()), None)
    if path is None:
        raise FileNotFoundError(
            f"There is no table {folder / name}.csv.gz: name the folder of tables with --data, or the folder that has "
            "`tables` in it with PURSUIT_DATA."
        )
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
    labels = frame.pop(TARGETS.get(name, frame.columns[-1]))
    return frame, labels.to_numpy(dtype=str if pd.api.types.is_string_dtype(labels) else None)


def split_rows(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers to learn from and to test on, stratified; a label without rows to learn from is not tested."""
    rows = np.arange(len(y))
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    several = rows[counts[codes] > 1]  # a label with a single row cannot be on both sides
    _, test = train_test_split(several, test_size=round(TEST_SHARE * len(y)), random_state=seed, stratify=y[several])
    train = np.setdiff1d(rows, test)
    return train, np.sort(test[np.isin(y[test], y[train])])


def split(
    X: pd.DataFrame,
    y: np.ndarray,
    seed: int,
    is_validation: bool = False,
    by: Callable[[np.ndarray, int], Sequence[np.ndarray]] = split_rows,
) -> Split:
    """Rows by a seed, four fifths to learn from; with `is_validation` these are split again, and the test rows are left
    out."""
    train, test = by(y, seed)
    if is_validation:
        inner, held_out = by(y[train], seed + VALIDATION_SEED)
        train, test = train[inner], train[held_out]
    return Split(X.iloc[train], y[train], X.iloc[test], y[test])


def typed(split: Split) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Columns to learn from and to test on, in the form that others take: texts and yes/no as categories of the rows to
    learn from, numbers as floats, missing cells kept. Columns without any value to learn from are left out."""
    train, test = {}, {}
    for name in split.X_train.columns[split.X_train.notna().any()]:
        column, other = split.X_train[name], split.X_test[name]
        if pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            column, other = (part.astype(object).where(part.isna(), part.astype(str)) for part in (column, other))
            kept = pd.CategoricalDtype(sorted(column.value_counts().index[:MOST_CATEGORIES]))
            train[name], test[name] = (
                part.where(part.isin(kept.categories), None).astype(kept) for part in (column, other)
            )
        else:
            train[name], test[name] = column.astype(float), other.astype(float)
    return pd.DataFrame(train, index=split.X_train.index), pd.DataFrame(test, index=split.X_test.index)
