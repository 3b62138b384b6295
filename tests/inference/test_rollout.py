"""Rolling out: nothing is asked twice, nothing unasked is read, and stopping early changes nothing but the work."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from pursuit.inference.chain import Chain, Chains, explain
from pursuit.inference.history import History
from pursuit.inference.rollout import (
    BATCH_BYTES,
    BATCH_ROWS,
    RolloutStep,
    pursue,
    pursue_in_batches,
    rows_at_once,
    template_state,
)
from pursuit.inference.stopping import (
    Budget,
    Confidence,
    CostBudget,
    NothingWorthAsking,
    Stability,
    Standing,
    StoppingRule,
)
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from strategies import RULES, SEEDS, SHARES, TYPES
from untrained import Counting, KnownWorth, make_columns, make_rows, make_vip


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES, rule=RULES)
def test_answers_are_counted_as_they_become_known(
    types: list[str], seed: int, missing: float, known_share: float, rule: StoppingRule
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 7, seed, missing, known_share), make_vip(query_set, seed=seed)
    known = torch.zeros_like(rows.available) if rows.initially_known is None else rows.initially_known.clone()
    asked, n_given = known.clone(), known.sum(dim=1)
    for step in pursue(model, rows.x, rows.available, rule, rows.initially_known):
        assert torch.equal(step.n_answered, known[step.rows].sum(dim=1) - n_given[step.rows])
        assert torch.equal(step.query >= 0, step.goes_on)
        going, query = step.rows[step.goes_on], step.query[step.goes_on]
        assert not asked[going, query].any()
        assert step.answered[step.goes_on].tolist() == rows.available[going, query].tolist()
        assert not step.answered[~step.goes_on].any()
        asked[going, query] = True
        known[going, query] = rows.available[going, query]


def look_back(rule: StoppingRule, chain: Chain) -> int:
    """Where the rule stops a chain in which everything was asked."""
    memory = rule.start(1)
    beliefs = [chain.prior, *(step.posterior for step in chain.steps)]
    for n_asked, belief in enumerate(beliefs):
        n_answered = sum(step.answer is not None for step in chain.steps[:n_asked])
        counts = torch.tensor([[n_asked], [n_answered], [n_asked]])  # every query costs 1
        stop, memory = rule.step(memory, Standing(belief[None].log(), *counts))
        if stop:
            return n_asked
    return len(chain)


@given(types=TYPES, seed=SEEDS, missing=SHARES, known_share=SHARES, rule=RULES)
def test_stopping_early_is_looking_back(
    types: list[str], seed: int, missing: float, known_share: float, rule: StoppingRule
) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 9, seed, missing, known_share), make_vip(query_set, seed=seed)
    everything = explain(model, rows.x, rows.available, initially_known=rows.initially_known)
    counted = Counting(model)
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


def test_rules_stop_rows_at_different_lengths() -> None:
    # Otherwise the property above could hold without a case.
    query_set = make_columns(["yes_no", "choice", "number", "number", "choice"])
    rows, model = make_rows(query_set, 50, 1, missing=0.2), make_vip(query_set)
    for rule in (Confidence(0.8), Stability(0.05), Stability(0.2, 2), Confidence(0.9) | Stability(0.02)):
        lengths = {len(chain) for chain in explain(model, rows.x, rows.available, rule)}
        assert len(lengths) >= 3


def assert_same(chains: Chains, others: Chains) -> None:
    for chain, other in zip(chains, others, strict=True):
        assert [(step.query, step.answer) for step in chain.steps] == [(s.query, s.answer) for s in other.steps]
        assert torch.equal(chain.prior, other.prior)
        for step, same in zip(chain.steps, other.steps, strict=True):
            assert torch.equal(step.posterior, same.posterior)


@given(types=TYPES, seed=SEEDS, rule=RULES)
def test_unasked_answers_of_columns_change_nothing(types: list[str], seed: int, rule: StoppingRule) -> None:
    query_set = make_columns(types)
    rows, model = make_rows(query_set, 6, seed, missing=0.3), make_vip(query_set, seed=seed)
    chains = explain(model, rows.x, rows.available, rule)
    read = torch.zeros_like(rows.available)
    for row, chain in enumerate(chains):
        for step in chain.steps:
            read[row, step.query] = step.answer is not None
    noise = torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(seed))
    other = torch.where(read[:, query_set.units.of_feature], rows.x, 10 * noise.double())
    assert_same(chains, explain(model, other, rows.available, rule))


@given(size=st.integers(1, 3), stride=st.integers(1, 3), channels=st.integers(1, 2), seed=SEEDS, rule=RULES)
def test_unseen_pixels_change_nothing(size: int, stride: int, channels: int, seed: int, rule: StoppingRule) -> None:
    query_set = PatchQueries((channels, 5, 4), size, stride)
    rows, model = make_rows(query_set, 4, seed), make_vip(query_set, seed=seed)
    chains = explain(model, rows.x, rows.available, rule)
    seen = torch.zeros(4, 1, 5, 4, dtype=torch.bool)
    for row, chain in enumerate(chains):
        for step in chain.steps:
            top, left = query_set.patches.corner(step.query)
            seen[row, :, top : top + size, left : left + size] = True
    noise = torch.randn(rows.x.shape, generator=torch.Generator().manual_seed(seed))
    other = torch.where(seen, rows.x, 10 * noise.double())
    assert_same(chains, explain(model, other, rows.available, rule))


def test_what_has_no_answer_is_not_initially_known(world: Any) -> None:
    available, initially_known = world.rows.available.clone(), torch.zeros_like(world.rows.available)
    available[:, 0], initially_known[:, 0] = False, True
    (step,) = pursue(world.pursuer, world.rows.x, available, Budget(0), initially_known)
    assert step.n_answered.eq(0).all()
    assert torch.allclose(step.log_posterior, world.pursuer.prior.log())
    assert {
        chain.initially_known for chain in explain(world.pursuer, world.rows.x, available, Budget(0), initially_known)
    } == {()}


def test_without_availability_everything_is_answered(world: Any) -> None:
    steps = list(pursue(world.pursuer, world.rows.x))
    assert len(steps) == 5
    assert all(step.answered.all() for step in steps[:-1])
    assert steps[-1].n_answered.eq(4).all()


def test_nothing_keeps_a_gradient() -> None:
    query_set = make_columns(["yes_no", "choice"])
    rows = make_rows(query_set, 2)
    for step in pursue(make_vip(query_set), rows.x):
        assert not step.log_posterior.requires_grad
        assert torch.is_grad_enabled()


@pytest.mark.parametrize("batch_rows", [1, 4, 10, 1000])
def test_batches_number_their_rows_as_all_rows_are_numbered(batch_rows: int) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    rows, model = make_rows(query_set, 10, missing=0.3, reported=0.2), make_vip(query_set)
    arguments = (model, rows.x, rows.available, Confidence(0.7), rows.initially_known)
    together: dict[int, list[int]] = {row: [] for row in range(10)}
    in_batches: dict[int, list[int]] = {row: [] for row in range(10)}
    for steps, asked in ((pursue(*arguments), together), (pursue_in_batches(*arguments, batch_rows), in_batches)):
        for step in steps:
            assert len(step.rows) <= (10 if asked is together else batch_rows)
            for row, query in zip(step.rows.tolist(), step.query.tolist(), strict=True):
                asked[row].append(query)
    assert in_batches == together
    assert all(asked[-1] == -1 for asked in together.values())


def tensors(step: RolloutStep) -> list[Tensor]:
    return [part for part in (step.rows, *step.standing, step.goes_on, step.query, step.answered) if part is not None]


def test_a_template_changes_nothing() -> None:
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(20)])
    rows, model = make_rows(query_set, 6, missing=0.2, reported=0.1), make_vip(query_set)
    template = template_state(model, rows.x)
    assert template.asked.shape == (0, 20)
    arguments = (model, rows.x, rows.available, Confidence(0.9), rows.initially_known)
    for step, same in zip(pursue(*arguments), pursue(*arguments, template), strict=True):
        assert all(torch.equal(one, other) for one, other in zip(tensors(step), tensors(same), strict=True))


class Sized(nn.Module):
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
    assert rows_at_once(Sized(20, 5)) == BATCH_ROWS
    assert rows_at_once(Sized(20, 5), most=7) == 7
    for pursuer in (Sized(100_000, 5), Sized(5, 300_000), Sized(5, 5, 1_000_000)):
        few = rows_at_once(pursuer)
        largest = max(len(pursuer.query_set), len(pursuer.classes), len(pursuer.weight))  # type: ignore[arg-type]
        assert 1 <= few < BATCH_ROWS
        assert few * largest * 4 < BATCH_BYTES
        assert rows_at_once(pursuer, n_bytes=BATCH_BYTES // 4) == pytest.approx(few / 4, abs=1)
    assert rows_at_once(Sized(100_000, 5), n_bytes=1) == 1


def test_steps_stay_as_they_were_given() -> None:
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(20)])
    rows, model = make_rows(query_set, 5, missing=0.3), make_vip(query_set)
    steps, copies = [], []
    for step in pursue(model, rows.x, rows.available, Confidence(0.95)):
        steps.append(step)
        copies.append([tensor.clone() for tensor in tensors(step)])
    for step, copy in zip(steps, copies, strict=True):
        assert all(torch.equal(tensor, same) for tensor, same in zip(tensors(step), copy, strict=True))
    assert len(steps) > 3


class AsksLittle(nn.Module):
    """Asks query 0, then query 2 where the answer was yes, and nothing more."""

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
    chains = explain(AsksLittle(query_set), x, available)
    assert [[step.query for step in chain.steps] for chain in chains] == [[0, 2], [0], [0]]
    initially_known = torch.tensor([[True, False, False]] * 3)
    informed = explain(AsksLittle(query_set), x, torch.ones_like(available), initially_known=initially_known)
    assert [[step.query for step in chain.steps] for chain in informed] == [[2], [], [2]]


COSTS = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 7.25]), min_size=1, max_size=6)
UNITS = st.sampled_from([None, "bits", "bits per cost"])


@given(costs=COSTS, unit=UNITS, seed=SEEDS, missing=SHARES, rule=RULES)
def test_costs_and_bits_are_those_of_what_is_asked(
    costs: list[float], unit: str | None, seed: int, missing: float, rule: Any
) -> None:
    pursuer = KnownWorth(costs, unit, seed)
    rows = make_rows(pursuer.query_set, 6, seed, missing, n_classes=2)
    spent, n_known = [0.0] * 6, [0] * 6
    for n_asked, step in enumerate(pursue(pursuer, rows.x, rows.available, rule)):
        assert step.n_asked.tolist() == [n_asked] * len(step.rows)
        assert step.standing.worth is None  # no rule needs it
        assert step.cost.tolist() == pytest.approx([spent[row] for row in step.rows.tolist()])
        assert (step.bits is None) == (unit is None or not step.goes_on.any())
        for i, (row, query) in enumerate(zip(step.rows.tolist(), step.query.tolist(), strict=True)):
            if step.bits is not None and query < 0:
                assert step.bits[i].isnan()
            if query >= 0:
                score = float(pursuer.preferences[query]) * 0.5 ** n_known[row]
                if step.bits is not None:
                    wanted = score * (costs[query] if unit == "bits per cost" else 1)
                    assert float(step.bits[i]) == pytest.approx(wanted, abs=1e-6)
                spent[row] += costs[query]
                n_known[row] += int(rows.available[row, query])


@given(costs=COSTS, seed=SEEDS, units=st.integers(0, 96).map(lambda n: n / 8), rule=RULES)
def test_a_cost_budget_is_never_exceeded_and_leaves_nothing_affordable(
    costs: list[float], seed: int, units: float, rule: StoppingRule
) -> None:
    pursuer = KnownWorth(costs, seed=seed)
    rows = make_rows(pursuer.query_set, 5, seed, missing=0.3, n_classes=2)
    by_preference = sorted(range(len(costs)), key=lambda query: -float(pursuer.preferences[query]))
    for chain in explain(pursuer, rows.x, rows.available, CostBudget(units)):
        wanted, spent = [], 0.0
        for query in by_preference:  # what is too dear is passed over, and what comes after it is not
            if spent + costs[query] <= units + 1e-9:
                wanted.append(query)
                spent += costs[query]
        assert [step.query for step in chain.steps] == wanted
    for chain in explain(pursuer, rows.x, rows.available, rule | CostBudget(units)):
        assert sum(costs[step.query] for step in chain.steps) <= units + 1e-6


@given(costs=COSTS, seed=SEEDS, bits=st.floats(0, 0.6), units=st.sampled_from([None, 0.0, 3.0, 8.0]))
def test_rows_stop_where_nothing_left_is_worth_asking(
    costs: list[float], seed: int, bits: float, units: float | None
) -> None:
    pursuer = KnownWorth(costs, seed=seed)
    rows = make_rows(pursuer.query_set, 5, seed, missing=0.3, n_classes=2)
    limit, rule = None if units is None else CostBudget(units), NothingWorthAsking(bits)
    longer = explain(pursuer, rows.x, rows.available, limit)
    for whole, chain in zip(
        longer, explain(pursuer, rows.x, rows.available, rule if limit is None else rule | limit), strict=True
    ):
        n_known, wanted = 0, 0
        for step in whole.steps:
            if float(pursuer.preferences[step.query]) * 0.5**n_known <= bits:
                break
            wanted += 1
            n_known += step.answer is not None
        assert len(chain) == wanted


def test_a_preference_is_not_worth_a_number_of_bits() -> None:
    query_set = make_columns(["yes_no", "choice"])
    rows = make_rows(query_set, 2)
    with pytest.raises(ValueError, match="mere preferences"):
        list(pursue(make_vip(query_set), rows.x, stop=NothingWorthAsking(0.1)))
