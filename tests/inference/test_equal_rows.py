"""Equal rows are found, whatever they are made of, and nothing else is taken for equal."""

import numpy as np
import pandas as pd
import pytest
import torch

from pursuit.inference.equal_rows import MOST_BYTES, find_equal


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_equal_if_all_their_tensors_are(seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 2, (200, 3), generator=chance).float()
    available = torch.rand(200, 4, generator=chance) < 0.5
    y = torch.randint(0, 3, (200,), generator=chance)
    first, number = find_equal([x, available, y])
    rows = [(*a, *b, c) for a, b, c in zip(x.tolist(), available.tolist(), y.tolist(), strict=True)]
    assert [rows[i] for i in first] == list(dict.fromkeys(rows))
    assert [rows[i] for i in first[number]] == rows


def test_numbers_that_differ_in_their_last_bit_are_different() -> None:
    one = np.float32(0.1)
    x = torch.tensor([[one], [np.nextafter(one, np.float32(1))], [one]])
    first, number = find_equal([x])
    assert (first.tolist(), number.tolist()) == ([0, 1], [0, 1, 0])


def test_different_rows_with_the_same_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pd.util, "hash_pandas_object", lambda frame, index: pd.Series(0, frame.index))
    first, number = find_equal([torch.tensor([[1.0], [2.0], [1.0]])])
    assert first.tolist() == number.tolist() == [0, 1, 2]


def test_large_rows_and_no_rows_are_left_as_they_are() -> None:
    assert len(find_equal([torch.zeros(3, MOST_BYTES // 4)])[0]) == 1
    assert len(find_equal([torch.zeros(3, MOST_BYTES // 4 + 1)])[0]) == 3
    assert len(find_equal([torch.zeros(0, 2)])[0]) == 0
