"""Convolutional networks: the paper's layer by layer, and what does not fit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pursuit.networks import Conv, PaperConv
from pursuit.networks.conv import _padded_to, _Repeated, enlarge
from pursuit.queries import PatchQueries

MNIST = PatchQueries((1, 28, 28), size=3, mask=False)


def outcomes(network: nn.Module, x: torch.Tensor, layers: tuple[type[nn.Module], ...]) -> list[tuple[int, ...]]:
    """Channels and sizes that these layers of the network give, in the order they run."""
    shapes: list[tuple[int, ...]] = []
    for module in network.modules():
        if isinstance(module, layers):
            module.register_forward_hook(lambda _, __, outcome: shapes.append(tuple(outcome.shape[1:])))
    with torch.no_grad():
        network.eval()(x)
    return shapes


def test_conv_refuses_to_pool_away_the_image() -> None:
    with pytest.raises(ValueError, match="too many for 12x10 pixels: use fewer channels"):
        Conv((4, 4, 4, 4, 4, 4, 4, 4)).build(PatchQueries((1, 12, 10), size=3, stride=2), 3, False)


def test_paper_conv_has_the_sizes_of_the_paper() -> None:
    querier, classifier = PaperConv().build(MNIST, 10, False)
    encoder = [(32, 26, 26), (64, 24, 24), (64, 12, 12), (128, 10, 10), (256, 8, 8), (256, 4, 4)]
    image = torch.randn(2, 1, 28, 28)
    layers = (nn.Conv2d, nn.MaxPool2d, nn.Linear)
    assert outcomes(classifier, image, layers) == [*encoder, (512,), (10,)]
    decoder = [(256, 8, 8), (128, 10, 10), (64, 12, 12), (64, 24, 24), (32, 26, 26), (1, 26, 26)]
    assert outcomes(querier, image, layers) == encoder + decoder


def test_paper_conv_has_the_parameters_of_the_paper() -> None:
    querier, classifier = PaperConv().build(MNIST, 10, False)
    # 3x3 kernels and the two numbers a channel of BatchNorm; what follows a pooling undone has a bias instead
    encoder = sum(9 * a * b + 2 * b for a, b in ((1, 32), (32, 64), (64, 128), (128, 256)))
    decoder = sum(9 * a * b + 2 * b for a, b in ((256, 128), (128, 64), (64, 32)))
    decoder += sum(9 * a * a + a for a in (256, 64)) + 33
    assert sum(p.numel() for p in querier.parameters()) == encoder + decoder
    assert sum(p.numel() for p in classifier.parameters()) == encoder + 4096 * 512 + 2 * 512 + 513 * 10
    slopes = {m.negative_slope for m in [*querier.modules(), *classifier.modules()] if isinstance(m, nn.LeakyReLU)}
    assert slopes == {0.3}


@pytest.mark.parametrize(("small", "large"), [(4, 8), (8, 10), (10, 12), (12, 24), (24, 26), (7, 14), (7, 15), (3, 3)])
def test_enlarging_repeats_the_nearest_pixel_and_adds_up_its_gradient(small: int, large: int) -> None:
    """Compiled code has a gradient of its own, which is torch's."""
    image = torch.randn(2, 3, small, small + 1, requires_grad=True)
    size = (large, 2 * small + 2)
    wanted = F.interpolate(image, size=size, mode="nearest")
    assert torch.equal(enlarge(image, size), wanted)
    weight = torch.randn_like(wanted)
    (grad,) = torch.autograd.grad((_Repeated.apply(image, size) * weight).sum(), image)
    (wanted_grad,) = torch.autograd.grad((wanted * weight).sum(), image)
    torch.testing.assert_close(grad, wanted_grad)


def test_conv_without_padding_takes_the_edges_away_and_puts_zeros_there() -> None:
    network = Conv((4, 8, 16, 32), padded=False)
    querier, classifier = network.build(MNIST, 10, False)
    image = torch.randn(2, 1, 28, 28)
    convolved = [(4, 26, 26), (8, 24, 24), (16, 10, 10), (32, 8, 8)]
    assert outcomes(classifier, image, (nn.Conv2d,)) == convolved
    assert outcomes(querier, image, (nn.Conv2d,)) == [*convolved, (8, 8, 8), (8, 24, 24), (1, 26, 26)]
    assert querier(image).shape == (2, 676)
    with pytest.raises(ValueError, match="without padding with their poolings are too many for 10x10 pixels"):
        network.build(PatchQueries((1, 10, 10), size=3), 3, False)


def test_conv_without_padding_sees_its_maps_in_place() -> None:
    """A bright spot far from the edge stays in its place through the maps of the decoder."""
    querier, _ = Conv((1, 1, 1, 1), padded=False).build(MNIST.with_options(mask=False), 10, False)
    decoder = querier[1]
    for place in ((2, 2), (3, 5), (5, 4)):
        small = torch.zeros(1, 1, 8, 8)
        small[0, 0, place[0], place[1]] = 1
        large = enlarge(_padded_to(small, 12, 12), (24, 24))
        rows, columns = large[0, 0].nonzero().T
        # Cell i of the 8x8 map is centred where cell i + 2 of the pooled 12x12 map is.
        assert (rows.min(), columns.min()) == (2 * (place[0] + 2), 2 * (place[1] + 2))
    assert decoder.image_size == (28, 28)


@pytest.mark.parametrize(("channels", "mask", "n_inputs"), [(1, False, 1), (1, True, 2), (3, False, 3), (3, True, 4)])
def test_paper_conv_takes_the_mask_as_a_channel_where_there_is_one(channels: int, mask: bool, n_inputs: int) -> None:
    query_set = PatchQueries((channels, 28, 28), size=3, mask=mask)
    querier, classifier = PaperConv().build(query_set, 10, False)
    image = torch.randn(2, n_inputs, 28, 28)
    assert querier(image).shape == (2, 676)
    assert classifier(image).shape == (2, 10)


@pytest.mark.parametrize(
    "query_set",
    [
        PatchQueries((1, 28, 28), size=3, stride=2),
        PatchQueries((1, 28, 28), size=4),
        PatchQueries((1, 32, 28), size=3),
        PatchQueries((3, 32, 32), size=8, stride=4),
    ],
)
def test_paper_conv_refuses_other_patches(query_set: PatchQueries) -> None:
    with pytest.raises(ValueError, match=r"28x28 pixels with 3x3 patches at stride 1, not .*: use Conv"):
        PaperConv().build(query_set, 10, False)
    Conv((4, 4), 8).build(query_set, 10, False)  # the advice is good
