"""V-IP for a number: scikit-learn's manners, a world whose regression function is known, sessions, saving and words."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import pursuit
from contract_table import EQUIVALENT_WEIGHTS, OF_WHAT_IS_LEARNT, OTHER_PARAMETERS, SHORT, TINY, reports
from pursuit import (
    METHODS,
    MLP,
    Budget,
    Confidence,
    IntervalWidth,
    NothingWorthAsking,
    PatchQueries,
    Stage,
    VIPRegressor,
)
from pursuit.estimators.regressor import suitable_bins
from pursuit.inference.stopping import Stability
from pursuit.research.tasks.symcat import Patients
from pursuit.training.schedule import AdamW

STAGE = Stage(20, optimizer=AdamW(1e-2), batch_size=64)
QUICK: dict[str, Any] = {"network": MLP((32,)), "stages": [STAGE], "random_state": 0}
QUICKEST: dict[str, Any] = {
    "network": MLP((4,)),
    "stages": [Stage(0.1, batch_size=32)],
    "random_state": 0,
    "teachers": None,
}


def houses(n: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """The price is exactly 100, and 80 more for a garage, 40 more for a garden and 10 more in the north: eight prices.
    Every second house has a garage, every fourth a garden, and every tenth is in the north, so that this is what
    tells most, next most and least. Whether there is a cat does not matter."""
    randomness = np.random.default_rng(seed)
    garden, garage = randomness.random(n) < 0.25, randomness.random(n) < 0.5
    side = np.where(randomness.random(n) < 0.1, "north", "south")
    y = 100.0 + 40 * garden + 80 * garage + 10 * (side == "north")
    X = pd.DataFrame({"garden": garden, "garage": garage, "side": side, "cat": randomness.random(n) < 0.5})
    return X, y


@cache
def fitted() -> VIPRegressor:
    return VIPRegressor(n_bins=16, **QUICK).fit(*houses())


def test_a_known_function_is_found_and_asked_for_in_the_order_of_what_it_is_worth() -> None:
    model, (X, y) = fitted(), houses(200, seed=1)
    assert model.score(X, y) > 0.99
    errors = np.abs(model.predict(X) - y)  # of numbers from 100 to 230; teachers are unsure of rare houses
    assert errors.max() < 20
    assert errors.mean() < 3
    chains = model.explain(X, "width=5")
    assert {tuple(step.name for step in chain.steps)[:3] for chain in chains} == {("garage", "garden", "side")}
    assert np.mean(["cat" in [step.name for step in chain.steps] for chain in chains]) < 0.2
    np.testing.assert_allclose([chain.prediction for chain in chains], y, atol=20)


def test_intervals_cover_what_is_still_open() -> None:
    """After one answer the number is one of four, after three of them it is known."""
    model, (X, y) = fitted(), houses(300, seed=1)
    evaluation = model.evaluate(X, y, "width=5")
    assert all(scores.coverage > 0.87 for scores in evaluation.by_asked)
    widths = [scores.width for scores in evaluation.by_asked]
    assert widths[0] == pytest.approx(120, abs=11)
    assert widths[1] == pytest.approx(40, abs=11)
    assert widths[2] == pytest.approx(10, abs=4)
    assert evaluation.all_answers.width < 10
    assert evaluation.at_stop is not None
    assert 2.5 < evaluation.at_stop.mean_asked < 3.5
    assert evaluation.at_stop.r2 > 0.98
    json.dumps(evaluation.to_dict())
    r2 = [r2_score(y, np.array([chain.prediction for chain in model.explain(X, Budget(n))])) for n in (0, 1, 4)]
    np.testing.assert_allclose([evaluation.by_asked[n].r2 for n in (0, 1, 4)], r2, atol=1e-4)
    assert evaluation.by_asked[4] == evaluation.by_asked[-1]
    assert evaluation.all_answers.mae == pytest.approx(evaluation.by_asked[4].mae, abs=1e-3)


def test_mean_median_quantiles_and_intervals_are_of_one_belief() -> None:
    model, (X, y) = fitted(), houses(40, seed=2)
    model = copy.copy(model).set_params(stop="budget=1")
    interval, quantiles = model.predict_interval(X, 0.8), model.predict_quantiles(X, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(interval, quantiles[:, [0, 2]])
    np.testing.assert_allclose(model.predict_median(X), quantiles[:, 1])
    assert (interval[:, 0] <= model.predict(X)).all()
    assert (model.predict(X) <= interval[:, 1]).all()
    assert ((interval[:, 0] <= y) & (y <= interval[:, 1])).mean() > 0.7
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_interval(X, 90)
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_quantiles(X, [5])


def test_the_belief_is_said_in_words() -> None:
    session = fitted().session("width=5")
    assert session.belief.startswith("about 1")
    why = session.why()
    assert why.question.name == "garage"
    assert "no  " in str(why) or "no (" in str(why)
    assert "-> about" in str(why)
    assert json.dumps(why.to_dict())
    session.tell("yes")
    assert session.prediction == pytest.approx(100 + 80 + 40 / 4 + 10 / 10, abs=5)
    assert "(90%: 180 to 2" in session.belief
    while not session.done:
        session.tell({"garden": "yes", "side": "south", "cat": "no"}[session.ask().name])
    assert session.prediction == pytest.approx(220, abs=10)
    chain = session.chain
    assert str(chain).startswith("Prediction: about ")
    told = chain.to_dict()
    assert told["prediction"] == told["mean"] == pytest.approx(session.prediction)
    assert told["interval"][0] <= told["median"] <= told["interval"][1]
    assert len(told["steps"][0]["interval"]) == 2


def test_saved_and_loaded_it_predicts_the_same(tmp_path: Path) -> None:
    model, (X, y) = fitted(), houses(50, seed=3)
    model.save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert type(loaded) is VIPRegressor
    assert loaded.bins_ == model.bins_
    np.testing.assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
    assert loaded.evaluate(X, y) == model.evaluate(X, y)
    assert loaded.stopping_rule() == model.stopping_rule()
    with pytest.raises(ValueError, match="holds a VIPRegressor, not a VIPClassifier"):
        pursuit.VIPClassifier.load(tmp_path)
    loaded.save(tmp_path / "again")
    for name in ("model.json", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_all_parameters_are_saved(tmp_path: Path) -> None:
    others = {**OTHER_PARAMETERS, "n_bins": 5, "neighbours": 2.0}
    model = copy.copy(fitted())
    defaults = VIPRegressor().get_params()
    model.set_params(**{name: others[name] for name in defaults if name != "query_set"})
    assert all(value != defaults[name] for name, value in model.get_params().items() if name != "query_set")
    model.save(tmp_path)
    assert repr(clone(pursuit.load(tmp_path))) == repr(clone(model))


def test_by_default_it_asks_until_the_interval_is_narrow_or_nothing_is_worth_asking() -> None:
    rule = VIPRegressor().stopping_rule()
    assert isinstance(rule, NothingWorthAsking)
    assert VIPRegressor(max_queries=3).stopping_rule() == rule | Budget(3)
    own, narrow = fitted().stopping_rule(), IntervalWidth(float(f"{0.1 * fitted().bins_.spread:.3g}"))
    assert own == narrow | NothingWorthAsking(0.5)  # the side, which tells least, is 1 % of the variance
    untaught = VIPRegressor(n_bins=16, **QUICKEST).fit(*houses())
    assert untaught.stopping_rule() == narrow | rule
    assert pursuit.inference.stopping.parse_stop(str(own)) == own
    assert fitted().stopping_rule("confidence=0.5") == Confidence(0.5)
    images = np.random.default_rng(0).random((60, 4, 4))
    of_images = VIPRegressor(PatchQueries((1, 4, 4), 2), **QUICKEST).fit(images, images.sum(axis=(1, 2)))
    assert of_images.stopping_rule() == IntervalWidth(0.116) | Stability(0.0144, 3)
    assert of_images.predict(images).shape == (60,)


def test_a_rule_that_never_asks_gets_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"width=1000.0 would stop before the first question: it is about 1\d\d"):
        VIPRegressor(stop="width=1000", **QUICKEST).fit(*houses())


def test_weights_count_and_a_row_of_none_is_left_out() -> None:
    X, y = houses()
    heavy = np.where(X["garage"], 9.0, 1.0)
    model = VIPRegressor(n_bins=16, **{**QUICKEST, "stop": Budget(0)})
    with pytest.warns(UserWarning, match="before the first question"):
        expected = model.fit(X, y, heavy).predict(X[:1])[0]
    assert expected == pytest.approx(np.average(y, weights=heavy), abs=2)
    with pytest.warns(UserWarning, match="before the first question"):
        model.fit(X, y, X["garage"].astype(float))
    assert min(model.bins_.means) >= 180


def test_initially_known_answers_are_used() -> None:
    X, y = houses(60, seed=4)
    everything = np.ones(X.shape, dtype=bool)
    predicted = fitted().predict(X, initially_known=everything)
    np.testing.assert_allclose(predicted, y, atol=15)
    assert fitted().score(X, y, initially_known=everything) > 0.98
    assert fitted().evaluate(X, y, initially_known=everything).at_stop.mean_asked == 0  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_real_table_is_learnt() -> None:
    """Linear regression explains some 0.48 of the variance of diabetes on average, and three answers most of that."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    model = VIPRegressor(random_state=0, stages=[Stage(60, batch_size=128)]).fit(X[:350], y[:350])
    evaluation = model.evaluate(X[350:], y[350:])
    assert max(scores.r2 for scores in evaluation.by_asked[:6]) > 0.3
    assert evaluation.by_asked[3].coverage > 0.8


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["cheap", "dear"] * 20, "predicts numbers, but the target has other values, such as 'cheap'"),
        ([1.0, np.nan] * 20, r"missing \(NaN\)"),
        ([1.0, np.inf] * 20, r"infinite \(inf\)"),
        ([3.0] * 40, r"only one value \(3\)"),
        (None, "requires y to be passed"),
        ([1.0] * 39, "inconsistent"),
    ],
)
def test_targets_that_are_no_numbers_get_a_sentence(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VIPRegressor(**QUICKEST).fit(houses(40)[0], y)


def test_numbers_may_be_written_as_texts_or_be_whole_or_yes_and_no() -> None:
    X, y = houses(40)
    for target in (y.astype(str), y.astype(int), pd.Series(y).astype("Int64"), y > 150):
        model = VIPRegressor(**QUICKEST).fit(X, target)
        assert model.predict(X).dtype == np.float64
        assert model.evaluate(X, target).n_rows == 40


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_bins": 1}, "at least 2, not 1"), ({"neighbours": -1.0}, "0 or more"), ({"stop": "soon"}, "stopping rule")],
)
def test_wrong_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VIPRegressor(**{**QUICKEST, **parameters}).fit(*houses(40))


