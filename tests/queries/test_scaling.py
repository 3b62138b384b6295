"""Outliers compressed and expanded again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries import Number
from pursuit.queries.scaling import MOST_DECIMALS, NORMAL_RANGE, compress, decimals_of, expand, uncertainty


@given(z=st.floats(-1e12, 1e12))
def test_what_is_compressed_can_be_expanded_again(z: float) -> None:
    assert expand(float(compress(np.float64(z)))) == pytest.approx(z, rel=1e-9, abs=1e-9)


@given(z=st.floats(-NORMAL_RANGE, NORMAL_RANGE))
def test_usual_numbers_stay(z: float) -> None:
    assert compress(z) == z


def test_outliers_keep_their_order_and_stay_small() -> None:
    z = np.array([-np.inf, -1e30, -4.0, -3.0, 0.0, 3.0, 3.001, 1e6, np.inf])
    compressed = compress(z)
    assert (np.diff(compressed) > -1e-12).all()
    assert np.abs(compressed).max() < 100
    assert compressed[6] - compressed[5] == pytest.approx(0.001, rel=1e-3)  # the scales join smoothly


@given(z=st.floats(-1e9, 1e9), spread=st.floats(1e-3, 1e6))
def test_single_precision_is_as_uncertain_as_that(z: float, spread: float) -> None:
    kept = float(np.float32(compress(z)))
    assert abs(expand(kept) - z) * spread <= uncertainty(kept, spread) * 1.01 + 1e-12 * abs(z) * spread


@pytest.mark.parametrize(
    ("numbers", "decimals"),
    [
        ([1, 2, 30], 0),
        ([1e9, 3e12], 0),
        ([0.5, 2, 3.25], 2),
        ([0.1 + 0.2, 7], 1),
        (np.array([5.08, 0.34], dtype=np.float32).astype(float), 2),
        ([0.0], 0),
        ([*range(20), 0.125], 3),
        ([1 / 3, 1], MOST_DECIMALS),
    ],
)
def test_decimals_are_those_of_all_numbers(numbers: list[float], decimals: int) -> None:
    assert decimals_of(np.array(numbers, dtype=float)) == decimals


def test_what_no_number_can_be_restored_from_stays_a_number() -> None:
    assert np.isfinite(expand(1e38))
    assert np.isfinite(uncertainty(1e30, 1e3))
    assert Number("n", "n?", decimals=1).restored(expand(1e38), uncertainty(1e38, 1e38))
