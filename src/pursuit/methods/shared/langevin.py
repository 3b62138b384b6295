"""Langevin's algorithm: samples of a latent variable by the gradient of its log density, many chains at once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from pursuit.registry import register


@register
@dataclass(frozen=True)
class Langevin:
    """Unadjusted: every step is accepted, and samples are exact only as `step` goes to zero.

    Burn-in, step and clipped gradients are as published with G-IP; `scaled` is quicker where answers say much about z.
    """

    n_chains: int = 12
    burn_in: int = 20
    """Steps after each answer before chains count as samples. They go on from where they were."""
    step: float = 0.1
    """The variance of the noise in a step; where steps are scaled, in multiples of the variance of the density."""
    clip: float | None = 10.0
    """The greatest length of a gradient. None: the steps are scaled instead."""

    def __post_init__(self) -> None:
        if self.n_chains < 2 or self.burn_in < 1 or not self.step > 0 or (self.clip is not None and not self.clip > 0):
            raise ValueError(
                "Langevin's algorithm needs at least 2 chains, a burn-in of at least 1 step, and a step and a clip "
                f"above 0, not {self}."
            )

    @classmethod
    def scaled(cls, n_chains: int = 48, burn_in: int = 5, step: float = 0.5) -> Self:
        """Many chains, each moved on by a few steps that are as long as the density is wide."""
        return cls(n_chains, burn_in, step, clip=None)

    def move(self, log_density: Callable[[Tensor], Tensor], z: Tensor, noise: Tensor) -> Tensor:
        """The chains `z` (..., M, L) after a burn-in, M for each density, whose logarithm (..., M) is given up to a
        constant; `noise` (burn_in, ..., M, L) is standard normal."""
        for push in noise:
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(log_density(z).sum(), z)
            z, variance = z.detach(), self._variance(gradient)
            if self.clip is not None:
                gradient *= self.clip / gradient.norm(dim=-1, keepdim=True).clamp(min=self.clip)
            z = z + self.step / 2 * variance * gradient + (self.step * variance).sqrt() * push
        return z

    def _variance(self, gradient: Tensor) -> Tensor:
        """What steps are scaled by: where answers say much about z its density is narrow, and a step that suits the
        prior would leave it.

        The mean squared gradient over samples of a density, here the M chains, estimates the inverse of its variance.
        It is at least 1, because the prior is standard normal.
        """
        if self.clip is not None:
            return torch.ones_like(gradient[..., :1, :1])
        return 1 / gradient.square().mean(dim=(-2, -1), keepdim=True).clamp(min=1)
