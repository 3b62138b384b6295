"""Made images whose concepts are plain to see, and a small network that can learn them."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.research.concepts import ConceptNetwork


class Coloured(NamedTuple):
    images: Tensor  # (N, 3, 16, 16) bytes
    targets: Tensor  # (N, 3): much red, much green, much blue
    labels: np.ndarray  # (N,) which of the eight combinations


def make_coloured(n: int = 240, seed: int = 0, wrong: float = 0.0) -> Coloured:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 8
    shown = (labels[:, None] >> torch.arange(3)) & 1  # (N, 3)
    light = shown * 90 + 60 + torch.randint(0, 40, (n, 3), generator=generator)
    noise = torch.randint(-30, 30, (n, 3, 16, 16), generator=generator)
    slips = torch.rand(n, 3, generator=generator) < wrong
    targets = torch.where(slips, 1 - shown, shown).float()
    return Coloured((light[:, :, None, None] + noise).clamp(0, 255).to(torch.uint8), targets, labels.numpy())


def build() -> ConceptNetwork:
    backbone = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU())
    return ConceptNetwork(backbone, 16, 3, dropout=0.0)
