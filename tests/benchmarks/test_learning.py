"""How long learning takes, as a section of the page of speed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import learning
import speed
from pursuit.estimators.plan import Size


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    randomness = np.random.default_rng(0)
    frame = pd.DataFrame(randomness.integers(0, 2, (120, 6)), columns=[f"q{i}" for i in range(6)])
    frame["num"] = np.where(frame["q0"] ^ frame["q1"], "sick", "well")
    frame.to_csv(tmp_path / "heart.csv", index=False)
    return tmp_path


def test_a_fit_and_a_step_are_measured_and_shown(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.TAUGHT", ((2000, Size(8, 16, 0.01, 10)),))
    monkeypatch.setattr(learning, "ROUNDS", 2)
    n_threads = torch.get_num_threads()
    found = learning.measure(["heart"], tables)
    torch.set_num_threads(n_threads)
    (fit,), (step,) = found["fits"], found["steps"]
    assert (fit["table"], fit["rows"], fit["columns"]) == ("heart", 96, 6)
    assert min(step["ratio"], step["milliseconds"], step["bare"]) > 0
    page = "\n".join(learning.section(found))
    assert "| heart | 96 | 6 |" in page
    assert speed.SECTIONS["learning"] is learning


def test_the_bare_arithmetic_is_that_of_linear_layers() -> None:
    model, products = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), []
    with learning._noted(model, products):
        model(torch.ones(4, 3))
    model(torch.ones(4, 3))
    assert [(*inputs.shape, *weight.shape) for inputs, weight in products] == [(4, 3, 5, 3), (4, 5, 2, 5)]
    learning._multiply(products)
