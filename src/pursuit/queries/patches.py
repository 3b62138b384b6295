"""Image patches as queries: to ask for a patch is to see its pixels."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.queries.column import Query
from pursuit.queries.query_set import Answers, FeatureType, PatchGrid, QuerySet, Units
from pursuit.registry import register

SHADES = " ░▒▓█"
MOST_PATCHES, MOST_VALUES, MOST_SHOWN = 200_000, 50_000_000, 2**25
"""Of an image: more can neither be shown to a person nor learnt."""
MOST_PIXEL = 1e9
"""The largest absolute value of a pixel: answers are 32-bit floats."""
WORDED_PIXELS = 9
"""Up to this many pixels an answer is written pixel by pixel; above it, as mean brightness."""


class PixelUnits(Units):
    """The pixels of an image as units, by products of small matrices instead of a table of all patches' pixels."""

    are_own = False  # even where a patch is a single pixel: images are read as images
    rows_covered: Tensor
    columns_covered: Tensor

    def __init__(self, of_feature: Tensor, of_query: Tensor, types: tuple[FeatureType, ...], patches: PatchGrid):
        super().__init__(of_feature, of_query, types)
        self.image_shape, self.grid = patches.image_shape, patches.shape
        # Which rows of pixels each row of patches lies on (grid height, H), and the same for columns (grid width, W)
        for name, n_patches, n_pixels in zip(
            ("rows_covered", "columns_covered"), self.grid, self.image_shape[1:], strict=True
        ):
            first, pixel = patches.stride * torch.arange(n_patches)[:, None], torch.arange(n_pixels)
            covered = (pixel >= first) & (pixel < first + patches.size)
            self.register_buffer(name, covered.float(), persistent=False)

    def cover(self, patches: Tensor) -> Tensor:
        """How many of the patches (B, Q) lie on each pixel: (B, 1, H, W)."""
        across = patches.view(len(patches), *self.grid) @ self.columns_covered.to(patches.dtype)  # (B, grid height, W)
        return (self.rows_covered.T.to(patches.dtype) @ across).to(patches.dtype)[:, None]

    def known(self, known: Tensor) -> Tensor:
        seen = self.cover(known.float()) > 0  # (B, 1, H, W)
        return seen.expand(-1, self.image_shape[0], -1, -1).flatten(1)

    def sum(self, values: Tensor) -> Tensor:
        by_pixel = values.view(len(values), *self.image_shape).sum(dim=1)  # (B, H, W)
        rows, columns = self.rows_covered.to(values.dtype), self.columns_covered.to(values.dtype)
        return (rows @ by_pixel @ columns.T).flatten(1)


