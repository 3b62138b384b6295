"""Which groups of rows are held out: about the share wanted, and never all rows of a label."""

import numpy as np
import pytest

from pursuit.data.groups import split_by_group


def test_parts_are_all_rows_once_and_share_no_group() -> None:
    randomness = np.random.default_rng(0)
    groups, y = randomness.integers(-1, 40, 300), randomness.integers(0, 3, 300)
    kept, held_out = split_by_group(y, groups, 60, seed=1)
    assert np.array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(300))
    assert set(groups[kept]).isdisjoint(groups[held_out])
    assert -1 in groups[kept]
    assert len(held_out) == pytest.approx(60, abs=3)
    assert np.bincount(y[held_out]) / len(held_out) == pytest.approx(np.bincount(y) / 300, abs=0.1)


@pytest.mark.parametrize(("y", "groups"), [([0, 0, 1, 1], [0, 0, 1, 1]), ([0, 0, 0, 0], [5, 5, 5, 5])])
def test_a_group_with_all_rows_of_a_label_is_learnt_from(y: list[int], groups: list[int]) -> None:
    kept, held_out = split_by_group(np.array(y), np.array(groups), 2, seed=0)
    assert len(held_out) == 0
    assert kept.tolist() == [0, 1, 2, 3]


def test_a_group_larger_than_the_share_is_held_out_only_if_that_is_closer_than_none() -> None:
    groups = np.repeat([0, 1], [90, 10])
    _, held_out = split_by_group(np.tile([0, 1], 50), groups, 20, seed=0)
    assert set(groups[held_out]) == {1}
