"""The comparison of methods: pages say what the JSON files say, and the judge knows exact pursuit when it sees it."""

import json
from pathlib import Path

import pytest

import known_world
import methods
from pursuit.experiments.compare import compare
from pursuit.experiments.results import Mean, MethodResults, Results, Summary
from pursuit.experiments.trial import Trial
from pursuit.methods import METHODS


def test_the_pages_say_what_the_files_say() -> None:
    assert methods.PAGE.read_text(encoding="utf-8") == methods.page()
    assert methods.areas() in methods.METHODS_PAGE.read_text(encoding="utf-8")


def test_every_estimator_is_compared_somewhere() -> None:
    compared = {name for results in methods.kept().values() for name in results.methods}
    assert {METHODS[name].estimator for name in compared & set(METHODS)} == {
        own.estimator for own in METHODS.values() if not own.predicts_numbers
    }


def test_results_have_three_seeds_and_name_their_commit() -> None:
    for task, results in methods.kept().items():
        for name, found in results.methods.items():
            assert found.failed == [], (task, name)
            assert all(seed.provenance["commit"] for seed in found.seeds)
        assert len(results.methods["vip"].seeds) >= 3, task


def test_exact_pursuit_is_judged_exact() -> None:
    found = methods.judge(known_world.EXACT, known_world.draw(40, seed=0))
    assert found["correlation"] == pytest.approx(1)
    assert found["divergence"] == pytest.approx(0, abs=1e-9)
    assert found["share"] == pytest.approx(1)


def test_the_known_world_is_a_task_with_exact_pursuit() -> None:
    task = methods.known_task()
    assert task.exact is not None
    assert task.exact() is known_world.EXACT
    assert len(task.X_train) == methods.KNOWN_ROWS


def test_the_gap_to_exact_pursuit_is_given() -> None:
    def found(area: float, accuracy: float) -> MethodResults:
        nothing = Mean(0.0, 0.0)
        summary = Summary(1, 9, 9, Mean(area, 0.0), Mean(area, 0.0), {5: Mean(accuracy, 0.0)}, nothing, nothing)
        return MethodResults("a method", summary, [])

    gap = methods.gap_to_exact(Results({}, {"vip": found(0.5, 0.4), "exact": found(0.55, 0.43)}))
    assert gap == "V-IP's gap to exact IP: +0.030 after 5 queries, +0.050 in area.\n"
    assert methods.gap_to_exact(Results({}, {"vip": found(0.5, 0.4)})) == ""


def test_what_a_comparison_found_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "FOLDER", tmp_path / "kept")
    results = compare(Trial(methods.known_task(), ("naive-bayes", "exact"), max_rows=20), tmp_path / "run")
    methods.take_over(tmp_path / "run", methods.KNOWN_WORLD)
    values = json.loads((tmp_path / "kept" / "known-world.json").read_text())
    assert list(values["judged"]) == ["naive-bayes"]
    assert list(methods.kept()["known-world"].methods) == list(results.methods)
    assert (tmp_path / "kept" / "known-world.png").exists()
    assert "| naive-Bayes IP | " in methods.page()
