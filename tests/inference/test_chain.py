"""Rolling out: nothing is asked twice, nothing unasked is read, and stopping early changes nothing but the work."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pursuit.data.rows import Rows
from pursuit.inference.chain import BATCH_BYTES, BATCH_ROWS, Chain, Chains, Step, explain, pursue, rows_at_once
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.stopping import AnyOf, Budget, Confidence, Stability, StoppingRule
from pursuit.queries import Choice, ColumnQueries, PatchQueries, yes_no

KINDS = st.lists(st.sampled_from(["yes_no", "choice", "number"]), min_size=1, max_size=6)
SEEDS = st.integers(0, 10_000)
SHARES = st.sampled_from([0.0, 0.4])
RULES = st.one_of(
    st.builds(Budget, st.integers(0, 7)),
    st.builds(Confidence, st.floats(0.3, 1)),
    st.builds(Stability, st.floats(0, 0.3), st.integers(1, 3)),
    st.builds(
        lambda n, level, epsilon: AnyOf((Budget(n), Confidence(level), Stability(epsilon))),
        st.integers(1, 7),
        st.floats(0.5, 1),
        st.floats(0, 0.1),
    ),
)


@given(kinds=KINDS, seed=SEEDS, missing=SHARES, opened=SHARES)
def test_everything_is_asked_exactly_once(
    make_columns: Any, make_rows: Any, make_vip: Any, kinds: list[str], seed: int, missing: float, opened: float
) -> None:
    query_set = make_columns(kinds)
    rows = make_rows(query_set, 7, seed, missing, opened)
    initially_known = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known
    for row, chain in enumerate(
        explain(make_vip(query_set, seed=seed), rows.x, rows.available, initially_known=rows.initially_known)
    ):
        asked = [step.query for step in chain.steps]
        assert sorted(asked) == (~initially_known[row]).nonzero()[:, 0].tolist()
        assert [step.query for step in chain.initially_known] == initially_known[row].nonzero()[:, 0].tolist()


@given(kinds=KINDS, seed=SEEDS, missing=SHARES, opened=SHARES, rule=RULES)
def test_answers_are_counted_as_they_become_known(
    make_columns: Any,
    make_rows: Any,
    make_vip: Any,
    kinds: list[str],
    seed: int,
    missing: float,
    opened: float,
    rule: StoppingRule,
) -> None:
    query_set = make_columns(kinds)
    rows, model = make_rows(query_set, 7, seed, missing, opened), make_vip(query_set, seed=seed)
    known = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known.clone()
    asked, n_opened = known.clone(), known.sum(dim=1)
    for turn in pursue(model, rows.x, rows.available, rule, rows.initially_known):
        assert torch.equal(turn.n_queries, known[turn.rows].sum(dim=1) - n_opened[turn.rows])
        assert torch.equal(turn.query >= 0, turn.goes_on)
        going, query = turn.rows[turn.goes_on], turn.query[turn.goes_on]
        assert not asked[going, query].any()
        assert turn.answered[turn.goes_on].tolist() == rows.available[going, query].tolist()
        assert not turn.answered[~turn.goes_on].any()
        asked[going, query] = True
        known[going, query] = rows.available[going, query]
    chains = explain(model, rows.x, rows.available, rule, rows.initially_known)
    assert [chain.n_queries for chain in chains] == (known.sum(dim=1) - n_opened).tolist()
    assert [len(chain) for chain in chains] == (asked.sum(dim=1) - n_opened).tolist()
    for row, chain in enumerate(chains):
        for step in chain.steps:
            available = bool(rows.available[row, step.query])
            assert step.answer == (query_set.describe(step.query, rows.x[row]) if available else None)


@given(kinds=KINDS, seed=SEEDS, missing=SHARES)
def test_posteriors_sum_to_one_at_every_step(
    make_columns: Any, make_rows: Any, make_vip: Any, kinds: list[str], seed: int, missing: float
) -> None:
    query_set = make_columns(kinds)
    rows = make_rows(query_set, 5, seed, missing)
    for chain in explain(make_vip(query_set, 4, seed), rows.x, rows.available):
        for posterior in (chain.prior, chain.posterior, *(step.posterior for step in chain.steps)):
            assert posterior.shape == (4,)
            assert posterior.min() >= 0
            assert posterior.sum().item() == pytest.approx(1, abs=1e-5)


def believed(model: Pursuer, rows: Rows, row: int, chain: Chain, n_steps: int) -> Tensor:
    """The posterior (C,) after some steps of a row's chain, from the history alone."""
    history = History.start(
        rows.x[row : row + 1],
        len(model.query_set),
        None if rows.initially_known is None else rows.initially_known[row : row + 1],
    )
    for step in chain.steps[:n_steps]:
        history = history.ask(torch.tensor([step.query]), rows.available[row : row + 1])
    with torch.no_grad():
        return model.log_posterior(history)[0].exp()


