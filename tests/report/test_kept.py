"""What was measured is kept with the model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import Stage, VIPRegressor, load
from pursuit.report import ModelReport
from pursuit.report.measured import MEASURED, Measured, kept


@pytest.fixture
def saved(model: Any, table: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    model.save(folder)
    Measured.of(model, *table, name="patients").keep(folder, model)
    return folder


def test_what_is_kept_is_what_was_measured(saved: Path, model: Any, table: Any) -> None:
    again = load(saved)
    before = kept(saved, again, again.rows(*table))
    assert before is not None
    report = ModelReport.of(model, *table, name="patients")
    assert before.evaluation == report.evaluation
    assert before.tree == report.tree
    assert ModelReport.from_measured(again, before).html() == report.html()


def test_of_other_rows_rules_or_models_nothing_is_kept(saved: Path, model: Any, table: Any, tmp_path: Path) -> None:
    X, y = table
    assert kept(saved, model) is not None
    assert kept(saved, model, model.rows(X[:-1], y[:-1])) is None
    other = load(saved)
    other.stop = "budget=1"
    assert kept(saved, other) is None
    other = load(saved)
    other.max_queries = 1
    assert kept(saved, other) is None
    model.save(tmp_path / "elsewhere", {"task": {"name": "another"}})
    (saved / MEASURED).rename(tmp_path / "elsewhere" / MEASURED)
    assert kept(tmp_path / "elsewhere", model) is None
    assert kept(saved, model) is None


@pytest.mark.parametrize("damage", ["half", "number", "list", "empty"])
def test_damaged_or_edited_figures_are_not_shown(saved: Path, model: Any, damage: str) -> None:
    path = saved / MEASURED
    text = path.read_text()
    if damage == "number":
        content = json.loads(text)
        content["evaluation"]["accuracy_all_answers"] = 1.5
        path.write_text(json.dumps(content))
    else:
        path.write_text({"half": text[: len(text) // 2], "list": "[1, 2]", "empty": ""}[damage])
    assert kept(saved, model) is None


def test_numbers_are_kept_too(tmp_path: Path) -> None:
    X = pd.DataFrame({"a": np.tile([0, 1], 40), "b": np.arange(80) % 7})
    y = 10.0 * X["a"] + X["b"]
    model = VIPRegressor(stages=[Stage(epochs=2)], teachers=None, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    measured = Measured.of(model, X, y, name="numbers")
    measured.keep(tmp_path / "model", model)
    assert kept(tmp_path / "model", load(tmp_path / "model")) == measured
