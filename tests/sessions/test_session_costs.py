"""Sessions with costs and bits: what cannot be afforded is never asked, and what is not worth asking neither."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from known_bits import in_bits, with_costs
from pursuit.evaluation import evaluate
from pursuit.inference.chain import Chain, explain
from pursuit.inference.history import History
from pursuit.inference.stopping import Budget, Confidence, CostBudget, NothingWorthAsking, StoppingRule
from pursuit.queries import Group, Order
from pursuit.sessions.session import Session
from untrained import InOrder

COSTS = {"fever": 5.0, "sneezing": 0.5, "itching": 2.0, "season": 0.1}
RULES: list[StoppingRule] = [
    CostBudget(0),
    CostBudget(0.6),
    CostBudget(2.1),
    CostBudget(5),
    NothingWorthAsking(0.05),
    NothingWorthAsking(0.2),
    CostBudget(5) | NothingWorthAsking(0.05),
    CostBudget(3) | Budget(2),
    Confidence(0.6),
]


def answered_by(world: Any, session: Session, row: int) -> Chain:
    while not session.done:
        session.tell(world.query_set.describe(session.ask().query, world.rows.x[row]))
    return session.chain


@given(row=st.integers(0, 23), rule=st.sampled_from(RULES), unit=st.sampled_from(["bits", "bits per cost"]))
def test_a_session_is_the_chain_of_its_row(world: Any, row: int, rule: StoppingRule, unit: Any) -> None:
    pursuer = with_costs(world.pursuer, COSTS, unit)
    (chain,) = explain(pursuer, world.rows.x[row : row + 1], world.rows.available[row : row + 1], rule)
    session = Session(pursuer, rule)
    told = answered_by(world, session, row)
    assert [step.query for step in told.steps] == [step.query for step in chain.steps]
    assert [step.bits for step in told.steps] == pytest.approx([step.bits for step in chain.steps], abs=1e-6)
    assert [step.gained for step in told.steps] == pytest.approx([step.gained for step in chain.steps], abs=1e-6)
    assert session.cost == pytest.approx(sum(COSTS[step.name] for step in chain.steps))
    assert session.bits_gained == pytest.approx(chain.bits_gained)


def test_cheaper_questions_are_still_asked_when_a_dear_one_is_beyond_the_budget(world: Any) -> None:
    session = Session(with_costs(world.pursuer, COSTS, "bits"), CostBudget(4.9))
    names = []
    while not session.done:
        question = session.ask()
        assert "Do you have a fever?" not in (question.text, *(text for text, _ in question.runners_up))
        why = session.why()
        assert all(other.name != "fever" for other in why.next_best)
        assert why.reason.kind not in ("prefers", "decides")
        assert "no other question promises more" in str(why)
        names.append(question.name)
        session.dont_know()  # a question costs whether it is answered or not
    assert sorted(names) == ["itching", "season", "sneezing"]
    assert session.cost == pytest.approx(2.6)
    with pytest.raises(ValueError, match="The session is finished"):
        session.ask()


@given(row=st.integers(0, 23), rule=st.sampled_from(RULES), unit=st.sampled_from(["bits", "bits per cost"]))
def test_a_group_is_asked_whole_or_not_at_all(world: Any, row: int, rule: StoppingRule, unit: Any) -> None:
    pursuer = with_costs(world.pursuer, COSTS, unit)
    pursuer.query_set.set_order(Order(groups=(Group("panel", ("sneezing", "itching")),)))
    (chain,) = explain(pursuer, world.rows.x[row : row + 1], world.rows.available[row : row + 1], rule)
    session = Session(pursuer, rule)
    names = [step.name for step in answered_by(world, session, row).steps]
    assert names == [step.name for step in chain.steps]
    if rule in (CostBudget(2.1), CostBudget(0.6)):
        assert not {"sneezing", "itching"} & set(names)  # together they cost 2.5
    if "itching" in names and not any(isinstance(part, Budget) for part in rule.parts):
        assert abs(names.index("sneezing") - names.index("itching")) == 1


def test_a_question_of_a_group_says_so(world: Any) -> None:
    pursuer = with_costs(world.pursuer, COSTS, "bits")
    pursuer.query_set.set_order(Order(groups=(Group("panel", tuple(COSTS)),)))
    why = Session(pursuer).why()
    assert why.reason.kind == "group"
    assert "belongs to a group that is asked together" in str(why)


def test_what_is_volunteered_is_free(world: Any) -> None:
    session = Session(with_costs(world.pursuer, COSTS), CostBudget(2.5))
    session.tell("yes", "fever")
    assert session.cost == 0
    assert session.chain.steps[0].bits is None
    assert session.chain.steps[0].volunteered
    assert session.chain.steps[0].gained == pytest.approx(session.bits_gained)
    session.tell("spring")
    assert session.cost == pytest.approx(0.1)
    session.undo()
    assert session.cost == 0


def test_a_session_ends_when_nothing_is_worth_asking(world: Any) -> None:
    pursuer = in_bits(world.pursuer)
    first = Session(pursuer).ask()
    assert Session(pursuer, NothingWorthAsking(first.bits + 1e-4)).done
    session = Session(pursuer, NothingWorthAsking(first.bits - 1e-4))
    assert session.ask() == first
    session = Session(pursuer, NothingWorthAsking(0.1))
    while not session.done:
        assert session.ask().bits > 0.1
        session.tell(session.ask().choices[0])
    assert 1 <= len(session.chain) < 4


def test_a_pursuer_with_a_preference_cannot_tell_what_is_worth_asking(world: Any) -> None:
    with pytest.raises(ValueError, match='querier="information"'):
        Session(InOrder(world.query_set), NothingWorthAsking(0.1))


@given(moves=st.lists(st.sampled_from(["first", "last", "skip", "volunteer"]), max_size=4))
def test_bits_come_back_with_a_saved_session(world: Any, moves: list[str]) -> None:
    pursuer, rule = with_costs(world.pursuer, COSTS), CostBudget(6)
    session = Session(pursuer, rule)
    for move in moves:
        if session.done:
            break
        if move == "skip":
            session.dont_know()
        elif move == "volunteer":
            given = {step.name for step in session.chain.steps}
            query = next(query for query in world.query_set.queries if query.name not in given)
            session.tell(query.choices[0], query.name)
        else:
            session.tell(session.ask().choices[0 if move == "first" else -1])
    again = Session.from_json(session.to_json(), pursuer, rule)
    assert again.chain.to_dict() == session.chain.to_dict()  # to the last bit
    assert (again.cost, again.done, again.bits_gained) == (session.cost, session.done, session.bits_gained)
    if not session.done:
        assert again.why() == session.why()


def test_after_a_change_bits_are_those_of_the_answers_that_stand(world: Any) -> None:
    session = Session(in_bits(world.pursuer))
    first = session.ask()
    for _ in range(2):
        session.tell(session.ask().choices[0])
    _, expected = (step.bits for step in session.chain.steps)
    session.change(first.name, first.choices[-1])
    asked, changed = (step.bits for step in session.chain.steps)
    assert asked == first.bits
    assert abs(changed - expected) > 0.01
    x, available = world.query_set.blank(), torch.ones(1, 4, dtype=torch.bool)
    world.query_set.tell(x[0], first.query, first.choices[-1])
    history = History.start(x, 4).ask(torch.tensor([first.query]), available)
    scores = session.pursuer.scores(history)[0]
    assert changed == pytest.approx(float(scores[session.chain.steps[1].query]))


@pytest.mark.parametrize(
    ("rule", "lengths"), [(Confidence(0.6), {4}), (NothingWorthAsking(0.3), {4}), (Budget(2), {2})]
)
def test_a_group_is_asked_to_its_end_unless_a_budget_of_questions_ends_it(
    world: Any, rule: StoppingRule, lengths: set[int]
) -> None:
    pursuer = with_costs(world.pursuer, COSTS, "bits")
    pursuer.query_set.set_order(Order(groups=(Group("panel", tuple(COSTS)),)))
    chains = explain(pursuer, world.rows.x, world.rows.available, rule)
    assert {len(chain.steps) for chain in chains} == lengths
    session = Session(pursuer, rule)
    assert [step.name for step in answered_by(world, session, 0).steps] == [step.name for step in chains[0].steps]
    if lengths == {4}:
        assert session.cost == pytest.approx(sum(COSTS.values()))
    at_stop = evaluate(pursuer, world.rows, rule).at_stop
    assert at_stop is not None
    assert {at_stop.mean_asked} == lengths
