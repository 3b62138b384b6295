"""Reproducing a task: the results folder, going on, several seeds, and the row of a table."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
import torch
from pursuit.tasks.recipes import Recipe

from pursuit import reproduce as module
from pursuit.data.augmentation import Shifts
from pursuit.estimators import VIPClassifier
from pursuit.evaluation.curves import evaluate, wilson_interval
from pursuit.experiments.reproduce import HEADER, Run, markdown_row, reproduce, summarise
from pursuit.inference.stopping import Budget, parse_stop
from pursuit.methods import RandomOrder
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from pursuit.tasks import TASKS, Task, TaskInfo
from pursuit.tasks.symcat import Patients
from pursuit.training.loop import Report, train
from pursuit.training.schedule import Stage

QUERIES = ColumnQueries([yes_no(name) for name in "abcdef"])
RECIPE = Recipe(MLP((8,)), (Stage(3, batch_size=16), Stage(2, batch_size=16)), "budget=2", max_queries=6)


def columns_task(seed: int) -> Task:
    randomness = np.random.default_rng(seed)
    X, X_test = randomness.integers(0, 2, (60, 6)), randomness.integers(0, 2, (20, 6))
    initially_known = np.zeros((60, 6), dtype=bool)
    initially_known[:, 5] = True
    labels = [np.where(part[:, 0] == 1, "sick", "well") for part in (X, X_test)]
    return Task(
        "columns", QUERIES, X, labels[0], X_test, labels[1], {"seed": seed}, initially_known, initially_known[:20]
    )


def images_task(seed: int) -> Task:
    images = np.random.default_rng(seed).random((50, 1, 3, 3))
    y = (images[:, 0, 1, 1] > 0.5).astype(int)
    return Task("images", PatchQueries((1, 3, 3), size=2), images[:30], y[:30], images[30:], y[30:], {"seed": seed})


def drawn_task(seed: int) -> Task:
    patients = Patients(["cold", "flu"], torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2]), n_rows=60)
    test = patients.draw(25, torch.Generator().manual_seed(seed))
    assert test.initially_known is not None
    y = np.array(patients.classes)[test.y.numpy()]
    x = (test.x > 0).int().numpy()
    return Task(
        "drawn", QUERIES, patients, None, x, y, {"seed": seed}, initially_known_test=test.initially_known.numpy()
    )


@pytest.fixture(autouse=True)
def made_tasks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "folder_holds_everything" not in request.node.name:
        monkeypatch.setattr(module, "N_CHAINS", 0)  # figures take longer than the little training here
    for load in (columns_task, images_task, drawn_task):
        name = load.__name__.removesuffix("_task")
        monkeypatch.setitem(TASKS, name, TaskInfo(name, name, load, 6, 2, 60, 20))


class Heard:
    """What a run told, and how often it trained."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.reports: list[Report] = []
        self.said: list[str] = []

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[Report], None]]:
        self.titles.append(title)
        yield self.reports.append


def run_it(run: Run, folder: Path) -> tuple[dict[str, Any], Heard]:
    """What came out, as JSON has it."""
    heard = Heard()
    return json.loads(json.dumps(reproduce(run, folder, heard.progress, heard.said.append))), heard


def n_cells(row: str) -> int:
    assert row.startswith("| ")
    assert row.endswith(" |")
    return len(row[2:-2].split(" | "))


def test_a_results_folder_holds_everything(tmp_path: Path) -> None:
    results, heard = run_it(Run("columns", "tiny", RECIPE, seeds=(0, 1)), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "row.md", "curve.png", "seed-0", "seed-1"}
    own = {"result.json", "model.json", "model.safetensors", "run.json", "log.csv", "checkpoints"}
    for seed in (0, 1):
        files = {path.name for path in (tmp_path / f"seed-{seed}").iterdir()}
        assert files == own | {"chain-0.png", "chain-1.png", "chain-2.png"}
        assert json.loads((tmp_path / f"seed-{seed}" / "result.json").read_text()) == results["seeds"][seed]
    assert json.loads((tmp_path / "results.json").read_text()) == results
    assert heard.titles == ["columns, seed 0", "columns, seed 1"]
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (results["task"], results["recipe"], results["measured_on"]) == ("columns", "tiny", "test rows")


