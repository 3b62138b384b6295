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

from pursuit.data.rows import Rows, RowSource
from pursuit.estimators import VIPClassifier
from pursuit.evaluation.curves import evaluate
from pursuit.exact import IndependentIP
from pursuit.experiments import Trial, compare
from pursuit.experiments import comparing as module
from pursuit.experiments.compare import arguments, step_milliseconds
from pursuit.inference.stopping import Budget
from pursuit.methods import METHODS, Method, RandomOrderClassifier, load
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, QuerySet, yes_no
from pursuit.tasks import Task
from pursuit.tasks.symcat import Patients
from pursuit.training.loop import Report, train
from pursuit.training.schedule import Stage

QUERIES = ColumnQueries([yes_no(f"q{i}", f"Query {i}?") for i in range(6)])
SETTINGS = {"network": MLP((8,)), "stages": [Stage(4, batch_size=16)], "stop": "budget=2", "max_queries": 5}
YES = torch.tensor([[0.9, 0.2, 0.5] * 2, [0.1, 0.7, 0.5] * 2])


class Failing(RandomOrderClassifier):
    """Fails while it is broken."""

    is_broken = True

    def _build(self, query_set: QuerySet, rows: RowSource, prior: torch.Tensor) -> Any:
        if Failing.is_broken:
            raise RuntimeError("out of memory\n| alas |")
        return super()._build(query_set, rows, prior)


KNOWN = {name: METHODS[name] for name in ("vip", "random")} | {"bad": Method("bad", "bad luck", Failing)}


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """They take longer than the little training here."""
    if "folder_holds_everything" not in request.node.name:
        monkeypatch.setattr(module, "draw_curves", lambda results, path: None)


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


