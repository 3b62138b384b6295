"""Random order: the posterior is that of another pursuer, and each query is asked as often as any other."""

from typing import Any

import pytest
import torch

from pursuit import ModelSpec
from pursuit.inference.chain import explain
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.inference.pursuer import choose
from pursuit.methods.random_order import RandomOrder, RandomOrderClassifier
from pursuit.queries import ColumnQueries
from pursuit.training.learner import ClassifierModel
from pursuit.training.rows import Rows
from pursuit.training.samplers import RandomHistories
from pursuit.training.schedule import Stage
from untrained import make_columns, make_rows, make_vip


def orders(world: Any, n_rows: int, seed: int) -> list[tuple[int, ...]]:
    x, available = world.rows.x[:1].expand(n_rows, -1), world.rows.available[:1].expand(n_rows, -1)
    chains = explain(RandomOrder(world.pursuer, seed), x, available)
    return [tuple(step.query for step in chain.steps) for chain in chains]


def test_the_posterior_is_that_of_the_other(world: Any) -> None:
    rows: Rows = world.rows
    known = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(0)) < 0.5
    history, pursuer = History(rows.x, known, known), RandomOrder(world.pursuer)
    assert torch.equal(pursuer.log_posterior(history), world.pursuer.log_posterior(history))
    assert pursuer.query_set is world.query_set
    assert pursuer.classes is world.pursuer.classes


def test_every_query_is_asked_once(world: Any) -> None:
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders(world, 50, seed=0))


def test_all_orders_are_equally_likely(world: Any) -> None:
    n_rows = 24 * 50
    seen = orders(world, n_rows, seed=3)
    counts = torch.tensor([seen.count(order) for order in set(seen)])
    assert len(counts) == 24
    chi_square = ((counts - 50) ** 2 / 50).sum().item()
    assert chi_square < 49.7  # the 99.9 % quantile with 23 degrees of freedom


def test_the_seed_decides(world: Any) -> None:
    assert orders(world, 20, seed=1) == orders(world, 20, seed=1)
    assert orders(world, 20, seed=1) != orders(world, 20, seed=2)


def test_the_callers_randomness_is_left_alone(world: Any) -> None:
    before = torch.get_rng_state()
    orders(world, 5, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_scores_do_not_depend_on_the_answers() -> None:
    query_set: ColumnQueries = make_columns(["yes_no", "number", "choice"])
    model = make_vip(query_set)
    histories = [make_rows(query_set, 6, seed).start() for seed in (0, 1)]
    one, other = (RandomOrder(model, seed=5).scores(history) for history in histories)
    assert one.shape == (6, 3)
    assert torch.equal(one, other)


def test_the_state_draws_the_same_and_has_the_same_posterior(world: Any) -> None:
    rows: Rows = world.rows
    history, pursuer, other = rows.start(), RandomOrder(world.pursuer, seed=5), RandomOrder(world.pursuer, seed=5)
    state = history_state(pursuer, history)
    for _ in range(3):
        scores = state.scores()
        assert torch.equal(scores, other.scores(history))
        query, answered = choose(scores, history.asked), torch.arange(len(history)) % 3 > 0
        state.ask(query, answered)
        history = history.record(query, answered)
        torch.testing.assert_close(state.log_posterior(), world.pursuer.log_posterior(history))
        kept = torch.arange(len(history) - 2)
        state.keep(kept)
        history = history.rows(kept)
        assert torch.equal(state.asked, history.asked)


def test_training_is_on_random_histories_of_the_plans_length() -> None:
    plan = RandomOrderClassifier(max_queries=5).plan([Stage(3, batch_size=8)])
    assert plan == [Stage(3, RandomHistories(5), batch_size=8)]
    assert "shared" not in RandomOrderClassifier().get_params()


def test_it_is_saved_with_its_classifier_and_seed(world: Any) -> None:
    own = ClassifierModel.build(ModelSpec(world.query_set, world.pursuer.classes))
    config = RandomOrder(own, seed=7).to_config()
    again = RandomOrder.from_config(world.query_set, world.pursuer.classes, config)
    history = world.rows.start()
    assert torch.equal(again.scores(history), RandomOrder(own, seed=7).scores(history))
    assert again.to_config() == config


def test_with_another_pursuer_it_cannot_be_saved(world: Any) -> None:
    for pursuer, name in ((world.pursuer, "IndependentIP"), (make_vip(world.query_set), "VIP")):
        with pytest.raises(ValueError, match=f"not one with a {name}"):
            RandomOrder(pursuer).to_config()
