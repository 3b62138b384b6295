"""Image patches: only pixels of known patches show, wherever patches lie and however they overlap."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.queries import PatchQueries
from strategies import SEEDS
from untrained import make_rows


@st.composite
def patch_queries(draw: st.DrawFn) -> PatchQueries:
    channels, height, width = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    size, stride = draw(st.integers(1, min(height, width))), draw(st.integers(1, 4))
    return PatchQueries((channels, height, width), size, stride, mask=draw(st.booleans()))


def seen_pixels(query_set: PatchQueries, known: Tensor) -> Tensor:
    """Which pixels (B, 1, H, W) the known patches cover, one patch after the other."""
    _, height, width = query_set.image_shape
    seen = torch.zeros(len(known), 1, height, width, dtype=torch.bool)
    for row, query in known.nonzero().tolist():
        top, left = query_set.patches.corner(query)
        seen[row, :, top : top + query_set.patches.size, left : left + query_set.patches.size] = True
    return seen


@given(query_set=patch_queries(), seed=SEEDS)
def test_only_known_pixels_show(query_set: PatchQueries, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = make_rows(query_set, 4, seed).x
    known = torch.rand(4, len(query_set), generator=generator) < 0.4
    seen = seen_pixels(query_set, known)
    encoded = query_set.encode(x, known)
    assert encoded.shape == (4, *query_set.input_shape)
    assert torch.equal(encoded[:, : x.shape[1]], x * seen)
    if query_set.mask:
        assert torch.equal(encoded[:, x.shape[1] :], seen.double())
    other = x + ~seen * torch.randn(x.shape, generator=generator) * 1e6
    assert torch.equal(query_set.encode(other, known), encoded)


@given(query_set=patch_queries())
def test_patches_lie_on_a_grid_within_the_image(query_set: PatchQueries) -> None:
    _, height, width = query_set.image_shape
    corners = [query_set.patches.corner(query) for query in range(len(query_set))]
    wanted = [
        (top, left)
        for top in range(0, height - query_set.patches.size + 1, query_set.patches.stride)
        for left in range(0, width - query_set.patches.size + 1, query_set.patches.stride)
    ]
    assert corners == wanted
    assert [query.name for query in query_set.queries] == [f"patch {top},{left}" for top, left in wanted]
    assert len({query.text for query in query_set.queries}) == len(query_set)


def gradients(query_set: PatchQueries, x: Tensor, known: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient in `known` of the weighted encoding, and what turning each patch on changes it by."""
    known = known.double().requires_grad_()
    (gradient,) = torch.autograd.grad((query_set.encode(x, known) * weights).sum(), known)
    differences = []
    for query in range(len(query_set)):
        on, off = known.detach().clone(), known.detach().clone()
        on[:, query], off[:, query] = 1, 0
        differences.append(((query_set.encode(x, on) - query_set.encode(x, off)) * weights).sum(dim=(1, 2, 3)))
    return gradient, torch.stack(differences, dim=1)


@given(query_set=patch_queries(), seed=SEEDS)
def test_gradient_is_the_finite_difference_where_patches_do_not_overlap(query_set: PatchQueries, seed: int) -> None:
    query_set = PatchQueries(
        query_set.image_shape, query_set.patches.size, query_set.patches.size + seed % 2, mask=query_set.mask
    )
    generator = torch.Generator().manual_seed(seed)
    x = make_rows(query_set, 2, seed).x
    known = torch.rand(2, len(query_set), generator=generator) < 0.5
    weights = torch.randn(2, *query_set.input_shape, generator=generator, dtype=torch.double)
    torch.testing.assert_close(*gradients(query_set, x, known, weights), rtol=1e-10, atol=1e-10)


