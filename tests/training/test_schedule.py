"""Stages: their schedules, and what cannot be written."""

from dataclasses import replace

import pytest
import torch

from pursuit.training.rows import Shifts
from pursuit.training.samplers import RandomHistories, RolledOutHistories
from pursuit.training.schedule import PAPER_ADAM, SGD, Adam, AdamW, Stage, paper_stage


def test_rates_follow_their_schedules() -> None:
    stage = Stage(10, optimizer=AdamW(lr=1.0), warmup=0.1, tau=(1.0, 0.2), tau_share=0.5)
    lrs = [stage.lr_at(step, 100) for step in range(100)]
    assert lrs.index(max(lrs)) == 10
    assert lrs[0] < 0.1
    assert lrs[-1] < 0.01
    assert [stage.tau_at(step, 100) for step in (0, 25, 50, 99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    wave = replace(stage, period=5, warmup=0.0)
    assert wave.lr_at(50, 100) == pytest.approx(0, abs=1e-9)  # T_max of 5 epochs
    assert wave.lr_at(99, 100) > 0.9  # and up again
    assert replace(stage, schedule="constant").lr_at(99, 100) == 1.0
    exploring = replace(stage, exploration=(0.5, 0.1))
    assert [exploring.exploration_at(step, 100) for step in (0, 50, 100)] == pytest.approx([0.5, 0.3, 0.1])
    assert stage.exploration_at(50, 100) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"tau": (1.0, 0.0)},
        {"average": 1.0},
        {"warmup": 1.0},
        {"tau_share": 0},
        {"tau_share": 1.1},
        {"label_smoothing": 1.0},
        {"label_smoothing": -0.1},
        {"average": -0.1},
        {"tau": (0.0, 1.0)},
        {"exploration": (0.5, 1.1)},
        {"exploration": (-0.1, 0.5)},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|needs|share|probability"):
        Stage(**{"epochs": 1, **wrong})  # type: ignore[arg-type]


def test_paper_stage_has_the_papers_schedules() -> None:
    stage = paper_stage(RandomHistories())
    n_steps = stage.n_steps(60_000)
    assert n_steps == 500 * 60_000 // 128
    epoch = n_steps / 500
    lrs = [stage.lr_at(round(n * epoch), n_steps) for n in (0, 25, 50, 100)]
    assert lrs == pytest.approx([1e-4, 0.5e-4, 0, 1e-4], abs=1e-7)
    assert [stage.tau_at(round(n * epoch), n_steps) for n in (0, 250)] == pytest.approx([1.0, 0.6], abs=1e-3)


def test_paper_stage_takes_the_settings_of_a_task() -> None:
    shifts = Shifts(4, mirror=True)
    stage = paper_stage(
        RolledOutHistories(20), 200, SGD(0.01, 0.9), period=None, batch_size=64, tau_share=0.25, augment=shifts
    )
    assert stage.augment is shifts
    assert stage.n_steps(6400) == 200 * 100
    assert stage.lr_at(10_000, 20_000) == pytest.approx(0.005)  # half way down the one wave
    assert [stage.tau_at(n, 20_000) for n in (0, 2500, 5000, 19_999)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert (stage.average, stage.warmup, stage.label_smoothing) == (0, 0, 0)


def test_optimizers_are_built_with_their_settings() -> None:
    weights = [torch.zeros(2, requires_grad=True)]
    adam = PAPER_ADAM.build(weights)
    assert isinstance(adam, torch.optim.Adam)
    assert (adam.defaults["lr"], adam.defaults["amsgrad"]) == (1e-4, True)
    assert Adam().build(weights).defaults["amsgrad"] is False
    decaying = AdamW(1e-3, 0.05).build(weights)
    assert isinstance(decaying, torch.optim.AdamW)
    assert (decaying.defaults["lr"], decaying.defaults["weight_decay"]) == (1e-3, 0.05)
    descent = SGD(0.01, 0.8).build(weights)
    assert isinstance(descent, torch.optim.SGD)
    assert (descent.defaults["lr"], descent.defaults["momentum"]) == (0.01, 0.8)


def test_a_scaled_stage_is_as_many_times_as_long() -> None:
    stage = Stage(10, RandomHistories(), period=5, phase="joint")
    assert stage.scaled(0.5) == replace(stage, epochs=5, period=2.5)
    assert replace(stage, period=None).scaled(3).period is None


def test_a_stage_has_at_least_one_step() -> None:
    assert Stage(1e-6).n_steps(100) == 1
    assert Stage(0.5, batch_size=10).n_steps(100) == 5