@register
class PatchQueries(QuerySet):
    """All patches of `size` x `size` pixels at steps of `stride` of a (channels, height, width) image.

    Pixels between `low` and `high` are scaled to -1..1; with a `threshold`, they become 1 from there on and -1 below.
    With `mask`, a last input channel says which pixels are known, so that a pixel of medium brightness is not mistaken
    for an unknown one. `costs` go patch by patch, row after row; by default each is 1.
    """

    patches: PatchGrid

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        size: int,
        stride: int = 1,
        low: float = 0.0,
        high: float = 1.0,
        mask: bool = True,
        threshold: float | None = None,
        costs: Sequence[float] | None = None,
    ):
        super().__init__()
        if len(image_shape) != 3:
            raise ValueError(
                f"An image shape is (channels, height, width), as in (1, 28, 28), not {tuple(image_shape)}."
            )
        channels, height, width = image_shape
        if size != int(size) or stride != int(stride) or size < 1:
            raise ValueError(
                f"Size and stride of patches are whole numbers of pixels, at least 1, not {size} and {stride}."
            )
        if size > min(height, width):
            raise ValueError(
                f"A patch of {size}x{size} pixels does not fit an image of {height}x{width}: choose a smaller size."
            )
        if stride < 1:
            raise ValueError(f"The stride between patches must be at least 1, not {stride}.")
        if not -MOST_PIXEL <= low < high <= MOST_PIXEL:
            raise ValueError(
                f"Pixels must range from low to a larger high, within ±{MOST_PIXEL:g}, not from {low} to {high}."
            )
        if threshold is not None and not low < threshold <= high:
            raise ValueError(
                f"The threshold between dark and bright lies between {low} and {high}, not at {threshold}."
            )
        self.patches = PatchGrid((channels, height, width), size, stride)
        n_patches = self.patches.shape[0] * self.patches.shape[1]
        n_shown = n_patches * channels * size * size
        if n_patches > MOST_PATCHES or channels * height * width > MOST_VALUES or n_shown > MOST_SHOWN:
            raise ValueError(
                f"An image of {channels}x{height}x{width} with {n_patches:,} patches is too large to be asked for by "
                "patches: make it smaller, or choose a larger stride."
            )
        self.image_shape, self.grid = self.patches.image_shape, self.patches.shape
        self.low, self.high, self.mask, self.threshold = float(low), float(high), mask, threshold
        self.pixel_range = self.low, self.high
        self.answer_shape = self.image_shape
        self.input_shape = (channels + mask, height, width)
        if costs is not None and len(costs) != n_patches:
            raise ValueError(f"costs has {len(costs)} numbers, but there are {n_patches} patches: give one for each.")
        corners = list(product(range(0, height - size + 1, stride), range(0, width - size + 1, stride)))
        of_feature = torch.arange(channels * height * width)
        feature_type: FeatureType = "share" if threshold is None else "yes_no"
        types = (feature_type,) * len(of_feature)
        self._units: PixelUnits = PixelUnits(of_feature, self._pixels_of_patches(corners), types, self.patches)
        self.queries = tuple(
            Query(
                f"patch {row},{column}",
                f"What is in the {size}x{size} patch at row {row}, column {column}?",
                cost=1.0 if costs is None else costs[query],
            )
            for query, (row, column) in enumerate(corners)
        )

    def _pixels_of_patches(self, upper_left: list[tuple[int, int]]) -> Tensor:
        """Where the pixels of every patch lie in a flattened image: (Q, channels * size * size)."""
        (channels, height, width), side = self.image_shape, torch.arange(self.patches.size)
        corners = torch.tensor(upper_left)
        rows, columns = corners[:, :1] + side, corners[:, 1:] + side  # (Q, size) each
        pixels = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)
        return (torch.arange(channels)[:, None] * height * width + pixels[:, None]).flatten(1)

    def answers(self, data: Any) -> Answers:
        """Read images (N, C, H, W), (N, H, W) or flattened (N, C*H*W)."""
        images = np.asarray(data, dtype=np.float32)
        n_values = int(np.prod(self.image_shape))
        shapes = [self.image_shape, (n_values,)] + [self.image_shape[1:]] * (self.image_shape[0] == 1)
        if images.shape[1:] not in shapes:
            raise ValueError(
                f"Images of shape {self.image_shape} are expected, {n_values} values a row, but the "
                f"data have shape {images.shape}."
            )
        if len(images) == 0:
            raise ValueError("There are no images: at least one row is needed.")
        if not np.isfinite(images).all():
            raise ValueError("Some pixels are missing or infinite: replace them or leave these images out.")
        if images.min() < self.low or images.max() > self.high:
            raise ValueError(
                f"Pixels range from {images.min():g} to {images.max():g}, but the query set was made for {self.low:g} "
                f"to {self.high:g}: give PatchQueries the low and high of your images."
            )
        x = self._scaled(torch.from_numpy(images.reshape(-1, *self.image_shape)))
        return Answers(x, torch.ones(len(x), len(self), dtype=torch.bool))

    def _scaled(self, pixels: Tensor) -> Tensor:
        """Pixel values in answer space."""
        if self.threshold is not None:
            return (pixels >= self.threshold).to(pixels.dtype) * 2 - 1
        return (pixels - self.low) * (2 / (self.high - self.low)) - 1

    def pixels(self, known: Tensor) -> Tensor:
        """Which pixels are seen once the patches `known` (B, Q) are: (B, 1, H, W), 0 or 1.

        Patches overlap, and a pixel seen twice is seen. So a patch gets its gradient from the pixels that no other
        known patch shows: those not seen at all if it is not known itself, those seen by it alone if it is.
        """
        times_seen = self._units.cover(known.detach())
        seen = times_seen.clamp(max=1)
        if not known.requires_grad:
            return seen
        is_known = known.detach() > 0
        alone, new = (self._units.cover(known * chosen) for chosen in (is_known, ~is_known))
        slope = alone * (times_seen == 1) + new * (times_seen == 0)
        return seen + (slope - slope.detach())

    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        seen = self.pixels(known.to(x.dtype))  # (B, 1, H, W)
        return torch.cat([x * seen, seen], dim=1) if self.mask else x * seen

    def encode_partly(self, x: Tensor, known: Tensor, shares: Tensor) -> Tensor:
        """Of a pixel that no known patch shows, as much is seen as all patches on it have together."""
        seen = (self.pixels(known) + self._units.cover(shares)).clamp(max=1)  # (B, 1, H, W)
        return torch.cat([x * seen, seen], dim=1) if self.mask else x * seen

    def reveal(self, encoded: Tensor, x: Tensor, query: Tensor, answered: Tensor) -> bool:
        (_, height, width), side = self.image_shape, torch.arange(self.patches.size, device=query.device)
        # Upper left pixels: (B,) each
        row, column = query // self.grid[1] * self.patches.stride, query % self.grid[1] * self.patches.stride
        place = ((row[:, None] + side)[:, :, None] * width + (column[:, None] + side)[:, None, :]).flatten(1)
        place = place[:, None].expand(-1, encoded.shape[1], -1)  # (B, input channels, size * size)
        pixels, new = encoded.view(*encoded.shape[:2], height * width), x.flatten(2)
        patch = new.gather(2, place[:, : x.shape[1]])
        if self.mask:
            patch = torch.cat([patch, torch.ones_like(patch[:, :1])], dim=1)
        pixels.scatter_(2, place, torch.where(answered[:, None, None], patch.to(pixels.dtype), pixels.gather(2, place)))
        return True

    def _patch(self, query: int, x: Tensor) -> Tensor:
        row, column = self.patches.corner(query)
        return x[:, row : row + self.patches.size, column : column + self.patches.size]

    def describe(self, query: int, x: Tensor) -> str:
        brightness = ((self._patch(query, x).mean(0) + 1) / 2).clamp(0, 1)  # (size, size)
        if brightness.numel() > WORDED_PIXELS:
            return f"brightness {brightness.mean():.2f}"
        return "/".join(
            "".join(SHADES[round(value * (len(SHADES) - 1))] for value in row) for row in brightness.tolist()
        )

    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        patch = self._patch(query, x)
        parts = answer.replace(",", " ").split() if isinstance(answer, str) else np.ravel(answer)
        try:
            values = torch.tensor([float(part) for part in parts], dtype=x.dtype)
        except (TypeError, ValueError):
            values = torch.empty(0)
        if values.numel() != patch.numel() or not ((values >= self.low) & (values <= self.high)).all():
            raise ValueError(
                f"The answer to '{self.queries[query].text}' is {patch.numel()} pixel values between "
                f"{self.low:g} and {self.high:g}, row by row, separated by spaces or commas."
            )
        patch.copy_(self._scaled(values).view_as(patch))

    def to_config(self) -> dict[str, Any]:
        return {
            "image_shape": list(self.image_shape),
            "size": self.patches.size,
            "stride": self.patches.stride,
            "low": self.low,
            "high": self.high,
            "mask": self.mask,
            "threshold": self.threshold,
            "costs": None if all(query.cost == 1 for query in self.queries) else [query.cost for query in self.queries],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PatchQueries":
        return cls(**{**config, "image_shape": tuple(config["image_shape"])})
