"""Answers in order, such as numbers, in a few pieces: cut where the beliefs after them differ most."""

from typing import Any

import numpy as np

MOST_CUTS = 2
TINY = 1e-12


def pieces(
    belief: np.ndarray, weight: np.ndarray, least_gain: float, least_weight: float = 0.0, may_cut: Any = True
) -> list[tuple[int, int]]:
    """Pieces of n answers in order, each from its first to before its end, by the `belief` (n, C) after every answer
    and its `weight` (n,).

    Cuts leave the least doubt in the mean beliefs on both sides, each at least `least_gain` bits less than before,
    summed by weight. A piece has at least a weight, and `may_cut` (n - 1,) says behind which answers cuts may be.
    """
    mass = np.concatenate([np.zeros((1, belief.shape[1])), (weight[:, None] * belief).cumsum(axis=0)])
    reached = np.concatenate([[0.0], weight.cumsum()])
    may_cut = np.broadcast_to(may_cut, len(weight) - 1)

    def doubt(first: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The entropy of the mean beliefs of pieces, times their weights, in bits."""
        own, total = mass[end] - mass[first], reached[end] - reached[first]
        return -(own * np.log2(np.clip(own / np.maximum(total, TINY)[:, None], TINY, 1))).sum(axis=1)

    def best_cut(first: int, end: int) -> tuple[float, int]:
        """How much a cut within a piece gains, and where; 0 if there is none."""
        cuts = np.arange(first + 1, end)
        smaller = np.minimum(reached[cuts] - reached[first], reached[end] - reached[cuts])
        cuts = cuts[(smaller >= least_weight) & may_cut[cuts - 1]]
        if not len(cuts):
            return 0.0, first
        starts, ends = np.full_like(cuts, first), np.full_like(cuts, end)
        gains = doubt(starts, ends) - doubt(starts, cuts) - doubt(cuts, ends)
        return float(gains.max()), int(cuts[gains.argmax()])

    found = [(0, len(weight))]
    for _ in range(MOST_CUTS):
        (gain, cut), place = max(((best_cut(*piece), i) for i, piece in enumerate(found)), key=lambda best: best[0][0])
        if gain <= least_gain:
            break
        first, end = found[place]
        found[place : place + 1] = [(first, cut), (cut, end)]
    return found
