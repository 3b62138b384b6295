"""Numbers drawn in and out again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.queries.scaling import NORMAL_RANGE, draw_in, spread_out


@given(z=st.floats(-1e12, 1e12))
def test_what_is_drawn_in_can_be_spread_out_again(z: float) -> None:
    assert spread_out(float(draw_in(np.float64(z)))) == pytest.approx(z, rel=1e-9, abs=1e-9)


@given(z=st.floats(-NORMAL_RANGE, NORMAL_RANGE))
def test_usual_numbers_stay(z: float) -> None:
    assert draw_in(z) == z


def test_far_numbers_keep_their_order_and_stay_small() -> None:
    z = np.array([-np.inf, -1e30, -4.0, -3.0, 0.0, 3.0, 3.001, 1e6, np.inf])
    drawn = draw_in(z)
    assert (np.diff(drawn) > -1e-12).all()
    assert np.abs(drawn).max() < 100
    assert drawn[6] - drawn[5] == pytest.approx(0.001, rel=1e-3)  # it joins smoothly
