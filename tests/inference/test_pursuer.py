"""The choice of the next query, and what counts as a pursuer."""

from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.inference.pursuer import (
    FREE,
    Pursuer,
    choose,
    highest_left,
    information,
    leave_out,
    per_cost,
    score_unit,
    wants_more,
)
from pursuit.methods import RandomOrder
from untrained import Counting, InOrder, KnownWorth, make_vip


@given(seed=st.integers(0, 10_000), n_queries=st.integers(1, 8))
def test_the_best_query_not_asked_is_chosen(seed: int, n_queries: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(6, n_queries, generator=generator) * 1e3
    asked = torch.rand(6, n_queries, generator=generator) < 0.7
    asked[torch.arange(6), torch.randint(n_queries, (6,), generator=generator)] = False
    for row, chosen in enumerate(choose(scores, asked).tolist()):
        left = [query for query in range(n_queries) if not asked[row, query]]
        assert chosen == max(left, key=lambda query: scores[row, query].item())


def test_very_low_scores_still_beat_what_was_asked() -> None:
    scores = torch.tensor([[1.0, torch.finfo(torch.float).min], [torch.inf, -1e30]])
    assert choose(scores, torch.tensor([[True, False], [True, False]])).tolist() == [1, 1]


def test_a_score_of_minus_infinity_still_beats_what_was_asked() -> None:
    assert choose(torch.tensor([[1.0, -torch.inf]]), torch.tensor([[True, False]])).tolist() == [1]


def test_pursuers_are_known_by_what_they_do(world: Any) -> None:
    for pursuer in (world.pursuer, make_vip(world.query_set), InOrder(world.query_set), RandomOrder(world.pursuer)):
        assert isinstance(pursuer, Pursuer)
        assert isinstance(Counting(pursuer), Pursuer)
    assert not isinstance(world.query_set, Pursuer)
    assert not isinstance(object(), Pursuer)


def test_scores_are_bits_where_they_have_a_unit(world: Any) -> None:
    scores, costs = torch.tensor([[0.5, 0.25, -torch.inf]]), [2.0, 4.0, 1.0]
    for unit, wanted in (("bits", scores), ("bits per cost", torch.tensor([[1.0, 1.0, -torch.inf]]))):
        pursuer = KnownWorth(costs, unit)
        assert score_unit(pursuer) == unit
        bits = information(pursuer, scores)
        assert bits is not None
        assert torch.equal(bits, wanted)
    for pursuer in (KnownWorth(costs, None), InOrder(world.query_set)):
        assert score_unit(pursuer) is None
        assert information(pursuer, scores) is None


@given(seed=st.integers(0, 10_000), n_queries=st.integers(1, 8), share=st.sampled_from([0.0, 0.5, 1.0]))
def test_what_is_not_allowed_is_never_chosen(seed: int, n_queries: int, share: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(6, n_queries, generator=generator)
    asked, allowed = (torch.rand(6, n_queries, generator=generator) < part for part in (0.3, share))
    left = leave_out(scores, allowed)
    assert torch.equal(leave_out(scores, None), scores)
    open_ = allowed & ~asked
    assert torch.equal(wants_more(left, asked), open_.any(dim=1))
    for row in range(6):
        best = max((float(scores[row, query]) for query in range(n_queries) if open_[row, query]), default=-torch.inf)
        assert float(highest_left(left, asked)[row]) == best
        if open_[row].any():
            assert float(scores[row, choose(left, asked)[row]]) == best


@given(
    bits=st.lists(st.floats(0, 5, width=32), min_size=5, max_size=5),
    costs=st.lists(st.sampled_from([0.0, 0.1, 1.0, 250.0]), min_size=5, max_size=5),
)
def test_bits_for_each_unit_of_cost_are_bits_again(bits: list[float], costs: list[float]) -> None:
    pursuer, wanted = KnownWorth(costs, "bits per cost"), torch.tensor([[*bits[:4], -torch.inf]])
    scores = per_cost(wanted, pursuer.query_set.costs)
    again = information(pursuer, scores)
    assert again is not None
    torch.testing.assert_close(again, wanted)


@given(seed=st.integers(0, 10_000))
def test_bits_per_cost_are_the_bits_again_times_the_cost(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    bits = torch.rand(5, 7, generator=generator, dtype=torch.double) + 1e-3
    costs = 100 ** (2 * torch.rand(7, generator=generator, dtype=torch.double) - 1)  # from 0.01 to 100
    torch.testing.assert_close(per_cost(bits, costs), bits / costs)
    costs[[1, 4]] = 0
    scores = per_cost(bits, costs)
    assert scores.isfinite().all()
    torch.testing.assert_close(scores * costs.clamp(min=FREE), bits)
    free, paid = scores[:, [1, 4]], scores[:, [0, 2, 3, 5, 6]]
    assert (free.amin(dim=1) > paid.amax(dim=1)).all()  # what is free comes first, the best of it before the rest
    assert torch.equal(free.argmax(dim=1), bits[:, [1, 4]].argmax(dim=1))
