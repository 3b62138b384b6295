"""Weights in few bytes: the rows of a matrix as whole numbers of a few bits, with one scale a row."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

WIDTHS = (8, 10, 12, 14, 16, 32)
"""How many bits a weight may have; those of 32 are single precision as they are."""
EXACT = WIDTHS[-1]


class Packed(NamedTuple):
    """A matrix as bytes: the scales of its rows (float32), then all of its numbers, bit after bit, lowest first."""

    shape: tuple[int, int]
    bits: int
    data: bytes

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.shape[0], "columns": self.shape[1], "bits": self.bits}


def pack(weight: Tensor, bits: int) -> Packed:
    """A matrix (rows, columns), or a vector as a single row, in numbers of so many `bits`."""
    values = _matrix(weight)
    shape = (values.shape[0], values.shape[1])
    if bits == EXACT:
        return Packed(shape, bits, values.astype("<f4").tobytes())
    scale, whole = _whole_numbers(values, bits)
    unsigned = (whole + _largest(bits)).astype("<u2").reshape(-1, 1)
    as_bits = np.unpackbits(unsigned.view(np.uint8), axis=1, bitorder="little")[:, :bits]
    return Packed(shape, bits, scale.astype("<f4").tobytes() + np.packbits(as_bits, bitorder="little").tobytes())


def unpack(packed: Packed) -> np.ndarray:
    """The matrix that `pack` made bytes of, as near as its bits allow."""
    n_rows, n_columns = packed.shape
    if packed.bits == EXACT:
        return np.frombuffer(packed.data, "<f4").reshape(packed.shape)
    scale, data = packed.data[: 4 * n_rows], packed.data[4 * n_rows :]
    as_bits = np.unpackbits(np.frombuffer(data, np.uint8), count=n_rows * n_columns * packed.bits, bitorder="little")
    places = 1 << np.arange(packed.bits)
    whole = as_bits.reshape(-1, packed.bits) @ places - _largest(packed.bits)
    return (whole.reshape(packed.shape) * np.frombuffer(scale, "<f4")[:, None]).astype(np.float32)


def rounded(weight: Tensor, bits: int) -> Tensor:
    """What is left of a weight in so many bits: `unpack(pack(weight))`, in less time."""
    if bits == EXACT:
        return weight.float()
    scale, whole = _whole_numbers(_matrix(weight), bits)
    return torch.from_numpy((whole * scale[:, None]).astype(np.float32)).view(weight.shape)


def _matrix(weight: Tensor) -> np.ndarray:
    values = weight.detach().cpu().float().numpy()
    return values.reshape(1, -1) if values.ndim < 2 else values


def _largest(bits: int) -> int:
    return int(2 ** (bits - 1)) - 1


def _whole_numbers(values: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The scale of each row (rows,), in single precision as the page has it, and how many times it the numbers are."""
    largest = np.abs(values).max(axis=1, initial=0) if values.size else np.zeros(len(values))
    scale = (np.where(largest > 0, largest, 1) / _largest(bits)).astype(np.float32).astype(np.float64)
    whole = np.rint(values / scale[:, None]).clip(-_largest(bits), _largest(bits))
    return scale, whole.astype(np.int64)
