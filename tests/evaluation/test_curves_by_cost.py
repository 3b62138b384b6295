"""Accuracy against cost, and rules that look at costs and bits, against the chains they sum up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.evaluation.curves import evaluate
from pursuit.inference.chain import Chains, explain
from pursuit.inference.stopping import Budget, Confidence, CostBudget, NothingWorthAsking, StoppingRule
from pursuit.training.rows import Rows
from strategies import SEEDS, SHARES
from untrained import KnownWorth, make_columns, make_rows, make_vip

COSTS = st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.0, 7.25]), min_size=1, max_size=6)


def slow_accuracy_at(cost: float, pursuer: Any, chains: Chains, rows: Rows, longest: int) -> float:
    """The share of rows that are right with what they know before the next query would cost more than `cost`."""
    costs, n_right = [query.cost for query in pursuer.query_set.queries], 0
    for chain, y in zip(chains, rows.y.tolist(), strict=True):
        belief, spent = chain.prior, 0.0
        for step in chain.steps[:longest]:
            spent += costs[step.query]
            if spent > cost * (1 + 1e-9) + 1e-9:
                break
            belief = step.posterior
        n_right += int(belief.argmax()) == y
    return n_right / len(rows)


@given(costs=COSTS, seed=SEEDS, missing=SHARES, cut=st.sampled_from([None, 1, 3]))
def test_accuracy_against_cost_is_that_of_the_chains(
    costs: list[float], seed: int, missing: float, cut: int | None
) -> None:
    pursuer = KnownWorth(costs, seed=seed)
    rows = make_rows(pursuer.query_set, 12, seed, missing, n_classes=2)
    result = evaluate(pursuer, rows, None, cut)
    longest = len(costs) if cut is None else min(cut, len(costs))
    most = sum(sorted(costs)[-longest:])
    if all(cost == 1 for cost in costs) or not most:
        assert (result.accuracy_by_cost, result.area_by_cost) == ([], None)
        return
    assert len(result.accuracy_by_cost) == 50
    assert [cost for cost, _ in result.accuracy_by_cost] == pytest.approx([most * i / 49 for i in range(50)])
    chains = explain(pursuer, rows.x, rows.available)
    for cost, accuracy in result.accuracy_by_cost:
        assert accuracy == pytest.approx(slow_accuracy_at(cost, pursuer, chains, rows, longest))
    assert result.accuracy_by_cost[-1][1] == pytest.approx(result.accuracy_by_asked[-1])
    assert result.area_by_cost == pytest.approx(sum(accuracy for _, accuracy in result.accuracy_by_cost[1:]) / 49)


@given(
    costs=COSTS,
    seed=SEEDS,
    units=st.floats(0, 12),
    missing=SHARES,
    other=st.sampled_from([Budget(2), Confidence(0.8), NothingWorthAsking(0.2)]),
    cut=st.sampled_from([None, 2]),
)
def test_rules_that_restrict_what_is_asked_have_chains_of_their_own(
    costs: list[float], seed: int, units: float, missing: float, other: StoppingRule, cut: int | None
) -> None:
    pursuer = KnownWorth(costs, seed=seed)
    rows = make_rows(pursuer.query_set, 12, seed, missing, n_classes=2)
    rules = [other, CostBudget(units), CostBudget(units) | other, Budget(1)]
    result = evaluate(pursuer, rows, rules[0], cut, trade_off=rules[1:])
    for rule, stop in zip(rules, [result.at_stop, *result.trade_off], strict=True):
        chains = explain(pursuer, rows.x, rows.available, rule if cut is None else rule | Budget(cut))
        right = sum(int(c.posterior.argmax()) == y for c, y in zip(chains, rows.y.tolist(), strict=True))
        spent = [sum(costs[step.query] for step in chain.steps) for chain in chains]
        assert stop is not None
        assert stop.rule == str(rule)
        assert stop.mean_asked == pytest.approx(sum(len(chain) for chain in chains) / 12)
        assert stop.mean_answered == pytest.approx(sum(chain.n_answered for chain in chains) / 12)
        assert stop.mean_cost == pytest.approx(sum(spent) / 12)
        assert stop.accuracy == pytest.approx(right / 12)
    free = evaluate(pursuer, rows, None, cut)
    assert result.accuracy_by_asked == free.accuracy_by_asked
    assert result.accuracy_by_cost == free.accuracy_by_cost


def test_rows_without_money_for_more_are_not_cut_short() -> None:
    pursuer = KnownWorth([1.0] * 4)
    rows = make_rows(pursuer.query_set, 6, n_classes=2)
    rules = [CostBudget(units) for units in (1, 2, 3)] + [CostBudget(3) | Budget(2)]
    found = evaluate(pursuer, rows, None, 2, trade_off=rules).trade_off
    assert [(stop.mean_asked, stop.cut_short) for stop in found] == [(1, 0), (2, 0), (2, 1), (2, 0)]


def test_a_preference_is_not_measured_by_bits() -> None:
    query_set = make_columns(["yes_no", "choice"])
    with pytest.raises(ValueError, match=r"bits=0\.1 needs scores in bits"):
        evaluate(make_vip(query_set), make_rows(query_set, 2), NothingWorthAsking(0.1))
