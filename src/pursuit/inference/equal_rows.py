"""Rows and histories that are equal, found so that each is computed once however often it comes.

Of a few yes/no columns a million rows are far fewer different ones, and of yes/no answers they have one history before
anything is asked, two after the first query, four after the second: until chains are long, far fewer than rows.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pursuit.inference.history import History
from pursuit.inference.incremental import FirstLayerState, HistoryState, SharedInputState
from pursuit.queries import QuerySet

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
    hashes = pd.util.hash_pandas_object(pd.DataFrame(packed), index=False)
    number, _ = pd.factorize(hashes)
    first = np.flatnonzero(~hashes.duplicated())
    if (packed[first[number]] != packed).any():  # different rows with the same hash: hardly ever
        return each, each
    return torch.from_numpy(first), torch.from_numpy(number)


def _words(tensor: Tensor) -> np.ndarray:
    """Its rows as whole numbers of 64 bits: (N, W)."""
    values = tensor.reshape(len(tensor), -1).contiguous().numpy()
    values = np.packbits(values, axis=1) if values.dtype == bool else values.view(np.uint8).reshape(len(tensor), -1)
    return np.pad(values, ((0, 0), (0, -values.shape[1] % 8))).view(np.uint64)


LEAST_ROWS = 4096
"""With fewer rows, it takes longer to find what they have in common than to compute each of them."""


def can_be_common(state: HistoryState, query_set: QuerySet) -> bool:
    """Whether rows can have histories of such a state in common: equal ones must be asked the same, and other rows be
    able to stand for them; and answers must be words of a list, each of which stands in features of its own."""
    if type(state) not in (FirstLayerState, SharedInputState) or not query_set.has_own_units:
        return False
    return set(query_set.units.feature_types) <= {"yes_no", "choice"}


def in_common(state: HistoryState, history: History, query_set: QuerySet) -> HistoryState:
    """The same state by the histories that rows have in common, where that saves work."""
    is_worth = len(history) >= LEAST_ROWS and history.x.device.type == "cpu"
    return CommonHistories(state, history, query_set) if is_worth and can_be_common(state, query_set) else state


class CommonHistories(HistoryState):
    """The histories of B rows, of which U are different, and their state."""

    def __init__(self, state: HistoryState, history: History, query_set: QuerySet):
        self._state, self._x = state, history.x
        self._rows = torch.arange(len(history))  # (B,) where the answers of each stand in x
        own = [(query_set.units.of_feature == query).nonzero()[:, 0] for query in range(len(query_set))]
        widest = max((len(features) for features in own), default=0)
        self._features = torch.full((len(own), widest), -1)  # (Q, W) of each query's answer, -1 behind the last
        for query, features in enumerate(own):
            self._features[query, : len(features)] = features
        given = history.x.masked_fill(~history.known[:, query_set.units.of_feature], 0)
        first, self._number = find_equal([history.known, history.asked, given])
        state.keep(first)  # `_number` (B,) is which of the different histories each row has

    @property
    def asked(self) -> Tensor:
        return self._state.asked[self._number]

    def log_posterior(self) -> Tensor:
        return self._state.log_posterior()[self._number]

    def scores(self) -> Tensor:
        return self._state.scores()[self._number]

    def information(self) -> Tensor | None:
        information = self._state.information()
        return None if information is None else information[self._number]

    def ask(self, query: Tensor, answered: Tensor) -> None:
        features = self._features[query]  # (B, W)
        answer = self._x[self._rows[:, None], features].masked_fill((features < 0) | ~answered[:, None], 0)
        first, number = find_equal([self._number, answered, answer])
        self._state.keep(self._number[first])
        self._state.stand_for(self._x[self._rows[first]])
        self._state.ask(query[first], answered[first])
        self._number = number

    def keep(self, rows: Tensor) -> None:
        self._rows = self._rows[rows]
        used, self._number = self._number[rows].unique(return_inverse=True)
        self._state.keep(used)
