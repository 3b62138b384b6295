"""Answers of several people at once: what follows from them is computed in one batch, and is what each would get alone.

`foresee` is told what several sessions are about to be told, and computes what follows in one batch; each session takes
its part from there once it is told. A new answer makes one new history, and a correction makes one for each answer from
the corrected one on. Many tests have the same people twice: those who answer `together` were foreseen, those who answer
`alone` were not.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlalchemy.exc import OperationalError

from pursuit import MLP, Stage, VIPClassifier
from pursuit.estimators import PursuitClassifier
from pursuit.inference.incremental import HistoryState
from pursuit.methods import METHODS
from pursuit.sessions.session import Session, foresee
from pursuit.web.serving import schemas
from pursuit.web.serving.batches import MoveBatches
from pursuit.web.serving.interviews import ASKED, Interviews
from pursuit.web.serving.models import ServedModel, ServedModels, load_models
from pursuit.web.serving.problems import NotFound, Outdated, Refused
from pursuit.web.serving.store import SessionRecord, Store

N_PEOPLE = 6
COLOURS = ["red", "green", "blue"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A network and naive Bayes, learnt from five questions, two of which are twins: their scores are always equal."""
    chance = np.random.default_rng(0)
    y = chance.integers(0, 4, 400)
    yes = {f"q{i}": np.where(chance.random(400) < 0.2 + 0.2 * ((y + i) % 4), "yes", "no") for i in range(4)}
    frame = pd.DataFrame({**yes, "twin": yes["q0"], "colour": np.array(COLOURS)[(y + chance.integers(0, 2, 400)) % 3]})
    plan: dict[str, Any] = {"network": MLP((16,)), "stages": [Stage(4, batch_size=32)], "teachers": None}
    models: dict[str, PursuitClassifier] = {
        "network": VIPClassifier(**plan, random_state=0, stop="confidence=0.999"),
        "bayes": METHODS["naive-bayes"].build(None, random_state=0, stop="confidence=0.999"),
    }
    found = {}
    for name, model in models.items():
        found[name] = tmp_path_factory.mktemp(name) / name
        model.fit(frame, np.array([*"abcd"])[y]).save(found[name])
    return found


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> ServedModels:
    return load_models(folders.values())


def people(model: ServedModel) -> list[Session]:
    return [model.session() for _ in range(N_PEOPLE)]


def answers_of(sessions: list[Session]) -> list[Any]:
    """What each person says to the next question: one of the choices, now and then None, "don't know"."""
    found = []
    for person, session in enumerate(sessions):
        choices = [*session.ask().choices, None]
        found.append(choices[(person + 2 * len(session.moves)) % len(choices)])
    return found


def say(session: Session, answer: Any, query: str | None = None) -> None:
    if answer is None:
        session.dont_know()
    else:
        session.tell(answer, query)


def as_json(state: Any) -> Any:
    """A state, or a part of one, as JSON values."""
    return json.loads(json.dumps(asdict(state)))


def almost(value: Any) -> Any:
    """JSON values, of which numbers may differ by rounding."""
    if isinstance(value, float):
        return pytest.approx(value, abs=2e-5)
    if isinstance(value, dict):
        return {key: almost(own) for key, own in value.items()}
    return [almost(own) for own in value] if isinstance(value, list) else value


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch, models: ServedModels) -> list[int]:
    """How many histories were computed together, batch by batch."""
    found: list[int] = []
    for model in models.values():
        template, restart = model._template, type(model._template).restart

        def counted(self: HistoryState, history: Any, restart: Any = restart) -> HistoryState:
            found.append(len(history))
            state: HistoryState = restart(self, history)
            return state

        monkeypatch.setattr(type(template), "restart", counted)
    return found


@pytest.mark.parametrize("name", ["network", "bayes"])
def test_what_is_computed_together_is_what_each_gets_alone(
    models: ServedModels, name: str, computed: list[int]
) -> None:
    together, alone = people(models[name]), people(models[name])
    for _ in range(4):
        answers = answers_of(alone)
        foresee([(session, None, answer) for session, answer in zip(together, answers, strict=True)])
        assert computed.pop() == N_PEOPLE
        for session, other, answer in zip(together, alone, answers, strict=True):
            session.ask_again(other.ask().name)  # of twins, either may come first
            say(session, answer)
            say(other, answer)
            state, expected = as_json(session.state()), as_json(other.state())
            if state["question"] != expected["question"]:
                assert {state["question"]["name"], expected["question"]["name"]} == {"q0", "twin"}
                state["question"] = expected["question"]
            assert state == almost(expected)


