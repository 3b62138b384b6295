"""How far a measured accuracy may be off: by the test rows that happened to be there, and by the training seeds."""

import math
import statistics
from collections.abc import Sequence

COVERAGE = 0.95


def accuracy_interval(n_right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of an accuracy on `n` rows; unlike the normal one it is right near 0 and 1."""
    from scipy.stats import binomtest  # takes half a second to import

    interval = binomtest(n_right, n).proportion_ci(COVERAGE, method="wilson")
    return float(interval.low), float(interval.high)


def seeds_and_rows_interval(accuracies: Sequence[float], n_rows: int) -> tuple[float, float]:
    """A 95 % interval of the accuracy that another training would have on other rows, on average over trainings.

    `accuracies` are those of several seeds on the same `n_rows` rows. What the rows leave open is Wilson's interval,
    what the seeds leave open is Student's; on each side of the mean their distances are added as their squares
    (MOVER, Zou and Donner 2008). One seed says nothing about others: its interval is that of the rows alone. Where each
    seed has test rows of its own, the seeds' part knows of them too, and the interval is wider than it need be.
    """
    mean = statistics.fmean(accuracies)
    low, high = accuracy_interval(round(mean * n_rows), n_rows)
    n_seeds = len(accuracies)
    if n_seeds == 1:
        return low, high
    from scipy.stats import t

    by_seeds = float(t.ppf((1 + COVERAGE) / 2, n_seeds - 1)) * statistics.stdev(accuracies) / math.sqrt(n_seeds)
    return max(0.0, mean - math.hypot(mean - low, by_seeds)), min(1.0, mean + math.hypot(high - mean, by_seeds))
