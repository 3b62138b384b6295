"""Weights of rows and classes: a row of weight 2 is a row twice, for every method and in everything that is counted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import pursuit
from pursuit import MLP, CarriedHistories, ColumnQueries, Rows, Stage, VIPClassifier, yes_no
from pursuit.estimators import PursuitClassifier
from pursuit.estimators.validation import weights_of_classes
from pursuit.information import AnswerModel
from pursuit.methods import METHODS, FixedOrder, NaiveBayesIP, TreeClassifier, TreeSettings
from pursuit.methods.decision_tree import choose_pruning
from pursuit.research.experiments.compare import of_classes
from pursuit.training.schedule import AdamW
from small_table import PATIENTS, QUICK, QUICKEST, SYMPTOMS, patients


def noisy_table(n: int = 90, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Answers that tell something of the label, and whole weights from 1 to 3."""
    randomness = np.random.default_rng(seed)
    y = randomness.integers(3, size=n)
    share = np.array([0.2, 0.5, 0.9])
    X = pd.DataFrame({name: randomness.random(n) < share[(y + i) % 3] for i, name in enumerate("abcd")})
    return X, np.array(["cold", "flu", "none"])[y], randomness.integers(1, 4, n)


def repeated(X: pd.DataFrame, y: np.ndarray, times: np.ndarray) -> tuple[pd.DataFrame, np.ndarray]:
    place = np.repeat(np.arange(len(y)), times)
    return X.iloc[place], y[place]


def as_rows(weight: bool) -> Rows:
    X, y, times = noisy_table()
    if not weight:
        X, y = repeated(X, y, times)
    codes = torch.from_numpy(np.unique(y, return_inverse=True)[1])
    weights = torch.from_numpy(times).float() if weight else None
    return Rows(*ColumnQueries.from_data(X).answers(X), codes, weight=weights)


QUERIES = ColumnQueries([yes_no(name) for name in "abcd"])


def test_what_is_counted_is_the_same_for_weights_as_for_repeated_rows() -> None:
    weighted, again = as_rows(True), as_rows(False)
    assert len(weighted) < len(again) == weighted.total_weight
    assert torch.equal(weighted.prior(3), again.prior(3))
    one, other = (AnswerModel.count(QUERIES, 3, rows).table for rows in (weighted, again))
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    for name, tensor in NaiveBayesIP.count(QUERIES, "abc", weighted).state_dict().items():
        assert torch.equal(tensor, NaiveBayesIP.count(QUERIES, "abc", again).state_dict()[name])


@pytest.mark.parametrize("method", ["naive-bayes", "tree"])
def test_what_is_not_trained_predicts_the_same_for_weights_as_for_repeated_rows(method: str) -> None:
    X, y, times = noisy_table()
    settings = {"settings": TreeSettings(pruning=4.0)} if method == "tree" else {}
    weighted = METHODS[method].build(QUERIES, **settings).fit(X, y, times)
    again = METHODS[method].build(QUERIES, **settings).fit(*repeated(X, y, times))
    np.testing.assert_allclose(weighted.predict_proba(X), again.predict_proba(X), atol=1e-6)
    unweighted = METHODS[method].build(QUERIES, **settings).fit(X, y)
    assert np.abs(weighted.predict_proba(X) - unweighted.predict_proba(X)).max() > 0.01


def test_the_pruning_of_a_tree_is_chosen_by_the_weights() -> None:
    """Where the first answer is yes, another one is the label; elsewhere there is nothing to find but chance."""
    randomness = np.random.default_rng(0)
    X = randomness.random((300, 5)).astype(np.float32)
    has_pattern = X[:, 0] > 0.5
    y = np.where(has_pattern, X[:, 1] > 0.5, randomness.random(300) < 0.3).astype(int)
    counts, hardly = np.where(has_pattern, 5.0, 0.2), np.where(has_pattern, 0.001, 1.0)
    assert choose_pruning(X, y, 0, counts) < choose_pruning(X, y, 0, hardly)


