"""Training of concept networks, and answers for the training images by networks that did not see them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from pursuit.concepts.calibration import Calibration, fit_calibration
from pursuit.concepts.network import ConceptNetwork, as_floats, raw_logits

BACKBONE_SHARE = 0.25
"""The backbone's share of the learning rate: it comes trained, the linear layer on it does not."""
WARMUP = 0.05
"""Share of the steps in which the learning rate rises from zero."""
SMALLEST_CROP = 0.55
"""Least share of the image's area that a random crop shows; less would cut off the part a concept is about."""
JITTER = 0.15
"""Most that brightness, contrast and saturation change, in shares; more would make another colour of it."""


@dataclass(frozen=True)
class ConceptReport:
    """How the training of concept networks stands."""

    network: int
    """Which of the networks is trained, from 1."""
    n_networks: int
    epoch: int
    n_epochs: int
    loss: float


def train_concepts(
    network: ConceptNetwork,
    images: Tensor,
    targets: Tensor,
    *,
    epochs: int = 30,
    batch_size: int = 128,
    lr: float = 2e-3,
    weight_decay: float = 0.02,
    label_smoothing: float = 0.0,
    device: str = "cpu",
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
) -> ConceptNetwork:
    """Teach the network `targets` (N, Q), 0 or 1, from `images` (N, 3, H, W) of bytes, and give it back on `device`.

    It is not calibrated by that: see `calibrate`.
    """
    _check(network, images, targets)
    place = torch.device(device)
    n_steps = epochs * math.ceil(len(images) / batch_size)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        network.to(place).train()
        if place.type == "cuda":
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images, wanted = images.to(place), targets.to(place).float()
        wanted = wanted * (1 - label_smoothing) + label_smoothing / 2
        optimizer = _optimizer(network, lr, weight_decay)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(_share_of_rate, n_steps=n_steps))
        for epoch in range(epochs):
            total = torch.zeros((), device=place)
            for rows in torch.randperm(len(images), device=place).split(batch_size):
                shown = augment(images[rows], network.input_size)
                with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
                    logits = network.raw_logits(shown)
                loss = F.binary_cross_entropy_with_logits(logits, wanted[rows])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.detach() * len(rows)
            if on_report is not None:
                on_report(ConceptReport(1, 1, epoch + 1, epochs, float(total) / len(images)))
    return network.eval()


def _check(network: ConceptNetwork, images: Tensor, targets: Tensor) -> None:
    n_concepts = network.head.out_features
    if len(images) == 0 or targets.shape != (len(images), n_concepts):
        raise ValueError(
            f"One row of {n_concepts} targets for each image is expected, and at least one image, but there are "
            f"{len(images)} images and targets of shape {tuple(targets.shape)}."
        )
    if not ((targets == 0) | (targets == 1)).all():
        raise ValueError("Targets of concepts are 0 (no) or 1 (yes): round shares such as 60% first.")


def _optimizer(network: ConceptNetwork, lr: float, weight_decay: float) -> torch.optim.Optimizer:
    """AdamW with a lower rate for the backbone; biases and norms are not drawn to zero."""
    groups = []
    for part, share in ((network.backbone, BACKBONE_SHARE), (network.head, 1.0)):
        for is_matrix in (True, False):
            parameters = [p for p in part.parameters() if p.requires_grad and (p.ndim > 1) == is_matrix]
            decay = weight_decay if is_matrix else 0.0
            groups.append({"params": parameters, "lr": lr * share, "weight_decay": decay})
    return torch.optim.AdamW([group for group in groups if group["params"]], fused=True)


def _share_of_rate(step: int, n_steps: int) -> float:
    """A short rise, then half a cosine down to zero."""
    return min(1.0, (step + 1) / (WARMUP * n_steps + 1)) * 0.5 * (1 + math.cos(math.pi * step / n_steps))


def augment(images: Tensor, size: int | None = None) -> Tensor:
    """Random crops, mirror images and mild changes of light of (N, 3, H, W), as floats of `size` x `size` pixels."""
    n, height, width = len(images), *images.shape[2:]
    size_out = (height, width) if size is None else (size, size)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.empty(n, *shape, device=images.device).uniform_(low, high)

    side = uniform(SMALLEST_CROP, 1).sqrt()
    stretch = uniform(-0.15, 0.15).exp()
    extent = torch.stack([side * stretch, side / stretch], dim=1).clamp(max=1)  # (N, 2): width, height of the crop
    centre = (1 - extent) * uniform(-1, 1, 2)  # the image spans -1..1
    mirror = torch.where(torch.rand(n, device=images.device) < 0.5, -1.0, 1.0)
    theta = torch.zeros(n, 2, 3, device=images.device)
    theta[:, 0, 0], theta[:, 1, 1] = extent[:, 0] * mirror, extent[:, 1]
    theta[:, :, 2] = centre
    grid = F.affine_grid(theta, [n, 3, *size_out], align_corners=False)
    crops = F.grid_sample(as_floats(images), grid, padding_mode="border", align_corners=False)
    brightness, contrast, saturation = (uniform(1 - JITTER, 1 + JITTER, 1, 1, 1) for _ in range(3))
    crops = crops * brightness
    middle = crops.mean(dim=(1, 2, 3), keepdim=True)
    crops = middle + (crops - middle) * contrast
    grey = crops.mean(dim=1, keepdim=True)
    return (grey + (crops - grey) * saturation).clamp(0, 1)


def calibrate(network: ConceptNetwork, images: Tensor, targets: Tensor) -> ConceptNetwork:
    """Fit the network's calibration on images it was not trained on."""
    _check(network, images, targets)
    network.calibration = fit_calibration(raw_logits(network, images), targets)
    return network


class CrossFitted(NamedTuple):
    """Answers for images by networks that never saw them."""

    logits: Tensor  # (N, Q), before calibration
    calibration: Calibration  # fitted on all of them

    @property
    def probabilities(self) -> np.ndarray:
        return self.calibration(self.logits).sigmoid().numpy()


def cross_answers(
    build: Callable[[], ConceptNetwork],
    images: Tensor,
    targets: Tensor,
    labels: np.ndarray,
    *,
    folds: int = 5,
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
    **training: Any,
) -> CrossFitted:
    """Train a fresh network for each of `folds` parts of the images, on the others, and let it answer for that part.

    Every part has its share of each of the `labels` (N,). `training` goes to `train_concepts`.
    """
    logits = torch.zeros(targets.shape)
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels)
    for fold, (others, part) in enumerate(parts):
        report = _numbered(on_report, fold + 1, folds)
        rows = torch.from_numpy(others)
        network = fresh(build, seed + fold)
        train_concepts(network, images[rows], targets[rows], seed=seed + fold, on_report=report, **training)
        logits[part] = raw_logits(network, images[torch.from_numpy(part)])
    return CrossFitted(logits, fit_calibration(logits, targets))


def fresh(build: Callable[[], ConceptNetwork], seed: int) -> ConceptNetwork:
    """A new network whose untrained weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()


def _numbered(
    on_report: Callable[[ConceptReport], None] | None, network: int, n_networks: int
) -> Callable[[ConceptReport], None] | None:
    if on_report is None:
        return None
    return lambda report: on_report(replace(report, network=network, n_networks=n_networks))
