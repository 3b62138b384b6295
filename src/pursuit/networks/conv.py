"""Convolutional networks for patches of small pictures: our own, and the paper's for MNIST and its kin."""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.networks.dense import dense_layers
from pursuit.networks.settings import TrunkAndHeads, need_patches
from pursuit.queries import PatchQueries, QuerySet

SLOPE = 0.3
"""Of the LeakyReLU on its negative side."""


@dataclass(frozen=True)
class Conv(TrunkAndHeads):
    """A convolutional encoder for patches; the querier decodes it to one score a patch.

    Each pair of `channels` is two 3x3 convolutions followed by pooling; the decoder goes the same way back. The
    querier's scores are the sum of a local term, read off the decoded map at each patch, and a global one.
    """

    channels: tuple[int, ...] = (32, 64, 128, 256)
    hidden: int = 512
    dropout: float = 0.0

    def trunk(self, query_set: QuerySet) -> nn.Module:
        return _Encoder(query_set.input_shape[0], self.channels)

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        query_set = need_patches(query_set, "Conv")
        _, height, width = query_set.image_shape
        n_poolings = (len(self.channels) + 1) // 2
        smallest = (height // 2**n_poolings) * (width // 2**n_poolings)
        if smallest == 0:
            raise ValueError(
                f"{len(self.channels)} convolutions pool {n_poolings} times, too often for "
                f"{height}x{width} pixels: use fewer channels."
            )
        n_features = self.channels[-1] * smallest

        def dense(n_outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Flatten(), *dense_layers(n_features, (self.hidden,), self.dropout), nn.Linear(self.hidden, n_outputs)
            )

        return _PatchScores(query_set, self.channels, dense(len(query_set))), _Last(dense(n_classes))


@dataclass(frozen=True)
class PaperConv(TrunkAndHeads):
    """The paper's networks for MNIST, KMNIST and Fashion-MNIST, layer by layer as they were released.

    They are for 28x28 pixels and 3x3 patches at stride 1. The encoder pads nothing; the decoder enlarges its map by
    repeating the nearest cell and pads to keep the new size. Biases that a BatchNorm would take away again are left
    out. The paper's input has no mask channel: give PatchQueries mask=False for that.
    """

    def trunk(self, query_set: QuerySet) -> nn.Module:
        return nn.Sequential(
            _convolution(query_set.input_shape[0], 32, padding=0),  # 26x26
            _convolution(32, 64, padding=0),  # 24x24
            nn.MaxPool2d(2),
            _convolution(64, 128, padding=0),  # 10x10
            _convolution(128, 256, padding=0),  # 8x8
            nn.MaxPool2d(2),
        )

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        query_set = need_patches(query_set, "PaperConv")
        _, height, width = query_set.image_shape
        if (height, width, query_set.size, query_set.stride) != (28, 28, 3, 1):
            raise ValueError(
                "PaperConv is for images of 28x28 pixels with 3x3 patches at stride 1, not for "
                f"{height}x{width} pixels with {query_set.size}x{query_set.size} patches at stride {query_set.stride}: "
                "use Conv, which suits any."
            )
        querier = nn.Sequential(
            _enlarged(8, 256, 256),
            nn.Upsample(10),
            _convolution(256, 128),
            nn.Upsample(12),
            _convolution(128, 64),
            _enlarged(24, 64, 64),
            nn.Upsample(26),
            _convolution(64, 32),
            nn.Conv2d(32, 1, 1),
            nn.Flatten(),
        )
        classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(256 * 4 * 4, 512, bias=False),
            nn.BatchNorm1d(512),
            nn.LeakyReLU(SLOPE),
            nn.Linear(512, n_classes),
        )
        return querier, classifier


def _convolution(n_inputs: int, n_outputs: int, padding: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(n_inputs, n_outputs, 3, padding=padding, bias=False), nn.BatchNorm2d(n_outputs), nn.LeakyReLU(SLOPE)
    )


def _enlarged(size: int, n_inputs: int, n_outputs: int) -> nn.Module:
    """What undoes a pooling: a map twice as large, convolved without BatchNorm."""
    return nn.Sequential(nn.Upsample(size), nn.Conv2d(n_inputs, n_outputs, 3, padding=1), nn.LeakyReLU(SLOPE))


class _Encoder(nn.Module):
    """Convolutions with pooling after every second one; gives the maps before each pooling and the last pooled one."""

    def __init__(self, n_inputs: int, channels: tuple[int, ...]):
        super().__init__()
        sizes = [n_inputs, *channels]
        convolutions = [_convolution(a, b) for a, b in pairwise(sizes)]
        self.blocks = nn.ModuleList(nn.Sequential(*convolutions[i : i + 2]) for i in range(0, len(convolutions), 2))

    def forward(self, image: Tensor) -> list[Tensor]:
        maps = []
        for block in self.blocks:
            maps.append(block(image))
            image = F.max_pool2d(maps[-1], 2)
        return [*maps, image]


class _Last(nn.Module):
    """A head that reads the last of the encoder's maps."""

    def __init__(self, head: nn.Module):
        super().__init__()
        self.head = head

    def forward(self, maps: list[Tensor]) -> Tensor:
        return self.head(maps[-1])


class _PatchScores(nn.Module):
    """Decodes the encoder's maps to one score a patch."""

    def __init__(self, query_set: PatchQueries, channels: tuple[int, ...], overall: nn.Module):
        super().__init__()
        deep = [block[-1] for block in (channels[i : i + 2] for i in range(0, len(channels), 2))]
        # Made narrow before it is enlarged: the convolution of the large map is what costs.
        self.narrow = nn.ModuleList(_convolution(below, here) for here, below in pairwise(deep))
        self.join = nn.ModuleList(_convolution(2 * here, here) for here in deep[:-1])
        # A patch's score is read off all the pixels the patch covers.
        self.local = nn.Conv2d(deep[0], 1, query_set.size, stride=query_set.stride)
        self.overall = overall

    def forward(self, maps: list[Tensor]) -> Tensor:
        decoded = maps[-2]
        for skip, narrow, join in zip(maps[-3::-1], reversed(self.narrow), reversed(self.join), strict=True):
            enlarged = F.interpolate(narrow(decoded), size=skip.shape[2:], mode="nearest")
            decoded = join(torch.cat([enlarged, skip], dim=1))
        return self.local(decoded).flatten(1) + self.overall(maps[-1])
