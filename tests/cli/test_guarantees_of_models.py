"""Promises on the command line: trained with `--stop risk=…`, and shown by predict, explain and ask."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import json_of, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose first column is the label but for a few rows, and a model that promises something of it."""
    where, randomness = tmp_path_factory.mktemp("promises"), np.random.default_rng(0)
    X = randomness.integers(0, 2, (900, 4))
    y = np.where(randomness.random(900) < 0.03, 1 - X[:, 0], X[:, 0])
    frame = pd.DataFrame(np.where(X == 1, "yes", "no"), columns=["fever", "rash", "cough", "itch"])
    frame["ill"] = np.where(y == 1, "ill", "well")
    frame.to_csv(where / "table.csv", index=False)
    options = ["--target", "ill", "--method", "naive-bayes", "--stop", "risk=0.1,conformal=0.1", "--out", "model"]
    done = run(where, "train", "table.csv", *options)
    assert done.returncode == 0, done.stderr
    return where


def test_predictions_say_which_are_decided_and_what_remains(folder: Path) -> None:
    done = run(folder, "predict", "model", "--data", "table.csv", "--out", "predicted.csv")
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(folder / "predicted.csv")
    assert set(table["outcome"]) == {"decided"}
    assert set(table["labels"]) <= {"ill", "well", "ill | well"}


def test_chains_and_conversations_say_it_too(folder: Path) -> None:
    chain = json_of(run(folder, "explain", "model", "--data", "table.csv", "--row", "0", "--json"))["chains"][0]
    assert chain["decided"] is True
    assert chain["label_set"] == [chain["prediction"]]
    sure = run(folder, "ask", "model", typed="yes\nyes\nyes\nyes\n\n")
    assert "Result: ill" in sure.stdout + sure.stderr
    assert "What remains possible: ill" in sure.stdout + sure.stderr
    unsure = run(folder, "ask", "model", typed="d\nd\nd\nd\n\n")
    assert "Not sure, a person must decide." in unsure.stdout + unsure.stderr


def test_a_promise_that_was_not_chosen_is_refused_with_what_to_do(folder: Path) -> None:
    done = run(folder, "predict", "model", "--data", "table.csv", "--stop", "risk=0.01")
    assert done.returncode != 0
    assert "train with stop='risk=0.01'" in done.stderr
    few = run(folder, "train", "table.csv", "--target", "ill", "--stop", "risk=0.001", "--out", "other")
    assert few.returncode != 0
    assert "takes at least 3,100 rows" in " ".join(few.stderr.split())