@given(kinds=KINDS, seed=SEEDS, missing=SHARES, opened=SHARES)
def test_each_step_believes_what_its_history_says(
    make_columns: Any, make_rows: Any, make_vip: Any, kinds: list[str], seed: int, missing: float, opened: float
) -> None:
    query_set = make_columns(kinds)
    rows, model = make_rows(query_set, 3, seed, missing, opened), make_vip(query_set, seed=seed)
    for row, chain in enumerate(explain(model, rows.x, rows.available, initially_known=rows.initially_known)):
        torch.testing.assert_close(chain.prior, believed(model, rows, row, chain, 0))
        for i, step in enumerate(chain.steps, start=1):
            torch.testing.assert_close(step.posterior, believed(model, rows, row, chain, i))


def look_back(rule: StoppingRule, chain: Chain) -> int:
    """Where the rule stops a chain in which everything was asked."""
    memory = rule.start(1)
    beliefs = [chain.prior, *(step.posterior for step in chain.steps)]
    for n_asked, belief in enumerate(beliefs):
        n_queries = sum(step.answer is not None for step in chain.steps[:n_asked])
        stop, memory = rule.step(memory, belief[None].log(), torch.tensor([n_asked]), torch.tensor([n_queries]))
        if stop:
            return n_asked
    return len(chain)


@given(kinds=KINDS, seed=SEEDS, missing=SHARES, opened=SHARES, rule=RULES)
def test_stopping_early_is_looking_back(
    make_columns: Any,
    make_rows: Any,
    make_vip: Any,
    counting: Any,
    kinds: list[str],
    seed: int,
    missing: float,
    opened: float,
    rule: StoppingRule,
) -> None:
    query_set = make_columns(kinds)
    rows, model = make_rows(query_set, 9, seed, missing, opened), make_vip(query_set, seed=seed)
    everything = explain(model, rows.x, rows.available, initially_known=rows.initially_known)
    counted = counting(model)
    stopped = explain(counted, rows.x, rows.available, rule, rows.initially_known)
    for whole, chain in zip(everything, stopped, strict=True):
        assert len(chain) == look_back(rule, whole)
        assert [(s.query, s.answer) for s in chain.steps] == [(s.query, s.answer) for s in whole.steps[: len(chain)]]
        torch.testing.assert_close(chain.prior, whole.prior)
        for step, same in zip(chain.steps, whole.steps, strict=False):
            torch.testing.assert_close(step.posterior, same.posterior)
    # Rows that stop are neither scored nor believed about again.
    assert counted.rows["scores"] == sum(len(chain) for chain in stopped)
    assert counted.rows["log_posterior"] == sum(len(chain) + 1 for chain in stopped)


def test_rules_stop_rows_at_different_lengths(make_columns: Any, make_rows: Any, make_vip: Any) -> None:
    # Without this the property above might hold for want of a case.
    query_set = make_columns(["yes_no", "choice", "number", "number", "choice"])
    rows, model = make_rows(query_set, 50, 1, missing=0.2), make_vip(query_set)
    for rule in (Confidence(0.8), Stability(0.05), Stability(0.2, 2), Confidence(0.9) | Stability(0.02)):
        lengths = {len(chain) for chain in explain(model, rows.x, rows.available, rule)}
        assert len(lengths) >= 3