@given(query_set=patch_queries(), seed=SEEDS)
def test_gradient_at_unseen_pixels_is_the_finite_difference(query_set: PatchQueries, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = make_rows(query_set, 2, seed).x
    known = torch.rand(2, len(query_set), generator=generator) < 0.3
    weights = torch.randn(2, *query_set.input_shape, generator=generator, dtype=torch.double)
    gradient, difference = gradients(query_set, x, known, weights * ~seen_pixels(query_set, known))
    torch.testing.assert_close(gradient[~known], difference[~known], rtol=1e-10, atol=1e-10)


def test_a_patch_that_reveals_nothing_has_no_gradient() -> None:
    query_set = PatchQueries((1, 2, 3), size=2)  # two patches that share the middle column
    known = torch.tensor([[True, False]])
    x = torch.ones(1, 1, 2, 3, dtype=torch.double)
    middle = torch.zeros(1, 2, 2, 3, dtype=torch.double)
    middle[:, 0, :, 1] = 1
    gradient, difference = gradients(query_set, x, known, middle)
    assert difference[0, 1] == 0
    assert gradient[0, 1] == 0


def test_images_may_be_flat_or_lack_a_channel() -> None:
    query_set = PatchQueries((1, 3, 4), size=2)
    images = np.random.default_rng(0).random((5, 1, 3, 4))
    x, available = query_set.answers(images)
    assert x.shape == (5, 1, 3, 4)
    assert x.dtype == torch.float32
    assert available.shape == (5, 6)
    assert available.all()
    for other in (images[:, 0], images.reshape(5, -1), torch.from_numpy(images), images.tolist()):
        assert torch.equal(query_set.answers(other).x, x)


def test_pixels_are_scaled_to_one() -> None:
    query_set = PatchQueries((1, 1, 3), size=1, low=0, high=255)
    images = np.array([[0, 127.5, 255]])
    assert query_set.answers(images).x.flatten().tolist() == [-1, 0, 1]
    assert query_set.answers(np.array([[0, 255, 51]], dtype=np.uint8)).x.flatten().tolist() == pytest.approx(
        [-1, 1, -0.6]
    )


@pytest.mark.parametrize("shape", [(2, 11), (12,), (2, 4, 4), (2, 3, 3, 4)])
def test_images_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"Images of shape \(1, 3, 4\) are expected, 12 values a row"):
        PatchQueries((1, 3, 4), size=2).answers(np.zeros(shape))


@pytest.mark.parametrize("shape", [(2, 4, 5, 3), (2, 3, 5, 4), (2, 15, 4)])
def test_images_in_another_layout_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="Images of shape"):
        PatchQueries((3, 4, 5), size=2).answers(np.zeros(shape))


@pytest.mark.parametrize("pixel", [-0.1, 1.1, 255])
def test_pixels_out_of_range_are_refused(pixel: float) -> None:
    images = np.full((2, 1, 3, 4), 0.5)
    images[1, 0, 2, 3] = pixel
    with pytest.raises(ValueError, match="give PatchQueries the low and high of your images"):
        PatchQueries((1, 3, 4), size=2).answers(images)


