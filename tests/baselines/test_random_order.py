"""Random order: believes what another pursuer believes, and asks by chance, each query as often as any other."""

from typing import Any

import torch

from pursuit.baselines import RandomOrder
from pursuit.chains import explain
from pursuit.following import follow
from pursuit.history import History
from pursuit.pursuer import choose
from pursuit.queries import ColumnQueries
from pursuit.rows import Rows


def orders(world: Any, n_rows: int, seed: int) -> list[tuple[int, ...]]:
    x, available = world.rows.x[:1].expand(n_rows, -1), world.rows.available[:1].expand(n_rows, -1)
    chains = explain(RandomOrder(world.pursuer, seed), x, available)
    return [tuple(step.query for step in chain.steps) for chain in chains]


def test_it_believes_what_the_other_believes(world: Any) -> None:
    rows: Rows = world.rows
    known = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    history, pursuer = History(rows.x, known, known), RandomOrder(world.pursuer)
    assert torch.equal(pursuer.log_posterior(history), world.pursuer.log_posterior(history))
    assert pursuer.query_set is world.query_set
    assert pursuer.classes is world.pursuer.classes


def test_every_query_is_asked_once(world: Any) -> None:
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders(world, 50, seed=0))


def test_all_orders_are_equally_likely(world: Any) -> None:
    n_rows = 24 * 100
    seen = orders(world, n_rows, seed=3)
    counts = torch.tensor([seen.count(order) for order in set(seen)])
    assert len(counts) == 24
    chi_square = ((counts - 100) ** 2 / 100).sum().item()
    assert chi_square < 49.7  # the 99.9 % quantile with 23 degrees of freedom


def test_the_seed_decides(world: Any) -> None:
    assert orders(world, 20, seed=1) == orders(world, 20, seed=1)
    assert orders(world, 20, seed=1) != orders(world, 20, seed=2)


def test_the_callers_randomness_is_left_alone(world: Any) -> None:
    before = torch.get_rng_state()
    orders(world, 5, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_scores_tell_nothing_of_the_answers(make_columns: Any, make_vip: Any, make_rows: Any) -> None:
    query_set: ColumnQueries = make_columns(["yes_no", "number", "choice"])
    model = make_vip(query_set)
    histories = [make_rows(query_set, 6, seed).start() for seed in (0, 1)]
    one, other = (RandomOrder(model, seed=5).scores(history) for history in histories)
    assert one.shape == (6, 3)
    assert torch.equal(one, other)


def test_following_draws_and_believes_the_same(world: Any) -> None:
    rows: Rows = world.rows
    history, pursuer, other = rows.start(), RandomOrder(world.pursuer, seed=5), RandomOrder(world.pursuer, seed=5)
    follower = follow(pursuer, history)
    for _ in range(3):
        scores = follower.scores()
        assert torch.equal(scores, other.scores(history))
        query, answered = choose(scores, history.asked), torch.arange(len(history)) % 3 > 0
        follower.ask(query, answered)
        history = history.told(query, answered)
        torch.testing.assert_close(follower.log_posterior(), world.pursuer.log_posterior(history))
        kept = torch.arange(len(history) - 2)
        follower.keep(kept)
        history = history.rows(kept)
        assert torch.equal(follower.asked, history.asked)
