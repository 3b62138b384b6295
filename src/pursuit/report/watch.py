"""A model that is watched after it is served: what sessions with people say of its promises, and the sessions whose
truth is known as rows to learn from.

What people confirm is evidence. A result that was stated with a probability is a claim, and a sequence of claims can be
bet against: whoever stakes a part of what he owns on "wrong" at the odds that the claim implies does not get rich as
long as claims hold, whenever he looks (Ville's inequality). So an alarm that is raised once a unit has become
1 / `alarm` units is false in a share of `alarm` of all models that keep their promise, over all time together.
"""

import datetime
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from pursuit.estimators import PursuitEstimator
from pursuit.evaluation.calibration import COVERAGE, N_BINS, ReliabilityBin, accuracy_interval
from pursuit.inference.history import History
from pursuit.inference.pursuer import label_list, label_text
from pursuit.inference.rollout import template_state
from pursuit.inference.target_bins import COVERAGE as OF_NUMBERS
from pursuit.inference.target_bins import target_of
from pursuit.inference.unusual import FALSE_ALARMS, LEAST_VARIANCE, knows_unusual, unusual_of
from pursuit.queries.column import Date, Number, parse_choice, with_point
from pursuit.queries.dates import DAY, EPOCH
from pursuit.report.facts import count, share
from pursuit.report.page import render
from pursuit.sessions.log import GoOn, Reject, Tell, label_index
from pursuit.sessions.session import Session
from pursuit.training.rows import Rows

ALARM = 0.01
"""The share of models that keep their promise and are alarmed about, ever."""
TOLERANCE = 0.05
"""How much more often than it says a model may be wrong before that breaks its promise."""
STAKES = (0.05, 0.1, 0.2, 0.4)
"""The parts of what is owned that are staked on each result; a quarter of the money follows each."""
DAYS_OF_WEEKS = 120
"""Sessions of a longer time are reported by months."""
LEAST_ANSWERS = 20
"""To a question, before it is said that they have moved."""
MOST_LISTED = 50
STATED = "stated"
"""The key of the first result in saved moves, where the person went on after it."""


@dataclass(frozen=True, kw_only=True)
class KeptSession:
    """What is kept of a session."""

    id: str
    revision: int
    created: datetime.datetime
    updated: datetime.datetime
    fingerprint: str
    moves: dict[str, Any]
    done: bool
    outcome: str | None
    probability: float | None
    low: float | None
    high: float | None
    truth: str | None
    accepted: bool


@dataclass(frozen=True)
class StatedResult:
    """A result as the person saw it."""

    outcome: str | None
    probability: float | None
    low: float | None
    high: float | None
    """The ends of the 90 % range of a number."""

    def is_true(self, truth: str) -> bool | None:
        """Whether this was the label, or the number lies in the range; None if it has a range and the truth is no
        number."""
        if self.low is None or self.high is None:
            return truth.casefold() == str(self.outcome).casefold()
        number = number_of(truth)
        return None if number is None else self.low <= number <= self.high


@dataclass(frozen=True)
class Claim:
    """A result that was stated with a probability, and what it really was."""

    known: datetime.datetime
    """When it was known what it was."""
    probability: float
    right: bool


@dataclass(frozen=True)
class Period:
    """Sessions of a week or of a month."""

    name: str
    n: int
    mean_asked: float
    asked_interval: tuple[float, float] | None
    """Of the mean, with 95 % confidence; None for a single session."""
    n_judged: int
    n_right: int
    accuracy_interval: tuple[float, float] | None
    n_unusual: int


@dataclass(frozen=True)
class AskedQuestion:
    """What people answered to a question."""

    name: str
    text: str
    n_asked: int
    n_unknown: int
    """How often the answer was "don't know"."""
    moved: "MovedAnswer | None"
    """The answer whose frequency differs most from what was expected; None where nobody knows."""
    has_moved: bool
    """Whether it differs by more than chance among so many answers explains, in all but a share of `alarm` of looks."""


