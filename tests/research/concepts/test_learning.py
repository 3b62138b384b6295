"""Training of concept networks, and answers by networks that did not see the images."""

import pytest
import torch

from coloured import build, make_coloured
from pursuit.research.concepts import (
    ConceptNetwork,
    ConceptReport,
    attribute_accuracy,
    augment,
    calibrate,
    fresh,
    raw_logits,
    train_concepts,
)


def test_a_small_network_learns_what_it_is_shown() -> None:
    shown, others = make_coloured(seed=0), make_coloured(seed=1)
    reports: list[ConceptReport] = []
    network = fresh(build, 0)
    train_concepts(network, shown.images, shown.targets, epochs=12, batch_size=16, lr=0.03, on_report=reports.append)
    scores = attribute_accuracy(network(others.images).detach().sigmoid().numpy(), others.targets.numpy())
    assert scores.balanced_accuracy > 0.95
    assert [(report.epoch, report.n_epochs) for report in reports] == [(i, 12) for i in range(1, 13)]
    assert reports[-1].loss < reports[0].loss / 2
    assert not network.training


@pytest.mark.slow
def test_shares_are_learned_as_shares() -> None:
    shown, others = make_coloured(seed=0), make_coloured(seed=1)
    network = fresh(build, 0)
    train_concepts(network, shown.images, 0.2 + 0.5 * shown.targets, epochs=16, batch_size=16, lr=0.03)
    probabilities = raw_logits(network, others.images).sigmoid()
    assert abs(float(probabilities[others.targets == 1].mean()) - 0.7) < 0.05
    assert abs(float(probabilities[others.targets == 0].mean()) - 0.2) < 0.05


def test_the_weights_are_an_average_unless_told_otherwise() -> None:
    shown = make_coloured(64)
    plain, averaged = (
        train_concepts(fresh(build, 0), shown.images, shown.targets, epochs=3, batch_size=16, lr=0.03, average=average)
        for average in (0.0, 0.9)
    )
    start = fresh(build, 0)

    def moved(network: ConceptNetwork) -> float:
        return float((network.head.weight - start.head.weight).detach().norm())

    assert 0 < moved(averaged) < moved(plain)


def test_a_rest_that_does_not_fill_a_batch_is_left_out_of_a_pass_but_few_images_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def watched(images: torch.Tensor, size: int | None = None) -> torch.Tensor:
        sizes.append(len(images))
        assert torch.backends.cudnn.benchmark  # which is why they are of one size
        assert torch.backends.cudnn.enabled
        return augment(images, size)

    monkeypatch.setattr("pursuit.research.concepts.augment", watched)
    shown = make_coloured(20)
    train_concepts(build(), shown.images, shown.targets, epochs=1, batch_size=8)
    train_concepts(build(), shown.images, shown.targets, epochs=1, batch_size=64)
    assert sizes == [8, 8, 20]
    assert not torch.backends.cudnn.benchmark


def test_the_same_seed_gives_the_same_network_and_leaves_other_randomness_alone() -> None:
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


def test_wrong_targets_are_refused() -> None:
    shown = make_coloured(16)
    with pytest.raises(ValueError, match=r"16 images and targets of shape \(16, 2\)"):
        train_concepts(build(), shown.images, shown.targets[:, :2])
    with pytest.raises(ValueError, match=r"shares between them: write 60% as 0\.6"):
        train_concepts(build(), shown.images, shown.targets * 60)
    with pytest.raises(ValueError, match="at least one image"):
        calibrate(build(), shown.images[:0], shown.targets[:0])


def test_changed_copies_stay_images() -> None:
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


@pytest.mark.slow
def test_calibration_on_other_images_tames_a_network_that_learned_by_heart() -> None:
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
