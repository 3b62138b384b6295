"""Methods are compared on the same rows; one that fails does not lose the others, and the same trial goes on."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.conftest import Watcher, drawn_task
from pursuit import MLP, Budget, ColumnQueries, Method, Stage, evaluate, load, registry, yes_no
from pursuit.exact import IndependentIP
from pursuit.methods import METHODS
from pursuit.methods.random_order import RandomOrderClassifier
from pursuit.research.experiments import compare as module
from pursuit.research.experiments import run as run_module
from pursuit.research.experiments.compare import Trial, compare
from pursuit.research.experiments.results import Failure, Result, Results
from pursuit.research.tasks import Task
from pursuit.training import Report, TrainingRun

QUERIES = ColumnQueries([yes_no(f"q{i}", f"Query {i}?") for i in range(6)])
SETTINGS = {
    "network": MLP((8,)),
    "stages": [Stage(4, batch_size=16)],
    "teachers": None,
    "stop": "budget=2",
    "max_queries": 5,
}
YES = torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2])


class Failing(RandomOrderClassifier):
    """Fails while it is broken."""

    is_broken = True

    def make_learner(self, *given: Any) -> Any:
        if Failing.is_broken:
            raise RuntimeError("out of memory\n| alas |")
        return super().make_learner(*given)


KNOWN = {name: METHODS[name] for name in ("vip", "random")} | {"bad": Method("bad", "bad luck", Failing)}


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """They take longer than the little training here."""
    if "folder_holds_everything" not in request.node.name:
        monkeypatch.setattr(module, "draw_curves", lambda results, path: None)


@pytest.fixture(autouse=True)
def failing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it can be saved once it works."""
    monkeypatch.setitem(registry._known["estimator"], "Failing", Failing)


def made_task(with_exact: bool = False) -> Task:
    randomness = np.random.default_rng(0)
    X = randomness.integers(0, 2, (90, 6))
    y = np.where(X[:, 0] == 1, "sick", "well")
    initially_known = np.zeros((90, 6), dtype=bool)
    initially_known[:, 5] = True
    exact = partial(IndependentIP.from_yes, QUERIES, ["sick", "well"], torch.ones(2) / 2, YES) if with_exact else None
    rows = (X[:60], y[:60], X[60:], y[60:])
    return Task(
        "made",
        QUERIES,
        *rows,
        {"from": "chance"},
        initially_known[:60],
        initially_known[60:],
        exact=exact,
        settings=SETTINGS,
    )


def run(trial: Trial, folder: Path) -> tuple[Results, Watcher]:
    watcher = Watcher()
    return compare(trial, folder, watcher.progress, watcher.said.append, KNOWN), watcher


def seeds_of(results: Results, name: str) -> list[Result]:
    return results.methods[name].seeds


def evaluations(results: Results, name: str) -> list[Any]:
    return [seed.evaluation for seed in seeds_of(results, name)]


@pytest.mark.slow
def test_a_results_folder_holds_everything(tmp_path: Path) -> None:
    results, watcher = run(Trial(made_task(), ("vip", "random"), seeds=(0, 1)), tmp_path / "some" / "where")
    folder = tmp_path / "some" / "where"
    assert {path.name for path in folder.iterdir()} == {"results.json", "table.md", "curve.png", "vip", "random"}
    own = {"result.json", "model.json", "model.safetensors", "run.json", "log.csv", "checkpoints"}
    for name in ("vip", "random"):
        for seed in (0, 1):
            assert {path.name for path in (folder / name / f"seed-{seed}").iterdir()} == own
            one = json.loads((folder / name / f"seed-{seed}" / "result.json").read_text())
            assert Result.from_dict(one) == seeds_of(results, name)[seed]
    assert Results.from_dict(json.loads((folder / "results.json").read_text())) == results
    assert (folder / "curve.png").read_bytes()[:4] == b"\x89PNG"
    # One seed after the other, all methods of each
    runs = [f"made, {title}, seed {seed}" for seed in (0, 1) for title in ("V-IP", "random order")]
    assert watcher.titles == runs
    assert [said.split(": area")[0] for said in watcher.said] == runs


