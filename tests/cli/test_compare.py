"""`pursuit compare` as it is met on the command line."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import program
from program import assert_refused, json_of
from pursuit import load, registry
from pursuit.cli import experiments as command
from pursuit.estimators import Method
from pursuit.methods import METHODS
from pursuit.methods.random_order import RandomOrderClassifier
from pursuit.research.experiments import compare as experiment

SHORT = ("--methods", "vip,random", "--effort", "0.005", "--device", "cpu")


class Failing(RandomOrderClassifier):
    def make_learner(self, *_: Any) -> Any:
        raise ValueError("Not for [these] queries.")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take longer than the little training here."""
    monkeypatch.setattr(experiment, "draw_curves", lambda results, path: None)
    monkeypatch.setitem(registry._known["method"], "bad", Method("bad", "bad luck", Failing))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    columns = {name: np.random.default_rng(i).choice(["yes", "no"], 100) for i, name in enumerate("abc")}
    frame = pd.DataFrame({**columns, "label": columns["a"]})
    frame["note"] = [f"row {i}" for i in range(100)]
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return program.run(folder, "compare", *arguments)


FILE = ("table.csv", "--target", "label", "--drop", "note", *SHORT)


def test_a_file_from_beginning_to_end(folder: Path) -> None:
    results = json_of(run(folder, *FILE, "--seeds", "2", "--test-share", "0.3", "--json"))
    place = folder / "results" / "compare-table-effort-0.005"
    written = json.loads((place / "results.json").read_text())
    assert written.pop("checksum")
    assert written == results
    assert list(results["methods"]) == ["vip", "random"]
    for method in results["methods"].values():
        assert [(seed["seed"], seed["n_train"], seed["n_test"]) for seed in method["seeds"]] == [
            (0, 70, 30),
            (1, 70, 30),
        ]
        assert len(method["seeds"][0]["evaluation"]["accuracy_by_asked"]) == 4
    again = run(folder, *FILE, "--seeds", "2", "--test-share", "0.3")
    assert again.returncode == 0
    assert again.stderr.count("already measured") == 4
    assert "random order" in again.stdout
    assert f"Written into {place.relative_to(folder)}" in again.stdout
    assert f"{results['methods']['vip']['summary']['area']['mean']:.3f}" in again.stdout


def test_a_task_with_every_option(tmp_path: Path) -> None:
    options = ("--max-queries", "6", "--stop", "budget=3", "--rows", "50", "--first-seed", "7", "--validation")
    results = json_of(run(tmp_path, "digits", *SHORT, *options, "--recipe", "fast", "--out", "here", "--json"))
    assert (results["run"]["task"], results["run"]["recipe"], results["run"]["max_rows"]) == ("digits", "fast", 50)
    (one,) = results["methods"]["vip"]["seeds"]
    assert (one["seed"], one["n_train"], one["n_test"]) == (7, 1293, 50)
    assert len(one["evaluation"]["accuracy_by_asked"]) == 7
    assert one["evaluation"]["at_stop"]["mean_asked"] == 3
    assert (tmp_path / "here" / "random" / "seed-7" / "model.json").exists()


def test_costs_are_those_of_every_method(folder: Path) -> None:
    methods = ("--methods", "naive-bayes,random", "--cost", "a=50", "--cost-aware")
    results = json_of(run(folder, *FILE, *methods, "--json"))
    assert (results["run"]["costs"], results["run"]["cost_aware"]) == ({"a": 50}, True)
    place = folder / "results" / "compare-table-effort-0.005-costs-cost-aware"
    models = {name: load(place / name / "seed-0").model_ for name in ("naive-bayes", "random")}
    assert [model.query_set.costs.tolist() for model in models.values()] == [[50, 1, 1]] * 2
    assert models["naive-bayes"].score_unit == "bits per cost"


def test_one_that_fails_does_not_lose_the_others(folder: Path) -> None:
    done = run(folder, *FILE, "--methods", "bad,random")
    assert done.returncode == 0
    assert "bad luck, seed 0 failed: ValueError: Not for [these] queries." in done.stdout
    assert "0." in done.stdout
    table = (folder / "results" / "compare-table-effort-0.005" / "table.md").read_text()
    assert "| bad luck | failed: ValueError: Not for [these] queries. |" in table
    alone = run(folder, *FILE, "--methods", "bad", "--json")
    assert alone.returncode == 1
    assert json.loads(alone.stdout)["methods"]["bad"]["summary"] is None
    assert "All methods failed" in alone.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits", "--methods", "vip,magic"], "'magic' is not a method: choose from vip, all-answers"),
        (["digits", "--methods", ","], "At least one method"),
        (["digits", "--recipe", "paper"], "digits has no recipe 'paper', only fast"),
        (["digits", "--target", "label"], "a task with its own queries and labels"),
        (["digits", "--device", "tpu"], "The device is one of cpu, cuda, mps, auto, not 'tpu'"),
        (["digits", "--stop", "soon"], "soon"),
        (["digits", "--methods", "exact"], "Exact Information Pursuit is not available for digits"),
        (["digits", "--methods", "tree,random", "--cost-aware"], "--cost-aware does not apply to tree, random"),
        (["digits", "--cost", "patch 0,9=2"], "no query 'patch 0,9' to give a cost. Did you mean 'patch 0"),
        (["table.csv", "--target", "label", "--drop", "note", "--cost", "a=x"], "The cost of 'a' in a=x must be a"),
        (["digitss"], "'digitss' is neither a task"),
        (["table.csv"], "Name it with --target: a, b, c, label, note"),
        (["table.csv", "--target", "label", "--recipe", "fast"], "'table' has no recipes"),
        (
            ["table.csv", "--target", "label", "--drop", "note", "--test-share", "0"],
            "table has no held-out rows to measure on",
        ),
    ],
)
def test_mistakes_get_one_sentence(folder: Path, arguments: list[str], message: str) -> None:
    done = run(folder, *arguments)
    assert_refused(done, message)
    assert not (folder / "results").exists()


@pytest.mark.parametrize("wrong", [("--seeds", "0"), ("--effort", "0"), ("--rows", "0"), ("--first-seed", "-1")])
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: tuple[str, str]) -> None:
    done = run(tmp_path, "digits", *wrong)
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())


def test_methods_by_default_are_some_that_there_are() -> None:
    assert {"vip", "random"} <= set(command._method_names(None)) <= set(METHODS)
    assert command._method_names(" vip, tree ,") == ("vip", "tree")


def test_collecting_trains_nothing(folder: Path) -> None:
    done = run(folder, *FILE, "--collect")
    assert done.returncode == 1
    assert "All methods failed" in done.stderr
    assert not list((folder / "results").rglob("model.json"))


def test_stopping_tells_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "compare", stopped)
    done = run(folder, *FILE)
    assert done.returncode == 130
    assert "Run the same command again to continue." in done.stderr
