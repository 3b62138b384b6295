"""Which questions matter: how often, how early and with what gain each one is asked before a stopping rule stops."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pursuit.evaluation.calibration import UNIT
from pursuit.inference.rollout import RolloutStep
from pursuit.queries import QuerySet


@dataclass(frozen=True)
class QuestionUse:
    """What came of one query. Means are over the rows that were asked it, and None if none was."""

    name: str
    text: str
    share_asked: float
    """Of all rows."""
    share_answered: float | None
    """Of the rows that were asked."""
    mean_position: float | None
    """The place in the chain: 1 for what is asked first."""
    mean_bits: float | None
    """What the answer was expected to tell; None also where the pursuer does not know that,
    or was not asked to compute it."""
    mean_gained: float | None
    """What it did tell: the entropy of the belief before it minus that after it."""


@dataclass(frozen=True)
class QuestionUses:
    """The use of every query, those asked of most rows first."""

    uses: tuple[QuestionUse, ...]

    def __len__(self) -> int:
        return len(self.uses)

    def __iter__(self) -> Iterator[QuestionUse]:
        return iter(self.uses)

    def __getitem__(self, place: int) -> QuestionUse:
        return self.uses[place]

    def frame(self) -> pd.DataFrame:
        """A row a query."""
        return pd.DataFrame(self.to_list())

    def to_list(self) -> list[dict[str, Any]]:
        return [asdict(use) for use in self.uses]


class QuestionCounts:
    """Counts what is asked of the rows of one batch, step by step. Each counts as several, by `counts` (B,)."""

    def __init__(self, counts: Tensor, n_queries: int):
        n_rows, device = len(counts), counts.device
        self.counts = counts
        # For each query: rows asked, rows that answered, sums of places, of bits expected and of bits gained (in parts
        # of a bit), and rows of which nobody said how many were expected.
        self.sums = torch.zeros(6, n_queries, dtype=torch.long, device=device)
        self.query = torch.full((n_rows,), -1, device=device)  # asked last, -1 once the rule has stopped
        self.doubt = torch.zeros(n_rows, device=device)  # before that

    def add(self, step: RolloutStep, goes_on: Tensor) -> None:
        """Take in a step of the batch, in which the rows `goes_on` (b,) ask what the step says."""
        rows = step.rows
        doubt = torch.special.entr(step.log_posterior.float().exp()).sum(dim=1) / math.log(2)
        asked, answered, places, bits, gained, unsaid = self.sums
        before = self.query[rows]
        has_asked = before >= 0
        counts = self.counts[rows]
        gained.index_add_(0, before[has_asked], (_exact(self.doubt[rows] - doubt) * counts)[has_asked])
        query, counts = step.query[goes_on], counts[goes_on]
        asked.index_add_(0, query, counts)
        answered.index_add_(0, query, step.answered[goes_on] * counts)
        places.index_add_(0, query, (step.n_asked[goes_on].long() + 1) * counts)
        if step.bits is None:
            unsaid.index_add_(0, query, counts)
        else:
            bits.index_add_(0, query, _exact(step.bits[goes_on]) * counts)
        self.query[rows] = torch.where(goes_on, step.query, -1)
        self.doubt[rows] = doubt


def _exact(bits: Tensor) -> Tensor:
    return (bits.double() * UNIT).round().long()


def question_uses(query_set: QuerySet, sums: Tensor, n_rows: int) -> QuestionUses:
    """What the `sums` (6, Q) of all batches, with `n_rows` rows together, say of every query."""
    knows_bits = not sums[5].any()

    def mean(total: float, n: float) -> float | None:
        return total / n if n else None

    uses = [
        QuestionUse(
            query.name,
            query.text,
            asked / n_rows,
            mean(answered, asked),
            mean(places, asked),
            mean(bits / UNIT, asked) if knows_bits else None,
            mean(gained / UNIT, asked),
        )
        for query, (asked, answered, places, bits, gained, _) in zip(query_set.queries, sums.T.tolist(), strict=True)
    ]
    return QuestionUses(tuple(sorted(uses, key=_by_use)))


def _by_use(use: QuestionUse) -> tuple[float, float]:
    return (-use.share_asked, use.mean_position or math.inf)
