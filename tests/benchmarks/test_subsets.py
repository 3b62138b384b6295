"""Beliefs on random subsets, at toy sizes: every run is a file, and the page says what the files say."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import beliefs
import subsets
import table_data
from pursuit import VIPClassifier
from short_plans import short_plans

MADE = "made"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    frame = pd.DataFrame(
        {
            "always": 1,
            "a": y + rng.normal(size=120),
            "b": np.where(rng.random(120) < 0.5, "x", "y"),
            "c": np.where(rng.random(120) < 0.1, np.nan, y + rng.normal(size=120)),
            "nothing": np.nan,
            "label": y,
        }
    )
    frame.to_csv(tmp_path / f"{MADE}.csv.gz", index=False)
    monkeypatch.setitem(table_data.TARGETS, MADE, "label")
    monkeypatch.setattr(subsets, "TABLES", (MADE,))
    return tmp_path


def test_a_table_is_measured_and_written_down(data: Path, tmp_path: Path) -> None:
    arguments = ["--tables", MADE, "--seeds", "0", "--subsets", "2", "--data", str(data), "--out", str(tmp_path / "o")]
    with short_plans():
        subsets.main(arguments)
    found = json.loads((tmp_path / "o" / f"{MADE}-0.json").read_text())
    assert found["shape"] == {"rows": 120, "test_rows": 24, "columns": 5, "labels": 2}
    assert list(found["own_subsets"]) == list(found["shared_subsets"]) == ["25%", "50%", "75%", "100%"]
    assert found["own_subsets"]["100%"] == found["shared_subsets"]["100%"][subsets.VIP] == found["chain"]["12"]
    assert {"commit", "processor"} <= found["where"].keys()
    text = (tmp_path / "o" / "subsets.md").read_text()
    assert f"| {MADE} | {found['own_subsets']['25%']['accuracy']:.3f} |" in text
    subsets.main([*arguments, "--page"])
    assert (tmp_path / "o" / "subsets.md").read_text() == text


@pytest.mark.skipif(not subsets.PAGE.exists(), reason="nothing was measured yet")
def test_the_page_says_what_the_files_say() -> None:
    assert subsets.PAGE.read_text(encoding="utf-8") == subsets.page(subsets.read_runs(subsets.FOLDER))


def test_chains_ask_what_the_model_would_and_only_what_there_is() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.integers(2, size=60).astype(float) for name in "abcd"})
    X.loc[:9, "b"] = np.nan
    y = (X["a"] + X["c"] > 1).to_numpy()
    with short_plans():
        classifier = VIPClassifier(random_state=0).fit(X, y)
    rows = classifier.rows(X, y)
    found = beliefs.ask_everything(classifier.model_, rows)
    assert found.posterior.shape == (5, 60, 2)
    assert (found.query[:10] != 1).all()
    assert (found.query[:10, 3] == -1).all()
    assert (np.sort(found.query[10:], axis=1) == np.arange(4)).all()
    first = classifier.explain(X[20:21], "budget=4")[0]
    assert [step.query for step in first.steps] == found.query[20].tolist()
    everything = beliefs.beliefs(classifier.model_, rows, torch.ones(60, 4, dtype=torch.bool))
    assert np.allclose(everything, found.posterior[-1])
    assert beliefs.score(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1]))["log_loss"] == pytest.approx(
        0.3466, abs=1e-4
    )
