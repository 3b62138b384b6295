"""Sessions as the server has them: begun, moved, shown again, judged by what it really was, listed and deleted."""

import csv
import datetime
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from typing import Any

import anyio
from sqlalchemy import exc

from pursuit.evaluation.calibration import accuracy_interval
from pursuit.inference.predictions import BETWEEN
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.target_bins import target_of
from pursuit.queries import DoubtfulAnswer, Order
from pursuit.queries.own_words import Suggestion
from pursuit.registry import UnknownName
from pursuit.report import ChainsReport, ExplainedRow, ModelFacts
from pursuit.report.watch import STATED, SeenSession, StatedResult, Watch, number_of
from pursuit.sessions.log import FORMAT, GoOn, Reject, Tell, query_index
from pursuit.sessions.session import Session, foresee, make_move
from pursuit.sessions.state import State
from pursuit.sessions.why import Why
from pursuit.web.serving import schemas
from pursuit.web.serving.models import ServedModel, ServedModels
from pursuit.web.serving.pictures import Picture
from pursuit.web.serving.problems import NotFound, Outdated, Refused
from pursuit.web.serving.store import Judged, RetentionLoop, Search, SessionRecord, Store, StoredSession


def checked_truth(pursuer: Pursuer, label: str | None) -> str | None:
    """What a person says that it was. It may be a label that the model does not know; a number must be one."""
    if label is None or not label.strip():
        return None
    if target_of(pursuer) is not None and number_of(label) is None:
        raise ValueError(f"The model predicts a number, so the truth is one too, not “{label.strip()}”.")
    return label.strip()


def is_right(stored: StoredSession | Judged) -> bool | None:
    """Whether the first guess of a session was right, or the number lay in the range that was given; None where nobody
    knows. A person who accepts a result says that it is right; one who called a guess wrong, that it was not."""
    if stored.outcome is None or (stored.truth is None and not stored.accepted):
        return None
    if stored.n_rejected:
        return False
    stated = StatedResult(stored.outcome, None, stored.low, stored.high)
    is_true = None if stored.truth is None else stated.is_true(stored.truth)
    return stored.accepted if is_true is None else is_true


def accuracy_of(sessions: Iterable[Judged]) -> schemas.Accuracy:
    """How often sessions, the oldest first, were right, day by day and so far."""
    judged = [(one.date, one.n, one.n * right) for one in sessions if (right := is_right(one)) is not None]
    points, n, n_right = [], 0, 0
    for date, group in groupby(judged, key=lambda one: one[0]):
        of_day = list(group)
        n_of_day, n_right_of_day = sum(total for _, total, _ in of_day), sum(right for _, _, right in of_day)
        n, n_right = n + n_of_day, n_right + n_right_of_day
        points.append(
            schemas.DayOfAccuracy(
                date=date,
                n=n_of_day,
                n_right=n_right_of_day,
                so_far_n=n,
                so_far_right=n_right,
                so_far_accuracy=n_right / n,
            )
        )
    return schemas.Accuracy(
        n=n,
        n_right=n_right,
        accuracy=n_right / n if n else None,
        interval=accuracy_interval(n_right, n) if n else None,
        points=points,
    )


COLUMNS: dict[str, Callable[[StoredSession], Any]] = {
    "id": lambda one: one.id,
    "model": lambda one: one.model,
    "title": lambda one: one.title,
    "begun": lambda one: f"{one.created:%Y-%m-%d %H:%M:%S}",
    "last change": lambda one: f"{one.updated:%Y-%m-%d %H:%M:%S}",
    "finished": lambda one: _yes_no(one.done),
    "result": lambda one: one.outcome or "",
    "probability": lambda one: "" if one.probability is None else f"{one.probability:.4f}",
    "decided": lambda one: "" if one.decided is None else "decided" if one.decided else "not sure",
    "labels that remain": lambda one: one.label_set or "",
    "questions asked": lambda one: one.n_asked,
    "accepted": lambda one: _yes_no(one.accepted),
    "true result": lambda one: one.truth or "",
    "right": lambda one: _yes_no(is_right(one)),
    "answers": lambda one: one.answers,
}
"""The columns of the file by their titles."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet would compute."""


