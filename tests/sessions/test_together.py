"""Answers of several people at once: what follows is computed in one batch, and is what each would get alone."""

import asyncio
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
from pursuit.web.serving.models import ServedModels, load_models
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


def answers_of(person: int, session: Session) -> Any:
    """What somebody says to the next question, now and then that nobody knows."""
    choices = [*session.ask().choices, None]
    return choices[(person + 2 * len(session.moves)) % len(choices)]


def say(session: Session, answer: Any) -> None:
    if answer is None:
        session.dont_know()
    else:
        session.tell(answer)


def almost(value: Any) -> Any:
    """JSON values, of which numbers may differ by rounding."""
    if isinstance(value, float):
        return pytest.approx(value, abs=2e-5)
    if isinstance(value, dict):
        return {key: almost(own) for key, own in value.items()}
    return [almost(own) for own in value] if isinstance(value, list | tuple) else value


def as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_lists(own) for key, own in value.items()}
    return [as_lists(own) for own in value] if isinstance(value, list | tuple) else value


@pytest.fixture
def rows_of_batches(monkeypatch: pytest.MonkeyPatch, models: ServedModels) -> list[int]:
    """How many rows states were made of."""
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
    models: ServedModels, name: str, rows_of_batches: list[int]
) -> None:
    together, alone = ([models[name].session() for _ in range(N_PEOPLE)] for _ in range(2))
    for _ in range(4):
        said = [answers_of(i, session) for i, session in enumerate(alone)]
        foresee([(one, None, answer) for one, answer in zip(together, said, strict=True)])
        assert rows_of_batches.pop() == N_PEOPLE
        for one, other, answer in zip(together, alone, said, strict=True):
            one.ask_again(other.ask().name)  # of twins either may come first
            say(one, answer)
            say(other, answer)
            state, expected = (as_lists(asdict(session.state())) for session in (one, other))
            if state["question"] is not None:
                assert {state["question"]["name"], expected["question"]["name"]} <= {"q0", "twin"} or (
                    state["question"] == expected["question"]
                )
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
        again = models["network"].session(session.to_dict())
        assert as_lists(asdict(session.state())) == as_lists(asdict(again.state()))


def test_an_answer_that_cannot_be_used_harms_nobody_else(models: ServedModels, rows_of_batches: list[int]) -> None:
    sessions = [models["bayes"].session() for _ in range(4)]
    answers: list[Any] = ["maybe", ["?"], sessions[2].ask().choices[0], sessions[3].ask().choices[1]]
    foresee([(one, None, answer) for one, answer in zip(sessions, answers, strict=True)])
    assert rows_of_batches.pop() == 2
    with pytest.raises(ValueError, match="maybe"):
        sessions[0].tell("maybe")


@pytest.mark.parametrize("name", ["network", "bayes"])
def test_an_answer_by_the_name_of_what_is_asked_is_foreseen_to_the_same_bits(
    models: ServedModels, name: str, rows_of_batches: list[int]
) -> None:
    unnamed, named = ([models[name].session() for _ in range(N_PEOPLE)] for _ in range(2))
    for _ in range(3):
        said = [answers_of(i, session) for i, session in enumerate(unnamed)]
        asked = [session.ask().name for session in unnamed]
        foresee([(session, None, answer) for session, answer in zip(unnamed, said, strict=True)])
        foresee(list(zip(named, asked, said, strict=True)))
        assert rows_of_batches[-2:] == [N_PEOPLE, N_PEOPLE]
        for one, other, query, answer in zip(unnamed, named, asked, said, strict=True):
            say(one, answer)
            other.dont_know() if answer is None else other.tell(answer, query)
            assert asdict(one.state()) == asdict(other.state())


def test_a_volunteered_answer_is_not_foreseen(models: ServedModels, rows_of_batches: list[int]) -> None:
    sessions = [models["network"].session() for _ in range(3)]
    other = next(i for i in sessions[0].open_queries if i != sessions[0].ask().query)
    name = sessions[0].pursuer.query_set.queries[other].name
    rows_of_batches.clear()
    foresee([(session, name, "yes") for session in sessions])
    assert not rows_of_batches


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


def test_people_who_wait_for_each_other_share_a_batch(
    models: ServedModels, store: Store, rows_of_batches: list[int]
) -> None:
    interviews = Interviews(models, store)
    moves = tells([interviews.begin("network") for _ in range(N_PEOPLE)])
    batches = MoveBatches(interviews)

    async def together() -> list[schemas.Session]:
        return await asyncio.gather(*(batches.move(*one) for one in moves))

    rows_of_batches.clear()
    found = asyncio.run(together())
    assert rows_of_batches == [N_PEOPLE]
    for (session_id, move), session in zip(moves, found, strict=True):
        alone = models["network"].session()
        alone.tell(move.answer)
        assert session.id == session_id
        assert as_lists(asdict(session.state.belief)) == almost(as_lists(asdict(alone.state().belief)))
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


@pytest.mark.parametrize("name", ["network", "bayes"])
def test_corrections_are_computed_together_with_the_answers_of_others(
    models: ServedModels, name: str, rows_of_batches: list[int]
) -> None:
    together, alone = ([models[name].session() for _ in range(N_PEOPLE)] for _ in range(2))
    for one, other in zip(together, alone, strict=True):
        for answer in ("yes", "no", "yes"):
            asked = one.ask()
            other.ask_again(asked.name)
            own = answer if answer in asked.choices else asked.choices[0]
            one.tell(own)
            other.tell(own)
    queries = [session.pursuer.query_set.queries[session.moves[0].query] for session in together]
    corrected = [
        (one, query.name, None if i % 2 else query.offered[-1])
        for i, (one, query) in enumerate(zip(together, queries, strict=True))
    ]
    told = (together[-1], None, together[-1].ask().choices[0])
    rows_of_batches.clear()
    foresee([*corrected[:-1], told])
    assert rows_of_batches == [3 * (N_PEOPLE - 1) + 1]
    for (one, name, answer), other in zip(corrected[:-1], alone, strict=False):
        one.change(name, answer)
        other.change(name, answer)
    together[-1].tell(told[2])
    alone[-1].ask_again(together[-1].pursuer.query_set.queries[together[-1].moves[-1].query].name)
    alone[-1].tell(told[2])
    assert len(rows_of_batches) <= 1 + N_PEOPLE  # of those alone
    for one, other in zip(together, alone, strict=True):
        if not one.done:
            other.ask_again(one.ask().name)
        state, expected = (as_lists(asdict(session.state())) for session in (one, other))
        assert state == almost(expected)
        one.undo()
        other.undo()
        assert as_lists(asdict(one.state()))["answers"] == almost(as_lists(asdict(other.state()))["answers"])
