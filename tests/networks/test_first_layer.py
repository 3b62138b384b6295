"""Networks split after their first layer give what they gave before, and others are not split."""

import pytest
import torch
from torch import Tensor, nn

from pursuit.networks import MLP, Conv, NetworkSettings, SetNetwork
from pursuit.networks.first_layer import SplitNetworks, split_first_layer
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, yes_no

MIXED = ColumnQueries([yes_no("p"), Choice("c", "Which c?", ("r", "g", "b")), Number("n", "How many?"), yes_no("q")])
DENSE = [
    MLP((8, 6), dropout=0.5),
    MLP((8,)),
    MLP(()),
    MLP((8,), direct=True),
    MLP((), direct=True),
    SetNetwork(5, "sum", 7, (8,)),
    SetNetwork(5, "max", 7, (8, 6), norm="batch"),
    SetNetwork(5, "max", 7, ()),
]
every_network = pytest.mark.parametrize("settings", DENSE, ids=str)
shared_or_not = pytest.mark.parametrize("shared", [False, True])


def split(settings: NetworkSettings, shared: bool) -> tuple[nn.Module, nn.Module, SplitNetworks]:
    torch.manual_seed(0)
    querier, classifier = (network.double() for network in settings.build(MIXED, 3, shared))
    for network in (querier, classifier):
        for parameter in network.parameters():
            nn.init.normal_(parameter, std=0.5)
        network(torch.randn(9, *MIXED.input_shape, dtype=torch.double))  # so that BatchNorm differs from a fresh one
        network.eval()
    networks = split_first_layer(querier, classifier, *MIXED.input_shape)
    assert networks is not None
    return querier, classifier, networks


def same(networks: SplitNetworks, state: Tensor, querier: nn.Module, classifier: nn.Module, encoded: Tensor) -> None:
    features = networks.features(state)
    torch.testing.assert_close(networks.scores(features), querier(encoded))
    torch.testing.assert_close(networks.logits(features), classifier(encoded))


@every_network
@shared_or_not
def test_a_split_network_gives_the_same(settings: NetworkSettings, shared: bool) -> None:
    querier, classifier, networks = split(settings, shared)
    known = torch.rand(6, 4) < 0.5
    encoded = MIXED.encode(torch.randn(6, *MIXED.answer_shape, dtype=torch.double), known)
    same(networks, networks.start(encoded), querier, classifier, encoded)
    same(networks, networks.bias.repeat(6, 1), querier, classifier, torch.zeros_like(encoded))
    assert networks.weight.shape == (*MIXED.input_shape, len(networks.bias))
    assert networks.is_shared == shared


@every_network
@shared_or_not
@pytest.mark.parametrize("n_rows", [1, 5])
def test_revealing_is_starting_with_more(settings: NetworkSettings, shared: bool, n_rows: int) -> None:
    querier, classifier, networks = split(settings, shared)
    x, known = torch.randn(n_rows, *MIXED.answer_shape, dtype=torch.double), torch.zeros(n_rows, 4, dtype=torch.bool)
    state = networks.bias.repeat(n_rows, 1)
    for query in torch.rand(n_rows, 4).argsort(dim=1).T:  # in another order in each row
        known.scatter_(1, query[:, None], True)
        if n_rows == 1:
            features = MIXED.own_inputs.features(int(query))
            networks.reveal_one(state, features, x[:, features], MIXED.answer_shape[0] + int(query))
        else:
            features, there, is_known = MIXED.own_inputs.place(query)
            assert there is not None
            assert is_known is not None
            values = torch.cat([x.gather(1, features) * there, torch.ones(n_rows, 1)], dim=1)
            networks.reveal(state, torch.cat([features, is_known], dim=1), values)
        encoded = MIXED.encode(x, known)
        torch.testing.assert_close(state, networks.start(encoded))
        same(networks, state, querier, classifier, encoded)


@shared_or_not
def test_nothing_keeps_a_gradient_and_no_weight_is_changed(shared: bool) -> None:
    querier, classifier, networks = split(MLP((8,)), shared)
    before = {
        name: tensor.clone() for name, tensor in (*querier.state_dict().items(), *classifier.state_dict().items())
    }
    state = networks.bias.repeat(1, 1)
    networks.reveal_one(state, slice(0, 1), torch.ones(1, 1, dtype=torch.double), None)
    assert not state.requires_grad
    assert not networks.weight.requires_grad
    now = {**querier.state_dict(), **classifier.state_dict()}
    assert all(torch.equal(now[name], before[name]) for name in now)


def test_other_networks_are_not_split() -> None:
    images = PatchQueries((1, 8, 8), 2)
    assert split_first_layer(*Conv((4,), hidden=8).build(images, 3, False), 128) is None
    assert split_first_layer(nn.Linear(8, 4), nn.Linear(8, 3), 8) is None
    dense, (n_inputs,) = MLP((8,)).build(MIXED, 3, False), MIXED.input_shape
    odd = nn.Sequential(nn.Sequential(nn.Tanh(), nn.Linear(n_inputs, 8)), nn.Linear(8, 3))
    assert split_first_layer(dense[0], odd, n_inputs) is None
    assert split_first_layer(dense[0], nn.Sequential(nn.Identity(), nn.Linear(n_inputs, 3)), n_inputs) is None
    without_bias = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(n_inputs, 8)), nn.Linear(8, 3, bias=False))
    assert split_first_layer(dense[0], without_bias, n_inputs) is None
    largest = SetNetwork(5, "max", 7, (8,)).build(MIXED, 3, False)
    assert split_first_layer(dense[0], largest[1], n_inputs) is None  # one adds up, the other takes the largest
    assert split_first_layer(largest[0], SetNetwork(5, "sum", 7, (8,)).build(MIXED, 3, False)[1], n_inputs) is None
    mixed = split_first_layer(dense[0], SetNetwork(5, "sum", 7, (6,)).build(MIXED, 3, False)[1], n_inputs)
    assert mixed is not None
