"""Products without oneDNN: only on ARM, only while they last, never where there are convolutions."""

import pytest
import torch
from torch import nn

from pursuit.networks import arm


def test_networks_are_told_apart() -> None:
    assert arm.has_only_dense_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert not arm.has_only_dense_layers(nn.Sequential(nn.Conv2d(1, 1, 3)))
    assert not arm.has_only_dense_layers("no network")


@pytest.mark.parametrize(("on_arm", "wanted"), [(True, True), (True, False), (False, True)])
def test_onednn_rests_while_it_is_in_the_way(monkeypatch: pytest.MonkeyPatch, on_arm: bool, wanted: bool) -> None:
    monkeypatch.setattr(arm, "ENABLED", on_arm)
    usual = torch.backends.mkldnn.enabled

    def fail() -> None:
        with arm.fast_products(wanted):
            assert torch.backends.mkldnn.enabled == (usual and not (on_arm and wanted))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.backends.mkldnn.enabled == usual
