"""Where sessions are kept: addresses, versions, and what several processes do to one database."""

import secrets
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, insert, text

from pursuit.web.serving.interviews import UNWRITABLE, Interviews
from pursuit.web.serving.models import ServedModels, load_models
from pursuit.web.serving.problems import Outdated
from pursuit.web.serving.schemas import Move
from pursuit.web.serving.store import (
    DATABASE_VARIABLE,
    SCHEMA_VERSION,
    VERSIONS,
    Search,
    SessionRecord,
    Store,
    default_database,
)

NOTHING_YET = SessionRecord(
    moves={"format": 2, "moves": []},
    done=False,
    outcome=None,
    probability=None,
    decided=None,
    label_set=None,
    low=None,
    high=None,
    n_asked=0,
    n_rejected=0,
    accepted=False,
    answers="",
    searchable="",
)


def test_only_one_of_two_writes_at_a_revision_counts(store: Store) -> None:
    before = store.create("model", "print", "", NOTHING_YET, None)
    (written,) = store.write_all([(before, replace(NOTHING_YET, n_asked=1), "print")])
    assert written is not None
    assert written.revision == 1
    assert store.write_all([(before, replace(NOTHING_YET, n_asked=2), "print")]) == [None]
    assert store.read(before.id) == written


def test_moves_that_are_no_json_are_said_to_be(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'sessions.sqlite'}")
    store.create("model", "print", "", NOTHING_YET, None)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE pursuit_sessions SET moves = '{'"))
    with pytest.raises(ValueError, match="cannot be read: they are no JSON"):
        list(store.each(Search()))
    store.close()


def test_ids_cannot_be_guessed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def draw(n_bytes: int) -> str:
        drawn.append(n_bytes)
        return original(n_bytes)

    original = secrets.token_urlsafe  # of the system's source of randomness for secrets
    monkeypatch.setattr(secrets, "token_urlsafe", draw)
    ids = [store.create("model", "print", "", NOTHING_YET, None).id for _ in range(50)]
    assert min(drawn) * 8 >= 128
    assert len(set(ids)) == 50
    for place in range(22):
        assert len({own[place] for own in ids}) > 1  # no part is the same in all


def test_a_database_that_is_newer_is_refused(database: str) -> None:
    store = Store(database)
    with store.engine.begin() as connection:
        connection.execute(insert(VERSIONS).values(version=SCHEMA_VERSION + 1))
    store.close()
    with pytest.raises(
        ValueError, match=rf"newer version of pursuit \(schema {SCHEMA_VERSION + 1}; this one reads {SCHEMA_VERSION}\)"
    ):
        Store(database)


def test_several_processes_may_open_a_new_database_at_once(database: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: Store(database), range(8)))
    for store in stores:
        assert store.find(Search(), 10, 0) == (0, [])
        store.close()


def test_all_sessions_are_read_part_by_part(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.web.serving.store.N_AT_ONCE", 3)
    made = [store.create("model", "print", str(i), NOTHING_YET, None).id for i in range(7)]
    assert sorted(one.id for one in store.each(Search())) == sorted(made)
    assert list(store.each(Search(model="other"))) == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nonsense", "is not an address that can be read"),
        ("sqlite://", "need a file"),
        ("sqlite:///:memory:", "need a file"),
        ("oracle9://x", "are not known"),
        ("sqlite:////proc/none/a.sqlite", "cannot be written"),
        ("postgresql://nobody:secret@127.0.0.1:1/none", "cannot be used"),
    ],
)
def test_an_address_that_cannot_be_used_is_explained(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Store(address)
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_explained(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_text("this is a letter and not a database" * 50)
    with pytest.raises(ValueError, match="cannot be used: file is not a database"):
        Store(f"sqlite:///{tmp_path / 'a.sqlite'}")


def test_a_new_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    Store(f"sqlite:///{tmp_path / 'new' / 'a.sqlite'}").close()
    assert stat.S_IMODE((tmp_path / "new" / "a.sqlite").stat().st_mode) == 0o600


def test_the_default_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(DATABASE_VARIABLE, "sqlite:////x.sqlite")
    assert default_database(["/models/a"]) == "sqlite:////x.sqlite"
    monkeypatch.delenv(DATABASE_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = default_database(["/models/a"])
    assert own.startswith(f"sqlite:///{tmp_path / 'pursuit' / 'sessions' / 'a-'}")
    assert own == default_database(["/models/a"])
    assert len({own, default_database(["/other/a"]), default_database(["/models/a", "/models/b"])}) == 3


def test_a_model_that_was_trained_again_goes_on_if_it_knows_the_questions(
    models: ServedModels, model_folders: dict[str, Path], store: Store
) -> None:
    first = Interviews(models, store)
    begun = first.begin("illness", {"sneezing": "yes"})
    since = first.begin("illness", {"since": "2024-02-03"})
    other = load_models([model_folders["ordered"]])  # which knows no "since"
    other["ordered"].id = "illness"
    again = Interviews(ServedModels([other["ordered"]]), store)
    shown = again.show(begun.id)
    assert shown.model_changed
    assert shown.state.answers[0].kind == "answer"
    moved = again.move(begun.id, Move(move="dont_know", revision=0))
    assert not moved.model_changed
    with pytest.raises(Outdated, match="does not know its questions any more"):
        again.show(since.id)
    assert again.find(Search(), 10, 0).total == 2
    assert next(one for one in again.find(Search(), 10, 0).sessions if one.id == since.id).n_asked == 0
    with pytest.raises(Outdated, match="is not served now"):
        Interviews(ServedModels([]), store).show(begun.id)
    again.delete(since.id)


def test_who_waits_too_long_to_write_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pursuit.web.serving.store.SECONDS_TO_WAIT", 0.1)
    store = Store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    with store._writer.connect(), pytest.raises(UNWRITABLE):
        store.create("m", "f", "", NOTHING_YET, None)
    store.create("m", "f", "", NOTHING_YET, None)
    assert store.count() == 1
    store.close()


def test_accuracy_reads_no_session_that_nobody_judged(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'a.sqlite'}")
    statements: list[str] = []
    event.listen(
        store.engine, "before_cursor_execute", lambda *arguments: statements.append((arguments[2], arguments[3]))
    )
    store.judged(Search())
    with store.engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statements[0][0]}", statements[0][1]).all()
    assert "USING COVERING INDEX pursuit_judged" in plan[0][-1]