def test_results_are_those_of_the_saved_model(tmp_path: Path) -> None:
    results, _ = run_it(Run("columns", "tiny", RECIPE, seeds=(3,)), tmp_path)
    (one,) = results["seeds"]
    task, model = columns_task(3), VIPClassifier.load(tmp_path / "seed-3")
    rows = model.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    rules = [parse_stop(at_stop["rule"]) for at_stop in one["vip"]["trade_off"]]
    assert len(rules) > 3
    evaluation = evaluate(model.model_, rows, Budget(2) | Budget(6), 6, trade_off=rules)
    assert one["vip"] == json.loads(json.dumps(evaluation.to_dict()))
    by_chance = evaluate(RandomOrder(model.model_, seed=0), rows, max_queries=6)
    assert one["random_order"]["accuracy_by_answered"] == by_chance.accuracy_by_answered
    assert one["random_order"]["area"] == by_chance.area
    assert 0 <= one["logistic_regression"]["accuracy_all_answers"] <= 1
    assert "exact" not in one
    assert (one["seed"], one["n_train"], one["n_test"], one["histories"]) == (3, 60, 20, 300)
    assert {"commit", "torch", "device"} <= one["provenance"].keys()
    assert one["notes"] == {"seed": 3}
    assert model.notes_["task"] == {"name": "columns", "seed": 3}


def test_a_black_box_is_right_where_the_label_is_an_answer(tmp_path: Path) -> None:
    results, _ = run_it(Run("columns", "tiny", RECIPE), tmp_path)
    assert results["seeds"][0]["logistic_regression"]["accuracy_all_answers"] == 1


@pytest.mark.parametrize("task", ["images", "drawn"])
def test_images_and_drawn_rows(task: str, tmp_path: Path) -> None:
    results, _ = run_it(Run(task, "tiny", replace(RECIPE, max_queries=None)), tmp_path)
    (one,) = results["seeds"]
    assert "logistic_regression" not in one
    assert one["n_train"] == (30 if task == "images" else 60)
    assert len(one["vip"]["accuracy_by_answered"]) == (5 if task == "images" else 6 + 1)
    assert n_cells(markdown_row(results)) == 12


