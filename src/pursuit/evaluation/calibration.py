"""How far a pursuer can be trusted: how often it is right where it is so and so sure."""

from dataclasses import dataclass

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


def reliability(confidence: Tensor, right: Tensor) -> tuple[ReliabilityBin, ...]:
    """The bins that have rows, from confidences (N,) and whether each prediction is right (N,)."""
    bins, confidence, right = bin_of(confidence.double()), confidence.double(), right.double()
    found = []
    for place in bins.unique().tolist():
        own = bins == place
        n_rows, n_right = int(own.sum()), int(right[own].sum())
        found.append(
            ReliabilityBin(
                place / N_BINS,
                (place + 1) / N_BINS,
                n_rows,
                float(confidence[own].mean()),
                n_right / n_rows,
                accuracy_interval(n_right, n_rows),
            )
        )
    return tuple(found)