@given(kinds=KINDS, seed=SEEDS, rule=RULES)
def test_unasked_answers_of_columns_change_nothing(
    make_columns: Any, make_rows: Any, make_vip: Any, kinds: list[str], seed: int, rule: StoppingRule
) -> None:
    query_set = make_columns(kinds)
    rows, model = make_rows(query_set, 6, seed, missing=0.3), make_vip(query_set, seed=seed)
    chains = explain(model, rows.x, rows.available, rule)
    read = torch.zeros_like(rows.available)
    for row, chain in enumerate(chains):
        for step in chain.steps:
            read[row, step.query] = step.answer is not None
    noise = torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(seed))
    other = torch.where(read[:, query_set.unit_of_feature], rows.x, 10 * noise.double())
    assert_same(chains, explain(model, other, rows.available, rule))


@given(size=st.integers(1, 3), stride=st.integers(1, 3), channels=st.integers(1, 2), seed=SEEDS, rule=RULES)
def test_unseen_pixels_change_nothing(
    make_rows: Any, make_vip: Any, size: int, stride: int, channels: int, seed: int, rule: StoppingRule
) -> None:
    query_set = PatchQueries((channels, 5, 4), size, stride)
    rows, model = make_rows(query_set, 4, seed), make_vip(query_set, seed=seed)
    chains = explain(model, rows.x, rows.available, rule)
    seen = torch.zeros(4, 1, 5, 4, dtype=torch.bool)
    for row, chain in enumerate(chains):
        for step in chain.steps:
            top, left = query_set.corner(step.query)
            seen[row, :, top : top + size, left : left + size] = True
    noise = torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(seed))
    other = torch.where(seen, rows.x, 10 * noise.double())
    assert_same(chains, explain(model, other, rows.available, rule))


def assert_same(chains: Chains, others: Chains) -> None:
    for chain, other in zip(chains, others, strict=True):
        assert [(step.query, step.answer) for step in chain.steps] == [(s.query, s.answer) for s in other.steps]
        assert torch.equal(chain.prior, other.prior)
        for step, same in zip(chain.steps, other.steps, strict=True):
            assert torch.equal(step.posterior, same.posterior)


@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_batches_do_not_matter(make_columns: Any, make_rows: Any, make_vip: Any, batch_rows: int) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    rows, model = make_rows(query_set, 10, missing=0.3, opened=0.2), make_vip(query_set)
    together = explain(model, rows.x, rows.available, Confidence(0.7), rows.initially_known)
    parts = explain(model, rows.x, rows.available, Confidence(0.7), rows.initially_known, batch_rows)
    assert [[s.query for s in chain.steps] for chain in parts] == [[s.query for s in chain.steps] for chain in together]
    for part, chain in zip(parts, together, strict=True):
        torch.testing.assert_close(part.posterior, chain.posterior)


def test_the_exact_pursuer_asks_what_tells_most_first(world: Any) -> None:
    chains = explain(world.pursuer, world.rows.x, world.rows.available, Confidence(0.8))
    nothing = History.start(world.rows.x[:1], 4)
    first = int(world.pursuer.scores(nothing).argmax())
    assert {chain.steps[0].query for chain in chains} == {first}
    assert len({len(chain) for chain in chains}) >= 3
    assert torch.allclose(chains[0].prior, torch.tensor([0.2, 0.5, 0.3], dtype=torch.double))


def test_a_budget_leaves_the_opening_out(world: Any) -> None:
    initially_known = torch.zeros_like(world.rows.available)
    initially_known[:, 1] = initially_known[:, 3] = True
    chains = explain(world.pursuer, world.rows.x, world.rows.available, Budget(1), initially_known)
    for row, chain in enumerate(chains):
        assert len(chain) == chain.n_queries == 1
        assert [(step.name, step.answer) for step in chain.initially_known] == [
            ("sneezing", "yes" if world.frame.sneezing[row] else "no"),
            ("season", world.frame.season[row]),
        ]
        assert chain.steps[0].name in ("fever", "itching")
    assert not torch.allclose(chains[0].prior, chains[-1].prior)


def test_an_opening_without_an_answer_is_not_known(world: Any) -> None:
    available, initially_known = world.rows.available.clone(), torch.zeros_like(world.rows.available)
    available[:, 0], initially_known[:, 0] = False, True
    (turn,) = pursue(world.pursuer, world.rows.x, available, Budget(0), initially_known)
    assert turn.n_queries.eq(0).all()
    assert torch.allclose(turn.log_posterior, world.pursuer.prior.log())
    assert {
        chain.initially_known for chain in explain(world.pursuer, world.rows.x, available, Budget(0), initially_known)
    } == {()}