def test_what_was_foreseen_counts_for_that_answer_alone(models: ServedModels) -> None:
    sessions = [models["network"].session() for _ in range(3)]
    foresee([(session, None, "yes" if session.ask().choices[0] in ("yes", "no") else "red") for session in sessions])
    first, second, third = sessions
    first.dont_know()  # instead
    second.tell("blue" if second.ask().name == "colour" else "no")
    third.skip()
    for session in sessions:
        assert as_json(session.state()) == as_json(models["network"].session(session.to_dict()).state())


def test_an_answer_that_cannot_be_used_harms_nobody_else(models: ServedModels, computed: list[int]) -> None:
    sessions = [models["bayes"].session() for _ in range(4)]
    answers: list[Any] = ["maybe", ["?"], sessions[2].ask().choices[0], sessions[3].ask().choices[1]]
    foresee([(one, None, answer) for one, answer in zip(sessions, answers, strict=True)])
    assert computed.pop() == 2
    with pytest.raises(ValueError, match="maybe"):
        sessions[0].tell("maybe")


@pytest.mark.parametrize("name", ["network", "bayes"])
def test_an_answer_by_the_name_of_what_is_asked_is_foreseen_to_the_same_bits(
    models: ServedModels, name: str, computed: list[int]
) -> None:
    unnamed, named = people(models[name]), people(models[name])
    for _ in range(3):
        answers, queries = answers_of(unnamed), [session.ask().name for session in unnamed]
        foresee([(session, None, answer) for session, answer in zip(unnamed, answers, strict=True)])
        foresee(list(zip(named, queries, answers, strict=True)))
        assert computed[-2:] == [N_PEOPLE, N_PEOPLE]
        for session, other, query, answer in zip(unnamed, named, queries, answers, strict=True):
            say(session, answer)
            say(other, answer, query)
            assert asdict(session.state()) == asdict(other.state())


def test_a_volunteered_answer_is_not_foreseen(models: ServedModels, computed: list[int]) -> None:
    sessions = [models["network"].session() for _ in range(3)]
    other = next(i for i in sessions[0].open_queries if i != sessions[0].ask().query)
    name = sessions[0].pursuer.query_set.queries[other].name
    computed.clear()
    foresee([(session, name, "yes") for session in sessions])
    assert not computed


def test_what_was_foreseen_is_forgotten_when_an_answer_is_taken_back(models: ServedModels) -> None:
    """An answer that is doubted was foreseen, and may be given again once another one was taken back."""
    sessions = [models["network"].session() for _ in range(2)]
    asked = sessions[0].ask()
    other = next(i for i in sessions[0].open_queries if i != asked.query)
    query = sessions[0].pursuer.query_set.queries[other]
    for session in sessions:
        session.tell(query.choices[0], query.name)
        session.ask_again(asked.name)
    foresee([(session, None, asked.choices[0]) for session in sessions])
    sessions[0].undo()
    sessions[0].ask_again(asked.name)
    sessions[0].tell(asked.choices[0])
    alone = models["network"].session()
    alone.tell(asked.choices[0])
    assert sessions[0].posterior == alone.posterior


