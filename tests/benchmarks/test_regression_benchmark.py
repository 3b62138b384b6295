"""Predictions of numbers are measured at toy sizes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import regression
from report import save

PRICES = regression.Target("prices", "prices", "price", "what a thing costs")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A table whose price is twice its size and a little more for what is red."""
    randomness = np.random.default_rng(0)
    frame = pd.DataFrame({"size": randomness.random(120) * 50, "colour": randomness.choice(["red", "blue"], 120)})
    frame["price"] = 2 * frame["size"] + 3 * (frame["colour"] == "red") + randomness.normal(size=120)
    frame.loc[::11, "size"] = np.nan
    frame.to_csv(tmp_path / "prices.csv.gz", index=False)
    return tmp_path


def test_all_models_are_measured_and_written_down(tables: Path) -> None:
    said: list[str] = []
    measured = regression.measure([PRICES], tables, regression.QUICK, {"n_bins": 8}, said.append)
    folds = measured["targets"]["prices"]["folds"]
    assert len(folds) == len(said) == 2
    for fold in folds:
        assert fold[regression.RIDGE]["r2"] > 0.5
        assert fold[regression.MEAN]["r2"] < 0.05
        assert fold[regression.VIP]["n_bins"] == 8
        assert 0 <= fold[regression.BOOSTING]["coverage"] <= 1
        assert len(fold["r2_by_asked"]) == 3
    text = save(measured, regression.page, "regression", tables)
    assert text == regression.page(json.loads((tables / "regression.json").read_text()))
    assert "## Prices" in text
    assert "| ridge regression | 2 |" in text


def test_settings_are_chosen_without_the_rows_of_the_results() -> None:
    X, y = pd.DataFrame({"a": np.arange(100)}), np.arange(100.0)
    size = regression.Size()
    for (train, test), (learnt, judged) in zip(
        regression.splits(X, y, size), regression.splits(X, y, replace(size, validation=True)), strict=True
    ):
        assert set(learnt) | set(judged) == set(train)
        assert not set(judged) & (set(test) | set(learnt))


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no prices.csv in .*--tables"):
        regression.read(PRICES, tmp_path)