def test_the_same_again_is_not_trained_again(tmp_path: Path) -> None:
    run = Run("columns", "tiny", RECIPE)
    results, _ = run_it(run, tmp_path)
    again, heard = run_it(run, tmp_path)
    assert again == results
    assert heard.titles == []
    assert ["already measured" in text for text in heard.said] == [True]
    more, heard = run_it(replace(run, seeds=(0, 1)), tmp_path)
    assert heard.titles == ["columns, seed 1"]
    assert more["seeds"][0] == again["seeds"][0]
    assert more["summary"]["n_seeds"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": RECIPE.tempered(0.5, 0.5), "options": ("tau 0.5 to 0.5",)},
        {"recipe": RECIPE.scaled(2), "options": ("effort 2",)},
        {"recipe": replace(RECIPE, network=MLP((9,)))},
        {"recipe": replace(RECIPE, query_options={"mask": False})},
        {"validation_split": True},
    ],
)
def test_what_is_changed_is_trained_anew(change: dict[str, Any], tmp_path: Path) -> None:
    run = Run("columns", "tiny", RECIPE)
    run_it(run, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    changed, heard = run_it(replace(run, **change), tmp_path / "other")
    assert heard.titles == ["columns, seed 0"]
    assert heard.reports[0].step == 1  # from the first step on
    alone, _ = run_it(replace(run, **change), tmp_path / "alone")
    assert changed["seeds"][0]["vip"] == alone["seeds"][0]["vip"]
    weights = [(tmp_path / name / "seed-0" / "model.safetensors").read_bytes() for name in ("one", "other", "alone")]
    assert weights[1] == weights[2] != weights[0]


def test_another_way_of_measuring_needs_no_other_training(tmp_path: Path) -> None:
    run = Run("columns", "tiny", RECIPE)
    results, _ = run_it(run, tmp_path)
    shorter, heard = run_it(replace(run, curve_queries=3), tmp_path)
    assert not heard.reports
    assert len(shorter["seeds"][0]["vip"]["accuracy_by_answered"]) == 4
    (one,), (other,) = results["seeds"], shorter["seeds"]
    assert other["vip"]["accuracy_by_answered"] == one["vip"]["accuracy_by_answered"][:4]


class Killed(Exception):
    pass


SMOOTHED = Stage(8, batch_size=16, label_smoothing=0.1, augment=Shifts(1, mirror=True))


@pytest.mark.parametrize(
    ("task", "recipe", "n_reports"),
    [
        ("columns", RECIPE, 1),
        ("columns", RECIPE, 9),
        ("columns", RECIPE, 15),
        ("images", replace(RECIPE, stages=(*RECIPE.stages, SMOOTHED), max_queries=None), 12),
        ("drawn", RECIPE, 5),
    ],
)
def test_an_interrupted_run_goes_on(
    task: str, recipe: Recipe, n_reports: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pursuit.training.loop.CHECKPOINT_PAUSE", 0)
    monkeypatch.setattr("pursuit.estimators.network.train", partial(train, checkpoint_seconds=0.0))
    run = Run(task, "tiny", recipe)
    whole, heard = run_it(run, tmp_path / "whole")
    assert len(heard.reports) > n_reports

    @contextmanager
    def killing(title: str) -> Iterator[Callable[[Report], None]]:
        seen: list[Report] = []

        def on_report(report: Report) -> None:
            seen.append(report)
            if len(seen) == n_reports:
                raise Killed

        yield on_report

    with pytest.raises(Killed):
        reproduce(run, tmp_path / "killed", killing, lambda text: None)
    assert not (tmp_path / "killed" / "seed-0" / "result.json").exists()
    results, rest = run_it(run, tmp_path / "killed")
    # What a report was heard of but not saved is done again.
    assert len(rest.reports) == len(heard.reports) - n_reports + 1
    assert results["seeds"][0]["vip"] == whole["seeds"][0]["vip"]
    weights = [(tmp_path / name / "seed-0" / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_a_run_killed_while_measuring_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    run = Run("columns", "tiny", RECIPE)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_measure", killed)
        with pytest.raises(Killed):
            run_it(run, tmp_path)
    weights = (tmp_path / "seed-0" / "model.safetensors").read_bytes()
    _, heard = run_it(run, tmp_path)
    assert not heard.reports
    assert (tmp_path / "seed-0" / "model.safetensors").read_bytes() == weights


def test_settings_that_cannot_be_trained_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="The device is one of"):
        run_it(Run("columns", "tiny", RECIPE, device="tpu"), tmp_path)
    assert not (tmp_path / "results.json").exists()


def test_choosing_measures_on_rows_to_learn_from(tmp_path: Path) -> None:
    results, _ = run_it(Run("columns", "tiny", RECIPE, validation_split=True), tmp_path)
    (one,) = results["seeds"]
    assert (one["n_train"], one["n_test"]) == (54, 6)
    assert "held apart" in results["measured_on"]
    learnt = columns_task(0)
    chosen = Run("columns", "tiny", RECIPE, validation_split=True).load(0)
    assert np.array_equal(chosen.X_test, learnt.validation_split().X_test)
    drawn = [Run("drawn", "tiny", RECIPE, validation_split=part).load(0) for part in (False, True)]
    assert not np.array_equal(drawn[0].X_test, drawn[1].X_test)
    assert len(drawn[1].y_test) == 25


# Summaries


def measured(area: float, accuracy: float, n_test: int = 200, longest: int = 12, stop: bool = True) -> dict[str, Any]:
    at_stop = {"rule": "confidence=0.9", "mean_answered": 10 * accuracy, "accuracy": accuracy / 2}
    vip = {
        "area": area,
        "accuracy_all_answers": accuracy,
        "accuracy_by_answered": [accuracy * n / longest for n in range(longest + 1)],
        "stop": at_stop if stop else None,
    }
    return {
        "vip": vip,
        "random_order": {"area": area / 2},
        "training_seconds": 60.0,
        "n_train": 1000,
        "n_test": n_test,
        "provenance": {"device": "CPU", "commit": "abc1234"},
    }


def test_seeds_are_summed_up() -> None:
    aucs, accuracies = [0.5, 0.6, 0.9], [0.8, 0.7, 0.9]
    summary = summarise([measured(area, accuracy) for area, accuracy in zip(aucs, accuracies, strict=True)])
    assert summary["n_seeds"] == 3
    assert summary["area"] == pytest.approx({"mean": mean(aucs), "sd": stdev(aucs)})
    assert summary["area_random_order"] == pytest.approx({"mean": mean(aucs) / 2, "sd": stdev(aucs) / 2})
    assert summary["accuracy_all_answers"] == pytest.approx({"mean": mean(accuracies), "sd": stdev(accuracies)})
    assert summary["stop"]["rule"] == "confidence=0.9"
    assert summary["stop"]["mean_answered"]["mean"] == pytest.approx(8)
    assert summary["stop"]["accuracy"] == pytest.approx({"mean": 0.4, "sd": stdev(accuracies) / 2})
    after_five = summary["accuracy_after_5"]
    assert after_five["mean"] == pytest.approx(0.8 * 5 / 12)
    assert after_five["interval"] == pytest.approx(wilson_interval(0.8 * 5 / 12, 200))
    assert after_five["interval"][0] < after_five["mean"] < after_five["interval"][1]
    assert "accuracy_after_20" not in summary  # the curve ends at 12


def test_one_seed_has_no_spread_and_no_rule_no_stop() -> None:
    summary = summarise([measured(0.5, 0.8, stop=False)])
    assert summary["area"] == {"mean": 0.5, "sd": 0.0}
    assert "stop" not in summary


@pytest.mark.parametrize("task", ["mnist", "symcat-200", "digits", "kmnist-test-split"])
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("longest", [3, 30])
def test_a_row_has_as_many_cells_as_the_header(task: str, stop: bool, longest: int) -> None:
    seeds = [measured(0.5, 0.8, 1000, longest, stop), measured(0.6, 0.7, 1000, longest, stop)]
    results = {"task": task, "recipe": "fast", "options": ["irs", "effort 0.5"], "seeds": seeds}
    row = markdown_row({**results, "summary": summarise(seeds)})
    titles, rule = HEADER.split("\n")
    assert n_cells(row) == n_cells(titles) == rule.count("---") == 12
    assert "fast (irs, effort 0.5)" in row
    assert "1,000 / 1,000" in row
    assert "CPU, 60 s" in row
    assert "0.550 ± 0.071" in row
    assert ("6.34, 0.971, 0.991, –" in row) == (task == "mnist")
    assert ("–, –, –, 0.681" in row) == (task == "symcat-200")


@pytest.mark.parametrize("damage", ["{bad", "[]", "", "{}"])
def test_a_damaged_result_is_measured_anew(damage: str, tmp_path: Path) -> None:
    run = Run("columns", "tiny", RECIPE)
    before, _ = run_it(run, tmp_path)
    (tmp_path / "seed-0" / "result.json").write_text(damage)
    after, _ = run_it(run, tmp_path)
    assert after["seeds"][0]["vip"] == before["seeds"][0]["vip"]
    assert not before["seeds"][0]["resumed"]
    assert after["seeds"][0]["resumed"]
    assert " s, resumed |" in markdown_row(after)
    assert "resumed" not in markdown_row(before)


def test_a_row_says_what_it_was_measured_on_and_what_was_cut(tmp_path: Path) -> None:
    plain, _ = run_it(Run("columns", "tiny", RECIPE), tmp_path / "plain")
    assert "| tiny |" in markdown_row(plain)
    assert "(budget=2,budget=6)" in markdown_row(plain)
    chosen, _ = run_it(Run("columns", "tiny", RECIPE, validation_split=True, curve_queries=1), tmp_path / "chosen")
    assert "tiny (measured on rows to learn from, held apart)" in markdown_row(chosen)
    assert "1.00 (budget=2,budget=6, cut short in 100.0%)" in markdown_row(chosen)
