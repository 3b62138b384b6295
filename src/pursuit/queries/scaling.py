"""Numbers as networks see them: the usual ones as they are, outliers compressed, so that none can drown the rest."""

import math
from typing import Any

import numpy as np

NORMAL_RANGE = 3.0
"""Standardised numbers beyond this are compressed logarithmically."""
TINIEST = 1e-30
"""Spreads are at least this and at most its inverse, so that scaled numbers do not overflow."""
MOST_DECIMALS = 6
"""Of a column whose numbers have more, nobody counts them."""
SINGLE = 1e-7
"""How precise a number in single precision is, as a share of it."""
FIRST_LOOK = 16
"""So many numbers mostly say already that there are many decimals."""
LARGEST = 1e300
"""About as large as numbers are."""
FARTHEST = 600.0
"""Beyond this no number can be restored: it would be larger than numbers are in a computer."""
NOT_GIVEN = -100.0
"""In place of a number that is missing where that is an answer: below every compressed number, which is above -73."""


def compress(z: Any) -> Any:
    """Standardised numbers, those beyond NORMAL_RANGE on a logarithmic scale that joins smoothly."""
    z = np.clip(z, -1 / TINIEST, 1 / TINIEST)
    far = np.maximum(np.abs(z) - NORMAL_RANGE, 0)
    return np.clip(z, -NORMAL_RANGE, NORMAL_RANGE) + np.sign(z) * np.log1p(far)


def expand(z: float) -> float:
    """The inverse of `compress`."""
    far = max(abs(z) - NORMAL_RANGE, 0.0)
    return max(-NORMAL_RANGE, min(NORMAL_RANGE, z)) + math.copysign(math.expm1(min(far, FARTHEST)), z)


def uncertainty(z: float, spread: float) -> float:
    """How far the number that `expand` restores from `z`, which single precision has rounded, may be from the first
    one, where standardised numbers are in units of `spread`."""
    stretched = math.exp(min(max(abs(z) - NORMAL_RANGE, 0.0), FARTHEST))
    return spread * stretched * float(np.spacing(np.float32(abs(z)))) / 2


def decimals_of(numbers: np.ndarray) -> int:
    """How many decimals numbers (N,) have, at most MOST_DECIMALS."""
    for some in (numbers[:FIRST_LOOK], numbers):
        tolerance = 1e-9 + SINGLE * np.abs(some)
        decimals = next(
            (n for n in range(MOST_DECIMALS) if (np.abs(some - some.round(n)) <= tolerance).all()), MOST_DECIMALS
        )
        if decimals == MOST_DECIMALS:
            break
    return decimals


STRAY_SHARE = 0.01
"""The most numbers at either end of a column, as a share, that may be strays."""
FEWEST_ROWS = 30
"""With fewer numbers than that, nobody can say which are strays."""
STRAY_GAP = 4.0
"""A stray is further from the usual numbers than so many times their range."""


def usual_range(numbers: np.ndarray) -> tuple[float, float]:
    """The least and the greatest of the numbers (N,) but for strays at the ends, such as a single 9999 that stands for
    a missing value: it would make anything up to 9999 look usual.

    Quantiles alone would cut real numbers off wherever a column has a long tail. So the outermost numbers are taken
    back in one after the other, as long as there is no gap beyond which they are strays.
    """
    least, greatest = float(numbers.min()), float(numbers.max())
    n_outer = max(int(STRAY_SHARE * len(numbers)), 1)
    if len(numbers) < FEWEST_ROWS:
        return least, greatest
    ordered = np.partition(numbers, [n_outer, len(numbers) - n_outer - 1])
    low, high = float(ordered[n_outer]), float(ordered[-n_outer - 1])
    if low == high:  # there is no range to judge the others by
        return least, greatest
    below, above = np.sort(ordered[:n_outer]).tolist(), np.sort(ordered[-n_outer:])[::-1].tolist()
    while below or above:
        gap_below = low - below[-1] if below else np.inf
        gap_above = above[-1] - high if above else np.inf
        nearest = min(gap_below, gap_above)
        if nearest == np.inf or nearest > STRAY_GAP * (high - low):  # beyond all measure, or far from the rest
            break
        if gap_below <= gap_above:
            low = below.pop()
        else:
            high = above.pop()
    return low, high


N_STEPS = 5
"""How finely ends of ranges are told: in steps of at least this part of the range."""


def rounded_outward(low: float, high: float, n_steps: int = N_STEPS) -> tuple[float, float]:
    """The range with round ends (steps of 1, 2 or 5 times a power of ten): models are shown to strangers and exported,
    and the least and the greatest number are those of two people."""
    share = (high - low) / n_steps
    if not 0 < share < math.inf:
        return low, high
    power = 10.0 ** math.floor(math.log10(share))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= share * (1 - 1e-9))
    # Written and read again, or 3 * 0.1 would end in ...04.
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")


def round_edges(edges: np.ndarray, down: tuple[float, ...] = ()) -> np.ndarray:
    """What divides numbers, ascending (E,), as round numbers (multiples of 1, 2 or 5 times a power of ten), since
    quantiles are numbers of single people. Each is moved up by less than a tenth of the way to its neighbours, so that
    of many equal numbers all stay on the same side; the first one, and those that are to go `down`, are moved down."""
    if len(edges) < 2 or not np.isfinite(edges).all():
        return edges
    gaps = np.diff(edges)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf)) / (2 * N_STEPS)
    with np.errstate(over="ignore"):
        power = 10.0 ** np.floor(np.log10(nearest * (1 + 1e-9)))
    step = power * np.select([nearest >= 5 * power, nearest >= 2 * power], [5.0, 2.0], 1.0)
    whole = edges / step
    goes_down = np.isin(edges, [edges[0], *down])
    close = np.abs(whole - np.rint(whole)) < 1e-3  # which are round already, but for single precision
    moved = np.where(close, np.rint(whole), np.where(goes_down, np.floor(whole), np.ceil(whole))) * step
    return np.array([float(f"{edge:.12g}") for edge in moved])
