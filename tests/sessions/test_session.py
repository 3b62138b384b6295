"""Sessions: a person may answer, skip, take back, correct and volunteer."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from known_bits import in_bits
from pursuit import ModelSpec
from pursuit.inference.chain import Chain, explain
from pursuit.inference.history import History
from pursuit.inference.pursuer import choose
from pursuit.inference.stopping import Budget, Confidence, Stability, StoppingRule
from pursuit.methods import RandomOrder
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.queries import ColumnQueries, Number, PatchQueries, yes_no
from pursuit.sessions.session import Session
from pursuit.vip import VIP
from untrained import Counting, InOrder, make_columns, make_rows, make_vip

RULES: list[StoppingRule | None] = [
    None,
    Budget(0),
    Budget(2),
    Confidence(0.8),
    Confidence(0.4),
    Stability(0.2),
    Stability(0.3, 2),
    Confidence(0.95) | Stability(0.05),
]


def assert_same(chain: Chain, other: Chain, tolerance: float = 1e-6) -> None:
    assert [(s.query, s.name, s.text, s.answer) for s in chain.steps] == [
        (s.query, s.name, s.text, s.answer) for s in other.steps
    ]
    assert chain.classes == other.classes
    assert [s.bits for s in chain.steps] == [
        s.bits if s.bits is None else pytest.approx(s.bits, abs=1e-6) for s in other.steps
    ]
    assert [s.gained for s in chain.steps] == pytest.approx([s.gained for s in other.steps], abs=10 * tolerance)
    for one, same in zip(
        [chain.prior, *(s.posterior for s in chain.steps)],
        [other.prior, *(s.posterior for s in other.steps)],
        strict=True,
    ):
        torch.testing.assert_close(one, same, rtol=tolerance, atol=tolerance)


@given(row=st.integers(0, 23), lacks=st.sets(st.integers(0, 3), max_size=2), rule=st.sampled_from(RULES))
def test_a_session_of_a_row_is_its_chain(world: Any, row: int, lacks: set[int], rule: StoppingRule | None) -> None:
    x, available = world.rows.x[row : row + 1], torch.ones(1, 4, dtype=torch.bool)
    available[0, list(lacks)] = False
    (chain,) = explain(world.pursuer, x, available, rule)
    session = Session(world.pursuer, rule)
    while not session.done:
        query = session.ask().query
        if available[0, query]:
            session.tell(world.query_set.describe(query, x[0]))
        else:
            session.dont_know()
    assert_same(session.chain, chain)
    assert session.prediction == chain.prediction


def test_a_session_over_patches_is_the_chain_of_its_image() -> None:
    query_set = PatchQueries((1, 4, 4), size=2, low=0, high=8)
    model = make_vip(query_set, dtype=torch.float)
    image = np.random.default_rng(0).integers(0, 9, (1, 4, 4))
    x, available = query_set.answers(image)
    (chain,) = explain(model, x, available, Confidence(0.9) | Budget(5))
    session = Session(model, Confidence(0.9) | Budget(5))
    while not session.done:
        top, left = query_set.patches.corner(session.ask().query)
        session.tell(image[0, top : top + 2, left : left + 2].tolist())
    assert_same(session.chain, chain, 1e-4)


def test_a_session_over_columns_is_the_chain_of_its_row() -> None:
    query_set = make_columns(["yes_no", "choice", "number", "choice", "single"])
    model, x = make_vip(query_set, dtype=torch.float), make_rows(query_set, 1).x.float()
    (chain,) = explain(model, x, torch.ones(1, 5, dtype=torch.bool))
    session = Session(model)
    while not session.done:
        session.tell(query_set.describe(session.ask().query, x[0]))
    assert_same(session.chain, chain, 1e-4)


def test_fractions_are_kept() -> None:
    session = Session(InOrder(ColumnQueries([Number("weight", "How heavy?", centre=70.0, spread=10.0)])))
    session.tell(73.7)
    assert session.chain.steps[0].answer == "73.7"


def test_a_question_says_what_and_why(world: Any) -> None:
    pursuer = in_bits(world.pursuer)
    question = Session(pursuer).ask()
    bits = pursuer.scores(History.start(world.rows.x[:1], 4))[0]
    order = bits.argsort(descending=True).tolist()
    query = world.query_set.queries[order[0]]
    assert question.number == 1
    assert question.query == order[0]
    assert (question.name, question.text, question.choices) == (query.name, query.text, query.choices)
    assert question.bits == pytest.approx(bits[order[0]].item())
    assert (question.share, question.cost) == (None, 1)
    assert [text for text, _ in question.runners_up] == [world.query_set.queries[i].text for i in order[1:]]
    assert [bits for _, bits in question.runners_up] == pytest.approx([bits[i].item() for i in order[1:]])


def test_a_mere_preference_is_a_share() -> None:
    model = make_vip(make_columns(["yes_no"] * 3), dtype=torch.float)
    question = Session(model).ask()
    scores = model.scores(History.start(model.query_set.blank(), 3))[0]
    assert question.bits is None
    assert question.share == pytest.approx(scores.softmax(dim=0).max().item())
    assert [bits for _, bits in question.runners_up] == [None, None]


def test_runners_up_leave_out_what_was_asked(world: Any) -> None:
    session = Session(in_bits(world.pursuer))
    for left in (3, 2, 1, 0):
        question = session.ask()
        asked = {step.text for step in session.chain.steps}
        texts = [text for text, _ in question.runners_up]
        assert len(texts) == left
        assert not asked & {question.text, *texts}
        assert all(question.bits >= bits for _, bits in question.runners_up)
        assert question.number == 4 - left
        session.dont_know()


def test_asking_again_asks_the_same(world: Any) -> None:
    session = Session(world.pursuer)
    session.tell("yes")
    before = session.to_json()
    assert session.ask() == session.ask()
    assert session.to_json() == before


def test_asking_again_asks_the_same_in_random_order(world: Any) -> None:
    session = Session(RandomOrder(world.pursuer, seed=1))
    for _ in range(3):
        asked = {session.ask().name for _ in range(8)}
        session.dont_know()
        assert asked == {session.chain.steps[-1].name}


def test_what_nobody_knows_changes_nothing_and_is_not_asked_again(world: Any) -> None:
    session = Session(world.pursuer)
    before, first = session.posterior, session.ask()
    session.dont_know()
    assert session.posterior == before
    assert session.ask().query != first.query
    assert session.chain.steps[0].answer is None
    assert session.chain.n_answered == 0
    with pytest.raises(ValueError, match="is one of"):
        session.tell("perhaps", first.name)
    assert session.answers == {first.name: None}
    session.tell(first.choices[0], first.name)  # now somebody does
    with pytest.raises(ValueError, match="was answered already: use change"):
        session.tell(first.choices[0], first.name)
    fresh = Session(world.pursuer)
    fresh.tell(first.choices[0])
    assert session.chain.to_dict() == fresh.chain.to_dict()


def session_with(world: Any, answers: list[tuple[str, Any]]) -> Session:
    return Session(world.pursuer, known=dict(answers))


def test_a_named_answer_to_the_question_asked_is_not_volunteered(world: Any) -> None:
    named, unnamed = Session(world.pursuer), Session(world.pursuer)
    for _ in range(2):
        question = named.ask()
        named.tell(question.choices[0], question.name)
        unnamed.tell(question.choices[0])
    assert named.to_dict() == unnamed.to_dict()
    assert named.chain.n_asked == 2
    assert named.cost == unnamed.cost > 0
    other = next(query for query in named.open_queries if query != named.ask().query)
    query = world.query_set.queries[other]
    named.tell(query.choices[0], query.name)
    assert [step.volunteered for step in named.chain.steps] == [False, False, True]


def test_what_is_known_is_volunteered_even_if_it_would_be_asked(world: Any) -> None:
    question = Session(world.pursuer).ask()
    (step,) = Session(world.pursuer, known={question.name: question.choices[0]}).chain.steps
    assert step.volunteered


def test_a_change_is_as_if_answered_so_at_once(world: Any) -> None:
    session = session_with(world, [("season", "winter"), ("fever", "no"), ("itching", "yes")])
    session.change("fever", "yes")
    assert_same(session.chain, session_with(world, [("season", "winter"), ("fever", "yes"), ("itching", "yes")]).chain)
    session.change("season", "spring")
    assert_same(session.chain, session_with(world, [("season", "spring"), ("fever", "yes"), ("itching", "yes")]).chain)


def test_an_answer_may_be_unknown_after_all(world: Any) -> None:
    session = session_with(world, [("season", "winter"), ("fever", "no")])
    session.change("season", None)
    assert [step.answer for step in session.chain.steps] == [None, "no"]
    assert list(session.posterior.values()) == pytest.approx(
        list(session_with(world, [("fever", "no")]).posterior.values()), rel=1e-12
    )
    session.change("season", "winter")
    assert_same(session.chain, session_with(world, [("season", "winter"), ("fever", "no")]).chain)


def test_a_skip_may_be_answered_after_all(world: Any) -> None:
    session = Session(world.pursuer)
    name = session.ask().name
    session.dont_know()
    session.change(name, world.query_set.queries[session.chain.steps[0].query].choices[0])
    assert session.chain.n_answered == 1


def test_what_is_volunteered_is_not_counted_as_asked(world: Any) -> None:
    session = Session(world.pursuer, Budget(1))
    session.tell("winter", "season")
    session.tell("no", "itching")
    assert not session.done
    assert session.ask().number == 1
    assert session.ask().name in ("fever", "sneezing")
    session.tell("yes")
    assert session.done
    session.tell("no", session_left(session)[0])  # a person may say more than is asked for
    assert session.done
    assert session.chain.n_answered == 4


def session_left(session: Session) -> list[str]:
    names = {step.name for step in session.chain.steps}
    return [query.name for query in session.pursuer.query_set.queries if query.name not in names]


def test_the_posterior_is_that_of_the_answers_given(world: Any) -> None:
    session = session_with(world, [("season", "winter"), ("fever", "yes")])
    x, known = world.query_set.answers(world.frame).x[-1:], torch.tensor([[True, False, False, True]])
    belief = world.pursuer.log_posterior(History(x, known, known))[0].exp().tolist()
    assert session.posterior == pytest.approx(dict(zip(["allergy", "cold", "flu"], belief, strict=True)))
    assert list(session.posterior.values()) == pytest.approx(sorted(belief, reverse=True), rel=1e-12)
    assert session.prediction == next(iter(session.posterior)) == "flu"


@pytest.mark.parametrize("classes", [[1, 2, 3], np.array([1, 2, 3]), np.array(["a", "b", "c"])])
def test_labels_are_python_values(world: Any, classes: Any) -> None:
    session = Session(InOrder(world.query_set, classes))
    assert type(session.prediction) in (int, str)
    assert [type(label) for label in session.posterior] == [type(session.prediction)] * 3
    json.dumps(session.posterior)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("row", [0, 10, 23])
def test_it_is_done_when_the_rule_says_so(world: Any, rule: StoppingRule | None, row: int) -> None:
    x, available = world.rows.x[row : row + 1], world.rows.available[row : row + 1]
    (chain,) = explain(world.pursuer, x, available, rule)
    session = Session(world.pursuer, rule)
    for step in chain.steps:
        assert not session.done
        assert session.ask().query == step.query
        session.tell(step.answer)
    assert session.done
    before = session.to_json()
    for move in (session.ask, session.dont_know, lambda: session.tell("yes")):
        with pytest.raises(ValueError, match=f"The session is finished: the prediction is {chain.prediction}"):
            move()
    assert session.to_json() == before
    if chain.steps:
        session.undo()
        assert session.ask().query == chain.steps[-1].query


@pytest.mark.parametrize("answer", ["maybe", "", 7, None, ["yes"]])
def test_bad_answers_leave_the_session_as_it_was(world: Any, answer: Any) -> None:
    session = session_with(world, [("season", "winter")])
    before, belief, question = session.to_json(), session.posterior, session.ask()
    with pytest.raises(ValueError, match="is one of"):
        session.tell(answer)
    with pytest.raises(ValueError, match="is one of"):
        session.tell(answer, "fever")
    if answer is not None:
        with pytest.raises(ValueError, match="is one of"):
            session.change("season", answer)
    with pytest.raises(ValueError, match="'season' was answered already"):
        session.tell("spring", "season")
    with pytest.raises(ValueError, match="There is no query named 'age'"):
        session.tell(30, "age")
    with pytest.raises(ValueError, match="There is no query named 'age'"):
        session.change("age", 30)
    with pytest.raises(ValueError, match="'fever' was not answered yet"):
        session.change("fever", "yes")
    assert (session.to_json(), session.posterior, session.ask()) == (before, belief, question)


class CountingBudget(Budget):
    """A budget that counts its steps."""

    steps = 0

    def step(self, memory: Any, standing: Any) -> Any:
        type(self).steps += 1
        return super().step(memory, standing)


def test_an_answer_costs_one_step_however_long_the_session(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(200)])
    yes = torch.rand(3, 200, generator=torch.Generator().manual_seed(0))
    pursuer = Counting(type(world.pursuer).from_yes(query_set, list("abc"), torch.ones(3) / 3, yes))
    written: list[int] = []
    tell = ColumnQueries.tell
    monkeypatch.setattr(ColumnQueries, "tell", lambda self, x, q, a: (written.append(q), tell(self, x, q, a)))
    CountingBudget.steps = 0
    session = Session(pursuer, CountingBudget(200))
    for i in range(200):
        assert not session.done
        question = session.ask()
        session.tell("yes", question.name) if i % 5 == 0 else session.tell("no")
        _ = session.posterior, session.prediction
    assert session.done
    assert len(written) == 200
    assert pursuer.calls["log_posterior"] == CountingBudget.steps == 201
    assert pursuer.calls["scores"] == 200
    for _ in range(100):
        session.undo()
    assert len(written) == 200
    session.ask()
    assert len(written) == 300  # the answers that are left are written once more
    assert pursuer.calls["log_posterior"] == 201


@pytest.mark.parametrize("settings", [MLP((8,)), MLP((8,), direct=True), SetNetwork(5, "max", 7, (8,))], ids=str)
@given(moves=st.lists(st.sampled_from(["yes", "no", "skip", "undo", "change", "volunteer"]), max_size=12))
def test_whatever_happens_the_belief_is_that_of_the_answers_given(settings: NetworkSettings, moves: list[str]) -> None:
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(30)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = VIP.build(ModelSpec(query_set, list("abc"), settings, shared=True)).eval()
    session = Session(model)
    for move in moves:
        entries = session.to_dict()["moves"]
        if move == "skip":
            session.dont_know()
        elif move == "volunteer":
            session.tell("yes", session_left(session)[-1])
        elif move in ("undo", "change") and entries:
            session.undo() if move == "undo" else session.change(entries[len(entries) // 2]["query"], "yes")
        elif move in ("yes", "no"):
            session.tell(move)
    history = History.start(query_set.blank(), 30)
    with torch.no_grad():
        for entry in session.to_dict()["moves"]:
            query, is_answered = query_set.index_of[entry["query"]], entry["answer"] is not None
            if is_answered:
                query_set.tell(history.x[0], query, entry["answer"])
            history = history.record(torch.tensor([query]), torch.tensor([is_answered]))
        expected = model.log_posterior(history)[0].exp()
        assert session.ask().query == int(choose(model.scores(history), history.asked))
    torch.testing.assert_close(session.chain.posterior, expected, rtol=1e-4, atol=1e-6)
    again = Session.from_json(session.to_json(), model)
    assert again.posterior == session.posterior  # to the last bit


class AsksOne(VIP):
    """Would ask only the first query."""

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        return outputs.masked_fill(torch.arange(len(self.query_set)) > 0, -torch.inf)


def test_a_session_ends_where_the_pursuer_would_ask_nothing_more() -> None:
    torch.manual_seed(0)
    query_set = ColumnQueries([yes_no(name) for name in "abc"])
    session = Session(AsksOne.build(ModelSpec(query_set, ["x", "y"], MLP((4,)))).eval())
    assert session.ask().name == "a"
    session.tell("yes")
    assert session.done
    with pytest.raises(ValueError, match="finished"):
        session.ask()
    session.undo()
    assert not session.done
    assert session.ask().runners_up == ()
