"""AdamW on parameters side by side."""

import copy

import torch
from torch import Tensor, nn

from pursuit.training.flat_adamw import FlatAdamW
from pursuit.training.schedule import AdamW

SETTINGS = AdamW(lr=0.03, weight_decay=0.1)
INPUTS = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.LayerNorm(7), nn.Linear(7, 1))


def parameters_of(model: nn.Module) -> list[Tensor]:
    return list(model.parameters())


def learn(model: nn.Module, optimizer: FlatAdamW | torch.optim.Optimizer, n_steps: int) -> None:
    for _ in range(n_steps):
        (model(INPUTS)[:, 0] - INPUTS.prod(dim=1)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for own, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own, theirs, atol=1e-5, rtol=1e-4)


def test_steps_are_those_of_torch() -> None:
    flat, plain = network(), network()
    learn(flat, FlatAdamW(parameters_of(flat), SETTINGS), 30)
    learn(plain, SETTINGS.build(parameters_of(plain)), 30)
    assert_same(flat, plain)
    assert not torch.equal(flat[0].weight, network()[0].weight)


def test_a_run_goes_on_with_either() -> None:
    plain, flat, beginning = network(), network(), network()
    before = SETTINGS.build(parameters_of(beginning))
    learn(beginning, before, 10)
    for model in (plain, flat):
        model.load_state_dict(beginning.state_dict())
    torchs, own = SETTINGS.build(parameters_of(plain)), FlatAdamW(parameters_of(flat), SETTINGS)
    torchs.load_state_dict(copy.deepcopy(before.state_dict()))
    own.load_state_dict(before.state_dict())
    learn(plain, torchs, 5)
    learn(flat, own, 5)
    assert_same(flat, plain)
    back = SETTINGS.build(parameters_of(plain))
    back.load_state_dict({**torchs.state_dict(), "state": copy.deepcopy(own.state_dict()["state"])})
    learn(plain, back, 5)
    learn(flat, own, 5)
    assert_same(flat, plain)
