"""Early stopping: the objective on held-out rows, and the weights that were best there."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pursuit.data.rows import Rows
from pursuit.inference.rollout import BATCH_ROWS
from pursuit.training.averaging import WeightAverage
from pursuit.training.batch import Batch
from pursuit.training.devices import own_randomness
from pursuit.training.learner import Learner
from pursuit.training.samplers import rolled_out_histories
from pursuit.training.schedule import Stage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

HELD_OUT_SEED, HELD_OUT_MOST = 20230, 4096
"""Held-out rows are looked at often: their histories are seeded, and no more rows than this are used."""


@dataclass(frozen=True)
class EarlyStopping:
    """End a stage once the loss on held-out rows has not improved for `patience` reports; keep the best weights."""

    rows: Rows
    patience: int = 20


class HeldOut:
    """How a stage does on held-out rows, and its best weights so far."""

    def __init__(self, fabric: "Fabric", settings: EarlyStopping, mean: Callable[[Tensor], Tensor]):
        some = torch.arange(fabric.global_rank, min(len(settings.rows), HELD_OUT_MOST), fabric.world_size)
        self.fabric, self.rows, self.patience = fabric, settings.rows.take(some).to(fabric.device), settings.patience
        self._mean = mean
        self.start()

    def start(self) -> None:
        """Forget the stage before."""
        self.best: list[Tensor] = []
        self.best_loss, self.reports_since_best = math.inf, 0

    @property
    def has_stopped(self) -> bool:
        return self.reports_since_best >= self.patience

    @torch.no_grad()
    def look(self, model: Learner, stage: Stage, average: WeightAverage) -> float:
        """The objective with the weights that the stage would end with now."""
        with average.applied():
            model.eval()
            loss = self._loss(model, stage)
            if loss < self.best_loss:
                self.best_loss, self.reports_since_best = loss, 0
                self.best = average.copy()
            else:
                self.reports_since_best += 1
        return loss

    def _loss(self, model: Learner, stage: Stage) -> float:
        """Each row has a history of the querier's own, of the same length every time."""
        generator = torch.Generator(self.fabric.device).manual_seed(HELD_OUT_SEED)
        n_queries, longest = len(model.query_set), stage.histories.max_queries
        limit = n_queries if longest is None else max(1, min(longest, n_queries))
        k = torch.randint(limit, (len(self.rows),), generator=generator, device=generator.device)
        total = torch.zeros(2, device=k.device)
        for part in torch.arange(len(self.rows), device=k.device).split(BATCH_ROWS):
            rows = self.rows.take(part)
            batch = Batch.of(rows, rolled_out_histories(rows, k[part], model))
            # A learner that draws noise draws the same every time, and none of what training will draw.
            with own_randomness(HELD_OUT_SEED, self.fabric.device), self.fabric.autocast():
                loss = model(batch._replace(tau=stage.tau[1], phase=stage.phase)).loss
            total += torch.stack([loss * len(part), torch.full_like(loss, len(part))])
        loss_sum, n_rows = self._mean(total).tolist()
        return loss_sum / n_rows
