"""What was measured of a model on rows that it was not trained on, as sessions report it."""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from pursuit.sessions.log import GoOn, Reject, SessionLog, Tell

N_PARTS = 10
"""Parts of progress, all of the same width, for each of which the questions still needed are counted."""
FEW_ROWS = 10
"""Least number of rows of one confidence whose accuracy is reported."""
USUAL = 0.1, 0.9
"""The quantiles of the questions still needed between which a session says that their number lies."""


@dataclass(frozen=True)
class SureRows:
    """The measured rows whose prediction has a confidence between `low` and `high`."""

    low: float
    high: float
    n_rows: int
    n_right: int


@dataclass(frozen=True)
class Trust:
    """How often results such as this one were right."""

    n_measured: int
    """Rows that the model was measured on, and not trained on."""
    n_rows: int
    """Those of them whose prediction was about as sure; all of them where a number is predicted."""
    n_right: int
    """Those of these whose prediction was right, or whose number lay in the range that was given."""


@dataclass(frozen=True)
class Experience:
    """Measurements of a model that a session reports."""

    n_rows: int
    """Rows that the model was measured on."""
    sure: tuple[SureRows, ...]
    """These rows by the confidence of the prediction; empty where a number is predicted."""
    in_range: float | None
    """Where a number is predicted: the fraction of rows whose number lies in the range that is 90 % sure."""
    needed: tuple[tuple[int, ...], ...]
    """For each part of progress: how many rows were asked 1, 2, … more questions once they got there."""

    def trust(self, confidence: float | None) -> Trust | None:
        """How often results of this confidence were right; None where that was not measured."""
        if self.in_range is not None:
            return Trust(self.n_rows, self.n_rows, round(self.in_range * self.n_rows))
        if confidence is None or not self.sure:
            return None
        same = next((one for one in reversed(self.sure) if one.low <= confidence + 1e-9), None)
        if same is None or confidence > same.high + 1e-9:
            return Trust(self.n_rows, 0, 0)
        return Trust(self.n_rows, same.n_rows, same.n_right)

    def questions_left(self, log: SessionLog) -> tuple[int, int] | None:
        """Between which numbers the questions still to come usually are; None where that was not measured. An answer
        never raises them."""
        restarts = [i for i, move in enumerate(log.moves) if isinstance(move, Reject | GoOn)]
        first = restarts[-1] + 1 if restarts else 0
        part, n_since, found, in_doubt = -1, 0, None, log.as_now(log.positions[0]).doubt
        for i, position in enumerate(log.positions[first:], start=first):
            move = log.moves[i - 1] if i > first else None
            n_since += isinstance(move, Tell) and not move.volunteered and move.answer is not None
            reached = part_of_progress(progress(in_doubt, position.doubt))
            if reached > part:
                part, n_since = reached, 0
            if (usual := _usual(self.needed[part][n_since:] if self.needed else ())) is not None:
                found = usual if found is None else (min(found[0], usual[0]), min(found[1], usual[1]))
        return found


def progress(first: float, now: float) -> float:
    """What has been learnt, from 0 to 1, where `first` bits were in doubt and `now` bits are."""
    return min(1.0, max(0.0, 1 - now / first)) if first > 0 else 1.0


def part_of_progress(share: float) -> int:
    """The part that a progress from 0 to 1 lies in."""
    return min(int(N_PARTS * share), N_PARTS - 1)


@lru_cache(maxsize=10_000)
def _usual(counts: tuple[int, ...]) -> tuple[int, int] | None:
    """The quantiles of a number from 1 on, given how often each occurred; None where none did."""
    total = sum(counts)
    if not total:
        return None
    below = list(accumulate(counts))
    low, high = (bisect_left(below, share * total) + 1 for share in USUAL)
    return low, high
