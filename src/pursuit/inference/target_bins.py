"""A number as what is to be predicted: bins of it are the labels, and a belief over bins is a distribution of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from pursuit.queries.scaling import round_edges, rounded_outward
from pursuit.registry import register

COVERAGE = 0.9
"""Of the intervals that are shown."""
MOST_DECIMALS = 12
STEPS = 8
"""Between as many and one quantiles of its rows a bin is described by."""
ROUND_STEPS = 100
"""The ends of the range are round: in steps of at least this part of it, so that intervals hardly widen."""


@register
@dataclass(frozen=True)
class TargetBins(Sequence[str]):
    """Bins of a number, from low to high, and how the training rows lie in each. As labels, they are texts such as
    "80 to 96".

    A belief (B, C) over the bins is a distribution of the number: its quantiles are those of the rows within bins.
    """

    points: tuple[tuple[float, ...], ...]  # (C, K + 1) quantiles of the rows of each bin, the lowest row to the highest
    means: tuple[float, ...]  # (C,)
    spread: float
    """The standard deviation of all rows."""

    def __post_init__(self) -> None:
        lengths = {len(own) for own in self.points}
        numbers = [self.spread, *self.means, *(number for own in self.points for number in own)]
        if (
            len(self.points) != len(self.means)
            or len(lengths) != 1
            or min(lengths) < 2
            or not all(map(math.isfinite, numbers))
        ):
            raise ValueError("The bins of a number have as many finite points each, two at least, and a mean.")

    @classmethod
    def of(cls, y: np.ndarray, n_bins: int, weight: np.ndarray | None = None) -> "TargetBins":
        """Up to `n_bins` bins with about as many of the rows each; equal numbers are in one bin. Rows may have a
        `weight` (N,) above 0: as how many each of them counts."""
        if n_bins < 2:
            raise ValueError(f"A number is divided into at least 2 bins, not {n_bins}.")
        values, place = np.unique(y, return_inverse=True)
        counts = np.bincount(place, weight)
        if len(values) <= n_bins:
            code = np.arange(len(values))
        else:
            middle = counts.cumsum() - counts / 2  # of equal rows, the middle one decides
            _, code = np.unique((middle / counts.sum() * n_bins).astype(int), return_inverse=True)
        parts = [(values[code == i], counts[code == i]) for i in range(code.max() + 1)]
        mean = np.average(values, weights=counts)
        points = [_quantiles(*part) for part in parts]
        if len(values) > n_bins:  # of a few values, each is that of many rows, as is that of a bin of its own
            flat = np.unique(np.concatenate(points))
            near = dict(zip(flat.tolist(), round_edges(flat, tuple(own[0] for own in points)).tolist(), strict=True))
            points = [own if own[0] == own[-1] else tuple(near[point] for point in own) for own in points]
            low, high = rounded_outward(float(values[0]), float(values[-1]), ROUND_STEPS)
            points[0], points[-1] = (low, *points[0][1:]), (*points[-1][:-1], high)
        return cls(
            points=tuple(points),
            means=tuple(float(np.average(own, weights=n)) for own, n in parts),
            spread=float(np.sqrt(np.average((values - mean) ** 2, weights=counts))),
        )

    def __len__(self) -> int:
        return len(self.means)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._texts[index]

    @cached_property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """The lowest and the highest row of each bin, in words."""
        for decimals in range(self.decimals, MOST_DECIMALS):  # more of them until no two bins read the same
            pairs = tuple((_rounded(own[0], decimals), _rounded(own[-1], decimals)) for own in self.points)
            if len(set(pairs)) == len(pairs):
                return pairs
        return tuple((repr(own[0]), repr(own[-1])) for own in self.points)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(low if low == high else f"{low} to {high}" for low, high in self.ends)

    @cached_property
    def edges(self) -> np.ndarray:
        """What divides the bins: (C - 1,), half-way between the rows on either side."""
        points = np.array(self.points)
        return (points[:-1, -1] + points[1:, 0]) / 2

    def codes(self, y: np.ndarray) -> np.ndarray:
        """The bin of each number (N,); what lies outside of all belongs to the first or the last."""
        return np.searchsorted(self.edges, np.asarray(y, dtype=float)).astype(np.int64)

    def mean(self, posterior: Tensor) -> Tensor:
        """The expected number (B,) at a belief (B, C)."""
        p = _precise(posterior)
        return p @ torch.tensor(self.means, dtype=p.dtype, device=p.device)

    def quantiles(self, posterior: Tensor, levels: Sequence[float]) -> Tensor:
        """The numbers (B, L) that lie above the share `levels` (L,) of the distribution."""
        p = _precise(posterior)
        points = torch.tensor(self.points, dtype=p.dtype, device=p.device)  # (C, K + 1)
        p = p / p.sum(dim=1, keepdim=True)
        reached = p.cumsum(dim=1)
        level = torch.tensor(levels, dtype=p.dtype, device=p.device).expand(len(p), len(levels)).contiguous()
        code = torch.searchsorted(reached, level).clamp(max=len(self) - 1)  # (B, L)
        own = p.gather(1, code).clamp(min=torch.finfo(p.dtype).tiny)
        share = ((level - reached.gather(1, code) + own) / own).clamp(0, 1) * (points.shape[1] - 1)
        step = share.long().clamp(max=points.shape[1] - 2)
        low, high = points[code, step], points[code, step + 1]
        return low + (share - step) * (high - low)

    def interval(self, posterior: Tensor, coverage: float = COVERAGE) -> Tensor:
        """Between which numbers (B, 2) the share `coverage` of the distribution lies, with as much on either side."""
        check_coverage(coverage)
        return self.quantiles(posterior, [(1 - coverage) / 2, (1 + coverage) / 2])

    def kernel(self, neighbours: float) -> Tensor | None:
        """How much a row of each bin counts for the others (C, C): a normal curve whose deviation is `neighbours` bins.
        A bin of a single number has no neighbours. None where no bin has any."""
        points = torch.tensor(self.points)
        is_single = points[:, 0] == points[:, -1]
        if not neighbours or is_single.all():
            return None
        place = torch.arange(len(self)).float()
        share = torch.exp(-(((place[:, None] - place) / neighbours) ** 2) / 2)
        share = torch.where(is_single[:, None] | is_single, torch.eye(len(self)), share)
        return share / share.sum(dim=1, keepdim=True)

    @property
    def decimals(self) -> int:
        """How many decimals a person wants to see."""
        return max(0, 1 - math.floor(math.log10(self.spread))) if self.spread > 0 else 0

    def text(self, number: float) -> str:
        return _rounded(number, self.decimals)

    def belief(self, posterior: Tensor) -> str:
        """A belief (C,) in words: "about 152 (90%: 80 to 240)"."""
        low, high = (self.text(edge) for edge in self.interval(posterior[None])[0].tolist())
        return f"about {self.text(float(self.mean(posterior[None])))} ({COVERAGE:.0%}: {low} to {high})"


def _rounded(number: float, decimals: int) -> str:
    return f"{round(number, decimals) + 0.0:.{decimals}f}"  # adding zero makes -0.0 zero


def _precise(posterior: Tensor) -> Tensor:
    """In double precision where the device has it: Apple's GPUs have not."""
    return posterior.float() if posterior.device.type == "mps" else posterior.double()


def check_coverage(coverage: float) -> None:
    if not 0 < coverage < 1:
        raise ValueError(f"The coverage of an interval is a share between 0 and 1, as 0.9, not {coverage}.")


def _quantiles(values: np.ndarray, counts: np.ndarray) -> tuple[float, ...]:
    """Those of different values, rising, each with its count."""
    middle = counts.cumsum() - counts / 2
    span = middle[-1] - middle[0]
    place = (middle - middle[0]) / span if span else np.zeros(1)
    return tuple(np.interp(np.linspace(0, 1, STEPS + 1), place, values).tolist())


def target_of(pursuer: Any) -> TargetBins | None:
    """What a pursuer predicts a number by; None if it predicts classes."""
    return pursuer.classes if isinstance(pursuer.classes, TargetBins) else None
