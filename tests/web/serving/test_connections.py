"""Clients that send slowly, too much or nothing, and a server that stops: on real sockets."""

import contextlib
import json
import logging
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from pursuit.web.serving import connections as module
from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.running import Seldom, bound
from pursuit.web.serving.security import HEADERS, UNREADABLE
from served import begin, client_of, running, try_move


def raw(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=30)


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    try:
        return b"".join(iter(lambda: connection.recv(65536), b""))
    except ConnectionResetError:
        return b""


ASK = b"GET /api/models/none HTTP/1.1\r\nHost: localhost\r\n\r\n"


def answered(connection: socket.socket, parts: Sequence[bytes] = (ASK,)) -> bytes:
    """The answer to a request that comes in parts; the connection stays."""
    for part in parts:
        connection.sendall(part)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    return answer


def test_answers_do_not_wait_until_what_was_sent_before_is_acknowledged() -> None:
    """As asyncio sees to, if a connection says that it is TCP."""
    with bound("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api/models HTTP/1.1\r\nHost: local",
        b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n\r\n{",
        b"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_who_does_not_send_the_rest_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(module, "SECONDS_TO_SEND", 0.3)
    with raw(client) as connection:
        connection.sendall(sent)
        assert b" 200 " not in all_of(connection)  # it ends at all
    assert client.get("/api/models").status_code == 200


def test_a_request_that_comes_in_time_is_answered_and_the_connection_stays(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS_TO_SEND", 5.0)
    with raw(client) as connection:
        for _ in range(3):
            assert answered(connection, ASK.splitlines(keepends=True)).startswith(b"HTTP/1.1 404")


def test_who_does_not_read_his_answer_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    is_cut, cut_off = threading.Event(), module.Connection._cut_off

    def endless(_: Any) -> Iterator[str]:
        while not is_cut.is_set():
            yield "x" * 100_000

    def noted(connection: module.Connection) -> None:
        cut_off(connection)
        is_cut.set()

    monkeypatch.setattr(module, "SECONDS_TO_SEND", 0.3)
    monkeypatch.setattr(module.Connection, "_cut_off", noted)
    monkeypatch.setattr("pursuit.web.serving.routes.csv_lines", endless)
    with raw(client) as connection:
        connection.sendall(b"GET /api/sessions.csv HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_cut.wait(30)
        assert not all_of(connection).endswith(b"0\r\n\r\n")  # which would be a whole answer


PIECE = 18_000
"""More than a request may have before it is complete."""


@pytest.mark.parametrize("in_pieces", [True, False], ids=["in pieces", "at once"])
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
    ids=["long address", "long header", "many headers", "nonsense", "TLS", "negative length", "two lengths"],
)
def test_what_is_no_request_is_answered_in_a_sentence_with_all_headers(
    client: Client, sent: bytes, in_pieces: bool
) -> None:
    with raw(client) as connection:
        connection.sendall(sent[:PIECE] if in_pieces else sent)
        if in_pieces and len(sent) > PIECE:
            time.sleep(0.3)
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent[PIECE:])
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        answer = all_of(connection)
    assert client.get("/api/models").status_code == 200
    if not answer:  # closed while still sending
        return
    head, content = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 400")
    assert all(f"{name}: {value}".lower().encode() in head.lower() for name, value in HEADERS.items())
    assert json.loads(content)["message"] == UNREADABLE


@pytest.mark.parametrize("sent", [b"", b"GET /api/mod", ASK], ids=["idle", "slow", "answered"])
def test_who_holds_all_connections_makes_room_for_others(
    client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """The longest idle ones of the address with the most end; a single one of another address stays."""
    client.close()
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 8)
    port = client.base_url.port or 0
    with socket.create_connection(("127.0.0.1", port), 30, source_address=("127.0.0.2", 0)) as other:
        assert answered(other).startswith(b"HTTP/1.1 404")
        held = []
        for _ in range(30):
            held.append(raw(client))
            held[-1].sendall(sent)
            with raw(client) as connection:  # whoever comes is answered
                assert answered(connection).startswith(b"HTTP/1.1 404")
        assert answered(other).startswith(b"HTTP/1.1 404")
        for connection in held:
            connection.close()


def test_too_many_that_are_being_answered_let_others_come_later(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pursuit.web.serving.interviews import Interviews

    may_go_on, begun, find = threading.Event(), threading.Semaphore(0), Interviews.find

    def slow(*arguments: Any) -> Any:
        begun.release()
        assert may_go_on.wait(60)
        return find(*arguments)

    client.close()
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(Interviews, "find", slow)
    held = [raw(client) for _ in range(3)]
    for connection in held:
        connection.sendall(b"GET /api/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert begun.acquire(timeout=60)
    with raw(client) as connection:
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Too many connections" in answer
    may_go_on.set()
    for connection in held:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()


@pytest.mark.programs
def test_slow_clients_do_not_shut_a_server_that_may_have_few_files_open(
    model_folders: dict[str, Path], tmp_path: Path
) -> None:
    """Four hundred at once, where 256 files may be open: others are answered, and the log stays short."""
    resource = pytest.importorskip("resource")
    log = tmp_path / "log"
    command = [sys.executable, "-m", "pursuit", "serve", str(model_folders["illness"]), "--no-open", "--port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--database", f"sqlite:///{tmp_path / 'a.sqlite'}"],
            stdout=output,
            stderr=output,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        )
    try:
        deadline = time.monotonic() + 120
        while b"Open http://" not in log.read_bytes():
            assert process.poll() is None
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        port = int(log.read_text().split("Open http://")[1].split()[0].rsplit(":", 1)[1])
        held = []
        for _ in range(400):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", port), timeout=30))
                held[-1].sendall(b"GET /api/mod")
        with client_of(port) as client:
            assert client.get("/api/models").status_code == 200
            session = begin(client)
            assert try_move(client, session, "dont_know").status_code == 200
        for connection in held:
            connection.close()
    finally:
        process.kill()
        process.wait()
    assert log.stat().st_size < 20_000


def test_a_line_of_the_log_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    logger = logging.getLogger("pursuit.test-of-seldom")
    logger.addFilter(Seldom(lambda: now))
    for _ in range(500):
        logger.warning("The database failed: %s", "locked")
    logger.warning("Something else")
    now = 61.0
    logger.warning("The database failed: %s", "locked")
    assert [record.getMessage() for record in caplog.records] == [
        "The database failed: locked",
        "Something else",
        "The database failed: locked (499 more since this was last said.)",
    ]


def test_pages_and_models_need_no_database(models: ServedModels, tmp_path: Path) -> None:
    """While another program has locked it, and as many people as there are threads wait for it."""
    path = tmp_path / "sessions.sqlite"
    with running(models, f"sqlite:///{path}") as client, ThreadPoolExecutor(12) as pool:
        sessions = [begin(client) for _ in range(12)]
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [pool.submit(try_move, client, session, "dont_know") for session in sessions]
            for address in ("/", "/assets/served/main.js", "/api/models", "/api/models/illness"):
                assert client.get(address).status_code == 200
            assert not any(one.done() for one in waiting)
            other.rollback()
        assert {one.result().status_code for one in waiting} == {200}


def test_a_database_that_stays_locked_is_told_of(
    models: ServedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To all who wait for it at the same time, not one after the other."""
    monkeypatch.setattr("pursuit.web.serving.store.SECONDS_TO_WAIT", 0.5)
    path = tmp_path / "sessions.sqlite"
    with running(models, f"sqlite:///{path}") as client, ThreadPoolExecutor(12) as pool:
        sessions = [begin(client) for _ in range(12)]
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            answers = list(pool.map(lambda session: try_move(client, session, "dont_know"), sessions))
            other.rollback()
        assert {answer.status_code for answer in answers} == {503}
        assert "Try again" in answers[0].json()["message"]
        assert {try_move(client, session, "dont_know").status_code for session in sessions} == {200}


def wait_until_refused(client: Client) -> None:
    while True:
        try:
            raw(client).close()
        except ConnectionRefusedError:
            return


def test_a_server_that_stops_finishes_what_is_under_way(
    models: ServedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pursuit.web.serving.interviews import Interviews

    is_under_way, may_go_on, answers = threading.Event(), threading.Event(), []
    original = Interviews.move_all

    def slow(self: Interviews, *arguments: Any) -> Any:
        is_under_way.set()
        assert may_go_on.wait(60)
        return original(self, *arguments)

    database = f"sqlite:///{tmp_path / 'a.sqlite'}"
    with running(models, database, server={"timeout_graceful_shutdown": 60}) as client:
        session = begin(client)
        monkeypatch.setattr(Interviews, "move_all", slow)
        asking = threading.Thread(target=lambda: answers.append(try_move(client, session, "dont_know")))
        asking.start()
        assert is_under_way.wait(60)
        idle = raw(client)
        answered(idle)  # once it is answered, the server knows the connection
        client.stop()  # as SIGTERM does
        assert all_of(idle) == b""
        idle.close()
        wait_until_refused(client)
        may_go_on.set()
        asking.join(60)
    assert answers[0].status_code == 200
    with running(models, database) as client:
        monkeypatch.undo()
        assert client.get(f"/api/sessions/{session['id']}").json() == answers[0].json()


def test_a_process_of_the_server_knows_its_connections_before_anything_heavy_is_imported() -> None:
    code = (
        "import sys, pursuit.web.serving.connections\nprint([m for m in ('torch', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
