"""Batches and outcomes: what samplers, the training step and learners pass to each other."""

from typing import Any

import torch
from torch.utils import _pytree as pytree

from pursuit.inference.history import History
from pursuit.training.batch import Batch, Outcome


def test_a_batch_holds_the_history_and_the_labels_of_its_rows(make_columns: Any, make_rows: Any) -> None:
    rows = make_rows(make_columns(["yes_no", "choice", "number"]), 5, missing=0.3)
    asked = torch.rand(5, 3) < 0.5
    history = History(rows.x, asked & rows.available, asked)
    batch = Batch.of(rows, history, extra=("anything",))
    assert batch.history == history
    assert batch.available is rows.available
    assert batch.y is rows.y
    assert batch.extra == ("anything",)
    assert batch.n_rows == 5


def test_a_batch_without_a_stage_has_neutral_settings(make_columns: Any, make_rows: Any) -> None:
    rows = make_rows(make_columns(["yes_no"]), 2)
    batch = Batch.of(rows, rows.start())
    assert (batch.tau, batch.exploration, batch.label_smoothing, batch.phase, batch.extra) == (1.0, 0.0, 0.0, "", None)


def test_tensors_inside_a_batch_can_be_found_by_torch(make_columns: Any, make_rows: Any) -> None:
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
    assert Outcome(loss).query is None
    assert Outcome(loss, torch.tensor([3])).query is not None


def test_losses_count_rows_by_their_weights(make_columns: Any, make_rows: Any) -> None:
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
