"""Where the answers to columns stand, in the answer space and in the network input, so that input can grow answer by
answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.queries.column import Choice, Number, Query
from pursuit.queries.scaling import NOT_GIVEN, compress, round_edges

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
    return tuple(round_edges(edges).tolist()) if len(edges) > 2 else ()


class Place(NamedTuple):
    """Where the answers to B queries stand."""

    features: Tensor  # (B, w), the same in `x` (B, F) and in the input
    there: Tensor | None  # (B, w) bool, False where a query has fewer features; None if all have w
    known: Tensor | None  # (B, 1), the input that says that the query is known; None without a mask


class OwnInputs(nn.Module):
    """The inputs of every query of a query set in which no two answers share one.

    The input has the features of the answer space, the codes of numbers and, with a mask, one input for each query that
    says whether it is known.
    """

    spans: Tensor
    of_query: Tensor

    def __init__(self, columns: Sequence[Choice | Number], mask: bool):
        super().__init__()
        self.mask, self.n_queries = mask, len(columns)
        self.widths = [1 if isinstance(c, Number) or len(c.choices) == 2 else len(c.choices) for c in columns]
        self.starts: list[int] = np.concatenate([[0], np.cumsum(self.widths)[:-1]]).tolist()
        self.n_features = sum(self.widths)
        self.has_one_feature_each = set(self.widths) == {1}
        self.code = NumberCode(tuple(columns), self.starts)
        self.has_missing_numbers = any(isinstance(column, Number) and column.may_be_missing for column in columns)
        self.are_plain = not self.code.n_inputs and not self.has_missing_numbers
        """Whether an answer has no other inputs than its features and, with a mask, the one that says it is known."""
        self.n_shown = self.n_features + self.code.n_inputs
        """Number of inputs that show answers; those of the mask come after them."""
        self.per_answer = max(self.widths) + self.code.most_pieces + mask
        """Most inputs of an answer."""
        query_of_feature = torch.arange(len(columns)).repeat_interleave(torch.tensor(self.widths))
        # The first feature of every query, and how many it has: (2, Q)
        self.register_buffer("spans", torch.tensor([self.starts, self.widths]), persistent=False)
        # (n_shown,) the query whose answer each input shows
        self.register_buffer("of_query", torch.cat([query_of_feature, self.code.query]), persistent=False)

    @property
    def n_inputs(self) -> int:
        return self.n_shown + self.mask * self.n_queries

    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        """The network input for answers `x` of which `known` (B, Q) may be read."""
        known, answers = known.to(x.dtype), self.shown(x)
        if self.code.n_inputs:
            answers = torch.cat([answers, self.code(x)], dim=1)
        shown = answers * self._known_inputs(known)
        return torch.cat([shown, known], dim=1) if self.mask else shown

    def _known_inputs(self, known: Tensor) -> Tensor:
        """Whether the query of each input that shows answers is `known` (B, Q): (B, n_shown)."""
        if self.has_one_feature_each and not self.code.n_inputs:
            return known
        return known.index_select(1, self.of_query)  # whose gradient takes less time than that of indexing

    def shown(self, values: Tensor) -> Tensor:
        """The `values` of features, of any shape, as the input shows them once they are known."""
        # Codes of numbers are 0 for NOT_GIVEN as it is, because that lies below all of their edges.
        return values.masked_fill(values == NOT_GIVEN, 0) if self.has_missing_numbers else values

    def place(self, query: Tensor) -> Place:
        """Where the answers to `query` (B,) stand in `x` and in the network input."""
        known = query[:, None] + self.n_shown if self.mask else None
        if self.has_one_feature_each:
            return Place(query[:, None], None, known)
        first, n_features = self.spans[:, query, None]  # (B, 1) each
        further = torch.arange(max(self.widths), device=query.device)
        there = further < n_features
        return Place(torch.where(there, first + further, 0), there, known)

    def codes(self, query: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        """The inputs that code the numbers answered to `query` (B,), beside those of `place`, and their values in the
        `rows` (B,) of answers `x`: (B, k) each; None where no query has any."""
        if not self.code.n_inputs:
            return None
        inputs, values = self.code.of_query(query, x, rows)
        return inputs + self.n_features, values

    def features(self, query: int) -> slice:
        """The features of one query in `x` and in the network input."""
        return slice(self.starts[query], self.starts[query] + self.widths[query])
