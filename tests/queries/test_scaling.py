"""Outliers compressed and expanded again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries.scaling import NORMAL_RANGE, compress, expand


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
