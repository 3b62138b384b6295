"""Two servers, each a process of its own, on one database: sessions move between them, and no move is lost."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from httpx import Client, Response

from served import begin, client_of, move, port_of, program, try_move, without_clock

pytestmark = pytest.mark.programs

N_RACES = 6


@pytest.fixture
def servers(model_folders: dict[str, Path], database: str) -> Iterator[tuple[Client, Client]]:
    with ExitStack() as stack:
        options = ("--port", "0", "--database", database)
        started = [stack.enter_context(program(model_folders["illness"], *options)) for _ in range(2)]
        first, second = (stack.enter_context(client_of(port_of(process))) for process in started)
        yield first, second


def test_sessions_move_between_servers_and_nothing_is_lost(servers: tuple[Client, Client]) -> None:
    first, second = servers
    session = begin(first)
    session = move(second, session, "tell", answer="winter", query="season")
    session = move(first, session, "tell", answer="yes", query="sneezing")
    session = move(second, session, "change", query="season", answer="autumn")
    path = f"/api/sessions/{session['id']}"
    assert first.get(path).json() == second.get(path).json() == session
    stale = {**session, "revision": session["revision"] - 1}  # as the first server has it in memory
    assert try_move(first, stale, "dont_know").status_code == 409

    second.put(f"{path}/truth", json={"label": "flu"}).raise_for_status()
    session = move(first, first.get(path).json(), "skip")
    assert session["truth"] == "flu"
    second.put(f"{path}/truth", json={"label": "cold"}).raise_for_status()
    session = move(first, session, "dont_know")  # from memory, where the truth is still flu
    assert session["truth"] == "cold"

    for _ in range(N_RACES):
        session = race(servers, session)
    answers = [one for one in session["state"]["answers"] if one["kind"] == "answer"]
    assert [first.get(path).json(), second.get(path).json()] == [session, session]
    assert session["revision"] == 5 + N_RACES
    assert len(answers) == 3

    assert second.delete(path).status_code == 204
    gone = try_move(first, session, "change", query="season", answer="winter")  # from memory once more
    assert gone.status_code == 404
    assert first.get(path).status_code == 404


def race(servers: tuple[Client, Client], session: dict[str, Any]) -> dict[str, Any]:
    """Both servers are sent a correction at the same revision by two people each; gives what one of them won."""
    barrier, answers = threading.Barrier(4), []

    def correct(client: Client, season: str) -> None:
        barrier.wait()
        answers.append(try_move(client, session, "change", query="season", answer=season))

    chosen = [(client, season) for client in servers for season in ("spring", "summer")]
    threads = [threading.Thread(target=correct, args=one) for one in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won: list[Response] = [answer for answer in answers if answer.status_code == 200]
    assert (len(won), len(answers)) == (1, 4)
    for answer in answers:
        if answer is not won[0]:
            assert answer.status_code == 409
            assert without_clock(answer.json()["session"]) == without_clock(won[0].json())
    found: dict[str, Any] = won[0].json()
    return found


def test_processes_whose_parent_is_killed_end_too(model_folders: dict[str, Path], tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'a.sqlite'}"
    with program(model_folders["illness"], "--port", "0", "--database", database, "--workers", "2") as process:
        port = port_of(process)
        with client_of(port) as client:
            session = begin(client)
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        assert len(children) >= 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + 60
        while any(is_running(pid) for pid in children):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    # The port is free again, and the session is there.
    with (
        program(model_folders["illness"], "--port", str(port), "--database", database) as process,
        client_of(port_of(process)) as client,
    ):
        assert client.get(f"/api/sessions/{session['id']}").json() == session


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"  # one that ended may wait for somebody to ask how
