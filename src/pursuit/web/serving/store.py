"""Where sessions are kept, how long and how many: a database that SQLAlchemy knows, SQLite or PostgreSQL."""

import datetime
import hashlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from json import JSONDecodeError
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from pursuit.report.watch import KeptSession
from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.problems import Full

SCHEMA_VERSION = 3
DATABASE_VARIABLE = "PURSUIT_DATABASE"
SECONDS_TO_WAIT = 10
"""For another process that writes."""
MOST_WORDS = 20
"""Of a search."""
N_TRIES, SECONDS_BETWEEN = 5, 0.05
"""How often, and how soon, tables are made again that others were just making."""
N_AT_ONCE = 200
"""How many sessions are read at a time."""


@dataclass(frozen=True)
class SessionRecord:
    """What is written of a session after each move: all follows from `moves`, and the rest is listed and searched."""

    moves: dict[str, Any]
    done: bool
    outcome: str | None
    probability: float | None
    decided: bool | None
    """False: the model is not sure, and a person must decide; null: its stopping rule promises nothing."""
    label_set: str | None
    """The labels that remain, where the stopping rule says which."""
    low: float | None
    """The ends of the range of a number."""
    high: float | None
    n_asked: int
    n_rejected: int
    accepted: bool
    answers: str
    """What was asked and answered, in words."""
    searchable: str
    """All that is searched, without capitals."""


@dataclass(frozen=True)
class StoredSession(SessionRecord, KeptSession):
    """A session as it was read; its `fingerprint` is that of the model that it began with."""

    model: str
    title: str
    has_picture: bool
    owner: str | None
    """What the browser that began it is known by; None where nobody can list it but the operator."""


@dataclass(frozen=True)
class Judged:
    """Sessions of one day that ended alike."""

    date: datetime.date
    outcome: str | None
    truth: str | None
    accepted: bool
    n_rejected: int
    low: float | None
    high: float | None
    n: int


_TYPES = {
    str: sa.Text,
    int: sa.Integer,
    float: sa.Double,
    bool: sa.Boolean,
    datetime.datetime: sa.DateTime,
    dict: sa.JSON,
}


def _column(name: str, hint: Any) -> sa.Column[Any]:
    """The column of a field, by its type."""
    kinds = [get_origin(kind) or kind for kind in (get_args(hint) if isinstance(hint, UnionType) else [hint])]
    is_indexed, is_optional = name in ("model", "created", "updated", "owner"), NoneType in kinds
    return sa.Column(name, _TYPES[kinds[0]], primary_key=name == "id", index=is_indexed, nullable=is_optional)


