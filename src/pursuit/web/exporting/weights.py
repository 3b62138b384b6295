"""Weights in few bytes: the rows of a matrix as whole numbers of a few bits, with one scale a row."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

WIDTHS = (6, 7, 8, 10, 12, 14, 15, 16, 17, 18, 20, 24, 32)
"""How many bits a weight may have; those of 32 are single precision as they are."""
EXACT = WIDTHS[-1]


class Packed(NamedTuple):
    """A matrix as bytes: the scales of its rows (float32), then the lowest bytes of all its numbers, then those above
    them, and so on, because bytes of one kind are compressed better than a mixture."""

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
    as_bytes = (whole + _largest(bits)).astype("<u4").reshape(-1, 1).view(np.uint8)  # (numbers, 4), lowest first
    return Packed(shape, bits, scale.astype("<f4").tobytes() + as_bytes[:, : _n_bytes(bits)].T.tobytes())


def unpack(packed: Packed) -> np.ndarray:
    """The matrix that `pack` made bytes of, as near as its bits allow."""
    n_rows = packed.shape[0]
    if packed.bits == EXACT:
        return np.frombuffer(packed.data, "<f4").reshape(packed.shape)
    scale, data = packed.data[: 4 * n_rows], packed.data[4 * n_rows :]
    as_bytes = np.frombuffer(data, np.uint8).reshape(_n_bytes(packed.bits), -1).astype(np.int64)
    whole = (as_bytes << (8 * np.arange(len(as_bytes)))[:, None]).sum(axis=0) - _largest(packed.bits)
    return (whole.reshape(packed.shape) * np.frombuffer(scale, "<f4")[:, None]).astype(np.float32)


def compressed(data: bytes) -> str:
    """Bytes as text: base 85, which is shorter than base 64, without the one character that means something inside of
    a script element."""
    return base64.b85encode(zlib.compress(data, level=9)).decode().replace("<", ",")


def decompressed(text: str) -> bytes:
    """What was compressed."""
    return zlib.decompress(base64.b85decode(text.replace(",", "<")))


def split(data: bytes, shapes: Sequence[Mapping[str, int]]) -> list[Packed]:
    """The tensors in these bytes, by what `to_dict` says of each."""
    tensors = []
    for shape in shapes:
        n_rows, n_columns, bits = shape["rows"], shape["columns"], shape["bits"]
        n_bytes = n_rows * n_columns * _n_bytes(bits) + (0 if bits == EXACT else 4 * n_rows)
        tensors.append(Packed((n_rows, n_columns), bits, data[:n_bytes]))
        data = data[n_bytes:]
    return tensors


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


def _n_bytes(bits: int) -> int:
    """Whole bytes: compression takes away the bits of a byte that are not used."""
    return -(-bits // 8)
