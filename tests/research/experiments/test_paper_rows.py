"""Runs of the paper on some of the test rows: the same ones for G-IP and V-IP, each with the time of a query."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import paper as page
from pursuit.evaluation import rollouts
from pursuit.methods.g_ip import GIPSettings, Langevin
from pursuit.research.experiments import paper as queue
from pursuit.research.experiments.paper import G_IP, PLAN, PaperRun, Place, read_records
from pursuit.research.experiments.results import Result, read_result
from pursuit.research.tasks import TASKS

pytestmark = pytest.mark.usefixtures("small_tasks")
VIP_RUN = PaperRun("columns", recipe="fast", querier="straight-through", rows=10, curve=2)
G_IP_RUN = PaperRun("columns", G_IP, "fast", published=True, rows=10, curve=2)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "results" / "paper", tmp_path / "work", "cpu")


@pytest.fixture
def few_chains(monkeypatch: pytest.MonkeyPatch) -> GIPSettings:
    settings = GIPSettings(2, (8,), Langevin.released(4, 10))
    monkeypatch.setattr(GIPSettings, "released", classmethod(lambda cls, query_set: settings))
    return settings


def measured(run: PaperRun, place: Place) -> Result:
    queue.measure(run, place)
    result = read_result(place.result(run))
    assert result is not None
    return result


def test_the_number_of_rows_is_part_of_the_run_and_of_its_name() -> None:
    assert VIP_RUN.name == "columns-fast-straight-through-querier-10-rows-seed-0"
    assert PaperRun("mnist", G_IP, published=True, rows=100).name == "mnist-gpu-g-ip-published-settings-100-rows-seed-0"
    assert replace(VIP_RUN, rows=None) != VIP_RUN
    assert replace(VIP_RUN, rows=None).name == "columns-fast-straight-through-querier-seed-0"


def test_every_g_ip_of_the_plan_has_v_ip_on_the_same_rows() -> None:
    of_g_ip = [run for run in PLAN if run.method == G_IP]
    assert {run.task for run in of_g_ip} == {"mnist", "fashion-mnist", "cub", "huffpost"}
    for run in of_g_ip:
        assert run.published
        assert run.minutes <= 25
        beside = PaperRun(run.task, querier="straight-through", rows=run.rows)
        assert [other.curve for other in PLAN if other == beside] == [run.curve]


def test_both_methods_are_measured_on_the_same_rows(place: Place) -> None:
    one, other = (run.method_run(place.folder(run), "cpu").load(0) for run in (VIP_RUN, G_IP_RUN))
    everything = TASKS["columns"].load(0)
    assert len(one.y_test) == 10 < len(everything.y_test)
    assert np.array_equal(one.X_test, other.X_test)
    assert np.array_equal(one.y_test, other.y_test)
    assert len(everything.some_test_rows(10**6).y_test) == len(everything.y_test)


@pytest.mark.slow
def test_results_say_the_rows_and_the_time_of_a_query(place: Place, few_chains: GIPSettings) -> None:
    for run in (VIP_RUN, G_IP_RUN):
        result = measured(run, place)
        assert result.n_test == result.run["rows"] == 10
        assert len(result.evaluation.accuracy_by_asked) == 3
        assert result.query_milliseconds is not None
        assert result.query_milliseconds > 0
    done = read_records(place.out, (VIP_RUN, G_IP_RUN))
    assert set(done) == {VIP_RUN, G_IP_RUN}
    cell = page.Cell(0.9, page.SO_FAR, G_IP_RUN, beside=VIP_RUN)
    text = page.cell_text(cell, done)
    assert "on 10 rows to 2 queries (V-IP there" in text
    assert text.count("ms a query") == 2
    assert "V-IP there –" in page.cell_text(cell, {G_IP_RUN: done[G_IP_RUN]})
    assert "not run" in page.cell_text(cell, {})


def test_released_settings_are_those_of_the_query_set(place: Place) -> None:
    made = G_IP_RUN.method_run(place.folder(G_IP_RUN), "cpu")
    assert made.method is not None
    task = made.load(0)
    assert made.method.build(task.query_set).settings == GIPSettings.released(task.query_set)


@pytest.mark.slow
def test_rows_of_g_ip_are_asked_a_few_at_a_time(
    place: Place, few_chains: GIPSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, whole = list[int](), rollouts.pursue

    def counted(pursuer: Any, x: Any, *more: Any) -> Any:
        sizes.append(len(x))
        return whole(pursuer, x, *more)

    monkeypatch.setattr(rollouts, "pursue", counted)
    monkeypatch.setattr(queue, "G_IP_ROWS", 4)
    queue.measure(G_IP_RUN, place)
    assert sizes == [4, 4, 2]


@pytest.mark.slow
def test_measuring_goes_on_where_it_stopped(
    place: Place, few_chains: GIPSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "G_IP_ROWS", 4)
    whole, sizes = rollouts.pursue, list[int]()

    def counted(pursuer: Any, x: Any, *more: Any) -> Any:
        sizes.append(len(x))
        if len(sizes) == 2:
            raise RuntimeError("stopped")
        return whole(pursuer, x, *more)

    monkeypatch.setattr(rollouts, "pursue", counted)
    with pytest.raises(SystemExit):
        queue.measure(G_IP_RUN, place)
    found = measured(G_IP_RUN, place)
    assert sizes == [4, 4, 4, 2]
    assert found.resumed
    again = measured(G_IP_RUN, replace(place, out=place.out / "again"))
    assert found.evaluation == again.evaluation
