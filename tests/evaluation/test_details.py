"""Results class by class and query by query, against the chains they sum up."""

from statistics import mean

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.metrics import classification_report, confusion_matrix

from pursuit import ColumnQueries, Stage, VIPClassifier, VIPRegressor
from pursuit.evaluation.counts import count_classes
from pursuit.evaluation.curves import evaluate
from pursuit.evaluation.details import ClassResults


def class_results(names: list[str], y: torch.Tensor, predicted: torch.Tensor, n_asked: torch.Tensor) -> ClassResults:
    counts = count_classes(y, predicted, n_asked.long(), len(names), torch.ones_like(y))
    return ClassResults.of(names, *counts)


@given(st.integers(2, 6), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=1))
def test_they_agree_with_scikit_learn(n_classes: int, rows: list[tuple[int, int, int]]) -> None:
    y, predicted = (np.array([row[i] % n_classes for row in rows]) for i in (0, 1))
    n_asked = np.array([row[2] for row in rows])
    names = [f"class {i}" for i in range(n_classes)]
    found = class_results(names, torch.from_numpy(y), torch.from_numpy(predicted), torch.from_numpy(n_asked))
    labels = list(range(n_classes))
    assert [list(row) for row in found.confusion] == confusion_matrix(y, predicted, labels=labels).tolist()
    wanted = classification_report(y, predicted, labels=labels, target_names=names, output_dict=True, zero_division=0)
    for i, result in enumerate(found.classes):
        report = wanted[result.label]
        assert (result.label, result.n_rows) == (names[i], report["support"])
        assert result.precision == pytest.approx(report["precision"])
        assert result.recall == pytest.approx(report["recall"])
        assert result.f1 == pytest.approx(report["f1-score"])
        asked = n_asked[y == i].mean() if (y == i).any() else None
        assert result.mean_asked == (None if asked is None else pytest.approx(asked))


def test_they_are_those_of_the_predictions_at_the_stop() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = VIPClassifier(stages=[Stage(epochs=5)], stop="confidence=0.8", random_state=0).fit(X, y)
    evaluation = model.evaluate(X, y)
    found = evaluation.by_class
    assert found is not None
    assert found.labels == [0, 1, 2]
    assert found.confusion_frame().to_numpy().tolist() == confusion_matrix(y, model.predict(X)).tolist()
    lengths = np.array([len(chain) for chain in model.explain(X)])
    assert found.frame()["mean_asked"].tolist() == pytest.approx([lengths[y == label].mean() for label in (0, 1, 2)])
    assert evaluation.to_dict()["by_class"]["confusion"] == found.confusion


def test_the_mistakes_made_most_often_come_first() -> None:
    y, predicted = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2]), torch.tensor([1, 1, 0, 0, 1, 2, 0, 0])
    found = class_results(["a", "b", "c"], y, predicted, torch.ones(8))
    assert found.most_confused() == [("a", "b", 2), ("c", "a", 2), ("b", "a", 1)]
    assert found.most_confused(1) == [("a", "b", 2)]
    assert found.confusion_frame().loc["c", "a"] == 2


def patients(n: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    chance = torch.Generator().manual_seed(0)
    fever, cough, age = torch.randint(2, (3, n), generator=chance).bool()
    label = pd.Series(["flu" if f else "cold" if c else "nothing" for f, c in zip(fever, cough, strict=True)])
    X = pd.DataFrame({"fever": fever.tolist(), "cough": cough.tolist(), "age": (age * 40 + 20).tolist()})
    return X.astype(object).mask(torch.rand(n, 3, generator=chance).numpy() < 0.05), label


@pytest.fixture(scope="module", params=["information", "straight-through"])
def model(request: pytest.FixtureRequest) -> VIPClassifier:
    X, y = patients()
    query_set = ColumnQueries.from_data(X, costs={"age": 3})
    return VIPClassifier(query_set, querier=request.param, stages=[Stage(epochs=10)], random_state=0).fit(X, y)


@pytest.mark.parametrize("stop", ["confidence=0.9", "budget=0", "confidence=0.95,cost=1"])
def test_they_are_those_of_the_chains_up_to_the_stop(model: VIPClassifier, stop: str) -> None:
    X, y = patients(40)
    found = model.evaluate(X, y, stop, with_bits=True).questions
    assert found is not None
    chains = model.explain(X, stop)
    for use in found:
        places = [
            [step.name for step in chain.steps].index(use.name) for chain in chains if use.name in str(chain.steps)
        ]
        steps = [step for chain in chains for step in chain.steps if step.name == use.name]
        assert use.share_asked == pytest.approx(len(steps) / 40)
        if not steps:
            assert (use.mean_position, use.mean_bits, use.mean_gained, use.share_answered) == (None,) * 4
            continue
        assert use.mean_position == pytest.approx(1 + mean(places))
        assert use.share_answered == pytest.approx(mean(step.answer is not None for step in steps))
        assert use.mean_bits == pytest.approx(mean(step.bits or 0.0 for step in steps), abs=1e-4)
        assert use.mean_gained == pytest.approx(mean(step.gained for step in steps), abs=1e-4)
    shares = [use.share_asked for use in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(mean(map(len, chains)))


def test_batches_and_other_rules_make_no_difference(model: VIPClassifier) -> None:
    X, y = patients(100)
    rows, rule = model.rows(X, y), model.stopping_rule("confidence=0.9")
    whole = evaluate(model.model_, rows, rule, in_detail=True, with_bits=True)
    options = {"batch_rows": 7, "trade_off": [model.stopping_rule("budget=1")], "in_detail": True, "with_bits": True}
    parts = evaluate(model.model_, rows, rule, **options)
    assert whole.questions is not None
    assert parts.questions is not None
    for one, other in zip(whole.questions.to_list(), parts.questions.to_list(), strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert whole.by_class == parts.by_class


def test_bits_that_must_be_computed_are_so_only_if_asked_for(model: VIPClassifier) -> None:
    X, y = patients(50)
    found = model.evaluate(X, y).questions
    assert found is not None
    asked = [use for use in found if use.share_asked]
    assert all((use.mean_bits is None) == (model.querier == "straight-through") for use in asked)
    assert evaluate(model.model_, model.rows(X, y), model.stopping_rule()).questions is None
    assert evaluate(model.model_, model.rows(X, y), in_detail=True).questions is None  # no rule stops


def test_a_table_has_a_row_a_query(model: VIPClassifier) -> None:
    found = model.evaluate(*patients(50), "budget=2").questions
    assert found is not None
    frame = found.frame()
    assert sorted(frame["name"]) == ["age", "cough", "fever"]
    assert frame["share_asked"].tolist() == [use.share_asked for use in found]
    assert (len(found), found[0].name) == (3, frame["name"][0])


def test_they_are_known_where_a_number_is_predicted() -> None:
    X, y = patients(100)
    numbers = y.map({"flu": 3.0, "cold": 2.0, "nothing": 0.5})
    model = VIPRegressor(stages=[Stage(epochs=5)], random_state=0).fit(X, numbers)
    found = model.evaluate(X, numbers, "budget=2", with_bits=True)
    chains = model.explain(X, "budget=2")
    assert found.questions is not None
    for use in found.questions:
        steps = [step for chain in chains for step in chain.steps if step.name == use.name]
        assert use.share_asked == pytest.approx(len(steps) / 100)
        if steps:
            assert use.mean_gained == pytest.approx(mean(step.gained for step in steps), abs=1e-4)
    assert list(found.to_dict()["questions"]) == found.questions.to_list()
