"""What is asked by default where labels are noisy: one column tells three labels in four, and nothing tells more."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import MLP, Stage, VIPClassifier
from pursuit.tables.streaming import ParquetRows

TELLS = 0.755
QUICK: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(8, batch_size=64)], "random_state": 0}


def noisy(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Seven columns: one that repeats the label most of the time, and six of chance."""
    randomness = np.random.default_rng(seed)
    y = randomness.random(n) < 0.5
    columns: dict[str, Any] = {
        "tells": np.where(randomness.random(n) < TELLS, y, ~y),
        "smokes": randomness.random(n) < 0.3,
        "town": randomness.choice(["north", "south", "west"], n),
        **{name: randomness.normal(size=n) for name in ("age", "height", "pulse", "income")},
    }
    return pd.DataFrame(columns), np.where(y, "ill", "well")


def judge(model: VIPClassifier) -> None:
    X, y = noisy(2000, 1)
    found = model.evaluate(X, y).at_stop
    assert found is not None
    assert found.mean_asked <= 2
    alone = (np.where(X["tells"], "ill", "well") == y).mean()
    assert found.accuracy >= alone - 0.01
    (expected,) = [reason.value for reason in model.chosen_ if reason.setting == "expected"]
    assert expected.startswith("about")


@pytest.mark.parametrize("querier", ["information", pytest.param("straight-through", marks=pytest.mark.slow)])
def test_one_column_is_asked(querier: Any) -> None:
    judge(VIPClassifier(querier=querier, calibration=0.3, **QUICK).fit(*noisy(900, 0)))


@pytest.mark.slow
def test_of_rows_in_files_too(tmp_path: Path) -> None:
    X, y = noisy(3000, 0)
    X.assign(label=y).to_parquet(tmp_path / "rows.parquet")
    model = VIPClassifier(**{**QUICK, "stages": [Stage(4, batch_size=64)]})
    model.fit(ParquetRows(tmp_path / "rows.parquet", "label"))
    assert "calibrated on" in {reason.setting for reason in model.chosen_}
    judge(model)
