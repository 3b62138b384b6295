"""The rule that stops once the interval of a number is narrow."""

import numpy as np
import pytest
import torch

from pursuit.inference.stopping import IntervalWidth, Standing, parse_stop
from pursuit.inference.target_bins import TargetBins


def test_a_width_stops_where_the_interval_is_narrow() -> None:
    bins = TargetBins.of(np.arange(0.0, 101.0), 4)
    beliefs = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0]])
    nothing = torch.zeros(2)
    standing = Standing(beliefs.log(), nothing, nothing, nothing, target=bins)
    for width, wanted in ((10, [False, False]), (30, [False, True]), (95, [True, True])):
        stops, _ = IntervalWidth(width).step(torch.zeros(2, 0), standing)
        assert stops.tolist() == wanted
    assert IntervalWidth(15, 0.5).step(torch.zeros(2, 0), standing)[0].tolist() == [False, True]
    with pytest.raises(ValueError, match="predict a number, and this one predicts classes"):
        IntervalWidth(5.0).step(torch.zeros(2, 0), standing._replace(target=None))


def test_a_width_is_written_with_its_coverage() -> None:
    assert parse_stop("width=20") == IntervalWidth(20.0, 0.9)
    assert parse_stop("width=20x0.5") == IntervalWidth(20.0, 0.5)
    assert str(IntervalWidth(20.0)) == "width=20.0"
    for wrong in ("width=-1", "width=5x2"):
        with pytest.raises(ValueError, match=r"as in width=20|between 0 and 1"):
            parse_stop(wrong)
