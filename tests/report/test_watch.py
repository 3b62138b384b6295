"""A model that is watched: false alarms as rare as they are said to be, and what sessions tell."""

import copy
import datetime
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit.methods import NaiveBayesIPClassifier
from pursuit.report.watch import ALARM, Watch, _most_moved, confirmed_rows, evidence, number_of

LABELS = np.array(["a", "b", "c"])


def strongest(stated: np.ndarray, right: np.ndarray, tolerance: float) -> np.ndarray:
    """The strongest evidence that there ever is against each of many models (M, N)."""
    return np.array([evidence(p, r, tolerance).max() for p, r in zip(stated, right, strict=True)])


@pytest.mark.parametrize("tolerance", [pytest.param(0.0, marks=pytest.mark.slow), 0.05])
def test_a_model_that_keeps_its_promise_is_alarmed_about_as_rarely_as_is_said(tolerance: float) -> None:
    """Right exactly as often as it may be at the worst, watched after every one of 300 results."""
    rng = np.random.default_rng(0)
    n = 400
    stated = rng.uniform(0.4, 0.99, (n, 300))
    right = rng.random(stated.shape) < stated - tolerance
    found = strongest(stated, right, tolerance)
    for rate in (0.01, 0.1):
        assert (found >= np.log(1 / rate)).mean() <= rate + 3 * np.sqrt(rate * (1 - rate) / n)


@pytest.mark.parametrize("n_good", [0, 300])
def test_a_model_that_breaks_its_promise_is_found_even_after_a_good_time(n_good: int) -> None:
    rng = np.random.default_rng(1)
    stated = rng.uniform(0.85, 0.95, (200, n_good + 250))
    chance = np.where(np.arange(stated.shape[1]) < n_good, stated, stated - 0.25)
    found = strongest(stated, rng.random(stated.shape) < chance, 0.05)
    assert (found >= np.log(1 / 0.01)).mean() > 0.95


@dataclass(frozen=True)
class Kept:
    id: str
    created: datetime.datetime
    moves: dict[str, Any]
    truth: str | None
    accepted: bool = False
    revision: int = 0


def table(rng: np.random.Generator, n: int, flip: float = 0.1) -> tuple[pd.DataFrame, np.ndarray]:
    y = rng.integers(0, 3, n)
    columns = {f"is_{LABELS[i]}": np.where((y == i) ^ (rng.random(n) < flip), "yes", "no") for i in range(3)}
    columns["coin"] = np.where(rng.random(n) < 0.5, "yes", "no")
    return pd.DataFrame(columns), LABELS[y]


@cache
def model() -> NaiveBayesIPClassifier:
    return NaiveBayesIPClassifier(random_state=0, stop="confidence=0.9").fit(*table(np.random.default_rng(0), 1000))


@cache
def played(n: int, flip: float = 0.1, coin: float | None = None, unknown: str = "") -> list[Kept]:
    """Sessions with people whose answers are wrong as often as `flip` says."""
    rng = np.random.default_rng(5)
    X, y = table(rng, n, flip)
    if coin is not None:
        X["coin"] = np.where(rng.random(n) < coin, "yes", "no")
    found = []
    for i in range(n):
        session = model().session()
        session.tell(X["coin"][i], "coin")
        while not session.done:
            name = session.ask().name
            if name == unknown:
                session.dont_know()
            else:
                session.tell(X[name][i])
        begun = datetime.datetime(2026, 1, 5) + datetime.timedelta(hours=6 * i)
        found.append(Kept(str(i), begun, session.to_dict(), str(y[i])))
    return found


def test_people_like_the_rows_of_training_raise_no_alarm() -> None:
    watch = Watch.of(model(), played(100))
    assert not watch.is_alarmed
    assert watch.n_judged == watch.n_sessions == 100
    assert watch.interval is not None
    assert watch.interval[0] < watch.n_right / 100 < watch.interval[1]
    assert not any(one.has_moved for one in watch.questions)
    assert sum(one.n for one in watch.periods) == 100
    assert len(watch.periods) == 4
    assert "No alarm" in " ".join(watch.sentences)


