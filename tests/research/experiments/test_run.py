"""One run: trained, measured and kept; it goes on where it stopped, and is not done twice."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.conftest import RECIPE, Watcher, columns_task
from pursuit import MLP, Method, Stage, evaluate, load
from pursuit.estimators import PursuitClassifier
from pursuit.exact import IndependentIP
from pursuit.inference.stopping import Budget, Confidence
from pursuit.methods import METHODS
from pursuit.research.experiments import run as module
from pursuit.research.experiments.results import Result
from pursuit.research.experiments.run import (
    Measurement,
    MethodRun,
    load_split,
    step_milliseconds,
)
from pursuit.research.tasks.files import MissingData
from pursuit.research.tasks.recipe import Recipe
from pursuit.training import Report, TrainingRun
from pursuit.training.rows import Rows, Shifts

pytestmark = pytest.mark.usefixtures("small_tasks")


def make(folder: Path, task: str = "columns", recipe: Recipe = RECIPE, **changes: Any) -> MethodRun:
    """V-IP on a small task."""
    validation = changes.pop("validation", False)
    run = MethodRun(
        run={"task": task, "recipe": repr(recipe), "validation": validation},
        name="vip",
        title="V-IP",
        method=METHODS["vip"],
        load=lambda seed: load_split(task, recipe, seed, validation),
        seed=0,
        folder=folder,
    )
    return replace(run, **changes)


def measure(run: MethodRun) -> tuple[Result, Watcher]:
    watcher = Watcher()
    return run.read_or_measure(watcher.progress, watcher.said.append), watcher


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_a_folder_holds_the_model_its_training_and_the_result(tmp_path: Path) -> None:
    result, watcher = measure(make(tmp_path / "some" / "where", measurement=Measurement(n_chains=2)))
    kept = {"result.json", "model.json", "model.safetensors", "run.json", "log.csv", "checkpoints"}
    folder = tmp_path / "some" / "where"
    assert {path.name for path in folder.iterdir()} == kept | {"chain-0.png", "chain-1.png"}
    assert Result.from_dict(json.loads((folder / "result.json").read_text())) == result
    assert watcher.titles == ["columns, V-IP, seed 0"]
    assert watcher.said[0].startswith("columns, V-IP, seed 0: trained in ")
    assert (result.method, result.seed, result.n_train, result.n_test, result.n_histories) == ("vip", 0, 60, 20, 300)
    assert {"commit", "torch", "device"} <= result.provenance.keys()
    assert (result.notes, result.resumed, result.step_milliseconds, result.beside) == ({"seed": 0}, False, None, {})
    assert load(folder).notes_["task"] == {"name": "columns", "seed": 0}


@pytest.mark.parametrize(("n_chains", "drawn"), [(0, []), (1, [5]), (3, [2, 5, 9]), (99, [1, 2, 3, 4, 5, 6, 7, 9, 49])])
def test_chains_that_are_drawn_are_spread_over_their_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_chains: int, drawn: list[int]
) -> None:
    lengths, found = [49, 3, 1, 7, 5, 9, 2, 4, 6], []
    chains = [SimpleNamespace(n_asked=n) for n in lengths]

    def note(query_set: Any, X: Any, chain: Any, path: Path, title: str, picture: Any) -> None:
        assert path.name == f"chain-{len(found)}.png"
        assert f"Queries asked: {chain.n_asked} (1 to 49 on 9 test rows, median 5)" in title
        assert lengths.index(chain.n_asked) == int(X.index[0])
        found.append(chain.n_asked)

    task = columns_task(0)
    X = pd.DataFrame(task.X_test)[:9].reset_index(drop=True)
    model: Any = SimpleNamespace(explain=lambda X, **_: chains, model_=SimpleNamespace(query_set=None))
    monkeypatch.setattr(module, "draw_chain", note)
    module._draw_chains(model, replace(task, X_test=X, y_test=task.y_test[:9]), tmp_path, n_chains)
    assert found == drawn


def test_chains_are_drawn_without_pictures_that_are_not_on_the_machine(tmp_path: Path) -> None:
    def no_photo(row: int) -> np.ndarray:
        raise MissingData(f"no photo {row}")

    run = make(
        tmp_path, measurement=Measurement(n_chains=1), load=lambda seed: replace(columns_task(seed), picture=no_photo)
    )
    result, _ = measure(run)
    assert (tmp_path / "chain-0.png").exists()
    assert run.read() == result


def test_the_result_outlives_figures_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(module, "draw_chain", no_space)
    run = make(tmp_path, measurement=Measurement(n_chains=1))
    with pytest.raises(OSError, match="no space"):
        measure(run)
    assert run.read() is not None


def test_the_result_is_that_of_the_saved_model(tmp_path: Path) -> None:
    rules = (Confidence(0.8), Budget(1))
    measurement = Measurement(max_queries=3, trade_off=rules, times_steps=True)
    result, _ = measure(make(tmp_path, seed=3, measurement=measurement))
    task, model = columns_task(3), load(tmp_path)
    rows = model.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    assert result.evaluation == evaluate(model.model_, rows, Budget(2) | Budget(6), 3, trade_off=rules)
    assert result.step_milliseconds is not None
    assert result.step_milliseconds > 0


@pytest.mark.parametrize("task", ["images", "drawn"])
def test_images_and_drawn_rows(task: str, tmp_path: Path) -> None:
    result, _ = measure(make(tmp_path, task, replace(RECIPE, max_queries=None)))
    assert result.n_train == (30 if task == "images" else 60)
    assert len(result.evaluation.accuracy_by_asked) == (5 if task == "images" else 6 + 1)


def test_the_same_again_is_read(tmp_path: Path) -> None:
    run = make(tmp_path)
    assert run.read() is None
    result, _ = measure(run)
    again, watcher = measure(run)
    assert again == result
    assert watcher.titles == []
    assert watcher.said == [f"columns, V-IP, seed 0: already measured in {tmp_path}."]


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": RECIPE.tempered(0.5, 0.5)},
        pytest.param({"recipe": RECIPE.scaled(2)}, marks=pytest.mark.slow),
        pytest.param({"recipe": replace(RECIPE, network=MLP((9,)))}, marks=pytest.mark.slow),
        pytest.param({"recipe": replace(RECIPE, query_options={"mask": False})}, marks=pytest.mark.slow),
        {"validation": True},
        pytest.param({"seed": 1}, marks=pytest.mark.slow),
        {"name": "random", "title": "random order", "method": METHODS["random"]},
    ],
)
def test_what_is_changed_is_trained_again(change: dict[str, Any], tmp_path: Path) -> None:
    straight_through = {"method": METHODS["vip-straight-through"]}  # to which temperatures matter
    change = {**straight_through, **change}
    measure(make(tmp_path / "one", **straight_through))
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    changed, watcher = measure(make(tmp_path / "other", **change))
    assert len(watcher.titles) == 1
    assert watcher.reports[0].step == 1  # from the first step on
    assert not changed.resumed
    alone, _ = measure(make(tmp_path / "alone", **change))
    assert changed.evaluation == alone.evaluation
    assert weights(tmp_path / "other") == weights(tmp_path / "alone") != weights(tmp_path / "one")


def test_another_way_of_measuring_needs_no_other_training(tmp_path: Path) -> None:
    one, _ = measure(make(tmp_path))
    run = make(tmp_path, measurement=Measurement(max_queries=3))
    other, watcher = measure(replace(run, run={**run.run, "curve": 3}))
    assert not watcher.reports
    assert other.resumed
    assert other.evaluation.accuracy_by_asked == one.evaluation.accuracy_by_asked[:4]


def test_what_was_counted_on_some_rows_is_not_used_for_other_figures(tmp_path: Path) -> None:
    whole, _ = measure(make(tmp_path))
    for measurement in (
        Measurement(batch_rows=8),
        Measurement(max_queries=3, batch_rows=8),
        Measurement(max_queries=3, trade_off=(Budget(1),), batch_rows=8),
        Measurement(batch_rows=16),
    ):
        run = make(tmp_path, measurement=measurement)
        found, watcher = measure(replace(run, run={**run.run, "measurement": repr(measurement)}))
        assert not watcher.reports
        longest = measurement.max_queries or 6
        assert found.evaluation.accuracy_by_asked == whole.evaluation.accuracy_by_asked[: longest + 1]
        assert len(found.evaluation.trade_off) == len(measurement.trade_off)


class Killed(Exception):
    pass


@pytest.fixture
def checkpoint_at_every_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.training.run.CHECKPOINT_PAUSE", 0)
    monkeypatch.setattr(module, "TrainingRun", partial(TrainingRun, checkpoint_seconds=0.0))


SMOOTHED = Stage(8, batch_size=16, label_smoothing=0.1, augment=Shifts(1, mirror=True))


@pytest.mark.usefixtures("checkpoint_at_every_report")
@pytest.mark.parametrize(
    ("task", "recipe", "n_reports"),
    [
        pytest.param("columns", RECIPE, 9, marks=pytest.mark.slow),
        ("images", replace(RECIPE, stages=(*RECIPE.stages, SMOOTHED), max_queries=None), 12),
        pytest.param("drawn", RECIPE, 5, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run_goes_on(task: str, recipe: Recipe, n_reports: int, tmp_path: Path) -> None:
    whole, watcher = measure(make(tmp_path / "whole", task, recipe))
    assert len(watcher.reports) > n_reports

    @contextmanager
    def killing(title: str) -> Iterator[Callable[[Report], None]]:
        seen: list[Report] = []

        def on_report(report: Report) -> None:
            seen.append(report)
            if len(seen) == n_reports:
                raise Killed

        yield on_report

    killed = make(tmp_path / "killed", task, recipe)
    with pytest.raises(Killed):
        killed.measure(killing)
    assert not killed.path.exists()
    result, rest = measure(killed)
    # What was reported but not saved is done again.
    assert len(rest.reports) == len(watcher.reports) - n_reports + 1
    assert result.evaluation == whole.evaluation
    assert weights(tmp_path / "whole") == weights(tmp_path / "killed")


def test_a_run_killed_while_measuring_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "evaluation_counts", killed)
        with pytest.raises(Killed):
            measure(make(tmp_path))
    before = weights(tmp_path)
    _, watcher = measure(make(tmp_path))
    assert not watcher.reports
    assert weights(tmp_path) == before


def test_a_damaged_result_is_measured_again(tmp_path: Path) -> None:
    before, _ = measure(make(tmp_path))
    for damage in ("{bad", "[]", "", "{}"):
        (tmp_path / "result.json").write_text(damage)
        after, watcher = measure(make(tmp_path))
        assert after.evaluation == before.evaluation
        assert not watcher.reports
        assert (before.resumed, after.resumed) == (False, True)


def test_a_result_of_other_settings_does_not_outlive_a_training_that_fails(tmp_path: Path) -> None:
    measure(make(tmp_path))
    with pytest.raises(ValueError, match="The device is one of"):
        make(tmp_path, recipe=RECIPE.scaled(2), device="tpu").measure()
    assert not (tmp_path / "result.json").exists()


def test_exact_pursuit_needs_no_training(tmp_path: Path) -> None:
    yes = torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2])
    task = columns_task(0)
    exact = partial(IndependentIP.from_yes, task.query_set, ["sick", "well"], torch.ones(2) / 2, yes)
    task = replace(task, exact=exact).with_recipe(RECIPE)
    result = make(tmp_path / "exact", method=None, name="exact", load=lambda seed: task).measure()
    assert task.initially_known_test is not None
    y = torch.from_numpy((task.y_test == "well").astype(int))
    rows = Rows(*task.query_set.answers(task.X_test), y, torch.from_numpy(task.initially_known_test))
    assert result.evaluation == evaluate(exact(), rows, Budget(2) | Budget(6), 6)
    assert (result.training_seconds, result.n_histories) == (0, None)
    assert [path.name for path in (tmp_path / "exact").iterdir()] == ["result.json"]


def test_for_validation_no_test_row_is_measured() -> None:
    chosen = load_split("columns", RECIPE, 0, validation=True)
    assert np.array_equal(chosen.X_test, columns_task(0).validation_split().X_test)
    assert (len(chosen.X_train), len(chosen.X_test)) == (54, 6)
    drawn = [load_split("drawn", RECIPE, 0, validation) for validation in (False, True)]
    assert not np.array_equal(drawn[0].X_test, drawn[1].X_test)
    assert len(drawn[1].y_test) == 25


def test_a_method_gets_the_settings_that_its_estimator_has() -> None:
    @dataclass(kw_only=True)
    class Simple(PursuitClassifier):
        share: float = 0.5

        def learn(self, *_: Any) -> Any:
            raise NotImplementedError

    settings = {**RECIPE.settings(), "random_state": 7, "device": "cpu"}
    simple = Method("simple", "simple", Simple, {"share": 0.1})
    assert simple.build(**settings).get_params() == {
        "query_set": None,
        "column_types": None,
        "missing_informs": False,
        "class_weight": None,
        "guarantee_share": None,
        "stop": "budget=2",
        "max_queries": 6,
        "random_state": 7,
        "device": "cpu",
        "verbose": None,
        "share": 0.1,
    }
    assert METHODS["vip"].build(**settings).get_params().items() >= settings.items()
    assert simple.accepts("max_queries")
    assert not simple.accepts("stages")
    assert not simple.accepts("share")  # it is what makes this method
    assert replace(simple, parameters={}).accepts("share")


def test_a_step_is_timed_one_row_at_a_time() -> None:
    queries = columns_task(0).query_set
    yes = torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2])
    pursuer = IndependentIP.from_yes(queries, ["sick", "well"], torch.ones(2) / 2, yes)
    x, available = queries.answers(np.random.default_rng(0).integers(0, 2, (3, 6)))
    rows = Rows(x, available, torch.zeros(3, dtype=torch.long))
    ticks = count()
    asked: list[int] = []

    class Watched:
        query_set, classes = pursuer.query_set, pursuer.classes

        def scores(self, history: Any) -> torch.Tensor:
            asked.append(len(history.asked))
            return pursuer.scores(history)

        def log_posterior(self, history: Any) -> torch.Tensor:
            return pursuer.log_posterior(history)

    assert step_milliseconds(Watched(), rows, 4, lambda: next(ticks) / 1000) == pytest.approx(1)
    assert asked == [1] * 12  # three rows of four steps
    assert step_milliseconds(pursuer, rows, 0) is None
    asked.clear()
    step_milliseconds(Watched(), rows, 4, lambda: 2.0 * next(ticks))  # five seconds are over in the second step
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("n_queries", "limit", "device", "wanted"),
    [(66, 20, "cpu", None), (328, 20, "cpu", 20), (328, None, "cpu", None), (328, 20, "cuda", None)],
)
def test_a_curve_is_whole_where_that_is_affordable(
    n_queries: int, limit: int | None, device: str, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_device", torch.device)
    assert module.curve_end(n_queries, limit, device) == wanted
