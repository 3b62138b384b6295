"""Langevin's algorithm: samples of a latent variable by the gradient of its log density, many chains at once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Langevin:
    """Unadjusted: every step is taken, and samples are exact only as `step` goes to zero."""

    n_chains: int = 48
    burn_in: int = 5
    """Steps after each answer until a sample counts. Chains go on from where they were, so that a few will do."""
    step: float = 0.5
    """The variance of the noise of a step, in multiples of the variance that is sampled."""

    def __post_init__(self) -> None:
        if self.n_chains < 2 or self.burn_in < 1 or not self.step > 0:
            raise ValueError(
                "Langevin's algorithm needs at least 2 chains, a burn-in of at least 1 step, and a step above 0, "
                f"not {self}."
            )

    def move(self, log_density: Callable[[Tensor], Tensor], z: Tensor, noise: Tensor) -> Tensor:
        """The chains `z` (..., M, L) after a burn-in, M towards each density, whose logarithm (..., M) is given up to a
        constant; `noise` (burn_in, ..., M, L) is standard normal.

        Where answers say much of z, its density is narrow, and a step that suits the prior would leave it. Over samples
        of a density, though, the squared gradient is the inverse of its variance on average: that of the M chains
        scales the step. It counts as at least 1, for it comes on top of a standard normal prior.
        """
        for pushed in noise:
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(log_density(z).sum(), z)
            variance = 1 / gradient.square().mean(dim=(-2, -1), keepdim=True).clamp(min=1)
            z = z.detach() + self.step / 2 * variance * gradient + (self.step * variance).sqrt() * pushed
        return z
