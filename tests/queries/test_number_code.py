"""Codes of numbers: what a network sees of a number beside itself, all at once and answer by answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pursuit
from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.inference.incremental import FirstLayerState, SharedInputState, history_state
from pursuit.information import AnswerModel
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.networks.first_layer import split_first_layer
from pursuit.queries import Choice, ColumnQueries, Number, yes_no
from pursuit.queries.own_inputs import FEW_PIECES, MANY_PIECES, SOME_PIECES, quantile_edges, suitable_pieces
from pursuit.queries.scaling import compress
from pursuit.training.rows import Rows
from pursuit.vip import VIP, InformationVIP

AGE = Number("age", "How old?", centre=40.0, spread=20.0, edges=(0.0, 20.0, 40.0, 80.0))
WAIT = Number("wait", "How long?", centre=5.0, spread=2.0, edges=(1.0, 5.0, 9.0))
PLAIN = Number("plain", "How many?", centre=1.0, spread=1.0)
WHERE = Choice("where", "Where?", ("head", "chest", "belly"))
COLUMNS = [yes_no("fever"), AGE, WHERE, PLAIN, WAIT]
QUERIES = ColumnQueries(COLUMNS)
MANY = ColumnQueries([*COLUMNS, *(yes_no(f"q{i}") for i in range(80))])
AGE_INPUTS, WAIT_INPUTS = slice(7, 10), slice(10, 12)  # after fever, age, three places, plain and wait
FINITE = st.floats(-1e9, 1e9)


def code_of(number: float) -> torch.Tensor:
    """What a network sees of an age, beside the number itself."""
    x, available = QUERIES.answers(pd.DataFrame([["yes", number, "head", 1.0, 5.0]], columns=names(QUERIES)))
    return QUERIES.encode(x, available)[0, AGE_INPUTS]


def names(query_set: ColumnQueries) -> list[str]:
    return [query.name for query in query_set.queries]


def table(query_set: ColumnQueries = QUERIES, n: int = 30, seed: int = 0) -> Rows:
    """Answers of which some are missing, and some numbers lie beyond the outermost edges."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({query.name: generator.choice(["yes", "no"], n) for query in query_set.queries})
    frame["age"], frame["plain"] = generator.normal(40, 40, n), generator.normal(size=n)
    frame["wait"], frame["where"] = generator.normal(5, 5, n), generator.choice(WHERE.choices, n)
    x, available = query_set.answers(frame)
    return Rows(x, available & (torch.from_numpy(generator.random(available.shape)) < 0.85), torch.arange(n) % 3)


@given(FINITE)
def test_pieces_below_a_number_are_full_and_those_above_are_empty(number: float) -> None:
    code = code_of(number)
    for piece, (start, end) in enumerate(zip(AGE.edges, AGE.edges[1:], strict=False)):
        if number >= end:
            assert code[piece] == pytest.approx(1, abs=1e-5)
        elif number <= start:
            assert code[piece] == pytest.approx(0, abs=1e-5)
        else:
            assert 0 <= code[piece] <= 1
    assert (code.diff() <= 1e-5).all()  # no piece is reached before the one below it is full


@given(FINITE, FINITE)
def test_larger_numbers_have_no_smaller_codes(one: float, other: float) -> None:
    assert (code_of(max(one, other)) >= code_of(min(one, other))).all()


def test_within_a_piece_the_code_is_the_share_below_the_number() -> None:
    assert code_of(30.0).tolist() == pytest.approx([1, 0.5, 0])
    assert code_of(60.0).tolist() == pytest.approx([1, 1, 0.5])


def test_edges_are_where_they_are_though_far_numbers_are_compressed() -> None:
    far = Number("far", "How far?", centre=0.0, spread=1.0, edges=(0.0, 10.0, 1000.0))
    query_set = ColumnQueries([far])
    x, available = query_set.answers(np.array([[10.0], [1000.0], [100.0]]))
    ten, thousand, between = query_set.encode(x, available)[:, 1:3]
    assert (ten.tolist(), thousand.tolist()) == (pytest.approx([1, 0], abs=1e-6), pytest.approx([1, 1], abs=1e-6))
    low, high = compress(np.array([10.0, 1000.0]))
    assert float(between[1]) == pytest.approx((float(compress(np.float64(100.0))) - low) / (high - low), abs=1e-5)


def test_what_is_not_known_does_not_show() -> None:
    rows = table()
    for query in range(len(QUERIES)):
        known = rows.available.clone()
        known[:, query] = False
        other = rows.x.clone()
        other[:, QUERIES.own_inputs.features(query)] = 17.0
        assert torch.equal(QUERIES.encode(rows.x, known), QUERIES.encode(other, known))
    nothing = QUERIES.encode(rows.x, torch.zeros_like(rows.available))
    assert not nothing.any()


