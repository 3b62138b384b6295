"""Rows that are equal, found so that each is computed once however often it comes: of a few yes/no columns a million
rows are far fewer different ones."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

MOST_BYTES = 4096
"""Rows larger than this, such as images, are hardly ever equal."""


def find_equal(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The first of each kind of rows (U,) that are equal in all tensors (N, ...), in their order, and which of these
    each row equals (N,)."""
    n_rows = len(tensors[0])
    each = torch.arange(n_rows)
    if not n_rows or sum(tensor.nbytes for tensor in tensors) > MOST_BYTES * n_rows:
        return each, each
    packed = np.concatenate([_words(tensor) for tensor in tensors], axis=1)  # (N, W)
    _, first, number = np.unique(_mixed(packed), return_index=True, return_inverse=True)
    number = number.reshape(-1)
    if (packed[first[number]] != packed).any():  # different rows with the same hash: hardly ever
        return each, each
    order = first.argsort()
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return torch.from_numpy(first[order]), torch.from_numpy(place[number])


def _words(tensor: Tensor) -> np.ndarray:
    """Its rows as whole numbers of 64 bits: (N, W)."""
    values = tensor.reshape(len(tensor), -1).contiguous().numpy()
    values = np.packbits(values, axis=1) if values.dtype == bool else values.view(np.uint8).reshape(len(tensor), -1)
    return np.pad(values, ((0, 0), (0, -values.shape[1] % 8))).view(np.uint64)


def _mixed(words: np.ndarray) -> np.ndarray:
    """A hash of each row (N, W): (N,)."""
    mixed = np.zeros(len(words), dtype=np.uint64)
    for column in words.T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed
