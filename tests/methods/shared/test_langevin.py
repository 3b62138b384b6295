"""Langevin's algorithm: chains come to be distributed as the density says, up to what its step is known to add."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pursuit.methods.g_ip import Langevin

MEAN, DEVIATION = torch.tensor([1.0, -2.0]), 0.5


def log_normal(z: Tensor, deviation: float = DEVIATION) -> Tensor:
    return -(((z - MEAN) / deviation) ** 2).sum(dim=-1) / 2


def noise(n_steps: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(n_steps, *shape, generator=torch.Generator().manual_seed(seed))


def moved(langevin: Langevin, log_density: Callable[[Tensor], Tensor], z: Tensor, noise: Tensor) -> Tensor:
    """The chains behind the last step, towards a density of which the logarithm is given."""

    def slope(z: Tensor) -> Tensor:
        with torch.enable_grad():
            at = z.detach().requires_grad_()
            return torch.autograd.grad(log_density(at).sum(), at)[0]

    *_, end = langevin.path(slope, z, noise)
    return end


@torch.no_grad()
@pytest.mark.parametrize(
    ("step", "clip"), [(0.1, None), (0.5, None), pytest.param(0.02, 50.0, marks=pytest.mark.slow), (0.1, 50.0)]
)
def test_chains_find_a_normal_distribution(step: float, clip: float | None) -> None:
    start = MEAN + noise(1, 2000, 2, seed=1)[0]
    z = moved(Langevin(step=step, clip=clip), log_normal, start, noise(round(20 / step), 2000, 2))
    torch.testing.assert_close(z.mean(dim=0), MEAN, atol=0.05, rtol=0)
    relative = step if clip is None else step / DEVIATION**2
    wider = DEVIATION**2 / (1 - relative / 4)  # what unadjusted steps are known to add
    torch.testing.assert_close(z.var(dim=0), torch.tensor([wider, wider]), atol=0, rtol=0.1)


def test_a_long_gradient_is_clipped() -> None:
    z = moved(Langevin(step=0.5, clip=3.0), lambda z: 100 * z[..., 0], torch.zeros(4, 2), torch.zeros(1, 4, 2))
    torch.testing.assert_close(z, torch.tensor([[0.5 / 2 * 3.0, 0.0]]).expand(4, 2))


def test_a_narrow_distribution_is_kept_as_well_as_a_wide_one() -> None:
    def kept(width: float) -> Tensor:
        start = MEAN + width * noise(1, 500, 2, seed=1)[0]
        z = moved(Langevin.scaled(), lambda z: log_normal(z, width), start, noise(9, 500, 2))
        return (z - MEAN) / width

    torch.testing.assert_close(kept(0.5), kept(0.005), atol=1e-3, rtol=0)


def test_a_wide_density_is_stepped_over_as_the_prior_is() -> None:
    z = moved(
        Langevin.scaled(step=0.5), lambda z: -0.01 * z.square().sum(-1) / 2, torch.ones(4, 2), torch.zeros(1, 4, 2)
    )
    torch.testing.assert_close(z, torch.full((4, 2), 1 - 0.5 / 2 * 0.01))


def test_chains_of_different_densities_do_not_meet() -> None:
    together = moved(Langevin(), log_normal, torch.zeros(3, 5, 2), noise(4, 5, 2))
    alone = moved(Langevin(), log_normal, torch.zeros(5, 2), noise(4, 5, 2))
    torch.testing.assert_close(together, alone.expand(3, -1, -1))


def test_what_it_is_given_stays_as_it_was() -> None:
    start = torch.zeros(3, 2)
    end = moved(Langevin(), log_normal, start, noise(2, 3, 2))
    assert torch.equal(start, torch.zeros(3, 2))
    assert not end.requires_grad


@pytest.mark.parametrize("wrong", [{"n_chains": 1}, {"burn_in": 0}, {"step": 0.0}, {"clip": 0.0}])
def test_settings_that_sample_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 2 chains"):
        Langevin(**wrong)
