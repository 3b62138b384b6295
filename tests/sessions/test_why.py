"""Why a question is asked: in bits, beside what else could be asked, with what each answer would change."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from known_bits import in_bits, with_costs
from pursuit.inference.chain import doubt
from pursuit.queries import ColumnQueries, Number, PatchQueries, yes_no
from pursuit.sessions.session import Session
from pursuit.sessions.why import MOST_ANSWERS, AnswerEffect, Candidate, LabelShift, Why, WhyKind, WhyReason
from untrained import InOrder, make_columns, make_vip

MOVES = st.lists(st.sampled_from(["first", "last", "skip"]), max_size=3)


def move_on(session: Session, moves: list[str]) -> Session:
    for move in moves:
        question = session.ask()
        session.dont_know() if move == "skip" else session.tell(question.choices[0 if move == "first" else -1])
    return session


@given(moves=MOVES)
def test_the_reasons_are_those_of_the_question(world: Any, moves: list[str]) -> None:
    session = move_on(Session(in_bits(world.pursuer)), moves)
    question, why = session.ask(), session.why()
    assert (why.question.name, why.question.bits) == (question.name, question.bits)
    assert [(other.text, other.bits) for other in why.next_best] == list(question.runners_up)
    assert why.bits_gained == session.bits_gained == session.chain.bits_gained
    assert why.doubt == pytest.approx(doubt(session.chain.posterior))
    assert session.ask() == question  # asking why changes nothing


@given(moves=MOVES)
def test_answers_are_what_would_be_believed(world: Any, moves: list[str]) -> None:
    session = move_on(Session(in_bits(world.pursuer)), moves)
    question, why, before = session.ask(), session.why(), session.posterior
    assert {answer.text for answer in why.answers} == set(question.choices)
    probabilities = [answer.probability for answer in why.answers]
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1)
    for label, p in before.items():  # three labels, so all of them are named
        after = [next(s.probability for s in answer.labels if s.label == label) for answer in why.answers]
        assert sum(w * q for w, q in zip(probabilities, after, strict=True)) == pytest.approx(p)
    for answer in why.answers:
        assert [shift.before for shift in answer.labels] == pytest.approx([before[s.label] for s in answer.labels])
        session.tell(answer.text)
        leading = list(session.posterior.items())[:3]
        assert [shift.label for shift in answer.labels] == [label for label, _ in leading]
        assert [shift.probability for shift in answer.labels] == pytest.approx([p for _, p in leading])
        session.undo()


@given(moves=MOVES)
def test_bits_are_what_is_gained_on_average(world: Any, moves: list[str]) -> None:
    session = move_on(Session(in_bits(world.pursuer)), moves)
    why, gained = session.why(), session.bits_gained
    average = 0.0
    for answer in why.answers:
        session.tell(answer.text)
        average += answer.probability * (session.bits_gained - gained)
        session.undo()
    assert average == pytest.approx(why.question.bits, abs=1e-6)


def test_without_an_answer_model_the_beliefs_after_each_choice_are_said() -> None:
    session = Session(make_vip(make_columns(["yes_no", "choice"]), dtype=torch.float))
    for _ in range(2):
        why = session.why()
        assert why.question.bits is None
        assert [answer.text for answer in why.answers] == list(session.ask().choices)
        for answer in why.answers:
            assert answer.probability is None
            session.tell(answer.text)
            assert {shift.label: shift.probability for shift in answer.labels} == pytest.approx(
                session.posterior, rel=1e-4
            )
            session.undo()
        session.tell(session.ask().choices[0])


@pytest.mark.parametrize(
    "query_set",
    [ColumnQueries([Number("age", "How old?"), yes_no("b")]), PatchQueries((1, 2, 4), size=2, stride=2)],
    ids=["number", "patch"],
)
def test_answers_that_cannot_be_listed_are_left_out(query_set: Any) -> None:
    why = Session(InOrder(query_set)).why()
    assert why.answers == ()
    assert "What an answer would change" not in str(why)
    assert "Next best:" in str(why)


def test_a_finished_session_has_no_reasons(world: Any) -> None:
    session = move_on(Session(world.pursuer), ["first"] * 4)
    with pytest.raises(ValueError, match="The session is finished"):
        session.why()


def test_reasons_go_through_json(world: Any) -> None:
    why = Session(with_costs(world.pursuer, {"season": 0.5, "fever": 4})).why()
    state = json.loads(why.to_json())
    assert state["candidates"][0] == {
        "name": why.question.name,
        "text": why.question.text,
        "bits": why.question.bits,
        "share": None,
        "cost": why.question.cost,
    }
    assert [other["name"] for other in state["candidates"][1:]] == [other.name for other in why.next_best]
    assert [answer["probability"] for answer in state["answers"]] == [answer.probability for answer in why.answers]
    assert state["answers"][0]["labels"][0].keys() == {"label", "before", "probability"}
    assert (state["doubt"], state["bits_gained"], state["reason"]["kind"]) == (why.doubt, 0, "cost")


def candidate(name: str, bits: float | None = None, share: float | None = None, cost: float = 1.0) -> Candidate:
    return Candidate(name, f"{name}?", bits, share, cost)


def why_of(
    kind: WhyKind,
    *candidates: Candidate,
    answers: tuple[AnswerEffect, ...] = (),
    doubt: float = 1.0,
    gained: float = 0.0,
) -> Why:
    reason = WhyReason(kind, 5, candidates[0].bits, candidates[0].cost, False, 0)
    return Why(reason, candidates, answers, doubt, gained, is_cost_aware=kind == "cost")


YES = AnswerEffect("yes", 0.75, (LabelShift("flu", 0.5, 0.9), LabelShift("cold", 0.5, 0.1)))
NO = AnswerEffect("no", 0.25, (LabelShift("cold", 0.5, 1.0), LabelShift("flu", 0.5, 0.0)))


def test_reasons_read_well() -> None:
    candidates = candidate("fever", 0.62), candidate("cough", 0.5), candidate("rash", 0.001)
    why = why_of("bits", *candidates, answers=(YES, NO), gained=0.25)
    assert str(why).splitlines() == [
        '"fever?" is expected to tell 0.62 bits about the result; no other question promises more.',
        "What was said so far told 0.25 bits; 1.00 bits are still in doubt. (The toss of a coin tells 1 bit.)",
        "Next best:",
        "   0.50 bits  cough?",
        "  <0.01 bits  rash?",
        "What an answer would change:",
        "  yes (75.0%)  flu 50.0% -> 90.0%, cold 50.0% -> 10.0%",
        "  no (25.0%)   cold 50.0% -> 100%, flu 50.0% -> 0.0%",
    ]


@pytest.mark.parametrize(
    ("gained", "text"),
    [
        (0.0, "1.50 bits are in doubt."),
        (-1e-12, "1.50 bits are in doubt."),
        (0.3, "told 0.30 bits; 1.50 bits are still in doubt."),
        (-0.3, "surprising: 1.50 bits are in doubt now, 0.30 bits more than at first."),
    ],
)
def test_what_was_said_so_far_may_have_told_nothing_or_less(gained: float, text: str) -> None:
    _, so_far = str(why_of("bits", candidate("fever", 0.62), doubt=1.5, gained=gained)).splitlines()
    assert so_far.endswith(f"{text} (The toss of a coin tells 1 bit.)")
    assert so_far.startswith("What was said so far" if abs(gained) > 0.1 else "1.50")


def test_reasons_of_a_cost_aware_pursuer_say_what_a_bit_costs() -> None:
    others = (candidate("scan", 0.9, cost=90), candidate("age", 0.1, cost=0))
    why = why_of("cost", candidate("fever", 0.6, cost=5), *others)
    first, _, _, scan, age = str(why).splitlines()
    assert "tell 0.60 bits about the result at a cost of 5: 0.12 bits per unit of cost" in first
    assert scan == "  0.90 bits, cost 90, 0.01 bits per unit of cost  scan?"
    assert age.strip() == "0.10 bits, free  age?"
    free = why_of("cost", candidate("age", 0.1, cost=0))
    assert "tell 0.10 bits about the result, and costs nothing" in str(free)


def test_reasons_of_a_preference_say_no_more_than_that() -> None:
    why = why_of("share", candidate("fever", share=0.9), candidate("cough", share=0.1))
    first, _, _, cough = str(why).splitlines()
    assert "(90.0% of its preference); it does not know how much that tells" in first
    assert cough == "  10.0%  cough?"


def test_a_long_list_of_answers_is_cut() -> None:
    answers = tuple(AnswerEffect(f"answer {i}", 0.05, (LabelShift("flu", 0.5, 0.5),)) for i in range(20))
    text = str(why_of("bits", candidate("q", 0.1), answers=answers))
    assert text.endswith(f"  and {20 - MOST_ANSWERS} more")
    assert text.count("answer ") == MOST_ANSWERS + 1  # with "What an answer would change"
