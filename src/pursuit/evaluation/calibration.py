"""How far measured accuracies and stated confidences can be trusted: intervals, Brier scores and reliability."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

COVERAGE = 0.95
"""The confidence level of all intervals."""
N_BINS = 10
"""Bins of confidence, all of the same width."""


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

    @classmethod
    def of(cls, place: int, n_rows: int, total: float, n_right: int) -> "ReliabilityBin":
        """The bin of a number from 0 on: its rows, the sum of their confidences, and how many are right."""
        interval = accuracy_interval(n_right, n_rows)
        return cls(place / N_BINS, (place + 1) / N_BINS, n_rows, total / n_rows, n_right / n_rows, interval)


def bin_of(confidence: Tensor) -> Tensor:
    """The bin (N,) of each confidence (N,)."""
    return (confidence * N_BINS).long().clamp(max=N_BINS - 1)


def brier_scores(log_posterior: Tensor, y: Tensor) -> Tensor:
    """Squared distance of posteriors (B, C) from labels (B,), summed over classes: 0 where a prediction is certain and
    right, 2 where it is certain and wrong."""
    posterior = log_posterior.float().exp()
    return 1 - 2 * posterior.gather(1, y[:, None])[:, 0] + (posterior**2).sum(dim=1)


def accuracy_interval(n_right: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of an accuracy on `n` rows; unlike the normal one it is right near 0 and 1. Both
    numbers may be fractions, where rows count for less than one."""
    z = statistics.NormalDist().inv_cdf((1 + COVERAGE) / 2)  # scipy.stats takes half a second to import
    share, denominator = n_right / n, 2 * (n + z**2)
    centre = (2 * n_right + z**2) / denominator
    reach = z * math.sqrt(4 * n_right * (1 - share) + z**2) / denominator
    return centre - reach if n_right else 0.0, centre + reach if n_right < n else 1.0


def seeds_and_rows_interval(accuracies: Sequence[float], n_rows: int) -> tuple[float, float]:
    """A 95 % interval of the accuracy that another training would have on other rows, on average over trainings.

    `accuracies` are those of several seeds on the same `n_rows` rows. The uncertainty due to the rows is Wilson's
    interval, that due to the seeds is Student's; on each side of the mean their widths are added as squares (MOVER, Zou
    and Donner 2008). With one seed the interval is that of the rows alone. If each seed has test rows of its own, the
    seeds' part includes them too, and the interval is wider than necessary.
    """
    mean = statistics.fmean(accuracies)
    low, high = accuracy_interval(round(mean * n_rows), n_rows)
    n_seeds = len(accuracies)
    if n_seeds == 1:
        return low, high
    from scipy.special import stdtrit

    by_seeds = float(stdtrit(n_seeds - 1, (1 + COVERAGE) / 2)) * statistics.stdev(accuracies) / math.sqrt(n_seeds)
    return max(0.0, mean - math.hypot(mean - low, by_seeds)), min(1.0, mean + math.hypot(high - mean, by_seeds))
