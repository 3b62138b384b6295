"""Are promises kept in worlds whose truth is known? P-values are checked exactly, choices by simulation with
margins."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pursuit.estimators.guarantees import (
    LEVELS,
    STARTS,
    HeldOutChains,
    choose_level,
    choose_levels,
    conformal_threshold,
    least_conformal_rows,
    least_decided,
    least_rows,
    p_value,
)
from pursuit.inference.stopping import NEVER

N_WORLDS = 100
SLOW = pytest.mark.slow


def chains(confidence: Any, wrong: Any) -> HeldOutChains:
    return HeldOutChains(np.asarray(confidence, dtype=np.float32), np.asarray(wrong, dtype=bool))


def chosen(held_out: HeldOutChains, alpha: float, delta: float = 0.1) -> int | None:
    return choose_level(*held_out.at_every_level(), held_out.confidence.shape[1] - 1, alpha, delta)


def margin(n: int, share: float) -> float:
    """Three standard deviations of a share of n."""
    return 3 * math.sqrt(share * (1 - share) / n)


@pytest.mark.parametrize("n", [1, 7, 45, 200])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("more", [1.0, 1.2, 2.0])
def test_p_values_are_no_smaller_than_they_may_be(n: int, alpha: float, more: float) -> None:
    rate, k = min(1.0, more * alpha), np.arange(n + 1)
    p, probability = p_value(k, np.full(n + 1, n), alpha), binom.pmf(k, n, rate)
    for delta in (0.01, 0.05, 0.1, 0.5):
        assert probability[p <= delta].sum() <= delta + 1e-12


def test_p_values_are_binomial_tails_and_nothing_is_shown_by_nothing() -> None:
    assert p_value(np.array([0, 3, 9]), np.array([45, 50, 9]), 0.05) == pytest.approx(
        [0.95**45, binom.cdf(3, 50, 0.05), 1.0]
    )
    assert p_value(np.array(0), np.array(0), 0.05) == 1.0


@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
def test_so_few_rows_and_no_fewer_can_show_something(alpha: float, delta: float) -> None:
    n = least_decided(alpha, delta)
    assert (1 - alpha) ** n <= delta * (1 + 1e-9)
    assert n == 1 or (1 - alpha) ** (n - 1) > delta
    enough = least_rows(alpha, delta, by_length=False)
    sure = np.full((enough, 1), 1 - alpha / 50)
    assert chosen(chains(sure, np.zeros((enough, 1))), alpha, delta) is not None
    assert chosen(chains(sure[1:], np.zeros((enough - 1, 1))), alpha, delta) is None


def world(rates: dict[float, float], n: int, randomness: np.random.Generator) -> HeldOutChains:
    """Rows that are sure to one of these degrees, at once, and wrong as often as it says, whatever was asked."""
    kinds = randomness.integers(len(rates), size=n)
    sure, wrong = np.array(list(rates)), np.array(list(rates.values()))
    return chains(sure[kinds][:, None], (randomness.random(n) < wrong[kinds])[:, None])


def risk_of(rates: dict[float, float], level: float) -> float:
    decided = [rate for sure, rate in rates.items() if np.float32(sure) >= level]
    return sum(decided) / len(decided) if decided else 0.0


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param({0.9: 0.101}, id="just unsafe"),
        pytest.param({0.999: 0.101, 0.97: 0.101, 0.93: 0.101, 0.6: 0.101}, id="unsafe at all levels"),
        pytest.param({0.999: 0.02, 0.97: 0.08, 0.9: 0.15, 0.6: 0.4}, id="the less sure, the worse", marks=SLOW),
        pytest.param({0.999: 0.3, 0.97: 0.0, 0.9: 0.0, 0.6: 0.12}, id="the surest are the worst", marks=SLOW),
        pytest.param({0.999: 0.0, 0.97: 0.25, 0.9: 0.0, 0.6: 0.2}, id="up and down", marks=SLOW),
    ],
)
@pytest.mark.parametrize("n", [pytest.param(70, marks=SLOW), 200])
def test_the_promise_is_kept_in_known_worlds(rates: dict[float, float], n: int) -> None:
    randomness, alpha, delta = np.random.default_rng(0), 0.1, 0.1
    broken = 0
    for _ in range(N_WORLDS):
        level = chosen(world(rates, n, randomness), alpha, delta)
        broken += level is not None and risk_of(rates, LEVELS[level]) > alpha
    assert broken / N_WORLDS <= delta + margin(N_WORLDS, delta)


def test_what_is_safe_by_far_is_found() -> None:
    randomness = np.random.default_rng(1)
    rates = {0.999: 0.0, 0.97: 0.01, 0.9: 0.02, 0.6: 0.4}
    levels = [chosen(world(rates, 600, randomness), 0.05) for _ in range(50)]
    assert all(level is not None for level in levels)
    found = [float(LEVELS[level]) for level in levels if level is not None]
    assert np.mean([0.6 < level <= 0.9 for level in found]) > 0.9  # as bold as it may be, and no bolder


@given(seed=st.integers(0, 10_000), n_more=st.integers(1, 10))
def test_more_errors_never_make_it_bolder(seed: int, n_more: int) -> None:
    randomness = np.random.default_rng(seed)
    held_out = world({0.999: 0.0, 0.97: 0.02, 0.9: 0.05, 0.6: 0.3}, 200, randomness)
    worse = held_out.wrong.copy()
    worse[randomness.integers(200, size=n_more)] = True
    before, after = chosen(held_out, 0.1), chosen(chains(held_out.confidence, worse), 0.1)
    assert after is None or (before is not None and after <= before)


def test_ties_go_together_and_the_order_of_rows_does_not_matter() -> None:
    sure = np.array([[0.97]] * 200 + [[0.8]] * 100)
    wrong = np.zeros((300, 1), dtype=bool)
    wrong[-30:] = True
    level = chosen(chains(sure, wrong), 0.05)
    assert level is not None
    assert 0.8 < LEVELS[level] <= 0.97  # those of 0.8 are decided all together or not at all
    order = np.random.default_rng(0).permutation(300)
    assert chosen(chains(sure[order], wrong[order]), 0.05) == level


def test_chains_stop_where_they_are_sure_first() -> None:
    held_out = chains([[0.5, 0.9, 0.7, 0.99], [0.4, 0.6, -1, -1]], [[1, 0, 1, 0], [1, 1, 1, 1]])
    assert held_out.lengths.tolist() == [3, 1]
    stops, wrong = held_out.at_every_level()
    for level, at, is_wrong in zip(LEVELS, stops, wrong, strict=True):
        each = held_out.stops(np.full(4, level))
        assert at.tolist() == each.tolist()
        assert is_wrong.tolist() == held_out.wrong_at(each).tolist()
    assert held_out.stops(np.array([NEVER, 0.95, 0.6, 0.6], dtype=np.float32)).tolist() == [2, 4]
    assert held_out.wrong_at(np.array([2, 4])).tolist() == [True, False]  # what is not decided is not decided wrongly


def test_nothing_is_decided_where_everything_is_wrong() -> None:
    held_out = chains(np.full((500, 3), 0.99), np.ones((500, 3)))
    assert chosen(held_out, 0.2) is None
    assert choose_levels(held_out, 0.2, 0.1) is None


def stepwise(n: int, randomness: np.random.Generator) -> HeldOutChains:
    """Two questions: before them half of the rows are sure, and wrong in 30 %; after one the others are, in 4 %; and
    after two all are right."""
    early = randomness.random(n) < 0.5
    confidence = np.where(early[:, None], [0.95, 0.95, 0.995], [0.5, 0.9, 0.99])
    draws = randomness.random(n)[:, None]
    return chains(confidence, draws < np.where(early[:, None], [0.3, 0.3, 0.0], [0.5, 0.04, 0.0]))


def worst_of(levels: np.ndarray | None) -> float:
    """The largest share of wrong labels among those decided by any number of questions, in the world of `stepwise`."""
    if levels is None:
        return 0.0
    everything = stepwise(200_000, np.random.default_rng(7))
    stops = everything.stops(levels)
    wrong = everything.wrong_at(stops)
    return max((float(wrong[stops <= t].mean()) for t in range(3) if (stops <= t).any()), default=0.0)


def test_those_decided_early_are_not_worse_where_that_is_promised() -> None:
    randomness, alpha, delta, n_worlds = np.random.default_rng(0), 0.1, 0.1, 100
    found = [choose_levels(stepwise(400, randomness), alpha, delta) for _ in range(n_worlds)]
    distinct = {None if levels is None else levels.tobytes(): levels for levels in found}
    worst = {key: worst_of(levels) for key, levels in distinct.items()}
    broken = [worst[None if levels is None else levels.tobytes()] > alpha for levels in found]
    assert np.mean(broken) <= delta + margin(n_worlds, delta)
    assert np.mean([levels is not None for levels in found]) > 0.9
    assert all(levels[0] > 0.95 for levels in found if levels is not None)  # the early ones are asked on


def test_one_threshold_for_all_lengths_may_hide_bad_early_decisions() -> None:
    """Why there is another promise: a share over all rows can be small while that of the first ones is not."""
    randomness = np.random.default_rng(0)
    early = randomness.random(2000) < 0.1
    confidence = np.where(early[:, None], [0.97, 0.97], [0.5, 0.97])
    wrong = randomness.random((2000, 1)) < np.where(early[:, None], [0.3, 0.3], [0.5, 0.01])
    held_out = chains(confidence, wrong)
    level = chosen(held_out, 0.1)
    assert level is not None
    assert LEVELS[level] <= 0.97
    levels = choose_levels(held_out, 0.1, 0.1)
    assert levels is not None
    assert levels[0] > 0.97 >= levels[1]


def test_a_length_at_which_no_tested_row_is_decided_is_not_shown_to_be_safe() -> None:
    """The first half of the rows proposes to decide some before any question; in the other half there are none of
    these, so that nothing is known of how often that is wrong."""
    n = 200
    early, late = np.full((n, 2), 0.99), np.tile([0.5, 0.99], (n, 1))
    wrong = np.zeros((4 * n, 2))
    wrong[n:, 0] = 1
    held_out = chains(np.concatenate([early, late, late, late]), wrong)
    levels = choose_levels(held_out, 0.1, 0.1)
    assert levels is not None
    assert levels[0] == NEVER
    assert levels[1] <= 0.99


@given(
    values=st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5001, 0.9, 1.0]), min_size=3, max_size=40),
    alpha=st.sampled_from([0.05, 0.1, 0.2, 1 / 3, 0.5]),
)
def test_sets_have_the_right_label_as_often_as_promised_whatever_the_beliefs(values: list[float], alpha: float) -> None:
    """Each of n + 1 rows in turn is the new one, and all turns are equally probable: that is exchangeability,
    exactly."""
    if len(values) - 1 < least_conformal_rows(alpha):
        with pytest.raises(ValueError, match="too few"):
            conformal_threshold(np.array(values[1:]), alpha)
        return
    right = np.array(values)
    among = [right[i] >= conformal_threshold(np.delete(right, i), alpha) for i in range(len(right))]
    assert np.mean(among) >= 1 - alpha - 1e-9


@pytest.mark.parametrize(("alpha", "least"), [(0.1, 9), (0.05, 19), (0.2, 4), (0.5, 1), (0.01, 99), (1 / 3, 2)])
def test_how_many_rows_sets_take(alpha: float, least: int) -> None:
    assert least_conformal_rows(alpha) == least
    conformal_threshold(np.linspace(0, 1, least), alpha)
    with pytest.raises(ValueError, match=f"at least {least}"):
        conformal_threshold(np.linspace(0, 1, least)[1:], alpha)


def test_a_threshold_is_that_of_split_conformal_prediction() -> None:
    right = np.random.default_rng(0).random(101)
    rank = math.ceil(102 * 0.9)
    assert conformal_threshold(right, 0.1) == pytest.approx(1 - np.sort(1 - right)[rank - 1], rel=2e-5)


def test_testing_begins_where_enough_can_be_decided() -> None:
    assert sum(part for _, part in STARTS) == pytest.approx(1)  # no more than delta is spent
    assert np.all(np.diff(LEVELS) < 0)
    assert LEVELS[-1] == 0
