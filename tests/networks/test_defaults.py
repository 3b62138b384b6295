"""Which network is taken where the user does not say."""

import pytest
import torch

from pursuit.networks import MLP, Conv, NetworkSettings, Residual, default_network
from pursuit.queries import ColumnQueries, Number, PatchQueries, QuerySet


@pytest.mark.parametrize(
    ("query_set", "expected"),
    [
        (PatchQueries((1, 28, 28), 3), Conv()),
        (PatchQueries((1, 32, 32), 8, 4), Conv()),
        (PatchQueries((3, 32, 32), 8, 4), Residual()),
        (PatchQueries((3, 24, 40), 4, 4, mask=False), Residual()),
        (PatchQueries((3, 32, 32), 8, 3), Conv()),  # a grid that Residual cannot score
        (PatchQueries((3, 20, 32), 8, 4), Conv()),
        (PatchQueries((1, 8, 8), 2), MLP((128, 128), 0.3)),
        (PatchQueries((1, 8, 8), 1), MLP((256, 256), 0.3)),
        (ColumnQueries([Number("n", "How many?")]), MLP((128, 128), 0.3)),
    ],
)
def test_defaults_suit_the_query_set(query_set: QuerySet, expected: NetworkSettings) -> None:
    assert default_network(query_set) == expected
    with torch.device("meta"):
        expected.build(query_set, 2, False)
