"""Sessions with an order: a person is asked what is known beforehand first, and nothing before its turn."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ordered import ORDER, check_chain, clinic, clinic_queries
from pursuit import MLP, Stage, VIPClassifier
from pursuit.inference.stopping import Budget, CostBudget, NothingWorthAsking, StoppingRule
from pursuit.sessions.session import Session

X, Y = clinic()


@pytest.fixture(scope="module")
def model() -> VIPClassifier:
    settings: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(6, batch_size=32)], "random_state": 0}
    return VIPClassifier(clinic_queries(), stop=Budget(9), **settings).fit(X, Y)


RULES: list[StoppingRule] = [Budget(9), Budget(2), CostBudget(3), NothingWorthAsking(0.3)]


@given(row=st.integers(0, len(X) - 1), rule=st.sampled_from(RULES))
def test_a_session_is_the_chain_of_its_row(model: VIPClassifier, row: int, rule: StoppingRule) -> None:
    session, rows = model.session(rule), model.rows(X, Y)
    (chain,) = model.explain(X.iloc[[row]], rule)
    while not session.done:
        session.tell(model.model_.query_set.describe(session.ask().query, rows.x[row]))
    told = session.chain
    assert [step.name for step in told.steps if not step.volunteered] == [step.name for step in chain.steps]
    assert [step.name for step in told.steps if step.volunteered] == ["sex"]
    torch.testing.assert_close(told.posterior, chain.posterior, atol=1e-4, rtol=0)
    assert session.cost == len(chain.steps)
    check_chain(ORDER, clinic_queries(), chain)
    check_chain(ORDER, clinic_queries(), told)


def test_what_is_known_beforehand_is_asked_first_and_does_not_count(model: VIPClassifier) -> None:
    session = model.session(Budget(1))
    question = session.ask()
    assert (question.name, question.number, question.bits, question.runners_up) == ("sex", 0, None, ())
    why = session.why()
    assert "is known beforehand" in str(why)
    assert why.reason.kind == "beforehand"
    session.tell("f")
    assert session.cost == 0
    assert session.ask().number == 1
    session.undo()
    assert session.ask().name == "sex"
    session.dont_know()
    assert session.ask().number == 1
    assert session.ask().name not in ("sex", "pregnant", "week", "scan")
    assert not session.done
    session.dont_know()
    assert session.done
    again = Session.from_json(session.to_json(), model.model_, Budget(1))
    assert again.done
    assert [step.volunteered for step in again.chain.steps] == [True, False]


def test_facts_may_be_given_unasked_and_open_what_waits_for_them(model: VIPClassifier) -> None:
    session = model.session()
    session.tell("yes", "pregnant")  # before its turn: what a person volunteers is always taken
    session.tell("f", "sex")
    left = set()
    while not session.done:
        left.add(session.ask().name)
        session.dont_know()
    assert left == {"week", "fever", "pulse", "pressure", "scan"}


def test_what_never_opens_is_never_asked(model: VIPClassifier) -> None:
    session = model.session()
    session.tell("m")
    left = []
    while not session.done:
        left.append(session.ask().name)
        session.dont_know()
    assert sorted(left) == ["fever", "pressure", "pulse", "scan"]
    assert abs(left.index("pulse") - left.index("pressure")) == 1
    assert left.index("fever") < left.index("scan")
    with pytest.raises(ValueError, match="The session is finished"):
        session.ask()
    session.change("sex", "f")
    assert session.ask().name == "pregnant"


def test_the_reasons_speak_of_what_may_be_asked(model: VIPClassifier) -> None:
    session = model.session()
    session.tell("f")
    session.tell("no", "fever")
    session.tell("no", "pregnant")
    session.tell("70", "pulse")
    why = session.why()
    assert (why.question.name, why.next_best) == ("pressure", ())
    assert why.reason.is_restricted
    assert "belongs to a group that is asked together" in str(why)
    session.tell("120")
    session.tell("none")  # scan, the last that is open
    assert session.done
    free = VIPClassifier(clinic_queries(None), network=MLP((4,)), stages=[Stage(1)], random_state=0).fit(X, Y).session()
    assert not free.why().reason.is_restricted


def test_a_question_says_what_is_expected(model: VIPClassifier) -> None:
    query_set = clinic_queries(None)
    config = query_set.to_config()
    config["columns"][4] |= {"unit": "bpm", "help": "Count for a minute.", "low": 20.0, "high": 250.0}
    (pulse, fever) = (type(query_set).from_config(config).queries[i] for i in (4, 3))
    assert pulse.expected == "20 to 250 bpm"
    assert fever.expected == "no/yes"
    config["columns"] = config["columns"][4:5]
    plan = {"network": MLP((4,)), "stages": [Stage(1)], "teachers": None, "random_state": 0}
    alone = VIPClassifier(type(query_set).from_config(config), **plan)
    question = alone.fit(X[["pulse"]], np.where(Y == "flu", "flu", "well")).session().ask()
    assert (question.help, question.unit, question.expected) == ("Count for a minute.", "bpm", "20 to 250 bpm")
