"""Chains as a table."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from pursuit import MLP, Stage, VIPClassifier, VIPRegressor
from pursuit.estimators import PursuitEstimator
from pursuit.methods import METHODS

COLUMNS = ["a", "b", "c"]
PLAN = {"network": MLP((8,)), "stages": [Stage(2, batch_size=32)], "random_state": 0}


def rows(n: int = 200) -> pd.DataFrame:
    chance = np.random.default_rng(0)
    frame = pd.DataFrame(np.where(chance.random((n, 3)) < 0.5, "yes", "no"), columns=COLUMNS, dtype=object)
    frame["label"] = np.where(frame["a"] == "yes", "ill", "well")
    frame.loc[::7, "a"] = None
    return frame.set_axis(np.arange(n) + 1000, axis=0)


@cache
def trained(name: str) -> PursuitEstimator:
    data = rows()
    if name == "regressor":
        number = (data["a"] == "yes") * 2.0 + np.random.default_rng(1).random(len(data))
        return VIPRegressor(**PLAN).fit(data[COLUMNS], number)
    if name == "vip":
        return VIPClassifier(**PLAN).fit(data[COLUMNS], data["label"])
    settings = {setting: PLAN[setting] for setting in ("network", "stages", "random_state")}
    return METHODS[name].build(**settings).fit(data[COLUMNS], data["label"])


@pytest.mark.parametrize(
    ("name", "stop"),
    [("vip", "confidence=0.8"), ("vip", "budget=0"), ("regressor", "budget=2"), ("fixed", "budget=2")],
)
def test_a_table_has_every_step_of_every_chain(name: str, stop: str) -> None:
    model, X = trained(name), rows()[COLUMNS][:25]
    chains, table = model.explain(X, stop), model.explain_table(X, stop)
    assert len(table) == sum(len(chain) + 1 for chain in chains)
    for (row, of_row), chain in zip(table.groupby(level=0), chains, strict=True):
        assert row == X.index[len(table.loc[:row].index.unique()) - 1]
        assert of_row["step"].tolist() == list(range(len(chain) + 1))
        start, asked = of_row.iloc[0], of_row.iloc[1:]
        assert start[["question", "answer", "expected", "gained"]].isna().all()
        assert asked["question"].tolist() == [step.name for step in chain.steps]
        answers = [None if pd.isna(answer) else answer for answer in asked["answer"]]
        assert answers == [step.answer for step in chain.steps]
        bits = [np.nan if step.bits is None else step.bits for step in chain.steps]
        np.testing.assert_allclose(asked["expected"], bits, rtol=1e-6)
        np.testing.assert_allclose(asked["gained"], [step.gained for step in chain.steps], atol=1e-6)
        beliefs = [chain.prior, *(step.posterior for step in chain.steps)]
        if chain.target is not None:
            means = [float(chain.target.mean(belief[None])) for belief in beliefs]
            np.testing.assert_allclose(of_row["prediction"], means, rtol=1e-6)
            assert (of_row["low"] <= of_row["high"]).all()
            continue
        chances = of_row[["probability_ill", "probability_well"]].to_numpy()
        np.testing.assert_allclose(chances, [belief.tolist() for belief in beliefs], atol=1e-6)
        assert of_row["prediction"].iloc[-1] == chain.prediction
    assert table["expected"].notna().any() == (name != "fixed" and stop != "budget=0")
    assert table["answer"].isna().sum() > len(X) or stop == "budget=0"  # what was asked and could not be answered


def test_rows_without_an_index_are_numbered() -> None:
    model, X = trained("vip"), rows()[COLUMNS][:5]
    table = model.explain_table(X.to_numpy(), "budget=1")
    assert table.index.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
