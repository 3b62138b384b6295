"""Rows in memory and rows drawn by a rule: streams, initially known answers, shares of classes and fingerprints."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pursuit.training.rows import DrawnRows, GeneratedRows, Rows, ShuffledRows
from strategies import SEEDS
from untrained import make_columns, make_rows

KINDS = ["yes_no", "choice", "number", "yes_no", "single", "number"]


class Coins(GeneratedRows):
    """Two coins, the first of which is the label."""

    n_queries, n_rows = 2, 10
    classes = ("heads", "tails")

    def draw(self, n: int, generator: torch.Generator) -> Rows:
        coins = torch.randint(2, (n, 2), generator=generator)
        return Rows(coins * 2.0 - 1, torch.ones_like(coins, dtype=torch.bool), coins[:, 0])

    def to(self, device: torch.device) -> "Coins":
        return self

    def prior(self, n_classes: int) -> Tensor:
        return torch.full((n_classes,), 0.5)

    def fingerprint(self) -> str:
        return "coins"


@given(n_rows=st.integers(1, 9), sizes=st.lists(st.integers(0, 12), min_size=1, max_size=8), seed=SEEDS)
def test_every_pass_goes_through_all_rows_once(n_rows: int, sizes: list[int], seed: int) -> None:
    rows = Rows(torch.rand(n_rows, 2), torch.ones(n_rows, 2).bool(), torch.arange(n_rows))
    stream = ShuffledRows(rows, torch.Generator().manual_seed(seed))
    drawn: list[int] = []
    for size in sizes:
        part = stream.next(size)
        assert len(part) == size
        assert torch.equal(part.x, rows.x[part.y])
        drawn += part.y.tolist()
    for start in range(0, len(drawn), n_rows):
        once = drawn[start : start + n_rows]
        assert len(set(once)) == len(once)


def test_passes_come_in_different_orders() -> None:
    rows = Rows(torch.zeros(30, 1), torch.ones(30, 1).bool(), torch.arange(30))
    stream = ShuffledRows(rows, torch.Generator().manual_seed(0))
    assert stream.next(30).y.tolist() != stream.next(30).y.tolist()


@given(n_rows=st.integers(1, 9), before=st.integers(0, 30), after=st.integers(1, 30), seed=SEEDS)
def test_a_stream_goes_on_from_its_state(n_rows: int, before: int, after: int, seed: int) -> None:
    rows = Rows(torch.zeros(n_rows, 1), torch.ones(n_rows, 1).bool(), torch.arange(n_rows))
    generator = torch.Generator().manual_seed(seed)
    stream = ShuffledRows(rows, generator)
    stream.next(before)
    state, randomness = stream.state(), generator.get_state()
    wanted = stream.next(after).y
    other = torch.Generator().manual_seed(seed + 1)
    again = ShuffledRows(rows, other)
    again.next(3)
    other.set_state(randomness)
    again.load_state(state)
    assert torch.equal(other.get_state(), randomness)
    assert torch.equal(again.next(after).y, wanted)
    assert torch.equal(other.get_state(), generator.get_state())


def test_rows_take_what_is_initially_known_along() -> None:
    rows = make_rows(make_columns(KINDS), 5, missing=0.3, reported=0.3)
    part = rows.take(torch.tensor([3, 1]))
    assert len(part) == 2
    for one, whole in (
        (part.x, rows.x),
        (part.available, rows.available),
        (part.initially_known, rows.initially_known),
    ):
        assert torch.equal(one, whole[[3, 1]])
    assert torch.equal(part.start().known, part.initially_known)
    moved = rows.to(torch.device("meta"))
    assert {t.device.type for t in (moved.x, moved.available, moved.y, moved.initially_known)} == {"meta"}


def test_no_rows_cannot_be_shuffled() -> None:
    with pytest.raises(ValueError, match="no rows to train on"):
        Rows(torch.zeros(0, 2), torch.ones(0, 2).bool(), torch.zeros(0).long()).stream(torch.Generator())


def test_only_answers_that_exist_are_initially_known() -> None:
    available = torch.tensor([[True, False, True]])
    rows = Rows(torch.zeros(1, 3), available, torch.zeros(1).long(), torch.tensor([[True, True, False]]))
    start = rows.start()
    assert start.known.tolist() == [[True, False, False]]
    assert start.asked.tolist() == [[True, False, False]]


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_the_prior_is_the_share_of_every_class_with_one_row_more(labels: list[int]) -> None:
    n = len(labels)
    prior = Rows(torch.zeros(n, 1), torch.ones(n, 1).bool(), torch.tensor(labels)).prior(4)
    assert prior.tolist() == pytest.approx([(labels.count(c) + 1) / (n + 4) for c in range(4)])
    assert float(prior.sum()) == pytest.approx(1)


def test_fingerprints_tell_rows_apart() -> None:
    rows = make_rows(make_columns(KINDS), 5, missing=0.3, reported=0.3)
    same = Rows(rows.x.clone(), rows.available.clone(), rows.y.clone(), rows.initially_known.clone())
    assert same.fingerprint() == rows.fingerprint()
    index = torch.tensor([1, 0, 2, 3, 4])
    others = [
        replace(rows, x=rows.x + 1e-3),
        replace(rows, y=(rows.y + 1) % 3),
        replace(rows, available=~rows.available),
        replace(rows, initially_known=~rows.initially_known),
        replace(rows, initially_known=None),
        rows.take(index),
        rows.take(torch.arange(4)),
    ]
    assert len({rows.fingerprint(), *(other.fingerprint() for other in others)}) == 1 + len(others)
    # Rows in memory may be a view of others; what counts is what they hold.
    assert replace(rows, x=rows.x.T.contiguous().T).fingerprint() == rows.fingerprint()


def test_drawn_rows_are_those_of_the_generator() -> None:
    stream = Coins().stream(torch.Generator().manual_seed(3))
    assert isinstance(stream, DrawnRows)
    assert stream.n_queries == 2
    assert len(Coins()) == 10  # an epoch has as many; the stream goes on
    drawn = [stream.next(7).y for _ in range(5)]
    again = Coins().stream(torch.Generator().manual_seed(3))
    assert all(torch.equal(again.next(7).y, part) for part in drawn)
    assert not all(torch.equal(drawn[0], part) for part in drawn[1:])
    assert stream.state() == {}


def test_a_drawn_stream_goes_on_from_its_generator() -> None:
    generator = torch.Generator().manual_seed(0)
    stream = Coins().stream(generator)
    stream.next(4)
    randomness, state = generator.get_state(), stream.state()
    wanted = stream.next(20).x
    other = torch.Generator()
    again = Coins().stream(other)
    again.load_state(state)
    other.set_state(randomness)
    assert torch.equal(again.next(20).x, wanted)
