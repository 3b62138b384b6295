"""Training of concept networks, and answers by networks that did not see the images."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pursuit.concepts import (
    ConceptNetwork,
    ConceptReport,
    attribute_accuracy,
    calibrate,
    cross_answers,
    fresh,
    raw_logits,
    train_concepts,
)
from pursuit.concepts.learning import augment

Make = Callable[..., Any]
Build = Callable[[], ConceptNetwork]


def test_a_small_network_learns_what_it_is_shown(make_coloured: Make, build: Build) -> None:
    shown, others = make_coloured(seed=0), make_coloured(seed=1)
    reports: list[ConceptReport] = []
    network = fresh(build, 0)
    train_concepts(network, shown.images, shown.targets, epochs=12, batch_size=16, lr=0.03, on_report=reports.append)
    scores = attribute_accuracy(network(others.images).detach().sigmoid().numpy(), others.targets.numpy())
    assert scores.balanced_accuracy > 0.95
    assert [(report.epoch, report.n_epochs) for report in reports] == [(i, 12) for i in range(1, 13)]
    assert reports[-1].loss < reports[0].loss / 2
    assert not network.training


def test_the_same_seed_gives_the_same_network_and_leaves_other_randomness_alone(
    make_coloured: Make, build: Build
) -> None:
    shown = make_coloured(32)
    state = torch.get_rng_state()
    first, second, third = (
        raw_logits(
            train_concepts(fresh(build, 0), shown.images, shown.targets, epochs=2, batch_size=8, seed=seed),
            shown.images,
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(state, torch.get_rng_state())


def test_smoothed_labels_keep_logits_small(make_coloured: Make, build: Build) -> None:
    shown = make_coloured()
    plain, smoothed = fresh(build, 0), fresh(build, 0)
    settings = {"epochs": 8, "batch_size": 16, "lr": 0.03}
    train_concepts(plain, shown.images, shown.targets, **settings)
    train_concepts(smoothed, shown.images, shown.targets, label_smoothing=0.4, **settings)
    assert raw_logits(smoothed, shown.images).abs().mean() < raw_logits(plain, shown.images).abs().mean()


def test_wrong_targets_are_refused(make_coloured: Make, build: Build) -> None:
    shown = make_coloured(16)
    with pytest.raises(ValueError, match=r"16 images and targets of shape \(16, 2\)"):
        train_concepts(build(), shown.images, shown.targets[:, :2])
    with pytest.raises(ValueError, match="0 \\(no\\) or 1 \\(yes\\)"):
        train_concepts(build(), shown.images, shown.targets * 0.6)
    with pytest.raises(ValueError, match="at least one image"):
        calibrate(build(), shown.images[:0], shown.targets[:0])


def test_changed_copies_stay_images(make_coloured: Make) -> None:
    images = make_coloured(40).images
    changed = augment(images)
    assert changed.shape == images.shape
    assert changed.dtype == torch.float32
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert not torch.equal(changed, augment(images))
    assert augment(images, 24).shape == (40, 3, 24, 24)
    # the colours, which are the concepts, are hardly another
    assert (changed.mean(dim=(2, 3)) - images.float().mean(dim=(2, 3)) / 255).abs().max() < 0.25


def test_half_of_the_copies_are_mirrored_and_all_show_most_of_the_image() -> None:
    ramp = torch.linspace(0.2, 0.8, 32).expand(400, 3, 32, 32)
    changed = augment(ramp)
    rises = changed[:, 0, :, -1].mean(dim=1) > changed[:, 0, :, 0].mean(dim=1)
    assert 0.4 < rises.float().mean() < 0.6
    spread = changed.amax(dim=(1, 2, 3)) - changed.amin(dim=(1, 2, 3))
    assert spread.min() > 0.6 * 0.5**0.5 * 0.6


def test_calibration_on_other_images_tames_a_network_that_learned_by_heart(make_coloured: Make, build: Build) -> None:
    shown, held_out, others = (make_coloured(seed=seed, wrong=0.2) for seed in range(3))
    network = fresh(build, 0)
    train_concepts(network, shown.images, shown.targets, epochs=12, batch_size=16, lr=0.03)
    with torch.no_grad():
        network.head.weight.mul_(3)  # far too sure
        network.head.bias.mul_(3)
        before = attribute_accuracy(network(others.images).sigmoid().numpy(), others.targets.numpy())
        calibrate(network, held_out.images, held_out.targets)
        after = attribute_accuracy(network(others.images).sigmoid().numpy(), others.targets.numpy())
    assert after.calibration_error < before.calibration_error / 1.5
    assert network.scale.max() < 0.9


class ByHeart(ConceptNetwork):
    """Answers yes for the images it was trained on and no for all others."""

    def __init__(self) -> None:
        super().__init__(torch.nn.AdaptiveAvgPool2d(1), 3, 3)
        self.seen: set[bytes] = set()

    def raw_logits(self, images: torch.Tensor) -> torch.Tensor:
        if not self.training:
            known = [image.numpy().tobytes() in self.seen for image in images]
            return torch.tensor(known).float()[:, None].expand(-1, 3)
        return super().raw_logits(images)


def test_every_image_is_answered_by_a_network_that_never_saw_it(
    make_coloured: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = make_coloured(80)
    trained: list[tuple[int, np.ndarray]] = []

    def remember(network: ByHeart, images: torch.Tensor, targets: torch.Tensor, **_: Any) -> None:
        network.seen |= {image.numpy().tobytes() for image in images}
        trained.append((len(images), targets.mean(dim=0).numpy()))

    monkeypatch.setattr("pursuit.concepts.learning.train_concepts", remember)
    crossed = cross_answers(ByHeart, shown.images, shown.targets, shown.labels, folds=5)
    assert not crossed.logits.any()
    assert [n for n, _ in trained] == [64] * 5
    assert all(np.allclose(share, 0.5, atol=0.1) for _, share in trained)  # each part has its share of every label


def test_cross_fitted_answers_are_honest_where_labels_are_noise(make_coloured: Make, build: Build) -> None:
    shown = make_coloured(160, wrong=0.25)
    reports: list[ConceptReport] = []
    crossed = cross_answers(
        build,
        shown.images,
        shown.targets,
        shown.labels,
        folds=4,
        epochs=8,
        batch_size=16,
        lr=0.03,
        on_report=reports.append,
    )
    scores = attribute_accuracy(crossed.probabilities, shown.targets.numpy())
    assert 0.65 < scores.accuracy < 0.85  # a quarter of the targets cannot be known
    assert 0.6 < np.abs(crossed.probabilities - 0.5).mean() + 0.5 < 0.85
    assert crossed.logits.shape == (160, 3)
    assert [report.network for report in reports] == [i for i in (1, 2, 3, 4) for _ in range(8)]
    assert {report.n_networks for report in reports} == {4}
