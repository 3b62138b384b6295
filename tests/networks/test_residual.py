"""The residual network: which patches it can score, its widths, and what its heads read."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pursuit.networks import Conv, Residual
from pursuit.networks.residual import CELL, _LocalAndGlobalScores, _MeanAndMaxLinear, _window
from pursuit.queries import PatchQueries

PHOTOS = PatchQueries((3, 32, 32), size=8, stride=4)
NARROW = Residual(0.0625, 0.0625)


@st.composite
def patches(draw: st.DrawFn) -> PatchQueries:
    height, width = draw(st.integers(4, 40)), draw(st.integers(4, 40))
    size = draw(st.integers(1, min(height, width, 20)))
    return PatchQueries((3, height, width), size, draw(st.sampled_from([1, 2, 3, 4, 5, 8, 12])))


@given(patches())
def test_a_patch_is_scored_by_the_cells_it_lies_on_or_refused(query_set: PatchQueries) -> None:
    window = _window(query_set.patches)
    assert Residual.suits(query_set) == (window is not None)
    if window is None:
        with pytest.raises(ValueError, match=r"Residual cannot score .* or use Conv"):
            NARROW.build(query_set, 2, False)
        return
    kernel, stride = window
    cells = torch.zeros(1, 2, *(side // CELL for side in query_set.image_shape[1:]))
    assert _LocalAndGlobalScores(2, kernel, stride, len(query_set)).local(cells).shape[2:] == query_set.grid
    assert CELL * stride == query_set.patches.stride
    assert query_set.patches.size <= CELL * kernel < query_set.patches.size + CELL


@given(st.integers(1, 10), st.integers(1, 10), st.integers(1, 10), st.integers(1, 4))
def test_patches_made_of_whole_cells_are_never_refused(rows: int, columns: int, size: int, stride: int) -> None:
    size = min(size, rows, columns)
    assert Residual.suits(PatchQueries((3, CELL * rows, CELL * columns), CELL * size, CELL * stride))


@pytest.mark.parametrize(
    ("query_set", "grid"),
    [
        (PHOTOS, (7, 7)),
        (PatchQueries((3, 32, 32), size=4, stride=4, mask=False), (8, 8)),
        (PatchQueries((1, 28, 36), size=12, stride=8), (3, 4)),
        (PatchQueries((3, 28, 32), size=6, stride=4), (6, 7)),
        (PatchQueries((3, 30, 35), size=8, stride=4), (6, 7)),
    ],
)
def test_output_shapes(query_set: PatchQueries, grid: tuple[int, int]) -> None:
    querier, classifier = NARROW.build(query_set, 5, False)
    x = torch.randn(2, *query_set.input_shape)
    assert querier(x).shape == (2, grid[0] * grid[1])
    assert classifier(x).shape == (2, 5)


def test_sizes_of_the_body_and_number_of_parameters() -> None:
    with torch.device("meta"):
        querier, classifier = Residual().build(PHOTOS, 10, False)

    def body(c0: int, c1: int, c2: int, c3: int) -> int:
        pairs = [(4, c0), (c0, c1), *[(c1, c1)] * 2, (c1, c2), *[(c2, c2)] * 2, (c2, c3), *[(c3, c3)] * 2]
        return sum(9 * a * b + 2 * b for a, b in pairs)

    n_querier = body(48, 96, 192, 384) + 4 * 384 + 385 * 49
    n_classifier = body(96, 192, 384, 768) + (2 * 768 + 1) * 10
    assert sum(p.numel() for p in querier.parameters()) == n_querier == 4_380_817
    assert sum(p.numel() for p in classifier.parameters()) == n_classifier == 17_445_322
    cells = NARROW.build(PHOTOS, 10, False)[0][0](torch.randn(2, 4, 32, 32))  # type: ignore[index]
    assert cells.shape == (2, 32, 8, 8)


def test_the_local_term_reads_only_the_cells_of_the_patch() -> None:
    head = _LocalAndGlobalScores(3, kernel=2, stride=1, n_queries=49)
    nn.init.zeros_(head.overall.weight)
    cells = torch.randn(1, 3, 8, 8, requires_grad=True)
    head(cells)[0, 3 * 7 + 5].backward()  # the patch in row 3, column 5
    assert cells.grad is not None
    touched = cells.grad[0].abs().sum(dim=0) > 0
    expected = torch.zeros(8, 8, dtype=torch.bool)
    expected[3:5, 5:7] = True
    assert torch.equal(touched, expected)


def test_the_classifier_reads_mean_and_maximum() -> None:
    head = _MeanAndMaxLinear(3, 2)
    cells = torch.randn(4, 3, 5, 6)
    flat = cells.flatten(2)
    pooled: Tensor = torch.cat([flat.mean(dim=2), flat.max(dim=2).values], dim=1)
    torch.testing.assert_close(head(cells), head.linear(pooled))


def test_networks_of_one_width_can_share_a_trunk_and_others_say_why_not() -> None:
    querier, classifier = NARROW.build(PHOTOS, 3, True)
    assert querier[0] is classifier[0]  # type: ignore[index]
    with pytest.raises(ValueError, match=r"shared=False, or give classifier_width and querier_width the same value"):
        Residual(0.125, 0.0625).build(PHOTOS, 3, True)


def test_settings_that_do_not_fit_are_refused() -> None:
    for widths in ((0.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match=r"classifier_width of 1/64 to 32"):
            Residual(*widths)
    with pytest.raises(ValueError, match=r"querier_width of 1/64 to 32"):
        Residual(1.0, 0.01)
    with pytest.raises(ValueError, match="at least 4x4 pixels, not 3x9"):
        NARROW.build(PatchQueries((3, 3, 9), 2, 4), 3, False)
    finer = PatchQueries((3, 32, 32), size=8, stride=2)
    with pytest.raises(ValueError, match=r"cannot score 8x8 patches at stride 2 on 32x32 pixels: .* or use Conv"):
        NARROW.build(finer, 3, False)
    Conv((4, 4), 8).build(finer, 3, False)  # the advice is good


def test_the_belief_may_be_the_mean_over_the_mirror_image() -> None:
    torch.manual_seed(0)
    _, plain = Residual(0.0625, 0.0625).build(PHOTOS, 5, False)
    _, mirrored = Residual(0.0625, 0.0625, mirrored=True).build(PHOTOS, 5, False)
    mirrored.load_state_dict(plain.state_dict())
    x = torch.randn(3, *PHOTOS.input_shape)
    torch.testing.assert_close(mirrored.train()(x), plain.train()(x))
    belief = mirrored.eval()(x).exp()
    torch.testing.assert_close(belief, mirrored(x.flip(3)).exp())
    torch.testing.assert_close(belief.sum(dim=1), torch.ones(3))
    mean = (plain.eval()(x).softmax(dim=1) + plain(x.flip(3)).softmax(dim=1)) / 2
    torch.testing.assert_close(belief, mean)
    assert not torch.allclose(plain(x), plain(x.flip(3)), atol=1e-3)
