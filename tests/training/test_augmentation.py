"""Shifted and mirrored images, against moving them one by one."""

from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.training.rows import Rows, Shifts, ShuffledRows, augmented
from strategies import SEEDS


def ways(image: Tensor, shifts: Shifts) -> list[Tensor]:
    """All that may come of one image (C, H, W)."""
    _, height, width = image.shape
    margin = (shifts.pixels,) * 4
    padded = F.pad(image, margin, value=-1.0) if shifts.edge == "dark" else F.pad(image, margin, mode="reflect")
    steps = range(2 * shifts.pixels + 1)
    moved = [padded[:, top : top + height, left : left + width] for top in steps for left in steps]
    return [*moved, *(one.flip(2) for one in moved)] if shifts.mirror else moved


def images(n: int, shape: tuple[int, int, int], seed: int) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@given(
    seed=SEEDS,
    move=st.tuples(st.integers(0, 2), st.booleans()).filter(any),
    edge=st.sampled_from(["dark", "reflect"]),
    shape=st.tuples(st.integers(1, 3), st.integers(3, 6), st.integers(3, 6)),
)
def test_every_image_is_moved_in_one_of_the_possible_ways(
    seed: int, move: tuple[int, bool], edge: Literal["dark", "reflect"], shape: tuple[int, int, int]
) -> None:
    shifts, x = Shifts(*move, edge), images(6, shape, seed)
    before = x.clone()
    moved = shifts(x, torch.Generator().manual_seed(seed))
    assert moved.shape == x.shape
    assert torch.equal(x, before)
    for one, image in zip(moved, x, strict=True):
        assert any(torch.equal(one, way) for way in ways(image, shifts))


def test_all_ways_are_equally_likely() -> None:
    shifts, image = Shifts(1, mirror=True), images(1, (1, 3, 4), 0)
    moved = shifts(image.expand(18_000, -1, -1, -1), torch.Generator().manual_seed(0))
    counts = torch.stack([(moved == way).flatten(1).all(dim=1).sum() for way in ways(image[0], shifts)])
    assert counts.sum() == 18_000
    assert float(((counts - 1000.0) ** 2 / 1000).sum()) < 40.8  # 99.9 % with 17 degrees of freedom


def test_the_same_generator_moves_the_same_way() -> None:
    x = images(20, (3, 5, 5), 0)
    one, same, other = (Shifts(1)(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("wrong", [{"pixels": 0}, {"pixels": -1}, {"pixels": -1, "mirror": True}])
def test_shifts_that_do_nothing_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="at least one pixel or mirror"):
        Shifts(**wrong)


def test_only_images_are_shifted() -> None:
    with pytest.raises(ValueError, match=r"Only images can be shifted, not answers of shape \(6,\)"):
        Shifts(1)(torch.zeros(4, 6), torch.Generator())


def test_a_stream_is_changed_and_its_state_is_that_of_the_rows() -> None:
    x = images(8, (1, 4, 4), 0)
    rows = Rows(x, torch.ones(8, 9).bool(), torch.arange(8), torch.zeros(8, 9).bool())
    generator = torch.Generator().manual_seed(0)
    stream = augmented(ShuffledRows(rows, generator), Shifts(1), generator)
    assert stream.n_queries == 9
    stream.next(5)
    state, randomness = stream.state(), generator.get_state()
    drawn = stream.next(7)
    for one, y in zip(drawn.x, drawn.y, strict=True):
        assert any(torch.equal(one, way) for way in ways(x[y], Shifts(1)))
    assert drawn.initially_known is not None
    other = torch.Generator()
    again = augmented(ShuffledRows(rows, other), Shifts(1), other)
    again.load_state(state)
    other.set_state(randomness)
    repeated = again.next(7)
    assert torch.equal(repeated.x, drawn.x)
    assert torch.equal(repeated.y, drawn.y)
    assert torch.equal(rows.x, x)
