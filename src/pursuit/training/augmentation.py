"""Augmentation: images are shifted and mirrored at random each time a row comes up in training."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.registry import register
from pursuit.training.rows import Rows, RowStream


@register
@dataclass(frozen=True)
class Shifts:
    """Moves every image by up to `pixels` up or down and left or right; `mirror` flips half of them left to right."""

    pixels: int
    mirror: bool = False
    edge: Literal["dark", "reflect"] = "dark"
    """What comes in from beyond the edge: the lowest brightness, or the image mirrored."""

    def __post_init__(self) -> None:
        if self.pixels < 0 or not (self.pixels or self.mirror):
            raise ValueError(
                f"Shifts move by at least one pixel or mirror, not by {self.pixels} with mirror={self.mirror}."
            )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Images (B, C, H, W) in answer space (dark is -1), each moved at random."""
        if x.dim() != 4:
            raise ValueError(f"Only images can be shifted, not answers of shape {tuple(x.shape[1:])}.")
        n_rows, channels, height, width = x.shape
        margin = (self.pixels,) * 4
        padded = F.pad(x, margin, value=-1.0) if self.edge == "dark" else F.pad(x, margin, mode="reflect")

        def draw(high: int) -> Tensor:
            return torch.randint(high, (n_rows, 1), generator=generator, device=x.device)

        down, right = draw(2 * self.pixels + 1), draw(2 * self.pixels + 1)
        column = torch.arange(width, device=x.device).expand(n_rows, width)
        if self.mirror:
            column = torch.where(draw(2) == 1, width - 1 - column, column)
        row = torch.arange(height, device=x.device) + down  # (B, H)
        place = row[:, :, None] * padded.shape[3] + (column + right)[:, None, :]  # (B, H, W) in the padded image
        moved = padded.flatten(2).gather(2, place.view(n_rows, 1, -1).expand(-1, channels, -1))
        return moved.view_as(x)


class AugmentedRows(RowStream):
    """A stream whose images are augmented as they come."""

    def __init__(self, stream: RowStream, augment: Shifts, generator: torch.Generator):
        self.stream, self.augment, self.generator, self.n_queries = stream, augment, generator, stream.n_queries

    def prepare(self, n: int) -> None:
        self.stream.prepare(n)

    def take(self, n: int) -> Rows:
        rows = self.stream.take(n)
        return replace(rows, x=self.augment(rows.x, self.generator)) if n else rows

    def state(self) -> dict[str, Tensor]:
        return self.stream.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.stream.load_state(state)
