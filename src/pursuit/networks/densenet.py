"""DenseNet-BC (Huang et al., 2017) for small photos: the paper's network for CIFAR-100."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pursuit.networks.settings import TrunkAndHeads, check_sizes, need_patches, pooled_linear
from pursuit.queries import QuerySet
from pursuit.registry import register

BOTTLENECK = 4
"""Channels between the two convolutions of a layer, in multiples of the growth."""


@register
@dataclass(frozen=True)
class DenseNet(TrunkAndHeads):
    """Blocks of layers that each see what all the layers before them in the block gave; DenseNet-169 by default.

    Every layer adds `growth` channels. Between blocks a transition keeps the share `reduction` of the channels and
    halves the map. Heads are linear on the mean of the last map (4x4 cells for 32x32 pixels), and only they differ
    between querier and classifier.
    """

    growth: int = 32
    blocks: tuple[int, ...] = (6, 12, 32, 32)
    reduction: float = 0.5

    def __post_init__(self) -> None:
        check_sizes(self, "growth", "blocks")
        if not self.blocks:
            raise ValueError("DenseNet needs at least one block.")
        if not 0 < self.reduction <= 1:
            raise ValueError(f"DenseNet needs a reduction above 0 and up to 1, not {self.reduction}.")

    def trunk(self, query_set: QuerySet) -> nn.Module:
        n_channels = 2 * self.growth
        layers: list[nn.Module] = [nn.Conv2d(query_set.input_shape[0], n_channels, 3, padding=1, bias=False)]
        for i, n_layers in enumerate(self.blocks):
            if i > 0:
                kept = self._kept(n_channels)
                layers += [*_convolution(n_channels, kept, 1), nn.AvgPool2d(2)]
                n_channels = kept
            for _ in range(n_layers):
                layers.append(_DenseLayer(n_channels, self.growth))
                n_channels += self.growth
        return nn.Sequential(*layers, nn.BatchNorm2d(n_channels), nn.ReLU())

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        need_patches(query_set, "DenseNet", smallest=2 ** (len(self.blocks) - 1))
        n_channels = 2 * self.growth
        for n_layers in self.blocks[:-1]:
            n_channels = self._kept(n_channels + n_layers * self.growth)
        n_channels += self.blocks[-1] * self.growth
        return pooled_linear(n_channels, len(query_set)), pooled_linear(n_channels, n_classes)

    def _kept(self, n_channels: int) -> int:
        return max(1, int(n_channels * self.reduction))


def _convolution(n_inputs: int, n_outputs: int, size: int) -> list[nn.Module]:
    return [
        nn.BatchNorm2d(n_inputs),
        nn.ReLU(),
        nn.Conv2d(n_inputs, n_outputs, size, padding=size // 2, bias=False),
    ]


class _DenseLayer(nn.Module):
    """Two convolutions, the first of them 1x1, that add `growth` channels to their input."""

    def __init__(self, n_inputs: int, growth: int):
        super().__init__()
        between = BOTTLENECK * growth
        self.grow = nn.Sequential(*_convolution(n_inputs, between, 1), *_convolution(between, growth, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.grow(x)], dim=1)