def test_streamed_rows_are_refused_with_a_sentence() -> None:
    data = Patients(["flu", "measles"], torch.tensor([[0.9, 0.1], [0.1, 0.8]]), n_rows=40)
    query_set = pursuit.ColumnQueries([pursuit.yes_no("fever"), pursuit.yes_no("rash")])
    with pytest.raises(ValueError, match="takes rows in memory, and Patients are streamed"):
        VIPRegressor(query_set, **QUICKEST).fit(data)


def test_bins_suit_the_number_of_rows() -> None:
    sizes = [suitable_bins(n) for n in (2, 100, 400, 1000, 100_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] >= 2
    assert sizes[-1] <= 64


def test_it_is_a_regressor_among_others() -> None:
    assert is_regressor(VIPRegressor())
    assert METHODS["vip-regressor"].predicts_numbers
    assert not METHODS["vip"].predicts_numbers
    X, y = houses(60)
    assert len(cross_val_score(VIPRegressor(**QUICKEST), X, y, cv=2)) == 2
    data = reports()
    with pytest.raises(ValueError, match=r"width=5\.0 is for models that predict a number"):
        pursuit.VIPClassifier(stop="width=5", **{**QUICKEST, "query_set": None}).fit(data.X, data.y)


def expected_to_fail(estimator: Any) -> dict[str, str]:
    return dict.fromkeys(EQUIVALENT_WEIGHTS, "repeated rows come in another order")


@pytest.mark.slow  # it reads rows and keeps what it learnt by the code of VIPClassifier, of which all is checked
@parametrize_with_checks([VIPRegressor(**TINY)], expected_failed_checks=expected_to_fail)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(VIPRegressor(**SHORT, teachers=None) if check.func.__name__ in OF_WHAT_IS_LEARNT else estimator)
