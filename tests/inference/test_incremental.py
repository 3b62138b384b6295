"""States of growing histories: every one gives what the pursuer's two functions give, with less work."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit import ModelSpec
from pursuit.exact import IndependentIP, TableIP
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.incremental import FirstLayerState, HistoryState, SharedInputState, history_state, network_state
from pursuit.inference.stopping import Confidence
from pursuit.information import AnswerModel
from pursuit.methods import RandomOrder
from pursuit.networks import MLP, Conv, NetworkSettings, SetNetwork
from pursuit.networks.first_layer import split_first_layer
from pursuit.queries import Choice, ColumnQueries, PatchQueries, QuerySet, WordQueries, yes_no
from pursuit.queries.words import word_query
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP
from strategies import SEEDS
from untrained import InOrder, make_columns, make_rows

DENSE: list[NetworkSettings] = [
    MLP((8, 6), dropout=0.5),
    MLP(()),
    MLP((8,), direct=True),
    SetNetwork(5, "sum", 7, (8,)),
    SetNetwork(5, "max", 7, (8, 6), norm="batch"),
]
PRECISE = {"rtol": 1e-5, "atol": 1e-6}
IN_BITS = {"rtol": 1e-4, "atol": 2e-5}  # a difference of entropies in single precision, and none below a limit
MANY = ColumnQueries([yes_no(f"q{i}") for i in range(40)])


def build(
    query_set: QuerySet,
    settings: NetworkSettings,
    shared: bool,
    standardised: bool = False,
    seed: int = 0,
    counted: Rows | None = None,
    model_class: type[VIP] = VIP,
) -> VIP:
    """With an answer model that is counted on rows, if these are given; its reader has opinions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        prior = torch.tensor([0.5, 0.3, 0.2])
        spec = ModelSpec(query_set, list("abc"), settings, shared=shared, standardised=standardised, prior=prior)
        answer_model = None if counted is None else AnswerModel.count(query_set, 3, counted)
        model = model_class.build(spec, answer_model=answer_model)
        reader: Any = model.querier if isinstance(model, InformationVIP) else model.reader
        if reader is not None:
            torch.nn.init.normal_(reader[-1].weight, std=0.3)
        if standardised:
            model.centre.uniform_(-1, 1)
            model.scale.uniform_(0.5, 3)
    return model.double().eval()


def first_layer_state(model: VIP, history: History) -> FirstLayerState:
    """By single answers, however few queries there are."""
    networks = split_first_layer(model.querier, model.classifier, *model.query_set.input_shape)
    assert networks is not None
    return FirstLayerState(model, networks, history)


def expected(simple: HistoryState) -> Tensor | None:
    """The information that the pursuer expects of every query, from scratch."""
    return simple._pursuer.expected_information(simple._history)  # type: ignore[attr-defined]


@torch.no_grad()
def assert_same(state: HistoryState, simple: HistoryState, rows: Rows, seed: int) -> None:
    """Both are asked the same to the end, while rows leave on the way."""
    generator = torch.Generator().manual_seed(seed)
    index = torch.arange(len(rows))
    for step in range(rows.n_queries):
        torch.testing.assert_close(state.log_posterior(), simple.log_posterior(), **PRECISE)
        if step % 3 == 1 and len(index) > 1:
            kept = torch.randperm(len(index), generator=generator)[:-1].sort().values
            state.keep(kept)
            simple.keep(kept)
            index = index[kept]
        are_bits = isinstance(simple._pursuer, InformationVIP)
        torch.testing.assert_close(state.scores(), simple.scores(), **(IN_BITS if are_bits else PRECISE))
        bits, wanted = state.information(), expected(simple)
        assert (bits is None) == (wanted is None)
        if bits is not None:
            torch.testing.assert_close(bits, wanted, **IN_BITS)
        assert torch.equal(state.asked, simple.asked)
        left = torch.rand(simple.asked.shape, generator=generator).masked_fill(simple.asked, -1)
        index, going = index[~simple.asked.all(dim=1)], (~simple.asked.all(dim=1)).nonzero()[:, 0]
        if not len(going):
            return
        state.keep(going)
        simple.keep(going)
        query = left[going].argmax(dim=1)
        for one in (state, simple):
            one.ask(query, rows.available[index, query])


@pytest.mark.parametrize("settings", DENSE, ids=str)
@given(
    types=st.lists(st.sampled_from(["yes_no", "choice", "single", "number"]), min_size=1, max_size=6),
    n_rows=st.integers(1, 5),
    shared=st.booleans(),
    standardised=st.booleans(),
    missing=st.sampled_from([0.0, 0.4]),
    reported=st.sampled_from([0.0, 0.3]),
    pursuer=st.sampled_from(["no answer model", "beside", "by information"]),
    seed=SEEDS,
)
def test_answer_by_answer_is_the_same_as_from_scratch(
    settings: NetworkSettings,
    types: list[str],
    n_rows: int,
    shared: bool,
    standardised: bool,
    missing: float,
    reported: float,
    pursuer: str,
    seed: int,
) -> None:
    query_set = make_columns(types)
    rows, counted = make_rows(query_set, n_rows, seed, missing, reported), make_rows(query_set, 30, seed, missing)
    model_class = InformationVIP if pursuer == "by information" else VIP
    answers = None if pursuer == "no answer model" else counted
    model = build(query_set, settings, shared, standardised, seed, answers, model_class)
    history = rows.start()
    with torch.no_grad():
        assert (model.expected_information(history) is None) == (pursuer == "no answer model")
    assert_same(first_layer_state(model, history), HistoryState(model, history), rows, seed)
    assert_same(SharedInputState(model, history), HistoryState(model, history), rows, seed)


