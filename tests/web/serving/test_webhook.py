"""The end of an interview is told to another program: a real receiver, which may fail at first."""

import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from program import wait_for
from pursuit.web.serving import running as running_server
from pursuit.web.serving import webhook
from pursuit.web.serving.models import ServedModels, nothing
from pursuit.web.serving.webhook import Webhook, signature
from served import begin, move, running

SECRET = "a secret of the two programs"


class Receiver:
    """What it was sent, and how it answers, one reply after the other."""

    def __init__(self) -> None:
        self.replies: list[int] = []
        self.received: list[tuple[str, bytes]] = []
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                own.received.append((self.headers["x-pursuit-signature"], body))
                status = own.replies.pop(0) if own.replies else 204
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/ended?key=private"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    own = Receiver()
    thread = threading.Thread(target=own.server.serve_forever)
    thread.start()
    yield own
    own.server.shutdown()
    thread.join()


def to_the_end(client: Any) -> dict[str, Any]:
    session = begin(client, "illness")
    while not session["state"]["done"]:
        session = move(client, session, "dont_know")
    return session


def test_the_end_is_sent_once_signed_and_tried_again(
    models: ServedModels, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(webhook, "PAUSES", (0.0, 0.0, 0.0))
    receiver.replies = [503, 302]
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with (
        caplog.at_level(logging.INFO, logger="pursuit.webhook"),
        running(models, database, webhook=receiver.url, webhook_secret=SECRET) as client,
    ):
        session = to_the_end(client)
        wait_for(lambda: len(receiver.received) == 3)
        wait_for(lambda: "was sent" in caplog.text)
        assert move(client, session, "accept")["accepted"]  # which is no other end
        other = to_the_end(client)
        wait_for(lambda: len(receiver.received) == 4)
    told, body = receiver.received[2]
    moment, digest = (part.partition("=")[2] for part in told.split(","))
    assert digest == hmac.new(SECRET.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    assert told == signature(SECRET, int(moment), body)
    assert {body for _, body in receiver.received[:3]} == {body}
    content = json.loads(body)
    result = session["state"]["result"]
    assert (content["event"], content["session"], content["model"]) == ("interview.ended", session["id"], "illness")
    assert (content["result"], content["probability"]) == (result["label"], result["probability"])
    assert [one["name"] for one in content["answers"]] == [
        one["question"]["name"] for one in session["state"]["answers"]
    ]
    assert json.loads(receiver.received[3][1])["session"] == other["id"]
    assert "attempt 1 (status 503)" in caplog.text
    assert "attempt 2 (status 302)" in caplog.text
    assert "private" not in caplog.text
    assert session["id"] not in caplog.text


def test_who_cannot_be_reached_is_given_up_and_nobody_waits(
    models: ServedModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(webhook, "PAUSES", (0.0,))
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with running(models, database, webhook="http://127.0.0.1:9", webhook_secret=SECRET) as client:
        assert to_the_end(client)["state"]["result"]
        wait_for(lambda: "attempt 2" in caplog.text)
    assert "and is given up" in caplog.text


def test_an_end_that_is_refused_holds_no_other_up(
    models: ServedModels, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "PAUSES", (3600.0,))
    receiver.replies = [400]
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    with running(models, database, webhook=receiver.url, webhook_secret=SECRET) as client:
        sessions = [to_the_end(client)["id"] for _ in range(2)]
        wait_for(lambda: len(receiver.received) == 2)
    assert [json.loads(body)["session"] for _, body in receiver.received] == sessions


def test_the_server_logs_what_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("handlers", []), ("propagate", True)):
        monkeypatch.setattr(webhook.logger, name, value)  # which are put back afterwards
    monkeypatch.setattr(running_server, "load_models", lambda *_: ServedModels([]))
    database = f"sqlite:///{tmp_path / 'sessions.sqlite'}"
    server = running_server.Settings(("none",), database=database, webhook="http://127.0.0.1:9", webhook_secret=SECRET)
    server.make_app(nothing, nothing)
    webhook.logger.info("The end was sent.")
    assert capsys.readouterr().err.endswith(" The end was sent.\n")


@pytest.mark.parametrize("url", ["ftp://example.org", "example.org", "https://", "file:///etc/passwd"])
def test_addresses_and_secrets_are_checked(url: str) -> None:
    with pytest.raises(ValueError, match="A webhook is an address"):
        Webhook(url, SECRET)
    for secret in (None, "short"):
        with pytest.raises(ValueError, match=f"put a secret of at least 16 characters into {webhook.SECRET_VARIABLE}"):
            Webhook("https://example.org", secret)