def test_an_opening_of_everything_leaves_nothing_to_ask(world: Any) -> None:
    rows = world.rows
    chains = explain(world.pursuer, rows.x, rows.available, initially_known=rows.available)
    assert [len(chain) for chain in chains] == [0] * len(rows)
    history = History(rows.x, rows.available, rows.available)
    posterior = torch.stack([chain.posterior for chain in chains])
    torch.testing.assert_close(posterior, world.pursuer.log_posterior(history).exp())


def test_without_availability_everything_is_answered(world: Any) -> None:
    turns = list(pursue(world.pursuer, world.rows.x))
    assert len(turns) == 5
    assert all(turn.answered.all() for turn in turns[:-1])
    assert turns[-1].n_queries.eq(4).all()


def test_no_rows_have_no_chains(world: Any) -> None:
    assert len(explain(world.pursuer, world.rows.x[:0], world.rows.available[:0])) == 0


def test_nothing_keeps_a_gradient(make_columns: Any, make_rows: Any, make_vip: Any) -> None:
    query_set = make_columns(["yes_no", "choice"])
    rows = make_rows(query_set, 2)
    for turn in pursue(make_vip(query_set), rows.x):
        assert not turn.log_posterior.requires_grad
        assert torch.is_grad_enabled()


@pytest.fixture
def chain() -> Chain:
    answers = [("fever", "yes", [0.25, 0.75]), ("cough", None, [0.25, 0.75]), ("rash", "no", [0.0, 1.0])]
    steps = tuple(Step(i, name, f"{name}?", a, torch.tensor(p)) for i, (name, a, p) in enumerate(answers))
    given = (Step(3, "age", "How old are you?", "40", torch.tensor([0.5, 0.5])),)
    return Chain(("cold", "flu"), torch.tensor([0.5, 0.5]), steps, given)


def test_a_chain_reads_as_text(chain: Chain) -> None:
    first, given, start, *steps = (line.split() for line in str(chain).splitlines())
    assert " ".join(first) == "Prediction: flu (100%) after 2 answers"
    assert " ".join(given).endswith("How old are you? 40")
    assert " ".join(start) == "start cold 50.0%, flu 50.0%"
    assert [" ".join(step) for step in steps] == [
        "1. fever? yes flu 75.0%, cold 25.0%",
        "2. cough? unknown flu 75.0%, cold 25.0%",
        "3. rash? no flu 100%, cold 0.0%",
    ]
    assert str(Chains([chain, chain])) == f"{chain}\n\n{chain}"


def test_only_certainty_is_written_as_such() -> None:
    almost = Chain(("a", "b"), torch.tensor([1 - 1e-6, 1e-6]), ())
    assert "Prediction: a (99.9%) after 0 answers" in str(almost)
    step = Step(0, "q", "q?", "yes", torch.tensor([0.5, 0.5]))
    assert "after 1 answer\n" in str(Chain(("a", "b"), torch.tensor([0.4, 0.6]), (step,)))


def test_a_chain_goes_through_json(chain: Chain) -> None:
    state = json.loads(chain.to_json())
    assert state == {
        "prediction": "flu",
        "n_queries": 2,
        "posterior": {"cold": 0.0, "flu": 1.0},
        "initially_known": [{"query": "age", "text": "How old are you?", "answer": "40"}],
        "prior": {"cold": 0.5, "flu": 0.5},
        "steps": [
            {"query": "fever", "text": "fever?", "answer": "yes", "posterior": {"cold": 0.25, "flu": 0.75}},
            {"query": "cough", "text": "cough?", "answer": None, "posterior": {"cold": 0.25, "flu": 0.75}},
            {"query": "rash", "text": "rash?", "answer": "no", "posterior": {"cold": 0.0, "flu": 1.0}},
        ],
    }
    assert json.loads(Chains([chain, chain]).to_json()) == [state, state]


def test_chains_are_a_sequence(chain: Chain) -> None:
    chains = Chains([chain, chain, chain])
    assert len(chains) == 3
    assert chains[-1] is chain
    assert isinstance(chains[1:], Chains)
    assert len(chains[1:]) == 2
    assert list(chains) == [chain] * 3
    assert len(chain) == 3
    assert chain.n_queries == 2


