"""Measuring a server: what people were promised, and whether it is kept."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks import crowd, serving
from pursuit.web.serving.store import SessionRecord, Store
from served import letters_model

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letters_model(tmp_path_factory.mktemp("models") / "letters")


def in_thread(function: Any, **settings: Any) -> Any:
    """A browser that other tests hold open has an event loop in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, **settings).result()


def test_a_small_crowd_is_measured(letters: Path) -> None:
    found = in_thread(serving.measure, people=3, workers=1, pause="no pause at all", seconds=2.0, model=str(letters))
    assert (found["n_errors"], found["n_lost"]) == (0, 0)
    assert found["n_steps"] > 0
    assert 0 < found["median_ms"] <= found["p95_ms"] <= found["p99_ms"] <= found["slowest_ms"]


def test_a_server_that_is_killed_while_people_answer_has_all_it_confirmed(
    letters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(serving.PAUSES, "hardly any", (0.0, 0.1))
    monkeypatch.setattr(serving, "MOMENT", (0.5, 1.5))
    found = in_thread(serving.measure, people=12, pause="hardly any", kills=1, model=str(letters))
    assert (found["n_lost"], found["n_errors"], found["errors"]) == (0, 0, [])
    assert found["n_sessions"] >= 12
    assert found["n_confirmed"] > 12
    assert found["n_cut_off"] > 0


def test_what_was_lost_is_seen(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'a.sqlite'}"
    store = Store(database)
    told = [("q0", "yes"), ("q1", None)]
    moves = [{"move": "tell", "query": name, "answer": answer, "volunteered": False} for name, answer in told]
    unknown = {"outcome": None, "probability": None, "decided": None, "label_set": None, "low": None, "high": None}
    counts = {"n_asked": 2, "n_rejected": 0, "accepted": False, "answers": "", "searchable": ""}
    standing = SessionRecord({"format": 2, "moves": moves}, done=False, **unknown, **counts)
    session_id = store.create("letters", "print", "", standing, None).id

    def lost(revision: int, answers: crowd.Answers, under_way: crowd.Answers | None = None) -> tuple[int, int]:
        ledger = crowd.Ledger({session_id: crowd.Receipt(revision, answers, under_way)})
        found = ledger.compared_with(database)
        return found["n_lost"], found["n_kept_unconfirmed"]

    assert lost(0, told) == (0, 0)
    assert lost(1, told) == (1, 0)  # a move that was confirmed is not there
    assert lost(0, told[:1]) == (1, 0)  # other answers than confirmed
    assert lost(-1, told[:1], told) == (0, 1)  # one move further, as it was sent
    assert lost(-1, told[:1], told[::-1]) == (1, 0)  # one move further, but another
    store.delete(session_id)
    store.close()
    assert lost(0, told) == (1, 0)
