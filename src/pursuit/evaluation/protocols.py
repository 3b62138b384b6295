"""How a task stops and counts, where that decides its figures: the confidence is chosen on rows held out from training,
such that the mean number of queries is as wanted, and test rows are measured with it once.

A `Protocol` says how chains are cut and counted. All protocols of a task look at the same chains, which go on only as
long as one of them needs.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pursuit.evaluation.rollouts import ClassTrace, placed, row_batches
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.stopping import Standing, StoppingRule
from pursuit.training.rows import Rows

HIGHEST = 0.9999
"""Without a cap, held-out rows are asked until this confidence: no higher level is chosen."""


@dataclass(frozen=True)
class Protocol:
    """How chains that stop at a confidence are cut and counted."""

    name: str
    cap: int | None = None
    """The most queries that are counted; None asks everything if it must."""
    counts_unseen: bool = False
    """Whether the prediction is made before the last query counted is answered, as in code that records a belief and
    then reveals the answer: with n counted, n - 1 answers are known."""

    @property
    def most_known(self) -> int | None:
        """The most queries whose answers a prediction may use."""
        return None if self.cap is None else self.cap - self.counts_unseen


@dataclass(frozen=True)
class AtProtocol:
    """What a protocol gives with the confidence that was chosen for it."""

    name: str
    level: float
    """The confidence at which chains stop, chosen on held-out rows."""
    wanted: float
    """The mean number of queries it was chosen for."""
    mean_held_out: float
    """The mean number counted on the held-out rows: as near to that as a level comes."""
    n_held_out: int
    mean_counted: float
    """On the rows that were measured."""
    accuracy: float
    cut_short: float
    """Share of the rows that the cap stopped, or the end of the queries, instead of the confidence."""


@dataclass(frozen=True)
class _Chains:
    """What N chains predict after 0, 1, 2 … queries; beyond the end of a chain, what it predicts there."""

    reached: Tensor  # (T, N) the highest confidence so far
    right: Tensor  # (T, N) bool, whether the prediction is right
    ends: Tensor  # (N,) after how many queries a chain ends

    def lengths(self, protocol: Protocol, level: float) -> Tensor:
        """How many queries are asked (N,) before the prediction."""
        return (self.reached[: protocol.most_known] < level).sum(dim=0).minimum(self.ends)

    def mean_counted(self, protocol: Protocol, level: float) -> float:
        return float(self.lengths(protocol, level).double().mean()) + protocol.counts_unseen


@torch.no_grad()
def measure_protocols(
    pursuer: Pursuer, held_out: Rows, rows: Rows, protocols: Sequence[Protocol], wanted: float, device: str = "cpu"
) -> list[AtProtocol]:
    """What each protocol gives on `rows`, at the confidence by which it counts `wanted` queries on `held_out`."""
    if not len(rows) or not len(held_out):
        raise ValueError("Protocols need rows to choose the confidence on, and others to measure on.")
    highest = HIGHEST if any(protocol.cap is None for protocol in protocols) else 0.0
    at_least = max((protocol.cap or 0 for protocol in protocols), default=0)
    with placed(pursuer, device) as place:
        seen = _roll_out(pursuer, held_out, highest, at_least, place)
        levels = {protocol: _level(seen, protocol, wanted) for protocol in protocols}
        highest = max((level for protocol, level in levels.items() if protocol.cap is None), default=0.0)
        found = _roll_out(pursuer, rows, highest, at_least, place)
    return [_at_level(protocol, level, wanted, seen, found) for protocol, level in levels.items()]


def _level(seen: _Chains, protocol: Protocol, wanted: float) -> float:
    """The confidence whose mean number of queries is nearest to the one wanted; that number grows with it.

    It lies half-way between two confidences that occur, so that no row stops or goes on by a rounding.
    """
    limit = HIGHEST if protocol.cap is None else 1.0
    occurring = seen.reached[: protocol.most_known].unique().double()
    bounds = torch.cat([torch.zeros(1), occurring[occurring < limit], torch.tensor([limit])])
    levels = ((bounds[:-1] + bounds[1:]) / 2).tolist()
    above = bisect_left(levels, wanted, key=lambda level: seen.mean_counted(protocol, level))
    nearest = levels[max(above - 1, 0) : above + 1]
    return min(nearest, key=lambda level: abs(seen.mean_counted(protocol, level) - wanted))


def _at_level(protocol: Protocol, level: float, wanted: float, seen: _Chains, found: _Chains) -> AtProtocol:
    lengths = found.lengths(protocol, level)
    right = found.right.gather(0, lengths[None])
    is_cut = found.reached.gather(0, lengths[None]) < level
    return AtProtocol(
        name=protocol.name,
        level=level,
        wanted=wanted,
        mean_held_out=seen.mean_counted(protocol, level),
        n_held_out=len(seen.ends),
        mean_counted=found.mean_counted(protocol, level),
        accuracy=float(right.double().mean()),
        cut_short=float(is_cut.double().mean()),
    )


def _roll_out(pursuer: Pursuer, rows: Rows, highest: float, at_least: int, place: torch.device) -> _Chains:
    """The chains of all rows, which go on to `at_least` queries and then to the confidence `highest`."""
    until = _Until(highest, at_least)
    parts = [ClassTrace.of(pursuer, batch, until).cpu() for batch in row_batches(pursuer, rows, place)]
    whole = ClassTrace.joined(parts)
    return _Chains(whole.confidence.cummax(dim=0).values, whole.right, whole.n_asked[-1].long())


class _Until(StoppingRule):
    """Asks at least `n` queries, and then goes on until the confidence is `level`."""

    def __init__(self, level: float, n: int):
        self.level, self.n = level, n

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        is_sure = standing.log_posterior.max(dim=1).values.exp() >= self.level
        return is_sure & (standing.n_asked >= self.n), memory