def test_a_query_that_nobody_can_answer_is_asked_once(make_vip: Any) -> None:
    query_set = ColumnQueries([yes_no("a"), Choice("b", "b?"), Choice("c", "c?", ("x", "y", "z"))])
    x, available = torch.zeros(2, 4, dtype=torch.double), torch.tensor([[True, False, True]] * 2)
    for chain in explain(make_vip(query_set), x, available):
        assert sorted((step.query, step.answer is None) for step in chain.steps) == [(0, False), (1, True), (2, False)]


class TooManyToMove(nn.Module):
    """A pursuer of any size that is never called."""

    def __init__(self, n_queries: int, n_classes: int, n_hidden: int = 0):
        super().__init__()
        self.query_set = ColumnQueries([yes_no("a")])
        self.query_set.queries = self.query_set.queries * n_queries
        self.query_set.answer_shape, self.query_set.input_shape = (n_queries,), (2 * n_queries,)
        self.classes = range(n_classes)
        self.register_buffer("weight", torch.empty(n_hidden, 2 * n_queries, device="meta"))

    def scores(self, history: History) -> Tensor:
        raise NotImplementedError

    log_posterior = scores


def test_rows_at_once_are_bounded_by_number_and_by_memory() -> None:
    assert rows_at_once(TooManyToMove(20, 5)) == BATCH_ROWS
    assert rows_at_once(TooManyToMove(20, 5), most=7) == 7
    for pursuer in (TooManyToMove(100_000, 5), TooManyToMove(5, 300_000), TooManyToMove(5, 5, 1_000_000)):
        few = rows_at_once(pursuer)
        largest = max(len(pursuer.query_set), len(pursuer.classes), len(pursuer.weight))  # type: ignore[arg-type]
        assert 1 <= few < BATCH_ROWS
        assert few * largest * 4 < BATCH_BYTES
        assert rows_at_once(pursuer, n_bytes=BATCH_BYTES // 4) == pytest.approx(few / 4, abs=1)
    assert rows_at_once(TooManyToMove(100_000, 5), n_bytes=1) == 1


def test_turns_stay_as_they_were_given(make_rows: Any, make_vip: Any) -> None:
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(20)])
    rows, model = make_rows(query_set, 5, missing=0.3), make_vip(query_set)
    turns, copies = [], []
    for turn in pursue(model, rows.x, rows.available, Confidence(0.95)):
        turns.append(turn)
        copies.append([tensor.clone() for tensor in vars(turn).values()])
    for turn, copy in zip(turns, copies, strict=True):
        assert all(torch.equal(tensor, same) for tensor, same in zip(vars(turn).values(), copy, strict=True))
    assert len(turns) > 3


class _SoonContent(nn.Module):
    """Asks query 0, then 2 of those who said yes, and nothing more of anybody."""

    def __init__(self, query_set: ColumnQueries):
        super().__init__()
        self.query_set, self.classes = query_set, ["a", "b"]

    def scores(self, history: History) -> Tensor:
        scores = torch.full(history.asked.shape, -torch.inf)
        scores[:, 0] = 1
        scores[history.known[:, 0] & (history.x[:, 0] > 0), 2] = 0.5
        return scores

    def log_posterior(self, history: History) -> Tensor:
        return torch.full((len(history), 2), 0.5).log()


def test_a_chain_ends_where_the_pursuer_would_ask_nothing_more() -> None:
    query_set = ColumnQueries([yes_no(name) for name in "abc"])
    x = torch.tensor([[1.0, 1, 1], [-1, 1, 1], [1, -1, -1]])
    available = torch.ones(3, 3, dtype=torch.bool)
    available[2, 0] = False
    chains = explain(_SoonContent(query_set), x, available)
    assert [[step.query for step in chain.steps] for chain in chains] == [[0, 2], [0], [0]]
    initially_known = torch.tensor([[True, False, False]] * 3)
    opened = explain(_SoonContent(query_set), x, torch.ones_like(available), initially_known=initially_known)
    assert [[step.query for step in chain.steps] for chain in opened] == [[2], [], [2]]
