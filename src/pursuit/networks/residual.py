"""A fast residual network for small photos."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pursuit.networks.settings import MOST_UNITS, NetworkSettings, need_patches
from pursuit.queries import PatchGrid, QuerySet
from pursuit.registry import register

CELL = 4
"""The body pools twice: a cell of its last map stands for this many pixels each way."""
CHANNELS = (64, 128, 256, 512)
"""Of a body of width 1."""


@register
@dataclass(frozen=True)
class Residual(NetworkSettings):
    """Four 3x3 convolutions and three residual blocks, ending in a quarter of the image's height and width.

    The widths are multiples of 64, 128, 256 and 512 channels. The querier can be much narrower than the classifier; it
    scores a patch by the cells of its last map that the patch lies on, plus a global term.
    """

    classifier_width: float = 1.5
    querier_width: float = 0.75
    mirrored: bool = False
    """Whether the belief, once training is over, is the mean of those about the image and about its mirror image, for
    twice the time."""

    def __post_init__(self) -> None:
        for name, width in (("classifier_width", self.classifier_width), ("querier_width", self.querier_width)):
            if not 1 / CHANNELS[0] <= width <= MOST_UNITS / CHANNELS[-1]:
                most = MOST_UNITS // CHANNELS[-1]
                raise ValueError(f"Residual needs a {name} of 1/{CHANNELS[0]} to {most}, not {width}.")

    @staticmethod
    def suits(query_set: QuerySet) -> bool:
        """Whether the patches lie on the cells of the last map such that each can be scored."""
        return query_set.patches is not None and _window(query_set.patches) is not None

    def build(self, query_set: QuerySet, n_classes: int, shared: bool) -> tuple[nn.Module, nn.Module]:
        patches = need_patches(query_set, "Residual", smallest=CELL)
        window = _window(patches)
        if window is None:
            _, height, width = patches.image_shape
            raise ValueError(
                f"Residual cannot score {patches.size}x{patches.size} patches at stride {patches.stride} on "
                f"{height}x{width} pixels: choose a stride that is a multiple of {CELL} and patches that fill the "
                "image, or use Conv, which suits any."
            )
        if shared and self.classifier_width != self.querier_width:
            raise ValueError(
                "Residual networks of different widths cannot share a trunk: use shared=False, or give "
                "classifier_width and querier_width the same value."
            )
        n_channels = _channels(self.querier_width)[-1]
        trunk = _body(query_set.input_shape[0], self.querier_width)
        other = trunk if shared else _body(query_set.input_shape[0], self.classifier_width)
        querier_head = _LocalAndGlobalScores(n_channels, *window, n_queries=len(query_set))
        classifier_head = _MeanAndMaxLinear(_channels(self.classifier_width)[-1], n_classes)
        classifier = _MirrorAveraged if self.mirrored else nn.Sequential
        return nn.Sequential(trunk, querier_head), classifier(other, classifier_head)


def _window(patches: PatchGrid) -> tuple[int, int] | None:
    """Kernel and stride, in cells of the last map, of the convolution that gives exactly the grid of patches."""
    if patches.stride % CELL:
        return None
    kernel, stride = -(-patches.size // CELL), patches.stride // CELL
    cells = (side // CELL for side in patches.image_shape[1:])
    # A map that is too small gives a count below one, which no grid has.
    counts = tuple((n_cells - kernel) // stride + 1 for n_cells in cells)
    return (kernel, stride) if counts == patches.shape else None


def _channels(width: float) -> list[int]:
    return [int(width * channels) for channels in CHANNELS]


def _body(n_inputs: int, width: float) -> nn.Module:
    """From (B, inputs, height, width) to a map (B, 512 * width, height / 4, width / 4)."""
    first, second, third, fourth = _channels(width)
    return nn.Sequential(
        _convolution(n_inputs, first),
        _convolution(first, second),
        nn.MaxPool2d(2),
        _ResidualBlock(second),
        _convolution(second, third),
        nn.MaxPool2d(2),
        _ResidualBlock(third),
        _convolution(third, fourth),
        _ResidualBlock(fourth),
    )


def _convolution(n_inputs: int, n_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(n_inputs, n_outputs, 3, padding=1, bias=False), nn.BatchNorm2d(n_outputs), nn.GELU())


class _ResidualBlock(nn.Module):
    """Two convolutions whose outcome is added to their input."""

    def __init__(self, n_channels: int):
        super().__init__()
        self.change = nn.Sequential(_convolution(n_channels, n_channels), _convolution(n_channels, n_channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.change(x)


class _MeanAndMaxLinear(nn.Module):
    """Label logits from the mean and the maximum of every channel."""

    def __init__(self, n_channels: int, n_classes: int):
        super().__init__()
        self.linear = nn.Linear(2 * n_channels, n_classes)

    def forward(self, cells: Tensor) -> Tensor:  # (B, channels, height, width)
        return self.linear(torch.cat([cells.mean(dim=(2, 3)), cells.amax(dim=(2, 3))], dim=1))


class _MirrorAveraged(nn.Sequential):
    """Once training is over, it believes the mean of what it makes of an image and of its mirror image."""

    def forward(self, encoded: Tensor) -> Tensor:  # (B, channels, height, width)
        logits: Tensor = super().forward(encoded)
        if self.training:
            return logits
        of_mirror = super().forward(encoded.flip(3))
        return torch.logaddexp(logits.log_softmax(dim=1), of_mirror.log_softmax(dim=1)) - math.log(2)


class _LocalAndGlobalScores(nn.Module):
    """A score a patch: what its own cells say, plus what the mean over all cells says of it."""

    def __init__(self, n_channels: int, kernel: int, stride: int, n_queries: int):
        super().__init__()
        # The global term has a bias for every query already.
        self.local = nn.Conv2d(n_channels, 1, kernel, stride=stride, bias=False)
        self.overall = nn.Linear(n_channels, n_queries)

    def forward(self, cells: Tensor) -> Tensor:  # (B, channels, height, width)
        return self.local(cells).flatten(1) + self.overall(cells.mean(dim=(2, 3)))
