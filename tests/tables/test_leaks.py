"""Columns that give the label away by themselves are named, and others are not."""

import numpy as np
import pandas as pd
import pytest

from pursuit.tables.labels import leaks

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.choice(["flu", "cold", "well"], 300)


def noisy(labels: np.ndarray, share: float) -> np.ndarray:
    return np.where(RANDOM.random(len(labels)) < share, "flu", labels)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(LABELS).map({"flu": "J11", "cold": "J00", "well": "Z00"}),
        pd.Series(LABELS).map({"flu": 1, "cold": 2, "well": 3}),
        pd.Series(LABELS).map({"flu": 10.0, "cold": 20, "well": 30}) + RANDOM.random(300),
        pd.Series(LABELS).where(RANDOM.random(300) < 0.8),
        pd.Series(RANDOM.choice(["fever", "cough"], 300)).where(LABELS == "flu"),
        pd.Series(RANDOM.normal(size=300)).where((LABELS == "flu") & (RANDOM.random(300) < 0.5)),
    ],
    ids=[
        "code",
        "number of it",
        "measured afterwards",
        "partly missing",
        "values for one label",
        "few values, for one label",
    ],
)
def test_a_column_that_is_the_label_is_named(column: pd.Series) -> None:
    X = pd.DataFrame({"age": RANDOM.normal(size=300), "the code": column})
    (remark,) = leaks(X, LABELS)
    assert remark.startswith("Warning: 'the code' nearly always gives the label away, by itself.")
    assert remark.endswith("--drop 'the code'")


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (RANDOM.normal(size=300), LABELS),
        (np.arange(300), LABELS),
        ([f"patient {i}" for i in range(300)], LABELS),
        (noisy(LABELS, 0.2), LABELS),
        (LABELS[:30], LABELS[:30]),
        (np.where(np.arange(300) < 5, "a", "b"), np.where(np.arange(300) < 5, "rare", "usual")),
        (pd.Series(["x"] * 300).where(LABELS == "flu"), LABELS),
        (pd.Series(RANDOM.normal(size=300)).where((LABELS == "flu") | (RANDOM.random(300) < 0.1)), LABELS),
        (pd.Series(RANDOM.normal(size=300)).where(np.arange(300) < 5), np.sort(LABELS)),
    ],
    ids=[
        "noise",
        "order",
        "names",
        "a strong hint",
        "few rows",
        "hardly anything to know",
        "a symptom of one label",
        "mostly of one label",
        "of one label by chance",
    ],
)
def test_other_columns_are_not(column: np.ndarray, labels: np.ndarray) -> None:
    assert leaks(pd.DataFrame({"a": column, "b": RANDOM.normal(size=len(column))}), labels) == []


@pytest.mark.parametrize("label", ["flu", "not"])
def test_of_two_labels_a_tick_is_named_that_only_one_has(label: str) -> None:
    labels = np.where(LABELS == "flu", "flu", "not")
    X = pd.DataFrame({"age": RANDOM.normal(size=300), "treated": pd.Series(["x"] * 300).where(labels == label)})
    assert "'treated' nearly always gives the label away" in leaks(X, labels)[0]


def test_of_a_number_a_line_in_it_is_named() -> None:
    price = RANDOM.normal(100, 20, 200)
    X = pd.DataFrame({"with tax": 1.19 * price, "rooms": (price / 20).round() + RANDOM.normal(size=200)})
    (remark,) = leaks(X, price, regress=True)
    assert "'with tax' nearly always gives the number away" in remark
