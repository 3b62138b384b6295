"""Deep layer aggregation (Yu et al., 2018) for small photos: the paper's network for CIFAR-10."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from pursuit.networks.settings import TrunkAndHeads, check_sizes, need_patches, pooled_linear
from pursuit.queries import PatchGrid, QuerySet
from pursuit.registry import register


@register
@dataclass(frozen=True)
class DLA(TrunkAndHeads):
    """Trees of residual blocks whose outcomes are joined by a root, as is usual on images of 32x32 pixels.

    Three convolutions give the first two of `channels`; then comes one tree for every further entry, of the depth in
    `levels`, each but the first halving the map. Heads are linear on the mean of the last map (4x4 cells for 32x32
    pixels). The paper says that only the last layer differs between querier and classifier. The released code's
    querier has a decoder from the 4x4 cells to a 7x7 grid of patches instead: `decode` gives that.
    """

    channels: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    levels: tuple[int, ...] = (1, 2, 2, 1)
    decode: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "channels", "levels")
        if not self.levels or len(self.channels) != len(self.levels) + 2:
            raise ValueError(
                f"DLA needs at least one tree, and two more channels than levels, not channels {self.channels} with "
                f"levels {self.levels}."
            )

    def trunk(self, query_set: QuerySet) -> nn.Module:
        first, second, *_ = self.channels
        layers = [
            _convolution(query_set.input_shape[0], first),
            _convolution(first, first),
            _convolution(first, second),
        ]
        for i, ((n_inputs, n_outputs), level) in enumerate(zip(pairwise(self.channels[1:]), self.levels, strict=True)):
            layers.append(_Tree(n_inputs, n_outputs, level, stride=1 if i == 0 else 2))
        return nn.Sequential(*layers)

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        patches = need_patches(query_set, "DLA", smallest=2 ** (len(self.levels) - 1))
        deep = self.channels[-1]
        querier = _decoder(patches, deep) if self.decode else pooled_linear(deep, len(query_set))
        return querier, pooled_linear(deep, n_classes)


def _convolution(n_inputs: int, n_outputs: int, size: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_outputs, size, padding=size // 2, bias=False), nn.BatchNorm2d(n_outputs), nn.ReLU()
    )


def _decoder(patches: PatchGrid, n_channels: int) -> nn.Module:
    """From the last map to one score a patch of a 7x7 grid, by way of 5x5 and 6x6 cells."""
    if patches.shape != (7, 7):
        rows, columns = patches.shape
        raise ValueError(
            f"DLA decodes to a grid of 7x7 patches, not {rows}x{columns}: use decode=False, which suits any."
        )
    layers: list[nn.Module] = []
    for size, share in ((5, 2), (6, 4), (7, 8)):
        n_inputs, n_outputs = 2 * n_channels // share, n_channels // share
        layers += [nn.Upsample(size), _convolution(n_inputs, n_outputs)]
    return nn.Sequential(*layers, nn.Conv2d(n_channels // 8, 1, 1), nn.Flatten())


class _Tree(nn.Module):
    """Smaller and smaller trees and then two blocks, one after the other; a root joins what each of them gives.

    A tree of level 1 is the two blocks and their root. A deeper one also shows its root the input itself, by way of a
    block of its own.
    """

    def __init__(self, n_inputs: int, n_outputs: int, level: int, stride: int):
        super().__init__()
        self.aside = _Block(n_inputs, n_outputs, stride) if level > 1 else None
        children: list[nn.Module] = []
        for depth in range(level - 1, -2, -1):  # trees of depths level - 1 to 1, then two blocks
            children.append(
                _Tree(n_inputs, n_outputs, depth, stride) if depth > 0 else _Block(n_inputs, n_outputs, stride)
            )
            n_inputs, stride = n_outputs, 1
        self.chain = nn.ModuleList(children)
        n_children = len(self.chain) + (level > 1)
        self.root = _convolution(n_children * n_outputs, n_outputs, size=1)

    def forward(self, x: Tensor) -> Tensor:
        children = [] if self.aside is None else [self.aside(x)]
        for child in self.chain:
            x = child(x)
            children.append(x)
        return self.root(torch.cat(children, dim=1))


class _Block(nn.Module):
    """A basic residual block; where the size of the map or the number of channels changes, a 1x1 convolution of the
    input takes the place of the input."""

    def __init__(self, n_inputs: int, n_outputs: int, stride: int):
        super().__init__()
        self.change = nn.Sequential(
            nn.Conv2d(n_inputs, n_outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(n_outputs),
            nn.ReLU(),
            nn.Conv2d(n_outputs, n_outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_inputs != n_outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_inputs, n_outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(n_outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        return (self.change(x) + self.shortcut(x)).relu()
