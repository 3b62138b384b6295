"""Units: the smallest parts that answers are made of, such as the columns of a table or the pixels of an image."""

from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

FeatureType = Literal["yes_no", "share", "choice", "number"]
"""The type of a feature of the answer space: -1 or 1; anything from -1 to 1, a share of no and yes; 0 or 1 for one of
several choices; or a standardised number."""


class Units(nn.Module):
    """The units of a query set. A unit is a single feature, or has one feature for each of several choices.

    Methods that model answers one by one need to know them: the unit of each feature of a flattened answer (F,), the
    units that each query shows (Q, S), and the types of features (F,).
    """

    of_feature: Tensor
    of_query: Tensor

    def __init__(self, of_feature: Tensor, of_query: Tensor, feature_types: tuple[FeatureType, ...]):
        super().__init__()
        self.register_buffer("of_feature", of_feature, persistent=False)  # (F,)
        self.register_buffer("of_query", of_query, persistent=False)  # (Q, S)
        self.feature_types = feature_types

    @cached_property
    def n_units(self) -> int:
        return int(self.of_feature.max()) + 1

    def __len__(self) -> int:
        return self.n_units

    @cached_property
    def are_own(self) -> bool:
        """Whether unit q is what query q shows, and no other query shows it: S is 1, and there are Q units."""
        n_queries = len(self.of_query)
        own = torch.arange(n_queries, device=self.of_query.device)[:, None]
        return self.n_units == n_queries and torch.equal(self.of_query, own)

    def known(self, known: Tensor) -> Tensor:
        """Which units are known once the queries `known` (B, Q) are: (B, U) bool."""
        if self.are_own:
            return known.bool()
        shown = self.of_query.flatten().expand(len(known), -1)
        is_known = known.bool().int().repeat_interleave(self.of_query.shape[1], dim=1)
        times_shown = torch.zeros(len(known), len(self), dtype=torch.int, device=known.device)
        return times_shown.scatter_add(1, shown, is_known) > 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the `values` (B, U) of the units that each query shows: (B, Q)."""
        return values if self.are_own else values[:, self.of_query].sum(dim=2)

    @cached_property
    def features(self) -> list[list[int]]:
        """The features of every unit: a single one, or one for each of several choices; raises ValueError where units
        mix feature types."""
        features: list[list[int]] = [[] for _ in range(len(self))]
        for feature, unit in enumerate(self.of_feature.tolist()):
            features[unit].append(feature)
        for unit, own in enumerate(features):
            if not own or (len(own) > 1 and any(self.feature_types[feature] != "choice" for feature in own)):
                types = ", ".join(self.feature_types[feature] for feature in own) or "none"
                raise ValueError(
                    "Answers can be modelled one by one only if each unit has one feature, or one for each of several "
                    f"choices, but unit {unit} has {types}: give each number and each yes or no a unit of its own "
                    "(set_units)."
                )
        return features