BY_TRIAL = ("ram", "ram+", "refuel")
"""They learn as policies do, which takes more rows and passes."""
QUICK_TO_FOLLOW = ("vip", "vip-information", "all-answers")
"""All others learn by the same weighted loss."""


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=() if name in QUICK_TO_FOLLOW else pytest.mark.slow)
        for name in of_classes(METHODS)
        if METHODS[name].accepts("stages")
    ],
)
def test_training_follows_the_weights_as_it_follows_repeated_rows(method: str) -> None:
    """Half of the rows contradict the other half: what is believed is what counts more."""
    n, epochs, lr = (120, 60, 1e-2) if method in BY_TRIAL else (48, 25, 3e-2)
    X = pd.DataFrame({"a": np.arange(n) % 4 < 2, "b": np.arange(n) % 2 == 0})
    counts = np.arange(n) % 8 < 4
    y, weight = np.where(counts, X["a"], ~X["a"]), np.where(counts, 9.0, 1.0)
    plan: dict[str, Any] = {"network": MLP((8,)), "random_state": 0, "stop": "budget=2"}
    plan["stages"] = [Stage(epochs, optimizer=AdamW(lr), batch_size=24)]
    queries = ColumnQueries([yes_no("a"), yes_no("b")])
    build = METHODS[method].build

    def belief(model: PursuitClassifier) -> np.ndarray:
        return model.predict_proba(X[:4])[:, 1]

    weighted = belief(build(queries, **plan).fit(X, y, weight))
    assert weighted[:2].min() > 0.65  # without weights, all are believed by half
    assert weighted[2:].max() < 0.35
    if method == "vip":
        np.testing.assert_allclose(weighted, [0.9, 0.9, 0.1, 0.1], atol=0.15)
        plan["stages"] = [replace(plan["stages"][0], epochs=epochs * len(y) / weight.sum())]  # as many steps
        again = build(queries, **plan).fit(*repeated(X, np.asarray(y), weight.astype(int)))
        np.testing.assert_allclose(weighted, belief(again), atol=0.15)


def test_without_weights_nothing_changes_and_equal_weights_are_no_weights() -> None:
    X, y = patients()
    plan = {"network": MLP((8,)), "stages": [Stage(2, batch_size=32)], "teachers": None, "random_state": 0}
    plain = VIPClassifier(**plan).fit(X, y).predict_proba(X)
    for weight in (1.0, 7.0):
        same = VIPClassifier(**plan).fit(X, y, np.full(len(y), weight)).predict_proba(X)
        np.testing.assert_allclose(plain, same, atol=1e-4)


def test_rows_of_weight_zero_are_as_good_as_not_there() -> None:
    X, y = patients()
    there = np.arange(len(y)) % 3 > 0
    X.loc[~there, "age"] = 1e6  # which must not even stretch the scale of numbers
    plan = {"network": MLP((8,)), "stages": [Stage(1, batch_size=32)], "random_state": 0}
    known = np.zeros(X.shape, dtype=bool)
    known[:, 0] = True
    one = VIPClassifier(**plan).fit(X, y, there.astype(float), initially_known=known)
    other = VIPClassifier(**plan).fit(X[there], y[there], np.ones(there.sum()), initially_known=known[there])
    np.testing.assert_array_equal(one.predict_proba(X[there]), other.predict_proba(X[there]))


@pytest.mark.filterwarnings("ignore:The stopping rule budget=0")
def test_balanced_classes_all_count_the_same() -> None:
    X, _ = patients(200)
    y = np.where(np.arange(200) % 10 == 0, "rare", "common")
    model = VIPClassifier(class_weight="balanced", random_state=0, **QUICKEST, stop="budget=0").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=1e-3)
    named = VIPClassifier(class_weight={"rare": 9.0}, random_state=0, **QUICKEST, stop="budget=0").fit(X, y)
    np.testing.assert_allclose(named.predict_proba(X[:1]), [[0.5, 0.5]], atol=1e-2)
    half = VIPClassifier(class_weight={"rare": 9.0}, random_state=0, **QUICKEST, stop="budget=0")
    half.fit(X, y, np.where(y == "rare", 0.5, 1.0))
    assert half.predict_proba(X[:1])[0, 1] == pytest.approx(0.05 * 9 / (0.05 * 9 + 0.9), abs=0.02)


def test_class_weights_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    y = np.array([3, 3, 3, 3, 5, 8, 8])
    classes, counts = np.unique(y, return_counts=True)
    for given in ("balanced", {3: 2.0, 5: 1.0, 8: 0.5}):
        wanted = compute_class_weight(given, classes=classes, y=y)
        np.testing.assert_allclose(weights_of_classes(given, classes, counts), wanted)


