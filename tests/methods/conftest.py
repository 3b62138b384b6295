"""A query set as a user may write one: each query shows two of five parts of a row, which queries share."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pursuit.queries import Answers, FeatureType, Query, QuerySet
from pursuit.registry import register
from pursuit.training.rows import Rows

TYPES: tuple[FeatureType, ...] = ("number", "choice", "choice", "choice", "share", "yes_no", "yes_no")
PAIRS = ((0, 1), (1, 2), (3, 2), (4, 0), (0, 3))


@register
class UnitPairs(QuerySet):
    """Its units are a yes or no, a choice of three, a number, a share and another yes or no, their features in another
    order."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = tuple(Query(f"{one} and {other}", f"What are {one} and {other}?") for one, other in PAIRS)
        self.answer_shape, self.input_shape = (7,), (12,)
        self.set_units(torch.tensor([2, 1, 1, 1, 3, 4, 0]), torch.tensor(PAIRS), TYPES)

    def answers(self, data: Any) -> Answers:
        """Rows (N, 7) of features, NaN where a unit has no answer."""
        x = torch.from_numpy(np.asarray(data, dtype=np.float32))
        there = torch.ones(len(x), 5, dtype=torch.bool)
        there.scatter_reduce_(1, self.units.of_feature.expand(x.shape), ~x.isnan(), "amin")
        return Answers(x.nan_to_num(), there[:, self.units.of_query].all(dim=2))

    def encode(self, x: Tensor, known: Tensor) -> Tensor:
        units = self.units.known(known)
        return torch.cat([x * units[:, self.units.of_feature], units], dim=1)

    def describe(self, query: int, x: Tensor) -> str:
        return str(x.tolist())

    def tell(self, x: Tensor, query: int, answer: Any) -> None:
        x.copy_(torch.as_tensor(answer))

    def to_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "UnitPairs":
        return cls()


@pytest.fixture(scope="session")
def pairs() -> UnitPairs:
    return UnitPairs()


@pytest.fixture(scope="session")
def pair_data() -> tuple[np.ndarray, np.ndarray]:
    """Rows whose choice, number and one yes or no depend on the label, some of them without an answer; and labels."""
    randomness = np.random.default_rng(0)
    y = randomness.integers(3, size=300)
    choice = np.eye(3)[(y + (randomness.random(300) < 0.3)) % 3]
    yes = np.where(randomness.random((300, 2)) < np.array([[0.5, 0.2], [0.5, 0.5], [0.5, 0.8]])[y], 1.0, -1.0)
    number, share = y - 1 + randomness.normal(0, 0.5, 300), randomness.uniform(-1, 1, 300)
    X = np.column_stack([number, choice, share, yes])
    X[randomness.random(300) < 0.1, 0] = np.nan
    return X, np.array(["allergy", "cold", "flu"])[y]


@pytest.fixture(scope="session")
def pair_rows(pairs: UnitPairs, pair_data: tuple[np.ndarray, np.ndarray]) -> Rows:
    X, y = pair_data
    return Rows(*pairs.answers(X), torch.from_numpy(np.unique(y, return_inverse=True)[1]))
