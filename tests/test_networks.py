"""Networks: shapes, sharing, and the set network's algebra."""

import pandas as pd
import pytest
import torch

from pursuit.networks import MLP, Conv, NetworkSettings, SetNetwork, default_network
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, QuerySet, yes_no


def columns(mask: bool = True) -> ColumnQueries:
    return ColumnQueries([yes_no("p"), Choice("c", "Which c?", ("r", "g", "b")), yes_no("q")], mask)


PATCHES = PatchQueries((1, 12, 10), size=3, stride=2)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("settings", "query_set"),
    [
        (MLP((8, 6), dropout=0.5), columns()),
        (MLP(()), columns(mask=False)),
        (MLP((8,)), PATCHES),
        (Conv((4, 6, 8, 10), hidden=16), PATCHES),
        (Conv((4, 6, 8), hidden=16, dropout=0.1), PatchQueries((3, 9, 9), size=2, mask=False)),
        (Conv((4,), hidden=16), PATCHES),
        (SetNetwork(5, "sum", 7, (8,)), columns()),
        (SetNetwork(5, "max", 7, ()), columns()),
    ],
)
def test_shapes_and_sharing(settings: NetworkSettings, query_set: QuerySet, shared: bool) -> None:
    querier, classifier = settings.build(query_set, 4, shared)
    x = torch.randn(5, *query_set.answer_shape)
    encoded = query_set.encode(x, torch.rand(5, len(query_set)) < 0.5)
    assert querier(encoded).shape == (5, len(query_set))
    assert classifier(encoded).shape == (5, 4)
    common = {id(p) for p in querier.parameters()} & {id(p) for p in classifier.parameters()}
    has_trunk = bool(list(settings.trunk(query_set).parameters()))
    assert bool(common) == (shared and has_trunk)


@pytest.mark.parametrize("aggregate", ["sum", "max"])
def test_set_network_embeds_each_known_answer_as_the_paper_says(aggregate: str) -> None:
    """Against the definition, one answer at a time: W [a, a e, b] + c over the known answers."""
    query_set = columns()
    encoder = SetNetwork(5, aggregate, 7, ()).trunk(query_set)[0]  # type: ignore[arg-type, index]
    torch.nn.init.normal_(encoder.bias)
    x = query_set.answers(pd.DataFrame({"p": [1, 0], "c": ["g", "b"], "q": [0, 1]})).x
    known = torch.tensor([[True, True, False], [True, False, True]])
    for row in range(2):
        embedded = []
        for query in range(3):
            features = [f for f in range(5) if int(query_set.owner[f]) == query]
            total = torch.zeros(7)
            for i, f in enumerate(features):
                a = x[row, f]
                inside = torch.cat([a[None], a * encoder.embedding[f], encoder.bias[query] * (i == 0)])
                total = total + encoder.linear.weight @ inside
            embedded.append((total + encoder.linear.bias) * known[row, query])
        stacked = torch.stack(embedded)
        expected = stacked.sum(dim=0) if aggregate == "sum" else stacked.amax(dim=0)
        got = encoder(query_set.encode(x[row : row + 1], known[row : row + 1]))[0]
        torch.testing.assert_close(got, expected)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="image patches"):
        Conv().build(columns(), 3, False)
    with pytest.raises(ValueError, match="mask=True"):
        SetNetwork().build(columns(mask=False), 3, False)
    with pytest.raises(ValueError, match="fewer channels"):
        Conv((4, 4, 4, 4, 4, 4, 4, 4)).build(PATCHES, 3, False)


def test_defaults_suit_the_query_set() -> None:
    assert isinstance(default_network(PatchQueries((1, 28, 28), 3)), Conv)
    assert isinstance(default_network(PatchQueries((1, 8, 8), 2)), MLP)
    assert isinstance(default_network(ColumnQueries([Number("n", "How many?")])), MLP)
