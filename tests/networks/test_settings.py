"""What holds for every network: its settings are frozen and clear about what suits, and what they build works."""

import dataclasses
import inspect
import json

import pytest
import torch
from torch import Tensor, nn

import pursuit.networks
from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.networks import DLA, MLP, Conv, DenseNet, NetworkSettings, PaperConv, Residual, SetNetwork
from pursuit.networks.settings import need_patches, pooled_linear
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, QuerySet, yes_no
from pursuit.registry import known
from pursuit.training import Batch
from pursuit.vip import VIP

OURS = {name: network for name, network in known("network").items() if network.__module__.startswith("pursuit.")}
COLUMNS = ColumnQueries([yes_no("p"), yes_no("q")])
N_CLASSES = 4
MIXED = ColumnQueries([yes_no("p"), Choice("c", "Which c?", ("r", "g", "b")), Number("n", "How many?")])
PLAIN = ColumnQueries([yes_no("p"), yes_no("q"), yes_no("r")], mask=False)
DIGITS = PatchQueries((1, 12, 10), size=3, stride=2)
MNIST = PatchQueries((1, 28, 28), size=3, mask=False)
PHOTOS = PatchQueries((3, 32, 32), size=8, stride=4)
SMALL_PHOTOS = PatchQueries((3, 16, 24), size=8, stride=4, mask=False)
CASES: list[tuple[NetworkSettings, QuerySet]] = [
    (MLP((8, 6), dropout=0.5), MIXED),
    (MLP((8,)), PLAIN),
    (MLP((8,)), DIGITS),
    (SetNetwork(5, "sum", 7, (8,)), MIXED),
    (SetNetwork(5, "max", 7, (8, 6), norm="batch"), MIXED),
    (Conv((4, 6, 8, 10), hidden=16), DIGITS),
    (Conv((4, 6, 8), hidden=16, dropout=0.1), PatchQueries((3, 9, 9), size=2, mask=False)),
    (Conv((4,), hidden=16), DIGITS),
    (PaperConv(), MNIST),
    (Residual(0.0625, 0.0625), PHOTOS),
    (Residual(0.0625, 0.03125), SMALL_PHOTOS),
    (DLA((4, 4, 6, 8, 10, 16)), PHOTOS),
    (DLA((4, 4, 6, 8), (1, 3)), SMALL_PHOTOS),
    (DLA((4, 4, 6, 8, 10, 16), decode=True), PHOTOS),
    (DenseNet(4, (1, 2, 2, 2)), PHOTOS),
    (DenseNet(3, (2, 1), reduction=0.7), SMALL_PHOTOS),
]
VARIANTS = (
    Residual(0.0625, 0.03125),
    DLA((4, 4, 6, 8), (1, 3)),
    DLA((4, 4, 6, 8, 10, 16), decode=True),
    DenseNet(3, (2, 1), reduction=0.7),
)
"""Other forms of large networks, which the slow tests look at."""
every_case = pytest.mark.parametrize(
    ("settings", "query_set"),
    [
        pytest.param(*case, id=f"{type(case[0]).__name__}-{i}", marks=pytest.mark.slow if case[0] in VARIANTS else ())
        for i, case in enumerate(CASES)
    ],
)


def history_input(query_set: QuerySet, n_rows: int = 5) -> Tensor:
    known = torch.rand(n_rows, len(query_set)) < 0.5
    return query_set.encode(torch.randn(n_rows, *query_set.answer_shape), known)


def can_share(settings: NetworkSettings) -> bool:
    return not isinstance(settings, Residual) or settings.classifier_width == settings.querier_width


def channels_last(x: Tensor) -> Tensor:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@every_case
@pytest.mark.parametrize("shared", [False, True])
def test_shapes_and_sharing(settings: NetworkSettings, query_set: QuerySet, shared: bool) -> None:
    if shared and not can_share(settings):
        pytest.skip("widths differ")
    querier, classifier = settings.build(query_set, N_CLASSES, shared)
    encoded = history_input(query_set)
    assert querier(encoded).shape == (5, len(query_set))
    assert classifier(encoded).shape == (5, N_CLASSES)
    common = {id(p) for p in querier.parameters()} & {id(p) for p in classifier.parameters()}
    assert bool(common) == shared


