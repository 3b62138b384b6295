"""What may be answered, as a list: yes and no, the choices of a column, or intervals of a number.

Answers are made of units (`QuerySet.units`). Unit u has `n_values[u]` possible values, V in all units
together, and a value holds where its feature lies above one edge and up to another. The answer "not given" is none of
these values.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.queries.column import Number
from pursuit.queries.query_set import QuerySet
from pursuit.queries.scaling import NOT_GIVEN, compress, expand, round_edges

MOST_VALUES = 2**22
"""Possible answers of all queries together."""


class AnswerValues(nn.Module):
    """The possible values of every unit of a query set."""

    may_be_infinite: ClassVar[tuple[str, ...]] = ("above", "up_to")
    """The first interval of numbers has no beginning, and the last no end."""

    above: Tensor
    up_to: Tensor
    unit_of_value: Tensor
    feature_of_value: Tensor
    values_of_unit: Tensor

    def __init__(self, query_set: QuerySet, n_values: Sequence[int]):
        """Without edges, which a saved model brings along or `listed` measures."""
        super().__init__()
        self.query_set, self.n_values = query_set, list(n_values)
        if sum(self.n_values) > MOST_VALUES:
            raise ValueError(
                f"There are {sum(self.n_values):,} possible answers: at most {MOST_VALUES:,} can be listed."
            )
        n = torch.tensor(self.n_values)
        first, further = n.cumsum(dim=0) - n, torch.arange(int(n.max()))
        # A choice has a feature for every value, and anything else one feature for all of them.
        features = query_set.units.features
        feature_of_value = [
            own[i] if len(own) > 1 else own[0] for own, k in zip(features, self.n_values, strict=True) for i in range(k)
        ]
        constants = {
            "unit_of_value": torch.arange(len(n)).repeat_interleave(n),  # (V,)
            "feature_of_value": torch.tensor(feature_of_value),  # (V,)
            "values_of_unit": torch.where(further < n[:, None], first[:, None] + further, -1),  # (U, K), -1 beyond
        }
        for name, tensor in constants.items():
            self.register_buffer(name, tensor, persistent=False)
        # A value holds where its feature is above the one and up to the other: (V,) each
        self.register_buffer("above", torch.zeros(len(feature_of_value)))
        self.register_buffer("up_to", torch.zeros(len(feature_of_value)))

    @classmethod
    def listed(cls, query_set: QuerySet, x: Tensor, available: Tensor, n_bins: int) -> Self:
        """With numbers in up to `n_bins` intervals that hold equally many of the answers `x` (N, *answer_shape), of
        which `available` (N, Q) exist; shades of pixels are in intervals of equal width."""
        intervals = _intervals(query_set, x, available, n_bins)
        outcomes = cls(query_set, [len(own.above) for own in intervals])
        outcomes.above.copy_(torch.tensor([edge for own in intervals for edge in own.above]))
        outcomes.up_to.copy_(torch.tensor([edge for own in intervals for edge in own.up_to]))
        return outcomes

    def __len__(self) -> int:
        return len(self.feature_of_value)

    def holds(self, x: Tensor) -> Tensor:
        """Which values the answers `x` (B, *answer_shape) have: (B, V) bool."""
        # Selecting rows of a matrix takes far less time than selecting columns.
        features = x.flatten(1).T.contiguous().index_select(0, self.feature_of_value)
        return ((features > self.above[:, None]) & (features <= self.up_to[:, None])).T

    def held(self, units: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The values of `units` (B, S), and which of them hold in the `rows` (B,) of answers `x` (N, F): (B, S * K)
        each. A unit of fewer than K values has value 0 in place of others, which then does not hold."""
        values = self.values_of_unit[units].flatten(1)
        there, values = values >= 0, values.clamp(min=0)
        features = x[rows[:, None], self.feature_of_value[values]]
        return values, (features > self.above[values]) & (features <= self.up_to[values]) & there

    def by_unit(self, values: Tensor) -> Tensor:
        """The sum of (B, V) over the values of each unit: (B, U)."""
        total = torch.zeros(len(values), len(self.n_values), dtype=values.dtype, device=values.device)
        return total.index_add(1, self.unit_of_value, values)

    def values_of_query(self, query: int) -> list[int]:
        """The values of the unit that a query of one unit shows."""
        (unit,) = self.query_set.units.of_query[query].tolist()
        return [value for value in self.values_of_unit[unit].tolist() if value >= 0]

    def describe(self, query: int) -> list[str]:
        """The possible answers to a query that shows one unit, in words: choices, or intervals such as "up to 3.5"."""
        return [self._in_words(query, value) for value in self.values_of_query(query)]

    def _in_words(self, query: int, value: int) -> str:
        low, high = float(self.above[value]), float(self.up_to[value])
        feature = int(self.feature_of_value[value])
        match self.query_set.units.feature_types[feature]:
            case "number":
                own = self.query_set.queries[query]
                following = _following(own) if isinstance(own, Number) and own.decimals == 0 else None
                return Interval.between(low, high, lambda edge: self._answer(query, feature, edge), following)
            case "share":
                return str(Interval.between(low, high, lambda edge: f"{50 * (edge + 1):.3g}%"))
        return self._answer(query, feature, 1.0 if high > 0 else -1.0)

    def _answer(self, query: int, feature: int, x: float) -> str:
        row = torch.zeros(self.query_set.answer_shape).flatten()
        row[feature] = x
        return self.query_set.describe(query, row.view(self.query_set.answer_shape))


