"""Animals are played as people would, and what comes of it is counted."""

from dataclasses import dataclass
from typing import Any

import pytest

import play
from pursuit.exact import IndependentIP
from pursuit.inference.stopping import stopping_rule
from pursuit.sessions.session import Session
from pursuit.tasks import animals


@dataclass(frozen=True)
class Exact:
    """As much of a model as games need."""

    pursuer: IndependentIP
    stop: str = "confidence=0.9"

    def session(self) -> Session:
        return Session(self.pursuer, stopping_rule(self.stop))


@pytest.fixture(scope="module")
def exact() -> Exact:
    return Exact(animals.exact())


def test_truthful_answers_lead_to_the_animal(exact: Exact) -> None:
    rows = animals.table()[:12]
    games = play.play_all(exact, rows, play.MANNERS[0], 0)
    assert [game.animal for game in games] == rows.index.tolist()
    found = play.summary(games)
    assert found["guessed"] > 0.9
    assert 5 < found["asked_at_first_guess"] <= found["asked"] <= play.MOST_QUESTIONS


def test_a_wrong_guess_is_rejected_and_play_goes_on(exact: Exact) -> None:
    rows = animals.table()
    hasty = Exact(exact.pursuer, "budget=4")
    games = play.play_all(hasty, rows[:8], play.MANNERS[0], 0)
    assert all(game.asked_at_first_guess == 4 for game in games)
    wrong = [game for game in games if game.first_guess != game.animal]
    assert wrong
    assert all(game.n_guesses > 1 for game in wrong)
    assert all(4 < game.n_asked <= play.MOST_QUESTIONS for game in wrong)


def test_after_the_last_question_the_best_guess_counts(exact: Exact) -> None:
    never = Exact(exact.pursuer, "never")
    (game,) = play.play_all(never, animals.table()[:1], play.MANNERS[0], 0)
    assert (game.n_asked, game.n_guesses) == (play.MOST_QUESTIONS, 1)


def test_answers_are_withheld_and_wrong_as_often_as_said(exact: Exact, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, heard = animals.table(), []

    def listen(session: Any, animal: str, answer: Any) -> None:
        heard.append([answer(name) for name in rows.columns])

    monkeypatch.setattr(play, "play", listen)
    for manner in play.MANNERS:
        heard.clear()
        play.play_all(exact, rows, manner, 1)
        pairs = [
            (given, true)
            for own, row in zip(heard, rows.to_numpy(dtype=object), strict=True)
            for given, true in zip(own, row, strict=True)
            if isinstance(true, str)
        ]
        assert all(given in ("yes", "no", None) for given, _ in pairs)
        withheld = sum(given is None for given, _ in pairs) / len(pairs)
        wrong = sum(given is not None and given != true for given, true in pairs) / len(pairs)
        assert withheld == pytest.approx(manner.withheld, abs=0.01)
        assert wrong == pytest.approx(manner.wrong, abs=0.01)


def test_the_page_says_what_was_found() -> None:
    games = [play.Game("cat", "dog", 7, True, 9, 2), play.Game("dog", "dog", 5, True, 5, 1)]
    runs = [{"model": 0, "seed": 1, **play.summary(games)}]
    assert runs[0]["first_guess_right"] == 0.5
    manners = [{"title": "as said", "goal": 0.9, "most_asked": 10, "runs": runs}]
    where = {"commit": "abc", "seeds of models": [0], "seeds of answers": [1]}
    text = play.page({"where": where, "manners": manners, "n_animals": 2})
    assert "| as said | 100.0% | 100.0% | 90%, at most 10 asked | 50.0% | 6.00 | 7.00 |" in text
    assert "every model guessed every animal" in text
    assert "- commit: abc" in text