TABLES = sa.MetaData()
VERSIONS = sa.Table("pursuit_schema", TABLES, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
SESSIONS = sa.Table(
    "pursuit_sessions",
    TABLES,
    *(_column(name, hint) for name, hint in get_type_hints(StoredSession).items()),
    sa.Column("truth_folded", sa.Text),
)
PICTURES = sa.Table(
    "pursuit_pictures",
    TABLES,
    sa.Column("session", sa.ForeignKey("pursuit_sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("pixels", sa.LargeBinary, nullable=False),
)
_ROW = SESSIONS.c
_IS_JUDGED = sa.or_(_ROW.truth.is_not(None), _ROW.accepted)
_JUDGED = [_ROW[field.name] for field in fields(Judged)[1:-1]]
# All that accuracy over time needs: without it, every session with all its answers would be read.
_OF_JUDGED = sa.Index(
    "pursuit_judged", _ROW.created, _ROW.model, *_JUDGED, sqlite_where=_IS_JUDGED, postgresql_where=_IS_JUDGED
)
_COLUMNS = [_ROW[field.name] for field in fields(StoredSession)]
# Statements of every move, which are made once: to make one takes longer than to execute it.
_INSERT = sa.insert(SESSIONS)
_READ = sa.select(*_COLUMNS).where(_ROW.id == sa.bindparam("wanted"))
_WRITTEN = ("revision", "updated", "fingerprint", *(field.name for field in fields(SessionRecord)))
_WRITE = sa.update(SESSIONS).where(_ROW.id == sa.bindparam("wanted"), _ROW.revision == sa.bindparam("seen"))
_WRITE = _WRITE.values({name: sa.bindparam(name) for name in _WRITTEN}).returning(_ROW.truth)


class Store:
    """Sessions in a database. Every call is a transaction of its own, and may come from any thread."""

    def __init__(self, url: str | URL):
        self.engine = self._writer = _engine(url)
        if self._is_sqlite:  # which has one writer at a time: those who write wait in turn for one connection
            self._writer = _engine(url, pool_size=1, max_overflow=0, pool_timeout=SECONDS_TO_WAIT)
        try:
            self._prepare()
        except SQLAlchemyError as error:
            raise ValueError(
                f"The database {self.place} cannot be used: {first_line(error)} Check the address, and that you may "
                "write there."
            ) from None

    @property
    def _is_sqlite(self) -> bool:
        return self.engine.url.get_backend_name() == "sqlite"

    @property
    def place(self) -> str:
        """Where it is, without a password."""
        return self.engine.url.render_as_string(hide_password=True)

    def _prepare(self) -> None:
        """Make the tables, or see that they are ours; several processes may do so at once."""
        for is_last in (*[False] * N_TRIES, True):
            try:
                version = self._version()
                break
            except SQLAlchemyError:  # perhaps because another process made them in the same moment
                if is_last:
                    raise
                time.sleep(SECONDS_BETWEEN)
        if version != SCHEMA_VERSION:
            which, remedy = ("an older", "") if version < SCHEMA_VERSION else ("a newer", "update pursuit, or ")
            raise ValueError(
                f"The database {self.place} was written by {which} version of pursuit (schema {version}; this one "
                f"reads {SCHEMA_VERSION}): {remedy}give another --database."
            )

    def _version(self) -> int:
        TABLES.create_all(self.engine)
        _OF_JUDGED.create(self.engine, checkfirst=True)  # of tables that were made without it
        with self.engine.begin() as connection:
            version = connection.scalar(sa.select(sa.func.max(VERSIONS.c.version)))
            if version is None:
                connection.execute(sa.insert(VERSIONS).values(version=SCHEMA_VERSION))
            return version or SCHEMA_VERSION

    def close(self) -> None:
        self._writer.dispose()
        self.engine.dispose()

    # ---- one session

    def create(
        self,
        model: str,
        fingerprint: str,
        title: str,
        record: SessionRecord,
        pixels: bytes | None,
        owner: str | None = None,
    ) -> StoredSession:
        """Keep a new session; its id cannot be guessed."""
        begun = now()
        session = StoredSession(
            **vars(record),
            id=secrets.token_urlsafe(16),
            model=model,
            fingerprint=fingerprint,
            title=title,
            revision=0,
            created=begun,
            updated=begun,
            truth=None,
            has_picture=pixels is not None,
            owner=owner,
        )
        with self._writer.begin() as connection:
            connection.execute(_INSERT, vars(session))
            if pixels is not None:
                connection.execute(sa.insert(PICTURES).values(session=session.id, pixels=pixels))
        return session

    def read(self, session_id: str) -> StoredSession | None:
        with self.engine.connect() as connection:
            row = connection.execute(_READ, {"wanted": session_id}).first()
        return None if row is None else StoredSession(**row._mapping)

    def write_all(self, moves: Sequence[tuple[StoredSession, SessionRecord, str]]) -> list[StoredSession | None]:
        """Keep what moves of several sessions led to, in one transaction, and give the sessions as they are then; None
        for one that was not any more as `before`."""
        if not moves:
            return []
        updated = now()
        values = [
            {"revision": before.revision + 1, "updated": updated, "fingerprint": fingerprint, **vars(record)}
            for before, record, fingerprint in moves
        ]
        seen = [{"wanted": before.id, "seen": before.revision} for before, _, _ in moves]
        order = sorted(range(len(moves)), key=lambda i: moves[i][0].id)  # or two processes might wait for each other
        with self._writer.begin() as connection:
            rows = {i: connection.execute(_WRITE, {**values[i], **seen[i]}).first() for i in order}
        return [
            None if (row := rows[i]) is None else replace(before, **values[i], truth=row.truth)
            for i, (before, _, _) in enumerate(moves)
        ]

    def note_truth(self, session_id: str, truth: str | None) -> bool:
        """Note what it really was; whether there is such a session."""
        folded = None if truth is None else truth.casefold()
        values = {"truth": truth, "truth_folded": folded, "updated": now()}
        changed = sa.update(SESSIONS).where(_ROW.id == session_id).values(values)
        with self._writer.begin() as connection:
            return connection.execute(changed).rowcount == 1

    def delete(self, session_id: str) -> bool:
        """Delete a session with its picture; whether there was one."""
        return self._delete(_ROW.id == session_id) == 1

    def delete_older(self, than: datetime.datetime) -> int:
        """Delete all sessions that were not changed since; gives how many."""
        return self._delete(_ROW.updated < than)

    def _delete(self, which: sa.ColumnElement[bool]) -> int:
        with self._writer.begin() as connection:
            n_deleted = connection.execute(sa.delete(SESSIONS).where(which)).rowcount  # pictures go with them
        if n_deleted and self._is_sqlite:
            with self.engine.connect() as connection:  # or the log before the file would still hold them
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return n_deleted

    def count(self) -> int:
        with self.engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(SESSIONS)) or 0

    def picture(self, session_id: str) -> bytes | None:
        with self.engine.connect() as connection:
            return connection.scalar(sa.select(PICTURES.c.pixels).where(PICTURES.c.session == session_id))

    # ---- many

    def find(self, search: "Search", limit: int, offset: int) -> tuple[int, list[StoredSession]]:
        """How many sessions a search finds, and some of them, the newest first."""
        wanted = search.conditions()
        found = sa.select(*_COLUMNS).where(*wanted).order_by(_ROW.created.desc(), _ROW.id)
        with self.engine.connect() as connection:
            total = connection.scalar(sa.select(sa.func.count()).select_from(SESSIONS).where(*wanted)) or 0
            rows = connection.execute(found.limit(limit).offset(offset))
            return total, [StoredSession(**row._mapping) for row in rows]

    def judged(self, search: "Search") -> list[Judged]:
        """How sessions with a truth ended, those of a day that ended alike together, the oldest first."""
        day = sa.func.date(_ROW.created)
        ended = sa.select(day, *_JUDGED, sa.func.count()).where(*search.conditions(), _IS_JUDGED)
        with self.engine.connect() as connection:
            rows = connection.execute(ended.group_by(day, *_JUDGED).order_by(day)).all()
        return [Judged(datetime.date.fromisoformat(str(date)), *rest) for date, *rest in rows]

    def each(self, search: "Search") -> Iterator[StoredSession]:
        """The same, all of them, the oldest first, a part at a time."""
        last: tuple[datetime.datetime, str] | None = None
        while True:
            found = sa.select(*_COLUMNS).where(*search.conditions())
            if last is not None:
                is_later = (_ROW.created == last[0]) & (_ROW.id > last[1])
                found = found.where(sa.or_(_ROW.created > last[0], is_later))
            ordered = found.order_by(_ROW.created, _ROW.id).limit(N_AT_ONCE)
            try:
                with self.engine.connect() as connection:
                    rows = [StoredSession(**row._mapping) for row in connection.execute(ordered)]
            except JSONDecodeError:
                raise ValueError("The moves of a session in the database cannot be read: they are no JSON.") from None
            yield from rows
            if len(rows) < N_AT_ONCE:
                return
            last = rows[-1].created, rows[-1].id


@dataclass(frozen=True)
class Search:
    """Which sessions are wanted: those that hold all words of a text, with one model, and of one owner."""

    text: str = ""
    model: str | None = None
    owner: str | None = None
    """None: of anybody, as only the operator may ask."""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        found: list[sa.ColumnElement[bool]] = [] if self.model is None else [_ROW.model == self.model]
        if self.owner is not None:
            found.append(_ROW.owner == self.owner)
        for word in self.text.casefold().split()[:MOST_WORDS]:
            found.append(
                sa.or_(
                    _ROW.searchable.contains(word, autoescape=True),
                    _ROW.truth_folded.contains(word, autoescape=True),
                )
            )
        return found


def default_database(folders: Sequence[str]) -> str:
    """The database that the environment names, or a file of the user's own for these folders of models."""
    if named := os.environ.get(DATABASE_VARIABLE):
        return named
    from platformdirs import user_data_path

    digest = hashlib.sha256("\n".join(sorted(folders)).encode()).hexdigest()[:8]
    name = "".join(letter if letter.isalnum() else "-" for letter in Path(folders[0]).name) if folders else "none"
    return f"sqlite:///{user_data_path('pursuit', appauthor=False) / 'sessions' / f'{name}-{digest}.sqlite'}"


def _engine(address: str | URL, **pool: int) -> Engine:
    try:
        url = make_url(address)
    except ArgumentError:
        raise ValueError(
            "The database is not an address that can be read: write sqlite:///FILE or postgresql://USER@HOST/DATABASE."
        ) from None
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite and url.database in (None, "", ":memory:"):
        raise ValueError("Sessions must outlive the server, so they need a file: write sqlite:///FILE.")
    try:
        if is_sqlite:
            url = url.set(database=str(_private_file(str(url.database))))
        arguments = {"timeout": SECONDS_TO_WAIT} if is_sqlite else {"connect_timeout": SECONDS_TO_WAIT}
        engine = sa.create_engine(
            url,
            connect_args=arguments,
            pool_pre_ping=not is_sqlite,
            hide_parameters=True,  # an error is logged, and parameters are what people answered
            **pool,
        )
    except ModuleNotFoundError as error:
        extra = "pursuit[postgres]" if error.name and error.name.startswith("psycopg") else str(error.name)
        raise ModuleNotFoundError(
            f"{url.drivername} needs a package that is not installed: pip install '{extra}'"
        ) from None
    except NoSuchModuleError:
        raise ValueError(
            f"Databases of the kind {url.drivername} are not known: write sqlite:///FILE or postgresql://…"
        ) from None
    if is_sqlite:
        sa.event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _private_file(name: str) -> Path:
    """A file that only its owner may read, since people answer questions about themselves."""
    path = Path(name).expanduser().absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ValueError(
            f"The database {path} cannot be written ({error.strerror}): name another with --database sqlite:///FILE."
        ) from None
    return path


def _set_up_sqlite(connection: Any, _: Any) -> None:
    """Readers do not wait for a writer. What was written survives the end of the process and, since it is on the disk
    before anybody is told so, that of the machine. What is deleted is overwritten."""
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def first_line(error: Exception) -> str:
    text = str(getattr(error, "orig", None) or error).strip().splitlines()
    line = text[0] if text else type(error).__name__
    return line if line.endswith(".") else f"{line}."


SECONDS_BETWEEN_LOOKS = 600.0
"""Between looks."""
logger = logging.getLogger("pursuit.serving")


class RetentionLoop:
    """Looks now and then what is too old, and whether there is room.

    Sessions are kept without end unless somebody says how many `days` after their last change: to delete what people
    told, and what it really was, without being asked to would be a loss. Whoever asks strangers should say how many.
    Once there are `most_sessions`, none is begun until some are deleted.
    """

    def __init__(self, store: Store, days: float | None = None, most_sessions: int = ServingOptions.most_sessions):
        self.store, self.days, self.most_sessions = store, days, most_sessions
        self._n_at_last_look, self._n_since = 0, 0
        self._lock = threading.Lock()

    def run(self, ends: threading.Event) -> None:
        """Look until the server `ends`."""
        while True:
            try:
                self.look()
            except SQLAlchemyError as error:  # people are told of it when they need the database
                logger.warning("Old sessions could not be deleted: %s", type(error).__name__)
            if ends.wait(SECONDS_BETWEEN_LOOKS):
                return

    def look(self) -> int:
        """Delete what is too old, and count the rest; gives how many were deleted."""
        n_deleted = 0
        if self.days is not None:
            n_deleted = self.store.delete_older(now() - datetime.timedelta(days=self.days))
        count = self.store.count()
        with self._lock:
            self._n_at_last_look, self._n_since = count, 0
        return n_deleted

    def note_new(self) -> None:
        """One more session is to be kept; raises Full where there is no room. Several processes may keep a few more
        than they should until the next look."""
        with self._lock:
            if self._n_at_last_look + self._n_since >= self.most_sessions:
                raise Full("There is no room for another session here. Whoever runs the server can delete old ones.")
            self._n_since += 1

    def note_deleted(self) -> None:
        with self._lock:
            self._n_since -= 1
