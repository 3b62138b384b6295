"""What was chosen for an estimator, and why: printed, saved, and said to be given where it was."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pursuit
from pursuit import MLP, Stage, TrainingRun, VIPClassifier, VIPRegressor
from pursuit.estimators.plan import Reason, given
from pursuit.methods import METHODS, TreeClassifier
from small_table import PATIENTS, QUICK, QUICKEST, patients, symptom_classifier


@pytest.fixture(scope="module")
def by_default() -> VIPClassifier:
    return VIPClassifier(random_state=0, network=MLP((8,))).fit(*patients())


def settings_of(estimator: Any) -> dict[str, Reason]:
    return {reason.setting: reason for reason in estimator.chosen_}


def test_before_it_is_fitted_an_estimator_prints_its_parameters() -> None:
    estimator = VIPClassifier(max_queries=3, random_state=0)
    assert str(estimator) == repr(estimator) == "VIPClassifier(max_queries=3, random_state=0)"


def test_a_fitted_estimator_prints_a_line_for_each_setting(by_default: VIPClassifier) -> None:
    parameters, printed = repr(by_default), str(by_default)
    assert printed.startswith(f"{parameters}\n")
    lines = printed.removeprefix(f"{parameters}\n").split("\n")
    assert lines == [str(reason) for reason in by_default.chosen_]
    assert [line.split(":")[0] for line in lines] == [
        "network",
        "standardise",
        "batch size",
        "steps",
        "held out",
        "teachers",
        "querier",
        "stop",
        "expected",
    ]
    assert all(line.endswith(")") for line in lines)


def test_what_was_given_says_so_and_what_was_not_says_why(by_default: VIPClassifier) -> None:
    found = settings_of(by_default)
    assert found["network"] == given("network", MLP((8,)))
    assert found["standardise"].why == "answers vary enough as they are"
    why = "teachers judge what was learnt of rows that they did not see"
    assert found["held out"] == Reason("held out", "0%", why)
    assert found["steps"] == Reason("steps", "10", f"{10 * 256 / 120:.1f} histories of each row, because rows are few")
    assert found["teachers"].why == "best on rows they did not see"
    known = {"forest", "logistic regression (C=1)", "logistic regression (C=0.1)", "boosting"}
    assert set(found["teachers"].value.split(", ")) <= known
    assert found["querier"].value in ("information", "straight-through")
    assert found["stop"] == Reason("stop", str(by_default.stop_), "rows as teachers label them need no more than that")
    assert found["expected"].why == "judged by 120 rows as teachers label them"
    assert (by_default.model_.temperature == 1).all()  # beliefs are as sure as teachers are


def test_without_teachers_held_out_rows_judge() -> None:
    model = VIPClassifier(random_state=0, network=MLP((8,)), teachers=None).fit(*patients())
    found = settings_of(model)
    assert "teachers" not in found
    assert found["held out"] == Reason("held out", "20%", "to end training before rows are learnt by heart")
    trained, planned = (int(number.replace(",", "")) for number in found["steps"].value.split(" of "))
    assert 0 < trained <= planned
    assert found["steps"].why == "best on held-out rows"
    numbers = [float(number) for number in re.findall(r"[0-9.]+", found["temperature"].value)]
    temperature = model.model_.temperature
    assert (numbers[0], numbers[-1]) == pytest.approx((float(temperature[1]), float(temperature[-1])), rel=0.01)
    assert found["stop"] == Reason("stop", str(model.stop_), "held-out rows need no more than that")
    assert found["expected"].why == "judged by 24 held-out rows"


def test_everything_may_be_given() -> None:
    model = VIPClassifier(stop="budget=2", standardise=True, held_out=0.25, random_state=0, **QUICKEST).fit(*patients())
    found = settings_of(model)
    for setting, value in (
        ("network", str(QUICKEST["network"])),
        ("standardise", "True"),
        ("held out", "25%"),
        ("stop", "budget=2"),
    ):
        assert found[setting] == Reason(setting, value, "given")
    assert found["stages"].why == "given"
    assert found["stages"].value.startswith("1 stage, ")
    assert {"batch size", "steps"}.isdisjoint(found)
    assert found["expected"].why == "judged by 30 held-out rows"


def test_stages_that_are_given_are_trained_to_the_end() -> None:
    model = VIPClassifier(random_state=0, **QUICKEST).fit(*patients())
    found = settings_of(model)
    assert found["stages"].value == "1 stage, 1 step"
    assert found["stop"] == Reason("stop", "confidence=0.99", "by default")
    assert {"held out", "temperature", "expected", "steps", "batch size", "teachers", "querier"}.isdisjoint(found)
    # Made rows are not further steps, and teachers choose when to stop.
    found = settings_of(VIPClassifier(random_state=0, **{**QUICKEST, "teachers": "auto"}).fit(*patients()))
    assert found["stages"].value == "1 stage, 1 step"
    assert found["stop"].why == "rows as teachers label them need no more than that"
    assert {"teachers", "expected"} <= set(found)
    assert {"held out", "temperature", "steps", "batch size", "querier"}.isdisjoint(found)


def test_very_few_rows_are_all_trained_on_and_that_is_said() -> None:
    found = settings_of(VIPClassifier(random_state=0, network=MLP((4,))).fit(*patients(20)))
    assert found["held out"] == Reason("held out", "0%", "too few rows to do without any")
    assert {"temperature", "expected"}.isdisjoint(found)


def test_streamed_rows_have_passes_and_fresh_rows_fit_their_beliefs() -> None:
    model = symptom_classifier(network=None, stages=None, max_queries=2).fit(PATIENTS)
    found = settings_of(model)
    assert list(found) == ["network", "passes", "calibrated on", "querier", "temperature", "stop", "expected"]
    assert found["calibrated on"] == Reason("calibrated on", "2,000 rows", "not learnt from")


def test_a_method_without_networks_of_ours_has_no_line_for_them() -> None:
    model = METHODS["g-ip"].build(stages=[Stage(0.1, batch_size=32)], random_state=0)
    found = settings_of(model.fit(*patients(40)))
    assert {"network", "standardise"}.isdisjoint(found)
    assert found["stages"].why == "given"


def test_a_method_without_a_plan_has_nothing_to_say() -> None:
    model = TreeClassifier(random_state=0).fit(*patients())
    assert model.chosen_ == ()
    assert str(model) == repr(model)


def test_a_regressor_has_its_own_rule() -> None:
    X, _ = patients()
    y = X.pop("age").fillna(40.0)
    model = VIPRegressor(random_state=0, **{**QUICK, "held_out": 0.2}).fit(X, y)
    found = settings_of(model)
    assert found["stop"].value == str(model.stopping_rule())
    assert found["stop"].value.startswith("width=")
    assert "expected" not in found  # an accuracy of intervals would say little


def test_what_was_chosen_is_saved_and_loaded(by_default: VIPClassifier, tmp_path: Path) -> None:
    by_default.save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert loaded.chosen_ == by_default.chosen_
    assert str(loaded) == str(by_default)
    assert loaded.stop_ == by_default.stop_ is not None
    kept = json.loads((tmp_path / "model.json").read_text())["estimator"]["chosen"]
    assert kept[0] == ["network", str(MLP((8,))), "given"]


def test_fitting_again_chooses_again() -> None:
    model = VIPClassifier(random_state=0, **QUICKEST).fit(*patients())
    model.set_params(stages=[Stage(3, batch_size=40)] * 2).fit(*patients())
    assert settings_of(model)["stages"].value == "2 stages, 18 steps"


def test_what_is_expected_is_about_what_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.estimators.plan.PASSES", 40)
    X, y = patients(400)
    model = VIPClassifier(random_state=0, network=MLP((16,)), held_out=0.3).fit(X, y)
    value = settings_of(model)["expected"].value
    n_queries, low, high = float(value.split()[1]), *(float(value.split()[i].rstrip("%")) / 100 for i in (-6, -4))
    at_stop = model.evaluate(*patients(600, seed=1)).at_stop
    assert at_stop is not None
    assert at_stop.mean_asked == pytest.approx(n_queries, abs=0.4)
    assert low <= at_stop.accuracy <= high < low + 0.25


def test_a_model_that_is_no_better_than_guessing_says_so_first() -> None:
    def shuffled(n: int) -> tuple[Any, np.ndarray]:
        X, y = patients(n)
        return X, np.random.default_rng(0).permutation(y)

    model = VIPClassifier(random_state=0, held_out=0.2, **QUICKEST).fit(*shuffled(120))
    first = model.chosen_[0]
    assert first.setting == "no better than guessing"
    assert re.fullmatch(r"always saying '\w+' is right in \d\d%", first.value)
    assert first.why == "as far as 24 held-out rows can tell"
    again = model.calibrate(*shuffled(400)).chosen_
    assert again[0].why == "as far as 400 held-out rows can tell"
    assert [reason.setting for reason in again].count(first.setting) == 1
    weighted = VIPClassifier(random_state=0, held_out=0.2, class_weight="balanced", **QUICKEST).fit(*shuffled(120))
    assert first.setting not in settings_of(weighted)  # it was asked for something else than being right most often


# Training by teachers, and without


def test_a_taught_training_is_the_same_each_time(by_default: VIPClassifier) -> None:
    again = VIPClassifier(random_state=0, network=MLP((8,))).fit(*patients())
    one, other = (model.model_.state_dict() for model in (by_default, again))
    assert all((one[name] == other[name]).all() for name in one)
    assert again.chosen_ == by_default.chosen_
    assert VIPClassifier(random_state=4, network=MLP((8,))).fit(*patients()).chosen_ != by_default.chosen_


@pytest.mark.parametrize(("teachers", "n_counted"), [("auto", 120), (None, 96)])
def test_taught_rows_are_all_trained_on_once(teachers: Any, n_counted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    count = pursuit.methods.vip.AnswerModel.count
    monkeypatch.setattr(
        pursuit.methods.vip.AnswerModel,
        "count",
        lambda query_set, n_classes, rows, *more: counted.append(len(rows)) or count(query_set, n_classes, rows, *more),
    )
    reports: list[Any] = []
    model = VIPClassifier(random_state=0, network=MLP((4,)), teachers=teachers)
    model.fit(*patients(), run=TrainingRun(on_report=reports.append))
    assert counted == [n_counted]
    assert all((report.held_out_loss is None) == (teachers == "auto") for report in reports)
    if teachers == "auto":
        assert (reports[-1].step, reports[-1].n_steps) == (10, 10)  # to the end


def test_a_taught_training_goes_on(by_default: VIPClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Teachers are asked again, and then it goes on where it was."""

    class Killed(Exception): ...

    def kill(report: Any) -> None:
        if report.step * 2 >= report.n_steps:
            raise Killed

    monkeypatch.setattr("pursuit.training.run.CHECKPOINT_PAUSE", 0)
    X, y = patients()
    estimator = VIPClassifier(random_state=0, network=MLP((8,)))
    with pytest.raises(Killed):
        estimator.fit(X, y, run=TrainingRun(tmp_path, on_report=kill, checkpoint_seconds=0))
    reports: list[Any] = []
    estimator.fit(X, y, run=TrainingRun(tmp_path, resume=True, on_report=reports.append))
    assert reports[0].step > 1
    one, other = (model.model_.state_dict() for model in (by_default, estimator))
    assert all((one[name] == other[name]).all() for name in one)
    assert (estimator.stop_, estimator.chosen_) == (by_default.stop_, by_default.chosen_)
