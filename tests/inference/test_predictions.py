"""Predictions as a table."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit import MLP, Stage, VIPClassifier, VIPRegressor
from pursuit.inference.predictions import predict_rows
from pursuit.queries import ColumnQueries, PatchQueries

QUICK: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(10)], "random_state": 0}


def table(n: int) -> tuple[pd.DataFrame, np.ndarray]:
    chance = np.random.default_rng(0)
    X = pd.DataFrame(
        {"n": chance.normal(size=n).round(2), "yes": chance.random(n) < 0.5, "c": chance.choice(["a", "b", "c"], n)}
    )
    X = X.astype(object).mask(chance.random(X.shape) < 0.1)
    return X, np.where(X["c"] == "a", 2, np.where(X["yes"] == True, 1, 0))  # noqa: E712


@pytest.mark.filterwarnings("ignore:The stopping rule budget=0 would stop")
@pytest.mark.parametrize("stop", ["confidence=0.9", "budget=0", "budget=2"])
def test_it_says_what_chains_and_predictions_say(stop: str) -> None:
    X, y = table(200)
    model = VIPClassifier(ColumnQueries.from_data(X), stop=stop, **QUICK).fit(X, y)
    found = model.predict_table(X.set_index(np.arange(200) + 5))
    assert found.index.tolist() == list(range(5, 205))
    assert np.allclose(found[["probability_0", "probability_1", "probability_2"]], model.predict_proba(X))
    assert found["prediction"].tolist() == model.predict(X).tolist()
    longest = max(map(len, model.explain(X)))
    assert ("unusual" in found) == (longest > 0)  # which teachers' rows tell, of answers
    assert len(found.columns) == 5 + (longest > 0) + 2 * longest
    for chain, row in zip(model.explain(X), found.to_dict("records"), strict=True):
        asked = [(row[f"question_{i}"], row[f"answer_{i}"]) for i in range(1, longest + 1)]
        asked = [(q, a if isinstance(a, str) else None) for q, a in asked if isinstance(q, str)]
        assert asked == [(step.name, step.answer) for step in chain.steps]
        assert row["n_asked"] == len(chain)
    pd.testing.assert_frame_equal(model.predict_table(X, "budget=1"), model.predict_table(X, "budget=1"))


def test_queries_that_share_what_answers_are_made_of() -> None:
    images = np.random.default_rng(0).random((20, 1, 4, 4)).astype(np.float32)
    model = VIPClassifier(PatchQueries((1, 4, 4), size=2), stages=[Stage(epochs=1)], random_state=0)
    model.fit(images, np.arange(20) % 2)
    found = model.predict_table(images, "budget=1")
    assert found["answer_1"].tolist() == [chain.steps[0].answer for chain in model.explain(images, "budget=1")]


def test_batches_ask_rows_as_many_questions_as_each_needs() -> None:
    X, y = table(2500)  # more than one batch
    model = VIPClassifier(stop="confidence=0.7", teachers=None, **{**QUICK, "stages": [Stage(0.2)]}).fit(X, y)
    found = predict_rows(model.model_, *model.model_.query_set.answers(X), model.stopping_rule())
    assert (found.query >= 0).sum(dim=1).tolist() == [len(chain) for chain in model.explain(X)]
    assert ((found.query >= 0) | ~found.answered).all()


def test_a_number_has_a_mean_and_an_interval() -> None:
    X, _ = table(200)
    y = X["n"].fillna(0).to_numpy(dtype=float) * 10
    model = VIPRegressor(stages=[Stage(epochs=5)], random_state=0).fit(X, y)
    found = model.predict_table(X)
    assert list(found.columns[:5]) == ["prediction", "low", "high", "unusual", "n_asked"]
    assert np.allclose(found["prediction"], model.predict(X))
    assert np.allclose(found[["low", "high"]], model.predict_interval(X))
