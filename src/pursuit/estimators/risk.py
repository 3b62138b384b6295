"""What makes guarantees hold, chosen on chains of rows that the model did not learn from.

Learn then test: a threshold is safe if the share of wrong labels among the rows that it decides is at most alpha. Given
how many of n independent rows it decides, the number of wrong ones is binomial, so the exact binomial tail is a p-value
of "not safe". Thresholds are tested in an order that is fixed before the rows are looked at, from the safest to the
boldest, each only as long as those before it were shown to be safe: then no unsafe one is taken, except with
probability delta, however many are tested.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from pursuit.inference.guarantees import NEVER

STARTS = ((1 / 20, 0.45), (1 / 2, 0.45), (2.0, 0.1))
"""Where testing begins, and with which part of delta: at the confidence 1 - alpha / 20, again at 1 - alpha / 2 and at
1 - 2 alpha. The safest thresholds of all decide too few rows to show anything, and where enough are decided differs
from model to model."""
SCOUTS = 0.5
"""Where each number of questions has a threshold of its own, the share of the rows that says which to test."""
EVERY = 4
"""Of the levels, every fourth is tried there: there are many thresholds to choose."""
ROOM = 0.25
"""A threshold is worth testing if its p-value would be this share of delta on test rows like the scouts."""
ROUNDED = 1e-5
"""By what share a probability may differ between one computation of it and another."""


def _grid() -> np.ndarray:
    # Equal steps of log odds: confidences crowd near 1. Rounded as beliefs are, so that files and pages compare alike.
    odds = np.arange(12, -8.001, -0.05)
    return np.append(1 / (1 + np.exp(-odds)), 0.0).astype(np.float32)


LEVELS = _grid()
"""The confidences that may become thresholds, from the safest to the boldest: (G,)."""


@dataclass(frozen=True)
class HeldOutChains:
    """What the model believes of N rows from question to question, for as long as nothing guaranteed stops them."""

    confidence: (
        np.ndarray
    )  # (N, T + 1) float32, how probable the likeliest label is after t questions; -1 beyond the end
    wrong: np.ndarray  # (N, T + 1) bool, whether that label is wrong

    def __len__(self) -> int:
        return len(self.confidence)

    def take(self, rows: np.ndarray | slice) -> "HeldOutChains":
        return HeldOutChains(self.confidence[rows], self.wrong[rows])

    @property
    def lengths(self) -> np.ndarray:
        """After how many questions each chain ends (N,)."""
        return (self.confidence >= 0).sum(axis=1) - 1

    def stops(self, levels: np.ndarray) -> np.ndarray:
        """After how many questions each row is decided if it must be `levels` (T + 1,) sure after each number: (N,). T
        + 1 where it never is."""
        sure = self.confidence >= levels
        return np.where(sure.any(axis=1), sure.argmax(axis=1), self.confidence.shape[1])

    def wrong_at(self, stops: np.ndarray) -> np.ndarray:
        """Whether rows are decided at their stop, and wrongly: (N,)."""
        decided = stops < self.wrong.shape[1]
        place = np.minimum(stops, self.wrong.shape[1] - 1)
        return decided & self.wrong[np.arange(len(self)), place]

    def at_every_level(self) -> tuple[np.ndarray, np.ndarray]:
        """After how many questions each of `LEVELS` decides each row, and whether wrongly: (G, N) each."""
        reached = np.maximum.accumulate(self.confidence, axis=1)  # (N, T + 1), rising
        stops = np.stack([np.searchsorted(row, LEVELS) for row in reached], axis=1) if len(self) else _nothing()
        return stops, np.stack([self.wrong_at(at) for at in stops])


def _nothing() -> np.ndarray:
    return np.zeros((len(LEVELS), 0), dtype=np.int64)


def p_value(n_wrong: np.ndarray, n_decided: np.ndarray, alpha: float) -> np.ndarray:
    """How probable so few wrong ones, or fewer, would be at most if a share above `alpha` were wrong; 1 where nothing
    is decided."""
    n_wrong, n_decided = np.asarray(n_wrong, dtype=float), np.asarray(n_decided).astype(np.int64)
    found = bdtr(np.minimum(n_wrong, n_decided), np.maximum(n_decided, 1), alpha)
    return np.where(n_decided > 0, found, 1.0)


def least_decided(alpha: float, delta: float) -> int:
    """How many rows must be decided, all of them rightly, to show that a share of at most `alpha` is wrong."""
    n = max(1, math.floor(math.log(delta) / math.log1p(-alpha)) - 1)
    while p_value(np.array(0), np.array(n), alpha) > delta:
        n += 1
    return n


def least_rows(alpha: float, delta: float, by_length: bool) -> int:
    """With how many rows a threshold can be shown to be safe at all, if it decides all rows, and rightly."""
    if not by_length:
        return least_decided(alpha, delta * max(part for _, part in STARTS))
    least = least_decided(alpha, delta)
    return next(n for n in range(least, 3 * least + 10) if n - int(n * SCOUTS) >= least)


def choose_level(stops: np.ndarray, wrong: np.ndarray, longest: int, alpha: float, delta: float) -> int | None:
    """The boldest of the levels (G,) that is shown to be safe; None if none is. `stops` and `wrong` (G, N) are what
    levels do to chains of at most `longest` questions.

    A bolder level asks fewer questions, so the boldest asks fewest. Every start has its part of delta, and a level that
    is shown to be safe hands its part on to the next bolder one: the fallback procedure (Wiens and Dmitrienko, 2005),
    which is fixed-sequence testing where there is one start.
    """
    p = p_value(wrong.sum(axis=1), (stops <= longest).sum(axis=1), alpha)
    share = np.zeros(len(LEVELS))
    for start, part in STARTS:
        first = int((max(1 - start * alpha, 0.0) >= LEVELS).argmax())
        share[first] += delta * part
    chosen, handed_on = None, 0.0
    for level in range(len(LEVELS)):
        at = share[level] + handed_on
        handed_on = at if at > 0 and p[level] <= at else 0.0
        chosen = level if handed_on else chosen
    return chosen


def choose_levels(chains: HeldOutChains, alpha: float, delta: float) -> np.ndarray | None:
    """A confidence for every number of questions (T + 1,) such that those decided after t questions or fewer are wrong
    in at most a share `alpha`, for every t; None if nothing can be decided.

    The first half of the rows says, from the first question to the last, how little sure one may be after each. The
    others test it from the last number of questions to the first: with every one that is added, more rows stop earlier,
    until it is not shown any more that all shares are small enough (Ringel et al., 2024, for a share of errors in place
    of an accuracy gap).
    """
    n_scouts = int(len(chains) * SCOUTS)
    scouted, tested = chains.take(slice(n_scouts)), chains.take(slice(n_scouts, None))
    candidate = _candidate_levels(scouted, alpha, delta * ROOM, len(tested) / max(len(scouted), 1))
    chosen = np.full_like(candidate, NEVER)
    stops = np.full(len(tested), len(candidate))  # after how many questions each test row is decided
    for step in np.flatnonzero(candidate <= 1)[::-1]:
        earlier = np.where(tested.confidence[:, step] >= candidate[step], step, stops)
        if not _is_safe_from(int(step), tested, earlier, alpha, delta):
            break
        chosen[step], stops = candidate[step], earlier
    return chosen if (chosen <= 1).any() else None


def _candidate_levels(scouted: HeldOutChains, alpha: float, delta: float, ratio: float) -> np.ndarray:
    """The boldest level after every number of questions with which the p-value would be at most `delta` if there were
    `ratio` times as many rows, given those after fewer questions."""
    levels, tried = np.full(scouted.confidence.shape[1], NEVER, dtype=np.float32), LEVELS[::EVERY]
    going = np.ones(len(scouted), dtype=bool)
    n_before = k_before = 0
    for step in range(len(levels)):
        # The first level that decides each row; bolder ones do so too. (N,)
        first = np.searchsorted(-tried, -scouted.confidence[:, step])
        first[~going] = len(tried)
        n, k = (np.bincount(first, each, len(tried) + 1)[:-1].cumsum() for each in (going, scouted.wrong[:, step]))
        n, k = n_before + n, k_before + k
        passes = (p_value(np.ceil(k * ratio), np.floor(n * ratio), alpha) <= delta) & (n > n_before)
        if passes.any():
            boldest = int(np.flatnonzero(passes)[-1])
            levels[step], n_before, k_before = tried[boldest], n[boldest], k[boldest]
            going &= first > boldest
    return levels


def _is_safe_from(step: int, tested: HeldOutChains, stops: np.ndarray, alpha: float, delta: float) -> bool:
    """Whether it is shown for every number of questions from `step` on that those decided by then are wrong in at most
    a share `alpha`. Each is shown by itself; that all of them hold takes no correction, because all of them must be
    shown. Where no row is decided by then, nothing is shown."""
    n_steps = tested.confidence.shape[1]
    n = np.bincount(stops, minlength=n_steps + 1)[:n_steps].cumsum()
    k = np.bincount(stops, tested.wrong_at(stops), minlength=n_steps + 1)[:n_steps].cumsum()
    return bool((p_value(k[step:], n[step:], alpha) <= delta).all())


def least_conformal_rows(alpha: float) -> int:
    """How many rows it takes at least to find a set of labels that is not all of them: n with (n + 1) alpha >= 1."""
    return math.ceil(1 / alpha - 1 - 1e-9)


def conformal_threshold(right: np.ndarray, alpha: float) -> float:
    """How probable a label must be to remain, from how probable the right labels of n held-out rows were: the
    ceil((n + 1)(1 - alpha))th highest of these, and a little less, because it may be computed otherwise next time."""
    rank = math.ceil((len(right) + 1) * (1 - alpha) - 1e-9)
    if rank > len(right):
        raise ValueError(f"{len(right)} rows are too few for alpha={alpha}: at least {least_conformal_rows(alpha)}.")
    found = np.sort(np.asarray(right, dtype=float))[len(right) - rank]
    return float(np.float32(max(found * (1 - ROUNDED), 0.0)))
