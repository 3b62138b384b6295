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
