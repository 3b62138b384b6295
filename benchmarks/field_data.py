"""The data of `benchmarks/field.py`: SEFA's sets with its rows, columns and splits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pursuit.tasks.files import read_idx

PIXELS = {
    "mnist": [153, 154, 210, 211, 243, 269, 271, 295, 327, 348, 350, 375, 405, 409, 427, 430, 461, 514, 543, 655],
    "fashion-mnist": [10, 38, 121, 146, 202, 246, 248, 341, 343, 362, 406, 434, 454, 490, 546, 574, 580, 602, 742, 770],
}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS_BEFORE = dict(zip(MONTHS, (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335), strict=True))
"""Days of a leap year before each month."""
N_MADE, N_MADE_TRAIN, N_MADE_VALIDATION = 80_000, 60_000, 10_000
N_IMAGES_TRAIN = 50_000
BRANCHES = {"a": (1, 2, 11), "b": (3, 4, 5, 6, 11), "c": (7, 8, 9, 10, 11)}
"""The features, numbered from 1, that each formula of the made sets reads, with the one that chooses the formula."""
RULES = {1: "ab", 2: "ac", 3: "bc"}
"""The formulas of each made set: where x11 is below 0, and elsewhere."""


@dataclass(frozen=True)
class Rows:
    X: pd.DataFrame
    y: np.ndarray

    def first(self, n: int | None) -> "Rows":
        return Rows(self.X[:n], self.y[:n])


@dataclass(frozen=True)
class FieldSet:
    """Rows to learn from, to choose settings on, and to test on."""

    train: Rows
    validation: Rows
    test: Rows

    @classmethod
    def split(cls, X: pd.DataFrame, y: np.ndarray, order: np.ndarray, n_train: int, n_validation: int) -> "FieldSet":
        """Rows in this order: those to learn from, those to choose settings on, and the rest to test on."""
        parts = np.split(order, [n_train, n_train + n_validation])
        return cls(*(Rows(X.iloc[part].reset_index(drop=True), y[part]) for part in parts))

    def cut(self, n_train: int | None, n_test: int | None) -> "FieldSet":
        """With fewer rows, for a quick look."""
        return replace(
            self,
            train=self.train.first(n_train),
            validation=self.validation.first(n_test),
            test=self.test.first(n_test),
        )


def made(number: int) -> FieldSet:
    """Syn1, Syn2 or Syn3: one generator draws them one after the other."""
    rng = np.random.RandomState(8139)
    for rule in RULES:
        x = rng.normal(size=(N_MADE, 11))
        formulas = {
            "a": 4 * x[:, 0] * x[:, 1],
            "b": 1.2 * (x[:, 2:6] ** 2).sum(axis=1) - 4.2,
            "c": -10 * np.sin(0.2 * x[:, 6]) + np.abs(x[:, 7]) + x[:, 8] + np.exp(-x[:, 9]) - 2.4,
        }
        below, elsewhere = (formulas[name] for name in RULES[rule])
        y = rng.binomial(1, 1 / (1 + np.exp(np.where(x[:, 10] < 0, below, elsewhere))), size=N_MADE)
        if rule == number:
            break
    X = pd.DataFrame(x, columns=[f"x{i}" for i in range(1, 12)])
    return FieldSet.split(X, y, np.arange(N_MADE), N_MADE_TRAIN, N_MADE_VALIDATION)


def relevant(number: int, X: pd.DataFrame) -> np.ndarray:
    """Which of the features (N, 11) the label of each row of a made set depends on."""
    below, elsewhere = (np.isin(np.arange(1, 12), BRANCHES[name]) for name in RULES[number])
    return np.where(X["x11"].to_numpy()[:, None] < 0, below, elsewhere)


def images(name: str, seed: int, folder: Path) -> FieldSet:
    """Twenty pixels of MNIST or Fashion-MNIST; test rows are the official ones."""
    columns = PIXELS[name]
    parts = []
    for part in ("train", "t10k"):
        pixels = read_idx(folder / name / f"{part}-images-idx3-ubyte.gz")
        parts.append(
            (
                pixels.reshape(len(pixels), -1)[:, columns] / 255,
                read_idx(folder / name / f"{part}-labels-idx1-ubyte.gz").astype(int),
            )
        )
    x, y = (np.concatenate(both) for both in zip(*parts, strict=True))
    n_official = len(parts[0][1])
    order = np.concatenate([np.random.RandomState(seed).permutation(n_official), np.arange(n_official, len(y))])
    X = pd.DataFrame(x, columns=[f"pixel {column}" for column in columns])
    return FieldSet.split(X, y, order, N_IMAGES_TRAIN, n_official - N_IMAGES_TRAIN)


def shuffled(X: pd.DataFrame, y: np.ndarray, seed: int) -> FieldSet:
    """Eight tenths of the rows to learn from and one to choose settings on, in an order drawn by torch."""
    torch.manual_seed(seed)
    order = torch.randperm(len(y)).numpy()
    return FieldSet.split(X, y, order, int(0.8 * len(y)), int(0.1 * len(y)))


def bank(folder: Path) -> FieldSet:
    """Bank marketing: day and month are one feature, and some words are missing values."""
    frame = pd.read_csv(folder / "field" / "bank-full.csv.gz", keep_default_na=False)
    frame["date"] = frame["day"] + frame["month"].map(DAYS_BEFORE)
    frame["pdays"] = frame["pdays"].replace(-1, -500)
    for name, missing in (("job", "unknown"), ("education", "unknown"), ("contact", "unknown"), ("poutcome", "other")):
        frame[name] = frame[name].where(frame[name] != missing, None)
    numbers = ["age", "balance", "duration", "campaign", "previous", "date", "pdays"]
    words = ["job", "marital", "education", "default", "housing", "loan", "contact", "poutcome"]
    return shuffled(frame[numbers + words], (frame["y"] == "yes").to_numpy().astype(int), 9675)


def california(folder: Path) -> FieldSet:
    """California housing: the value in four classes of equal size."""
    frame = pd.read_csv(folder / "field" / "california-housing.csv.gz")
    value = frame.pop("MedHouseVal").to_numpy()
    n = len(value)
    cuts = np.sort(value)[[n // 4, n // 2, 3 * n // 4]]
    return shuffled(frame, np.searchsorted(cuts, value, side="left"), 2538)


SETS: dict[str, Callable[[Path], FieldSet]] = {
    "syn1": lambda folder: made(1),
    "syn2": lambda folder: made(2),
    "syn3": lambda folder: made(3),
    "mnist-20": lambda folder: images("mnist", 3295, folder),
    "fashion-20": lambda folder: images("fashion-mnist", 7508, folder),
    "bank-full": bank,
    "california": california,
}