def test_results_are_those_of_the_saved_models(tmp_path: Path) -> None:
    results, _ = run(Trial(made_task(), ("vip", "random"), seeds=(3,), max_rows=25), tmp_path)
    task = made_task()
    for name in ("vip", "random"):
        model = load(tmp_path / name / "seed-3")
        rows = model.rows(task.X_test[:25], task.y_test[:25], initially_known=task.initially_known_test[:25])  # type: ignore[index]
        found = evaluate(model.model_, rows, Budget(2) | Budget(5))  # the curve goes on to the end
        assert evaluations(results, name) == [found]
        (one,) = seeds_of(results, name)
        assert (one.method, one.seed, one.n_train, one.n_test, one.resumed) == (name, 3, 60, 25, False)
        assert one.step_milliseconds is not None
        assert one.step_milliseconds > 0
        assert {"commit", "device"} <= one.provenance.keys()
        assert model.notes_["task"] == {"name": "made", "from": "chance"}


def test_the_same_again_is_read(tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip", "random"))
    results, _ = run(trial, tmp_path)
    (tmp_path / "table.md").unlink()
    again, watcher = run(trial, tmp_path)
    assert again == results
    assert watcher.titles == []
    assert ["already measured, area" in said for said in watcher.said] == [True, True]
    assert (tmp_path / "table.md").exists()
    more, watcher = run(replace(trial, seeds=(0, 1)), tmp_path)
    assert watcher.titles == ["made, V-IP, seed 1", "made, random order, seed 1"]
    assert seeds_of(more, "vip")[0] == seeds_of(again, "vip")[0]
    assert more.worked["vip"][1].n_seeds == 2


@pytest.mark.slow
def test_what_others_measured_is_collected_without_training(tmp_path: Path) -> None:
    for methods, seeds in ((("vip",), (0, 1)), (("random",), (1,))):
        compare(Trial(made_task(), methods=methods, seeds=seeds), tmp_path)
    everything = Trial(made_task(), methods=("vip", "random", "bad"), seeds=(0, 1))
    watcher = Watcher()
    results = compare(everything, tmp_path, watcher.progress, watcher.said.append, KNOWN, only_collect=True)
    assert watcher.titles == []
    assert {name: [seed.seed for seed in found.seeds] for name, found in results.methods.items()} == {
        "vip": [0, 1],
        "random": [1],
    }
    assert "failed" not in (tmp_path / "table.md").read_text()


def test_what_is_changed_is_trained_again(tmp_path: Path) -> None:
    trial, change = Trial(made_task(), ("vip",)), {"effort": 2.0, "validation": True}
    run(trial, tmp_path / "one")
    changed, watcher = run(replace(trial, **change), tmp_path / "one")
    assert watcher.reports[0].step == 1  # from the first step on
    assert not seeds_of(changed, "vip")[0].resumed
    alone, _ = run(replace(trial, **change), tmp_path / "alone")
    assert evaluations(changed, "vip") == evaluations(alone, "vip")


def test_another_way_of_measuring_needs_no_other_training(tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip",))
    run(trial, tmp_path)
    shorter, watcher = run(replace(trial, max_rows=7, stop="budget=1"), tmp_path)
    assert not watcher.reports
    (one,) = seeds_of(shorter, "vip")
    assert one.evaluation.at_stop is not None
    assert (one.n_test, one.evaluation.at_stop.rule, one.resumed) == (7, "budget=1,budget=5", True)


def test_a_method_whose_parameters_changed_is_measured_again(tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip",))
    compare(trial, tmp_path, methods=KNOWN)
    watcher = Watcher()
    changed = {"vip": replace(METHODS["vip"], parameters={"network": MLP((5,))})}
    results = compare(trial, tmp_path, watcher.progress, watcher.said.append, changed)
    assert len(watcher.titles) == 1
    assert seeds_of(results, "vip")[0].run["method_parameters"] == {"network": str(MLP((5,)))}


# What goes wrong


def test_a_method_that_fails_is_noted_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(made_task(), ("bad", "random"), seeds=(0, 1))
    results, watcher = run(trial, tmp_path)
    bad, random = results.methods["bad"], results.methods["random"]
    assert bad.failed == [Failure(seed, "RuntimeError: out of memory\n| alas |") for seed in (0, 1)]
    assert (bad.summary, bad.seeds, random.failed) == (None, [], [])
    assert results.worked["random"][1].n_seeds == 2
    assert watcher.said[0] == "made, bad luck, seed 0: failed: RuntimeError: out of memory | alas |"
    assert "in make_learner" in (tmp_path / "bad" / "seed-0" / "error.txt").read_text()
    assert Results.from_dict(json.loads((tmp_path / "results.json").read_text())) == results
    monkeypatch.setattr(Failing, "is_broken", False)
    again, watcher = run(trial, tmp_path)
    assert watcher.titles == ["made, bad luck, seed 0", "made, bad luck, seed 1"]
    assert again.worked["bad"][1].n_seeds == 2
    assert evaluations(again, "random") == evaluations(results, "random")
    assert not list(tmp_path.rglob("error.txt"))


def test_all_may_fail(tmp_path: Path) -> None:
    results, _ = run(Trial(made_task(), ("bad",)), tmp_path)
    assert results.methods["bad"].summary is None
    assert "failed: RuntimeError" in (tmp_path / "table.md").read_text()
    assert not (tmp_path / "curve.png").exists()


class Killed(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("n_reports", [3, 25])
def test_an_interrupted_comparison_goes_on(n_reports: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.training.run.CHECKPOINT_PAUSE", 0)
    monkeypatch.setattr(run_module, "TrainingRun", partial(TrainingRun, checkpoint_seconds=0.0))
    trial = Trial(made_task(), ("vip", "random"))
    whole, watcher = run(trial, tmp_path / "whole")
    n_each = len(watcher.reports) // 2
    assert n_each == 15
    seen = count(1)

    @contextmanager
    def killing(title: str) -> Iterator[Callable[[Report], None]]:
        def on_report(report: Report) -> None:
            if next(seen) == n_reports:
                raise Killed

        yield on_report

    with pytest.raises(Killed):
        compare(trial, tmp_path / "killed", killing, methods=KNOWN)
    is_first_done = n_reports > n_each
    assert (tmp_path / "killed" / "vip" / "seed-0" / "result.json").exists() == is_first_done
    assert (tmp_path / "killed" / "table.md").exists() == is_first_done
    results, rest = run(trial, tmp_path / "killed")
    # What was reported but not saved is done again.
    assert len(rest.reports) == len(watcher.reports) - n_reports + 1
    for name in ("vip", "random"):
        assert evaluations(results, name) == evaluations(whole, name)
        weights = [
            (tmp_path / part / name / "seed-0" / "model.safetensors").read_bytes() for part in ("whole", "killed")
        ]
        assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (("vip", "magic"), "'magic' is not a method: choose from vip, random, bad, exact, or all"),
        (("all", "vip"), "'all' is not a method"),
        (("vip", "exact"), "Exact Information Pursuit is not available for made"),
    ],
)
def test_unknown_methods_are_reported_before_training(methods: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        run(Trial(made_task(), methods), tmp_path)
    assert not list(tmp_path.iterdir())


# Kinds of tasks and methods


@pytest.mark.slow
def test_all_means_exact_pursuit_too_if_the_task_has_it(tmp_path: Path) -> None:
    plain, _ = run(Trial(made_task(), ("all",)), tmp_path / "plain")
    assert list(plain.methods) == ["vip", "random", "bad"]
    results, watcher = run(Trial(made_task(with_exact=True), ("all",)), tmp_path / "exact")
    assert list(results.methods) == ["vip", "random", "bad", "exact"]
    assert not any("exact" in title for title in watcher.titles)
    (one,) = seeds_of(results, "exact")
    assert one.training_seconds == 0
    at_stop = one.evaluation.at_stop
    assert at_stop is not None
    assert (at_stop.rule, one.n_test, len(one.evaluation.accuracy_by_asked)) == ("budget=2,budget=5", 30, 7)


def test_rows_that_are_drawn_and_repeated_names(tmp_path: Path) -> None:
    task = replace(drawn_task(0), settings=SETTINGS)
    results, watcher = run(Trial(task, ("random", "random")), tmp_path)
    assert watcher.titles == ["drawn, random order, seed 0"]
    assert seeds_of(results, "random")[0].n_train == 60


def test_data_that_are_missing_end_the_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(seed: int) -> Task:
        raise FileNotFoundError("no such file")

    trial = Trial(made_task(), ("vip",))
    monkeypatch.setattr(Trial, "load", lambda self, seed: load(seed))
    monkeypatch.setattr(Trial, "described", lambda self: {"task": "made"})
    with pytest.raises(FileNotFoundError):
        run(trial, tmp_path)
    assert not list(tmp_path.iterdir())
