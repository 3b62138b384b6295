"""Numbers as networks see them beside the number itself: how much of each of a few pieces lies below it.

A network has to bend a number's input to find a threshold, and rarely finds a narrow one. With a piecewise-linear code
of quantiles a threshold, or a peak between two of them, is a sum of a few inputs.
"""

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.queries.column import Number
from pursuit.queries.query import Query
from pursuit.queries.scaling import compress

FEW_ROWS, FEW_PIECES, SOME_PIECES, MANY_PIECES = 2000, 8, 16, 32
MANY_INPUTS, TOO_MANY_INPUTS = 2000, 10_000
NARROWEST = 1e-6
"""Pieces are at least this wide, in the answer space."""


class NumberCode(nn.Module):
    """The codes of all number columns of a table, G inputs in all; a column without edges has none."""

    start: Tensor
    slope: Tensor
    feature: Tensor
    query: Tensor
    inputs_of_query: Tensor

    def __init__(self, columns: tuple[Query, ...], features: list[int]):
        """`features` (Q,) are the first features of the columns."""
        super().__init__()
        edges = [_edges(column) for column in columns]
        n_pieces = [max(0, len(own) - 1) for own in edges]
        pieces = [own[i : i + 2] for own in edges for i in range(len(own) - 1)]
        start, end = np.array(pieces, dtype=np.float32).reshape(-1, 2).T
        n, further = torch.tensor(n_pieces), torch.arange(max(n_pieces))
        first = n.cumsum(dim=0) - n
        for name, tensor in (
            ("start", torch.from_numpy(start)),  # (G,) in the answer space
            ("slope", torch.from_numpy(1 / np.maximum(end - start, NARROWEST))),  # (G,)
            ("feature", torch.tensor(features).repeat_interleave(n)),  # (G,)
            ("query", torch.arange(len(columns)).repeat_interleave(n)),  # (G,)
            ("inputs_of_query", torch.where(further < n[:, None], first[:, None] + further, -1)),  # (Q, K), -1 beyond
        ):
            self.register_buffer(name, tensor, persistent=False)
        self.n_inputs, self.most_pieces = len(pieces), max(n_pieces)

    def forward(self, x: Tensor) -> Tensor:
        """The codes (B, G) of answers (B, F)."""
        return ((x.index_select(1, self.feature) - self.start) * self.slope).clamp(0, 1)

    def of_query(self, query: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Which inputs the codes of `query` (B,) have, and their values in the `rows` (B,) of answers `x` (N, F):
        (B, K) each, with value 0 beyond those a query has."""
        inputs = self.inputs_of_query[query]
        there, inputs = inputs >= 0, inputs.clamp(min=0)
        values = (x[rows[:, None], self.feature[inputs]] - self.start[inputs]) * self.slope[inputs]
        return inputs, values.clamp(0, 1) * there


def _edges(column: Query) -> list[float]:
    """The edges of a number's pieces in the answer space."""
    if not isinstance(column, Number):
        return []
    return compress((np.array(column.edges) - column.centre) / column.spread).tolist()


def suitable_pieces(n_rows: int, n_numbers: int) -> int:
    """How many pieces the code of each number has: few where few rows would have to teach each of them, else enough for
    narrow thresholds, as long as codes do not make the first layer much larger than the rest of a network."""
    n_pieces = FEW_PIECES
    if n_rows >= FEW_ROWS:
        n_pieces = min(max(SOME_PIECES, MANY_INPUTS // max(1, n_numbers)), MANY_PIECES)
    return n_pieces if n_pieces * n_numbers <= TOO_MANY_INPUTS else 0


def quantile_edges(numbers: np.ndarray, n_pieces: int) -> tuple[float, ...]:
    """What divides numbers into up to `n_pieces` pieces with equally many of them each; fewer where many are equal, and
    none where a single piece would be left, which says nothing that the number itself does not."""
    if not len(numbers) or n_pieces < 2:
        return ()
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, n_pieces + 1), method="lower"))
    return tuple(edges.tolist()) if len(edges) > 2 else ()
