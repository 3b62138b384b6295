"""Generated data have the shapes of the tasks they stand for."""

import pytest
import torch

import worlds
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.networks import MLP
from pursuit.tasks import TASKS
from pursuit.training import CarriedHistories, Stage, train


@pytest.mark.parametrize(
    ("task", "world"),
    [("mnist", worlds.mnist(20)), ("huffpost", worlds.huffpost(20)), ("symcat-200", worlds.symcat(200, 20))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_worlds_have_the_shapes_of_their_tasks(task: str, world: worlds.World) -> None:
    info = TASKS[task]
    assert (len(world.query_set), world.n_classes) == (info.n_queries, info.n_classes)
    assert world.rows.x.shape == (20, *world.query_set.answer_shape)
    assert world.rows.available.all()
    assert set(world.rows.x.unique().tolist()) == {-1.0, 1.0}
    assert world.rows.x.dtype == torch.float
    assert int(world.rows.y.max()) < world.n_classes
    assert (world.rows.initially_known is not None) == task.startswith("symcat")


def test_models_of_a_world_start_alike_and_leave_the_callers_randomness_alone() -> None:
    world = worlds.huffpost(4)
    state = torch.get_rng_state()
    one, other = (world.build(MLP((8,))) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_digits_are_black_and_white_and_held_out() -> None:
    world, held_out = worlds.digits_in_black_and_white()
    assert (len(world.rows), len(held_out)) == (1437, 360)
    assert set(world.rows.x.unique().tolist()) == {-1.0, 1.0}


def test_yes_no_rows_follow_their_table() -> None:
    source = worlds.YesNoRows(torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.2, 1.0]]), n_rows=100)
    rows = source.draw(20_000, torch.Generator().manual_seed(0))
    shares = torch.stack([(rows.x[rows.y == label] > 0).float().mean(dim=0) for label in range(2)])
    assert (shares - source.yes).abs().max() < 0.02
    assert float((rows.y == 0).float().mean()) == pytest.approx(0.5, abs=0.02)
    assert source.prior(2).tolist() == [0.5, 0.5]
    kept = source.in_memory(250, at_a_time=100)
    again = source.in_memory(250, at_a_time=100)
    assert len(kept) == 250
    assert torch.equal(kept.x, again.x)
    assert set(kept.x.unique().tolist()) == {-1.0, 1.0}
    assert kept.y.bincount().min() > 90


def test_labels_of_generated_rows_can_be_learnt() -> None:
    source = worlds.YesNoRows.random(2, 8, n_rows=1000)
    model = source.build((16,))
    train(model, source, [Stage(20, CarriedHistories(8))])
    rows = source.draw(2000, torch.Generator().manual_seed(5))
    everything = History(rows.x, rows.available, rows.available)
    right = [
        float((pursuer.log_posterior(everything).argmax(dim=1) == rows.y).float().mean())
        for pursuer in (model, IndependentIP.from_yes(model.query_set, range(2), source.prior(2), source.yes))
    ]
    assert right[0] > right[1] - 0.05
    assert right[0] > 0.7