class Heard:
    """What a comparison told, and how often it trained."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.reports: list[Report] = []
        self.said: list[str] = []

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[Report], None]]:
        self.titles.append(title)
        yield self.reports.append


def run(trial: Trial, folder: Path) -> tuple[dict[str, Any], Heard]:
    heard = Heard()
    results = compare(trial, folder, heard.progress, heard.said.append, KNOWN)
    return json.loads(json.dumps(results)), heard


def evaluations(results: dict[str, Any], name: str) -> list[Any]:
    return [seed["evaluation"] for seed in results["methods"][name]["seeds"]]


def test_a_results_folder_holds_everything(tmp_path: Path) -> None:
    results, heard = run(Trial(made_task(), ("vip", "random"), seeds=(0, 1)), tmp_path / "some" / "where")
    folder = tmp_path / "some" / "where"
    assert {path.name for path in folder.iterdir()} == {"results.json", "table.md", "curve.png", "vip", "random"}
    own = {"result.json", "model.json", "model.safetensors", "run.json", "log.csv", "checkpoints"}
    for name in ("vip", "random"):
        for seed in (0, 1):
            assert {path.name for path in (folder / name / f"seed-{seed}").iterdir()} == own
            one = json.loads((folder / name / f"seed-{seed}" / "result.json").read_text())
            assert one == results["methods"][name]["seeds"][seed]
    assert json.loads((folder / "results.json").read_text()) == results
    assert (folder / "curve.png").read_bytes()[:4] == b"\x89PNG"
    # One seed after the other, all methods of each
    runs = [f"made, {title}, seed {seed}" for seed in (0, 1) for title in ("V-IP", "random order")]
    assert heard.titles == runs
    assert [said.split(": area")[0] for said in heard.said] == runs


def test_results_are_those_of_the_saved_models(tmp_path: Path) -> None:
    results, _ = run(Trial(made_task(), ("vip", "random"), seeds=(3,), max_rows=25), tmp_path)
    task = made_task()
    for name in ("vip", "random"):
        model = load(tmp_path / name / "seed-3")
        rows = model.rows(task.X_test[:25], task.y_test[:25], initially_known=task.initially_known_test[:25])  # type: ignore[index]
        found = evaluate(model.model_, rows, Budget(2) | Budget(5), 5)
        assert evaluations(results, name) == [json.loads(json.dumps(found.to_dict()))]
        (one,) = results["methods"][name]["seeds"]
        assert (one["seed"], one["n_train"], one["n_test"], one["resumed"]) == (3, 60, 25, False)
        assert one["step_milliseconds"] > 0
        assert {"commit", "device"} <= one["provenance"].keys()
        assert model.notes_["task"] == {"name": "made", "from": "chance"}


def test_all_get_the_settings_of_the_task_that_they_have() -> None:
    class Simple(VIPClassifier):
        def __init__(self, query_set: QuerySet | None = None, *, stop: Any = None, share: float = 0.5):
            self.query_set, self.stop, self.share = query_set, stop, share

    assert arguments(Method("simple", "simple", Simple, {"share": 0.1}), made_task(), 7, "cpu") == {
        "stop": "budget=2",
        "share": 0.1,
    }
    given = arguments(METHODS["vip"], made_task(), 7, "cpu")
    assert given == {**SETTINGS, "random_state": 7, "device": "cpu"}


def test_the_same_again_is_read(tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip", "random"))
    results, _ = run(trial, tmp_path)
    (tmp_path / "table.md").unlink()
    again, heard = run(trial, tmp_path)
    assert again == results
    assert heard.titles == []
    assert ["already measured, area" in said for said in heard.said] == [True, True]
    assert (tmp_path / "table.md").exists()
    more, heard = run(replace(trial, seeds=(0, 1)), tmp_path)
    assert heard.titles == ["made, V-IP, seed 1", "made, random order, seed 1"]
    assert more["methods"]["vip"]["seeds"][0] == again["methods"]["vip"]["seeds"][0]
    assert more["methods"]["vip"]["summary"]["n_seeds"] == 2


def test_what_others_measured_is_collected_without_training(tmp_path: Path) -> None:
    for methods, seeds in ((("vip",), (0, 1)), (("random",), (1,))):
        compare(Trial(made_task(), methods=methods, seeds=seeds), tmp_path)
    everything = Trial(made_task(), methods=("vip", "random", "bad"), seeds=(0, 1))
    heard = Heard()
    results = compare(everything, tmp_path, heard.progress, heard.said.append, KNOWN, only_collect=True)
    assert heard.titles == []
    assert {name: [seed["seed"] for seed in found["seeds"]] for name, found in results["methods"].items()} == {
        "vip": [0, 1],
        "random": [1],
    }
    assert "failed" not in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize("change", [{"effort": 2.0}, {"validation_split": True}])
def test_what_is_changed_is_trained_anew(change: dict[str, Any], tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip",))
    run(trial, tmp_path / "one")
    changed, heard = run(replace(trial, **change), tmp_path / "one")
    assert heard.reports[0].step == 1  # from the first step on
    assert not changed["methods"]["vip"]["seeds"][0]["resumed"]
    alone, _ = run(replace(trial, **change), tmp_path / "alone")
    assert evaluations(changed, "vip") == evaluations(alone, "vip")


def test_another_way_of_measuring_needs_no_other_training(tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip",))
    run(trial, tmp_path)
    shorter, heard = run(replace(trial, max_rows=7, stop="budget=1"), tmp_path)
    assert not heard.reports
    (one,) = shorter["methods"]["vip"]["seeds"]
    assert (one["n_test"], one["evaluation"]["stop"]["rule"], one["resumed"]) == (7, "budget=1,budget=5", True)


def test_a_method_whose_settings_changed_is_measured_anew(tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip",))
    compare(trial, tmp_path, known=KNOWN)
    heard = Heard()
    changed = {"vip": replace(METHODS["vip"], settings={"network": MLP((5,))})}
    results = compare(trial, tmp_path, heard.progress, heard.said.append, changed)
    assert len(heard.titles) == 1
    assert results["methods"]["vip"]["seeds"][0]["run"]["method_settings"] == {"network": str(MLP((5,)))}


# What goes wrong


def test_a_method_that_fails_is_noted_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(made_task(), ("bad", "random"), seeds=(0, 1))
    results, heard = run(trial, tmp_path)
    bad, random = results["methods"]["bad"], results["methods"]["random"]
    assert bad["failed"] == [{"seed": seed, "error": "RuntimeError: out of memory\n| alas |"} for seed in (0, 1)]
    assert (bad["summary"], bad["seeds"], random["failed"]) == (None, [], [])
    assert random["summary"]["n_seeds"] == 2
    assert heard.said[0] == "made, bad luck, seed 0: failed: RuntimeError: out of memory | alas |"
    assert "in _build" in (tmp_path / "bad" / "seed-0" / "error.txt").read_text()
    assert json.loads((tmp_path / "results.json").read_text()) == results
    monkeypatch.setattr(Failing, "is_broken", False)
    again, heard = run(trial, tmp_path)
    assert heard.titles == ["made, bad luck, seed 0", "made, bad luck, seed 1"]
    assert again["methods"]["bad"]["summary"]["n_seeds"] == 2
    assert evaluations(again, "random") == evaluations(results, "random")
    assert not list(tmp_path.rglob("error.txt"))


def test_all_may_fail(tmp_path: Path) -> None:
    results, _ = run(Trial(made_task(), ("bad",)), tmp_path)
    assert results["methods"]["bad"]["summary"] is None
    assert "failed: RuntimeError" in (tmp_path / "table.md").read_text()
    assert not (tmp_path / "curve.png").exists()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("n_reports", [3, 15, 25])
def test_an_interrupted_comparison_goes_on(n_reports: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.training.loop.CHECKPOINT_PAUSE", 0)
    monkeypatch.setattr("pursuit.estimators.network.train", partial(train, checkpoint_seconds=0.0))
    trial = Trial(made_task(), ("vip", "random"))
    whole, heard = run(trial, tmp_path / "whole")
    n_each = len(heard.reports) // 2
    assert n_each == 15
    seen = count(1)

    @contextmanager
    def killing(title: str) -> Iterator[Callable[[Report], None]]:
        def on_report(report: Report) -> None:
            if next(seen) == n_reports:
                raise Killed

        yield on_report

    with pytest.raises(Killed):
        compare(trial, tmp_path / "killed", killing, known=KNOWN)
    is_first_done = n_reports > n_each
    assert (tmp_path / "killed" / "vip" / "seed-0" / "result.json").exists() == is_first_done
    assert (tmp_path / "killed" / "table.md").exists() == is_first_done
    results, rest = run(trial, tmp_path / "killed")
    # What a report was heard of but not saved is done again.
    assert len(rest.reports) == len(heard.reports) - n_reports + 1
    for name in ("vip", "random"):
        assert evaluations(results, name) == evaluations(whole, name)
        weights = [
            (tmp_path / part / name / "seed-0" / "model.safetensors").read_bytes() for part in ("whole", "killed")
        ]
        assert weights[0] == weights[1]


@pytest.mark.parametrize("damage", ["{bad", "[]", "", "{}"])
def test_a_damaged_result_is_measured_anew(damage: str, tmp_path: Path) -> None:
    trial = Trial(made_task(), ("vip",))
    before, _ = run(trial, tmp_path)
    (tmp_path / "vip" / "seed-0" / "result.json").write_text(damage)
    after, _ = run(trial, tmp_path)
    assert evaluations(after, "vip") == evaluations(before, "vip")


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (("vip", "magic"), "'magic' is no method: choose of vip, random, bad, exact, or all"),
        (("all", "vip"), "'all' is no method"),
        (("vip", "exact"), "Exact pursuit is not to be had for made"),
    ],
)
def test_unknown_methods_are_told_before_training(methods: tuple[str, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        run(Trial(made_task(), methods), tmp_path)
    assert not list(tmp_path.iterdir())


# Kinds of tasks and methods


def test_all_means_exact_pursuit_too_where_it_is_to_be_had(tmp_path: Path) -> None:
    plain, _ = run(Trial(made_task(), ("all",)), tmp_path / "plain")
    assert list(plain["methods"]) == ["vip", "random", "bad"]
    results, heard = run(Trial(made_task(with_exact=True), ("all",)), tmp_path / "exact")
    assert list(results["methods"]) == ["vip", "random", "bad", "exact"]
    assert not any("exact" in title for title in heard.titles)
    (one,) = results["methods"]["exact"]["seeds"]
    task = made_task(with_exact=True)
    assert task.exact is not None
    assert task.initially_known_test is not None
    y, initially_known = (
        torch.from_numpy((task.y_test == "well").astype(int)),
        torch.from_numpy(task.initially_known_test),
    )
    rows = Rows(*QUERIES.answers(task.X_test), y, initially_known)
    found = evaluate(task.exact(), rows, Budget(2) | Budget(5), 5)
    assert one["evaluation"] == json.loads(json.dumps(found.to_dict()))
    assert one["training_seconds"] == 0


def test_rows_that_are_drawn_and_repeated_names(tmp_path: Path) -> None:
    patients = Patients(["cold", "flu"], YES, n_rows=60)
    test = patients.draw(25, torch.Generator().manual_seed(0))
    assert test.initially_known is not None
    y = np.array(patients.classes)[test.y.numpy()]
    x, initially_known = (test.x > 0).int().numpy(), test.initially_known.numpy()
    task = Task("drawn", QUERIES, patients, None, x, y, {}, initially_known_test=initially_known, settings=SETTINGS)
    results, heard = run(Trial(task, ("random", "random")), tmp_path)
    assert heard.titles == ["drawn, random order, seed 0"]
    assert results["methods"]["random"]["seeds"][0]["n_train"] == 60


# Time


def test_a_step_is_timed_one_row_at_a_time() -> None:
    pursuer = IndependentIP.from_yes(QUERIES, ["sick", "well"], torch.ones(2) / 2, YES)
    x, available = QUERIES.answers(np.random.default_rng(0).integers(0, 2, (3, 6)))
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
