"""Where the answers to columns stand, in the answer space and in the network input, so that input can grow answer by
answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.queries.column import Choice, Number
from pursuit.queries.number_encoding import NumberCode
from pursuit.queries.scaling import NOT_GIVEN

MOST_OWNED = 2**20
"""Up to this many numbers, a matrix maps queries to inputs."""


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
    input_is_of_query: Tensor | None
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
        owned = None
        if len(columns) * self.n_shown <= MOST_OWNED:
            owned = F.one_hot(self.of_query, len(columns)).T.float().contiguous()
        self.register_buffer("input_is_of_query", owned, persistent=False)  # (Q, n_shown)

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
        if self.input_is_of_query is None:
            return known[:, self.of_query]
        # A product, whose gradient takes less time than that of indexing.
        return (known @ self.input_is_of_query.to(known.dtype)).to(known.dtype)

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
