"""What a trial compares on: the same rows and budget for all, and what tells one trial from another."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import registry
from pursuit.estimators import default_stages
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.research.experiments.compare import Trial
from pursuit.research.experiments.reproduce import Reproduction
from pursuit.research.tasks import TASKS, Task, TaskInfo, find_recipe
from pursuit.training.schedule import Stage, paper_stage


def made_task(**changes: Any) -> Task:
    X = np.random.default_rng(0).integers(0, 2, (50, 4))
    queries = ColumnQueries([yes_no(f"q{i}", f"Query {i}?") for i in range(4)])
    initially_known = np.zeros((10, 4), dtype=bool)
    task = Task(
        "made", queries, X[:40], X[:40, 0], X[40:], X[40:, 0], {"from": "chance"}, initially_known_test=initially_known
    )
    return replace(task, **changes)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    columns = {name: np.random.default_rng(i).integers(0, 2, 80) for i, name in enumerate("abc")}
    pd.DataFrame({**columns, "label": columns["a"]}).to_csv(path, index=False)
    return path


def test_a_task_by_name_brings_its_recipe() -> None:
    trial = Trial("digits", effort=0.5, stop="budget=7", max_rows=30)
    task, recipe = trial.load(3), find_recipe("digits")
    assert np.array_equal(task.X_train, TASKS["digits"].load(3).X_train)
    assert np.array_equal(task.y_test, TASKS["digits"].load(3).y_test[:30])
    assert len(task.X_test) == 30
    assert (task.settings["network"], task.settings["stop"]) == (recipe.network, "budget=7")
    assert [stage.epochs for stage in task.settings["stages"]] == [90]
    assert (trial.name, trial.options) == ("digits", ["effort 0.5"])


def test_for_validation_no_test_row_is_measured() -> None:
    trial = Trial("digits", validation=True)
    chosen = Reproduction("digits", "fast", find_recipe("digits"), validation=True).load(0)
    assert np.array_equal(trial.load(0).X_test, chosen.X_test)
    assert trial.options == ["validation"]
    assert trial.described()["measured_on"] == "held-out training rows"
    assert len(Trial(made_task(), validation=True).load(0).y_test) == 4


def test_another_recipe_changes_what_is_learnt_and_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    info = TASKS["mnist"]
    images = np.zeros((3, 1, 28, 28))
    query_set = TASKS["digits"].load(0).query_set

    def load(seed: int) -> Task:
        return Task("mnist", query_set, images, np.arange(3), images, np.arange(3))

    monkeypatch.setitem(registry._known["task"], "mnist", replace(info, load=load))
    trial = Trial("mnist", recipe="paper")
    assert trial.load(0).settings["network"] == find_recipe("mnist", "paper").network
    assert trial.load(0).query_set.input_shape != Trial("mnist").load(0).query_set.input_shape  # it has no mask
    assert trial.options == ["paper"]


def test_a_file_is_trained_as_by_default(table: Path) -> None:
    trial = Trial(str(table), max_queries=2, table_options={"target": "label", "test_share": 0.25})
    task = trial.load(0)
    assert (len(task.X_train), len(task.X_test)) == (60, 20)
    assert task.settings == {"max_queries": 2}
    assert trial.name == "table"
    (longer,) = replace(trial, effort=2.0).load(0).settings["stages"]
    (usual,) = default_stages(60, 3, 2)
    assert longer == replace(usual, epochs=2 * usual.epochs)
    assert not np.array_equal(task.X_test.index, trial.load(1).X_test.index)


def test_waves_of_the_learning_rate_are_stretched_too() -> None:
    stages = [paper_stage(Stage(1).histories, 100, period=10), Stage(4)]
    task = Trial(made_task(settings={"stages": stages}), effort=0.5).load(0)
    assert [(stage.epochs, stage.period) for stage in task.settings["stages"]] == [(50, 5), (2, None)]


def test_initially_known_answers_are_cut_with_their_rows() -> None:
    initially_known = Trial(made_task(), max_rows=3).load(0).initially_known_test
    assert initially_known is not None
    assert initially_known.shape == (3, 4)


def test_one_task_at_a_time_is_kept() -> None:
    trial = Trial("digits")
    first = trial.load(0)
    assert trial.load(0) is first
    trial.load(1)
    assert trial.load(0) is not first


@pytest.mark.parametrize(
    "change",
    [
        {"effort": 0.5},
        {"stop": "budget=3"},
        {"max_queries": 3},
        {"max_rows": 5},
        {"validation": True},
        {"source": made_task(settings={"network": MLP((9,))})},
        {"source": made_task(notes={"from": "elsewhere"})},
    ],
)
def test_what_changes_a_result_is_described(change: dict[str, Any]) -> None:
    trial = Trial(made_task())
    described = trial.described()
    assert json.loads(json.dumps(described)) == described
    assert replace(trial, **change).described() != described


def test_what_does_not_change_results_is_not_described(table: Path) -> None:
    for trial in (Trial(made_task()), Trial(str(table), table_options={"target": "label", "drop": ("b",)})):
        for change in ({"seeds": (4, 5)}, {"methods": ("random",)}, {"device": "auto"}):
            assert replace(trial, **change).described() == trial.described()


def test_a_file_that_changed_is_another(table: Path) -> None:
    options = {"target": "label"}
    before = Trial(str(table), table_options=options).described()
    assert Trial(str(table), table_options={**options, "drop": ["b"]}).described() != before
    table.write_text(table.read_text().replace("1,1,1", "1,0,1"))
    assert Trial(str(table), table_options=options).described() != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "digits", "recipe": "paper"}, "digits has no recipe 'paper', only fast"),
        ({"source": "digits", "table_options": {"target": "label"}}, "a task with its own queries and labels"),
        ({"source": "some.csv", "recipe": "fast"}, "'some' has no recipes: --recipe is for the tasks animals"),
        ({"source": "digits", "device": "tpu"}, "The device is one of"),
        ({"source": "digits", "stop": "soon"}, "soon"),
        ({"source": "digits", "methods": ()}, "At least one method"),
        ({"source": "digits", "seeds": ()}, "At least one method and one seed"),
        ({"source": "digits", "effort": 0.0}, "must be above 0"),
    ],
)
def test_mistakes_are_reported_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trial(**arguments)


def test_rows_to_measure_on_are_needed(table: Path) -> None:
    trial = Trial(str(table), table_options={"target": "label", "test_share": 0.0})
    with pytest.raises(ValueError, match="table has no held-out rows to measure on"):
        trial.load(0)
    with pytest.raises(ValueError, match="neither a task"):
        Trial("digitss").load(0)


def test_a_task_without_recipes_is_trained_as_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    info = TaskInfo("made", "made up", lambda seed: made_task(), n_queries=4, n_classes=2, n_train=40, n_test=10)
    monkeypatch.setitem(registry._known["task"], "made", info)
    trial = Trial("made", stop="budget=2")
    assert trial.find_recipe() is None
    assert trial.load(0).settings == {"stop": "budget=2"}
    assert trial.described()["recipe"] is None
    with pytest.raises(ValueError, match="made has no recipes"):
        Trial("made", recipe="fast")


def test_costs_are_given_to_any_task(table: Path) -> None:
    for trial, name in (
        (Trial("digits", costs={"patch 0,0": 5}, cost_aware=True), "patch 0,0"),
        (Trial(made_task(), costs={"q2": 5}, cost_aware=True), "q2"),
        (Trial(str(table), costs={"b": 5}, cost_aware=True, table_options={"target": "label"}), "b"),
    ):
        task = trial.load(0)
        assert {query.name: query.cost for query in task.query_set.queries if query.cost != 1} == {name: 5}
        assert task.settings["cost_aware"]
        assert trial.options == ["costs", "cost aware"]
        plain = replace(trial, costs={}, cost_aware=False)
        assert "cost_aware" not in plain.load(0).settings
        assert plain.described() != trial.described() != replace(trial, costs={name: 6}).described()
