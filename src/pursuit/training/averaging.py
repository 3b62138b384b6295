"""Averaged weights, and the BatchNorm statistics that belong to them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from pursuit.training.samplers import Batch

REFRESH_STEPS = 100
"""Batches shown to averaged weights to measure their BatchNorm statistics."""


class WeightAverage:
    """A running average of a model's parameters and BatchNorm statistics.

    torch's AveragedModel does the same on a copy of the model, but looks at a counter in memory in every step, which
    cannot be recorded in a CUDA graph, and its decay cannot warm up.
    """

    def __init__(self, model: nn.Module, decay: float):
        parameters: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        # Buffers beside the statistics are constants, some of them infinite, which would average to nan.
        self.weights = [*parameters, *_statistics(model)]
        self.decay = decay
        self.averaged = self.copy() if decay else []
        self._pull = torch.zeros((), device=self.weights[0].device)

    def schedule(self, step: int) -> None:
        """Say which step comes: the average warms up, so that it does not remember the first weights for long."""
        self._pull.fill_(1 - min(self.decay, (1 + step) / (10 + step)))

    @torch.no_grad()
    def update(self) -> None:
        if self.averaged:
            difference = torch._foreach_sub(self.weights, self.averaged)
            torch._foreach_mul_(difference, self._pull)
            torch._foreach_add_(self.averaged, difference)

    def copy(self) -> list[Tensor]:
        """The weights as they are now."""
        return [tensor.detach().clone() for tensor in self.weights]

    @torch.no_grad()
    def use(self, weights: list[Tensor]) -> None:
        """Give the model these weights."""
        torch._foreach_copy_(self.weights, weights)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with its averaged weights, for the time being."""
        own = self.copy()
        self.use(self.averaged or self.weights)
        try:
            yield
        finally:
            self.use(own)


@torch.no_grad()
def refresh_batch_norm(model: nn.Module, batches: Iterator[Batch], forward: Callable[[Batch], Any]) -> list[Tensor]:
    """Measure the BatchNorm statistics of weights that no step was trained with, and return them.

    `forward` is called on each of the batches; without BatchNorm none is drawn.
    """
    statistics = _statistics(model)
    if statistics:
        update_bn(([batch] for batch in batches), _Calling(model, forward))  # a list, whose first item is the input
    return statistics


def _statistics(model: nn.Module) -> list[Tensor]:
    """The means and variances that its BatchNorms measure."""
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    return [s for norm in norms for s in (norm.running_mean, norm.running_var) if s is not None]


class _Calling(nn.Module):
    """A model called in another way than by its own forward, as torch's `update_bn` wants it."""

    def __init__(self, model: nn.Module, forward: Callable[[Batch], Any]):
        super().__init__()
        self.model, self._forward_on = model, forward

    def forward(self, batch: Batch) -> Any:
        return self._forward_on(batch)