def test_the_inputs_of_a_query_are_its_own() -> None:
    rows = table()
    owner = torch.cat([QUERIES.own_inputs.of_query, torch.arange(len(QUERIES))])
    assert QUERIES.input_shape == owner.shape
    everything = torch.ones_like(rows.available)
    for query in range(len(QUERIES)):
        alone = torch.zeros_like(everything)
        alone[:, query] = True
        seen = QUERIES.encode(rows.x, alone)
        assert torch.equal(seen, QUERIES.encode(rows.x, everything) * (owner == query))


def test_the_code_of_single_queries_is_that_of_all() -> None:
    rows = table()
    encoded = QUERIES.encode(rows.x, torch.ones_like(rows.available))
    for query in range(len(QUERIES)):
        asked = torch.full((len(rows),), query)
        found = QUERIES.own_inputs.codes(asked, rows.x, torch.arange(len(rows)))
        assert found is not None
        inputs, values = found
        seen = torch.zeros_like(encoded).scatter_add_(1, inputs, values)
        part = {1: AGE_INPUTS, 4: WAIT_INPUTS}.get(query, slice(0, 0))
        wanted = torch.zeros_like(encoded)
        wanted[:, part] = encoded[:, part]
        torch.testing.assert_close(seen, wanted)


def test_columns_without_edges_have_no_code() -> None:
    query_set = ColumnQueries([yes_no("fever"), PLAIN])
    assert query_set.input_shape == (4,)
    assert query_set.own_inputs.codes(torch.tensor([1]), torch.zeros(1, 2), torch.tensor([0])) is None


# Answer by answer


def build(query_set: ColumnQueries, network: NetworkSettings, shared: bool, standardised: bool) -> VIP:
    torch.manual_seed(0)
    rows = table(query_set)
    answers = AnswerModel.count(query_set, 3, rows)
    spec = ModelSpec(query_set, list("abc"), network, shared=shared, standardised=standardised)
    model = InformationVIP.build(spec, answer_model=answers)
    torch.nn.init.normal_(model.querier[-1].weight, std=0.3)  # type: ignore[index, arg-type]
    if standardised:
        model.standardise(rows.x, rows.available)
    return model.eval()


NETWORKS = [
    MLP((8, 6)),
    MLP((8,), direct=True),
    SetNetwork(5, "sum", 7, (8,)),
    SetNetwork(5, "max", 7, (8,)),
    SetNetwork(5, "max", 7, (8,), norm="batch"),
]


