"""V-IP's estimator: which querier it learns, what it refuses, and that all of it is saved."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.support.small_training import KillAt, Killed

import pursuit
from pursuit import (
    METHODS,
    MLP,
    VIP,
    AnswerSettings,
    ColumnQueries,
    InformationVIP,
    PatchQueries,
    Rows,
    Stage,
    VIPClassifier,
    yes_no,
)
from pursuit.estimators import plan
from pursuit.estimators.plan import Reason
from pursuit.inference.pursuer import score_unit
from pursuit.methods import vip as vip_module
from pursuit.training import TrainingRun
from pursuit.training.loop import Report
from pursuit.training.rows import GeneratedRows
from pursuit.vip import TwoQueriers

PLAN: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(1, batch_size=32)], "random_state": 0}


def patients(n: int = 200, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A test that tells the disease, a question that nearly tells it, and one that tells nothing; some ages are
    missing."""
    randomness = np.random.default_rng(seed)
    y = randomness.choice(["cold", "flu"], n)
    test = y == "flu"
    question = test ^ (randomness.random(n) < 0.1)
    age = np.where(randomness.random(n) < 0.2, np.nan, randomness.integers(1, 90, n))
    return pd.DataFrame({"test": test.astype(int), "question": question.astype(int), "age": age}), y


def images() -> tuple[PatchQueries, np.ndarray, np.ndarray]:
    y = np.arange(20) % 2
    return PatchQueries((1, 4, 4), size=2, stride=2), np.repeat(y, 16).reshape(20, 1, 4, 4).astype(np.float32), y


def model_of(**parameters: Any) -> Any:
    return VIPClassifier(**{**PLAN, **parameters}).fit(*patients()).model_


@pytest.mark.parametrize("n_rows", [20, 400])
def test_columns_are_asked_by_information_however_many_rows_there_are(n_rows: int) -> None:
    model: Any = VIPClassifier(**PLAN).fit(*patients(n_rows)).model_
    assert type(model) is InformationVIP
    assert score_unit(model) == "bits"


def test_columns_of_numbers_alone_are_asked_by_information_too() -> None:
    randomness = np.random.default_rng(0)
    X, y = randomness.normal(size=(150, 3)), randomness.integers(2, size=150)
    assert type(VIPClassifier(**PLAN).fit(X, y).model_) is InformationVIP


def test_patches_are_asked_straight_through() -> None:
    query_set, X, y = images()
    model: Any = VIPClassifier(query_set, **PLAN).fit(X, y).model_
    assert type(model) is VIP
    assert model.answer_model is model.reader is None


def test_the_querier_may_be_chosen() -> None:
    assert type(model_of(querier="information")) is InformationVIP
    assert type(model_of(querier="straight-through")) is VIP


def test_two_methods_have_a_querier_of_their_own() -> None:
    for name, querier, title in (
        ("vip-information", "information", "V-IP by information"),
        ("vip-straight-through", "straight-through", "V-IP, straight-through"),
    ):
        method = METHODS[name]
        built: Any = method.build(max_queries=3, querier="auto")
        assert (built.querier, built.max_queries, method.title) == (querier, 3, title)
    assert METHODS["vip"].build().querier == "auto"  # type: ignore[attr-defined]


