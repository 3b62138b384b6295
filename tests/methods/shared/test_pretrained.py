"""Training plans of methods whose classifier learns alone first."""

import pytest

from pursuit.methods.shared.pretrained import chains_of, pretrained_plan
from pursuit.training.samplers import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.training.schedule import Stage


def test_a_plan_of_several_stages_is_cut_where_pretraining_ends() -> None:
    stages = [Stage(2, batch_size=4), Stage(4, batch_size=8), Stage(4, batch_size=16)]
    plan = pretrained_plan(stages, 0.4, None, tau=(0.9, 0.3))
    assert [(stage.batch_size, stage.epochs) for stage in plan] == [(4, 2), (8, 2), (8, 2), (16, 4)]
    assert [isinstance(stage.histories, RandomHistories) for stage in plan] == [True, True, False, False]
    assert [stage.phase for stage in plan] == ["pretraining"] * 2 + ["joint"] * 2
    assert [stage.tau for stage in plan[2:]] == [pytest.approx((0.9, 0.7)), pytest.approx((0.7, 0.3))]
    assert [stage.tau_share for stage in plan[2:]] == [1.0, 1.0]
    assert {stage.exploration for stage in plan} == {(0.0, 0.0)}


def test_exploration_falls_as_tau_does() -> None:
    plan = pretrained_plan([Stage(2), Stage(4), Stage(4)], 0.4, 3, exploration=(0.9, 0.3))
    assert [stage.exploration for stage in plan[2:]] == [pytest.approx((0.9, 0.7)), pytest.approx((0.7, 0.3))]
    assert {(stage.tau, stage.tau_share) for stage in plan} == {(Stage(1).tau, Stage(1).tau_share)}
    assert plan[0].histories == RandomHistories(3)


def test_chains_are_as_long_as_the_histories_of_the_stage() -> None:
    assert chains_of(Stage(1, CarriedHistories(7, 0.5))) == CarriedHistories(7, 0.5)
    assert chains_of(Stage(1, RolledOutHistories(7))) == CarriedHistories(7)
    assert chains_of(Stage(1, RandomHistories(0))) == CarriedHistories(1)
    assert chains_of(Stage(1, RandomHistories())) == CarriedHistories()
