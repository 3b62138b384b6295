"""Platt scaling of many concepts together, and the scores of answers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.research.concepts import Calibration, attribute_accuracy, fit_calibration


def made(n: int, scale: Tensor, offset: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits, and targets that are yes as often as scale * logits + offset says."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, len(scale), generator=generator) - 1
    return logits, (torch.rand(logits.shape, generator=generator) < (logits * scale + offset).sigmoid()).float()


def test_the_true_scale_is_found() -> None:
    scale, offset = torch.tensor([0.5, 1.0, 2.0]), torch.tensor([1.0, 0.0, -2.0])
    found = fit_calibration(*made(20_000, scale, offset))
    assert torch.allclose(found.scale, scale, atol=0.1)
    assert torch.allclose(found.offset, offset, atol=0.15)


def test_shares_calibrate_as_the_answers_they_stand_for_do() -> None:
    scale, offset = torch.tensor([0.5, 2.0]), torch.tensor([1.0, -2.0])
    logits, _ = made(5000, scale, offset)
    found = fit_calibration(logits, (logits * scale + offset).sigmoid())
    assert torch.allclose(found.scale, scale, atol=0.2)
    assert torch.allclose(found.offset, offset, atol=0.2)
    shares = found(logits).sigmoid().numpy()
    assert attribute_accuracy(shares, (logits * scale + offset).sigmoid().numpy()).calibration_error < 0.01


def test_overconfident_answers_become_calibrated_on_others() -> None:
    scale, offset = torch.full((20,), 0.4), torch.linspace(-1, 1, 20)
    calibration = fit_calibration(*made(3000, scale, offset, seed=1))
    logits, targets = made(3000, scale, offset, seed=2)
    before = attribute_accuracy(logits.sigmoid().numpy(), targets.numpy())
    after = attribute_accuracy(calibration(logits).sigmoid().numpy(), targets.numpy())
    assert before.calibration_error > 0.1
    assert after.calibration_error < 0.035
    assert after.accuracy > before.accuracy


def test_rare_concepts_stay_close_to_the_common_calibration() -> None:
    logits, targets = made(2000, torch.full((6,), 0.5), torch.zeros(6))
    targets[:, 0] = 0  # never seen
    targets[:, 1] = (logits[:, 1] == logits[:, 1].max()).float()  # seen once, where it was most expected
    found = fit_calibration(logits, targets)
    assert found.scale.isfinite().all()
    assert found.offset.isfinite().all()
    assert found.scale[:2].max() < 3
    assert found(logits)[:, :2].sigmoid().mean() < 0.02
    free = fit_calibration(logits, targets, shrinkage=1e-6)
    assert free.scale[1] > found.scale[1]
    tied = fit_calibration(logits, targets, shrinkage=1e9)
    assert torch.allclose(tied.scale, tied.scale[:1].expand(6), atol=1e-3)


def test_a_concept_that_is_mostly_answered_wrongly_counts_for_nothing() -> None:
    logits, targets = made(4000, torch.tensor([1.0, 1.0, -1.0]), torch.zeros(3))
    found = fit_calibration(logits, targets)
    assert found.scale[2] == 0
    assert found.scale[:2].min() > 0.8


@given(st.integers(0, 1000), st.floats(0.1, 20))
def test_calibration_lowers_the_loss_and_keeps_the_order(seed: int, factor: float) -> None:
    logits, targets = made(200, torch.ones(3), torch.zeros(3), seed)
    found = fit_calibration(logits * factor, targets, shrinkage=1e-3)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    assert loss(found(logits * factor), targets) <= loss(logits * factor, targets) + 1e-2
    assert (found.scale >= 0).all()


def test_calibration_of_logits_that_are_far_out_is_finite() -> None:
    logits = torch.tensor([[400.0, -400.0], [-400.0, 400.0]]).repeat(50, 1)
    found = fit_calibration(logits, (logits > 0).float())
    assert found(logits).isfinite().all()
    assert ((found(logits) > 0) == (logits > 0)).all()


def test_scores_by_hand() -> None:
    targets = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    probabilities = np.array([[0.9, 0.0, 0.2], [0.1, 0.0, 0.8], [0.1, 0.0, 0.2], [0.7, 0.0, 0.2]])
    scores = attribute_accuracy(probabilities, targets)
    assert scores.accuracy == pytest.approx(10 / 12)
    assert scores.balanced_accuracy == pytest.approx(((1 + 2 / 3) / 2 + (1 / 2 + 1) / 2) / 2)  # the second is never yes
    wrong = [(0.1 + 0.2 + 0.7) / 4, 0.0, (abs(0.6 - 1) + 0.2) / 4]
    assert scores.calibration_error == pytest.approx(np.mean(wrong))


def test_scores_of_the_truth_are_perfect_and_of_its_frequency_calibrated() -> None:
    targets = (np.random.default_rng(0).random((100, 4)) < 0.3).astype(int)
    perfect = attribute_accuracy(targets, targets)
    assert (perfect.accuracy, perfect.balanced_accuracy, perfect.calibration_error) == (1, 1, 0)
    base = attribute_accuracy(np.broadcast_to(targets.mean(axis=0), targets.shape), targets)
    assert base.balanced_accuracy == pytest.approx(0.5)
    assert base.calibration_error == pytest.approx(0, abs=1e-12)
    assert np.isnan(attribute_accuracy(np.zeros((3, 1)), np.zeros((3, 1))).balanced_accuracy)


def test_scores_refuse_other_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(3, 2\) and targets \(3, 1\)"):
        attribute_accuracy(np.zeros((3, 2)), np.zeros((3, 1)))


def test_a_calibration_is_applied_concept_by_concept() -> None:
    calibration = Calibration(torch.tensor([2.0, 1.0]), torch.tensor([0.0, -1.0]))
    assert calibration(torch.tensor([[1.0, 1.0]])).tolist() == [[2.0, 0.0]]
