"""What holds of every answer, whatever was asked and whatever went wrong: its headers, and what it does not say."""

import io
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response
from sqlalchemy.exc import IntegrityError, OperationalError

from program import wait_for
from pursuit.web.serving.security import HEADERS, logged_path, without_values
from served import begin, move, try_move

INSIDE = re.compile(
    r"Traceback|File \"|site-packages|/tmp/|/usr/|/home/|/root/|\.py\b|sqlite3|psycopg|sqlalchemy", re.I
)
"""What tells of the machine or the program."""


def check(answer: Response) -> None:
    for name in HEADERS:
        assert name in answer.headers, (name, answer.request.url)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    scripts = re.findall(r"script-src ([^;]*)", policy)
    assert scripts in ([], ["'self'"])
    assert not re.search(r"https?:|\*|unsafe-eval", policy)
    assert "server" not in answer.headers
    if "text" in answer.headers.get("content-type", "") or "json" in answer.headers.get("content-type", ""):
        assert not INSIDE.search(answer.text.replace("/api/openapi.json", "")), answer.text[:500]


def test_all_routes_with_all_that_they_answer(client: Client) -> None:
    described = client.get("/api/openapi.json").json()
    session = move(client, begin(client), "tell", answer="winter")
    picture = begin(client, "digits", sample=0)
    places = {
        "model_id": ["illness", "degrees", "none"],
        "session_id": [session["id"], picture["id"], "none"],
        "n": ["0", "9"],
    }
    n_checked = 0
    for path, operations in described["paths"].items():
        names = re.findall(r"{(\w+)}", path)
        addresses = [path]
        for name in names:
            addresses = [one.replace(f"{{{name}}}", value) for one in addresses for value in places[name]]
        for address in addresses:
            for method in (*operations, "patch", "options", "head"):
                if method == "delete":
                    continue
                bodies: list[dict[str, Any]] = (
                    [{}, {"json": {"x": 1}}, {"content": b"{"}] if method in ("post", "put") else [{}]
                )
                for body in bodies:
                    check(client.request(method, address, **body))
                    n_checked += 1
    assert n_checked > 100
    for path in (
        "/",
        "/m/illness",
        "/s/none",
        "/sessions",
        "/about/illness",
        "/docs",
        "/redoc",
        "/openapi.json",
        "/%00",
    ):
        check(client.get(path))
    for name in ("served/main.js", "page.css", "en.json", "icon.svg", "none.js", "served/../../app.py"):
        answer = client.get(f"/assets/{name}")
        assert all(header in answer.headers for header in HEADERS)
    check(client.delete(f"/api/sessions/{picture['id']}"))


def test_requests_that_never_reach_a_route(client: Client) -> None:
    check(client.get("/api/models", headers={"host": "evil.example"}))
    check(client.post("/api/sessions", json={}, headers={"origin": "https://evil.example"}))
    check(client.post("/api/sessions", content=b" " * 2_000_000))


@pytest.mark.parametrize(
    "place",
    [
        "pursuit.sessions.session.Session.state",
        "pursuit.web.serving.store.Store.write_all",
        "pursuit.web.serving.interviews._record_and_state",
        "pursuit.sessions.session.Session.why",
    ],
)
def test_an_error_of_ours_is_answered_and_logged_without_what_people_said(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the answer was winter")

    session = begin(client, known={"season": "winter"})
    with monkeypatch.context() as patches, caplog.at_level(logging.DEBUG):
        patches.setattr(place, fail)
        if place.endswith("Session.why"):
            answer = client.get(f"/api/sessions/{session['id']}/why")
        else:
            client.get(f"/api/sessions/{session['id']}")
            answer = try_move(client, session, "dont_know")
        ended = time.monotonic() + 10
        while "in fail" not in caplog.text and time.monotonic() < ended:  # which is written after the answer is sent
            time.sleep(0.01)
    assert answer.status_code == 500
    check(answer)
    assert "Something went wrong" in answer.json()["message"]
    assert "winter" not in answer.text
    assert "RuntimeError" in caplog.text
    assert "in fail" in caplog.text
    assert "the answer was" not in caplog.text
    again = client.get(f"/api/sessions/{session['id']}").json()
    assert again == session  # nothing was changed
    assert move(client, again, "dont_know")["revision"] == 1


@pytest.mark.parametrize("kind", [OperationalError, IntegrityError])
def test_a_database_that_fails_is_answered_and_logged_without_what_people_said(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    session = begin(client)

    def fail(*_: Any) -> None:
        reason = "disk full" if kind is OperationalError else "row (winter)"
        raise kind("UPDATE x", {"answers": "winter"}, Exception(reason), hide_parameters=True)

    with monkeypatch.context() as patches:
        patches.setattr("pursuit.web.serving.store.Store.write_all", fail)
        answer = try_move(client, session, "tell", answer="winter")
    assert answer.status_code == 503
    check(answer)
    assert "winter" not in answer.text + caplog.text
    assert ("disk full" in caplog.text) == (kind is OperationalError)
    assert client.get(f"/api/sessions/{session['id']}").json() == session


def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin(client, title="Zebediah")

    def broken(_: Any) -> Iterator[str]:
        yield "id,model\n"
        raise RuntimeError("Zebediah")

    monkeypatch.setattr("pursuit.web.serving.routes.csv_lines", broken)
    with pytest.raises(Exception, match=r"incomplete|closed"):
        client.get("/api/sessions.csv")
    assert "Zebediah" not in caplog.text


def test_the_log_of_requests_has_no_answers_words_or_whole_ids(client: Client) -> None:
    written = io.StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger("pursuit.requests")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        session = begin(client, title="Zebediah")
        move(client, session, "tell", answer="winter")
        client.get("/api/sessions", params={"query": "winter"})
        client.get("/api/models/illness%0a2026-01-01 GET /forged")
        client.get(f"/s/{session['id']}")
        wait_for(lambda: len(written.getvalue().splitlines()) >= 5)  # the line is written once the answer is sent
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    lines = written.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[1].startswith(f"POST /api/sessions/{session['id'][:6]}…/moves 200 ")
    assert lines[2].startswith("GET /api/sessions 200 ")
    for hidden in (session["id"], "winter", "Zebediah", "127.0.0.1"):
        assert hidden not in written.getvalue()


def test_an_error_is_described_by_its_kind_and_place() -> None:
    try:
        try:
            raise ValueError("secret one")
        except ValueError as error:
            raise KeyError("secret two") from error
    except KeyError as error:
        said = without_values(error)
    assert "KeyError (from ValueError)" in said
    assert "test_an_error_is_described" in said
    assert "secret" not in said
    assert logged_path("/s/" + "x" * 500) == "/s/xxxxxx…"
    assert len(logged_path("/" + "x" * 500)) == 200


def test_what_is_not_there_is_a_page_for_people_and_a_sentence_for_programs(client: Client) -> None:
    for path in ("/nothing", "/api/sessions/nothing"):
        program = client.get(path)
        assert (program.status_code, set(program.json())) == (404, {"message"})
        person = client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert person.status_code == 404
        assert person.headers["content-type"].startswith("text/html")
        assert 'data-missing="yes"' in person.text
