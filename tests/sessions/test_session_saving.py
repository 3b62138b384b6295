"""Sessions as JSON: a saved one goes on where it was left, and anything else is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pursuit.inference.stopping import Budget
from pursuit.queries import ColumnQueries, PatchQueries, yes_no
from pursuit.sessions.session import Session
from untrained import InOrder

TELL = '{{"move": "tell", "query": "{}", "answer": {}, "volunteered": false}}'


@given(moves=st.lists(st.sampled_from(["first", "last", "skip", "volunteer"]), max_size=4))
def test_a_session_goes_on_after_json(world: Any, moves: list[str]) -> None:
    rule = Budget(3)
    session = Session(world.pursuer, rule)
    for move in moves:
        if session.done:
            break
        question = session.ask()
        if move == "skip":
            session.dont_know()
        elif move == "volunteer":
            answered = {step.name for step in session.chain.steps}
            query = [query for query in world.query_set.queries if query.name not in answered][-1]
            session.tell(query.choices[0], query.name)
        else:
            session.tell(question.choices[0 if move == "first" else -1])
    again = Session.from_json(session.to_json(), world.pursuer, rule)
    assert again.to_json() == session.to_json()
    assert again.done == session.done
    assert again.posterior == session.posterior
    if not session.done:
        assert again.ask() == session.ask()
    assert again.chain.to_dict() == session.chain.to_dict()  # to the last bit


@pytest.mark.parametrize("answer", [np.int64(1), np.bool_(True), np.zeros((2, 2))], ids=["int", "bool", "pixels"])
def test_every_answer_goes_through_json(answer: Any) -> None:
    query_set = PatchQueries((1, 2, 2), size=2) if isinstance(answer, np.ndarray) else ColumnQueries([yes_no("a")])
    session = Session(InOrder(query_set))
    session.tell(answer)
    again = Session.from_json(session.to_json(), session.pursuer)
    assert again.chain.steps[0].answer == session.chain.steps[0].answer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON"),
        ("[]", "This is not a saved session"),
        ("{}", "This is not a saved session"),
        ('{"format": 2}', "This is not a saved session"),
        ('{"format": 2, "moves": 3}', "This is not a saved session"),
        ('{"format": 2, "moves": [{"query": "fever"}]}', "This is not a saved session"),
        ('{"format": 1, "answers": []}', "has format 1, but this version reads format 2: begin a new one"),
        ('{"format": 2, "moves": [{"move": "jump"}]}', "has a move 'jump', which this version does not know"),
        ('{"format": 2, "moves": [{"move": "skip", "query": "age"}]}', "There is no query named 'age'"),
        ('{"format": 2, "moves": [{"move": "skip", "query": 3}]}', "There is no query named '3'"),
        ('{"format": 2, "moves": [{"move": "reject", "labels": ["gout"]}]}', "There is no label 'gout'"),
        (
            '{"format": 2, "moves": [{"move": "reject", "labels": ["flu", "cold", "allergy"]}]}',
            "excludes every label",
        ),
        ('{"format": 2, "moves": [' + TELL.format("age", 3) + "]}", "There is no query named 'age'"),
        ('{"format": 2, "moves": [' + TELL.format("fever", '"x"') + "]}", "is one of no, yes"),
        (
            '{"format": 2, "moves": [' + TELL.format("fever", '"yes"') + ", " + TELL.format("fever", '"no"') + "]}",
            "has 'fever' twice",
        ),
    ],
)
def test_what_is_not_a_session_is_refused(world: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Session.from_json(text, world.pursuer)
