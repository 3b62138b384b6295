"""A history: what was asked so far and what is known from it."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class History:
    """The histories of B rows.

    `x` may hold answers that nobody asked for: only those `known` are ever read. A query that was asked and could not
    be answered is `asked` but not `known`; it is never asked again.
    """

    x: Tensor  # (B, *answer_shape)
    known: Tensor  # (B, Q) bool
    asked: Tensor  # (B, Q) bool

    @classmethod
    def start(cls, x: Tensor, n_queries: int, initially_known: Tensor | None = None) -> "History":
        """Histories before the first query, in which only the answers of `initially_known` (B, Q) are given."""
        if initially_known is None:
            initially_known = torch.zeros(len(x), n_queries, dtype=torch.bool, device=x.device)
        return cls(x, initially_known, initially_known)

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def n_known(self) -> Tensor:
        """How many answers each row has, those initially known included: (B,)."""
        return self.known.sum(1)

    def ask(self, query: Tensor, available: Tensor | None = None) -> "History":
        """Ask each row its `query` (B,); it becomes known where `available` (B, Q) says the row has an answer."""
        return self.record(query, None if available is None else available.gather(1, query[:, None])[:, 0])

    def record(self, query: Tensor, answered: Tensor | None = None) -> "History":
        """Each row was asked its `query` (B,), which becomes known where it was `answered` (B,)."""
        column = query[:, None]
        asked = self.asked.scatter(1, column, True)
        if answered is None:
            return History(self.x, self.known.scatter(1, column, True), asked)
        return History(self.x, self.known.scatter(1, column, self.known.gather(1, column) | answered[:, None]), asked)

    def rows(self, index: Tensor) -> "History":
        """The histories of some rows: `index` is a list of rows or a mask (B,)."""
        return History(self.x[index], self.known[index], self.asked[index])
