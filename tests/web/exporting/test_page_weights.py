"""Weights in few bytes, and out of them again."""

import numpy as np
import pytest
import torch

from exported import decompressed, split, unpack
from pursuit.web.exporting.description import EXACT, WIDTHS, compressed, pack, rounded


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_matrix_comes_back_as_near_as_its_bits_allow(bits: int) -> None:
    weight = torch.randn(7, 13, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 3, 7)[:, None]
    weight[2] = 0
    found = unpack(pack(weight, bits))
    step = weight.abs().amax(dim=1, keepdim=True).numpy() / (2 ** (bits - 1) - 1)
    assert (np.abs(found - weight.numpy()) <= 0.51 * step + 1e-6 * np.abs(weight.numpy())).all()
    np.testing.assert_allclose(found, rounded(weight, bits).numpy(), rtol=1e-6)
    assert bits < EXACT or (found == weight.numpy()).all()


def test_a_vector_is_a_single_row() -> None:
    vector = torch.tensor([1.0, -2.0, 3.5])
    assert pack(vector, EXACT).to_dict() == {"rows": 1, "columns": 3, "bits": EXACT}
    assert unpack(pack(vector, EXACT)).tolist() == [[1.0, -2.0, 3.5]]


def test_few_bits_take_few_characters_and_no_text_ends_a_script() -> None:
    weight = torch.randn(100, 200, generator=torch.Generator().manual_seed(0))
    tensors = [pack(weight, bits) for bits in WIDTHS]
    sizes = [len(compressed(one.data)) for one in tensors]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.27 * sizes[-1]
    text = compressed(b"".join(one.data for one in tensors))
    assert "<" not in text
    assert split(decompressed(text), [one.to_dict() for one in tensors]) == tensors
