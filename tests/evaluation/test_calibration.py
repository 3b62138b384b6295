"""How often each confidence is right."""

import pytest
import torch

from pursuit.evaluation.calibration import bin_of, reliability


def test_rows_are_counted_by_their_confidence() -> None:
    confidence = torch.tensor([0.95, 1.0, 0.91, 0.42, 0.48])
    bins = reliability(confidence, torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0]))
    assert [(one.low, one.high, one.n_rows) for one in bins] == [(0.4, 0.5, 2), (0.9, 1.0, 3)]
    assert [one.accuracy for one in bins] == pytest.approx([1 / 2, 2 / 3])
    assert [one.confidence for one in bins] == pytest.approx([0.45, (0.95 + 1 + 0.91) / 3])
    assert all(one.accuracy_interval[0] < one.accuracy < one.accuracy_interval[1] for one in bins)


def test_certainty_is_in_the_last_bin() -> None:
    assert bin_of(torch.tensor([0.0, 0.5, 1.0])).tolist() == [0, 5, 9]
