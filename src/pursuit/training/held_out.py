"""Early stopping: how well held-out rows are predicted on the way, and the weights that were best there."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Budget
from pursuit.training.averaging import WeightAverage
from pursuit.training.devices import own_randomness
from pursuit.training.learner import Learner
from pursuit.training.schedule import Stage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

HELD_OUT_SEED, HELD_OUT_MOST = 20230, 512
"""Held-out rows are looked at often: what is drawn for them is seeded, and no more rows than this are used."""
TEMPERATURES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 1.9, 2.3, 3.0)
"""Logits are divided by one of these."""


@dataclass(frozen=True)
class EarlyStopping:
    """End a stage once labels of held-out rows were not predicted better for `patience` looks; keep the best weights.

    They are judged by the cross-entropy along the chains of each row, at the temperature that makes it least: weights
    that rank labels better are not passed over because they are overconfident, which the temperature mends.
    """

    rows: Rows
    patience: int = 12
    every: int = 4
    """Of so many reports, one has a look at the rows."""


class Kept(NamedTuple):
    """The weights that a stage ended with."""

    share: float
    """Of its steps, after which they were best on held-out rows; 1 without such rows."""
    temperature: float
    """That makes their beliefs fit held-out rows; 1 without such rows."""


class HeldOut:
    """How a stage does on held-out rows, and its best weights so far."""

    def __init__(self, fabric: "Fabric", settings: EarlyStopping, mean: Callable[[Tensor], Tensor]):
        some = torch.arange(fabric.global_rank, min(len(settings.rows), HELD_OUT_MOST), fabric.world_size)
        self.fabric, self.rows, self.settings = fabric, settings.rows.take(some).to(fabric.device), settings
        self._mean = mean
        self.start()

    def start(self) -> None:
        """Forget the stage before."""
        self.best: list[Tensor] = []
        self.best_loss, self.best_step, self.temperature = math.inf, 0, 1.0
        self.looks_since_best, self.n_reports, self.last_loss = 0, 0, math.inf

    @property
    def has_stopped(self) -> bool:
        return self.looks_since_best >= self.settings.patience

    @torch.no_grad()
    def look(self, model: Learner, stage: Stage, average: WeightAverage, step: int) -> float:
        """The loss with the weights that the stage would end with now, after `step` steps; every few reports that of
        the last look."""
        self.n_reports += 1
        if (self.n_reports - 1) % self.settings.every:
            return self.last_loss
        with average.applied():
            model.eval()
            losses = self._losses(model, stage)
            self.last_loss, best = losses.min(dim=0)[0].item(), int(losses.argmin())
            if self.last_loss < self.best_loss:
                self.best_loss, self.best_step, self.temperature = self.last_loss, step, TEMPERATURES[best]
                self.best, self.looks_since_best = average.copy(), 0
            else:
                self.looks_since_best += 1
        return self.last_loss

    def _losses(self, model: Learner, stage: Stage) -> Tensor:
        """The cross-entropy of labels at each temperature, a mean over rows and over what they were asked so far."""
        limit = min(len(model.query_set), stage.histories.max_queries or len(model.query_set))
        total = torch.zeros(len(TEMPERATURES) + 1, device=self.rows.y.device)
        weight = self.rows.weight if self.rows.weight is not None else torch.ones_like(self.rows.y, dtype=torch.float)
        rows = self.rows
        # A learner that draws noise draws the same every time, and none of what training will draw.
        with own_randomness(HELD_OUT_SEED, self.fabric.device), self.fabric.autocast(), model.roughly():
            for step in pursue_in_batches(model, rows.x, rows.available, Budget(limit), rows.initially_known):
                asked = step.n_asked > 0  # before that, the belief is that of all rows
                here, log_posterior = step.rows[asked], step.log_posterior[asked].float()
                own = torch.stack([_label_loss(log_posterior / t, rows.y[here]) @ weight[here] for t in TEMPERATURES])
                total += torch.cat([own, weight[here].sum()[None]])
        *losses, n = self._mean(total)
        return torch.stack(losses) / n


def _label_loss(logits: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, y, reduction="none")
