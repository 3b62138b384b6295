"""Doubts about an answer: it can be read, but is hardly what the person meant."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

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


@dataclass(frozen=True)
class Doubt:
    """Why an answer should be asked for again. Prints as a sentence for the person who gave it."""

    query: str
    text: str
    answer: str
    """The answer as it was understood, with its unit."""
    usual: str
    """The range of the training rows, but for strays, with its unit."""
    suggestions: tuple[str, ...] = ()
    """What may have been meant, as it would be typed: the nearest slip of the decimal point or of the sign."""

    def __str__(self) -> str:
        meant = f" Did you mean {' or '.join(self.suggestions)}?" if self.suggestions else " Is that right?"
        return f"{self.answer} is far outside the usual range of {self.usual}.{meant}"

    def to_dict(self) -> dict[str, Any]:
        """The doubt as JSON values."""
        return {**asdict(self), "suggestions": list(self.suggestions)}


class DoubtfulAnswer(ValueError):
    """An answer was not taken because of a `doubt`; it is if it is given again with `confirmed=True`."""

    def __init__(self, doubt: Doubt):
        super().__init__(f'"{doubt.text}": {doubt} If it is right, give it again with confirmed=True.')
        self.doubt = doubt
