"""How many more questions rows are asked, by how much has been learnt of them so far."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pursuit.evaluation.rollouts import Trace, placed, row_batches
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import RolloutStep
from pursuit.inference.stopping import StoppingRule
from pursuit.sessions.experience import N_PARTS
from pursuit.training.rows import Rows

MOST_ROWS = 2000
"""Number of rows that are asked; quantiles need no more."""
FEW_ROWS = 10
"""A part of progress that fewer rows stop at is counted together with the one before it."""


@dataclass(frozen=True)
class _DoubtTrace(Trace):
    doubt: Tensor  # (T, N), the entropy of the posterior in nats

    @staticmethod
    def describe(step: RolloutStep, y: Tensor) -> tuple[Tensor, ...]:
        return (_doubt(step.log_posterior),)


def _doubt(log_posterior: Tensor) -> Tensor:
    return torch.special.entr(log_posterior.double().exp()).sum(dim=1).float()


@torch.no_grad()
def questions_needed(
    pursuer: Pursuer, rows: Rows, stop: StoppingRule, device: str = "cpu"
) -> tuple[tuple[int, ...], ...]:
    """For each part of progress: how many rows were asked 1, 2, … more questions once they got there.

    Progress is the highest so far, so that it never falls along a chain.
    """
    some = rows.take(torch.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows))).long())
    with placed(pursuer, device) as place:
        x = pursuer.query_set.blank().to(place)
        nothing = torch.zeros(1, len(pursuer.query_set), dtype=torch.bool, device=place)
        first = _doubt(pursuer.log_posterior(History(x, nothing, nothing))).cpu()
        traces = [_DoubtTrace.of(pursuer, batch, stop).cpu() for batch in row_batches(pursuer, some, place)]
    chains = _DoubtTrace.joined(traces)
    share = (1 - chains.doubt / first.clamp(min=1e-9)).clamp(0, 1)
    part = (N_PARTS * share).long().clamp(max=N_PARTS - 1).cummax(dim=0).values  # (T, N)
    left = chains.n_asked[-1:] - chains.n_asked  # (T, N)
    is_new = torch.cat([torch.ones_like(part[:1], dtype=torch.bool), part[1:] > part[:-1]]) & (left > 0)
    most = int(left.max())
    counts = [torch.bincount(left[is_new & (part == i)] - 1, minlength=most).tolist() for i in range(N_PARTS)]
    return tuple(_with_those_before(counts, i) for i in range(N_PARTS))


def _with_those_before(counts: list[list[int]], part: int) -> tuple[int, ...]:
    """The counts of a part, together with those of as many parts before it as make them enough."""
    total = list(counts[part])
    for before in reversed(counts[:part]):
        if sum(total) >= FEW_ROWS:
            break
        total = [own + other for own, other in zip(total, before, strict=True)]
    while total and total[-1] == 0:
        total.pop()
    return tuple(total)
