"""Corrections survive saving: what was changed can be taken back on another machine, too."""

import json
from typing import Any

import pytest

from pursuit.inference.rollout import template_state
from pursuit.inference.stopping import Confidence
from pursuit.queries import Order
from pursuit.sessions.log import SessionLog
from pursuit.sessions.session import Session
from untrained import make_columns, make_vip


def saved(session: Session) -> Session:
    state = json.loads(json.dumps(session.to_dict()))
    return Session.from_dict(state, session.pursuer, session.stop)


def test_a_rejection_that_is_taken_back_leaves_all_else_as_it_was_said(world: Any) -> None:
    session, other = Session(world.pursuer, Confidence(0.9)), Session(world.pursuer, Confidence(0.9))
    session.reject("flu", "cold")
    for each in (session, other):
        if each is other:
            each.reject("cold")
        each.tell("yes", "fever")
        each.tell("winter", "season")
    session.take_back_rejection("FLU")
    assert session.excluded == other.excluded == ("cold",)
    assert session.posterior == other.posterior
    session.take_back_rejection("cold")
    assert session.excluded == ()
    assert [type(move).__name__ for move in session.moves] == ["Tell", "Tell"]
    with pytest.raises(ValueError, match="Nobody said that cold is wrong"):
        session.take_back_rejection("cold")
    with pytest.raises(ValueError, match="There is no label 'gout'"):
        session.take_back_rejection("gout")


def test_corrections_are_taken_back_in_a_saved_session_as_in_the_first(world: Any) -> None:
    session = Session(world.pursuer)
    session.tell("yes", "fever")
    session.reject("flu")
    states = []
    for correct in (
        lambda: session.change("fever", "no"),
        lambda: session.take_back_rejection("flu"),
        lambda: session.tell("winter", "season"),
        lambda: session.change("season", None),
    ):
        states.append((session.to_json(), session.posterior, session.excluded))
        correct()
    again = saved(session)
    assert again.to_json() == session.to_json()
    for before in reversed(states):
        session.undo()
        again.undo()
        for each in (session, again):
            assert (each.to_json(), each.posterior, each.excluded) == before
        again = saved(again)


def test_changes_that_nobody_wrote_are_refused(world: Any) -> None:
    state = {"format": 2, "moves": [], "changes": [{"place": 0}]}
    with pytest.raises(ValueError, match="This is not a saved session"):
        Session.from_dict(state, world.pursuer)


def test_what_can_be_skipped_is_what_skip_takes(world: Any) -> None:
    session = Session(world.pursuer)
    while not session.done:
        if session.can_skip:
            session.skip()
            session.undo()
        else:
            with pytest.raises(ValueError, match="nothing else to ask"):
                session.skip()
        session.dont_know()
    assert not session.can_skip


def test_open_queries_are_those_that_were_not_asked_and_may_be(world: Any) -> None:
    session = Session(world.pursuer, Confidence(0.2))
    assert session.done  # whatever the rule says, all of them may still be told
    assert session.open_queries == (0, 1, 2, 3)
    session.tell("yes", "sneezing")
    assert session.open_queries == (0, 2, 3)


def test_one_of_two_known_beforehand_can_be_put_off(world: Any) -> None:
    world.query_set.set_order(Order(beforehand=("season", "fever")))
    try:
        session = Session(world.pursuer)
        assert session.ask().name == "season"
        assert session.can_skip
        session.skip()
        assert session.ask().name == "fever"
    finally:
        world.query_set.set_order(None)


def test_a_template_changes_nothing() -> None:
    model = make_vip(make_columns(["yes_no"] * 40))
    template = template_state(model, model.query_set.blank())
    plain, shared = Session(model), Session(model, template=template)
    for answer in ("yes", "no", None):
        for session in (plain, shared):
            session.dont_know() if answer is None else session.tell(answer)
        assert plain.posterior == shared.posterior
        assert plain.ask() == shared.ask()
    for session in (plain, shared):
        session.undo()
        session.change(next(iter(session.answers)), "no")
    assert plain.posterior == shared.posterior
    again = Session.from_dict(plain.to_dict(), model, template=template)
    assert again.posterior == plain.posterior


def test_what_was_expected_of_answers_told_again_is_computed_for_those_who_ask(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []
    bits_of = SessionLog._bits_of

    def counted(log: SessionLog, query: int) -> float | None:
        computed.append(query)
        return bits_of(log, query)

    first, session = Session(world.pursuer), Session(world.pursuer)
    first.tell("no")
    session.tell("yes")
    monkeypatch.setattr(SessionLog, "_bits_of", counted)
    session.change(next(iter(session.answers)), "no")
    assert computed == []
    for each in (first, session):
        each.dont_know()
        each.skip()
    computed.clear()
    for each in (session, saved(session)):
        asked = each.ask()
        assert each.state() == first.state()
        assert computed == []
        for _ in range(2):  # once they are computed, they are kept
            assert each.chain.to_dict() == first.chain.to_dict()
            assert len(computed) == 2
        assert each.ask() == asked
        computed.clear()


def test_only_so_many_corrections_are_remembered(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.sessions.log.MOST_CHANGES", 2)
    session = Session(world.pursuer)
    session.tell("yes", "fever")
    for answer in ("no", "yes", "no"):
        session.change("fever", answer)
    answers = []
    for _ in range(3):
        session.undo()
        answers.append(session.answers.get("fever"))
    assert answers == ["yes", "no", None]