def test_only_what_knows_bits_takes_costs_into_account() -> None:
    assert METHODS["vip"].accepts("cost_aware")
    assert METHODS["vip-information"].accepts("cost_aware")
    assert not METHODS["vip-straight-through"].accepts("cost_aware")
    built = METHODS["vip-straight-through"].build(cost_aware=True, **PLAN).fit(*patients(40))
    assert score_unit(built.model_) is None


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"querier": "guess"}, ValueError, "querier is one of auto, information, straight-through, not 'guess'"),
        (
            {"querier": "straight-through", "cost_aware": True},
            ValueError,
            "cannot weigh them against costs: use querier='information' with cost_aware=True",
        ),
        ({"answers": {"rank": 3}}, TypeError, r"answers are AnswerSettings\(...\), not {'rank': 3}"),
    ],
)
def test_what_cannot_be_is_refused_before_training(
    parameters: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        VIPClassifier(**PLAN, **parameters).fit(*patients())


@pytest.mark.parametrize("parameters", [{"querier": "information"}, {"cost_aware": True}])
def test_patches_by_information_are_refused_with_what_to_do(parameters: dict[str, Any]) -> None:
    query_set, X, y = images()
    message = r"columns, words or concepts\), not PatchQueries.*use querier='straight-through', without cost_aware"
    with pytest.raises(ValueError, match=message):
        VIPClassifier(query_set, **PLAN, **parameters).fit(X, y)


def test_a_cheap_question_comes_before_a_dear_test_only_where_costs_count() -> None:
    X, y = patients()
    query_set = ColumnQueries.from_data(X, costs={"test": 10.0})
    asked = {}
    for cost_aware in (False, True):
        model = VIPClassifier(query_set, querier="information", cost_aware=cost_aware, **PLAN).fit(X, y)
        step = model.explain(X[:1], "budget=1")[0].steps[0]
        asked[cost_aware] = step.name
        assert step.bits is not None
        assert 0.3 < step.bits < 1.01
    assert asked == {False: "test", True: "question"}


@pytest.mark.parametrize(
    ("costs", "parameters", "unit"),
    [
        ({}, {}, "bits"),
        ({"test": 10.0}, {}, "bits per cost"),
        ({"test": 10.0}, {"querier": "information"}, "bits per cost"),
        ({"test": 10.0}, {"cost_aware": False}, "bits"),
        ({"test": 10.0}, {"querier": "straight-through"}, None),
        ({"test": 5.0, "question": 5.0, "age": 5.0}, {}, "bits"),
        ({}, {"cost_aware": True}, "bits per cost"),
    ],
)
def test_costs_that_differ_are_weighed_unless_told_otherwise(
    costs: dict[str, float], parameters: dict[str, Any], unit: str | None
) -> None:
    X, y = patients(40)
    model = VIPClassifier(ColumnQueries.from_data(X, costs=costs), **PLAN, **parameters).fit(X, y)
    assert score_unit(model.model_) == unit


def test_the_costs_of_patches_are_only_counted() -> None:
    query_set, X, y = images()
    dear = query_set.with_costs({query_set.queries[0].name: 5.0})
    assert score_unit(VIPClassifier(dear, **PLAN).fit(X, y).model_) is None


def test_the_answer_model_is_made_as_the_settings_say() -> None:
    settings = AnswerSettings(rank=3, n_bins=4, smoothing=1.5)
    model = model_of(answers=settings).answer_model
    assert model.settings == settings
    assert model.label_vectors.shape == (2, 3)
    assert model.outcomes.n_values == [2, 2, 4]
    assert model.maybe_missing.tolist() == [2]
    assert model_of().answer_model.settings == AnswerSettings(rank=0)  # beside teachers, with few rows
    assert model_of(teachers=None).answer_model.settings == AnswerSettings()


def test_held_out_rows_are_not_counted() -> None:
    X, y = patients()
    model = VIPClassifier(**PLAN, held_out=0.5)
    counted: list[int] = []
    count = vip_module.AnswerModel.count
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            vip_module.AnswerModel,
            "count",
            lambda query_set, n_classes, rows, *settings: (
                counted.append(len(rows)) or count(query_set, n_classes, rows, *settings)
            ),
        )
        model.fit(X, y)
    assert counted == [100]


class Coins(GeneratedRows):
    """Two coins of which the first is the label, drawn as they are needed."""

    n_rows, n_queries, classes = 500, 2, ("tails", "heads")

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        self.drawn.append(n)
        heads = torch.randint(2, (n, 2), generator=generator)
        return Rows(2.0 * heads - 1, torch.ones(n, 2, dtype=torch.bool), heads[:, 0])

    def to(self, device: torch.device) -> "Coins":
        return self

    def prior(self, n_classes: int) -> torch.Tensor:
        return torch.full((n_classes,), 1 / n_classes)

    def fingerprint(self) -> str:
        return "coins"


def test_rows_that_are_drawn_are_counted_on_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vip_module, "COUNTED_ROWS", 700)
    coins = Coins()
    classifier = VIPClassifier(ColumnQueries([yes_no("first"), yes_no("second")]), **PLAN).fit(coins)
    assert coins.drawn.count(700) == 1
    assert classifier.explain(np.array([[1, 0]]), "budget=1")[0].steps[0].name == "first"


def test_scikit_learn_knows_the_parameters() -> None:
    settings = AnswerSettings(rank=2)
    classifier = VIPClassifier(querier="information", cost_aware=True, answers=settings, **PLAN)
    parameters = clone(classifier).get_params()
    assert (parameters["querier"], parameters["cost_aware"], parameters["answers"]) == ("information", True, settings)
    assert VIPClassifier().get_params()["querier"] == "auto"
    classifier.set_params(querier="straight-through", cost_aware=False)
    assert type(classifier.fit(*patients()).model_) is VIP
    hardly = VIPClassifier(**{**PLAN, "stages": [Stage(0.1)]})
    search = GridSearchCV(hardly, {"answers": [AnswerSettings(0), AnswerSettings(1)]}, cv=2)
    assert search.fit(*patients(60)).best_params_["answers"] in (AnswerSettings(0), AnswerSettings(1))