@pytest.mark.parametrize("n_rows", [1, 4])
@pytest.mark.parametrize("standardised", [False, True])
def test_it_is_the_same_without_a_mask(n_rows: int, standardised: bool) -> None:
    query_set = WordQueries([word_query(f"word{i}") for i in range(9)])
    model = build(query_set, MLP((8,), direct=True), False, standardised)
    rows = Rows(make_rows(MANY, n_rows).x[:, :9], torch.ones(n_rows, 9, dtype=torch.bool), torch.zeros(n_rows))
    assert_same(first_layer_state(model, rows.start()), HistoryState(model, rows.start()), rows, 0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("settings", [Conv((4, 6, 8), hidden=16), MLP((8,))], ids=str)
def test_patches_have_a_state_too(settings: NetworkSettings, shared: bool) -> None:
    query_set = PatchQueries((1, 5, 6), size=2, stride=2)
    model, rows = build(query_set, settings, shared), make_rows(query_set, 4, missing=0.3, reported=0.2)
    state = history_state(model, rows.start())
    assert isinstance(state, SharedInputState)
    assert_same(state, HistoryState(model, rows.start()), rows, 0)


def test_a_shared_trunk_is_computed_once_a_step() -> None:
    query_set = PatchQueries((1, 5, 6), size=2, stride=2)
    model, rows = build(query_set, Conv((4,), hidden=8), shared=True), make_rows(query_set, 3)
    runs = []
    model.querier[0].register_forward_hook(lambda *_: runs.append(1))  # type: ignore[index, operator]
    chains = explain(model, rows.x, rows.available)
    assert len(runs) == len(chains[0]) + 1


def test_the_state_is_chosen_by_what_it_costs() -> None:
    def path(query_set: QuerySet, settings: NetworkSettings | None = None, shared: bool = False) -> type[HistoryState]:
        model = build(query_set, settings or MLP((8,)), shared)
        return type(history_state(model, History.start(query_set.blank(2).double(), len(query_set))))

    assert path(MANY) is path(MANY, SetNetwork(5, "max", 7, (8,)), shared=True) is FirstLayerState
    few = make_columns(["yes_no"] * 3)
    assert path(few) is path(few, shared=True) is SharedInputState
    # One query of very many choices makes every lookup long.
    wide = Choice("wide", "Which?", tuple(f"choice {i}" for i in range(40)))
    assert path(ColumnQueries([*MANY.queries, wide])) is SharedInputState
    assert path(PatchQueries((1, 8, 8), 2), Conv((4,), hidden=8)) is SharedInputState


def test_rollouts_are_the_same_with_either_state(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = build(MANY, MLP((16,)), False), make_rows(MANY, 30, missing=0.2, reported=0.1)
    with torch.no_grad():
        model.classifier[-1].weight.mul_(8)  # type: ignore[index, union-attr, operator]
    chains = []
    for cost in (1, 10**9):
        monkeypatch.setattr("pursuit.inference.incremental.LOOKUP_COST", cost)
        assert isinstance(network_state(model, rows.start()), FirstLayerState) == (cost == 1)
        chains.append(explain(model, rows.x, rows.available, Confidence(0.9), rows.initially_known))
    for chain, other in zip(*chains, strict=True):
        assert [(step.query, step.answer) for step in chain.steps] == [(s.query, s.answer) for s in other.steps]
        torch.testing.assert_close(chain.posterior, other.posterior, rtol=1e-5, atol=1e-6)
    assert len({len(chain) for chain in chains[0]}) >= 3


class Doubtful(VIP):
    """Whose scores are the querier's times the doubt that is left."""

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        return outputs * (1 - log_posterior().exp().max(dim=1, keepdim=True).values)


@pytest.mark.parametrize("make", [SharedInputState, first_layer_state])
@pytest.mark.parametrize("shared", [False, True])
def test_scores_of_a_subclass_are_those_of_every_state(make: Any, shared: bool) -> None:
    rows, model = make_rows(MANY, 3, missing=0.2, reported=0.1), build(MANY, MLP((8,)), shared)
    own = Doubtful(ModelSpec(MANY, model.classes, prior=model.log_prior.exp()), model.querier, model.classifier)
    with torch.no_grad():
        doubt = 1 - model.log_posterior(rows.start()).exp().max(dim=1, keepdim=True).values
        torch.testing.assert_close(own.scores(rows.start()), doubt * model.scores(rows.start()))
    assert_same(make(own, rows.start()), HistoryState(own, rows.start()), rows, 0)


def test_a_pursuer_that_saves_no_work_is_called_each_time() -> None:
    start = make_rows(MANY, 3).start()
    assert type(history_state(InOrder(MANY), start)) is HistoryState
    assert type(history_state(build(MANY, MLP((8,)), False), start)) is FirstLayerState


@torch.no_grad()
@pytest.mark.parametrize("make", [SharedInputState, first_layer_state])
def test_bits_are_those_of_the_answers_so_far_however_they_are_told(make: Any) -> None:
    """A single row has a way of its own."""
    rows = make_rows(MANY, 60)
    model, history = build(MANY, MLP((8,)), False, counted=rows), rows.take(slice(1)).start()
    state = make(model, history)
    for query, answered in ((3, True), (7, False), (30, True)):
        before = state.information()
        state.ask_one(query, answered)
        history = history.record(torch.tensor([query]), torch.tensor([answered]))
        torch.testing.assert_close(state.information(), model.expected_information(history), **IN_BITS)
        assert torch.equal(state.information(), before) != answered


@pytest.mark.parametrize("make", [HistoryState, SharedInputState, first_layer_state])
def test_answers_may_be_written_until_they_are_asked_for(make: Any) -> None:
    model, x = build(MANY, MLP((8,)), shared=True), MANY.blank().double()
    state = make(model, History.start(x, len(MANY)))
    x[0, 7] = 1.0
    state.ask(torch.tensor([7]), torch.tensor([True]))
    known = torch.zeros(1, len(MANY), dtype=torch.bool)
    known[0, 7] = True
    torch.testing.assert_close(state.log_posterior(), model.log_posterior(History(x, known, known)))


@pytest.mark.parametrize("make", [HistoryState, SharedInputState, first_layer_state])
def test_the_first_histories_stay_as_they_were(make: Any) -> None:
    rows = make_rows(MANY, 2, reported=0.2)
    history = rows.start()
    x, known, asked = history.x.clone(), history.known.clone(), history.asked.clone()
    state = make(build(MANY, MLP((8,)), shared=True), history)
    query = (~asked).float().argmax(dim=1)
    state.ask(query, torch.tensor([True, False]))
    state.keep(torch.tensor([1]))
    state.ask((~state.asked).float().argmax(dim=1), torch.tensor([True]))
    assert torch.equal(history.x, x)
    assert torch.equal(history.known, known)
    assert torch.equal(history.asked, asked)


@pytest.mark.parametrize("settings", [MLP((8,)), MLP((8,), direct=True), SetNetwork(5, "max", 7, (8,))], ids=str)
@pytest.mark.parametrize("reported", [0.0, 0.2])
def test_sums_are_kept_exact_where_products_are_coarse(settings: NetworkSettings, reported: float) -> None:
    rows, model = make_rows(MANY, 3, reported=reported), build(MANY, settings, shared=True).float()
    history = History(rows.x.float(), rows.start().known, rows.start().asked)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        state = history_state(model, history)
        assert isinstance(state, FirstLayerState)
        state.ask((~state.asked).float().argmax(dim=1), torch.ones(3, dtype=torch.bool))
        coarse = state.log_posterior()
        assert state._hidden.dtype == state._networks.weight.dtype == coarse.dtype == torch.float
    with torch.no_grad():
        exact = HistoryState(model, history)
        exact.ask((~exact.asked).float().argmax(dim=1), torch.ones(3, dtype=torch.bool))
        torch.testing.assert_close(coarse, exact.log_posterior(), rtol=0.05, atol=0.05)


def test_batches_split_the_networks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, model, splits = make_rows(MANY, 7, reported=0.2), build(MANY, MLP((8,)), shared=False), []
    whole = explain(model, rows.x, rows.available, initially_known=rows.initially_known, batch_rows=7)

    def counted(*arguments: Any) -> Any:
        splits.append(1)
        return split_first_layer(*arguments)

    monkeypatch.setattr("pursuit.inference.incremental.split_first_layer", counted)
    parts = explain(model, rows.x, rows.available, initially_known=rows.initially_known, batch_rows=2)
    assert len(splits) == 1
    assert [[step.query for step in chain.steps] for chain in parts] == [
        [step.query for step in chain.steps] for chain in whole
    ]


@torch.no_grad()
@pytest.mark.parametrize("name", ["exact", "random order", "from scratch"])
def test_any_state_can_be_restarted(name: str) -> None:
    model = build(MANY, MLP((8,)), shared=False)
    yes = torch.rand(3, 40, generator=torch.Generator().manual_seed(0))
    pursuer: Any = {
        "exact": IndependentIP.from_yes(MANY, list("abc"), torch.full((3,), 1 / 3), yes),
        "random order": RandomOrder(model, seed=0),
        "from scratch": TableIP(MANY, list("ab"), MANY.blank(2).double(), torch.eye(2).double()),
    }[name]
    rows = make_rows(MANY, 3, reported=0.2)
    none = history_state(pursuer, History.start(rows.x[:0], len(MANY)))
    again = none.restart(rows.start())
    assert torch.equal(again.asked, rows.start().asked)
    torch.testing.assert_close(again.log_posterior(), pursuer.log_posterior(rows.start()))
