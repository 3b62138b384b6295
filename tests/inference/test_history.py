"""Histories: what is asked, what is known, and that the one before stays as it was."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from pursuit.inference.history import History


def test_nothing_is_asked_at_the_start() -> None:
    history = History.start(torch.zeros(3, 5), 4)
    assert len(history) == 3
    assert history.known.shape == history.asked.shape == (3, 4)
    assert not history.known.any()
    assert not history.asked.any()
    assert history.n_known.tolist() == [0, 0, 0]


def test_what_is_initially_known_is_not_asked_again() -> None:
    initially_known = torch.tensor([[True, False], [False, False]])
    history = History.start(torch.zeros(2, 2), 2, initially_known)
    assert torch.equal(history.known, initially_known)
    assert torch.equal(history.asked, initially_known)
    assert history.n_known.tolist() == [1, 0]


@given(seed=st.integers(0, 10_000), steps=st.integers(1, 6))
def test_asked_queries_are_known_where_available(seed: int, steps: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    available = torch.rand(5, 4, generator=generator) < 0.5
    history, asked = History.start(torch.zeros(5, 4), 4), torch.zeros(5, 4, dtype=torch.bool)
    for _ in range(steps):
        query = torch.randint(4, (5,), generator=generator)
        before, known_before, asked_before = history, history.known.clone(), history.asked.clone()
        history = history.ask(query, available)
        asked[torch.arange(5), query] = True
        assert torch.equal(history.asked, asked)
        assert torch.equal(history.known, asked & available)
        assert history.n_known.tolist() == (asked & available).sum(dim=1).tolist()
        assert torch.equal(before.known, known_before)
        assert torch.equal(before.asked, asked_before)


def test_without_availability_every_query_is_answered() -> None:
    history = History.start(torch.zeros(2, 3), 3).ask(torch.tensor([2, 0]))
    assert history.known.tolist() == [[False, False, True], [True, False, False]]
    assert torch.equal(history.asked, history.known)


def test_what_was_asked_is_known_where_it_was_answered() -> None:
    history = History.start(torch.zeros(3, 2), 2, torch.tensor([[False, False], [False, False], [True, False]]))
    after = history.record(torch.tensor([1, 1, 0]), torch.tensor([True, False, False]))
    assert after.asked.tolist() == [[False, True], [False, True], [True, False]]
    assert after.known.tolist() == [[False, True], [False, False], [True, False]]
    assert history.record(torch.tensor([0, 0, 1])).known.sum().item() == 4


def test_asking_again_takes_no_answer_back() -> None:
    initially_known = torch.tensor([[True, False]])
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    history = History.start(torch.zeros(1, 2), 2, initially_known).ask(torch.tensor([0]), nothing)
    assert history.known.tolist() == [[True, False]]


def test_rows_go_by_list_and_by_mask() -> None:
    history = History(torch.arange(3.0)[:, None], torch.eye(3).bool(), torch.ones(3, 3).bool())
    for index in (torch.tensor([2, 0]), torch.tensor([True, False, True])):
        part = history.rows(index)
        assert torch.equal(part.x, history.x[index])
        assert torch.equal(part.known, history.known[index])
        assert torch.equal(part.asked, history.asked[index])
        assert len(part) == 2
