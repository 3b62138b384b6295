"""Ordered answers, such as numbers, cut into a few pieces by the posteriors that follow them."""

import numpy as np

MOST_CUTS = 2
TINY = 1e-12


def pieces(
    belief: np.ndarray,
    weight: np.ndarray,
    least_gain: float,
    least_weight: float = 0.0,
    may_cut: np.ndarray | bool = True,
) -> list[tuple[int, int]]:
    """The first and the last index (exclusive) of each piece of n ordered answers with posteriors `belief` (n, C) and
    weights (n,).

    Greedy: each cut reduces the weighted entropy of the mean posteriors most, and by more than `least_gain` bits. Every
    piece weighs at least `least_weight`; cuts are allowed behind answers where `may_cut` (n - 1,) is true.
    """
    mass = np.concatenate([np.zeros((1, belief.shape[1])), (weight[:, None] * belief).cumsum(axis=0)])
    reached = np.concatenate([[0.0], weight.cumsum()])
    allowed = np.broadcast_to(may_cut, len(weight) - 1)

    def doubt(first: np.ndarray, end: np.ndarray) -> np.ndarray:
        """The entropy of the mean beliefs of pieces, times their weights, in bits."""
        own, total = mass[end] - mass[first], reached[end] - reached[first]
        return -(own * np.log2(np.clip(own / np.maximum(total, TINY)[:, None], TINY, 1))).sum(axis=1)

    def best_cut(first: int, end: int) -> tuple[float, int]:
        """The gain and the position of the best cut of a piece; a gain of 0 if none is allowed."""
        cuts = np.arange(first + 1, end)
        smaller = np.minimum(reached[cuts] - reached[first], reached[end] - reached[cuts])
        cuts = cuts[(smaller >= least_weight) & allowed[cuts - 1]]
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