def csv_lines(sessions: Iterable[StoredSession]) -> Iterator[str]:
    """The file, line by line. It begins with the mark by which spreadsheets know that it is UTF-8."""
    yield "\ufeff" + _line(COLUMNS)
    for one in sessions:
        yield _line(cell(one) for cell in COLUMNS.values())


def _line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([harmless(str(cell)) for cell in cells])
    return text.getvalue()


def harmless(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: numbers stay as they are, other texts get an apostrophe."""
    if not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _yes_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


MOST_LIVE = 1000
"""How many sessions are kept in memory."""
MOST_MOVES = 5000
"""In one session."""
UNWRITABLE = exc.OperationalError, exc.TimeoutError
"""Errors of the database itself, whatever is written."""
ASKED = "asked"
"""Where saved moves name the question that the person was asked last."""
OVER = "The interview is over, so nothing is asked: go on, say that the result is wrong, or take an answer back."


class LiveSessions:
    """The sessions used last, each at one revision: as this process wrote it last, though another one may have written
    since. Whoever takes one has it for himself, until he puts it back."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, tuple[StoredSession, Session]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, session_id: str, revision: int) -> tuple[StoredSession, Session] | None:
        """The session at this revision; None where it has to be made again."""
        with self._lock:
            kept = self._sessions.pop(session_id, None)
        return None if kept is None or kept[0].revision != revision else kept

    def put(self, stored: StoredSession, session: Session) -> None:
        with self._lock:
            self._sessions[stored.id] = stored, session
            self._sessions.move_to_end(stored.id)
            while len(self._sessions) > MOST_LIVE:
                self._sessions.popitem(last=False)

    def drop(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)


class Interviews:
    """All sessions of a server. Any of its functions may be called from any thread.

    One of them computes at a time: a step is a hundred small operations of torch, after each of which threads would
    take turns, and all would take twice as long. Meanwhile others read and write the database.
    """

    def __init__(
        self, models: ServedModels, store: Store, retaining: RetentionLoop | None = None, lists_sessions: bool = True
    ):
        self.models, self.store, self._live = models, store, LiveSessions()
        self.lists_sessions = lists_sessions
        self._retaining = retaining or RetentionLoop(store)
        self.on_end: Callable[[schemas.Session], None] | None = None
        """Hears of every interview that ends."""
        self.computing = threading.Lock()
        self._watching = threading.Lock()
        self._looked_at: dict[str, dict[Any, SeenSession]] = {}  # by model
        self.threads: anyio.CapacityLimiter | None = None
        """Of the server, for what waits for the database; None: those of everything else."""

    # ---- one session

    def begin(
        self,
        model_id: str,
        known: Mapping[str, Any] | None = None,
        picture: Picture | None = None,
        title: str = "",
        owner: str | None = None,
    ) -> schemas.Session:
        """A new session of an owner, in which some answers may be known already; raises Problem."""
        model = self.models.find(model_id)
        with self.computing:
            with _refusing(model):
                session = model.session(known=known)
            record, state = _record_and_state(session, model, title, has_picture=picture is not None)
        pixels = None if picture is None else picture.to_bytes()
        self._retaining.note_new()
        stored = self.store.create(model.id, model.fingerprint, title, record, pixels, owner)
        return self._keep(stored, model, session, state)

    def show(self, session_id: str) -> schemas.Session:
        with self._session(session_id) as (stored, model, session):
            state = _state(session, model, stored.accepted, stored.has_picture)
        return _described(stored, model, state)

    def why(self, session_id: str) -> Why:
        with self._session(session_id) as (_, _, session):
            if session.done:
                raise Refused(OVER)
            return session.why()

    def suggest(self, session_id: str, text: str) -> tuple[Suggestion, ...]:
        """Answers that a person's own words may mean; nothing is changed."""
        with self._session(session_id) as (_, _, session):
            return session.suggest(text)

    def move(self, session_id: str, move: schemas.Move) -> schemas.Session:
        """Make a move; raises Outdated where somebody else did since the revision that the client has seen."""
        (found,) = self.move_all([(session_id, move)])
        if isinstance(found, Exception):
            raise found
        return found

    def move_all(self, moves: Sequence[tuple[str, schemas.Move]]) -> list[schemas.Session | Exception]:
        """Make the moves of several people: what follows from their answers is computed in one batch, and committed at
        once. A move that cannot be made gives the error that `move` raises, and the others are made."""
        steps = [self._steps(*one) for one in moves]
        found: dict[int, schemas.Session | Exception] = {}

        def go_on(given: Mapping[int, Any]) -> dict[int, Any]:
            """Let moves go on with what they are given, to where they wait for others."""
            waiting = {}
            for i, value in given.items():
                try:
                    waiting[i] = steps[i].send(value)
                except StopIteration as end:
                    found[i] = end.value
                except Exception as error:
                    found[i] = error
            return waiting

        announced = go_on(dict.fromkeys(range(len(steps))))
        with self.computing:
            for model in {id(model): model for model, _ in announced.values()}.values():
                foresee([answer for other, answer in announced.values() if other is model and answer is not None])
            writes = go_on(dict.fromkeys(announced))
        go_on(dict(zip(writes, self._written(list(writes.values())), strict=True)))
        return [found[i] for i in range(len(steps))]

    def _written(self, moves: Sequence[Any]) -> Sequence[StoredSession | Exception | None]:
        """Sessions as they are once the moves are written; one that cannot be takes no other with it."""
        try:
            return self.store.write_all(moves)
        except Exception as error:
            if len(moves) == 1 or isinstance(error, UNWRITABLE):
                return [error] * len(moves)
            return [self._written([one])[0] for one in moves]

    def _steps(self, session_id: str, move: schemas.Move) -> Generator[Any, Any, schemas.Session]:
        """Make a move with others: wait until what they answered is foreseen, and until what they led to is written.

        A session in memory need not be read: what is written only counts if the database is at its revision still.
        """
        live = self._live.take(session_id, move.revision)
        if live is not None:
            stored, model = live[0], self.models[live[0].model]
        else:
            stored, model = self._stored(session_id)
            if stored.revision != move.revision:
                raise self._moved(session_id)
        answer = None
        if live is not None and move.move in ("tell", "dont_know", "change"):
            answer = live[1], move.query, None if move.move == "dont_know" else move.answer
        yield model, answer
        session = live[1] if live is not None else self._restored(stored, model)
        with _refusing(model):
            if len(session.moves) >= MOST_MOVES:
                raise ValueError("This session is too long to go on: begin a new one.")
            accepted = _make(session, move, stored, lambda: self._picture(stored, model))
        record, state = _record_and_state(session, model, stored.title, accepted, stored.has_picture)
        record.moves.update(_stated(stored, session))
        written = yield stored, record, model.fingerprint
        if isinstance(written, Exception):
            raise written
        if written is None:
            raise self._moved(session_id)
        kept = self._keep(written, model, session, state)
        if state.done and not stored.done and self.on_end is not None:
            self.on_end(kept)
        return kept

    def _moved(self, session_id: str) -> Outdated:
        message = "This session went on in another window. Here is where it stands now."
        return Outdated(message, session=self.show(session_id))

    def next(self, model_id: str, evidence: schemas.Evidence) -> schemas.Next:
        """What comes next where all of this is known, without anything being kept."""
        model = self.models.find(model_id)
        with self.computing:
            return _answer_all(model, evidence)

    def note_truth(self, session_id: str, label: str | None) -> schemas.Session:
        _, model = self._stored(session_id)
        with _refusing(model):
            self.store.note_truth(session_id, checked_truth(model.estimator.model_, label))
        return self.show(session_id)

    def delete(self, session_id: str) -> None:
        self._live.drop(session_id)
        if not self.store.delete(session_id):
            raise _no_session()
        self._retaining.note_deleted()

    def report(self, session_id: str) -> str:
        """A page that explains the session, whole by itself."""
        with self._session(session_id) as (stored, model, session):
            title = stored.title or "This session"
            row = ExplainedRow.of_session(session, title, stored.truth)
        facts = ModelFacts.of(model.estimator, model.title, model.stop)
        evaluation = None if model.measured is None else model.measured.evaluation
        return ChainsReport(facts, (row,), evaluation, model.estimator.model_.query_set.patches).html()

    def answers(self, session_id: str) -> schemas.SavedAnswers:
        """All that was said in a session, for the person who said it."""
        session = self.show(session_id)
        said = [(one.question.name, one.question.text, one.shown) for one in session.state.given]
        result = session.state.result
        return schemas.SavedAnswers(
            title=session.title or session.state.title,
            begun=session.created,
            last_change=session.updated,
            answers=[schemas.SavedAnswer(name=name, question=text, answer=answer) for name, text, answer in said],
            wrong_guesses=session.state.rejected,
            result=None if result is None else result.label,
            probability=None if result is None else result.probability,
            truth=session.truth,
        )

    def picture(self, session_id: str) -> bytes:
        """What a session has seen of its picture, as a PNG file."""
        with self._session(session_id) as (stored, model, session):
            asked = [move.query for move in session.moves if isinstance(move, Tell) and move.answer is not None]
        picture = self._picture(stored, model)
        return picture.revealed(model.estimator.model_.query_set, asked)

    def _picture(self, stored: StoredSession, model: ServedModel) -> Picture:
        pixels = self.store.picture(stored.id)
        if pixels is None:
            raise NotFound("This session has no picture.")
        return Picture.from_bytes(pixels, model.estimator.model_.query_set)

    # ---- many

    def find(self, search: Search, limit: int, offset: int) -> schemas.Sessions:
        total, found = self.store.find(search, limit, offset)
        return schemas.Sessions(total=total, sessions=[schemas.SessionSummary(**_summary(one)) for one in found])

    def watch(self, model: ServedModel) -> Watch:
        """What the sessions with a model say of it. Others go on meanwhile: this model is only read."""
        with self._watching:  # two who look at the same time would do the same work twice
            looked_at = self._looked_at.setdefault(model.id, {})
            sessions = self.store.each(Search(model=model.id))
            return Watch.of(model.estimator, sessions, looked_at=looked_at, fingerprint=model.fingerprint)

    # ---- how a session comes back

    def _stored(self, session_id: str) -> tuple[StoredSession, ServedModel]:
        stored = self.store.read(session_id)
        if stored is None:
            raise _no_session()
        if stored.model not in self.models:
            raise Outdated(
                f"This session was held with the model “{stored.model}”, which is not served now: start the server "
                "with it, or begin a new session."
            )
        return stored, self.models[stored.model]

    def _keep(self, stored: StoredSession, model: ServedModel, session: Session, state: State) -> schemas.Session:
        """Show a session, and have it ready for its next move."""
        self._live.put(stored, session)
        return _described(stored, model, state)

    @contextmanager
    def _session(self, session_id: str) -> Iterator[tuple[StoredSession, ServedModel, Session]]:
        """The session of this id, to be looked at."""
        stored, model = self._stored(session_id)
        with self.computing:
            live = self._live.take(stored.id, stored.revision)
            session = live[1] if live is not None else self._restored(stored, model)
            yield stored, model, session
        self._live.put(stored, session)

    def _restored(self, stored: StoredSession, model: ServedModel) -> Session:
        try:
            session = model.session(stored.moves)
            asked = str(stored.moves.get(ASKED, ""))
            if asked in model.estimator.model_.query_set.index_of:
                session.ask_again(asked)  # so that an answer counts for the question that the person saw
            return session
        except ValueError as error:
            raise Outdated(
                f"The model was trained again since this session began, and does not know its questions any more "
                f"({error}) Begin a new session, or delete this one."
            ) from None


def _answer_all(model: ServedModel, evidence: schemas.Evidence) -> schemas.Next:
    """The state where all of this is known, and why the next question is asked."""
    query_set = model.estimator.model_.query_set
    beforehand = (query_set.order or Order()).beforehand
    known = [schemas.Told(query=name, answer=answer, volunteered=True) for name, answer in evidence.known.items()]
    seen: set[int] = set()
    moves: list[dict[str, Any]] = []
    with _refusing(model):
        for told in (*known, *evidence.answers):
            query = query_index(query_set, told.query)
            if query in seen:
                raise ValueError(f"“{told.query}” is answered twice: give each answer once.")
            if not told.confirmed and (doubt := query_set.doubt(query, told.answer)) is not None:
                raise DoubtfulAnswer(doubt)
            seen.add(query)
            if told.answer is not None or not told.volunteered:
                name = query_set.queries[query].name
                volunteered = told.volunteered or name in beforehand
                moves.append({"move": "tell", "query": name, "answer": told.answer, "volunteered": volunteered})
        if evidence.rejected:
            moves.append({"move": "reject", "labels": evidence.rejected})
        session = model.session({"format": FORMAT, "moves": moves})
        if evidence.go_on and session.done and session.can_go_on:
            session.go_on()
        state = _state(session, model)
        return schemas.Next(state=state, why=None if state.done else session.why())


def _make(session: Session, move: schemas.Move, stored: StoredSession, picture: Callable[[], Picture]) -> bool:
    """Make a move; whether the person accepts the result with it."""
    if move.query is not None and move.move not in ("tell", "change"):
        raise ValueError(f"The move {move.move} has no query: leave it out.")
    if session.done and move.query is None and move.move in ("tell", "dont_know", "skip", "reveal"):
        raise ValueError(OVER)
    match move.move:
        case "undo" if stored.accepted:
            pass  # what was done last is that the person was content
        case "change" if move.query is None:
            raise ValueError("The move change needs the query whose answer is changed.")
        case "take_back_rejection" if move.label is None:
            raise ValueError("The move take_back_rejection needs the label that is not wrong after all.")
        case "accept":
            if not session.done:
                raise ValueError("There is no result to accept yet: answer on.")
            return True
        case "reveal":
            query_set = session.pursuer.query_set
            session.tell(picture().patch(query_set, session.ask().query))
        case name:
            make_move(session, name, move.query, move.answer, move.label, move.confirmed)
    return False


@contextmanager
def _refusing(model: ServedModel) -> Iterator[None]:
    """What a session refuses is the client's problem."""
    try:
        yield
    except DoubtfulAnswer as error:
        raise Refused(str(error.doubt), doubt=error.doubt.to_dict()) from None
    except UnknownName as error:
        where = f"/api/models/{model.id}"
        raise Refused(f"{error} All names: GET {where}/questions has those of queries, and {where} labels.") from None
    except ValueError as error:
        raise Refused(str(error)) from None


def _no_session() -> NotFound:
    return NotFound("There is no such session. It may have been deleted: begin a new one.")


def _state(session: Session, model: ServedModel, accepted: bool = False, has_picture: bool = False) -> State:
    reports = model.estimator.has_initially_known_
    options = {"accepted": accepted, "has_picture": has_picture, "expects_reports": reports}
    return session.state(model.title, model.experience, **options)


def _record_and_state(
    session: Session, model: ServedModel, title: str, accepted: bool = False, has_picture: bool = False
) -> tuple[SessionRecord, State]:
    """What is written down of a session, and what is sent of it."""
    state = _state(session, model, accepted, has_picture)
    result, number = state.result, state.belief.number if state.done else None
    label_set = None if result is None else result.label_set
    answers = "; ".join(f"{one.question.text} {one.shown or '–'}" for one in state.given)
    outcome = None if result is None else result.label
    found = [model.id, model.title, title, outcome or "", *map(str, session.excluded), answers]
    record = SessionRecord(
        moves=session.to_dict() | ({} if state.question is None else {ASKED: state.question.name}),
        done=state.done,
        outcome=outcome,
        probability=None if result is None else result.probability,
        decided=None if result is None else result.decided,
        label_set=None if label_set is None else BETWEEN.join(label_set),
        low=None if number is None else number.low,
        high=None if number is None else number.high,
        n_asked=session.position.n_asked,
        n_rejected=len(session.excluded),
        accepted=accepted,
        answers=answers,
        searchable="\n".join(found).casefold(),
    )
    return record, state


def _stated(stored: StoredSession, session: Session) -> dict[str, Any]:
    """What to keep of a session that a person continued: the first result, or None if there was none by then."""
    if not any(isinstance(move, Reject | GoOn) for move in session.moves):
        return {}
    if STATED in stored.moves:
        return {STATED: stored.moves[STATED]}
    first = StatedResult(stored.outcome, stored.probability, stored.low, stored.high) if stored.done else None
    return {STATED: None if first is None else asdict(first)}


def _summary(stored: StoredSession) -> dict[str, Any]:
    own = {name: getattr(stored, name) for name in schemas.SessionSummary.model_fields if name != "right"}
    moments = {name: own[name].replace(tzinfo=datetime.UTC) for name in ("created", "updated")}
    return {**own, **moments, "right": is_right(stored)}


def _described(stored: StoredSession, model: ServedModel, state: State) -> schemas.Session:
    is_other = stored.fingerprint != model.fingerprint
    return schemas.Session(**_summary(stored), model_changed=is_other, state=state)
