"""Beliefs that hold: how much less extreme, or more, they must be than they were learnt.

Networks are surer of themselves than they should be, more so with few rows, and not to the same degree after one answer
as after twenty. Logits are therefore divided by a temperature that depends on how many answers are known, fitted to
rows that were not learnt from, along the chains that these are asked in.
"""

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.rollout import RolloutStep, pursue_in_batches
from pursuit.inference.stopping import Budget, StoppingRule
from pursuit.training.learner import Learner
from pursuit.training.rows import Rows

LONGEST = 100
"""How far chains are rolled out."""
MOST_ROWS, LEAST_ROWS, MOST_BELIEFS = 4000, 500, 10**8
"""Of how many rows at most: so many that all their beliefs have about `MOST_BELIEFS` probabilities."""
RATIO = 1.08
TEMPERATURES = torch.tensor([RATIO**i for i in range(-9, 25)], dtype=torch.double)
"""From 0.5 to 6.3."""
LEVEL_SPREAD, SURER_SPREAD, CHANGE_SPREAD = 0.7, 0.1, 0.25
"""How far log temperatures are expected to be above 0, below it, and from one another where twice as many answers are
known. Rows that ended training flatter it, so that beliefs are only made surer where many rows say so."""
FACTORS = (1.0, 1.06, 1.12, 1.2, 1.3, 1.4, 1.55, 1.7, 1.9, 2.2)
LEVELS, TOLERANCE = (0.8, 0.9, 0.95, 0.99), 0.005
"""Where chains stop at these confidences, beliefs may be surer than right by this much. If they are surer, temperatures
are raised by the first of the factors that mends it."""
DIGITS = 4
"""Temperatures are rounded, so that they are the same wherever they are written."""


def fit_temperature(learner: Learner, rows: Rows, max_queries: int | None = None, by_answers: bool = True) -> Tensor:
    """What to divide logits by (Q + 1,), by the number of known answers, from rows whose labels were not learnt.

    The number of answers is divided into groups of about the same ratio. Each has the temperature at which labels are
    least surprising, but a prior holds it to 1 and to its neighbours, so that few rows change little. Not `by_answers`,
    there is one group.

    Whoever stops once a belief is sure enough picks, of all beliefs, those that are too sure: all temperatures are
    raised until beliefs hold there, too.
    """
    n_queries, some = len(learner.query_set), rows.take(slice(n_judged(learner))).levelled()
    groups = group_of(n_queries) if by_answers else torch.zeros(n_queries + 1, dtype=torch.long)
    losses = _losses(learner, some, groups, max_queries)
    temperature = along_path(best_path(losses, centres(groups)), centres(groups), n_queries)
    return torch.round(temperature * factor_at_stop(learner, some, temperature, max_queries), decimals=DIGITS)


def n_judged(learner: Learner) -> int:
    """How many held-out rows of a learner are enough, or take long enough."""
    affordable = MOST_BELIEFS // (len(learner.classes) * min(len(learner.query_set), LONGEST))
    return min(MOST_ROWS, max(LEAST_ROWS, affordable))


def group_of(n_queries: int) -> Tensor:
    """The group (Q + 1,) of each number of answers: 1, 2, 3, 4 and 5, 6 and 7, 8 to 11, 12 to 15 … Nothing known has
    that of one answer, and is not looked at."""
    n = torch.arange(n_queries + 1).clamp(min=1)
    octave = (n.double() + 0.5).log2().long()
    half = (2 * n >= 3 * 2**octave) & (octave > 0)
    return 2 * octave + half - (octave > 0).long()


def centres(groups: Tensor) -> Tensor:
    """The middle of each group of answers (G,), as the logarithm to base 2."""
    n, own = torch.arange(1, len(groups)).double().log2(), groups[1:]
    return torch.stack([n[own == group].mean() for group in range(int(own.max()) + 1)])


