"""What was measured of a model is what its sessions say: how far to trust a result, and how many questions follow."""

from typing import Any

import pytest
import torch

from pursuit.inference.stopping import Budget, Confidence
from pursuit.report.measured import questions_needed
from pursuit.sessions.experience import Experience, SureRows, Trust
from pursuit.sessions.session import Session

SURE = (SureRows(0.5, 0.6, 4, 1), SureRows(0.9, 1.0, 40, 38))


@pytest.mark.parametrize(
    ("confidence", "rows"), [(0.95, (40, 38)), (1.0, (40, 38)), (0.9, (40, 38)), (0.55, (4, 1)), (0.7, (0, 0))]
)
def test_trust_is_what_was_measured_at_this_confidence(confidence: float, rows: tuple[int, int]) -> None:
    assert Experience(60, SURE, None, ()).trust(confidence) == Trust(60, *rows)


def test_trust_in_a_number_is_how_often_it_lay_in_its_range() -> None:
    assert Experience(60, (), 0.9, ()).trust(None) == Trust(60, 60, 54)


def test_a_result_says_how_often_such_results_were_right(world: Any) -> None:
    experience = Experience(24, (SureRows(0.0, 1.0, 24, 20),), None, ())
    session = Session(world.pursuer, Budget(1))
    session.tell("yes")
    result = session.state("", experience).result
    assert result is not None
    assert result.trust == Trust(24, 24, 20)
    nothing_measured = session.state().result
    assert nothing_measured is not None
    assert nothing_measured.trust is None
    session.reject()
    session.tell("yes")
    after_a_wrong_guess = session.state("", experience).result
    assert after_a_wrong_guess is not None
    assert after_a_wrong_guess.trust is None


@pytest.mark.parametrize("rule", [Confidence(0.9), Confidence(0.97) | Budget(3), Budget(2)], ids=str)
def test_questions_left_fall_from_answer_to_answer_and_usually_hold(world: Any, rule: Any) -> None:
    experience = Experience(24, (), None, questions_needed(world.pursuer, world.rows, rule))
    n_held, n_said = 0, 0
    for row in world.rows.x:
        session, said = Session(world.pursuer, rule), []
        while not session.done:
            left = session.state("", experience).questions_left
            assert left is not None
            assert left.kind == "about"
            assert 1 <= left.low <= left.n <= len(session.state().open)
            said.append((left.low, left.n))
            query = session.ask().query
            session.tell(world.query_set.describe(query, row))
        assert said == sorted(said, reverse=True)
        for i, (low, high) in enumerate(said):
            n_said += 1
            n_held += low <= len(said) - i <= high
    assert n_held >= 0.75 * n_said  # four of five, by the quantiles; the rows are those that were counted


def test_dont_know_does_not_lower_what_usually_follows(world: Any) -> None:
    rule = Confidence(0.9)
    experience = Experience(24, (), None, questions_needed(world.pursuer, world.rows, rule))
    session = Session(world.pursuer, rule)
    before = session.state("", experience).questions_left
    session.dont_know()
    after = session.state("", experience).questions_left
    assert before is not None
    assert after is not None
    assert after.n == min(before.n, 3)  # no more than there are


def test_what_was_not_measured_is_not_guessed(world: Any) -> None:
    session = Session(world.pursuer, Confidence(0.9))
    left = session.state().questions_left
    assert left is not None
    assert (left.kind, left.n) == ("at_most", 4)
    torch.testing.assert_close(torch.tensor(session.state().progress), torch.tensor(0.0))


def test_what_an_answer_told_is_on_average_what_was_expected_of_its_question(world: Any) -> None:
    """One kind of bits: also where an answer raises the doubt, it told something."""
    session = Session(world.pursuer)
    why = session.why()
    expected = why.candidates[0].bits
    assert expected is not None
    mean, told = 0.0, []
    for answer in why.answers:
        if answer.text == "no answer":
            continue
        session.tell(answer.text)
        (given,) = session.state().answers
        told.append(given.told)
        mean += answer.probability * given.told
        session.undo()
    assert min(told) >= 0
    assert mean == pytest.approx(expected, abs=1e-4)
    session.dont_know()
    (left_open,) = session.state().answers
    assert left_open.told is None
