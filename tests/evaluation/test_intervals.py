"""Intervals of accuracies: what the rows leave open, what the seeds do, and both together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.evaluation.intervals import accuracy_interval, seeds_and_rows_interval


@pytest.mark.parametrize(
    ("n_right", "n", "low", "high"),
    [
        (50, 100, 0.40383, 0.59617),
        (9, 10, 0.59585, 0.98212),
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (850, 1000, 0.82654, 0.87080),
    ],
)
def test_intervals_are_those_of_wilson(n_right: int, n: int, low: float, high: float) -> None:
    assert accuracy_interval(n_right, n) == pytest.approx((low, high), abs=1e-4)


@given(share=st.floats(0, 1), n=st.integers(1, 10**6))
def test_intervals_lie_around_the_accuracy(share: float, n: int) -> None:
    n_right = round(share * n)
    low, high = accuracy_interval(n_right, n)
    assert 0 <= low <= n_right / n + 1e-12
    assert n_right / n - 1e-12 <= high <= 1
    assert high - low <= 2 * 1.96 * 0.5 / n**0.5


def test_one_seed_has_the_interval_of_its_rows() -> None:
    assert seeds_and_rows_interval([0.85], 1000) == accuracy_interval(850, 1000)


def test_seeds_that_agree_leave_open_what_the_rows_do() -> None:
    assert seeds_and_rows_interval([0.7, 0.7, 0.7], 100) == pytest.approx(accuracy_interval(70, 100))


def test_with_rows_without_end_only_seeds_are_left() -> None:
    low, high = seeds_and_rows_interval([0.7, 0.8, 0.9], 10**9)
    # Student's t with two degrees of freedom is 4.3027; the standard error is 0.1 / sqrt(3).
    assert (low, high) == pytest.approx((0.8 - 0.24841, 1.0), abs=1e-4)
    low, high = seeds_and_rows_interval([0.5, 0.6, 0.7], 10**9)
    assert (low, high) == pytest.approx((0.6 - 0.24841, 0.6 + 0.24841), abs=1e-4)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.integers(20, 500))
def test_it_holds_what_either_part_holds(accuracies: list[float], n_rows: int) -> None:
    low, high = seeds_and_rows_interval(accuracies, n_rows)
    mean = sum(accuracies) / len(accuracies)
    by_rows = accuracy_interval(round(mean * n_rows), n_rows)
    assert 0 <= low <= by_rows[0] + 1e-9
    assert by_rows[1] - 1e-9 <= high <= 1


@pytest.mark.parametrize(("n_rows", "between_seeds"), [(104, 0.03), (142, 0.0), (2000, 0.02)])
def test_it_covers_what_it_says(n_rows: int, between_seeds: float) -> None:
    """Trainings differ by a number of their own, rows by how hard they are; all seeds have the same rows."""
    randomness, truth, n_times, n_seeds = np.random.default_rng(0), 0.75, 1500, 5
    covered = 0
    for _ in range(n_times):
        is_hard = randomness.random(n_rows) < 0.5
        of_seeds = randomness.normal(0, between_seeds, (n_seeds, 1))
        chance = np.where(is_hard, truth - 0.2, truth + 0.2) + of_seeds
        accuracies = (randomness.random((n_seeds, n_rows)) < chance).mean(axis=1).tolist()
        low, high = seeds_and_rows_interval(accuracies, n_rows)
        covered += low <= truth <= high
    assert covered / n_times >= 0.94
