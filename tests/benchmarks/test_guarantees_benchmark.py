"""The benchmark of promises, in a small world that is known."""

import numpy as np
import pytest

import guarantees
from guarantees import Ruled, World, page, simulate_risk, simulate_sets, worst_by_length
from pursuit.estimators.risk import HeldOutChains


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Rows that are surer after every question, and as often right as they are sure."""
    monkeypatch.setattr(guarantees, "N_WORLDS", 30)
    randomness = np.random.default_rng(0)
    confidence = 1 - np.outer(randomness.random(600) * 0.5, [1, 0.3, 0.05])
    wrong = randomness.random((600, 1)) < 1 - confidence
    second = 1 - confidence[:, -1]
    posterior = np.column_stack([confidence[:, -1], second])
    chains = HeldOutChains(confidence.astype(np.float32), wrong)
    return World(chains, posterior, wrong[:, -1].astype(int), 100, 1.0)


@pytest.mark.parametrize("by_length", [False, True])
def test_promises_are_kept_and_cost_more_than_hindsight(world: World, by_length: bool) -> None:
    found = simulate_risk(world, 0.1, 300, by_length, np.random.default_rng(1))
    assert found["broken"] <= 0.25
    assert found["asked"] >= found["best"]["asked"]
    assert found["best"]["risk"] <= 0.1
    assert found["naive_broken"] > found["broken"]


def test_the_worst_length_is_found() -> None:
    ruled = Ruled(np.array([0, 0, 1, 3]), np.array([True, False, False, False]), np.array([2, 2, 2, 2]), 2)
    assert worst_by_length(ruled) == 0.5  # of two that are decided at once, one is wrong
    assert ruled.over()["risk"] == pytest.approx(1 / 3)
    assert ruled.over()["decided"] == 0.75


def test_the_page_has_all_of_it(world: World) -> None:
    randomness = np.random.default_rng(2)
    sets = [simulate_sets(world, 0.1, 300, by_class, randomness) for by_class in (False, True)]
    assert sets[0]["coverage"] >= 0.9
    data = {
        "title": "a world",
        "where": {"commit": "abc", "machine": "x86"},
        "trained_on": 100,
        "rows": 600,
        "labels": 2,
        "longest": 2,
        "error_in_the_end": 0.01,
        "risks": [simulate_risk(world, 0.1, 300, False, randomness)],
        "sets": [*sets, {"alpha": 0.1, "by_class": True, "chosen_on": 9, "refused": 30}],
    }
    text = page({"worlds": 30, "data": [data]})
    assert "a world" in text
    assert "commit abc, x86" in text
    assert "refused in 30 of 30" in text
