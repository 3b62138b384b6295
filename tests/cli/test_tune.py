"""`pursuit tune` as it is met on the command line."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import json_of, run
from pursuit import load

pytest.importorskip("optuna")

OPTIONS = ("my visits.csv", "--method", "naive-bayes", "--target", "label", "--missing", "?", "--missing", "-")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """The label changes with every sixteenth of the first number: eight bins, the usual ones, say nothing of it."""
    X = np.random.default_rng(0).random((400, 4))
    labels = np.where((X[:, 0] * 16).astype(int) % 2 == 0, "flu", "cold")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=labels)
    frame.to_csv(tmp_path / "my visits.csv", index=False)
    return tmp_path


def test_a_search_ends_with_the_command_that_trains_as_it_found(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # in which names of settings are divided, and not cut
    done = run(visits, "tune", *OPTIONS, "--trials", "6", "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert "mean accuracy over 1 to 4 questions on 64 held-out training rows" in " ".join(done.stdout.split())
    assert "usual" in done.stdout
    assert "…" not in done.stdout
    assert done.stderr.count("my visits, trial ") == 6
    found = json_of(run(visits, "tune", *OPTIONS, "--trials", "6", "--seed", "3", "--json"))
    assert found["settings"]
    folder = "runs/tune-my visits-naive-bayes"
    words = shlex.split(found["train"])
    assert sorted(words) == sorted(["pursuit", "train", *OPTIONS, "--seed", "3", "--tuned", folder])
    assert "on new rows, expect less" in done.stdout
    trained = run(visits, *words[1:])
    assert trained.returncode == 0, trained.stderr
    settings = load(visits / "runs" / "my visits-naive-bayes").settings
    assert {name: getattr(settings, name) for name in found["settings"]} == found["settings"]


def test_settings_are_those_of_one_method(visits: Path) -> None:
    assert run(visits, "tune", *OPTIONS, "--trials", "1", "--out", "here").returncode == 0
    done = run(visits, "train", "my visits.csv", "--target", "label", "--tuned", "here")
    assert "holds settings of the method naive-bayes, not of vip" in done.stderr
    done = run(visits, "train", "my visits.csv", "--target", "label", "--tuned", "nowhere")
    assert "nowhere holds no best.json: give the folder of a `pursuit tune` that is done." in done.stderr


def test_where_nothing_is_better_the_command_is_the_usual_one(visits: Path) -> None:
    done = run(visits, "tune", *OPTIONS, "--trials", "1")
    assert "No trial was better than the usual settings" in done.stdout
    assert "--tuned" not in done.stdout


def test_what_is_wrong_is_said_before_anything_is_tried(visits: Path) -> None:
    assert run(visits, "tune", "my visits.csv", "--target", "label", "--method", "guess").returncode == 1
    wrong = run(visits, "tune", "my visits.csv", "--target", "label", "--method", "tree")
    assert "has no settings to search for" in wrong.stderr
    assert not (visits / "runs").exists()
