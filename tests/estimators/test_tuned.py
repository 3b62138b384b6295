"""Factors on what is planned for training."""

from typing import Any

import numpy as np
import pytest

from pursuit import MLP, CarriedHistories, RandomHistories, Stage, VIPClassifier
from pursuit.estimators.tuned import OneOf, Span, Tuned
from pursuit.networks.conv import Conv
from pursuit.training.schedule import Adam, AdamW

STAGE = Stage(4, CarriedHistories(5, random_share=0.2), AdamW(1e-3, 0.02), period=2)


def test_factors_change_stages_and_networks() -> None:
    tuned = Tuned(lr=2.0, weight_decay=0.5, effort=3.0, random_share=2.0, width=0.5, dropout=2.0)
    changed = Stage(12, CarriedHistories(5, random_share=0.4), AdamW(2e-3, 0.01), period=6)
    assert tuned.stages([STAGE, STAGE]) == [changed, changed]
    assert tuned.network(MLP((8, 4), 0.3)) == MLP((4, 2), 0.6)
    assert tuned.network(Conv(hidden=64, dropout=0.1)) == Conv(hidden=32, dropout=0.2)
    assert str(tuned) == "lr × 2, weight_decay × 0.5, effort × 3, random_share × 2, width × 0.5, dropout × 2"


def test_ones_change_nothing_whatever_there_is() -> None:
    stage = Stage(2, RandomHistories(), Adam())
    assert Tuned().stages([stage]) == [stage]
    assert Tuned().network(MLP((8,))) == MLP((8,))
    assert str(Tuned()) == "as planned"


def test_shares_stay_shares() -> None:
    assert Tuned(dropout=4.0).network(MLP((8,), 0.5)) == MLP((8,), 0.8)
    (stage,) = Tuned(random_share=10.0).stages([STAGE])
    assert stage.histories == CarriedHistories(5, random_share=0.95)


def test_what_is_not_there_cannot_be_tuned() -> None:
    with pytest.raises(ValueError, match="Adam has no weight_decay, so weight_decay cannot be tuned"):
        Tuned(weight_decay=2.0).stages([Stage(1, optimizer=Adam())])
    with pytest.raises(ValueError, match="RandomHistories has no random_share"):
        Tuned(random_share=2.0).stages([Stage(1, RandomHistories())])


@pytest.mark.parametrize("wrong", [{"lr": 0.0}, {"width": -1.0}, {"effort": float("nan")}, {"dropout": float("inf")}])
def test_factors_are_positive_numbers(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is a factor"):
        Tuned(**wrong)


def test_ranges_have_something_to_choose_from() -> None:
    with pytest.raises(ValueError, match="above 0 to a greater one"):
        Span(0, 1)
    with pytest.raises(ValueError, match="nothing to choose from"):
        OneOf((1,))


def test_an_estimator_trains_as_tuned() -> None:
    X = np.random.default_rng(0).integers(0, 2, (60, 4))
    plan: dict[str, Any] = {"network": MLP((8,), 0.2), "stages": [Stage(2, batch_size=16)], "random_state": 0}
    tuned = VIPClassifier(**plan, tuned=Tuned(width=2.0, effort=2.0, dropout=0.0)).fit(X, X[:, 0])
    same = VIPClassifier(**{**plan, "network": MLP((16,)), "stages": [Stage(4, batch_size=16)]}).fit(X, X[:, 0])
    assert tuned.predict_proba(X).tolist() == same.predict_proba(X).tolist()
    assert "tuned: effort × 2, width × 2, dropout × 0 (given)" in map(str, tuned.chosen_)
    with pytest.raises(TypeError, match="tuned is Tuned"):
        VIPClassifier(tuned={"lr": 2}).fit(X, X[:, 0])  # type: ignore[arg-type]
