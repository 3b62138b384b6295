"""DenseNet: its published size, how channels grow, and what does not fit."""

import pytest
import torch
from torch import nn

from pursuit.networks import DenseNet
from pursuit.networks.densenet import _DenseLayer
from pursuit.queries import PatchQueries

CIFAR = PatchQueries((3, 32, 32), size=8, stride=4, mask=False)


def n_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_number_of_parameters_of_densenet_169() -> None:
    """The published network for ImageNet has 14,149,480: its 7x7 stem with BatchNorm and 1000 classes differ."""
    with torch.device("meta"):
        querier, classifier = DenseNet().build(CIFAR, 100, False)
    without_ends = 14_149_480 - (49 * 3 * 64 + 2 * 64) - 1665 * 1000
    trunk = without_ends + 9 * 3 * 64
    assert n_parameters(classifier) == trunk + 1665 * 100 == 12_643_172
    assert n_parameters(querier) == trunk + 1665 * 49


def test_sizes_of_the_maps() -> None:
    """169 layers: a convolution, two for each of 82 layers in blocks, three transitions, and the last linear one."""
    trunk = DenseNet().trunk(CIFAR).eval()
    assert len([m for m in trunk.modules() if isinstance(m, nn.Conv2d)]) + 1 == 169
    x, ends = torch.randn(1, 3, 32, 32), []
    with torch.no_grad():
        for layer in trunk:  # type: ignore[attr-defined]
            if isinstance(layer, nn.BatchNorm2d):  # what follows a block
                ends.append(tuple(x.shape[1:]))
            x = layer(x)
    assert ends == [(256, 32, 32), (512, 16, 16), (1280, 8, 8), (1664, 4, 4)]
    assert x.shape == (1, 1664, 4, 4)


def test_a_layer_keeps_its_input_and_adds_to_it() -> None:
    layer = _DenseLayer(6, 4)
    x = torch.randn(2, 6, 5, 5)
    grown = layer(x)
    assert grown.shape == (2, 10, 5, 5)
    assert torch.equal(grown[:, :6], x)
    assert [m.out_channels for m in layer.modules() if isinstance(m, nn.Conv2d)] == [16, 4]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 33, 41), (3, 4, 4)])
def test_other_images_and_patches(shape: tuple[int, int, int]) -> None:
    query_set = PatchQueries(shape, size=3, stride=2)
    querier, classifier = DenseNet(3, (1, 2, 1), reduction=0.3).build(query_set, 3, True)
    x = torch.randn(2, *query_set.input_shape)
    assert querier(x).shape == (2, len(query_set))
    assert classifier(x).shape == (2, 3)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 8x8 pixels, not 7x9"):
        DenseNet(2, (1, 1, 1, 1)).build(PatchQueries((3, 7, 9), 2), 3, False)
    with pytest.raises(ValueError, match="at least one block"):
        DenseNet(blocks=())
    for reduction in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="a reduction above 0 and up to 1"):
            DenseNet(reduction=reduction)