@pytest.mark.parametrize(("shared", "standardised", "n_rows"), [(True, True, 1), (False, False, 12)])
@pytest.mark.parametrize("network", NETWORKS)
@torch.no_grad()
def test_answer_by_answer_codes_are_the_same(
    network: NetworkSettings, shared: bool, standardised: bool, n_rows: int
) -> None:
    for query_set, state_class in ((QUERIES, SharedInputState), (MANY, FirstLayerState)):
        model, rows = build(query_set, network, shared, standardised), table(query_set, seed=1).take(slice(n_rows))
        history = rows.start()
        state = history_state(model, history)
        assert type(state) is state_class
        for query in (1, 2, 0, 4, 3):
            asked, answered = torch.full((n_rows,), query), rows.available[:, query]
            if n_rows == 1:
                state.ask_one(query, bool(answered))
            else:
                state.ask(asked, answered)
            history = history.record(asked, answered)
            torch.testing.assert_close(state.log_posterior(), model.log_posterior(history), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(state.scores(), model.scores(history), atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_rows_that_are_left_keep_their_own_codes() -> None:
    """A state that dropped rows reads the answers of those it kept."""
    model, rows = build(MANY, MLP((8,)), False, False), table(MANY, seed=1)
    networks = split_first_layer(model.querier, model.classifier, *MANY.input_shape)
    assert networks is not None
    state, left = FirstLayerState(model, networks, rows.start()), torch.tensor([3, 17, 29])
    state.keep(left)
    state.ask(torch.tensor([1, 4, 1]), torch.tensor([True, True, True]))
    known = torch.zeros(3, len(MANY), dtype=torch.bool)
    known[[0, 1, 2], [1, 4, 1]] = True
    wanted = model.log_posterior(History(rows.x[left], known, known))
    torch.testing.assert_close(state.log_posterior(), wanted, atol=1e-5, rtol=1e-4)


def test_standardised_models_leave_numbers_and_their_codes_alone() -> None:
    rows = table()
    plain, standardised = (build(QUERIES, MLP((8,)), False, value) for value in (False, True))
    one, other = (model.network_input(rows.x, rows.available) for model in (plain, standardised))
    of_numbers = torch.tensor([1, 5, 6, *range(7, 12)])
    assert torch.equal(one[:, of_numbers], other[:, of_numbers])
    assert not torch.equal(one[:, [0, 2, 3, 4]], other[:, [0, 2, 3, 4]])


# Where edges come from


@given(st.lists(st.floats(-1e6, 1e6, width=32), max_size=60), st.integers(0, 20))
def test_edges_rise_and_span_the_numbers(numbers: list[float], n_pieces: int) -> None:
    edges = quantile_edges(np.array(numbers), n_pieces)
    assert len(edges) == 0 or 3 <= len(edges) <= n_pieces + 1
    assert list(edges) == sorted(set(edges))
    if edges:
        assert edges[0] <= min(numbers)
        assert edges[-1] >= max(n for n in numbers if n <= edges[-1])


def test_edges_are_round_and_no_ones_own_number() -> None:
    numbers = np.random.default_rng(0).normal(50, 9, 400)
    edges = quantile_edges(numbers, 8)
    assert not {*edges} & {*numbers.tolist()}
    assert edges[0] <= numbers.min()
    assert edges[-1] >= numbers.max()
    assert all(len(f"{edge:g}") <= 4 for edge in edges)
    shares, _ = np.histogram(numbers, bins=edges)
    assert shares.max() - shares.min() <= 10


@pytest.mark.parametrize(
    ("numbers", "n_pieces", "edges"),
    [
        ([], 8, ()),
        ([3.0] * 50, 8, ()),
        ([0.0, 1.0] * 20, 8, ()),  # one piece would say what the number says
        ([0.0, 1.0, 2.0] * 20, 8, (0.0, 1.0, 2.0)),
        (range(9), 8, tuple(float(i) for i in range(9))),
        (range(1001), 4, (0.0, 260.0, 500.0, 760.0, 1000.0)),
        (range(1001), 1, ()),
        (range(1001), 0, ()),
    ],
)
def test_equally_many_numbers_lie_in_every_piece(numbers: Any, n_pieces: int, edges: tuple[float, ...]) -> None:
    assert quantile_edges(np.array(list(numbers), dtype=float), n_pieces) == edges


def test_few_rows_have_few_pieces_and_very_many_columns_none() -> None:
    assert suitable_pieces(100, 10) == FEW_PIECES
    assert suitable_pieces(100_000, 10) == MANY_PIECES
    assert suitable_pieces(100_000, 100) == 20
    assert suitable_pieces(100_000, 500) == SOME_PIECES
    assert suitable_pieces(100_000, 5000) == 0


def test_a_table_has_as_many_pieces_as_suit_it() -> None:
    randomness = np.random.default_rng(0)
    for n, n_pieces in ((300, FEW_PIECES), (3000, MANY_PIECES)):
        frame = pd.DataFrame({"a": randomness.normal(size=n), "b": randomness.integers(3, size=n) + 0.5, "c": 1.5})
        frame.loc[::7, ["a", "b"]] = np.nan
        a, b, c = ColumnQueries.from_data(frame, ask_all=True, column_types={"b": "number", "c": "number"}).queries
        assert isinstance(a, Number)
        assert isinstance(b, Number)
        assert isinstance(c, Number)
        assert len(a.edges) == n_pieces + 1
        shares, _ = np.histogram(frame["a"].dropna(), bins=a.edges)
        assert max(shares) - min(shares) <= 0.1 * n
        assert b.edges == (0.5, 1.5, 2.5)
        assert c.edges == ()


def test_codes_are_saved_with_a_model(tmp_path: Path) -> None:
    randomness = np.random.default_rng(0)
    X = pd.DataFrame({"a": randomness.normal(size=200), "b": randomness.normal(size=200)})
    y = (X["a"].abs() < 0.5).astype(int)
    plan: dict[str, Any] = {"network": MLP((8,)), "stages": [pursuit.Stage(5, batch_size=32)], "random_state": 0}
    fitted = pursuit.VIPClassifier(**plan).fit(X, y)
    fitted.save(tmp_path)
    loaded = pursuit.load(tmp_path)
    assert loaded.model_.query_set.queries == fitted.model_.query_set.queries
    assert len(fitted.model_.query_set.queries[0].edges) == FEW_PIECES + 1
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
