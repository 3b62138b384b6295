"""The benchmark of the server runs at a toy size."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

import serving
from pursuit.methods import METHODS
from report import save


def test_a_small_crowd_is_measured_and_written_down(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    frame = pd.DataFrame(
        {f"q{i}": np.where(rng.random(200) < 0.3 + 0.2 * ((y + i) % 3), "yes", "no") for i in range(6)}
    )
    model = METHODS["naive-bayes"].build(None, random_state=0).fit(frame, np.array([*"abc"])[y])
    model.save(tmp_path / "letters")
    with ThreadPoolExecutor(1) as pool:  # a browser that other tests hold open has an event loop in this thread
        run = pool.submit(serving.measure, tmp_path / "letters", n_people=3, seconds=2.0, workers=1)
        measured = run.result()
    assert [row["n_errors"] for row in measured["rows"]] == [0, 0]
    assert all(
        row["n_steps"] > 0 and 0 < row["median_ms"] <= row["p95_ms"] <= row["p99_ms"] for row in measured["rows"]
    )
    page = save(measured, serving.page, "serving", tmp_path)
    assert "3 people at once play letters" in page
    assert json.loads((tmp_path / "serving.json").read_text())["people"] == 3
