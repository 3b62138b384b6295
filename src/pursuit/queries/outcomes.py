"""What may be answered, as a list: yes and no, the choices of a column, or intervals of a number.

Answers are made of units (`QuerySet.unit_of_feature`). Unit u has `n_values[u]` possible values, V in all units
together, and a value holds where its feature lies above one edge and up to another.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from pursuit.queries.query_set import QuerySet


class Outcomes(nn.Module):
    """The possible values of every unit of a query set."""

    above: Tensor
    up_to: Tensor
    unit_of_value: Tensor
    feature_of_value: Tensor
    values_of_unit: Tensor

    def __init__(self, query_set: QuerySet, n_values: Sequence[int], who: str):
        """Without edges, which a saved model brings along or `listed` measures; `who` wants to know, for messages."""
        super().__init__()
        self.query_set, self.n_values = query_set, list(n_values)
        n = torch.tensor(self.n_values)
        first, further = n.cumsum(dim=0) - n, torch.arange(int(n.max()))
        # A choice has a feature for every value, and anything else one feature for all of them.
        features = query_set.features_of_units(who)
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
    def listed(cls, query_set: QuerySet, x: Tensor, available: Tensor, n_bins: int, who: str) -> Self:
        """With numbers in up to `n_bins` intervals that hold equally many of the answers `x` (N, *answer_shape), of
        which `available` (N, Q) exist; shades of pixels are in intervals of equal width."""
        intervals = _intervals(query_set, x, available, n_bins, who)
        outcomes = cls(query_set, [len(own.above) for own in intervals], who)
        outcomes.above.copy_(torch.tensor([edge for own in intervals for edge in own.above]))
        outcomes.up_to.copy_(torch.tensor([edge for own in intervals for edge in own.up_to]))
        return outcomes

    def __len__(self) -> int:
        return len(self.feature_of_value)

    def holds(self, x: Tensor) -> Tensor:
        """Which values the answers `x` (B, *answer_shape) have: (B, V) bool."""
        features = x.flatten(1)[:, self.feature_of_value]
        return (features > self.above) & (features <= self.up_to)

    def by_unit(self, values: Tensor) -> Tensor:
        """The sum of (B, V) over the values of each unit: (B, U)."""
        total = torch.zeros(len(values), len(self.n_values), dtype=values.dtype, device=values.device)
        return total.index_add(1, self.unit_of_value, values)

    def describe(self, query: int) -> list[str]:
        """The possible answers to a query that shows one unit, in words: choices, or intervals such as "up to 3.5"."""
        values = [value for value in self.values_of_unit[query].tolist() if value >= 0]
        _, _, types = self.query_set.need_units("Describing answers")
        is_choice = types[int(self.feature_of_value[values[0]])] in ("yes_no", "choice")
        return [self._choice(query, value) if is_choice else self._interval(query, value) for value in values]

    def _choice(self, query: int, value: int) -> str:
        return self._in_words(query, value, 1.0 if self.up_to[value] > 0 else -1.0)

    def _interval(self, query: int, value: int) -> str:
        low, high = float(self.above[value]), float(self.up_to[value])
        if low == -np.inf:
            return "any" if high == np.inf else f"up to {self._in_words(query, value, high)}"
        if high == np.inf:
            return f"above {self._in_words(query, value, low)}"
        return f"{self._in_words(query, value, low)} to {self._in_words(query, value, high)}"

    def _in_words(self, query: int, value: int, feature: float) -> str:
        x = torch.zeros(self.query_set.answer_shape).flatten()
        x[int(self.feature_of_value[value])] = feature
        return self.query_set.describe(query, x.view(self.query_set.answer_shape))


class _Intervals(NamedTuple):
    """Above what and up to what the feature of each value of a unit lies."""

    above: list[float]
    up_to: list[float]


def _intervals(query_set: QuerySet, x: Tensor, available: Tensor, n_bins: int, who: str) -> list[_Intervals]:
    """Those of every unit."""
    features, (_, _, types) = query_set.features_of_units(who), query_set.need_units(who)
    there = query_set.known_units(available) if "number" in types else torch.empty(0)  # (N, U)
    intervals = []
    for unit, own in enumerate(features):
        match types[own[0]]:
            case "choice":  # each has a feature of its own, of 0 or 1
                intervals.append(_Intervals([0.0] * len(own), [np.inf] * len(own)))
            case "yes_no":
                intervals.append(_between(np.zeros(1)))
            case "share":
                intervals.append(_between(np.linspace(-1, 1, n_bins + 1)[1:-1]))
            case "number":
                answers = x.flatten(1)[there[:, unit], own[0]].float().numpy()
                intervals.append(_between(_quantiles(answers, n_bins)))
    return intervals


def _quantiles(answers: np.ndarray, n_bins: int) -> np.ndarray:
    """What divides the answers into `n_bins` intervals with equally many each, or fewer where many are equal."""
    if not len(answers):
        return np.empty(0)
    edges = np.quantile(answers, np.arange(1, n_bins) / n_bins, method="lower")
    return np.unique(edges[edges < answers.max()])


def _between(edges: np.ndarray) -> _Intervals:
    return _Intervals([-np.inf, *edges.tolist()], [*edges.tolist(), np.inf])
