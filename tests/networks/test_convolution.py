"""Convolutions whose gradients are convolutions: the same numbers as torch's own."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pursuit.networks import convolution
from pursuit.networks.arm import Convolution


@pytest.fixture(autouse=True)
def quick_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "ENABLED", True)


@given(
    n_inputs=st.integers(1, 4),
    n_outputs=st.integers(1, 4),
    size=st.tuples(st.integers(3, 8), st.integers(3, 8)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    bias=st.booleans(),
    channels_last=st.booleans(),
)
def test_values_and_gradients_are_those_of_torch(
    n_inputs: int,
    n_outputs: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    padding: tuple[int, int],
    bias: bool,
    channels_last: bool,
) -> None:
    torch.manual_seed(0)
    ours = Convolution(n_inputs, n_outputs, kernel, padding=padding, bias=bias).double()
    torchs = nn.Conv2d(n_inputs, n_outputs, kernel, padding=padding, bias=bias).double()
    torchs.load_state_dict(ours.state_dict())
    image = torch.randn(3, n_inputs, *size, dtype=torch.double, requires_grad=True)
    seen = image.contiguous(memory_format=torch.channels_last) if channels_last else image
    weight = torch.randn_like(torchs(image))
    found, wanted = (
        [network(seen), *torch.autograd.grad((network(seen) * weight).sum(), [image, *network.parameters()])]
        for network in (ours, torchs)
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("settings", [{"stride": 2}, {"dilation": 2}, {"groups": 2}, {"padding_mode": "circular"}])
def test_other_convolutions_are_left_to_torch(settings: dict[str, object]) -> None:
    ours = Convolution(2, 4, 3, padding=1, **settings)  # type: ignore[arg-type]
    torchs = nn.Conv2d(2, 4, 3, padding=1, **settings)  # type: ignore[arg-type]
    torchs.load_state_dict(ours.state_dict())
    image = torch.randn(2, 2, 8, 8)
    assert torch.equal(ours(image), torchs(image))


def test_no_gradient_is_computed_that_nobody_needs() -> None:
    ours = Convolution(2, 4, 3)
    image = torch.randn(2, 2, 8, 8)
    ours(image).sum().backward()
    assert image.grad is None
    ours.weight.requires_grad_(False)
    image.requires_grad_()
    ours(image).sum().backward()
    assert image.grad is not None
    with torch.no_grad():
        assert ours(image).grad_fn is None