def test_bits_and_possible_answers_are_saved_with_the_model(tmp_path: Path) -> None:
    X, y = patients()
    query_set = ColumnQueries.from_data(X, costs={"test": 10.0})
    fitted = VIPClassifier(query_set, cost_aware=True, answers=AnswerSettings(rank=2, n_bins=3), **PLAN).fit(X, y)
    fitted.save(tmp_path)
    loaded: Any = pursuit.load(tmp_path)
    assert type(loaded.model_) is InformationVIP
    assert loaded.model_.score_unit == "bits per cost"
    assert loaded.answers == fitted.answers
    assert loaded.explain(X[:20], "budget=2").to_json() == fitted.explain(X[:20], "budget=2").to_json()
    history = fitted.rows(X, y).take(slice(1)).start()
    for query in range(3):
        one, other = (own.model_.possible_answers(history, query) for own in (fitted, loaded))  # type: ignore[attr-defined]
        assert [answer.text for answer in one] == [answer.text for answer in other]
        assert [answer.probability for answer in one] == [answer.probability for answer in other]
    assert [answer.text for answer in one][-1] == "no answer"
    assert fitted.session("bits=0.001").why().question.bits is not None


def many_patients() -> tuple[pd.DataFrame, np.ndarray]:
    """More rows than teachers are asked for, of which held-out ones choose the querier."""
    return patients(3000)


@pytest.fixture
def quick_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "LEAST_STEPS", 40)
    monkeypatch.setattr(plan, "USUAL_EFFORT", plan.Effort(40, math.inf))


UNTAUGHT: dict[str, Any] = {"network": MLP((8,)), "teachers": None, "random_state": 0}


def test_both_queriers_learn_first_and_the_chosen_one_alone(quick_plan: None, tmp_path: Path) -> None:
    reports: list[Report] = []
    run = TrainingRun(tmp_path, on_report=reports.append)
    model = VIPClassifier(**UNTAUGHT).fit(*many_patients(), run=run)
    parts = {1: 14, 2: 22}  # of the 40 steps that all rows would have, four tenths and the rest
    assert dict.fromkeys((report.stage, report.n_steps) for report in reports) == dict.fromkeys(parts.items())
    assert max(report.lr for report in reports[14:]) < max(report.lr for report in reports[:14])
    assert reports[13].seconds_left > 0, "the steps of the second part are still to come"
    assert reports[-1].seconds_left == 0
    chosen = {reason.setting: reason.value for reason in model.chosen_}
    assert chosen["steps"].endswith(" of 36")
    assert chosen["querier"] in ("information", "straight-through")
    assert (tmp_path / "log.csv").exists()
    assert (tmp_path / vip_module.ALONE / "log.csv").exists()


@pytest.mark.parametrize("querier", ["information", pytest.param("straight-through", marks=pytest.mark.slow)])
def test_the_classifier_goes_on_from_where_both_ended(
    querier: str, quick_plan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[tuple[Any, torch.Tensor]] = []

    def choose(both: Any, *_: Any) -> tuple[Any, Reason]:
        model = both.asking(querier)
        chosen.append((model, model.classifier[-1].weight.detach().clone()))
        return model, Reason("querier", querier, "for this test")

    looked: set[tuple[type, int | None]] = set()
    loss_ahead = VIP.loss_ahead

    def watched(self: VIP, *args: Any) -> Any:
        looked.add((type(self), None if self.lookahead is None else self.lookahead.n_answers))
        return loss_ahead(self, *args)

    monkeypatch.setattr(vip_module, "better_querier", choose)
    monkeypatch.setattr(VIP, "loss_ahead", watched)
    model: Any = VIPClassifier(**UNTAUGHT).fit(*many_patients()).model_
    [(before, weight)] = chosen
    assert model is before
    assert type(model) is (InformationVIP if querier == "information" else VIP)
    moved = (model.classifier[-1].weight - weight).norm() / weight.norm()
    assert 0 < moved < 0.5, "it learns further, and does not begin again"
    both = {(TwoQueriers, vip_module.LOOKAHEAD)}
    assert looked == (both if querier == "information" else both | {(VIP, vip_module.LOOKAHEAD_ALONE)})
    assert model.lookahead is None


SLOW = pytest.mark.slow


# In the first part, at its end, and in the second.
@pytest.mark.parametrize(
    "killed_at", [pytest.param(5, marks=SLOW), 14, pytest.param(15, marks=SLOW), pytest.param(30, marks=SLOW)]
)
def test_a_training_killed_in_either_part_ends_with_the_same_bits(
    killed_at: int, quick_plan: None, tmp_path: Path
) -> None:
    rows = many_patients()
    whole: Any = VIPClassifier(**UNTAUGHT).fit(*rows, run=TrainingRun(tmp_path / "whole")).model_
    killed = TrainingRun(tmp_path / "killed", on_report=KillAt(killed_at), checkpoint_seconds=0)
    with pytest.raises(Killed):
        VIPClassifier(**UNTAUGHT).fit(*rows, run=killed)
    again: Any = VIPClassifier(**UNTAUGHT).fit(*rows, run=TrainingRun(tmp_path / "killed", resume=True)).model_
    assert type(again) is type(whole)
    for name, weight in whole.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], weight, rtol=0, atol=0, equal_nan=True)
