"""Sessions in which people skip, object, go on, correct and mistype: whatever they do, the same moves give the same."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from known_bits import in_bits, with_costs
from pursuit.inference.chain import doubt
from pursuit.inference.history import History
from pursuit.inference.stopping import Budget, Confidence, CostBudget, NothingWorthAsking, StoppingRule
from pursuit.queries import ColumnQueries, DoubtfulAnswer, Number, yes_no
from pursuit.registry import UnknownName
from pursuit.sessions.session import Session
from untrained import InOrder, make_columns, make_vip

RULES: list[StoppingRule | None] = [None, Budget(2), Confidence(0.8), CostBudget(2), Budget(3) | Confidence(0.7)]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["tell", "unknown", "skip", "volunteer", "reject", "go on", "undo", "change"]),
        st.integers(0, 3),
    ),
    max_size=10,
)


def make(session: Session, moves: list[tuple[str, int]]) -> int:
    """Make all moves that can be made, and say how many; those that cannot must leave the session as it was."""
    queries, n_made = session.pursuer.query_set.queries, 0
    for move, number in moves:
        before = session.to_json(), session.posterior
        choices = queries[number].choices
        try:
            match move:
                case "tell":
                    question = session.ask()
                    session.tell(question.choices[number % len(question.choices)])
                case "unknown":
                    session.dont_know()
                case "skip":
                    session.skip()
                case "volunteer":
                    session.tell(choices[0], queries[number].name)
                case "reject":
                    session.reject()
                case "go on":
                    session.go_on()
                case "undo":
                    session.undo()
                case "change":
                    session.change(queries[number].name, choices[-1])
        except ValueError:
            assert (session.to_json(), session.posterior) == before
        else:
            n_made += 1
    return n_made


def seen(session: Session) -> Any:
    """All that a session says."""
    question = None if session.done else session.ask()
    why = None if session.done else session.why().to_json()
    state = session.excluded, session.skipped, session.cost, session.done, session.can_go_on, session.bits_gained
    return session.chain.to_json(), session.posterior, session.reasons().to_json(), state, question, why


@given(moves=MOVES, rule=st.sampled_from(RULES), has_bits=st.booleans())
def test_whatever_was_done_a_saved_session_says_the_same(
    world: Any, moves: list[tuple[str, int]], rule: StoppingRule | None, has_bits: bool
) -> None:
    pursuer = in_bits(world.pursuer) if has_bits else world.pursuer
    session = Session(pursuer, rule)
    make(session, moves)
    again = Session.from_json(session.to_json(), pursuer, rule)
    assert seen(again) == seen(session)  # to the last bit
    assert again.to_json() == session.to_json()


@given(moves=MOVES, rule=st.sampled_from(RULES))
def test_undo_takes_back_whatever_was_done(world: Any, moves: list[tuple[str, int]], rule: StoppingRule | None) -> None:
    session, states = Session(world.pursuer, rule), []
    for move in moves:
        if move[0] == "undo":
            continue
        before = session.to_json(), seen(session)
        if make(session, [move]):
            states.append(before)
    for before in reversed(states):
        session.undo()
        assert (session.to_json(), seen(session)) == before
    with pytest.raises(ValueError, match="nothing to take back"):
        session.undo()


def test_a_change_is_taken_back_before_what_came_before_it(world: Any) -> None:
    session = Session(world.pursuer)
    session.tell("yes", "fever")
    session.tell("no", "itching")
    session.change("fever", "no")
    session.change("fever", None)
    session.tell("winter", "season")
    for answers in (
        {"fever": None, "itching": "no"},
        {"fever": "no", "itching": "no"},
        {"fever": "yes", "itching": "no"},
        {"fever": "yes"},
        {},
    ):
        session.undo()
        assert session.answers == answers
        assert seen(session) == seen(Session.from_json(session.to_json(), world.pursuer))


@given(moves=MOVES, number=st.integers(0, 3), answer=st.integers(0, 2), rule=st.sampled_from(RULES))
def test_a_change_is_a_fresh_session_with_that_answer(
    world: Any, moves: list[tuple[str, int]], number: int, answer: int, rule: StoppingRule | None
) -> None:
    session = Session(world.pursuer, rule)
    make(session, moves)
    query = world.query_set.queries[number]
    if query.name not in session.answers:
        return
    text = query.choices[answer % len(query.choices)]
    session.change(query.name, text)
    state = session.to_dict()
    for saved in state["moves"]:
        if saved.get("query") == query.name and saved["move"] == "tell":
            assert saved["answer"] == text
    assert seen(session) == seen(Session.from_dict(json.loads(json.dumps(state)), world.pursuer, rule))


# ---- skipping


def test_what_is_skipped_comes_back_last(world: Any) -> None:
    session = Session(world.pursuer)
    before, first = session.posterior, session.ask()
    session.skip()
    assert session.posterior == before
    assert session.skipped == (first.name,)
    assert session.ask().number == 1  # it does not count as asked
    assert session.chain.steps == ()
    asked = []
    while session.ask().name != first.name:
        asked.append(session.ask().name)
        session.dont_know()
    assert len(asked) == 3
    assert session.cost == 3
    why = session.why()
    assert why.reason.kind == "again"
    assert "was skipped, and comes back because nothing else is left to ask" in str(why)
    with pytest.raises(ValueError, match="There is nothing else to ask now"):
        session.skip()
    session.tell(first.choices[0])
    assert session.skipped == ()
    assert session.done


def test_of_several_that_were_skipped_the_first_comes_back_first(world: Any) -> None:
    session, order = Session(world.pursuer), []
    for _ in range(9):
        order.append(session.ask().name)
        session.skip()
    assert len(set(order[:4])) == 4
    assert order[4:8] == order[:4]
    assert order[8] == order[0]


def test_the_reasons_know_what_was_skipped(world: Any) -> None:
    session = Session(in_bits(world.pursuer))
    first = session.ask()
    session.skip()
    why = session.why()
    assert (why.reason.n_skipped, why.reason.kind) == (1, "bits")
    assert first.bits > why.question.bits
    assert "no other question, besides those you skipped, promises more" in str(why)
    assert first.name not in [other.name for other in why.next_best]
    session.tell(first.choices[0], first.name)  # a person may answer it after all
    assert session.why().reason.n_skipped == 0


# ---- wrong guesses


def test_a_wrong_guess_is_excluded_and_the_rest_is_renormalised(world: Any) -> None:
    session = Session(world.pursuer)
    session.tell("yes", "fever")
    before = session.posterior
    wrong = session.prediction
    session.reject()
    assert session.excluded == (wrong,)
    assert session.posterior[wrong] == 0
    assert list(session.posterior)[-1] == wrong
    for label, share in session.posterior.items():
        if label != wrong:
            assert share == pytest.approx(before[label] / (1 - before[wrong]))
    assert session.prediction != wrong
    assert wrong not in session.belief
    assert f"Excluded as wrong: {wrong}" in str(session.chain)
    assert session.chain.to_dict()["excluded"] == [wrong]
    assert session.bits_gained == pytest.approx(session.chain.bits_gained)
    for step in session.chain.steps:
        assert step.posterior[session.chain.classes.index(wrong)] == 0
        assert float(step.posterior.sum()) == pytest.approx(1)


def test_questions_are_about_the_labels_left(world: Any) -> None:
    """What they tell is computed here from the joint distribution alone."""
    pursuer = in_bits(world.pursuer)
    session = Session(pursuer)
    session.reject("flu")
    exact = world.pursuer
    prior = exact.prior.double() * torch.tensor([1.0, 1.0, 0.0])
    prior = prior / prior.sum()
    expected = []
    for query in range(4):
        answers = exact.possible_answers(History.start(world.rows.x[:1], 4), query)
        joint = torch.stack([a.posterior * a.probability for a in answers]).double() / exact.prior.double()
        joint = joint * prior  # P(answer | label) times the belief that is left
        shares = joint.sum(dim=1)
        left = sum(float(p) * doubt(row / p) for p, row in zip(shares, joint, strict=True))
        expected.append(doubt(prior) - left)
    why = session.why()
    assert session.ask().query == max(range(4), key=lambda i: expected[i])
    assert why.question.bits == pytest.approx(max(expected), abs=1e-5)
    for other in why.next_best:
        assert other.bits == pytest.approx(expected[pursuer.query_set.index_of[other.name]], abs=1e-5)
    assert why.question.name != Session(pursuer).why().question.name  # fever tells most if it may be flu
    assert sum(answer.probability for answer in why.answers) == pytest.approx(1)
    for answer in why.answers:
        assert "flu" not in [shift.label for shift in answer.labels]
        before = dict(session.posterior)
        session.tell(answer.text)
        for shift in answer.labels:
            assert shift.before == pytest.approx(before[shift.label])
            assert shift.probability == pytest.approx(session.posterior[shift.label], abs=1e-6)
        session.undo()


def test_bits_per_cost_are_about_the_labels_left_too(world: Any) -> None:
    costs = {"itching": 100.0, "sneezing": 0.01}
    session = Session(with_costs(world.pursuer, costs))
    session.reject("flu")
    assert session.ask().name == "sneezing"
    assert session.why().question.bits == pytest.approx(
        _bits_of(Session(with_costs(world.pursuer, costs, "bits")), "sneezing"), abs=1e-6
    )


def _bits_of(session: Session, name: str) -> float:
    session.reject("flu")
    why = session.why()
    return next(other.bits for other in (why.question, *why.next_best) if other.name == name)  # type: ignore[return-value]


@pytest.mark.parametrize("rule", [Budget(1), CostBudget(1)])
def test_a_wrong_result_makes_the_rule_begin_again(world: Any, rule: StoppingRule) -> None:
    session = Session(world.pursuer, rule)
    session.tell(session.ask().choices[0])
    assert session.done
    session.reject()
    assert not session.done
    assert session.ask().number == 2
    session.tell(session.ask().choices[0])
    assert session.done
    assert session.cost == 2


def test_a_label_ruled_out_while_asking_does_not(world: Any) -> None:
    session = Session(world.pursuer, Budget(2))
    session.tell(session.ask().choices[0])
    session.reject()
    session.tell(session.ask().choices[0])
    assert session.done


def test_the_last_label_cannot_be_wrong(world: Any) -> None:
    session = Session(world.pursuer)
    session.reject("flu", "COLD")
    assert session.posterior["allergy"] == pytest.approx(1)
    with pytest.raises(ValueError, match="allergy is the only label left"):
        session.reject()
    with pytest.raises(ValueError, match="There is no label 'gout'"):
        session.reject("gout")
    assert session.excluded == ("flu", "cold")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("feverr", "Did you mean 'fever'?"), ("legs", "Queries are fever, sneezing"), ("9", "Queries are")],
)
def test_an_unknown_query_names_what_may_be_meant_and_where_all_are(world: Any, name: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=f"There is no query named '{name}'. {re.escape(hint)}") as error:
        Session(world.pursuer).tell("yes", name)
    assert "query_set.index_of" in error.value.__notes__[0]
    assert "fever" in world.pursuer.query_set.index_of


def test_an_unknown_label_names_what_may_be_meant(world: Any) -> None:
    with pytest.raises(UnknownName, match=r"There is no label 'colds'\. Did you mean 'cold'\?"):
        Session(world.pursuer).reject("colds")


def test_labels_that_are_left_share_the_belief_even_if_they_were_impossible(world: Any) -> None:
    class Certain(InOrder):  # type: ignore[misc, valid-type]
        def log_posterior(self, history: History) -> torch.Tensor:
            return torch.tensor([[0.0, -torch.inf, -torch.inf]])

    session = Session(Certain(world.query_set, ["a", "b", "c"]), Confidence(0.9))
    assert session.done
    session.reject()
    assert session.posterior == pytest.approx({"b": 0.5, "c": 0.5, "a": 0})
    assert not session.done


def test_a_mere_preference_asks_on() -> None:
    session = Session(make_vip(make_columns(["yes_no"] * 3), dtype=torch.float))
    session.reject()
    why = session.why()
    assert why.question.bits is None
    assert all(session.excluded[0] not in [s.label for s in answer.labels] for answer in why.answers)


# ---- going on


@pytest.mark.parametrize("rule", [Budget(1), Confidence(0.1), CostBudget(1), Budget(0)])
def test_a_person_may_go_on(world: Any, rule: StoppingRule) -> None:
    session = Session(world.pursuer, rule)
    with_first = not session.done
    if with_first:
        with pytest.raises(ValueError, match="goes on already"):
            session.go_on()
        session.tell(session.ask().choices[0])
    assert session.done
    assert session.can_go_on
    session.go_on()
    while not session.done:
        session.tell(session.ask().choices[0])
    assert len(session.chain) == 4
    assert not session.can_go_on
    with pytest.raises(ValueError, match="There is nothing left to ask"):
        session.go_on()


def test_going_on_heeds_no_worth(world: Any) -> None:
    session = Session(in_bits(world.pursuer), NothingWorthAsking(10))
    assert session.done
    session.go_on()
    assert session.ask().number == 1


# ---- answers


def test_facts_known_beforehand_are_told_first(world: Any) -> None:
    session = Session(world.pursuer, Budget(1), {"fever": "yes", "season": None, "ITCHING": 0})
    assert session.answers == {"fever": "yes", "itching": 0}
    assert session.cost == 0
    assert all(step.volunteered for step in session.chain.steps)
    assert not session.done


def test_a_query_may_be_named_by_its_wording(world: Any) -> None:
    session = Session(world.pursuer)
    session.tell("yes", "do you have a fever?")
    assert session.is_answered("Fever")
    session.change("Do you have a fever?", "no")
    assert session.answers == {"fever": "no"}


@pytest.fixture
def wine() -> Session:
    seen = Number("flavanoids", "flavanoids?", centre=2.1, spread=1.0, seen=(0.34, 5.08))
    return Session(InOrder(ColumnQueries([seen, replace(seen, name="other"), yes_no("red")])))


def test_a_number_far_outside_is_asked_again(wine: Session) -> None:
    before = wine.to_json()
    for move in (lambda: wine.tell(1065), lambda: wine.tell("1065", "other")):
        with pytest.raises(DoubtfulAnswer, match=r"Did you mean 1\.065\?") as raised:
            move()
        assert raised.value.doubt.suggestions == ("1.065",)
    assert wine.to_json() == before
    with pytest.raises(DoubtfulAnswer):
        Session(wine.pursuer, None, {"flavanoids": 1065})
    wine.tell(1065, confirmed=True)
    wine.tell(2.9)
    with pytest.raises(DoubtfulAnswer):
        wine.change("other", 290)
    assert wine.answers == {"flavanoids": 1065, "other": 2.9}
    wine.change("other", 290, confirmed=True)
    again = Session.from_json(wine.to_json(), wine.pursuer)  # what was confirmed is not asked again
    assert again.answers == {"flavanoids": 1065, "other": 290}
    wine.change("other", "2,123456789")
    assert [step.answer for step in wine.chain.steps] == ["1065", "2.123456789"]  # as they were given


def test_a_question_is_json(wine: Session, world: Any) -> None:
    assert json.loads(json.dumps(wine.ask().to_dict()))["expected"] == "0.34 to 5.08"
    state = json.loads(json.dumps(Session(in_bits(world.pursuer)).ask().to_dict()))
    assert state["runners_up"][0].keys() == {"text", "bits"}


@given(before=MOVES, moves=MOVES, others=MOVES, rule=st.sampled_from(RULES))
def test_a_copy_goes_on_by_itself(
    world: Any,
    before: list[tuple[str, int]],
    moves: list[tuple[str, int]],
    others: list[tuple[str, int]],
    rule: StoppingRule | None,
) -> None:
    session, expected = Session(world.pursuer, rule), Session(world.pursuer, rule)
    for one in (session, expected):
        make(one, before)
    copy = session.copy()
    make(session, others)
    assert seen(copy) == seen(expected)
    make(copy, moves)
    make(expected, moves)
    assert seen(copy) == seen(expected)
    assert copy.to_json() == expected.to_json()
