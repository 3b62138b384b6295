"""Answers that are unlike any that training saw: how surprising those of a chain were to a pursuer that foresees them.

Each answer is compared with what was foreseen just before it: how surprising it was, less how surprising answers were
expected to be there. Summed up along a chain and divided by the deviation expected of the sum, that is the oddness of
the answers so far. A pursuer that says from what oddness on answers are unusual (`unusual_from`) has seen in held-out
rows how odd answers get at worst along a whole chain, so that looking at every step raises no more alarms.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pursuit.inference.chain import Chain
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer

FALSE_ALARMS = 0.001
"""The share of rows like those of training that are found unusual."""
LEAST_VARIANCE = 1.0
"""Added to the variance of the sum: a single answer that was foreseen with near certainty proves little."""
NEVER = 1e9
"""The limit where nobody can tell what is unusual."""
AT_ONCE = 1024


@dataclass(frozen=True)
class Unusual:
    """Answers unlike those that the model learnt from."""

    name: str
    """Of the query whose answer was the most surprising."""
    text: str
    answer: str

    @property
    def sentence(self) -> str:
        """What to tell people."""
        return (
            "These answers are unusual: the model has hardly seen any like them, so do not rely on its result. "
            f"The least expected was “{self.answer}” to “{self.text}”."
        )

    def to_dict(self) -> dict[str, Any]:
        return {"query": self.name, "text": self.text, "answer": self.answer, "sentence": self.sentence}


def knows_unusual(pursuer: Pursuer) -> bool:
    """Whether a pursuer says which answers are unusual."""
    limits = getattr(pursuer, "unusual_from", None)
    return limits is not None and bool((limits < NEVER).any())


@torch.no_grad()
def oddness(
    pursuer: Pursuer, x: Tensor, initially_known: Tensor | None, query: Tensor, answered: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """After each query of chains (N, T), which is -1 behind their end: how odd the answers so far are, how many are
    known, and how much more surprising than expected this one was. All are 0 where there was no answer."""
    n, longest = query.shape
    odd, n_known, excess = torch.zeros(n, longest), torch.zeros(n, longest, dtype=torch.long), torch.zeros(n, longest)
    foresee: Any = pursuer
    for rows in torch.arange(n).split(AT_ONCE):
        given = None if initially_known is None else initially_known[rows]
        known = History.start(x[rows], len(pursuer.query_set), given).known.clone()
        total, variance = torch.zeros(len(rows)), torch.zeros(len(rows))
        for place in range(longest):
            here = (query[rows, place] >= 0) & answered[rows, place]
            if not here.any():
                continue
            which, column = here.nonzero()[:, 0], query[rows, place][here]
            history = History(x[rows[which]], known[here], known[here])
            surprise, expected, spread = foresee.answer_surprise(history, column).unbind(dim=1)
            total[which] += surprise - expected
            variance[which] += spread
            known[which, column] = True
            excess[rows[which], place] = surprise - expected
            odd[rows[which], place] = total[which] / (variance[which] + LEAST_VARIANCE).sqrt()
            n_known[rows[which], place] = known[which].sum(dim=1)
    return odd, n_known, excess


def unusual_rows(
    pursuer: Pursuer, x: Tensor, initially_known: Tensor | None, query: Tensor, answered: Tensor
) -> tuple[Tensor, Tensor]:
    """Which chains have unusual answers (N,), and the place of the most surprising answer of each (N,)."""
    if not query.shape[1]:
        return torch.zeros(len(query), dtype=torch.bool), torch.zeros(len(query), dtype=torch.long)
    odd, n_known, excess = oddness(pursuer, x, initially_known, query, answered)
    limits: Tensor = pursuer.unusual_from  # type: ignore[attr-defined]
    return ((odd > limits[n_known]) & (n_known > 0)).any(dim=1), excess.argmax(dim=1)


def unusual_of(pursuer: Pursuer, x: Tensor, chain: Chain) -> Unusual | None:
    """What is unusual in a chain on row `x` (*answer_shape); None if nothing is, or nobody knows."""
    if not chain.steps or not knows_unusual(pursuer):
        return None
    query = torch.tensor([[step.query for step in chain.steps]])
    answered = torch.tensor([[step.answer is not None for step in chain.steps]])
    known = torch.zeros(1, len(pursuer.query_set), dtype=torch.bool)
    known[0, [step.query for step in chain.initially_known]] = True
    is_unusual, place = unusual_rows(pursuer, x[None], known, query, answered)
    if not is_unusual:
        return None
    step = chain.steps[int(place)]
    return Unusual(step.name, step.text, step.answer or "")


def alarm_limits(odd: Tensor, n_known: Tensor, groups: Tensor) -> Tensor:
    """Thresholds of oddness (Q + 1,) by the number of known answers, such that a share of `FALSE_ALARMS` of rows like
    these (N, T) is above them at any step. Numbers in the same group (Q + 1,) share a threshold."""
    worst = _worst_by_group(odd, n_known, groups)  # (N, G)
    tails = [_Tail.of(column[torch.isfinite(column)]) for column in worst.T]
    rarity = torch.stack([tail.rarity(column) for tail, column in zip(tails, worst.T, strict=True)], dim=1)  # (N, G)
    rarest = rarity.max(dim=1).values.sort(descending=True).values
    if len(rarest) < LEAST_ROWS:
        return torch.full((len(groups),), NEVER)
    # Several looks at a row make it look rarer than it is: by as much as they do among the rarest of these rows.
    n_top = _n_top(len(rarest))
    limit = float(rarest[n_top]) + math.log(n_top / len(rarest) / FALSE_ALARMS)
    limits = torch.tensor([tail.oddness(limit) for tail in tails])
    return torch.round(limits[groups], decimals=4).clamp(max=NEVER)


LEAST_ROWS = 50
"""With fewer rows nobody can tell what is unusual."""
LEAST_LIMIT = 3.0
"""So many deviations it takes at least: after one answer or two, oddness has few values, and proves little."""
LEAST_TAIL = 0.2
"""A tail falls at least this slowly, however equal the few values that show it are."""


def _n_top(n_rows: int) -> int:
    """How many of the largest values show how a tail goes on."""
    return max(10, n_rows // 100)


def _worst_by_group(odd: Tensor, n_known: Tensor, groups: Tensor) -> Tensor:
    """The greatest oddness of each row in each group of numbers of answers (N, G); minus infinity where it has none."""
    own = torch.where(n_known > 0, groups[n_known], -1)  # (N, T)
    wanted = range(int(groups.max()) + 1)
    return torch.stack([odd.masked_fill(own != group, -torch.inf).amax(dim=1) for group in wanted], dim=1)


class _Tail(NamedTuple):
    """How rare large values are: -log P(value > z) is `rarity_there` at `edge`, and rises from there with z, the more
    slowly the fewer the n values that show it. Sums of few answers have such tails, and not those of a normal curve."""

    edge: float
    rarity_there: float
    mean: float
    """How far values beyond the edge are from it."""
    n: int

    @classmethod
    def of(cls, values: Tensor) -> "_Tail":
        if len(values) < LEAST_ROWS:
            return cls(math.inf, 0.0, 1.0, 1)
        top = values.double().sort(descending=True).values
        n = _n_top(len(top))
        edge = float(top[n])
        return cls(edge, math.log(len(top) / n), max(float((top[:n] - edge).mean()), LEAST_TAIL), n)

    def rarity(self, values: Tensor) -> Tensor:
        beyond = (values.double() - self.edge).clamp(min=0)
        # An exponential tail whose mean is known by n values alone: what is to be expected of the next value.
        further = self.n * torch.log1p(beyond / (self.n * self.mean))
        return torch.where(beyond > 0, self.rarity_there + further, 0.0)

    def oddness(self, rarity: float) -> float:
        further = self.n * self.mean * math.expm1(max(0.0, rarity - self.rarity_there) / self.n)
        return max(LEAST_LIMIT, self.edge + further)