def test_streamed_rows_are_balanced_too() -> None:
    """In training flu is twice as frequent to the model as it is; the prior shows it at once, training in the end."""
    settings: dict[str, Any] = {
        "network": MLP((16,)),
        "stages": [Stage(4, CarriedHistories(4), AdamW(1e-2), batch_size=32)],
    }
    model = VIPClassifier(SYMPTOMS, random_state=0, class_weight={"flu": 4.0}, held_out=0.1, **settings).fit(PATIENTS)
    torch.testing.assert_close(model.model_.log_prior.exp(), torch.tensor([4.0, 1.0, 1.0]) / 6, atol=0.01, rtol=0)
    plain = VIPClassifier(SYMPTOMS, random_state=0, held_out=0.1, **settings).fit(PATIENTS)
    unsure = np.array([[1, 1, 1, 0]])
    assert model.predict_proba(unsure)[0, 0] > plain.predict_proba(unsure)[0, 0] + 0.1
    with pytest.raises(ValueError, match="sample_weight is for rows in memory, and Patients are streamed"):
        VIPClassifier(SYMPTOMS, **QUICKEST).fit(PATIENTS, sample_weight=[1.0])


def test_an_interrupted_training_with_weights_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    X, y, times = noisy_table()

    class Killed(Exception): ...

    def kill(report: Any) -> None:
        if report.step >= report.n_steps // 2:
            raise Killed

    for method in ("vip", "ram"):
        plan = {"stages": [Stage(4, CarriedHistories(3), batch_size=30)], "network": MLP((8,)), "random_state": 0}
        whole = METHODS[method].build(QUERIES, **plan).fit(X, y, times)
        folder = tmp_path / method
        with pytest.raises(Killed):
            METHODS[method].build(QUERIES, **plan).fit(X, y, times, run=pursuit.TrainingRun(folder, on_report=kill))
        resumed = METHODS[method].build(QUERIES, **plan)
        resumed.fit(X, y, times, run=pursuit.TrainingRun(folder, resume=True))
        np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
        with pytest.raises(ValueError, match="other rows"):
            METHODS[method].build(QUERIES, **plan).fit(X, y, run=pursuit.TrainingRun(folder, resume=True))


def test_class_weights_by_number_are_saved_by_number(tmp_path: Path) -> None:
    X, _ = patients()
    y = np.arange(len(X)) % 3
    VIPClassifier(class_weight={0: 2.0, 2: 3.0}, **QUICKEST).fit(X, y).save(tmp_path)
    assert pursuit.load(tmp_path).class_weight == {0: 2.0, 2: 3.0}
    assert json.loads((tmp_path / "model.json").read_text())


@pytest.mark.parametrize(
    ("parameters", "weight", "message"),
    [
        ({"class_weight": "even"}, None, "class_weight is 'balanced' or says by label"),
        ({"class_weight": {"flu": -1.0}}, None, "class_weight of 'flu' must be above 0"),
        ({"class_weight": {"cough": 2.0}}, None, r"class_weight names 'cough', which is not a label .*flu"),
        ({}, np.zeros(120), "at least one non-zero"),
        ({}, -np.ones(120), "[Nn]egative"),
        ({}, np.ones(119), r"shape|inconsistent"),
        ({}, np.full(120, np.nan), "NaN"),
    ],
)
def test_wrong_weights_get_a_sentence(parameters: dict[str, Any], weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VIPClassifier(**parameters, **QUICK).fit(*patients(), weight)


def test_a_method_that_counts_all_rows_the_same_refuses_weights() -> None:
    class Plain(TreeClassifier):
        uses_weights = False

    X, y = patients()
    for parameters, weight in (({}, np.ones(len(y))), ({"class_weight": "balanced"}, None)):
        with pytest.raises(ValueError, match="Plain counts every row the same"):
            Plain(**parameters).fit(X, y, weight)


def test_a_fixed_order_is_ranked_by_what_counts() -> None:
    """In rows that hardly count the label follows b, in the others a."""
    randomness = np.random.default_rng(0)
    X = pd.DataFrame(randomness.random((400, 2)) < 0.5, columns=["a", "b"])
    matters = randomness.random(400) < 0.4
    y = np.where(matters, X["a"], X["b"])
    plan = {"stages": [Stage(5, optimizer=AdamW(1e-2), batch_size=50)], "network": MLP((8,)), "random_state": 0}
    queries = ColumnQueries([yes_no("a"), yes_no("b")])
    orders = []
    for weight in (None, np.where(matters, 5.0, 0.2)):
        model: FixedOrder = METHODS["fixed"].build(queries, **plan).fit(X, y, weight).model_
        orders.append(model.order.tolist())
    assert orders == [[1, 0], [0, 1]]
