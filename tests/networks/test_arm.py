"""What is faster on ARM: products without oneDNN, convolutions whose gradients are convolutions, and their switch."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from pursuit.networks import arm
from pursuit.networks.arm import Convolution


@pytest.fixture
def on_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm, "ENABLED", True)


def test_only_networks_without_convolutions_are_dense() -> None:
    assert arm.has_only_dense_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert not arm.has_only_dense_layers(nn.Sequential(nn.Conv2d(1, 1, 3)))
    assert not arm.has_only_dense_layers("not a network")


@pytest.mark.parametrize(("enabled", "wanted"), [(True, True), (True, False), (False, True)])
def test_onednn_is_off_only_within_fast_products(monkeypatch: pytest.MonkeyPatch, enabled: bool, wanted: bool) -> None:
    monkeypatch.setattr(arm, "ENABLED", enabled)
    usual = torch.backends.mkldnn.enabled

    def fail() -> None:
        with arm.fast_products(wanted):
            assert torch.backends.mkldnn.enabled == (usual and not (enabled and wanted))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.backends.mkldnn.enabled == usual


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    on_arm: Any,
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


@pytest.mark.parametrize("options", [{"stride": 2}, {"dilation": 2}, {"groups": 2}, {"padding_mode": "circular"}])
def test_other_convolutions_are_left_to_torch(on_arm: Any, options: dict[str, object]) -> None:
    ours = Convolution(2, 4, 3, padding=1, **options)  # type: ignore[arg-type]
    torchs = nn.Conv2d(2, 4, 3, padding=1, **options)  # type: ignore[arg-type]
    torchs.load_state_dict(ours.state_dict())
    image = torch.randn(2, 2, 8, 8)
    assert torch.equal(ours(image), torchs(image))


def test_no_gradient_is_computed_that_is_not_needed(on_arm: Any) -> None:
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


@pytest.mark.parametrize("enabled", [True, False])
def test_one_switch_turns_the_gradients_of_convolutions_back_to_those_of_torch(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    monkeypatch.setattr(arm, "ENABLED", enabled)
    convolved = Convolution(2, 4, 3, bias=False)(torch.randn(2, 2, 8, 8))
    assert (type(convolved.grad_fn).__name__ == "_ConvolvedBackward") == enabled