def _following(query: Number) -> Callable[[str], str]:
    """The whole number after another one, both in words; the same one beyond all that is read."""

    def following(text: str) -> str:
        try:
            return query.as_given(query.read(text) + 1)
        except ValueError:
            return text

    return following


class Interval(str):
    """The text of the answers between two numbers, which knows its ends in words; None: there is no end."""

    low: str | None
    high: str | None

    @classmethod
    def between(
        cls,
        low: float,
        high: float,
        in_words: Callable[[float], str],
        following: Callable[[str], str] | None = None,
    ) -> Self:
        """Above the one and up to the other. Of whole numbers, the first one between them is that `following`."""
        start = None if low <= NOT_GIVEN else in_words(low)
        end = None if high == np.inf else in_words(high)
        if start is not None and end is not None and following is not None:
            start = following(start)
        if start is None:
            text = cls("any" if end is None else f"up to {end}")
        elif end is None:
            text = cls(f"above {start}")
        else:
            text = cls(end if start == end else f"{start} to {end}")
        text.low, text.high = start, end
        return text


class _Intervals(NamedTuple):
    """Above what and up to what the feature of each value of a unit lies."""

    above: list[float]
    up_to: list[float]


def _intervals(query_set: QuerySet, x: Tensor, available: Tensor, n_bins: int) -> list[_Intervals]:
    """Those of every unit."""
    features, types = query_set.units.features, query_set.units.feature_types
    there = torch.empty(0)
    if "number" in types:
        there = query_set.units.known(query_set.given(x, available))  # (N, U)
    intervals = []
    for unit, own in enumerate(features):
        may_be_missing = query_set.has_own_units and query_set.queries[unit].may_be_missing
        match types[own[0]]:
            case "choice":  # each has a feature of its own, of 0 or 1
                intervals.append(_Intervals([0.0] * len(own), [np.inf] * len(own)))
            case "yes_no":  # -1 or 1, or 0 if it is not given
                intervals.append(_Intervals([-np.inf, 0.0], [-0.5 if may_be_missing else 0.0, np.inf]))
            case "share":
                intervals.append(_between(np.linspace(-1, 1, n_bins + 1)[1:-1]))
            case "number":
                answers = x.flatten(1)[there[:, unit], own[0]].float().numpy()
                edges = _quantiles(answers, n_bins)
                if query_set.has_own_units and isinstance(query := query_set.queries[unit], Number):
                    edges = _rounded(edges, answers, query)
                intervals.append(_between(edges, NOT_GIVEN if may_be_missing else -np.inf))
    return intervals


def _quantiles(answers: np.ndarray, n_bins: int) -> np.ndarray:
    """What divides the answers into `n_bins` intervals with equally many each, or fewer where many are equal."""
    if not len(answers):
        return np.empty(0)
    edges = np.quantile(answers, np.arange(1, n_bins) / n_bins, method="lower")
    return np.unique(edges[edges < answers.max()])


def _rounded(edges: np.ndarray, answers: np.ndarray, query: Number) -> np.ndarray:
    """What divides the answers to a query, at round numbers."""
    if not len(edges):
        return edges
    numbers = [query.centre + query.spread * expand(float(z)) for z in (*edges, answers.max())]
    before = 2 * numbers[0] - numbers[1]  # so that the first one is moved up as well
    moved = round_edges(np.array([before, *numbers]))[1:-1]
    return np.unique(compress((moved - query.centre) / query.spread).astype(np.float32))


def _between(edges: np.ndarray, lowest: float = -np.inf) -> _Intervals:
    return _Intervals([lowest, *edges.tolist()], [*edges.tolist(), np.inf])
