"""Bins of a number: what is in them, and the distribution that a belief over them stands for."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.inference.target_bins import COVERAGE, TargetBins
from pursuit.registry import from_config, to_config

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda number: round(number, 3))
TARGETS = st.lists(NUMBERS, min_size=2, max_size=80).filter(lambda y: len(set(y)) > 1)
BIN_COUNTS = st.integers(2, 20)
SEEDS = st.integers(0, 1000)


def beliefs(bins: TargetBins, seed: int, n: int = 5) -> Tensor:
    """Of all sorts: some of them nearly sure of a bin."""
    logits = torch.randn(n, len(bins), generator=torch.Generator().manual_seed(seed))
    return (logits * torch.tensor([0.0, 0.5, 1.0, 5.0, 50.0])[:n, None]).softmax(dim=1)


@given(y=TARGETS, n_bins=BIN_COUNTS)
def test_every_row_is_in_the_bin_that_spans_it(y: list[float], n_bins: int) -> None:
    bins, numbers = TargetBins.of(np.array(y), n_bins), np.array(y)
    assert 2 <= len(bins) <= min(n_bins, len(set(y)))
    codes, points = bins.codes(numbers), np.array(bins.points)
    assert set(codes) == set(range(len(bins)))
    assert (points[codes, 0] <= numbers).all()
    assert (numbers <= points[codes, -1]).all()
    assert (np.diff(points.ravel()) >= 0).all()
    assert (points[1:, 0] > points[:-1, -1]).all()  # equal numbers are never in two bins
    means = [numbers[codes == i].mean() for i in range(len(bins))]
    np.testing.assert_allclose(bins.means, means, rtol=1e-9, atol=1e-6)
    assert len(set(bins)) == len(bins)


@given(y=TARGETS, n_bins=BIN_COUNTS, seed=SEEDS)
def test_quantiles_rise_and_lie_within_the_rows_as_means_do(y: list[float], n_bins: int, seed: int) -> None:
    bins = TargetBins.of(np.array(y), n_bins)
    belief = beliefs(bins, seed)
    quantiles = bins.quantiles(belief, [0.0, 0.01, 0.05, 0.3, 0.5, 0.9, 0.95, 1.0])
    assert (quantiles.diff(dim=1) >= -1e-6).all()
    slack = 1e-6 * (1 + max(map(abs, y))) + (max(y) - min(y)) / 40  # the ends are told in round numbers
    for numbers in (quantiles, bins.mean(belief)[:, None], bins.interval(belief)):
        assert (numbers >= min(y) - slack).all()
        assert (numbers <= max(y) + slack).all()
    narrow, wide = bins.interval(belief, 0.5), bins.interval(belief, 0.95)
    assert (wide[:, 0] <= narrow[:, 0] + slack).all()
    assert (narrow[:, 1] <= wide[:, 1] + slack).all()


@given(y=TARGETS, n_bins=BIN_COUNTS)
def test_what_the_rows_themselves_say_is_their_mean(y: list[float], n_bins: int) -> None:
    bins, numbers = TargetBins.of(np.array(y), n_bins), np.array(y)
    share = torch.from_numpy(np.bincount(bins.codes(numbers), minlength=len(bins)) / len(y))
    assert float(bins.mean(share[None])) == pytest.approx(numbers.mean(), abs=1e-6 * (1 + np.abs(numbers).max()))
    assert bins.spread == pytest.approx(numbers.std(), abs=1e-6 * (1 + np.abs(numbers).max()))


@given(y=TARGETS, n_bins=BIN_COUNTS, seed=SEEDS)
def test_a_row_of_weight_three_is_a_row_three_times(y: list[float], n_bins: int, seed: int) -> None:
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = TargetBins.of(np.array(y), n_bins, times.astype(float))
    again = TargetBins.of(np.repeat(y, times), n_bins)
    for one, other in zip(weighted.points, again.points, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(weighted.means, again.means, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("distribution", ["normal", "exponential", "uniform", "two values", "whole numbers"])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_the_share_of_frequencies_covers_the_share_of_fresh_rows(distribution: str, coverage: float) -> None:
    """The belief that is right for rows of which nothing is known is that of their frequencies."""
    randomness = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        match distribution:
            case "normal":
                return randomness.normal(100, 15, n)
            case "exponential":
                return randomness.exponential(3, n)
            case "uniform":
                return randomness.random(n)
            case "two values":
                return randomness.choice([1.0, 7.0], n)
        return randomness.poisson(20, n).astype(float)

    y, fresh = draw(20_000), draw(20_000)
    bins = TargetBins.of(y, 16)
    share = torch.from_numpy(np.bincount(bins.codes(y), minlength=len(bins)) / len(y))[None]
    low, high = bins.interval(share, coverage)[0].tolist()
    covered = np.mean((low <= fresh) & (fresh <= high))
    # Where many rows are equal, an interval covers the whole of those at its ends.
    assert covered >= coverage - 0.02
    if distribution in ("normal", "exponential", "uniform"):
        assert covered <= coverage + 0.02
        levels = [0.05, 0.25, 0.5, 0.75, 0.95]
        wanted = np.quantile(y, levels)
        np.testing.assert_allclose(bins.quantiles(share, levels)[0], wanted, atol=0.03 * y.std())


def test_many_equal_numbers_are_a_bin_of_their_own() -> None:
    y = np.concatenate([np.zeros(60), np.linspace(1, 40, 40)])
    bins = TargetBins.of(y, 10)
    assert bins.points[0] == (0.0,) * len(bins.points[0])
    assert 4 <= len(bins) <= 6
    assert bins.codes(np.array([-5.0, 0.0, 100.0])).tolist() == [0, 0, len(bins) - 1]


def test_few_different_numbers_are_a_bin_each() -> None:
    bins = TargetBins.of(np.array([3.0, 1.0, 2.0, 2.0, 5.0]), 16)
    assert bins.means == (1.0, 2.0, 3.0, 5.0)
    assert list(bins) == ["1.0", "2.0", "3.0", "5.0"]
    sure = torch.eye(4)
    assert bins.interval(sure).tolist() == [[value, value] for value in (1.0, 2.0, 3.0, 5.0)]


def test_beliefs_are_said_in_words() -> None:
    bins = TargetBins.of(np.arange(0.0, 301.0), 8)
    assert bins.decimals == 0
    assert bins[0] == "0 to 37"
    share = torch.full((8,), 1 / 8)
    assert bins.belief(share) == "about 150 (90%: 15 to 285)"
    assert TargetBins.of(np.linspace(0, 1, 50), 8).text(0.12345) == "0.12"
    assert TargetBins.of(np.linspace(-1, 1, 50), 8).text(-1e-9) == "0.00"


def test_labels_are_different_however_close_the_bins_are() -> None:
    y = 1e6 + np.linspace(0, 1e-3, 64)
    bins = TargetBins.of(np.concatenate([y, [0.0]]), 8)
    assert len(set(bins)) == len(bins)


def test_it_is_saved_and_read_to_the_last_digit() -> None:
    bins = TargetBins.of(np.random.default_rng(0).normal(size=100), 8)
    assert from_config(to_config(bins)) == bins
    assert list(bins[1:3]) == [bins[1], bins[2]]


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, -0.1])
def test_a_coverage_is_a_share(coverage: float) -> None:
    bins = TargetBins.of(np.arange(10.0), 4)
    with pytest.raises(ValueError, match=r"share between 0 and 1, as 0.9"):
        bins.interval(torch.full((1, 4), 0.25), coverage)
    with pytest.raises(ValueError, match="at least 2 bins"):
        TargetBins.of(np.arange(10.0), 1)
    assert COVERAGE == 0.9


def test_a_row_counts_for_the_bins_beside_its_own() -> None:
    bins = TargetBins.of(np.arange(100.0), 5)
    kernel = bins.kernel(1.0)
    assert kernel is not None
    torch.testing.assert_close(kernel.sum(dim=1), torch.ones(5))
    assert (kernel.argmax(dim=1) == torch.arange(5)).all()
    assert kernel[2, 1] == kernel[2, 3] > kernel[2, 0]
    assert bins.kernel(0.0) is None


def test_single_numbers_have_no_neighbours() -> None:
    assert TargetBins.of(np.array([1.0, 2.0, 3.0]), 8).kernel(1.0) is None
    mixed = TargetBins.of(np.concatenate([np.zeros(50), np.arange(1.0, 51)]), 4)
    kernel = mixed.kernel(1.0)
    assert kernel is not None
    assert kernel[0].tolist() == [1.0] + [0.0] * (len(mixed) - 1)
    assert (kernel[1:, 0] == 0).all()


def test_points_of_bins_are_no_ones_own_number() -> None:
    y = np.exp(np.random.default_rng(0).normal(8, 1, 500))
    bins = TargetBins.of(y, 10)
    assert not {point for own in bins.points for point in own} & {*y.tolist()}
