"""A model that is watched: false alarms as rare as they are said to be, and what sessions tell."""

import copy
import datetime
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pursuit.inference.stopping import parse_stop
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.report.watch import (
    ALARM,
    STATED,
    Claim,
    Confirmed,
    KeptSession,
    SeenSession,
    Watch,
    _most_moved,
    evidence,
    number_of,
)
from pursuit.sessions.session import Session

LABELS = np.array(["a", "b", "c"])
BEGUN = datetime.datetime(2026, 1, 5)


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


UNFINISHED = KeptSession(
    id="1",
    revision=0,
    created=BEGUN,
    updated=datetime.datetime(2026, 6, 1),
    fingerprint="now",
    moves={},
    done=False,
    outcome=None,
    probability=None,
    low=None,
    high=None,
    truth=None,
    accepted=False,
)


def kept(session: Session, begun: datetime.datetime, truth: str | None, **others: Any) -> KeptSession:
    """A session as the server keeps it."""
    (outcome, probability), *_ = session.posterior.items()
    result = {"outcome": str(outcome), "probability": probability} if session.done else {}
    known = {"done": session.done, "updated": begun, "id": str(begun), **result, **others}
    return replace(UNFINISHED, created=begun, moves=session.to_dict(), truth=truth, **known)


def table(rng: np.random.Generator, n: int, flip: float = 0.1) -> tuple[pd.DataFrame, np.ndarray]:
    y = rng.integers(0, 3, n)
    columns = {f"is_{LABELS[i]}": np.where((y == i) ^ (rng.random(n) < flip), "yes", "no") for i in range(3)}
    columns["coin"] = np.where(rng.random(n) < 0.5, "yes", "no")
    return pd.DataFrame(columns), LABELS[y]


@cache
def model() -> NaiveBayesIPClassifier:
    return NaiveBayesIPClassifier(random_state=0, stop="confidence=0.9").fit(*table(np.random.default_rng(0), 1000))


@cache
@cache
def played(n: int, flip: float = 0.1, coin: float | None = None, unknown: str = "") -> list[KeptSession]:
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
        found.append(kept(session, BEGUN + datetime.timedelta(hours=6 * i), str(y[i])))
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
    sessions = [replace(one, truth=None) for one in played(40, unknown="is_b")]
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
    watch = Watch.of(model(), [kept(session, BEGUN, None)])
    assert (watch.n_judged, watch.n_right) == (1, 0)
    assert watch.stated == pytest.approx(stated)


def test_a_session_of_another_model_is_left_out() -> None:
    other = replace(UNFINISHED, moves={"format": 2, "moves": [{"move": "tell", "query": "x"}]}, truth="a")
    watch = Watch.of(model(), [other])
    assert (watch.n_sessions, watch.n_unreadable) == (0, 1)
    assert "Left out: 1 session of an earlier model." in watch.sentences


def test_confirmed_sessions_are_rows_of_the_answers_that_were_given() -> None:
    sessions = played(100)[:30]
    confirmed = Confirmed.of(model(), [*sessions, replace(sessions[0], truth="something else")])
    assert confirmed.n_unknown == 1
    X, y = confirmed.table(model())
    assert len(y) == 30
    assert set(y) <= set(LABELS)
    assert list(X.columns) == ["is_a", "is_b", "is_c", "coin"]
    told = [len([move for move in one.moves["moves"] if move["move"] == "tell"]) for one in sessions]
    assert X.notna().sum(axis=1).tolist() == told
    assert model().predict(X).shape == (30,)
    rows = confirmed.histories()
    assert rows.available.sum(dim=1).tolist() == told
    assert [str(model().classes_[i]) for i in rows.y] == y.tolist()


def test_answers_stand_in_a_table_as_the_table_has_them() -> None:
    """However a person wrote them: a text among numbers would make texts of all."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"city": rng.permuted(["Rome", "Bonn"] * 50), "weight": rng.normal(70, 9, 100).round(1)}
        | {"since": [f"{day:02}.{month:02}.2024" for day, month in rng.integers(1, 13, (100, 2))]}
    )
    asked = NaiveBayesIPClassifier(random_state=0).fit(X, np.where(X["weight"] > 70, "a", "b"))
    session = asked.session()
    for name, answer in {"city": "bonn", "weight": "71,5", "since": "2024-03-01"}.items():
        session.tell(answer, name)
    table, _ = Confirmed.of(asked, [kept(session, BEGUN, "A")]).table(asked)
    assert table.iloc[0].to_dict() == {"city": "Bonn", "weight": 71.5, "since": "01.03.2024"}


def test_what_was_not_asked_is_no_empty_cell() -> None:
    rng = np.random.default_rng(0)
    ticked = np.where(rng.random(200) < 0.3, "x", None)
    X = pd.DataFrame({"cough": ticked, "fever": rng.permuted(["yes", "no"] * 100)})
    asked = NaiveBayesIPClassifier(random_state=0).fit(X, np.where(ticked == "x", "a", "b"))
    session = asked.session()
    session.tell("yes", "fever")
    confirmed = Confirmed.of(asked, [kept(session, BEGUN, "a")])
    assert confirmed.histories().available.tolist() == [[False, True]]
    with pytest.raises(ValueError, match="An empty cell of 'cough' is an answer"):
        confirmed.table(asked)


def test_results_are_judged_as_they_were_stated() -> None:
    """A server may ask by another rule than the model's own, and the model may have been another one then."""
    sessions = []
    for i in range(20):
        session = Session(model().model_, parse_stop("budget=1"))
        session.tell("no" if i % 2 else "yes")
        sessions.append(kept(session, BEGUN, "a", id=str(i), probability=0.7, outcome="b" if i < 5 else "a"))
    watch = Watch.of(model(), sessions)
    assert (watch.n_judged, watch.n_right) == (20, 15)
    assert watch.stated == pytest.approx(0.7)
    unfinished = [replace(one, done=False, outcome=None, probability=None) for one in sessions]
    assert Watch.of(model(), unfinished).n_judged == 0


