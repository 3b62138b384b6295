"""Convolutional networks for patches of small pictures: our own, and the paper's for MNIST and its kin."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.networks.dense import dense_layers
from pursuit.networks.settings import TrunkAndHeads, check_sizes, need_patches
from pursuit.queries import PatchGrid, QuerySet
from pursuit.registry import register

SLOPE = 0.3
"""Of the LeakyReLU on its negative side."""


@register
@dataclass(frozen=True)
class Conv(TrunkAndHeads):
    """A convolutional encoder for patches; the querier decodes it to one score a patch.

    Each pair of `channels` is two 3x3 convolutions followed by pooling; the decoder goes the same way back. The
    querier's scores are the sum of a local term, read off the decoded map at each patch, and a global one.
    """

    channels: tuple[int, ...] = (32, 64, 128, 256)
    hidden: int = 512
    dropout: float = 0.0
    padded: bool = True
    """Whether maps keep their size in a convolution. Without padding, as in the paper, 28x28 pixels take half the
    operations."""

    def __post_init__(self) -> None:
        check_sizes(self, "channels", "hidden")

    def trunk(self, query_set: QuerySet) -> nn.Module:
        return _Encoder(query_set.input_shape[0], self.channels, self.padded)

    def heads(self, query_set: QuerySet, n_classes: int) -> tuple[nn.Module, nn.Module]:
        patches = need_patches(query_set, "Conv")
        _, height, width = patches.image_shape
        smallest = self._smallest_side(height) * self._smallest_side(width)
        if smallest == 0:
            raise ValueError(
                f"{len(self.channels)} convolutions {'' if self.padded else 'without padding '}with their poolings are "
                f"too many for {height}x{width} pixels: use fewer channels."
            )
        n_features = self.channels[-1] * smallest

        def dense(n_outputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Flatten(), *dense_layers(n_features, (self.hidden,), self.dropout), nn.Linear(self.hidden, n_outputs)
            )

        return _PatchScores(patches, self.channels, dense(len(query_set))), _Last(dense(n_classes))

    def _smallest_side(self, pixels: int) -> int:
        """The side of the last map after all convolutions and poolings, 0 where nothing is left."""
        for i in range(0, len(self.channels), 2):
            n_convolutions = len(self.channels[i : i + 2])
            pixels = (pixels if self.padded else max(0, pixels - 2 * n_convolutions)) // 2
        return pixels


@register
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
        patches = need_patches(query_set, "PaperConv")
        _, height, width = patches.image_shape
        if (height, width, patches.size, patches.stride) != (28, 28, 3, 1):
            raise ValueError(
                "PaperConv is for images of 28x28 pixels with 3x3 patches at stride 1, not for "
                f"{height}x{width} pixels with {patches.size}x{patches.size} patches at stride {patches.stride}: "
                "use Conv, which suits any."
            )
        querier = nn.Sequential(
            _enlarged(8, 256, 256),
            _Enlarge(10),
            _convolution(256, 128),
            _Enlarge(12),
            _convolution(128, 64),
            _enlarged(24, 64, 64),
            _Enlarge(26),
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
    return nn.Sequential(_Enlarge(size), nn.Conv2d(n_inputs, n_outputs, 3, padding=1), nn.LeakyReLU(SLOPE))


def enlarge(image: Tensor, size: tuple[int, int]) -> Tensor:
    """An image (B, C, H, W) with its pixels repeated to fill `size`, the nearest one for each place."""
    if torch.compiler.is_compiling():
        return _Repeated.apply(image, size)
    return F.interpolate(image, size=size, mode="nearest")


class _Repeated(torch.autograd.Function):
    """Nearest pixels whose gradient is gathered from the copies of each, which compiles to far faster code than the
    scattered additions of torch's own."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, size: tuple[int, int]) -> Tensor:
        ctx.shape = image.shape[2:]
        return F.interpolate(image, size=size, mode="nearest")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        for dim, n_pixels in ((2, ctx.shape[0]), (3, ctx.shape[1])):
            grad = _added_up(grad, dim, n_pixels)
        return grad, None


def _added_up(grad: Tensor, dim: int, n_pixels: int) -> Tensor:
    """The sum over the copies of each pixel: copy i is of pixel floor(i n_pixels / n_copies)."""
    n_copies = grad.shape[dim]
    edges = -((-torch.arange(n_pixels + 1, device=grad.device) * n_copies) // n_pixels)  # rounded up
    first, beyond = edges[:-1], edges[1:]
    shape = [1] * grad.dim()
    shape[dim] = n_pixels
    total = grad.index_select(dim, first)
    for i in range(1, -(-n_copies // n_pixels)):
        copy = first + i
        total = total + grad.index_select(dim, copy.clamp(max=n_copies - 1)) * (copy < beyond).view(shape)
    return total


def _padded_to(image: Tensor, height: int, width: int) -> Tensor:
    """The image with zeros all around, where convolutions without padding have taken its edges away."""
    top, left = (height - image.shape[2]) // 2, (width - image.shape[3]) // 2
    if not top and not left and image.shape[2:] == (height, width):
        return image
    return F.pad(image, (left, width - image.shape[3] - left, top, height - image.shape[2] - top))


class _Enlarge(nn.Module):
    def __init__(self, side: int):
        super().__init__()
        self.side = side

    def forward(self, image: Tensor) -> Tensor:
        return enlarge(image, (self.side, self.side))


class _Encoder(nn.Module):
    """Convolutions with pooling after every second one; gives the maps before each pooling and the last pooled one."""

    def __init__(self, n_inputs: int, channels: tuple[int, ...], padded: bool):
        super().__init__()
        sizes = [n_inputs, *channels]
        convolutions = [_convolution(a, b, padding=int(padded)) for a, b in pairwise(sizes)]
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

    def __init__(self, patches: PatchGrid, channels: tuple[int, ...], overall: nn.Module):
        super().__init__()
        deep = [block[-1] for block in (channels[i : i + 2] for i in range(0, len(channels), 2))]
        # Made narrow before it is enlarged: the convolution of the large map is what costs.
        self.narrow = nn.ModuleList(_convolution(below, here) for here, below in pairwise(deep))
        self.join = nn.ModuleList(_convolution(2 * here, here) for here in deep[:-1])
        # A patch's score is read off all the pixels the patch covers.
        self.local = nn.Conv2d(deep[0], 1, patches.size, stride=patches.stride)
        self.overall = overall
        self.image_size = patches.image_shape[1:]

    def forward(self, maps: list[Tensor]) -> Tensor:
        decoded = maps[-2]
        for skip, narrow, join in zip(maps[-3::-1], reversed(self.narrow), reversed(self.join), strict=True):
            height, width = skip.shape[2:]
            pooled = _padded_to(narrow(decoded), height // 2, width // 2)
            decoded = join(torch.cat([enlarge(pooled, (height, width)), skip], dim=1))
        decoded = _padded_to(decoded, *self.image_size)
        return self.local(decoded).flatten(1) + self.overall(maps[-1])
