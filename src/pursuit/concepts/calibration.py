"""Probabilities that mean what they say: Platt scaling of many concepts together, and scores of answers."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

SHRINKAGE = 10.0
"""How strongly a concept's calibration is drawn to the common one: this is added to the curvature of its loss, to which
an unsure image with a logit of one adds a quarter."""
N_BINS = 15
"""Answers are sorted into this many ranges of probability, to compare what each promises with what is true."""


class Calibration(NamedTuple):
    """Calibrated logits are scale * logits + offset, concept by concept."""

    scale: Tensor  # (Q,)
    offset: Tensor  # (Q,)

    def __call__(self, logits: Tensor) -> Tensor:
        return logits * self.scale.to(logits) + self.offset.to(logits)


def fit_calibration(logits: Tensor, targets: Tensor, shrinkage: float = SHRINKAGE) -> Calibration:
    """Platt scaling of each concept, drawn to the scale and offset that suit all concepts together.

    Targets are 0, 1, or any share of yes between them. A concept seen a few times, or never, stays close to the common
    ones; one seen often goes its own way. The targets are softened by one imagined image of yes and one of no (as Platt
    did), so that concepts the network never gets wrong do not become infinitely certain.
    """
    logits, targets = logits.double().cpu(), targets.double().cpu()
    yes = targets.sum(dim=0)
    softened = targets * (yes + 1) / (yes + 2) + (1 - targets) / (len(targets) - yes + 2)
    common = _newton(logits.reshape(-1, 1), softened.reshape(-1, 1), torch.tensor([[1.0, 0.0]]).double(), shrinkage)
    own = _newton(logits, softened, common.expand(logits.shape[1], 2), shrinkage)
    # A network that is wrong about a concept more often than right is not inverted: its answers count for nothing.
    return Calibration(own[:, 0].clamp(min=0).float(), own[:, 1].float())


def _newton(z: Tensor, wanted: Tensor, centre: Tensor, strength: float) -> Tensor:
    """Scale and offset (Q, 2) with the least cross-entropy on logits z (N, Q), kept near `centre` by a quadratic."""

    def loss(found: Tensor) -> Tensor:
        logits = z * found[:, 0] + found[:, 1]
        fit = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(dim=0)
        return fit + strength / 2 * (found - centre).square().sum(dim=1)  # (Q,)

    found, value = centre, loss(centre)
    for _ in range(50):
        p = (z * found[:, 0] + found[:, 1]).sigmoid()
        error, weight = p - wanted, p * (1 - p)
        slope = torch.stack([(error * z).sum(dim=0), error.sum(dim=0)], dim=1) + strength * (found - centre)
        mixed = (weight * z).sum(dim=0)
        curvature = torch.stack(
            [torch.stack([(weight * z * z).sum(dim=0), mixed], 1), torch.stack([mixed, weight.sum(dim=0)], 1)], 1
        )
        step = torch.linalg.solve(curvature + strength * torch.eye(2, dtype=z.dtype), slope)
        for _ in range(20):  # each concept halves its step until its loss falls
            tried = loss(found - step)
            step = torch.where((tried <= value)[:, None], step, step / 2)
            if (tried <= value).all():
                break
        found = torch.where((loss(found - step) <= value)[:, None], found - step, found)
        value = loss(found)
        if step.abs().max() < 1e-8:
            break
    return found


@dataclass(frozen=True)
class ConceptScores:
    """How good answers to concepts are, each number a mean over concepts."""

    accuracy: float
    balanced_accuracy: float
    """Mean of the accuracies on yes and on no; concepts that are always one of them are left out."""
    calibration_error: float
    """How far the probabilities of yes are from the share of yes among images given about the same one."""


def attribute_accuracy(probabilities: np.ndarray, targets: np.ndarray) -> ConceptScores:
    """Scores of probabilities (N, Q) against targets (N, Q) of 0 and 1, or shares of yes, which are yes from 0.5 on."""
    probabilities, targets = np.asarray(probabilities, dtype=float), np.asarray(targets, dtype=float)
    if probabilities.shape != targets.shape or targets.ndim != 2:
        raise ValueError(
            f"Probabilities {probabilities.shape} and targets {targets.shape} must be of one shape (N, Q)."
        )
    yes = targets >= 0.5
    right = (probabilities >= 0.5) == yes
    n_yes, n_no = yes.sum(axis=0), (~yes).sum(axis=0)
    both = (n_yes > 0) & (n_no > 0)
    balanced = (right & yes).sum(axis=0)[both] / n_yes[both] / 2 + (right & ~yes).sum(axis=0)[both] / n_no[both] / 2
    place = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    gaps = [np.abs(((probabilities - targets) * (place == i)).sum(axis=0)) for i in range(N_BINS)]  # each (Q,)
    error = np.sum(gaps, axis=0) / len(yes)
    return ConceptScores(float(right.mean()), float(balanced.mean()) if both.any() else np.nan, float(error.mean()))