@dataclass(frozen=True)
class MovedAnswer:
    """An answer that is given more or less often than the model expects after what was said before it."""

    text: str
    observed: float
    expected: float
    """Shares of all answers to its question."""
    deviation: float
    """The difference in standard deviations."""


@dataclass(frozen=True)
class Watch:
    """What sessions say of a model."""

    n_sessions: int
    """Those with the model as it is now, of which all is said but what is said of `periods`."""
    n_earlier: int
    """Sessions with an earlier version of the model: before it was trained again, recalibrated or worded anew."""
    n_unreadable: int
    """Sessions of an earlier model, whose questions this one does not have."""
    n_judged: int
    n_right: int
    interval: tuple[float, float] | None
    stated: float | None
    """How often results should have been right, by the probabilities that were stated."""
    reliability: tuple[ReliabilityBin, ...]
    periods: tuple[Period, ...]
    questions: tuple[AskedQuestion, ...]
    n_unusual: int
    unusual: tuple[str, ...]
    """The ids of sessions with unusual answers, the last ones."""
    knows_unusual: bool
    evidence: float
    """What a unit became that was bet against the promise; the most so far."""
    alarm: float
    tolerance: float
    alarmed_at: datetime.datetime | None

    @classmethod
    def of(
        cls,
        estimator: PursuitEstimator,
        sessions: Iterable[KeptSession],
        alarm: float = ALARM,
        tolerance: float = TOLERANCE,
        looked_at: "dict[Any, SeenSession] | None" = None,
        fingerprint: str | None = None,
        settled_after: float = 0.0,
        now: datetime.datetime | None = None,
    ) -> "Watch":
        """Look at sessions, the oldest first. What is `looked_at` already, and has not changed since, is not looked at
        again. With a `fingerprint`, results that a model of another one stated count in `periods` alone. Results are
        judged once their truth is known and `settled_after` days have passed, by `now` in UTC."""
        looked_at, wait = {} if looked_at is None else looked_at, datetime.timedelta(days=settled_after)
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) if now is None else now
        if not 0 < alarm < 1 or not 0 <= tolerance < 1:
            raise ValueError("The rate of false alarms lies between 0 and 1, and the tolerance is 0 or more, below 1.")
        everything, seen, n_unreadable = [], [], 0
        model: Any = estimator.model_
        template = template_state(model, model.query_set.blank())
        rule = estimator.stopping_rule()
        for kept in sessions:
            key = kept.id, kept.revision, kept.updated
            try:
                if key not in looked_at:
                    looked_at[key] = _look(kept, Session.from_dict(kept.moves, model, rule, template=template))
            except (ValueError, TypeError):
                n_unreadable += 1
                continue
            one = looked_at[key]
            if kept.created + wait > now:
                one = replace(one, claim=None)
            everything.append(one)
            if fingerprint in (None, kept.fingerprint):
                seen.append(one)
        # In the order in which they could be judged, which no truth that comes later can change.
        in_order = sorted((max(one.claim.known, one.begun + wait), one.id, one.claim) for one in seen if one.claim)
        claims = [claim for _, _, claim in in_order]
        n_right = sum(claim.right for claim in claims)
        wealth = evidence([one.probability for one in claims], [one.right for one in claims], tolerance)
        beyond = np.flatnonzero(wealth >= math.log(1 / alarm))
        unusual = [one.id for one in seen if one.is_unusual]
        return cls(
            n_sessions=len(seen),
            n_earlier=len(everything) - len(seen),
            n_unreadable=n_unreadable,
            n_judged=len(claims),
            n_right=n_right,
            interval=accuracy_interval(n_right, len(claims)) if claims else None,
            stated=statistics.fmean(one.probability for one in claims) if claims else None,
            reliability=_reliability(claims),
            periods=_periods(everything),
            questions=_questions(model, seen, alarm, _n_learnt(estimator.notes_.get("task", {}))),
            n_unusual=len(unusual),
            unusual=tuple(unusual[-MOST_LISTED:]),
            knows_unusual=knows_unusual(model),
            evidence=float(np.exp(min(700.0, wealth.max()))) if len(claims) else 1.0,
            alarm=alarm,
            tolerance=tolerance,
            alarmed_at=in_order[int(beyond[0])][0] if len(beyond) else None,
        )

    @property
    def is_alarmed(self) -> bool:
        return self.alarmed_at is not None

    @property
    def sentences(self) -> list[str]:
        """What to know first."""
        found = [f"{count(self.n_sessions, 'session')}, of which the truth is known of {self.n_judged:,}."]
        if self.n_earlier:
            found.append(
                f"Besides, {count(self.n_earlier, 'session')} with an earlier version of the model, which are only "
                "counted over time."
            )
        if self.n_unreadable:
            found.append(f"Left out: {count(self.n_unreadable, 'session')} of an earlier model.")
        if self.interval is not None and self.stated is not None:
            low, high = self.interval
            found.append(
                f"{share(self.n_right / self.n_judged)} of these were right (95 %: {share(low)} to {share(high)}), "
                f"and {share(self.stated)} should have been, by what the model said."
            )
        promise = f"that results are right as often as it says, less {share(self.tolerance)}"
        if self.is_alarmed:
            found.append(
                f"Alarm: since {self.alarmed_at:%Y-%m-%d} the model does not keep its promise, {promise}. A model that "
                f"does is alarmed about in at most {share(self.alarm)} of all cases."
            )
        elif self.n_judged:
            found.append(
                f"No alarm: the promise, {promise}, may hold. An alarm needs evidence of {1 / self.alarm:,.0f}, and "
                f"the most so far was {self.evidence:,.1f}."
            )
        else:
            found.append("Nobody confirmed a result yet, so nothing can be said of the promise.")
        for one in [one for one in self.questions if one.has_moved][:5]:
            assert one.moved is not None
            found.append(
                f"Answers have moved: “{one.moved.text}” to “{one.text}” is given by {share(one.moved.observed)}, "
                f"where the rows of training let one expect {share(one.moved.expected)}."
            )
        if self.knows_unusual and self.n_sessions:
            found.append(
                f"{count(self.n_unusual, 'session')} had unusual answers ({share(self.n_unusual / self.n_sessions)}; "
                f"{share(FALSE_ALARMS)} would, if people were like the rows of training)."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        moment = None if self.alarmed_at is None else self.alarmed_at.isoformat()
        return {**asdict(self), "alarmed_at": moment, "is_alarmed": self.is_alarmed, "sentences": self.sentences}

    def html(self, title: str) -> str:
        """A page that is whole by itself."""
        return render(
            "watch.html", watch=self, facts={"name": title}, subtitle="watched after it is served", contents=[]
        )


def evidence(claimed: Sequence[float], right: Sequence[bool], tolerance: float = TOLERANCE) -> np.ndarray:
    """The logarithm of what a unit has become after each claim (N,), bet against "right at least as often as claimed,
    less the tolerance".

    A part of the money waits and begins to bet with the 2nd, 4th, 8th, … claim, so that a long good time does not lose
    all of it before a bad one.
    """
    if not len(claimed):
        return np.zeros(0)
    # Right with a probability of at least q, a stake of f / (1 - q) wins f q / (1 - q) or loses f: nothing is won on
    # average.
    q = np.clip(np.asarray(claimed, dtype=float) - tolerance, 0.0, 0.99)
    grown = []
    for k in range(math.floor(math.log2(len(q))) + 1):
        for part in STAKES:
            factors = np.where(np.asarray(right, dtype=bool), math.log(1 - part), np.log1p(part * q / (1 - q)))
            factors[: 2**k - 1] = 0.0
            grown.append(factors.cumsum() - math.log((k + 1) * (k + 2) * len(STAKES)))
    waiting = np.full(len(q), -math.log(math.floor(math.log2(len(q))) + 2))  # what begins to bet later
    return np.asarray(np.logaddexp.reduce([*grown, waiting], axis=0))


@dataclass(frozen=True)
class SeenSession:
    """A session that was looked at."""

    id: str
    begun: datetime.datetime
    claim: Claim | None
    is_unusual: bool
    answers: tuple[tuple[int, str, dict[str, float]], ...]
    """Of each answer that the model foresees: the query, the answer, and the probabilities of all before it."""
    asked: tuple[int, ...]
    """Queries that were asked."""
    unknown: tuple[int, ...]
    """Those of them that could not be answered."""


@torch.no_grad()
def _look(kept: KeptSession, session: Session) -> SeenSession:
    log = session._log
    tells = [move for move in session.moves if isinstance(move, Tell)]
    asked = [move for move in tells if not move.volunteered]
    return SeenSession(
        id=kept.id,
        begun=kept.created,
        claim=_claim(kept, session),
        is_unusual=unusual_of(session.pursuer, log.x[0], session.chain) is not None,
        answers=tuple(_foreseen(session, [move.query for move in tells if move.answer is not None])),
        asked=tuple(move.query for move in asked),
        unknown=tuple(move.query for move in asked if move.answer is None),
    )


def _claim(kept: KeptSession, session: Session) -> Claim | None:
    """The first result that was stated, if it is known whether it was right: as it was stated, whatever the model and
    its rule would say now."""
    objection = next((i for i, move in enumerate(session.moves) if isinstance(move, Reject | GoOn)), None)
    stated = StatedResult(kept.outcome, kept.probability, kept.low, kept.high) if kept.done else None
    if kept.moves.get(STATED) is not None:
        stated = StatedResult(**kept.moves[STATED])
    elif objection is not None and STATED not in kept.moves:  # kept by a version that did not note it
        stated = _result_at(session, objection)
    if stated is None or stated.outcome is None:
        return None
    if kept.truth is not None:
        right = stated.is_true(kept.truth)
    elif stated.outcome in map(label_text, session.excluded):
        right = False
    else:
        right = (objection is None or stated.outcome == kept.outcome) if kept.accepted else None
    if right is None:
        return None
    return Claim(kept.updated, OF_NUMBERS if stated.probability is None else stated.probability, right)


def _result_at(session: Session, place: int) -> StatedResult:
    """What the model says now that it stated before the move at a place."""
    belief = session._log.positions[place].log_posterior[0].exp()
    if (target := target_of(session.pursuer)) is not None:
        low, high = target.interval(belief[None])[0].tolist()
        return StatedResult(target.text(float(target.mean(belief))), None, low, high)
    return StatedResult(label_text(session.pursuer.classes[int(belief.argmax())]), float(belief.max()), None, None)


def _foreseen(session: Session, queries: list[int]) -> Iterator[tuple[int, str, dict[str, float]]]:
    """What the model expected of each answer, where it says."""
    foresee: Any = session.pursuer
    answers = getattr(getattr(foresee, "answer_model", None) or foresee, "outcomes", None)
    if answers is None or not hasattr(foresee, "possible_answers"):
        return
    x, known = session._log.x, torch.zeros(1, len(foresee.query_set), dtype=torch.bool)
    holds = answers.holds(x)[0]
    for query in queries:
        if len(foresee.query_set.units.of_query[query]) == 1:
            held = [place for place, value in enumerate(answers.values_of_query(query)) if holds[value]]
            expected = {one.text: one.probability for one in foresee.possible_answers(History(x, known, known), query)}
            own = {text: expected.get(text, 0.0) for text in answers.describe(query)}
            if held and (total := sum(own.values())) > 0:
                yield query, [*own][held[0]], {text: share / total for text, share in own.items()}
        known = known.clone()
        known[0, query] = True


def _reliability(claims: Sequence[Claim]) -> tuple[ReliabilityBin, ...]:
    bins: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        bins[min(int(claim.probability * N_BINS), N_BINS - 1)].append(claim)
    return tuple(
        ReliabilityBin.of(number, len(own), sum(one.probability for one in own), sum(one.right for one in own))
        for number, own in sorted(bins.items())
    )


def _periods(seen: Sequence[SeenSession]) -> tuple[Period, ...]:
    if not seen:
        return ()
    is_long = (max(one.begun for one in seen) - min(one.begun for one in seen)).days > DAYS_OF_WEEKS
    parts: dict[str, list[SeenSession]] = defaultdict(list)
    for one in seen:
        parts[f"{one.begun:%Y-%m}" if is_long else f"{one.begun:%G week %V}"].append(one)
    return tuple(_period(name, own) for name, own in sorted(parts.items()))


def _period(name: str, own: Sequence[SeenSession]) -> Period:
    asked, claims = [len(one.asked) for one in own], [one.claim for one in own if one.claim is not None]
    mean, interval = statistics.fmean(asked), None
    if len(asked) > 1:
        z = statistics.NormalDist().inv_cdf((1 + COVERAGE) / 2)
        reach = z * statistics.stdev(asked) / math.sqrt(len(asked))
        interval = max(0.0, mean - reach), mean + reach
    n_right = sum(claim.right for claim in claims)
    right = accuracy_interval(n_right, len(claims)) if claims else None
    return Period(name, len(own), mean, interval, len(claims), n_right, right, sum(one.is_unusual for one in own))


def _n_learnt(task: dict[str, Any]) -> float:
    """Number of training rows, from the notes that `pursuit train` keeps; infinite without notes."""
    n_rows = float(task.get("n_rows", math.inf)) * (1 - task.get("test_share", 0))
    return n_rows if n_rows > 0 else math.inf


def _questions(model: Any, seen: Sequence[SeenSession], alarm: float, n_learnt: float) -> tuple[AskedQuestion, ...]:
    given: dict[int, list[tuple[str, dict[str, float]]]] = defaultdict(list)
    for one in seen:
        for query, answer, expected in one.answers:
            given[query].append((answer, expected))
    asked = Counter(query for one in seen for query in one.asked)
    unknown = Counter(query for one in seen for query in one.unknown)
    # What is expected was learnt from rows that are a sample, too.
    factor = 1 + len(seen) / n_learnt
    moved = {query: _most_moved(own, factor) for query, own in given.items()}
    n_looks = sum(len(own[0][1]) for query, own in given.items() if moved[query] is not None)
    limit = statistics.NormalDist().inv_cdf(1 - alarm / (2 * max(1, n_looks)))
    found = []
    for query in sorted(asked.keys() | given.keys()):
        wording, own = model.query_set.queries[query], moved.get(query)
        has_moved = own is not None and abs(own.deviation) > limit
        n_asked = max(asked[query], len(given[query]))
        found.append(AskedQuestion(wording.name, wording.text, n_asked, unknown[query], own, has_moved))
    return tuple(sorted(found, key=lambda one: (not one.has_moved, -one.n_asked)))


def _most_moved(given: Sequence[tuple[str, dict[str, float]]], factor: float) -> MovedAnswer | None:
    """The answer to a question whose frequency deviates most; None where there are too few answers. What is expected
    is foreseen before each answer, so that it does not matter whom the question is asked. Frequencies vary `factor`
    times as much as if what is expected were certain."""
    if len(given) < LEAST_ANSWERS:
        return None
    found = []
    for text in given[0][1]:
        shares = [expected.get(text, 0.0) for _, expected in given]
        n, total = sum(answer == text for answer, _ in given), sum(shares)
        variance = factor * sum(p * (1 - p) for p in shares)
        # The variance of one answer more: where next to none is expected, a single one proves little.
        found.append(
            MovedAnswer(text, n / len(given), total / len(given), (n - total) / math.sqrt(variance + LEAST_VARIANCE))
        )
    return max(found, key=lambda one: (round(abs(one.deviation), 6), one.deviation))


@dataclass(frozen=True)
class Confirmed:
    """The sessions whose truth is known, each with it: a label of the model, or a number where it predicts one."""

    pairs: tuple[tuple[Session, Any], ...]
    n_unknown: int
    """Number of sessions whose truth is not a label of the model, so that it cannot learn from them."""

    @classmethod
    def of(cls, estimator: PursuitEstimator, sessions: Iterable[KeptSession]) -> "Confirmed":
        """A truth is what somebody noted, or a result that somebody accepted."""
        model: Any = estimator.model_
        template, pairs, n_unknown = template_state(model, model.query_set.blank()), [], 0
        for kept in sessions:
            truth = kept.truth
            if truth is None and kept.accepted and target_of(model) is None:
                truth = kept.outcome
            if truth is None:
                continue
            try:
                session = Session.from_dict(kept.moves, model, template=template)
            except ValueError:
                continue
            known = _truth(model, truth)
            n_unknown += known is None
            pairs += [] if known is None else [(session, known)]
        return cls(tuple(pairs), n_unknown)

    @property
    def remark(self) -> str:
        """Which sessions are left out; empty if none are."""
        if not self.n_unknown:
            return ""
        return f"Left out: {count(self.n_unknown, 'session')} whose truth is not one of the model's labels."

    def histories(self) -> Rows:
        """What was answered, as the model reads it, and no more: what was not asked is not an empty cell."""
        histories = [session.history for session, _ in self.pairs]
        model, truths = self.pairs[0][0].pursuer, [truth for _, truth in self.pairs]
        target = target_of(model)
        codes = (
            np.array([label_index(model, one) for one in truths]) if target is None else target.codes(np.array(truths))
        )
        x, known = (torch.cat([getattr(one, name) for one in histories]) for name in ("x", "known"))
        return Rows(x, known, torch.from_numpy(codes))

    def table(self, estimator: PursuitEstimator) -> tuple[pd.DataFrame, np.ndarray]:
        """The answers as they would stand in the table that the model was trained on, with the truths; an answer that
        nobody gave is missing. Raises ValueError where a table cannot say so."""
        model: Any = estimator.model_
        queries, columns = model.query_set.queries, getattr(estimator, "feature_names_in_", None)
        if columns is None or not {query.name for query in queries} <= set(columns.tolist()):
            raise ValueError(
                "Sessions become rows where a model asks for the columns of a table, and this one does not: train it "
                "on a table whose columns have names."
            )
        if means := [
            query.name for query in queries if query.may_be_missing or getattr(query, "empty_means", None) is not None
        ]:
            raise ValueError(
                f"An empty cell of '{means[0]}' is an answer, so that sessions in which it was not asked cannot stand "
                "in a table: leave out --and."
            )
        rows = [
            {
                queries[query].name: _cell(queries[query], told.answer)
                for query, told in session._log.told.items()
                if told.answer is not None
            }
            for session, _ in self.pairs
        ]
        dtype = None if target_of(model) is None else float
        return pd.DataFrame(rows, columns=columns.tolist()), np.array([truth for _, truth in self.pairs], dtype=dtype)


def _cell(query: Any, answer: Any) -> Any:
    """An answer as it is written in a table, however a person wrote it."""
    if isinstance(query, Date):
        return (EPOCH + query.parse(answer) * DAY).strftime(query.pattern)
    return query.parse(answer) if isinstance(query, Number) else query.values[parse_choice(query, answer)]


def _truth(model: Any, text: str) -> Any:
    """The label, or the number, that a text says; None if it says none."""
    if target_of(model) is not None:
        return number_of(text)
    try:
        return label_list(model.classes)[label_index(model, text)]
    except ValueError:
        return None


def number_of(text: str) -> float | None:
    """A number that somebody wrote, as 1234.5, 1.234,5 or 3,5; None if it is none, or may mean two (1,234)."""
    try:
        number = float(with_point(text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
