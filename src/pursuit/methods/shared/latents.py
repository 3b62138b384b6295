"""What methods with latent variables share: normal distributions, a few labels that stand for all, and histories of
random queries."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pursuit.training import CarriedHistories, RandomHistories, Stage


class Gaussian(NamedTuple):
    """Independent normal variables, the last dimension of both."""

    mean: Tensor
    log_variance: Tensor

    def at(self, index: Any) -> "Gaussian":
        return Gaussian(self.mean[index], self.log_variance[index])

    def sample(self, noise: Tensor) -> Tensor:
        return self.mean + (0.5 * self.log_variance).exp() * noise

    def divergence(self, other: "Gaussian") -> Tensor:
        """KL from this to the other."""
        wider = self.log_variance - other.log_variance
        apart = (self.mean - other.mean) ** 2 * (-other.log_variance).exp()
        return 0.5 * (wider.exp() + apart - 1 - wider).sum(dim=-1)


def some_labels(posterior: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Labels (B, L) that stand for all C, and how many times each counts: every label once, or `most` of them, those at
    equal steps of the cumulative `posterior` (B, C), each by its share."""
    n_classes = posterior.shape[1]
    if n_classes <= most:
        every = torch.arange(n_classes, device=posterior.device).expand(posterior.shape)
        return every, torch.ones_like(posterior)
    steps = (torch.arange(most, device=posterior.device) + 0.5) / most
    chosen = torch.searchsorted(posterior.cumsum(dim=1), steps.repeat(len(posterior), 1)).clamp(max=n_classes - 1)
    return chosen, 1 / (most * posterior.gather(1, chosen).clamp(min=torch.finfo(posterior.dtype).tiny))


def of_random_queries(stages: Sequence[Stage]) -> list[Stage]:
    """Stages with histories as long as V-IP's, of random queries: carried chains ask at random by themselves."""
    return [
        stage
        if isinstance(stage.histories, CarriedHistories)
        else replace(stage, histories=RandomHistories(stage.histories.max_queries))
        for stage in stages
    ]