def beliefs(learner: Learner, rows: Rows, max_queries: int | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Along the chains of rows: which rows (b,), how many answers are known (b,), and their logits (b, C)."""
    n_given = rows.start().n_known
    limit = Budget(min(len(learner.query_set), LONGEST, max_queries or LONGEST))
    temperature = getattr(learner, "temperature", torch.ones(len(learner.query_set) + 1))
    for step in judged_steps(learner, rows, limit):
        n_known = step.n_answered + n_given[step.rows]
        yield step.rows, n_known, step.log_posterior.float() * temperature.cpu()[n_known][:, None]


def factor_at_stop(learner: Learner, rows: Rows, temperature: Tensor, max_queries: int | None = None) -> float:
    """By how much to raise temperatures (Q + 1,), so that beliefs are not surer than right where chains stop at a
    confidence."""
    gaps = _gaps_at_stop(learner, rows, temperature, max_queries)
    holds = (gaps / len(rows) <= TOLERANCE).nonzero()
    return FACTORS[int(holds[0, 0]) if len(holds) else -1]


def _gaps_at_stop(learner: Learner, rows: Rows, temperature: Tensor, max_queries: int | None) -> Tensor:
    """Confidence less accuracy with each factor (F,): the mean over levels of the sum over rows, each where it is first
    as sure as that, or where its chain ends."""
    shape = len(FACTORS), len(LEVELS), len(rows)
    gap, has_stopped = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
    levels = torch.tensor(LEVELS)[None, :, None]
    for here, n_known, logits in beliefs(learner, rows, max_queries):
        tempered = [logits / (factor * temperature[n_known])[:, None] for factor in FACTORS]
        confidence = torch.stack([one.softmax(dim=1).max(dim=1).values for one in tempered])[:, None]  # (F, 1, b)
        is_right = rows.take(here).at_label(F.one_hot(logits.argmax(dim=1), logits.shape[1]).float())
        now = (confidence - is_right).expand(-1, len(LEVELS), -1)
        gap[:, :, here] = torch.where(has_stopped[:, :, here] | (n_known == 0), gap[:, :, here], now)
        has_stopped[:, :, here] |= (confidence >= levels) & (n_known > 0)
    weight = torch.ones(len(rows)) if rows.weight is None else rows.weight
    return (gap * weight).sum(dim=2).mean(dim=1).double()


def judged_steps(learner: Learner, rows: Rows, stop: StoppingRule, with_bits: bool = False) -> Iterator[RolloutStep]:
    """How rows are asked by a learner, wherever that computes: steps in the main memory."""
    there = rows.to(learner.log_prior.device)
    with learner.roughly():
        for step in pursue_in_batches(
            learner, there.x, there.available, stop, there.initially_known, with_bits=with_bits
        ):
            yield step.cpu()


def _losses(learner: Learner, rows: Rows, groups: Tensor, max_queries: int | None) -> Tensor:
    """How surprising labels are in each group of answers, at each temperature (G, T): the sum over rows, of which each
    counts as one in a group however many histories it has there."""
    shape = int(groups.max()) + 1, len(rows)
    total, n = torch.zeros(*shape, len(TEMPERATURES), dtype=torch.double), torch.zeros(shape, dtype=torch.double)
    for here, n_known, logits in beliefs(learner, rows, max_queries):
        group, counts = groups[n_known], n_known > 0
        total[group, here] += surprise(logits, rows.take(here)) * counts[:, None]
        n[group, here] += counts
    weight = torch.ones(len(rows)) if rows.weight is None else rows.weight
    return (total / n.clamp(min=1)[:, :, None] * weight[None, :, None]).sum(dim=1)


def surprise(logits: Tensor, rows: Rows) -> Tensor:
    """The negative log probability of the labels of rows at each temperature: (b, T), in nats."""
    logits = logits - logits.max(dim=1, keepdim=True).values
    own = rows.at_label(logits).double()[:, None]
    sums = [(logits / t).exp().sum(dim=1).double() for t in TEMPERATURES.tolist()]
    return torch.stack(sums, dim=1).log() - own / TEMPERATURES


def best_path(losses: Tensor, centre: Tensor) -> Tensor:
    """The log temperature of each group (G,) that makes losses (G, T) least, with the prior, among all paths."""
    log_t = TEMPERATURES.log()
    change = (log_t[:, None] - log_t) ** 2 / (2 * CHANGE_SPREAD**2)  # (T, T)
    spread = torch.where(log_t < 0, SURER_SPREAD, LEVEL_SPREAD)
    losses = losses + log_t**2 / (2 * spread**2 * len(losses))
    best, came_from = losses[0], []
    for group in range(1, len(losses)):
        through = best[None] + change / float(centre[group] - centre[group - 1])
        came_from.append(through.argmin(dim=1))
        best = losses[group] + through.min(dim=1).values
    path = [int(best.argmin())]
    for before in reversed(came_from):
        path.append(int(before[path[-1]]))
    return log_t[torch.tensor(path[::-1])]


def along_path(log_temperature: Tensor, centre: Tensor, n_queries: int) -> Tensor:
    """Temperatures (Q + 1,) for every number of answers: those of groups (G,) at their centres, straight lines between
    them in the logarithms of both."""
    place = torch.arange(n_queries + 1).double().clamp(min=1).log2()
    values = torch.from_numpy(np.interp(place, centre, log_temperature))
    return torch.round(values.exp(), decimals=DIGITS).float()
