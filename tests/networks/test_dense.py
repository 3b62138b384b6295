"""The set network's algebra against its definition, and the layers of dense networks."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pursuit.networks import MLP, SetNetwork, dense
from pursuit.networks.dense import Dropout, dense_layers
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, yes_no

YES_NO = ColumnQueries([yes_no(name) for name in "pqrs"])
MIXED = ColumnQueries([yes_no("p"), Choice("c", "Which c?", ("r", "g", "b")), yes_no("q"), Number("n", "How many?")])


def embedded_one_by_one(encoder: nn.Module, query_set: ColumnQueries, x: Tensor, known: Tensor) -> Tensor:
    """(Q, width) for one row: W [a, a e, b] + c of each known answer, and zero for an unknown one."""
    embedded = []
    for query in range(len(query_set)):
        features = [f for f, owner in enumerate(query_set.units.of_feature.tolist()) if owner == query]
        total = torch.zeros(encoder.linear.out_features)  # type: ignore[union-attr, arg-type]
        for i, f in enumerate(features):
            a = x[f]
            inside = torch.cat([a[None], a * encoder.embedding[f], encoder.bias[query] * (i == 0)])  # type: ignore[index]
            total = total + encoder.linear.weight @ inside  # type: ignore[union-attr, operator]
        embedded.append((total + encoder.linear.bias) * known[query])  # type: ignore[union-attr, operator]
    return torch.stack(embedded)


@pytest.mark.parametrize("query_set", [YES_NO, MIXED])
@pytest.mark.parametrize("aggregate", ["sum", "max"])
@given(seed=st.integers(0, 1000), share=st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_each_known_answer_is_embedded_as_the_paper_says(
    query_set: ColumnQueries, aggregate: str, seed: int, share: float
) -> None:
    torch.manual_seed(seed)
    encoder = SetNetwork(5, aggregate, 7, ()).trunk(query_set)[0]  # type: ignore[arg-type, index]
    nn.init.normal_(encoder.bias)
    x = torch.randn(3, *query_set.answer_shape)
    known = torch.rand(3, len(query_set)) < share
    got = encoder(query_set.encode(x, known))
    for row in range(3):
        each = embedded_one_by_one(encoder, query_set, x[row], known[row])
        expected = each.sum(dim=0) if aggregate == "sum" else each.amax(dim=0).clamp(min=0)
        torch.testing.assert_close(got[row], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggregate", ["sum", "max"])
def test_an_empty_history_is_all_zeros(aggregate: str) -> None:
    encoder = SetNetwork(5, aggregate, 7, ()).trunk(MIXED)[0]  # type: ignore[arg-type, index]
    nothing = torch.zeros(2, len(MIXED), dtype=torch.bool)
    assert not encoder(MIXED.encode(torch.randn(2, *MIXED.answer_shape), nothing)).any()


def test_the_maximum_is_never_below_zero() -> None:
    torch.manual_seed(0)
    encoder = SetNetwork(5, "max", 50, ()).trunk(MIXED)[0]  # type: ignore[index]
    x, known = torch.randn(20, *MIXED.answer_shape), torch.ones(20, len(MIXED), dtype=torch.bool)
    everything = encoder(MIXED.encode(x, known))
    each = torch.stack([embedded_one_by_one(encoder, MIXED, row, known[0]).amax(dim=0) for row in x])
    assert each.min() < 0  # so that the case is there
    assert everything.min() == 0
    assert torch.equal(everything > 0, each > 0)


@pytest.mark.parametrize("query_set", [YES_NO, MIXED])
@pytest.mark.parametrize("aggregate", ["sum", "max"])
def test_a_chosen_answer_apart_is_one_more_of_the_history(query_set: ColumnQueries, aggregate: str) -> None:
    torch.manual_seed(0)
    encoder = SetNetwork(5, aggregate, 7, ()).trunk(query_set)[0]  # type: ignore[arg-type, index]
    nn.init.normal_(encoder.bias)
    x, known = torch.randn(30, *query_set.answer_shape), torch.rand(30, len(query_set)) < 0.4
    choice = nn.functional.one_hot(torch.rand(known.shape).masked_fill(known, -1).argmax(dim=1), len(query_set))
    choice = choice.bool() & ~known  # none where everything is known
    apart = torch.stack([query_set.encode(x, known), query_set.encode(x, choice)], dim=1)
    expected = encoder(query_set.encode(x, known | choice))
    torch.testing.assert_close(encoder(apart), expected, rtol=1e-5, atol=1e-6)
    assert not torch.equal(expected, encoder(apart[:, 0]))
    with torch.no_grad():
        torch.testing.assert_close(encoder(apart), expected, rtol=1e-5, atol=1e-6)


def test_a_mixture_of_answers_is_one_member_of_the_set() -> None:
    torch.manual_seed(0)
    encoder = SetNetwork(5, "max", 7, ()).trunk(MIXED)[0]  # type: ignore[index]
    nn.init.normal_(encoder.bias)
    x, known = torch.randn(*MIXED.answer_shape), torch.tensor([True, False, False, False])
    weights = torch.tensor([0.0, 0.2, 0.5, 0.3])
    got = encoder(torch.stack([MIXED.encode(x[None], known[None]), MIXED.encode(x[None], weights[None])], dim=1))[0]
    each = embedded_one_by_one(encoder, MIXED, x, torch.ones(4))
    torch.testing.assert_close(got, torch.maximum(each[0], weights @ each).relu())
    (slope,) = torch.autograd.grad(got.sum(), [encoder.bias])  # of the offset of each query
    wins = torch.stack([each[0], weights @ each]).argmax(dim=0) == 1
    assert wins.any()
    assert slope[1:].count_nonzero() == 3


def test_a_few_rows_at_a_time_have_the_same_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    encoder = SetNetwork(5, "max", 50, ()).trunk(MIXED)[0]  # type: ignore[index]
    encoded = MIXED.encode(torch.randn(7, *MIXED.answer_shape), torch.rand(7, len(MIXED)) < 0.5)
    with_gradient = encoder(encoded)
    for at_once in (1, 2 * 6 * 50, 10**9):  # one row, two rows, all
        monkeypatch.setattr("pursuit.networks.dense.AT_ONCE", at_once)
        with torch.no_grad():
            torch.testing.assert_close(encoder(encoded), with_gradient, rtol=0, atol=0)
    assert encoder(encoded[:0]).shape == (0, 50)


@pytest.mark.parametrize(("norm", "layer"), [("layer", nn.LayerNorm), ("batch", nn.BatchNorm1d)])
def test_hidden_layers_are_normalised_as_asked(norm: str, layer: type[nn.Module]) -> None:
    querier, _ = SetNetwork(5, "max", 7, (8, 6), norm=norm).build(YES_NO, 3, True)  # type: ignore[arg-type]
    norms = [m for m in querier.modules() if isinstance(m, nn.LayerNorm | nn.BatchNorm1d)]
    assert [type(m) for m in norms] == [layer, layer]


def test_the_papers_medical_network_has_its_size() -> None:
    with torch.device("meta"):
        querier, classifier = SetNetwork(aggregate="max", norm="batch").build(YES_NO, 3, True)
    trunk = 4 * 401 + 402 * 100 + 100 + (100 * 2000 + 3 * 2000) + (2000 * 500 + 3 * 500)
    assert sum(p.numel() for p in querier.parameters()) == trunk + 501 * 4
    assert sum(p.numel() for p in classifier.parameters()) == trunk + 501 * 3


def test_layers_are_linear_normalised_and_cut_off() -> None:
    layers = [type(layer) for layer in dense_layers(3, (5, 4), dropout=0.1)]
    assert layers == [nn.Linear, nn.LayerNorm, nn.ReLU, Dropout] * 2
    assert dense_layers(3, (), dropout=0.1) == []


@pytest.mark.parametrize(
    ("p", "shape"), [(0.1, (256, 256)), (0.5, (3, 5)), (0.5, (1024, 1024))]
)  # the last is larger than the pool's masks
def test_dropout_drops_its_share_at_other_places_each_time_and_keeps_the_mean(p: float, shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    dropout, ones = Dropout(p), torch.ones(shape)
    masks = torch.stack([dropout(ones) for _ in range(4 if len(ones) > 3 else 1000)])
    assert ((masks == 0) | (masks == masks.max())).all()
    assert masks.max().item() == pytest.approx(1 / (1 - p))
    assert (masks == 0).float().mean().item() == pytest.approx(p, abs=0.01)
    together = ((masks[0::2] == 0) & (masks[1::2] == 0)).float().mean().item()  # no more than by chance
    assert together == pytest.approx(p * p, abs=0.02)
    by_unit = (masks == 0).float().mean(dim=(0, 1))
    assert (by_unit - p).abs().max().item() < 0.2, "a unit is dropped as often as others"


def test_dropout_is_repeated_by_the_seed_has_gradients_and_does_nothing_in_use() -> None:
    dropout, x = Dropout(0.3), torch.randn(64, 32, requires_grad=True)
    torch.manual_seed(5)
    first = dropout(x)
    torch.manual_seed(5)
    torch.testing.assert_close(dropout(x), first, rtol=0, atol=0)
    first.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (first / x).detach())
    assert dropout.eval()(x) is x
    assert not Dropout(1.0)(x).any()


def test_an_mlp_without_hidden_layers_is_linear() -> None:
    querier, classifier = MLP(()).build(YES_NO, 3, True)
    encoded = torch.randn(2, *YES_NO.input_shape)
    torch.testing.assert_close(querier(2 * encoded), 2 * querier(encoded) - querier(0 * encoded))
    assert classifier(encoded).shape == (2, 3)
    assert not list(MLP(()).trunk(YES_NO).parameters())


def test_settings_that_do_not_fit_are_refused() -> None:
    for query_set in (ColumnQueries([yes_no("p")], mask=False), PatchQueries((1, 8, 8), 2)):
        with pytest.raises(ValueError, match="mask=True"):
            SetNetwork().build(query_set, 3, False)
    with pytest.raises(ValueError, match="'sum' or 'max', not by 'mean'"):
        SetNetwork(aggregate="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'layer' or 'batch', not by 'group'"):
        SetNetwork(norm="group")  # type: ignore[arg-type]


def test_a_direct_path_adds_a_linear_function_of_the_input() -> None:
    torch.manual_seed(0)
    querier, classifier = MLP((5,), direct=True).build(YES_NO, 3, shared=False)
    x = torch.randn(7, *YES_NO.input_shape)
    n_inputs = x.shape[1]
    for network, n_outputs in ((querier, 4), (classifier, 3)):
        trunk, head = network  # type: ignore[misc]
        assert network(x).shape == (7, n_outputs)
        weight = head.weight[:, -n_inputs:]
        through_body = trunk.body(x) @ head.weight[:, :5].T + head.bias
        assert torch.allclose(network(x), through_body + x @ weight.T, atol=1e-6)


def test_only_networks_without_convolutions_are_dense() -> None:
    assert dense.has_only_dense_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert not dense.has_only_dense_layers(nn.Sequential(nn.Conv2d(1, 1, 3)))
    assert not dense.has_only_dense_layers("not a network")


@pytest.mark.parametrize(("enabled", "wanted"), [(True, True), (True, False), (False, True)])
def test_onednn_is_off_only_within_fast_products(monkeypatch: pytest.MonkeyPatch, enabled: bool, wanted: bool) -> None:
    monkeypatch.setattr(dense, "IS_ARM", enabled)
    usual = torch.backends.mkldnn.enabled

    def fail() -> None:
        with dense.fast_products(wanted):
            assert torch.backends.mkldnn.enabled == (usual and not (enabled and wanted))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.backends.mkldnn.enabled == usual