def test_images_without_rows_or_with_holes_are_refused() -> None:
    query_set = PatchQueries((1, 3, 4), size=2)
    with pytest.raises(ValueError, match="There are no images"):
        query_set.answers(np.zeros((0, 1, 3, 4)))
    for hole in (np.nan, np.inf):
        images = np.zeros((2, 1, 3, 4))
        images[1, 0, 2, 3] = hole
        with pytest.raises(ValueError, match="Some pixels are missing or infinite"):
            query_set.answers(images)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 5}, "A patch of 5x5 pixels does not fit an image of 4x6"),
        ({"size": 0}, "whole numbers of pixels, at least 1"),
        ({"size": 2, "stride": 0}, "must be at least 1, not 0"),
        ({"size": 2, "low": 1.0}, "not from 1.0 to 1.0"),
        ({"size": 2, "low": float("nan")}, "Pixels must range"),
        ({"size": 2, "high": 10**400}, "Pixels must range"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PatchQueries((1, 4, 6), **settings)


def test_a_range_of_false_to_true_is_that_of_0_to_1() -> None:
    images = np.random.default_rng(0).random((2, 1, 4, 6))
    found, expected = (PatchQueries((1, 4, 6), 2, low=low, high=high) for low, high in ((False, True), (0.0, 1.0)))
    assert torch.equal(found.answers(images).x, expected.answers(images).x)


@given(query_set=patch_queries(), seed=SEEDS)
def test_answering_patch_by_patch_gives_the_image(query_set: PatchQueries, seed: int) -> None:
    query_set = PatchQueries(query_set.image_shape, query_set.patches.size, query_set.patches.stride, low=-3, high=7)
    image = np.random.default_rng(seed).uniform(-3, 7, (1, *query_set.image_shape))
    x = query_set.answers(image).x
    answered = query_set.blank()
    for query in range(len(query_set)):
        top, left = query_set.patches.corner(query)
        patch = image[0, :, top : top + query_set.patches.size, left : left + query_set.patches.size]
        answer: Any = " ".join(map(str, patch.ravel())) if query % 2 else patch
        query_set.tell(answered[0], query, answer)
    everything = torch.ones(1, len(query_set), dtype=torch.bool)
    torch.testing.assert_close(answered, x * seen_pixels(query_set, everything), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "answer",
    [
        "0 1 1",
        "0 1 1 1 1",
        "0 1 1 x",
        "0, 1, 1, nan",
        "0, 1, 1, 1.5",
        [0, 1, 1, -5],
        [0, 1, 1, 1000],
        "",
        [1, 2, 3],
        None,
    ],
)
def test_other_answers_are_refused(answer: Any) -> None:
    query_set = PatchQueries((1, 3, 3), size=2)
    x = query_set.blank()
    with pytest.raises(ValueError, match=r"patch at row 0, column 1\?' is 4 pixel values between 0 and 1"):
        query_set.tell(x[0], 1, answer)
    assert x.eq(0).all()


def test_small_patches_are_drawn_and_large_ones_summed_up() -> None:
    small, large = PatchQueries((1, 4, 4), size=2), PatchQueries((2, 4, 4), size=4)
    x = small.blank()[0]
    small.tell(x, 4, "0 0.25 0.5 1")
    assert small.describe(4, x) == " ░/▒█"
    assert small.describe(8, x)[0] == "█"
    image = large.blank()[0]
    image[0], image[1] = 1, 0
    assert large.describe(0, image) == "brightness 0.75"


def test_a_config_goes_through_json() -> None:
    query_set = PatchQueries((3, 8, 9), size=3, stride=2, low=-1, high=2, mask=False)
    again = PatchQueries.from_config(json.loads(json.dumps(query_set.to_config())))
    assert again.to_config() == query_set.to_config()
    assert again.queries == query_set.queries
    assert again.input_shape == query_set.input_shape == (3, 8, 9)


@given(threshold=st.sampled_from([1, 25.5, 127.5, 255]), pixels=st.lists(st.integers(0, 255), min_size=1, max_size=8))
def test_with_a_threshold_pixels_are_dark_or_bright(threshold: float, pixels: list[int]) -> None:
    query_set = PatchQueries((1, 1, len(pixels)), size=1, low=0, high=255, threshold=threshold)
    wanted = [1.0 if pixel >= threshold else -1.0 for pixel in pixels]
    assert query_set.answers(np.array([pixels], dtype=np.uint8)).x.flatten().tolist() == wanted
    x = query_set.blank()[0]
    for query, pixel in enumerate(pixels):
        query_set.tell(x, query, pixel)  # a person's pixels count as those of an image
    assert x.flatten().tolist() == wanted


@pytest.mark.parametrize("threshold", [0, -1, 256, float("nan")])
def test_thresholds_beyond_the_pixels_are_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold between dark and bright lies between 0 and 255"):
        PatchQueries((1, 2, 2), size=1, low=0, high=255, threshold=threshold)


def test_options_are_changed_one_by_one() -> None:
    query_set = PatchQueries((1, 4, 4), size=2, stride=2, low=0, high=255, threshold=100)
    config = query_set.to_config()
    unmasked = query_set.with_options(mask=False)
    assert isinstance(unmasked, PatchQueries)
    assert unmasked.to_config() == {**config, "mask": False}
    assert unmasked.input_shape == (1, 4, 4)
    assert query_set.to_config() == config
    assert query_set.with_options().to_config() == config
    assert len(query_set.with_options(size=1, stride=1)) == 16
    assert query_set.with_options(threshold=None).to_config()["threshold"] is None
    with pytest.raises(ValueError, match=r"has no option 'masks', only image_shape, size, stride, low, high, mask"):
        query_set.with_options(masks=False)
    with pytest.raises(ValueError, match="does not fit an image"):
        query_set.with_options(size=5)


@given(
    seed=st.integers(0, 1000),
    channels=st.integers(1, 3),
    size=st.integers(1, 3),
    stride=st.integers(1, 3),
    mask=st.booleans(),
)
def test_revealing_a_patch_is_encoding_with_it_known(
    seed: int, channels: int, size: int, stride: int, mask: bool
) -> None:
    queries = PatchQueries((channels, 6, 5), size=size, stride=stride, mask=mask)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(8, channels, 6, 5, generator=generator)
    known = torch.rand(8, len(queries), generator=generator) < 0.3
    query = torch.randint(len(queries), (8,), generator=generator)
    answered = torch.rand(8, generator=generator) < 0.7
    encoded = queries.encode(x, known)
    queries.reveal(encoded, x, query, answered)
    known[answered, query[answered]] = True
    torch.testing.assert_close(encoded, queries.encode(x, known))