@pytest.mark.parametrize("name", ["network", "bayes"])
def test_corrections_are_computed_together_with_the_answers_of_others(
    models: ServedModels, name: str, computed: list[int]
) -> None:
    """All have given three answers. One gives a fourth, and the others correct their first one."""
    together, alone = people(models[name]), people(models[name])
    for session, other in zip(together, alone, strict=True):
        for wanted in ("yes", "no", "yes"):
            question = session.ask()
            other.ask_again(question.name)
            answer = wanted if wanted in question.choices else question.choices[0]
            session.tell(answer)
            other.tell(answer)
    answering, *correcting = together
    question = answering.ask()
    corrections = []
    for i, session in enumerate(correcting):
        first = session.pursuer.query_set.queries[session.moves[0].query]
        corrections.append((session, first.name, None if i % 2 else first.choices[-1]))

    computed.clear()
    foresee([(answering, None, question.choices[0]), *corrections])
    assert computed == [1 + 3 * len(corrections)]

    answering.tell(question.choices[0])
    alone[0].ask_again(question.name)
    alone[0].tell(question.choices[0])
    for (session, query, answer), other in zip(corrections, alone[1:], strict=True):
        session.change(query, answer)
        other.change(query, answer)
    assert len(computed) <= 1 + N_PEOPLE  # the one above, and those of people alone
    for session, other in zip(together, alone, strict=True):
        if not session.done:
            other.ask_again(session.ask().name)
        assert as_json(session.state()) == almost(as_json(other.state()))
        session.undo()
        other.undo()
        assert as_json(session.state())["answers"] == almost(as_json(other.state())["answers"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(f"sqlite:///{tmp_path / 'sessions.sqlite'}")
    yield found
    found.close()


def tells(sessions: list[schemas.Session]) -> list[tuple[str, schemas.Move]]:
    """An answer to the question of each, every second of which names it."""
    found = []
    for i, session in enumerate(sessions):
        question = session.state.question
        assert question is not None
        answer = question.choices[i % len(question.choices)].value
        query = question.name if i % 2 else None
        found.append((session.id, schemas.Move(move="tell", query=query, answer=answer, revision=session.revision)))
    return found


def test_people_who_wait_for_each_other_share_a_batch(models: ServedModels, store: Store, computed: list[int]) -> None:
    interviews = Interviews(models, store)
    moves = tells([interviews.begin("network") for _ in range(N_PEOPLE)])
    batches = MoveBatches(interviews)

    async def together() -> list[schemas.Session]:
        return await asyncio.gather(*(batches.move(*one) for one in moves))

    computed.clear()
    found = asyncio.run(together())
    assert computed == [N_PEOPLE]
    for (session_id, move), session in zip(moves, found, strict=True):
        alone = models["network"].session()
        alone.tell(move.answer)
        assert session.id == session_id
        assert as_json(session.state.belief) == almost(as_json(alone.state().belief))
        stored = store.read(session_id)
        assert stored is not None
        assert stored.revision == session.revision == 1


def test_a_move_that_cannot_be_made_stops_no_other(models: ServedModels, store: Store) -> None:
    interviews = Interviews(models, store)
    good, wrong, *_ = tells([interviews.begin("network") for _ in range(2)])
    wrong = wrong[0], wrong[1].model_copy(update={"answer": "purple"})
    missing = "nobody", good[1]
    first, refused, again, unknown = interviews.move_all([good, wrong, good, missing])
    assert isinstance(first, schemas.Session)
    assert first.revision == 1
    assert isinstance(refused, Refused)
    assert isinstance(again, Outdated)  # one of two moves at the same revision counts
    assert again.body["session"].revision == 1
    assert isinstance(unknown, NotFound)
    assert interviews.show(wrong[0]).revision == 0


@pytest.mark.parametrize(
    ("error", "are_written"),
    [
        (OperationalError("", {}, Exception("The disk is full.")), [False, False, False]),
        (RuntimeError("One of them cannot be written."), [False, True, True]),
    ],
)
def test_what_is_not_written_is_not_confirmed(
    models: ServedModels, store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception, are_written: list[bool]
) -> None:
    interviews = Interviews(models, store)
    batches, moves = MoveBatches(interviews), tells([interviews.begin("network") for _ in range(3)])

    async def together() -> list[Any]:
        return await asyncio.gather(*(batches.move(*one) for one in moves), return_exceptions=True)

    write_all = store.write_all

    def fail(given: Any) -> Any:
        if any(before.id == moves[0][0] for before, *_ in given):
            raise error
        return write_all(given)

    with monkeypatch.context() as failing:
        failing.setattr(store, "write_all", fail)
        found = asyncio.run(together())
    assert [isinstance(one, schemas.Session) for one in found] == are_written
    assert [interviews.show(session_id).revision for session_id, _ in moves] == are_written
    assert asyncio.run(together())[0].revision == 1


def test_an_answer_counts_for_the_question_that_was_asked(models: ServedModels, store: Store) -> None:
    """Another process, which makes the session again, may order close scores otherwise."""
    begun = Interviews(models, store).begin("network")
    stored = store.read(begun.id)
    assert stored is not None
    assert begun.state.question is not None
    assert stored.moves[ASKED] == begun.state.question.name
    record = {field.name: getattr(stored, field.name) for field in fields(SessionRecord)}
    others = [one.name for one in begun.state.open if one.name not in ("colour", begun.state.question.name)]
    record["moves"] = {**stored.moves, ASKED: others[0]}
    assert store.write_all([(stored, SessionRecord(**record), "same")]) != [None]
    elsewhere = Interviews(models, store)
    shown = elsewhere.show(begun.id)
    assert shown.state.question is not None
    assert shown.state.question.name == others[0]
    moved = Interviews(models, store).move(begun.id, schemas.Move(move="tell", answer="yes", revision=1))
    (given,) = moved.state.answers
    assert given.kind == "answer"
    assert given.question.name == others[0]
