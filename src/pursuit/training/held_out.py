"""Early stopping: how well held-out rows are predicted on the way, and the weights that were best there; and which rows
are held out where these come in groups."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.rollout import pursue_in_batches
from pursuit.inference.stopping import Budget
from pursuit.training.averaging import WeightAverage
from pursuit.training.devices import own_randomness
from pursuit.training.learner import Learner
from pursuit.training.rows import Rows
from pursuit.training.schedule import Stage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

HELD_OUT_SEED, HELD_OUT_MOST = 20230, 512
"""Held-out rows are looked at often: what is drawn for them is seeded, and no more rows than this are used."""
TEMPERATURES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 1.9, 2.3, 3.0)
"""Logits are divided by one of these."""
N_TRIES = 20
"""Number of random splits by group to compare; the one closest to the requested shares of rows and labels is used."""


@dataclass(frozen=True)
class EarlyStopping:
    """End a stage once labels of held-out rows were not predicted better for `patience` looks; keep the best weights.

    They are judged by the cross-entropy along the chains of each row, at the temperature that makes it least: weights
    that rank labels better are not passed over because they are overconfident, which the temperature mends.
    """

    rows: Rows
    patience: int = 12
    every: int = 4
    """The rows are looked at every N reports."""
    prefers_end: bool = False
    """Whether to train to the end of the stage, where the learning rate has fallen to nothing, and to keep those
    weights unless they are worse by more than a standard error: of few rows, the best look may be best by chance."""


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
        self.best_losses = torch.empty(0)  # (N,) of each row

    @property
    def has_stopped(self) -> bool:
        return self.looks_since_best >= self.settings.patience and not self.settings.prefers_end

    @torch.no_grad()
    def look(self, model: Learner, stage: Stage, average: WeightAverage, step: int, is_last: bool) -> float:
        """The loss with the weights that the stage would end with now, after `step` steps; every few reports, and in
        the last one, and that of the last look between."""
        self.n_reports += 1
        if (self.n_reports - 1) % self.settings.every and not is_last:
            return self.last_loss
        with average.applied():
            model.eval()
            losses, weight = self._losses(model, stage)  # (temperatures, N) and (N,)
            means = self._mean(torch.stack([losses @ weight, weight.sum().expand(len(losses))]))
            means = means[0] / means[1]
            self.last_loss, warmest = means.min().item(), int(means.argmin())
            if self.last_loss < self.best_loss + self._slack(losses[warmest], weight, is_last):
                self.best_loss, self.best_step, self.temperature = self.last_loss, step, TEMPERATURES[warmest]
                self.best, self.best_losses, self.looks_since_best = average.copy(), losses[warmest], 0
            else:
                self.looks_since_best += 1
        return self.last_loss

    def _slack(self, losses: Tensor, weight: Tensor, is_last: bool) -> float:
        """How much worse than the best these weights may be and still be kept."""
        if not (is_last and self.settings.prefers_end) or len(self.best_losses) != len(losses):
            return 0.0
        worse = (losses - self.best_losses) * weight
        sums = torch.stack([worse.sum(), (worse**2).sum(), torch.tensor(float(len(worse)), device=worse.device)])
        total, squares, n = (self._mean(sums) * self.fabric.world_size).tolist()  # of all processes
        return math.sqrt(max(0.0, squares / n - (total / n) ** 2) / n)

    def _losses(self, model: Learner, stage: Stage) -> tuple[Tensor, Tensor]:
        """The cross-entropy of labels at each temperature, a mean over what each row was asked so far, and the weights
        of rows."""
        limit = min(len(model.query_set), stage.histories.max_queries or len(model.query_set))
        rows, device = self.rows, self.rows.y.device
        total, n = torch.zeros(len(TEMPERATURES), len(rows), device=device), torch.zeros(len(rows), device=device)
        # A learner that draws noise draws the same every time, and none of what training will draw.
        with own_randomness(HELD_OUT_SEED, self.fabric.device), self.fabric.autocast(), model.roughly():
            for step in pursue_in_batches(model, rows.x, rows.available, Budget(limit), rows.initially_known):
                asked = step.n_asked > 0  # before that, the belief is that of all rows
                here, log_posterior = step.rows[asked], step.log_posterior[asked].float()
                losses = [F.cross_entropy(log_posterior / t, rows.y[here], reduction="none") for t in TEMPERATURES]
                total[:, here] += torch.stack(losses)
                n[here] += 1
        weight = rows.weight if rows.weight is not None else torch.ones(len(rows), device=device)
        return total / n.clamp(min=1), weight * (n > 0)


def split_by_group(y: np.ndarray, groups: np.ndarray, n_held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to learn from and of about `n_held_out` others, both rising. A group is in one part or
    the other, and rows without one (below 0) are learnt from. A label of held-out rows is a label of the others too, so
    it may be that no group can be held out."""
    classes, codes = np.unique(y, return_inverse=True)
    names, group_of_row = np.unique(groups, return_inverse=True)
    table = np.zeros((len(names), len(classes)), dtype=np.int64)  # rows of every group and label
    np.add.at(table, (group_of_row, codes), 1)
    free = np.flatnonzero(names >= 0)
    total, randomness = table.sum(axis=0), np.random.default_rng(seed)
    best, best_distance = free[:0], np.inf
    for _ in range(N_TRIES):
        chosen = _groups_to_hold_out(table, randomness.permutation(free), n_held_out)
        distance = np.abs(table[chosen].sum(axis=0) - total * n_held_out / len(y)).sum()
        if distance < best_distance:
            best, best_distance = chosen, distance
    is_held_out = np.isin(group_of_row, best)
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def _groups_to_hold_out(table: np.ndarray, order: np.ndarray, n_held_out: int) -> np.ndarray:
    """The first groups in this order that make up about `n_held_out` rows and leave rows of each of their labels."""
    sizes = table.sum(axis=1).tolist()
    chosen, left, n_chosen = [], table.sum(axis=0), 0
    for group in order:
        if n_chosen >= n_held_out:
            break
        comes_closer = abs(n_chosen + sizes[group] - n_held_out) < abs(n_chosen - n_held_out)
        if comes_closer and (left[table[group] > 0] > table[group][table[group] > 0]).all():
            chosen.append(group)
            left, n_chosen = left - table[group], n_chosen + sizes[group]
    return np.array(chosen, dtype=np.int64)
