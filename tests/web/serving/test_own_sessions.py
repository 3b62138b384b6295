"""A browser lists its own sessions and nobody else's; the list of all is the operator's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pursuit.web.serving.models import ServedModels
from served import begin, move, running

OPERATOR, VISITOR = "the-operators-own-token", "a-token-of-the-tests"
LISTS = ("/api/sessions", "/api/sessions.csv", "/api/accuracy")


@pytest.fixture
def client(models: ServedModels, tmp_path: Path) -> Iterator[httpx.Client]:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", operator_token=OPERATOR) as client:
        yield client


def stranger(client: httpx.Client) -> httpx.Client:
    return httpx.Client(base_url=client.base_url, trust_env=False, verify=False)


def listed(client: httpx.Client, **options: Any) -> list[str]:
    return [one["id"] for one in client.get("/api/sessions", **options).json()["sessions"]]


def test_a_browser_sees_its_own_sessions_alone(client: httpx.Client) -> None:
    own = begin(client)
    with stranger(client) as other:
        assert listed(other) == []
        theirs = begin(other)
        assert listed(other) == [theirs["id"]]
        assert theirs["id"] not in client.get("/api/sessions.csv").text
        assert other.get(f"/api/sessions/{own['id']}").status_code == 200  # by a link that only its owner has
    assert listed(client) == [own["id"]]


def test_the_cookie_is_for_no_script_and_no_other_site_and_not_in_the_database(
    client: httpx.Client, tmp_path: Path
) -> None:
    answer = client.post("/api/sessions", json={"model": "illness"})
    cookie = answer.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    secret = cookie.split("=", 1)[1].split(";")[0]
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.glob("a.sqlite*"))
    client.cookies.set("pursuit_browser", "' OR 1=1 --")
    assert listed(client) == []


@pytest.mark.parametrize("path", LISTS)
def test_the_list_of_all_is_the_operators(client: httpx.Client, path: str) -> None:
    begin(client)
    refused = client.get(path, params={"all": True})
    assert refused.status_code == 401
    assert "operator" in refused.json()["message"]
    wrong = {"authorization": "Bearer not-the-operators-token"}
    assert client.get(path, params={"all": True}, headers=wrong).status_code == 401
    right = {"authorization": f"Bearer {OPERATOR}"}
    assert client.get(path, params={"all": True}, headers=right).status_code == 200


def test_the_operator_sees_all_once_the_token_was_typed(client: httpx.Client) -> None:
    own = begin(client)
    with stranger(client) as operator:
        assert operator.post("/api/token", json={"token": OPERATOR}).status_code == 204
        assert listed(operator) == []
        assert listed(operator, params={"all": True}) == [own["id"]]


def test_without_an_operators_token_nobody_lists_all(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}") as client:
        begin(client)
        refused = client.get("/api/sessions", params={"all": True})
        assert refused.status_code == 404
        assert "--operator-token" in refused.json()["message"]


def test_the_operators_token_lets_in_where_visitors_need_one_and_theirs_does_not_list_all(
    models: ServedModels, tmp_path: Path
) -> None:
    tokens = {"token": VISITOR, "operator_token": OPERATOR}
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", **tokens) as client:
        assert client.get("/api/models").status_code == 401
        client.headers["authorization"] = f"Bearer {VISITOR}"
        begin(client)
        assert client.get("/api/sessions", params={"all": True}).status_code == 401
        client.headers["authorization"] = f"Bearer {OPERATOR}"
        assert len(listed(client, params={"all": True})) == 1


def test_where_browsers_are_shared_none_lists_anything(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", lists_sessions=False) as client:
        answer = client.post("/api/sessions", json={"model": "illness"})
        assert "set-cookie" not in answer.headers
        assert all(client.get(path).status_code == 404 for path in LISTS)


def test_a_person_takes_the_answers_along_and_deletes_them(client: httpx.Client) -> None:
    session = move(client, begin(client, known={"sneezing": "yes"}), "dont_know")
    saved = client.get(f"/api/sessions/{session['id']}/answers.json")
    assert saved.headers["content-disposition"] == 'attachment; filename="answers.json"'
    (told, asked) = saved.json()["answers"]
    assert (told["name"], told["answer"], asked["answer"]) == ("sneezing", "yes", None)
    assert client.delete(f"/api/sessions/{session['id']}").status_code == 204
    assert client.get(f"/api/sessions/{session['id']}/answers.json").status_code == 404


def test_the_operator_watches_a_model(client: httpx.Client) -> None:
    session = begin(client)
    while not session["state"]["done"]:
        session = move(client, session, "dont_know")
    client.put(f"/api/sessions/{session['id']}/truth", json={"label": "flu"})
    assert client.get("/api/watch/illness").status_code == 401
    operator = {"authorization": f"Bearer {OPERATOR}"}
    for _ in range(2):  # what was looked at is kept
        page = client.get("/api/watch/illness", headers=operator)
        assert page.status_code == 200
        assert "1 session, of which the truth is known of 1." in page.text
    assert client.get("/api/watch/none", headers=operator).status_code == 404