def test_people_who_differ_raise_an_alarm_and_moved_answers_are_named() -> None:
    watch = Watch.of(model(), played(100, flip=0.45, coin=0.95))
    assert watch.is_alarmed
    moved = {one.name for one in watch.questions if one.has_moved}
    assert "coin" in moved
    assert any(name.startswith("is_") for name in moved)
    assert any(one.startswith("Answers have moved: “yes” to") and "is given by 9" in one for one in watch.sentences)
    page = watch.html("illness <b>")
    assert "Alarm" in page
    assert "illness &lt;b&gt;" in page
    assert all(one.text in page for one in watch.questions)


@pytest.mark.parametrize("n_learnt", [100, 1000])
def test_answers_that_have_not_moved_are_hardly_ever_named(n_learnt: int) -> None:
    """What is expected of them was learnt from rows that are a sample, too, perhaps a smaller one."""
    rng, n, n_named = np.random.default_rng(0), 800, 0
    for _ in range(300):
        expected = float(np.clip(rng.binomial(n_learnt, 0.4) / n_learnt, 0.01, 0.99))
        given = [("yes" if said else "no", {"yes": expected, "no": 1 - expected}) for said in rng.random(n) < 0.4]
        moved = _most_moved(given, 1 + n / n_learnt)
        assert moved is not None
        n_named += abs(moved.deviation) > NormalDist().inv_cdf(1 - ALARM / 2)
    assert n_named <= 300 * 3 * ALARM


def test_who_is_watched_after_few_rows_needs_more_to_be_called_different() -> None:
    def coin(n_rows: int) -> float:
        watched = copy.copy(model())
        watched.notes_ = {"task": {"n_rows": n_rows, "test_share": 0.2}}
        (found,) = [one.moved for one in Watch.of(watched, played(100, coin=0.7)).questions if one.name == "coin"]
        assert found is not None
        return abs(found.deviation)

    assert coin(10**9) == pytest.approx(coin(125) * np.sqrt(2), rel=0.05)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1234.5", 1234.5), ("1.234,5", 1234.5), ("1,234.5", 1234.5), ("3,5", 3.5), ("1,234", None)]
    + [(text, None) for text in ("nan", "inf", "1e999", "", "many")],
)
def test_truths_are_numbers_as_people_write_them(text: str, number: float | None) -> None:
    assert number_of(text) == number


def test_what_nobody_knows_is_counted_by_question_and_results_nobody_confirmed_are_not_judged() -> None:
    sessions = [Kept(one.id, one.created, one.moves, None) for one in played(40, unknown="is_b")]
    watch = Watch.of(model(), sessions)
    assert watch.n_judged == 0
    assert {one.name for one in watch.questions if one.n_unknown} == {"is_b"}
    assert "Nobody confirmed" in " ".join(watch.sentences)


def test_a_guess_that_was_called_wrong_counts_as_wrong_with_the_probability_it_had() -> None:
    session = model().session()
    while not session.done:
        session.tell("yes" if session.ask().name == "is_a" else "no")
    stated = max(session.posterior.values())
    session.reject()
    watch = Watch.of(model(), [Kept("1", datetime.datetime(2026, 1, 1), session.to_dict(), None)])
    assert (watch.n_judged, watch.n_right) == (1, 0)
    assert watch.stated == pytest.approx(stated)


def test_a_session_of_another_model_is_left_out() -> None:
    other = Kept("1", datetime.datetime(2026, 1, 1), {"format": 2, "moves": [{"move": "tell", "query": "x"}]}, "a")
    watch = Watch.of(model(), [other])
    assert (watch.n_sessions, watch.n_unreadable) == (0, 1)
    assert "Left out: 1 session of an earlier model." in watch.sentences


def test_confirmed_sessions_are_rows_of_the_answers_that_were_given() -> None:
    sessions = played(100)[:30]
    X, y = confirmed_rows(model(), [*sessions, Kept("x", sessions[0].created, sessions[0].moves, "something else")])
    assert len(y) == 30
    assert set(y) <= set(LABELS)
    assert list(X.columns) == ["is_a", "is_b", "is_c", "coin"]
    told = [len([move for move in one.moves["moves"] if move["move"] == "tell"]) for one in sessions]
    assert X.notna().sum(axis=1).tolist() == told
    assert model().predict(X).shape == (30,)
