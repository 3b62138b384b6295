"""Deep layer aggregation: its published size, the shape of its trees, and the released decoder."""

import pytest
import torch
from torch import nn

from pursuit.networks import DLA
from pursuit.networks.dla import _Block, _Tree
from pursuit.queries import PatchQueries

CIFAR = PatchQueries((3, 32, 32), size=8, stride=4, mask=False)
NARROW = (4, 4, 6, 8, 10, 16)


def n_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_published_number_of_parameters() -> None:
    """16.29 million with ten classes and three input channels; only the last layer differs between the networks."""
    with torch.device("meta"):
        querier, classifier = DLA().build(CIFAR, 10, False)
        masked, _ = DLA().build(PatchQueries((3, 32, 32), size=8, stride=4), 10, False)
    assert n_parameters(classifier) == 16_291_386
    assert n_parameters(querier) == 16_291_386 + 513 * (49 - 10)
    assert n_parameters(masked) - n_parameters(querier) == 9 * 16  # one more input channel


def test_sizes_of_the_maps() -> None:
    sizes = [(16, 32, 32), (16, 32, 32), (32, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        for layer, size in zip(DLA().trunk(CIFAR).eval(), sizes, strict=True):  # type: ignore[arg-type]
            x = layer(x)
            assert x.shape == (1, *size)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_tree_joins_its_subtrees_and_its_two_blocks(level: int) -> None:
    """T_n(x) = root(block(x), T_{n-1}(x), T_{n-2} of that, ..., and two blocks in a row)."""
    torch.manual_seed(0)
    tree = _Tree(3, 5, level, stride=2).eval()
    x = torch.randn(2, 3, 9, 8)
    children, last = ([] if tree.aside is None else [tree.aside(x)]), x
    for child in tree.chain:
        last = child(last)
        children.append(last)
    assert [type(child) for child in tree.chain] == [_Tree] * (level - 1) + [_Block] * 2
    n_blocks_inside = [len([m for m in child.modules() if isinstance(m, _Block)]) for child in tree.chain]
    assert n_blocks_inside == {1: [1, 1], 2: [2, 1, 1], 3: [5, 2, 1, 1]}[level]
    assert len(children) == (2 if level == 1 else level + 2)
    got = tree(x)
    assert got.shape == (2, 5, 5, 4)
    torch.testing.assert_close(got, tree.root(torch.cat(children, dim=1)))


def test_a_block_adds_its_input_where_it_can() -> None:
    same, changed = _Block(4, 4, 1).eval(), _Block(4, 6, 2).eval()
    for block in (same, changed):
        nn.init.zeros_(block.change[-1].weight)  # the last BatchNorm: the block changes nothing
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(same(x), x.relu())
    torch.testing.assert_close(changed(x), changed.shortcut(x).relu())


def test_the_released_querier_decodes_to_the_grid() -> None:
    with torch.device("meta"):
        querier, classifier = DLA(decode=True).build(CIFAR, 10, False)
    assert n_parameters(classifier) == 16_291_386
    trunk = 16_291_386 - 513 * 10
    decoder = sum(9 * a * b + 2 * b for a, b in ((512, 256), (256, 128), (128, 64))) + 65
    assert n_parameters(querier) == trunk + decoder
    assert [m.size for m in querier.modules() if isinstance(m, nn.Upsample)] == [5, 6, 7]
    narrow, _ = DLA(NARROW, decode=True).build(CIFAR, 10, False)
    assert narrow(torch.randn(2, 3, 32, 32)).shape == (2, 49)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 33, 41), (3, 8, 8)])
def test_other_images_and_patches(shape: tuple[int, int, int]) -> None:
    query_set = PatchQueries(shape, size=5, stride=3)
    querier, classifier = DLA(NARROW).build(query_set, 3, True)
    x = torch.randn(2, *query_set.input_shape)
    assert querier(x).shape == (2, len(query_set))
    assert classifier(x).shape == (2, 3)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 8x8 pixels, not 7x9"):
        DLA(NARROW).build(PatchQueries((3, 7, 9), 2), 3, False)
    with pytest.raises(ValueError, match=r"7x7 patches, not 8x8: use decode=False"):
        DLA(NARROW, decode=True).build(PatchQueries((3, 32, 32), 4, 4), 3, False)
    for channels, levels in (((16, 32), ()), ((16, 32, 64), (1, 2)), ((), (1,))):
        with pytest.raises(ValueError, match="two more channels than levels"):
            DLA(channels, levels)
