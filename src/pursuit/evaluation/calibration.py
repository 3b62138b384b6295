"""How far a pursuer can be trusted: how often it is right where it is so and so sure."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pursuit.evaluation.intervals import accuracy_interval

N_BINS = 10
"""Of confidence, all of the same width."""


@dataclass(frozen=True)
class ReliabilityBin:
    """The rows whose prediction has a confidence between `low` and `high`."""

    low: float
    high: float
    n_rows: int
    confidence: float
    """Their mean confidence."""
    accuracy: float
    """The share of them that are right."""
    accuracy_interval: tuple[float, float]
    """Where that share lies on fresh rows, with 95 % confidence (Wilson)."""


def bin_of(confidence: Tensor) -> Tensor:
    """The bin (N,) of each confidence (N,)."""
    return (confidence * N_BINS).long().clamp(max=N_BINS - 1)


def brier_scores(log_posterior: Tensor, y: Tensor) -> Tensor:
    """How far beliefs (B, C) are from labels (B,): the squares of all differences, 0 where a belief is certain and
    right, 2 where it is certain and wrong."""
    posterior = log_posterior.float().exp()
    return 1 - 2 * posterior.gather(1, y[:, None])[:, 0] + (posterior**2).sum(dim=1)


def calibration_error(n_rows: Tensor, confidence: Tensor, right: Tensor) -> Tensor:
    """The mean gap between confidence and accuracy over bins (..., N_BINS), weighted by their rows, from their sums."""
    return (confidence - right).abs().sum(dim=-1) / n_rows.sum(dim=-1).clamp(min=1)


UNIT = 2**30
"""What is summed is counted in parts this small, as whole numbers: sums do not depend on their order then, and those of
parts of the rows add up to those of all, bit for bit."""


class StepSums:
    """How sure and how right beliefs are after each number of queries. A row that is asked nothing more keeps its last
    belief."""

    def __init__(self, n_steps: int):
        # By step and bin: rows, sum of confidences and rows that are right, as changes from the step before
        self.changes = torch.zeros(n_steps, N_BINS, 3, dtype=torch.long)
        self.brier_changes = torch.zeros(n_steps, dtype=torch.long)

    def __add__(self, other: "StepSums") -> "StepSums":
        both = StepSums(len(self.changes))
        both.changes = self.changes + other.changes
        both.brier_changes = self.brier_changes + other.brier_changes
        return both

    @property
    def by_step(self) -> Tensor:
        """Rows, sum of confidences and rows that are right by step and bin: (n, N_BINS, 3)."""
        sums = self.changes.cumsum(dim=0).double()
        sums[:, :, 1] /= UNIT
        return sums

    @property
    def n_rows(self) -> Tensor:
        return self.by_step[:, :, 0].sum(dim=1)

    @property
    def confidence(self) -> list[float]:
        """The mean after each number of queries."""
        return (self.by_step[:, :, 1].sum(dim=1) / self.n_rows).tolist()

    @property
    def calibration_error(self) -> list[float]:
        return calibration_error(*self.by_step.unbind(dim=2)).tolist()

    @property
    def brier(self) -> list[float]:
        return (self.brier_changes.cumsum(dim=0).double() / UNIT / self.n_rows).tolist()


class StepBeliefs:
    """Takes down the beliefs of B rows step by step, for `StepSums`. Each counts as several, by `counts` (B,)."""

    def __init__(self, n_steps: int, counts: Tensor):
        n_rows, device = len(counts), counts.device
        self.counts, self.n_steps = counts, n_steps
        self._sums = torch.zeros(n_steps, N_BINS, 3, dtype=torch.long, device=device)
        self._brier = torch.zeros(n_steps, dtype=torch.long, device=device)
        self._last = torch.zeros(n_rows, 4, dtype=torch.long, device=device)  # bin, confidence, right, Brier score
        self._has_last = torch.zeros(n_rows, dtype=torch.long, device=device)

    def add(self, n_asked: int, rows: Tensor, confidence: Tensor, right: Tensor, brier: Tensor) -> None:
        """The beliefs of `rows` (b,) after `n_asked` queries."""
        if n_asked >= self.n_steps:
            return
        exact = ((value.double() * UNIT).round().long() for value in (confidence, brier))
        sure, off = exact
        now = torch.stack([bin_of(confidence.double()), sure, right.long(), off], dim=1)
        before, counted, counts = self._last[rows], self._has_last[rows], self.counts[rows]
        for state, sign, n in ((before, -1, counted), (now, 1, torch.ones_like(counted))):
            change = sign * torch.stack([n, state[:, 1], state[:, 2]], dim=1) * counts[:, None]
            self._sums[n_asked].index_add_(0, state[:, 0], change)
        self._brier[n_asked] += ((now[:, 3] - before[:, 3]) * counts).sum()
        self._last[rows], self._has_last[rows] = now, torch.ones_like(counted)

    def sums(self) -> StepSums:
        found = StepSums(self.n_steps)
        found.changes, found.brier_changes = self._sums.cpu(), self._brier.cpu()
        return found


def reliability(bins: Tensor) -> tuple[ReliabilityBin, ...]:
    """The bins that have rows, from the rows, sums of confidences and rows that are right of all: (N_BINS, 3)."""
    return tuple(
        ReliabilityBin(
            place / N_BINS,
            (place + 1) / N_BINS,
            n_rows,
            confidence / UNIT / n_rows,
            n_right / n_rows,
            accuracy_interval(n_right, n_rows),
        )
        for place, (n_rows, confidence, n_right) in enumerate(bins.tolist())
        if n_rows
    )