def test_what_an_earlier_version_stated_counts_over_time_alone() -> None:
    new = played(100)[:50]
    old = [replace(one, fingerprint="old") for one in played(100, flip=0.45)[50:]]
    looked_at: dict[Any, SeenSession] = {}
    watch = Watch.of(model(), [*new, *old], fingerprint="now", looked_at=looked_at)
    assert (watch.n_sessions, watch.n_earlier, watch.n_judged) == (50, 50, 50)
    assert not watch.is_alarmed
    assert sum(one.n for one in watch.periods) == sum(one.n_judged for one in watch.periods) == 100
    assert watch == replace(Watch.of(model(), new, looked_at=looked_at), periods=watch.periods, n_earlier=50)
    assert any(one.startswith("Besides, 50 sessions with an earlier version") for one in watch.sentences)
    assert Watch.of(model(), [*new, *old], looked_at=looked_at).is_alarmed


@pytest.mark.parametrize("is_noted", [True, False])
def test_the_first_result_is_judged_of_who_went_on_after_it(is_noted: bool) -> None:
    """And none is of who said that a guess was wrong before there was a result."""
    session = model().session()
    first, probability = "b", 0.61
    stated = {STATED: {"outcome": first, "probability": probability, "low": None, "high": None}}
    session.reject("c")
    while not session.done:
        session.tell("yes" if session.ask().name == "is_a" else "no")
    one = kept(session, BEGUN, "b" if is_noted else None, accepted=True)
    assert one.outcome == "a"
    objected = Watch.of(model(), [replace(one, moves=one.moves | stated)])
    assert (objected.n_judged, objected.n_right, objected.stated) == (1, int(is_noted), probability)
    early = Watch.of(model(), [replace(one, moves=one.moves | {STATED: None})])
    assert (early.n_judged, early.n_right, early.stated) == (1, int(not is_noted), one.probability)


def test_truths_that_come_late_take_no_evidence_back() -> None:
    """In the order of their beginning, one that comes late would change all evidence after it."""
    rng = np.random.default_rng(2)
    sessions = played(100, flip=0.45)[:40]
    delays = rng.exponential(15, len(sessions))
    late = [
        replace(one, updated=one.created + datetime.timedelta(days=d)) for one, d in zip(sessions, delays, strict=True)
    ]
    looked_at: dict[Any, SeenSession] = {}
    found = []
    for moment in sorted(one.updated for one in late):
        known = [one if one.updated <= moment else replace(one, truth=None, updated=one.created) for one in late]
        found.append(Watch.of(model(), known, looked_at=looked_at).evidence)
    assert found == sorted(found)
    assert found[-1] > 10


@pytest.mark.parametrize(
    ("is_sooner", "settled_after"),
    [(False, 0), *(pytest.param(True, days, marks=pytest.mark.slow) for days in (30, 0))],
)
def test_false_alarms_are_as_rare_as_is_said_however_late_truths_come(is_sooner: bool, settled_after: int) -> None:
    """Looked at now and then. Where wrong results are known sooner than right ones, they wait until both are."""
    rng, rate, n_models, n_alarms = np.random.default_rng(0), 0.1, 200 if is_sooner else 80, 0
    days = [BEGUN + datetime.timedelta(days=i / 4) for i in range(200)]
    blank = kept(model().session(), BEGUN, None)
    looked_at: dict[Any, SeenSession] = {}
    Watch.of(model(), [blank], looked_at=looked_at)
    (seen,) = looked_at.values()
    for _ in range(n_models):
        stated = rng.uniform(0.4, 0.99, len(days))
        right = rng.random(len(days)) < stated - 0.05
        delays = 30 * rng.random(len(days)) * (right if is_sooner else 1)
        known = [day + datetime.timedelta(days=delay) for day, delay in zip(days, delays, strict=True)]
        sessions = [replace(blank, id=str(i), created=days[i], updated=known[i]) for i in range(len(days))]
        claims = [Claim(moment, p, bool(r)) for moment, p, r in zip(known, stated, right, strict=True)]
        parts = zip(sessions, claims, strict=True)
        looked_at = {
            (one.id, 0, one.updated): replace(seen, id=one.id, begun=one.created, claim=claim) for one, claim in parts
        }
        looks = [days[k] for k in (20, 40, 80, 120, 199)] + [max(known) + datetime.timedelta(days=settled_after)]
        n_alarms += any(
            Watch.of(
                model(),
                [one for one in sessions if one.updated <= look],
                rate,
                looked_at=looked_at,
                settled_after=settled_after,
                now=look,
            ).is_alarmed
            for look in looks
        )
    limit = rate + 3 * np.sqrt(rate * (1 - rate) / n_models)
    assert (n_alarms / n_models <= limit) == (not is_sooner or settled_after == 30)


def test_an_accepted_result_is_the_one_that_the_person_saw() -> None:
    one = replace(played(1)[0], truth=None, accepted=True)
    for label in LABELS:
        ((_, truth),) = Confirmed.of(model(), [replace(one, outcome=label.upper())]).pairs
        assert truth == label