@every_case
def test_every_parameter_gets_a_gradient(settings: NetworkSettings, query_set: QuerySet) -> None:
    encoded = history_input(query_set, 8)
    for network in settings.build(query_set, N_CLASSES, False):
        outcome = network(encoded)
        (outcome * torch.randn_like(outcome)).sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            assert parameter.grad.abs().sum() > 0, name


@every_case
def test_rows_do_not_see_each_other_once_trained(settings: NetworkSettings, query_set: QuerySet) -> None:
    encoded = history_input(query_set)
    others = torch.cat([encoded[:2], 10 * torch.randn_like(encoded)])
    for network in settings.build(query_set, N_CLASSES, False):
        network(encoded)  # BatchNorm has something to remember
        network.eval()
        with torch.no_grad():
            whole = network(encoded)
            torch.testing.assert_close(network(others)[:2], whole[:2], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(network(encoded[3:4]), whole[3:4], rtol=1e-4, atol=1e-5)


@every_case
def test_the_memory_format_does_not_matter(settings: NetworkSettings, query_set: QuerySet) -> None:
    encoded = history_input(query_set)
    for network in settings.build(query_set, N_CLASSES, False):
        network.eval()
        with torch.no_grad():
            expected = network(encoded)
            got = network.to(memory_format=torch.channels_last)(channels_last(encoded))  # type: ignore[call-overload]
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "query_set"),
    # Processors without bfloat16 take half a minute for the one network that cannot be made narrow.
    [
        pytest.param(*case, marks=pytest.mark.slow if isinstance(case[0], PaperConv) or case[0] in VARIANTS else ())
        for case in CASES
    ],
)
def test_training_in_bfloat16_is_finite(settings: NetworkSettings, query_set: QuerySet) -> None:
    model = VIP.build(ModelSpec(query_set, list("abcd"), settings)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = channels_last(torch.randn(3, *query_set.answer_shape))
    known = torch.rand(3, len(query_set)) < 0.3
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(Batch(x, known, known, torch.ones_like(known), torch.arange(3))).loss
    loss.backward()
    assert loss.isfinite()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("settings", [MLP((8,)), SetNetwork(5, "sum", 7, (8,)), SetNetwork(5, "max", 7, (8,))])
def test_answers_in_bfloat16_give_about_the_same(settings: NetworkSettings) -> None:
    encoded = history_input(MIXED)
    for network in settings.build(MIXED, N_CLASSES, False):
        with torch.no_grad():
            expected = network(encoded)
            with torch.autocast("cpu", torch.bfloat16):
                got = network(encoded.bfloat16()).float()
        torch.testing.assert_close(got, expected, rtol=0.1, atol=0.1)


@every_case
@pytest.mark.parametrize("shared", [False, True])
def test_a_model_is_built_again_from_its_config(settings: NetworkSettings, query_set: QuerySet, shared: bool) -> None:
    if shared and not can_share(settings):
        pytest.skip("widths differ")
    model = VIP.build(ModelSpec(query_set, list("abcd"), settings, shared=shared))
    model.querier(history_input(query_set))  # so that BatchNorm differs from a fresh one
    again = VIP.from_config(query_set, list("abcd"), json.loads(json.dumps(model.to_config())))
    assert again.spec.network == settings
    assert again.spec.shared == shared
    again.load_state_dict(model.state_dict())
    known = torch.rand(5, len(query_set)) < 0.5
    history = History(torch.randn(5, *query_set.answer_shape), known, known)
    with torch.no_grad():
        assert torch.equal(again.eval().scores(history), model.eval().scores(history))
        assert torch.equal(again.log_posterior(history), model.log_posterior(history))


def test_every_network_is_registered_and_tested_here() -> None:
    concrete = {
        value
        for value in vars(pursuit.networks).values()
        if isinstance(value, type) and issubclass(value, NetworkSettings) and not inspect.isabstract(value)
    }
    assert set(OURS.values()) == concrete == {type(settings) for settings, _ in CASES}
    assert all(OURS[cls.__name__] is cls for cls in concrete)


def test_the_names_of_weights_in_saved_models_stay() -> None:
    """A model saved by an older version must find its weights."""

    def names(network: nn.Module) -> set[str]:
        return {name.rsplit(".", 1)[0] for name, _ in network.named_parameters()}

    querier, classifier = MLP((8,)).build(MIXED, 2, False)
    assert names(querier) == names(classifier) == {"0.1", "0.2", "1"}
    querier, _ = SetNetwork(5, "sum", 7, (8,)).build(MIXED, 2, False)
    assert {name for name, _ in querier.named_parameters() if name.startswith("0.0")} == {
        *("0.0.embedding", "0.0.bias", "0.0.linear.weight", "0.0.linear.bias")
    }
    assert names(querier) - {"0.0", "0.0.linear"} == {"0.1", "0.2", "1"}
    querier, classifier = Conv((4, 6, 8), 16).build(DIGITS, 2, False)
    encoder = {f"0.blocks.{block}.{layer}.{part}" for block, layer in ((0, 0), (0, 1), (1, 0)) for part in (0, 1)}
    overall = {f"1.overall.{i}" for i in (1, 2, 4)}
    assert names(querier) == encoder | overall | {f"1.{part}.0.{i}" for part in ("narrow", "join") for i in (0, 1)} | {
        "1.local"
    }
    assert names(classifier) == encoder | {f"1.head.{i}" for i in (1, 2, 4)}


@pytest.mark.parametrize("network", OURS.values())
def test_settings_are_frozen_values(network: type) -> None:
    assert network() == network()
    assert hash(network()) == hash(network())
    with pytest.raises(dataclasses.FrozenInstanceError):
        network().hidden = 3


@pytest.mark.parametrize("settings", [Conv(), PaperConv(), Residual(), DLA(), DenseNet()])
def test_networks_for_images_refuse_tables(settings: Conv) -> None:
    name = type(settings).__name__
    with pytest.raises(ValueError, match=rf"{name} networks look at image patches, not at .*: use MLP or SetNetwork"):
        settings.build(COLUMNS, 3, False)


def test_small_images_are_refused() -> None:
    patches = PatchQueries((1, 9, 7), 3)
    assert need_patches(patches, "Any", smallest=7) == patches.patches
    with pytest.raises(ValueError, match=r"Any needs images of at least 8x8 pixels, not 9x7: use Conv or MLP"):
        need_patches(patches, "Any", smallest=8)


def test_separate_networks_start_from_different_weights() -> None:
    querier, classifier = MLP((8,)).build(COLUMNS, 2, False)
    assert not torch.equal(querier[0][1].weight, classifier[0][1].weight)  # type: ignore[index]


def test_pooled_linear_reads_the_mean_of_each_channel() -> None:
    head = pooled_linear(3, 2)
    cells = torch.randn(4, 3, 5, 6)
    torch.testing.assert_close(head(cells), head[2](cells.mean(dim=(2, 3))))  # type: ignore[index]


@pytest.mark.parametrize("size", [0, -3, 2.5, "wide", 2**14 + 1, 10**9, 10**30], ids=str)
def test_layers_of_no_size_or_beyond_all_memory_are_refused(size: object) -> None:
    makers = (
        lambda n: MLP((8, n)),
        lambda n: SetNetwork(n),
        lambda n: SetNetwork(width=n),
        lambda n: SetNetwork(hidden=(n,)),
        lambda n: Conv((4, n)),
        lambda n: Conv(hidden=n),
        lambda n: DenseNet(n),
        lambda n: DenseNet(blocks=(n,)),
        lambda n: DLA((n, 4, 4), (1,)),
        lambda n: DLA((4, 4, 4), (n,)),
    )
    for make in makers:
        with pytest.raises(ValueError, match=r"needs \w+ of 1 to 16,384, not"):
            make(size)
