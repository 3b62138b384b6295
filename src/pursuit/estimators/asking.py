"""Which of two queriers asks better, judged by rows that neither learnt from."""

import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.estimators.reasons import Reason
from pursuit.inference.stopping import Budget, Confidence
from pursuit.training import Learner
from pursuit.training.calibration import TEMPERATURES, judged_steps, surprise
from pursuit.vip import VIP, TwoQueriers

MOST_ROWS, LONGEST = 1000, 30
SURE = 0.99
LEVEL = 0.02
"""Queriers are level where their log losses differ by no more than this, in nats, or than a standard error."""


def better_querier(model: TwoQueriers, rows: Rows, max_queries: int | None = None) -> tuple[VIP, Reason]:
    """The model by the querier after whose questions labels are less surprising, and why. Where the two are level,
    information asks, because it explains itself in bits."""
    some = rows.take(slice(MOST_ROWS))
    models = {name: model.asking(name) for name in ("information", "straight-through")}
    losses = {name: chain_losses(asking, some, max_queries) for name, asking in models.items()}
    gain = losses["information"] - losses["straight-through"]
    level = max(LEVEL, float(gain.std()) / len(gain) ** 0.5)
    best = "straight-through" if gain.mean() > level else "information"
    other = next(name for name in models if name != best)
    why = f"log loss {losses[best].mean():.3f} along chains not learnt from, {losses[other].mean():.3f} by {other}"
    return models[best], Reason("querier", best, why)


def chain_losses(learner: Learner, rows: Rows, max_queries: int | None = None) -> Tensor:
    """How surprising the label of each row is along its chain, the mean over 1 to T questions, in nats: (N,). A row
    that is sure, or has nothing left to ask, keeps its last belief."""
    longest = min(len(learner.query_set), LONGEST, max_queries or LONGEST)
    loss = torch.zeros(len(rows), longest + 1, len(TEMPERATURES), dtype=torch.double)
    for step in judged_steps(learner, rows, Confidence(SURE) | Budget(longest)):
        now = surprise(step.log_posterior.float(), rows.take(step.rows))
        later = torch.arange(longest + 1) >= step.n_asked[:, None]
        loss[step.rows] = torch.where(later[:, :, None], now[:, None], loss[step.rows])
    losses = loss[:, 1:].mean(dim=1)
    return losses[:, int(losses.mean(dim=0).argmin())]
