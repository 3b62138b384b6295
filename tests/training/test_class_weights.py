"""Streamed rows in which some classes count more."""

import torch

from pursuit.research.tasks.symcat import Patients
from pursuit.training.rows import ClassWeightedRows

YES = torch.tensor([[0.9, 0.1, 0.6], [0.1, 0.8, 0.6], [0.05, 0.05, 0.5]])
SOURCE = Patients(["flu", "measles", "eczema"], YES, n_rows=40)
WEIGHTS = torch.tensor([2.0, 0.5, 0.5])


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_rows_are_those_of_the_source_with_the_weight_of_their_class() -> None:
    weighted = ClassWeightedRows(SOURCE, WEIGHTS)
    plain, rows = SOURCE.draw(50, generator()), weighted.draw(50, generator())
    assert torch.equal(rows.x, plain.x)
    assert rows.weight is not None
    assert torch.equal(rows.weight, WEIGHTS[plain.y])
    streamed = weighted.shard(0, 2).to(torch.device("cpu")).stream(generator()).next(20)
    assert streamed.weight is not None
    assert torch.equal(streamed.weight, WEIGHTS[streamed.y])
    others, held_out = weighted.hold_out(0.1, 15, 3)
    assert isinstance(others, ClassWeightedRows)
    assert held_out.weight is not None
    assert len(held_out) == 15


def test_it_is_known_by_its_weights_and_says_what_the_source_says() -> None:
    weighted = ClassWeightedRows(SOURCE, WEIGHTS)
    assert len(weighted) == 40
    assert (weighted.classes, weighted.n_queries) == (SOURCE.classes, 3)
    assert weighted.has_initially_known == SOURCE.has_initially_known
    assert weighted.fingerprint() != ClassWeightedRows(SOURCE, WEIGHTS.flip(0)).fingerprint()
    expected = SOURCE.prior(3) * WEIGHTS
    torch.testing.assert_close(weighted.prior(3), expected / expected.sum())


def test_a_stream_goes_on_where_it_was() -> None:
    stream = ClassWeightedRows(SOURCE, WEIGHTS).stream(generator())
    stream.next(5)
    other = ClassWeightedRows(SOURCE, WEIGHTS).stream(generator())
    other.next(5)
    other.load_state(stream.state())
    assert torch.equal(stream.next(5).x, other.next(5).x)
