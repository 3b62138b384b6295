"""Clients that send slowly, too much or nothing, and a server that stops: on real sockets."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from pursuit.web.serving import connections
from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.running import bound
from pursuit.web.serving.security import HEADERS
from served import begin, running, try_move


@pytest.fixture
def client(models: ServedModels, tmp_path: Path) -> Iterator[Client]:
    with running(models, f"sqlite:///{tmp_path / 'sessions.sqlite'}") as found:
        yield found


def raw(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=30)


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    try:
        return b"".join(iter(lambda: connection.recv(65536), b""))
    except ConnectionResetError:
        return b""


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
    monkeypatch.setattr(connections, "SECONDS_TO_SEND", 0.3)
    with raw(client) as connection:
        connection.sendall(sent)
        assert b" 200 " not in all_of(connection)  # it ends at all
    assert client.get("/api/models").status_code == 200


def test_a_request_that_comes_in_time_is_answered_and_the_connection_stays(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SECONDS_TO_SEND", 5.0)
    with raw(client) as connection:
        for _ in range(3):
            for part in (b"GET /api/models/none HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n"):
                connection.sendall(part)
            answer = b""
            while b'"}' not in answer:
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 404")


def test_who_does_not_read_his_answer_is_cut_off(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    is_cut, cut_off = threading.Event(), connections.Connection._cut_off

    def endless(_: Any) -> Iterator[str]:
        while not is_cut.is_set():
            yield "x" * 100_000

    def noted(connection: connections.Connection) -> None:
        cut_off(connection)
        is_cut.set()

    monkeypatch.setattr(connections, "SECONDS_TO_SEND", 0.3)
    monkeypatch.setattr(connections.Connection, "_cut_off", noted)
    monkeypatch.setattr("pursuit.web.serving.routes.csv_lines", endless)
    with raw(client) as connection:
        connection.sendall(b"GET /api/sessions.csv HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert is_cut.wait(30)
        assert not all_of(connection).endswith(b"0\r\n\r\n")  # which would be a whole answer


PIECE = 18_000
"""More than a request may have before it is complete."""


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
    ids=["long address", "long header", "many headers", "TLS", "negative length", "two lengths"],
)
def test_what_is_no_request_is_answered_in_a_sentence_with_all_headers(client: Client, sent: bytes) -> None:
    with raw(client) as connection:
        connection.sendall(sent[:PIECE])
        if len(sent) > PIECE:  # a request that arrives at once, as a whole, is read whatever its length
            time.sleep(0.3)
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent[PIECE:])
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        answer = all_of(connection)
    if not answer:  # closed while still sending
        return
    head, content = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 400")
    assert all(f"{name}: {value}".encode() in head for name, value in HEADERS.items())
    assert json.loads(content)["message"] == connections.UNREADABLE


def test_too_many_connections_are_told_to_come_later(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.close()
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    held = [raw(client) for _ in range(3)]
    for connection in held:  # answered, so they are counted
        connection.sendall(b"GET /api/models/none HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404")
    with raw(client) as connection:
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Too many connections" in answer
    for connection in held:
        connection.close()


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
    original = Interviews.move

    def slow(self: Interviews, *arguments: Any) -> Any:
        is_under_way.set()
        assert may_go_on.wait(60)
        return original(self, *arguments)

    database = f"sqlite:///{tmp_path / 'a.sqlite'}"
    with running(models, database, server={"timeout_graceful_shutdown": 60}) as client:
        session = begin(client)
        monkeypatch.setattr(Interviews, "move", slow)
        asking = threading.Thread(target=lambda: answers.append(try_move(client, session, "dont_know")))
        asking.start()
        assert is_under_way.wait(60)
        idle = raw(client)
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
