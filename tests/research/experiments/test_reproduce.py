"""Reproducing a task: the results folder, several seeds, and what the report says."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from experiments.conftest import RECIPE, Watcher, columns_task
from pursuit import Budget, evaluate, load, registry
from pursuit.evaluation.calibration import seeds_and_rows_interval
from pursuit.evaluation.curves import AtStop, Evaluation
from pursuit.evaluation.protocols import Protocol, measure_protocols
from pursuit.methods.all_answers import AllAnswersClassifier
from pursuit.methods.random_order import RandomOrder
from pursuit.research.experiments import reproduce as module
from pursuit.research.experiments.reproduce import TRADE_OFF, Reproduction, report, reproduce
from pursuit.research.experiments.results import Beside, MethodResults, Result, Results
from pursuit.research.experiments.run import LOGISTIC_REGRESSION, RANDOM_ORDER

pytestmark = pytest.mark.usefixtures("small_tasks")
REPRODUCTION = Reproduction("columns", "tiny", RECIPE)


@pytest.fixture(autouse=True)
def few_chains(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "folder_holds_everything" not in request.node.name:
        monkeypatch.setattr(module, "N_CHAINS", 0)  # figures take longer than the little training here
        monkeypatch.setattr(module, "_draw_curves", lambda results, path: None)


def run(reproduction: Reproduction, folder: Path) -> tuple[Results, Watcher]:
    watcher = Watcher()
    return reproduce(reproduction, folder, watcher.progress, watcher.said.append), watcher


def test_a_results_folder_holds_everything(tmp_path: Path) -> None:
    results, watcher = run(replace(REPRODUCTION, seeds=(0, 1)), tmp_path)
    written = {"results.json", "table.md", "curve.png", "seed-0", "seed-1", "all-answers"}
    assert {path.name for path in tmp_path.iterdir()} == written
    kept = {"result.json", "model.json", "model.safetensors", "run.json", "log.csv", "checkpoints"}
    seeds = results.worked["vip"][0].seeds
    for seed in (0, 1):
        files = {path.name for path in (tmp_path / f"seed-{seed}").iterdir()}
        assert files == kept | {"chain-0.png", "chain-1.png", "chain-2.png"}
        assert Result.from_dict(json.loads((tmp_path / f"seed-{seed}" / "result.json").read_text())) == seeds[seed]
    assert Results.from_dict(json.loads((tmp_path / "results.json").read_text())) == results
    trained = [f"columns, {title}, seed {seed}" for seed in (0, 1) for title in ("V-IP", "all answers")]
    assert watcher.titles == trained
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "table.md").read_text() == report(results)
    run_of = results.run
    assert (run_of["task"], run_of["recipe"], run_of["measured_on"]) == ("columns", "tiny", "test rows")


def test_results_are_those_of_the_saved_model(tmp_path: Path) -> None:
    results, _ = run(replace(REPRODUCTION, seeds=(3,)), tmp_path)
    (one,) = results.worked["vip"][0].seeds
    task, model = columns_task(3), load(tmp_path / "seed-3")
    rows = model.rows(task.X_test, task.y_test, initially_known=task.initially_known_test)
    assert one.evaluation == evaluate(model.model_, rows, Budget(2) | Budget(6), 6, trade_off=TRADE_OFF)
    by_chance = evaluate(RandomOrder(model.model_, seed=0), rows, max_queries=6)
    beside = one.beside[RANDOM_ORDER]
    assert (beside.accuracy_by_asked, beside.area) == (by_chance.accuracy_by_asked, by_chance.area)
    assert one.beside[LOGISTIC_REGRESSION].accuracy_all_answers == 1
    assert one.beside.keys() == {RANDOM_ORDER, LOGISTIC_REGRESSION}
    assert (one.seed, one.n_train, one.n_test, one.n_histories) == (3, 60, 20, 300)


@pytest.mark.slow
def test_seeds_that_are_done_are_not_trained_again(tmp_path: Path) -> None:
    results, _ = run(REPRODUCTION, tmp_path)
    again, watcher = run(REPRODUCTION, tmp_path)
    assert again == results
    assert watcher.titles == []
    assert ["already measured" in text for text in watcher.said] == [True, True]
    more, watcher = run(replace(REPRODUCTION, seeds=(0, 1)), tmp_path)
    assert watcher.titles == ["columns, V-IP, seed 1", "columns, all answers, seed 1"]
    assert more.worked["vip"][0].seeds[0] == again.worked["vip"][0].seeds[0]
    assert more.worked["vip"][1].n_seeds == 2


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": RECIPE.tempered(0.5, 0.5), "options": ("tau 0.5 to 0.5",)},
        {"recipe": replace(RECIPE, query_options={"mask": False})},
        {"validation": True},
        {"curve_queries": 3},
    ],
)
def test_what_changes_a_result_is_described(change: dict[str, object]) -> None:
    described = REPRODUCTION.described()
    assert json.loads(json.dumps(described)) == described
    assert replace(REPRODUCTION, **change).described() != described  # type: ignore[arg-type]
    for other in ({"seeds": (4, 5)}, {"device": "auto"}):
        assert replace(REPRODUCTION, **other).described() == described  # type: ignore[arg-type]


def test_names_of_folders() -> None:
    assert REPRODUCTION.name == "columns-tiny"
    changed = replace(REPRODUCTION, options=("set network", "effort 0.5"), validation=True)
    assert changed.name == "columns-tiny-set-network-effort-0.5-validation"


def test_a_training_that_fails_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = AllAnswersClassifier.learn

    def failing(self: AllAnswersClassifier, *given: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(AllAnswersClassifier, "learn", failing)
    with pytest.raises(ValueError, match=r"these failed: columns, all answers, seed 0: RuntimeError: out of memory"):
        run(REPRODUCTION, tmp_path)
    assert "Traceback" in (tmp_path / "all-answers" / "seed-0" / "error.txt").read_text()
    assert not (tmp_path / "results.json").exists()
    monkeypatch.setattr(AllAnswersClassifier, "learn", learn)
    _, watcher = run(REPRODUCTION, tmp_path)
    assert watcher.titles == ["columns, all answers, seed 0"]
    assert not (tmp_path / "all-answers" / "seed-0" / "error.txt").exists()


def test_settings_that_cannot_be_trained_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="The device is one of"):
        run(replace(REPRODUCTION, device="tpu"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_report_says_what_it_was_measured_on_and_what_was_cut(tmp_path: Path) -> None:
    plain, _ = run(REPRODUCTION, tmp_path / "plain")
    assert "By the recipe tiny; V-IP has the information querier." in report(plain)
    assert "test rows, learnt from 60." in report(plain)
    assert "the stopping rule budget=2,budget=6" in report(plain)
    assert "cut off" not in report(plain)
    chosen, _ = run(replace(REPRODUCTION, validation=True, curve_queries=1), tmp_path / "chosen")
    (one,) = chosen.worked["vip"][0].seeds
    assert (one.n_train, one.n_test) == (54, 6)
    assert "accuracy on 6 held-out training rows" in report(chosen)
    assert "Of the rows, 100.0% were cut off after 1 queries." in report(chosen)
    assert "over 1 to 1 of 6 queries" in report(chosen)


def result_of(seed: int, area: float, accuracy: float, longest: int, has_stop: bool) -> Result:
    asked = 10 * accuracy
    stop = AtStop("confidence=0.9", asked, asked, asked, accuracy / 2, (0.1, 0.9), 0.9, 0.01)
    curve = [accuracy * n / longest for n in range(longest + 1)]
    return Result(
        run={},
        method="vip",
        seed=seed,
        n_train=1000,
        n_test=1000,
        training_seconds=60.0,
        evaluation=Evaluation(1000, longest, curve, area, curve, area, accuracy, stop if has_stop else None),
        provenance={"device": "CPU", "commit": "abc1234", "machine": "a machine"},
        querier="straight-through",
        notes={},
        resumed=seed == 1,
        beside={RANDOM_ORDER: Beside(curve, area / 2)},
    )


@pytest.mark.parametrize("task", ["mnist", "symcat-200", "digits", "kmnist"])
@pytest.mark.parametrize("has_stop", [True, False])
@pytest.mark.parametrize("longest", [3, 30])
def test_the_report_has_the_figures_of_the_paper(task: str, has_stop: bool, longest: int) -> None:
    seeds = [result_of(0, 0.5, 0.8, longest, has_stop), result_of(1, 0.6, 0.7, longest, has_stop)]
    described = {
        "task": task,
        "recipe": "fast",
        "options": ["irs", "effort 0.5"],
        "measured_on": "test rows",
        "settings": {"querier": "straight-through"},
    }
    text = report(Results(described, {"vip": MethodResults.of("V-IP", seeds)}))
    assert "By the recipe fast (irs, effort 0.5); V-IP has the straight-through querier." in text
    assert "| 60 s, resumed |" in text
    assert "The area of random order is 0.275 ± 0.035." in text
    assert ("queries 6.34, accuracy there 0.971, all answers 0.991, black box 0.992." in text) == (task == "mnist")
    assert ("The paper prints: after 20 0.681 (not comparable)." in text) == (task == "symcat-200")


@pytest.mark.slow
@pytest.mark.parametrize("querier", ["straight-through", "information"])
def test_a_result_says_which_querier_was_trained(tmp_path: Path, querier: str) -> None:
    results, _ = run(replace(REPRODUCTION, recipe=replace(RECIPE, querier=querier)), tmp_path)
    assert [seed.querier for seed in results.worked["vip"][0].seeds] == [querier]
    assert results.methods["all-answers"].seeds[0].querier is None


def test_a_black_box_stands_beside_it(tmp_path: Path) -> None:
    results, _ = run(REPRODUCTION, tmp_path)
    found = results.methods["all-answers"].seeds[0].evaluation
    box = load(tmp_path / "all-answers" / "seed-0")
    task = columns_task(0)
    evaluation = box.evaluate(task.X_test, task.y_test, initially_known=task.initially_known_test)
    assert found.accuracy_all_answers == evaluation.accuracy_all_answers
    assert "| all answers |" in report(results)


@pytest.mark.slow
def test_a_black_box_may_be_left_out_and_is_shown_once_it_is_there(tmp_path: Path) -> None:
    without = replace(REPRODUCTION, seeds=(0, 1), black_box=False)
    results, _ = run(without, tmp_path)
    assert "all-answers" not in results.methods
    assert all("logistic regression" not in seed.beside for seed in results.worked["vip"][0].seeds)
    run(replace(without, seeds=(0,), black_box=True), tmp_path)
    results, watcher = run(without, tmp_path)
    assert not any("trained" in line for line in watcher.said)
    assert [seed.seed for seed in results.methods["all-answers"].seeds] == [0]


def test_a_recipe_may_have_protocols_besides_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    of_task, of_recipe = Protocol("no cap"), Protocol("at most 2", 2)
    plain = REPRODUCTION
    with_protocol = replace(plain, recipe=replace(RECIPE, protocols=(of_recipe,)))
    assert plain.load(0).held_out is None
    assert len(with_protocol.load(0).y_train) == 54
    monkeypatch.setitem(registry._known["task"], "columns", replace(plain.info, protocols=(of_task,)))
    assert with_protocol.protocols == (of_task, of_recipe)
    assert with_protocol.described()["protocols"] == [str(of_task), str(of_recipe)]


@pytest.mark.slow
def test_protocols_choose_on_rows_that_are_not_learnt_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    protocols = (Protocol("no cap"), Protocol("at most 2", 2))
    info = replace(registry.find("task", "columns"), protocols=protocols, protocol_length=1.5)
    monkeypatch.setitem(registry._known["task"], "columns", info)
    seeds = (0, 1)
    results, _ = run(replace(REPRODUCTION, seeds=seeds), tmp_path)
    assert "protocols" in results.run
    found, summary = results.worked["vip"]
    for seed, one in zip(seeds, found.seeds, strict=True):
        assert (one.n_train, one.n_test) == (54, 20)
        task, model = columns_task(seed).hold_out(seed=seed), load(tmp_path / f"seed-{seed}")
        assert task.held_out is not None
        held_out, measured = (
            model.rows(part.X_test, part.y_test, initially_known=part.initially_known_test)
            for part in (task.held_out, task)
        )
        assert one.protocols == measure_protocols(model.model_, held_out, measured, protocols, 1.5)
    no_cap = summary.protocols["no cap"]
    accuracies = [one.protocols[0].accuracy for one in found.seeds]
    assert no_cap.accuracy.mean == pytest.approx(mean(accuracies))
    assert no_cap.accuracy.interval == seeds_and_rows_interval(accuracies, 20)
    assert no_cap.wanted == 1.5
    assert list(summary.protocols) == ["no cap", "at most 2"]
    assert f"are right, with {no_cap.mean_counted.mean:.2f} queries counted." in report(results)
    assert results.methods["all-answers"].seeds[0].n_train == 54
