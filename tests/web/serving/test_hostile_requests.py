"""Requests that nobody means well: each is refused with a sentence, and nothing breaks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client

from pursuit.web.serving.models import ServedModels
from served import begin, move, running

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "The request has no content"),
        ("{", "The request is not JSON"),
        ("[]", "must be a JSON object"),
        ('"tell"', "must be a JSON object"),
        ("{}", "“move” is missing"),
        ('{"move": "jump", "revision": 0}', "“move” cannot be used: input should be 'tell', 'dont_know'"),
        ('{"move": "tell"}', "“revision” is missing"),
        ('{"move": "tell", "revision": "x"}', "“revision” cannot be used"),
        ('{"move": "tell", "revision": -1}', "“revision” cannot be used"),
        ('{"move": "tell", "revision": 0, "colour": 1}', "“colour” is not known here"),
        ('{"move": "tell", "revision": 0, "answer": NaN}', "must be a text, a number, yes or no, or null"),
        ('{"move": "tell", "revision": 0, "answer": Infinity}', "“answer” cannot be used"),
        ('{"move": "tell", "revision": 0, "answer": {"a": 1}}', "“answer” cannot be used"),
        ('{"move": "tell", "revision": 0, "answer": "a\\u0000b"}', "control characters"),
        ('{"move": "tell", "revision": 0, "answer": "\\ud800"}', "“answer” cannot be used"),
        ('{"move": "tell", "revision": 0, "answer": "' + "x" * 600 + '"}', "“answer” cannot be used"),
        ('{"move": "tell", "revision": 0, "answer": "monsoon"}', "is one of spring, summer, autumn, winter"),
        ('{"move": "tell", "revision": 0, "query": "temperature", "answer": 1e400}', "“answer” cannot be used"),
        ('{"move": "tell", "revision": 0, "query": "temperature", "answer": "hot"}', "is a number, not 'hot'"),
        ('{"move": "tell", "revision": 0, "query": "since", "answer": "0001-01-01T00:00+23:59"}', "is a date such as"),
        ('{"move": "tell", "revision": 0, "query": "fever", "answer": "yes"}', "There is no query named 'fever'"),
        ('{"move": "change", "revision": 0, "query": "season", "answer": "spring"}', "was not answered yet"),
        ('{"move": "change", "revision": 0}', "needs the query"),
        ('{"move": "skip", "revision": 0, "query": "season"}', "has no query"),
        ('{"move": "reject", "revision": 0, "label": "gout"}', "There is no label 'gout'"),
        ('{"move": "take_back_rejection", "revision": 0, "label": "flu"}', "nothing to take back"),
        ('{"move": "undo", "revision": 0}', "nothing to take back yet"),
        ('{"move": "go_on", "revision": 0}', "goes on already"),
        ('{"move": "accept", "revision": 0}', "There is no result to accept yet"),
        ('{"move": "reveal", "revision": 0}', "This session has no picture"),
        ("[" * 100_000, "The request"),
        ('{"move": ' + "[" * 5000 + "]" * 5000 + "}", "The request"),
        ('{"move": "tell", "revision": 0, "answer": 1' + "0" * 5000 + "}", "The request"),
    ],
)
def test_a_move_that_cannot_be_made_is_explained_and_changes_nothing(
    shared_client: Client, body: str, message: str
) -> None:
    client = shared_client
    session = begin(client)
    path = f"/api/sessions/{session['id']}"
    answer = client.post(f"{path}/moves", content=body.encode(), headers=JSON)
    assert answer.status_code in (400, 404, 422), answer.text
    assert message in answer.json()["message"]
    assert "Traceback" not in answer.text
    assert client.get(path).json() == session


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"answer": "spring"}, "“answers.0.query” is missing."),
        ({"query": "season", "answer": "spring", "sure": 1}, "“answers.0.sure” is not known here"),
    ],
)
def test_what_is_wrong_with_an_answer_of_several_is_named(
    shared_client: Client, answer: dict[str, Any], message: str
) -> None:
    found = shared_client.post("/api/models/illness/next", json={"answers": [answer]})
    assert found.status_code == 422
    assert message in found.json()["message"]


@pytest.mark.parametrize("path", ["/api/sessions/%00", "/api/sessions/" + "x" * 2000, "/api/sessions/..%2f..%2fetc"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_ids_that_cannot_be_are_not_found(shared_client: Client, path: str, method: str) -> None:
    answer = shared_client.request(method, path)
    assert answer.status_code in (404, 422)
    assert answer.json()["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions?limit=0",
        "/api/sessions?limit=100000",
        "/api/sessions?offset=-1",
        "/api/sessions?offset=99999999999999999999",
        "/api/sessions?query=%00",
        "/api/sessions.csv?query=%1b",
        "/api/accuracy?model=%00",
        "/api/models/digits/samples/99.png",
        "/api/models/digits/samples/-1.png",
        "/assets/../pyproject.toml",
        "/assets/%2e%2e/app.py",
        "/nothing",
    ],
)
def test_addresses_that_cannot_be_are_refused(shared_client: Client, path: str) -> None:
    answer = shared_client.get(path)
    assert answer.status_code in (404, 422)
    assert answer.json()["message"].endswith((".", "…"))


def test_a_long_body_is_not_read(client: Client) -> None:
    session = begin(client)
    answer = client.post(f"/api/sessions/{session['id']}/moves", content=b" " * 10_000_000, headers=JSON)
    assert answer.status_code == 413
    assert "at most 1 MB" in answer.json()["message"]

    def without_length() -> Iterator[bytes]:
        yield b'{"move": "tell", "answer": "'
        for _ in range(100):
            yield b"x" * 100_000

    answer = client.post(f"/api/sessions/{session['id']}/moves", content=without_length(), headers=JSON)
    assert answer.status_code == 413


FOREIGN = ["evil.example", "evil.example:8000", "localhost.evil.example", "", "[::1", "127.0.0.1.nip.io"]


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_is_not_ours_is_refused(shared_client: Client, host: str) -> None:
    answer = shared_client.get("/api/sessions", headers={"host": host})
    assert answer.status_code in (400, 421)


def test_our_own_names_are_known(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", hosts=["interview.example"]) as client:
        for host in ("localhost:8000", "127.0.0.1", "[::1]:80", "192.168.1.5:8000", "Interview.Example:443"):
            assert client.get("/api/models", headers={"host": host}).status_code == 200


def test_pages_of_other_sites_may_not_do_anything(client: Client) -> None:
    session = begin(client)
    path = f"/api/sessions/{session['id']}"
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        for answer in (
            client.delete(path, headers={"origin": origin}),
            client.post("/api/sessions", json={"model": "illness"}, headers={"origin": origin}),
            client.options(path, headers={"origin": origin, "access-control-request-method": "DELETE"}),
        ):
            assert answer.status_code in (403, 405)
            assert "access-control-allow-origin" not in answer.headers
    assert "access-control-allow-origin" not in client.get(path, headers={"origin": "https://evil.example"}).headers
    own = f"http://{client.base_url.host}:{client.base_url.port}"
    assert client.delete(path, headers={"origin": own}).status_code == 204


def test_a_form_of_another_kind_is_not_json(client: Client) -> None:
    body = json.dumps({"model": "illness"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = client.post("/api/sessions", content=body, headers={"content-type": kind})
        assert answer.status_code == 422
        assert client.get("/api/sessions").json()["total"] == 0


def test_origins_that_are_allowed_may_use_the_api(models: ServedModels, tmp_path: Path) -> None:
    page = "https://clinic.example"
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", origins=[page]) as client:
        answer = client.post("/api/sessions", json={"model": "illness"}, headers={"origin": page})
        assert answer.status_code == 201
        assert answer.headers["access-control-allow-origin"] == page
        asked = {"origin": page, "access-control-request-method": "DELETE"}
        assert "DELETE" in client.options("/api/sessions/x", headers=asked).headers["access-control-allow-methods"]


def test_nothing_that_people_type_becomes_markup(client: Client) -> None:
    title = "<script>alert(1)</script>"
    session = begin(client, title=title)
    page = client.get(f"/api/sessions/{session['id']}/report").text
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_description_of_the_api_is_whole(client: Client) -> None:
    described = client.get("/api/openapi.json").json()
    assert described["openapi"].startswith("3.")
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert all(one["summary"] and one["tags"] for one in operations)
    assert {"State", "Question", "Why", "Move", "Problem"} <= set(described["components"]["schemas"])
    assert "http" not in json.dumps(described)
    assert client.get("/docs").status_code == 404


def test_much_at_once_is_answered_quickly(client: Client) -> None:
    many = [{"query": "season", "answer": "winter"}] * 5000
    answer = client.post("/api/models/illness/next", json={"answers": many})
    assert "answered twice" in answer.json()["message"]
    assert client.get("/api/sessions", params={"query": "a " * 240}).status_code == 200
    session = begin(client, known={"season": "winter"})
    for i in range(3):
        session = move(client, session, "change", query="season", answer=["spring", "winter"][i % 2])
    assert session["revision"] == 3
