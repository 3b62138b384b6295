"""What rows have in common is computed once, and nothing comes out that would not have come out row by row."""

from typing import Any

import pytest
import torch

from pursuit.inference import equal_rows
from pursuit.inference.equal_rows import CommonHistories, can_be_common
from pursuit.inference.rollout import pursue, template_state
from pursuit.inference.stopping import Confidence, StoppingRule
from untrained import make_columns, make_rows, make_vip


def steps_of(model: Any, rows: Any, stop: StoppingRule | None, with_known: bool) -> list[Any]:
    known = None
    if with_known:
        known = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(3)) < 0.2
    return list(pursue(model, rows.x, rows.available, stop, known, with_bits=True))


@pytest.mark.parametrize("with_known", [False, True])
@pytest.mark.parametrize("stop", [None, Confidence(0.7)])
@pytest.mark.parametrize("kinds", [["yes_no", "choice", "yes_no"], ["yes_no"] * 12])
def test_rollouts_are_the_same(
    kinds: list[str], stop: StoppingRule | None, with_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_set = make_columns(kinds)
    rows, model = make_rows(query_set, 300, 1, 0.2), make_vip(query_set, seed=1)
    expected = steps_of(model, rows, stop, with_known)
    made: list[CommonHistories] = []
    monkeypatch.setattr(equal_rows, "LEAST_ROWS", 1)
    monkeypatch.setattr(equal_rows, "CommonHistories", lambda *given: made.append(CommonHistories(*given)) or made[-1])
    found = steps_of(model, rows, stop, with_known)
    assert made
    for one, other in zip(found, expected, strict=True):
        for name in ("rows", "goes_on", "query", "answered"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert torch.allclose(one.log_posterior, other.log_posterior)
        assert torch.equal(one.cost, other.cost)


def test_few_histories_are_computed_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    query_set = make_columns(["yes_no"] * 6)
    rows, model = make_rows(query_set, 5000, 1, 0.0), make_vip(query_set, seed=1)
    shown: list[int] = []
    original = model.log_probabilities
    monkeypatch.setattr(model, "log_probabilities", lambda *given: shown.append(len(given[0])) or original(*given))
    for _ in pursue(model, rows.x, rows.available):
        pass
    assert shown == [1, 2, 4, 8, 16, 32, 64]


def test_numbers_and_methods_with_states_of_their_own_are_left_alone() -> None:
    from pursuit.methods.random_order import RandomOrder

    for kinds, is_common in ((["yes_no", "choice"], True), (["yes_no", "number"], False)):
        query_set = make_columns(kinds)
        model = make_vip(query_set)
        x = torch.empty(0, *query_set.answer_shape, dtype=torch.double)
        assert can_be_common(template_state(model, x), query_set) == is_common
        assert not can_be_common(template_state(RandomOrder(model), x), query_set)
