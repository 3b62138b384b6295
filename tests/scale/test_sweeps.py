"""Comparisons whose trainings run side by side on a cluster, one node of which is killed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pursuit import MLP, ColumnQueries, Stage, yes_no
from pursuit.estimators.tuned import OneOf, Span
from pursuit.research.experiments import reproduce as reproducing
from pursuit.research.experiments.compare import Trial, compare
from pursuit.research.experiments.reproduce import Reproduction, reproduce
from pursuit.research.experiments.results import Results
from pursuit.research.experiments.tune import Search, TrialRun, tune
from pursuit.research.tasks import Task, find_recipe
from pursuit.tables.engine import Ray, find_engine
from scale.conftest import COLUMNS, make_rows, needs_ray
from scale.test_ray_engine import Killer

pytestmark = [pytest.mark.scale, needs_ray]


def trial(**changes: Any) -> Trial:
    train, test = make_rows(200, 1), make_rows(100, 2)
    queries = ColumnQueries([yes_no(name) for name in COLUMNS])
    task = Task("six", queries, train[COLUMNS], train["label"].to_numpy(), test[COLUMNS], test["label"].to_numpy())
    return Trial(task, methods=("random", "fixed", "naive-bayes"), seeds=(0, 1), effort=0.2, **changes)


def measured(results: Results) -> dict[tuple[str, int], Any]:
    """What must not depend on where it was measured."""
    return {(name, seed.seed): seed.evaluation for name, found in results.methods.items() for seed in found.seeds}


def test_a_sweep_finds_what_one_machine_finds(tmp_path: Path, cluster: Any) -> None:
    said: list[str] = []
    killer = Killer(cluster, after=1)

    def say(line: str) -> None:
        said.append(line)
        killer(len(said))

    swept = compare(trial(), tmp_path / "ray", say=say, engine=Ray())
    assert killer.has_killed
    assert len(said) == 6
    here = compare(trial(), tmp_path / "here")
    assert measured(swept) == measured(here)
    files = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json")) for folder in tmp_path.iterdir()]
    assert files[0] == files[1]
    again: list[str] = []
    compare(trial(), tmp_path / "ray", say=again.append, engine=Ray())
    assert all("already measured" in line for line in again)


def test_a_method_that_fails_is_noted_and_the_others_go_on(tmp_path: Path, cluster: Any) -> None:
    found = compare(replace(trial(), stop="bits=0.01"), tmp_path, engine=Ray())
    assert set(found.worked) == {"naive-bayes"}
    assert set(found.methods) == {"random", "fixed", "naive-bayes"}
    assert "needs scores in bits" in (tmp_path / "fixed" / "seed-0" / "error.txt").read_text()


@pytest.fixture
def reproduction(monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    """Two seeds of a task that every process can load: digits, hardly trained."""
    monkeypatch.setattr(reproducing, "N_CHAINS", 0)
    recipe = find_recipe("digits").scaled(0.002)
    return Reproduction("digits", "fast", recipe, seeds=(0, 1), curve_queries=3)


def test_a_reproduction_finds_what_one_machine_finds(tmp_path: Path, cluster: Any, reproduction: Reproduction) -> None:
    said: list[str] = []
    killer = Killer(cluster, after=1)

    def say(line: str) -> None:
        said.append(line)
        killer(len(said))

    swept = reproduce(reproduction, tmp_path / "ray", say=say, engine=Ray())
    assert killer.has_killed
    assert len(said) == 4
    assert measured(swept) == measured(reproduce(reproduction, tmp_path / "here"))
    assert (tmp_path / "ray" / "table.md").exists()


def test_what_is_missing_on_a_worker_is_said_here(tmp_path: Path, cluster: Any) -> None:
    missing = replace(trial(), source=tmp_path / "visits.csv", table_options={"target": "label"}, methods=("random",))
    make_rows(60, 1).to_csv(tmp_path / "visits.csv", index=False)
    missing.load(0)

    class WithoutFile(Ray):
        def each(self, do: Any, items: Any) -> Any:
            (tmp_path / "visits.csv").unlink()
            return super().each(do, items)

    with pytest.raises(FileNotFoundError, match=r"visits\.csv"):
        compare(missing, tmp_path / "out", engine=WithoutFile())


def test_a_search_goes_on_when_a_node_is_lost(tmp_path: Path, cluster: Any) -> None:
    pytest.importorskip("optuna")
    task = trial().load(0)
    task = replace(task, X_test=None, y_test=task.y_test[:1], settings={"network": MLP((8,)), "stages": [Stage(20)]})
    search = Search(task, space={"lr": Span(0.5, 2.0), "width": OneOf((0.5, 1.0, 2.0))})
    said: list[str] = []
    killer = Killer(cluster, after=2)

    def say(line: str) -> None:
        said.append(line)
        killer(len(said))

    found = tune(search, tmp_path / "ray", n_trials=7, say=say, engine=Ray())
    assert killer.has_killed
    assert [one.number for one in found.trials] == list(range(7))
    assert len(said) == 7
    assert all(one.judged for one in found.trials)
    # What is judged does not depend on where: the same values give the same area here.
    for one in (found.trials[0], found.trials[-1]):
        here = TrialRun(search, one.number, one.values, tmp_path / "here" / str(one.number)).measure()
        assert one.judged is not None
        assert here.area == one.judged.area


def test_a_share_of_a_gpu_is_checked() -> None:
    with pytest.raises(ValueError, match="a share of a GPU, from 0 to 1"):
        find_engine("ray", None, 1.5)
