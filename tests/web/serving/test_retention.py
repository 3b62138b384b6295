"""How long sessions are kept, and how many."""

import datetime
import threading
from pathlib import Path

import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import SQLAlchemyError

from pursuit.web.serving.interviews import Interviews
from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.pictures import Picture
from pursuit.web.serving.problems import Full, NotFound
from pursuit.web.serving.store import SESSIONS, RetentionLoop, Store, now


def age(store: Store, session_id: str, days: float) -> None:
    with store.engine.begin() as connection:
        then = now() - datetime.timedelta(days=days)
        connection.execute(update(SESSIONS).where(SESSIONS.c.id == session_id).values(updated=then))


def rows(store: Store, table: str) -> int:
    with store.engine.connect() as connection:
        return connection.scalar(text(f"select count(*) from {table}")) or 0


def test_what_is_too_old_is_deleted_with_its_picture(models: ServedModels, store: Store) -> None:
    keeper = RetentionLoop(store, days=30)
    interviews = Interviews(models, store, keeper)
    samples = models["digits"].samples
    assert samples is not None
    old, young = (interviews.begin("digits", picture=Picture(samples.pixels[0])).id for _ in range(2))
    age(store, old, 31)
    age(store, young, 29)
    assert keeper.look() == 1
    assert (rows(store, "pursuit_sessions"), rows(store, "pursuit_pictures")) == (1, 1)
    with pytest.raises(NotFound):
        interviews.show(old)
    assert interviews.show(young).id == young


def test_by_default_nothing_is_deleted(models: ServedModels, store: Store) -> None:
    interviews = Interviews(models, store)
    session = interviews.begin("illness")
    age(store, session.id, 10_000)
    assert RetentionLoop(store).look() == 0
    assert interviews.show(session.id).id == session.id


def test_there_is_room_for_so_many(models: ServedModels, store: Store) -> None:
    keeper = RetentionLoop(store, most_sessions=2)
    interviews = Interviews(models, store, keeper)
    first = interviews.begin("illness")
    keeper.look()
    interviews.begin("illness")
    with pytest.raises(Full, match="no room for another session"):
        interviews.begin("illness")
    interviews.delete(first.id)
    interviews.begin("illness")
    assert store.count() == 2


def test_a_database_that_fails_does_not_end_the_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    keeper, ends, looks = RetentionLoop(store, days=1), threading.Event(), []
    monkeypatch.setattr("pursuit.web.serving.store.SECONDS_BETWEEN_LOOKS", 0.0)

    def fail(_: object) -> int:
        looks.append(1)
        if len(looks) == 3:
            ends.set()
        raise SQLAlchemyError("away")

    monkeypatch.setattr(store, "delete_older", fail)
    keeper.run(ends)
    assert len(looks) == 3
    store.close()


def test_what_is_deleted_is_not_in_the_file_any_more(models: ServedModels, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    interviews = Interviews(models, store)
    session = interviews.begin("illness", {"season": "winter"}, title="Zebediah Quick")

    def is_somewhere() -> bool:
        return any(b"Zebediah" in file.read_bytes() for file in tmp_path.iterdir())

    assert is_somewhere()
    interviews.delete(session.id)
    assert not is_somewhere()
    store.close()
