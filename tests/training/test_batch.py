"""Batches and outcomes: what samplers, the training step and learners pass to each other."""

import torch
from torch.utils import _pytree as pytree

from pursuit.inference.history import History
from pursuit.training.rows import Rows
from pursuit.training.samplers import Batch, TrainingOutcome
from untrained import make_columns, make_rows


def test_a_batch_holds_the_history_and_the_labels_of_its_rows() -> None:
    rows = make_rows(make_columns(["yes_no", "choice", "number"]), 5, missing=0.3)
    asked = torch.rand(5, 3) < 0.5
    history = History(rows.x, asked & rows.available, asked)
    batch = Batch.of(rows, history, extra=("anything",))
    assert batch.history == history
    assert batch.available is rows.available
    assert batch.y is rows.y
    assert batch.extra == ("anything",)


def test_a_batch_without_a_stage_has_neutral_settings() -> None:
    rows = make_rows(make_columns(["yes_no"]), 2)
    batch = Batch.of(rows, rows.start())
    assert (batch.tau, batch.exploration, batch.label_smoothing, batch.phase, batch.extra) == (1.0, 0.0, 0.0, "", None)


def test_tensors_inside_a_batch_can_be_found_by_torch() -> None:
    """Fabric moves what is inside a batch, and torch.compile looks at it: both know tuples, and no classes of ours."""
    rows = make_rows(make_columns(["yes_no", "number"]), 2)
    batch = Batch.of(rows, rows.start(), extra=(torch.ones(2),))._replace(tau=torch.tensor(0.5))
    tensors = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    assert len(tensors) == 7  # x, known, asked, available, y, the extra one and tau
    doubled = pytree.tree_map(lambda leaf: leaf * 2 if isinstance(leaf, torch.Tensor) else leaf, batch)
    assert isinstance(doubled, Batch)
    assert float(doubled.tau) == 1.0


def test_an_outcome_need_not_name_a_query() -> None:
    loss = torch.tensor(0.5)
    assert TrainingOutcome(loss).query is None
    assert TrainingOutcome(loss, torch.tensor([3])).query is not None


def test_losses_count_rows_by_their_weights() -> None:
    rows = make_rows(make_columns(["yes_no", "number"]), 6)
    logits = torch.randn(6, int(rows.y.max()) + 1, generator=torch.Generator().manual_seed(0))
    plain = Batch.of(rows, rows.start())
    ones = plain._replace(weight=torch.ones(6))
    torch.testing.assert_close(plain.label_loss(logits), ones.label_loss(logits))
    twice = plain._replace(weight=torch.tensor([2.0, 0, 1, 1, 1, 1]))
    place = torch.tensor([0, 0, 2, 3, 4, 5])
    again = Batch.of(rows.take(place), rows.take(place).start())
    for smoothing in (0.0, 0.1):
        one, other = (batch._replace(label_smoothing=smoothing) for batch in (twice, again))
        torch.testing.assert_close(one.label_loss(logits), other.label_loss(logits[place]))
    assert float(twice.mean(torch.arange(6.0))) == float(again.mean(torch.arange(6.0)[place]))


def test_a_kernel_spreads_labels_over_their_neighbours() -> None:
    known = torch.ones(2, 1, dtype=torch.bool)
    batch = Batch(torch.zeros(2, 1), known, known, known, torch.tensor([0, 1]))
    logits, kernel = torch.randn(2, 2), torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    wanted = -(kernel * logits.log_softmax(dim=1)).sum(dim=1)
    torch.testing.assert_close(batch.label_loss(logits, kernel), wanted.mean())
    weight = torch.tensor([1.5, 0.5])
    torch.testing.assert_close(batch._replace(weight=weight).label_loss(logits, kernel), (wanted * weight).mean())


# Targets in place of labels


def taught_batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(6, 3, generator=generator) < 0.5
    target = torch.randn(6, 4, generator=generator).softmax(dim=1)
    y, weight = torch.tensor([0, 1, -1, 3, -1, 2]), torch.tensor([1.0, 2.0, 0.5, 0.5, 1.5, 0.5])
    x, available = torch.randn(6, 3, generator=generator), torch.ones(6, 3, dtype=torch.bool)
    return Batch(x, known, known, available, y, weight, target, extra=(torch.ones(6),), tau=0.3, label_smoothing=0.1)


def test_targets_are_learnt_in_place_of_labels() -> None:
    batch, logits = taught_batch(), torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    assert batch.targets() is batch.target
    assert batch.targets(torch.eye(4).flip(0)) is batch.target  # neighbours are in them already
    smoothed = 0.9 * batch.target + 0.1 / 4
    wanted = -(smoothed * logits.log_softmax(dim=1)).sum(dim=1)
    torch.testing.assert_close(batch.label_losses(logits), wanted)
    torch.testing.assert_close(batch.label_loss(logits), (wanted * batch.weight).mean())
    torch.testing.assert_close(batch._replace(weight=None).label_loss(logits), wanted.mean())
    sure = batch._replace(y=torch.arange(6) % 4, target=torch.eye(4)[torch.arange(6) % 4])
    torch.testing.assert_close(sure.label_losses(logits), sure._replace(target=None).label_losses(logits))


def test_labels_are_learnt_where_there_are_no_targets() -> None:
    batch, kernel = taught_batch()._replace(target=None, y=torch.tensor([0, 1, 2, 3, 0, 1])), torch.rand(4, 4)
    assert batch.targets() is batch.y
    assert torch.equal(batch.targets(kernel), kernel[batch.y])


def test_some_of_a_batch_are_taken_with_all_that_is_theirs() -> None:
    batch, place = taught_batch(), torch.tensor([4, 1])
    for some in (batch.take(slice(1, None, 2)), batch.take(place)):
        index = torch.tensor([1, 3, 5]) if len(some.y) == 3 else place
        for name in ("x", "known", "asked", "available", "y", "weight", "target"):
            assert torch.equal(getattr(some, name), getattr(batch, name)[index]), name
        assert (some.tau, some.label_smoothing, some.extra) == (0.3, 0.1, None)
    bare = batch._replace(weight=None, target=None).take(place)
    assert (bare.weight, bare.target) == (None, None)


def test_rows_bring_their_targets() -> None:
    target = torch.tensor([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    rows = Rows(torch.zeros(3, 1), torch.ones(3, 1, dtype=torch.bool), torch.tensor([1, 0, -1]), target=target)
    assert Batch.of(rows, rows.start()).target is target
    assert torch.equal(rows.take(torch.tensor([2, 0])).target, target[[2, 0]])  # type: ignore[arg-type]
    values = torch.tensor([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]])
    assert rows.at_label(values).tolist() == [4.0, 2.0, 5.0]
    labelled = Rows(rows.x, rows.available, torch.tensor([1, 0, 1]))
    assert labelled.at_label(values).tolist() == [5.0, 2.0, 7.0]
    assert rows.at_label(values.double()).dtype == torch.double
    other = Rows(rows.x, rows.available, rows.y, target=target.flip(1))
    assert len({each.fingerprint() for each in (rows, other, Rows(rows.x, rows.available, rows.y))}) == 3
