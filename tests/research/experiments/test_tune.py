"""A search for settings: judged on held-out training rows, seeded, and going on where it stopped."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.conftest import RECIPE, columns_task, drawn_task, images_task
from pursuit import ColumnQueries, Method, registry
from pursuit.estimators.tuned import OneOf, Span, Tuned
from pursuit.methods.random_order import RandomOrderClassifier
from pursuit.research.experiments.tune import Search, parameters, read_best, tune
from pursuit.research.tasks import Task
from pursuit.tables.engine import Engine, Lost

pytest.importorskip("optuna")

SPACE = {"lr": Span(0.5, 2.0), "width": OneOf((0.5, 1.0, 2.0))}


def task() -> Task:
    """Its test rows cannot be measured on: whoever reads them fails."""
    made = columns_task(0)
    return replace(made, settings=RECIPE.settings(), X_test=None, y_test=np.array([None]), initially_known_test=None)


SEARCH = Search(task(), space=SPACE)


class Interrupted(Exception):
    """Like Ctrl+C, but for pytest."""


class InterruptedAfter(Engine):
    """Measures some runs, and then stops."""

    def __init__(self, n: int):
        self.n = n

    def each(self, do: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for count, run in enumerate(items):
            if count == self.n:
                raise Interrupted
            yield run, do(run)


def test_a_folder_holds_everything(tmp_path: Path) -> None:
    said: list[str] = []
    found = tune(SEARCH, tmp_path, n_trials=4, say=said.append)
    assert {path.name for path in tmp_path.iterdir()} == {"trials", "trials.csv", "trials.log", "best.json"}
    assert [trial.number for trial in found.trials] == [0, 1, 2, 3]
    assert found.trials[0].values == {"lr": 1.0, "width": 1.0}
    assert found.default is not None
    assert found.best.judged is not None
    assert (found.default.n_train, found.default.n_judged, found.default.longest) == (48, 12, 6)
    assert found.best.judged.area == max(trial.judged.area for trial in found.trials if trial.judged)
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 5
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["settings"] == found.settings
    assert best["held_out_by_default"]["area"] == found.default.area
    assert read_best(tmp_path) == ("vip", parameters(found.settings))
    assert said[0].startswith("columns, trial 0: ")
    assert said[0].endswith("(as planned)")
    assert {path.name for path in (tmp_path / "trials" / "2").iterdir()} == {"run.json", "log.csv", "result.json"}


@pytest.mark.slow
def test_the_same_search_tries_the_same_however_it_was_interrupted(tmp_path: Path) -> None:
    whole = tune(SEARCH, tmp_path / "whole", n_trials=4)
    with pytest.raises(Interrupted):
        tune(SEARCH, tmp_path / "part", n_trials=4, engine=InterruptedAfter(2))
    tune(SEARCH, tmp_path / "part", n_trials=3)
    part = tune(SEARCH, tmp_path / "part", n_trials=4)
    tried = [[(trial.values, trial.judged and trial.judged.area) for trial in one.trials] for one in (whole, part)]
    assert tried[0] == tried[1]
    other = tune(replace(SEARCH, seed=1), tmp_path / "other", n_trials=2)
    assert other.trials[1].values != whole.trials[1].values


def test_a_trial_that_was_judged_is_not_trained_again(tmp_path: Path) -> None:
    class Forgets(Engine):
        def each(self, do: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
            do(next(iter(items)))
            raise Interrupted  # before anybody is told
            yield

    with pytest.raises(Interrupted):
        tune(SEARCH, tmp_path, n_trials=1, engine=Forgets())
    before = (tmp_path / "trials" / "0" / "result.json").stat().st_mtime_ns
    assert tune(SEARCH, tmp_path, n_trials=1).best.number == 0
    assert (tmp_path / "trials" / "0" / "result.json").stat().st_mtime_ns == before


class Fragile(RandomOrderClassifier):
    """Fails unless all is as planned."""

    def make_learner(self, *given: Any) -> Any:
        if self.tuned != Tuned():
            raise RuntimeError("too wide")
        return super().make_learner(*given)


def test_a_trial_that_fails_is_noted_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._known["method"], "fragile", Method("fragile", "fragile", Fragile))
    monkeypatch.setitem(registry._known["estimator"], "Fragile", Fragile)
    found = tune(replace(SEARCH, method="fragile"), tmp_path, n_trials=3)
    assert [trial.error for trial in found.trials] == [None, *["RuntimeError: too wide"] * 2]
    assert (found.best.number, found.settings) == (0, {})
    assert read_best(tmp_path) == ("fragile", {})
    again = tune(replace(SEARCH, method="fragile"), tmp_path, n_trials=3)
    assert again.trials == found.trials


def test_where_all_trials_fail_the_first_error_is_said(tmp_path: Path) -> None:
    class Loses(Engine):
        def each(self, do: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
            yield from ((run, Lost("gone")) for run in items)

    with pytest.raises(ValueError, match="The first one: the machines that trained it were lost"):
        tune(SEARCH, tmp_path, n_trials=2, engine=Loses())


def test_a_folder_is_for_one_search(tmp_path: Path) -> None:
    tune(SEARCH, tmp_path, n_trials=1)
    with pytest.raises(ValueError, match="holds a search with other seed: choose another --out"):
        tune(replace(SEARCH, seed=1), tmp_path, n_trials=1)
    (tmp_path / "best.json").write_text("[]")
    with pytest.raises(ValueError, match="is damaged"):
        read_best(tmp_path)
    with pytest.raises(ValueError, match="holds no best"):
        read_best(tmp_path / "nowhere")


def test_rows_that_are_drawn_are_judged_on_others(tmp_path: Path) -> None:
    drawn = replace(drawn_task(0), settings=RECIPE.settings(), X_test=None, y_test=np.array([None]))
    found = tune(Search(drawn, space=SPACE), tmp_path, n_trials=1)
    assert found.default is not None
    assert found.default.n_judged == 10_000


def test_a_number_is_judged_by_its_variance(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((80, 3))
    numbers = ColumnQueries.from_data(pd.DataFrame(X, columns=list("abc")))
    made = Task("sums", numbers, X, X.sum(axis=1), None, np.array([None]), settings=RECIPE.settings() | {"stop": None})
    found = tune(Search(made, method="vip-regressor", space=SPACE), tmp_path, n_trials=1)
    assert found.default is not None
    assert -10 < found.default.area < 1


def test_only_what_applies_is_tried() -> None:
    usual = {"lr", "weight_decay", "effort", "width", "random_share"}
    assert set(Search(task()).ranges()) == usual  # the recipe drops nothing out
    assert set(Search(replace(task(), settings={})).ranges()) == {*usual, "dropout"}
    images = replace(images_task(0), settings={})
    assert set(Search(images).ranges()) == {"lr", "weight_decay", "effort", "random_share"}
    assert set(Search(task(), method="naive-bayes").ranges()) == {"smoothing", "n_bins"}
    assert Search(task(), method="naive-bayes").defaults() == {"smoothing": 1.0, "n_bins": 8}
    with pytest.raises(ValueError, match="has no settings to search for on columns"):
        Search(task(), method="tree").ranges()


def test_rows_of_ones_own(tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 3)), columns=list("abc"))
    search = Search.on(X, np.where(X["a"] == 1, "sick", "well"), "naive-bayes", name="visits")
    found = tune(search, tmp_path, n_trials=2)
    assert found.default is not None
    assert (found.default.n_train, found.default.n_judged, found.default.area) == (48, 12, 1.0)
    with pytest.raises(ValueError, match="holds a search with other rows"):
        tune(Search.on(X, np.where(X["b"] == 1, "sick", "well"), "naive-bayes", name="visits"), tmp_path)


def test_settings_of_a_method_are_told_from_factors() -> None:
    assert parameters({"lr": 2.0, "smoothing": 0.5}) == {"tuned": Tuned(lr=2.0), "smoothing": 0.5}
    assert parameters({}) == {}


def test_without_optuna_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pursuit\[tune\]'"):
        tune(SEARCH, tmp_path / "new")
    assert not (tmp_path / "new").exists()
