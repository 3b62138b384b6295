"""Naive Bayes: Information Pursuit in closed form, with probabilities counted from rows.

Answers are taken to be made of cells that are independent given the label: a column is one cell, a patch has one for
every pixel, and pixels seen already tell nothing more. A cell has one of a list of values; numbers have intervals.

    P(y | S) ~ P(y) prod over known cells of P(value | y),      I(q; Y | S) = H(q | S) - H(q | Y, S)
"""

from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.estimators import PursuitClassifier
from pursuit.estimators.classifier import Fit
from pursuit.following import Follower
from pursuit.history import History
from pursuit.pursuer import Labels
from pursuit.queries import ColumnQueries, Number, PatchQueries, QuerySet
from pursuit.rows import Rows, RowSource, rows_in_memory
from pursuit.stopping import StoppingRule

COUNTED_ROWS = 500_000
"""How many of the rows that are not in memory are counted."""
MOST_OUTCOMES = 512
"""Answers to one query that are told apart: 3x3 pixels of two values, or 2x2 of four."""
CHUNK_BYTES = 2**28
"""About how much memory the probabilities of outcomes may take at a time."""


class NaiveBayesIP(nn.Module):
    """Asks the query with the most information about the label, if cells are independent given the label.

    Cell i has `n_values[i]` values (V in all); cells are the columns, or the pixels of all channels.
    """

    log_prior: Tensor
    log_likelihood: Tensor
    above: Tensor
    up_to: Tensor
    cell_of: Tensor
    feature_of: Tensor
    cells: Tensor
    values: Tensor

    def __init__(
        self, query_set: QuerySet, classes: Labels, n_values: list[int], smoothing: float = 1.0, n_bins: int = 8
    ):
        super().__init__()
        self.query_set, self.classes, self.smoothing, self.n_bins = query_set, classes, smoothing, n_bins
        self.n_values = n_values
        cells = _cells_of(query_set)
        n = torch.tensor(n_values)
        first = n.cumsum(dim=0) - n
        cell_of = torch.arange(len(n)).repeat_interleave(n)
        number = torch.arange(len(cell_of)) - first[cell_of]  # of a value among those of its cell
        feature_of = cell_of
        if isinstance(query_set, ColumnQueries):
            widths = torch.tensor(query_set.widths)
            feature_of = torch.tensor(query_set.starts)[cell_of] + number * (widths > 1)[cell_of]
        further = torch.arange(int(n.max()))
        # The values of the cells of each query (Q, S * most values), -1 where a cell has fewer
        values = torch.where(further < n[cells][..., None], first[cells][..., None] + further, -1).flatten(1)
        constants = {"cell_of": cell_of, "feature_of": feature_of, "cells": cells, "values": values}
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)
        # A value holds where its feature is above the one and up to the other: (V,) each
        self.register_buffer("above", torch.zeros(len(cell_of)))
        self.register_buffer("up_to", torch.zeros(len(cell_of)))
        self.register_buffer("log_prior", torch.zeros(len(classes), dtype=torch.double))
        self.register_buffer("log_likelihood", torch.zeros(len(cell_of), len(classes), dtype=torch.double))  # (V, C)

    @classmethod
    def count(cls, query_set: QuerySet, classes: Labels, rows: Rows, smoothing: float = 1.0, n_bins: int = 8) -> Self:
        """From frequencies in rows, with `smoothing` added to the count of every value; numbers in `n_bins` intervals
        with equally many rows each."""
        _cells_of(query_set)  # an unsuitable query set is told before anything is counted
        intervals = _intervals(query_set, rows, n_bins)
        model = cls(query_set, classes, [len(above) for above, _ in intervals], smoothing, n_bins)
        for side, buffer in enumerate((model.above, model.up_to)):
            buffer.copy_(torch.tensor([edge for both in intervals for edge in both[side]]))
        counts = torch.zeros_like(model.log_likelihood)
        at_once = max(1, CHUNK_BYTES // (16 * len(counts)))
        for start in range(0, len(rows), at_once):
            part = rows.take(slice(start, start + at_once))
            members = F.one_hot(part.y, len(classes)).double()
            counts += model.holds(part.x, model.seen(part.available)).T @ members
        counts += smoothing
        model.log_likelihood.copy_((counts / model._by_cell(counts.T).T[model.cell_of]).log())
        model.log_prior.copy_(rows.prior(len(classes)).log())
        return model

    def seen(self, known: Tensor) -> Tensor:
        """Which cells are seen once the queries `known` (B, Q) are: (B, cells)."""
        if not isinstance(self.query_set, PatchQueries):
            return known
        pixels = self.query_set.pixels(known.float()) > 0  # (B, 1, H, W)
        return pixels.expand(-1, self.query_set.image_shape[0], -1, -1).flatten(1)

    def holds(self, x: Tensor, seen: Tensor) -> Tensor:
        """1 for every value that a cell which is `seen` (B, cells) has in `x`: (B, V), as double."""
        features = x.flatten(1)[:, self.feature_of]
        return ((features > self.above) & (features <= self.up_to) & seen[:, self.cell_of]).double()

    def evidence(self, history: History) -> Tensor:
        """The log probability of every label together with what is known: (B, C)."""
        return self.holds(history.x, self.seen(history.known)) @ self.log_likelihood + self.log_prior

    def log_posterior(self, history: History) -> Tensor:
        return self.evidence(history).log_softmax(dim=1)

    def scores(self, history: History) -> Tensor:
        return self.information(self.log_posterior(history), self.seen(history.known))

    def _by_cell(self, values: Tensor) -> Tensor:
        """Sum (B, V) over the values of each cell: (B, cells)."""
        total = torch.zeros(len(values), len(self.n_values), dtype=values.dtype, device=values.device)
        return total.index_add(1, self.cell_of, values)

    def information(self, log_posterior: Tensor, seen: Tensor, outcomes: Tensor | None = None) -> Tensor:
        """The mutual information with the label of what each query shows (B, Q), in nats, at a belief (B, C); whoever
        asks again and again gives the `outcomes()`."""
        posterior, likelihood = log_posterior.exp(), self.log_likelihood.exp().T
        noise = posterior @ self._by_cell(torch.special.entr(likelihood))  # (B, cells): entropy if the label were known
        noise = (noise * ~seen)[:, self.cells].sum(dim=2)
        if self.cells.shape[1] == 1:
            entropy = self._by_cell(torch.special.entr(posterior @ likelihood)) * ~seen
            return entropy[:, self.cells[:, 0]] - noise
        outcomes = self.outcomes() if outcomes is None else outcomes
        at_once = max(1, CHUNK_BYTES // (8 * outcomes.shape[1]))
        parts = zip(posterior.split(at_once), seen[:, self.cells].split(at_once), strict=True)
        return torch.cat([self._entropy(one @ outcomes, there) for one, there in parts]) - noise

    def outcomes(self) -> Tensor:
        """P(answer | label) of all answers to all patches, (C, Q * K**S): S pixels of K values, the first slowest."""
        cell = self.log_likelihood.exp().T.unflatten(1, (len(self.n_values), -1))[:, self.cells]  # (C, Q, S, K)
        joint = torch.ones_like(cell[:, :, 0, :1])
        for i in range(cell.shape[2]):
            joint = (joint[..., None] * cell[:, :, i, None]).flatten(2)
        return joint.flatten(1)

    def _entropy(self, answer: Tensor, seen: Tensor) -> Tensor:
        """The entropy (B, Q) of what patches show besides pixels already `seen` (B, Q, S), from P(answer | history)
        (B, Q * K**S), which is overwritten."""
        n_rows, n_queries, n_cells = seen.shape
        n_values, answer = self.n_values[0], answer.view(n_rows, n_queries, -1)
        for i in range(n_cells):
            values = answer.view(n_rows, n_queries, n_values**i, n_values, -1)
            # What is seen is summed out: given the label, pixels are independent.
            is_seen = seen[:, :, i, None, None].double()
            values[:, :, :, 0] += is_seen * values[:, :, :, 1:].sum(dim=3)
            values[:, :, :, 1:] *= 1 - is_seen[..., None]
        return torch.special.entr(answer).sum(dim=2)

    def follow(self, history: History) -> Follower:
        return _CellFollower(self, history, self.outcomes() if self.cells.shape[1] > 1 else None)

    def to_config(self) -> dict[str, Any]:
        return {"n_values": self.n_values, "smoothing": self.smoothing, "n_bins": self.n_bins}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(query_set, classes, **config)


class _CellFollower(Follower):
    """Each cell that is seen for the first time adds its own evidence."""

    def __init__(self, pursuer: NaiveBayesIP, history: History, outcomes: Tensor | None):
        self._bayes, self._x, self._outcomes = pursuer, history.x.flatten(1), outcomes
        self._rows = torch.arange(len(history), device=history.x.device)
        self._asked, self._seen = history.asked.clone(), pursuer.seen(history.known).clone()  # (B, Q), (B, cells)
        self._evidence = pursuer.evidence(history)  # (B, C)

    @property
    def asked(self) -> Tensor:
        return self._asked

    def log_posterior(self) -> Tensor:
        return self._evidence.log_softmax(dim=1)

    def scores(self) -> Tensor:
        return self._bayes.information(self.log_posterior(), self._seen, self._outcomes)

    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._asked.scatter_(1, query[:, None], True)
        values = self._bayes.values[query]  # (B, values of a query)
        there, values = values >= 0, values.clamp(min=0)
        features = self._x[self._rows[:, None], self._bayes.feature_of[values]]
        holds = (features > self._bayes.above[values]) & (features <= self._bayes.up_to[values])
        is_new = answered[:, None] & ~self._seen.gather(1, self._bayes.cell_of[values])
        weights = (holds & there & is_new).double()
        self._evidence += F.embedding_bag(values, self._bayes.log_likelihood, per_sample_weights=weights, mode="sum")
        cells = self._bayes.cells[query]  # (B, S)
        self._seen.scatter_(1, cells, self._seen.gather(1, cells) | answered[:, None])

    def again(self, history: History) -> Follower:
        return _CellFollower(self._bayes, history, self._outcomes)

    def keep(self, rows: Tensor) -> None:
        self._rows, self._asked, self._seen = self._rows[rows], self._asked[rows], self._seen[rows]
        self._evidence = self._evidence[rows]


def _cells_of(query_set: QuerySet) -> Tensor:
    """The cells that each query shows: (Q, S)."""
    if isinstance(query_set, ColumnQueries):
        return torch.arange(len(query_set))[:, None]
    if not isinstance(query_set, PatchQueries):
        raise ValueError(f"Naive Bayes needs columns, words, concepts or patches, not {query_set}.")
    n_channels, height, width = query_set.image_shape
    corners = torch.tensor([query_set.corner(query) for query in range(len(query_set))])
    side = torch.arange(query_set.size)
    pixels = (corners[:, :1] + side)[:, :, None] * width + (corners[:, 1:] + side)[:, None, :]  # (Q, size, size)
    return (torch.arange(n_channels)[:, None] * height * width + pixels.flatten(1)[:, None]).flatten(1)


def _intervals(query_set: QuerySet, rows: Rows, n_bins: int) -> list[tuple[list[float], list[float]]]:
    """Above what and up to what the feature of every value lies, cell by cell."""
    if isinstance(query_set, PatchQueries):
        n_values = _n_pixel_values(query_set, n_bins)
        return [_between(np.linspace(-1, 1, n_values + 1)[1:-1])] * int(np.prod(query_set.image_shape))
    assert isinstance(query_set, ColumnQueries)
    intervals = []
    for number, (query, start) in enumerate(zip(query_set.queries, query_set.starts, strict=True)):
        if isinstance(query, Number):
            told = rows.x[rows.available[:, number], start].float().numpy()
            edges = np.quantile(told, np.arange(1, n_bins) / n_bins, method="lower") if len(told) else np.empty(0)
            intervals.append(_between(np.unique(edges[edges < told.max(initial=-np.inf)])))
        elif len(query.choices) == 2:
            intervals.append(_between(np.zeros(1)))
        else:  # every choice has a feature of its own, of 0 or 1
            intervals.append(([0.0] * len(query.choices), [np.inf] * len(query.choices)))
    return intervals


def _between(edges: np.ndarray) -> tuple[list[float], list[float]]:
    return [-np.inf, *edges.tolist()], [*edges.tolist(), np.inf]


def _n_pixel_values(query_set: PatchQueries, n_bins: int) -> int:
    """How many values a pixel has, so that the answers to a patch can all be summed over."""
    n_pixels = _cells_of(query_set).shape[1]
    most = 2 if query_set.threshold is not None else n_bins
    fitting = [n for n in range(2, most + 1) if n**n_pixels <= MOST_OUTCOMES]
    if not fitting:
        raise ValueError(
            f"A patch of {n_pixels} pixels has more than {MOST_OUTCOMES} answers, too many to sum over: use "
            "PatchQueries of up to 3x3 pixels in one channel."
        )
    return fitting[-1]


class NaiveBayesIPClassifier(PursuitClassifier):
    """Information Pursuit as if answers were independent given the label.

    Parameters
    ----------
    query_set, stop, max_queries, random_state, device
        As for every estimator (`PursuitClassifier`). Nothing here is random.
    smoothing : float
        Added to the count of every answer under every label.
    n_bins : int
        Into how many intervals numbers are put: for columns with equally many rows each, for pixels of equal width and
        as many as can be summed over. Patches with a threshold have two values a pixel.
    """

    kind = NaiveBayesIP

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        smoothing: float = 1.0,
        n_bins: int = 8,
        random_state: Any = None,
        device: str = "cpu",
    ):
        super().__init__(query_set, stop=stop, max_queries=max_queries, random_state=random_state, device=device)
        self.smoothing = smoothing
        self.n_bins = n_bins

    def _check_settings(self) -> None:
        if not self.smoothing > 0:
            raise ValueError(f"smoothing is added to counts so that none is zero: above 0, not {self.smoothing}.")
        if self.n_bins < 2:
            raise ValueError(f"n_bins is a number of intervals, at least 2, not {self.n_bins}.")

    def _learn(self, query_set: QuerySet, rows: RowSource, fit: Fit) -> NaiveBayesIP:
        counted = rows_in_memory(rows, COUNTED_ROWS, fit.seed)
        self._warn_if_nothing_will_be_asked(counted.prior(len(self.classes_)))
        return NaiveBayesIP.count(query_set, self.classes_, counted, self.smoothing, self.n_bins)

    @classmethod
    def _settings_of(cls, model: NaiveBayesIP) -> dict[str, Any]:
        return {"smoothing": model.smoothing, "n_bins": model.n_bins}
