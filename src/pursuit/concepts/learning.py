"""Training of concept networks: images in memory as bytes, and everything done to them where the network is."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.concepts.calibration import fit_calibration
from pursuit.concepts.network import ConceptNetwork, as_floats, raw_logits
from pursuit.training.averaging import WeightAverage

BACKBONE_SHARE = 1 / 3
"""The backbone's share of the learning rate: it comes trained, the linear layer on it does not."""
WARMUP = 0.05
"""Share of the steps in which the learning rate rises from zero."""
LARGEST_GRADIENT = 0.5
"""Longer gradients are shortened to this: a few early ones would undo what the backbone knows."""
SMALLEST_CROP = 0.5
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
    epochs: int = 40,
    batch_size: int = 64,
    lr: float = 3e-3,
    weight_decay: float = 0.05,
    average: float = 0.99,
    label_smoothing: float = 0.0,
    device: str = "cpu",
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
) -> ConceptNetwork:
    """Teach the network `targets` (N, Q) from `images` (N, 3, H, W) of bytes, and give it back on `device`.

    Targets are 0, 1, or any share of yes between them. The network ends with a running average of its weights, of the
    decay `average`. It is not calibrated by that: see `calibrate`.
    """
    _check(network, images, targets)
    place = torch.device(device)
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []), _tuned():
        torch.manual_seed(seed)
        network.to(place).train()
        if place.type == "cuda":
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images, wanted = images.to(place), targets.to(place).float()
        wanted = wanted * (1 - label_smoothing) + label_smoothing / 2
        # All batches are of one size, for which a GPU's convolutions are tuned: a pass leaves out the rest.
        batch_size = min(batch_size, len(images))
        n_batches = len(images) // batch_size
        optimizer = _optimizer(network, lr, weight_decay)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(_share_of_rate, n_steps=epochs * n_batches))
        averaged = WeightAverage(network, average)
        for epoch in range(epochs):
            total = torch.zeros((), device=place)
            order = torch.randperm(len(images), device=place)
            for i, rows in enumerate(order[: n_batches * batch_size].split(batch_size)):
                shown = augment(images[rows], network.input_size)
                with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
                    logits = network.raw_logits(shown)
                loss = F.binary_cross_entropy_with_logits(logits, wanted[rows])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
                optimizer.step()
                schedule.step()
                averaged.schedule(epoch * n_batches + i)
                averaged.update()
                total += loss.detach() / n_batches
            if on_report is not None:
                on_report(ConceptReport(1, 1, epoch + 1, epochs, float(total)))
        averaged.use(averaged.averaged or averaged.weights)
    return network.eval()


@contextmanager
def _tuned() -> Iterator[None]:
    """Where a GPU tries its convolutions and keeps the fastest; a CPU does not mind."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _check(network: ConceptNetwork, images: Tensor, targets: Tensor) -> None:
    n_concepts = network.head.out_features
    if len(images) == 0 or targets.shape != (len(images), n_concepts):
        raise ValueError(
            f"One row of {n_concepts} targets for each image is expected, and at least one image, but there are "
            f"{len(images)} images and targets of shape {tuple(targets.shape)}."
        )
    if not ((targets >= 0) & (targets <= 1)).all():
        raise ValueError("Targets of concepts are 0 (no), 1 (yes) or shares between them: write 60% as 0.6.")


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


def fresh(build: Callable[[], ConceptNetwork], seed: int) -> ConceptNetwork:
    """A new network whose untrained weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()
