"""A server that asks for a token: what is closed, how one comes in, and how often one may try."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from httpx import Client
from starlette.requests import Request
from starlette.responses import Response

from pursuit.web.serving.app import ROUTERS
from pursuit.web.serving.auth import Rates, Token, read_token
from pursuit.web.serving.models import ServedModels
from served import begin, move, running

SECRET = "correct-horse-battery"
BEARER = {"authorization": f"Bearer {SECRET}"}


@pytest.fixture
def client(models: ServedModels, tmp_path: Path) -> Iterator[Client]:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", token=SECRET, origins=["https://clinic.example"]) as own:
        yield own


@pytest.fixture(scope="module")
def stranger(models: ServedModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of one server for all tests of strangers, who may try as often as they like and change nothing."""
    path, rates = tmp_path_factory.mktemp("strangers") / "a.sqlite", Rates(wrong_tokens=0)
    with running(models, f"sqlite:///{path}", token=SECRET, rates=rates, origins=["https://clinic.example"]) as own:
        yield own


def addresses() -> list[Any]:
    """Every route there is, with something for each of its parameters."""
    routes = [route for router in ROUTERS for route in router.routes]
    found = {
        (method, re.sub(r"{\w+(:path)?}", "1", route.path))
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    return sorted(found | {("GET", "/api/openapi.json"), ("GET", "/nothing")})


@pytest.mark.parametrize(("method", "path"), addresses())
def test_nothing_is_given_to_those_who_do_not_know_it(stranger: Client, method: str, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic x"}, {"cookie": "pursuit_x=1"}):
        answer = stranger.request(method, path, headers=headers)
        assert answer.status_code == 401, answer.text
        assert "illness" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        if path.startswith("/api"):
            assert answer.json()["message"]
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_program_names_it_in_a_header(client: Client) -> None:
    client.headers.update(BEARER)
    assert move(client, begin(client), "dont_know")["revision"] == 1


def test_a_browser_brings_it_once_and_gets_a_cookie(client: Client) -> None:
    answer = client.post("/api/token", json={"token": f" {SECRET} "})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert SECRET not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    assert begin(client)["revision"] == 0
    name, value = cookie.split(";")[0].split("=")
    for wrong in (value[:-1], value + "0", "", "é"):
        client.cookies.clear()
        assert client.get("/api/models", headers={"cookie": f"{name}={wrong}".encode()}).status_code == 401


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"token": 5}', b'{"token": null}', b"[" * 1900, b"\xff", b" " * 90_000]
)
def test_what_is_not_a_token_is_explained(stranger: Client, body: bytes) -> None:
    answer = stranger.post("/api/token", content=body)
    assert answer.status_code == 422
    assert "Send the token as JSON" in answer.json()["message"]


def test_the_page_without_a_token_is_empty_and_has_its_files(stranger: Client) -> None:
    page = stranger.get("/")
    assert page.status_code == 401
    assert "/assets/served/main.js" in page.text
    assert stranger.get("/assets/served/main.js").status_code == 200
    for path in ("/assets/..%2fapi/models", "/assets/%2e%2e/api/models", "/assets//api/models"):
        assert stranger.get(path).status_code in (401, 404)


def test_it_is_not_guessed_by_trying(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", token=SECRET, rates=Rates(wrong_tokens=3)) as client:
        inside = Client(base_url=client.base_url, trust_env=False)
        assert inside.post("/api/token", json={"token": SECRET}).status_code == 204
        tried = [client.post("/api/token", json={"token": f"guess {i}"}).status_code for i in range(3)]
        assert tried == [401] * 3
        answer = client.get("/api/models", headers={"authorization": "Bearer guess"})
        assert answer.status_code == 429
        assert "wrong token was given too often" in answer.json()["message"]
        assert client.get("/api/models", headers=BEARER).status_code == 429  # or guessing would go on unseen
        assert inside.get("/api/models").status_code == 200  # who is inside stays inside
        inside.close()


def test_pages_of_sites_that_are_allowed_may_ask_what_they_need(stranger: Client) -> None:
    origin = {"origin": "https://clinic.example"}
    asked = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    assert stranger.options("/api/sessions", headers=asked).status_code == 200
    refused = stranger.get("/api/models", headers=origin)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, origin["origin"])


def test_a_cookie_is_for_https_alone_where_there_is_https() -> None:
    response = Response()
    Token(SECRET).put_in_cookie(response, is_secure=True)
    assert response.headers["set-cookie"].endswith("; Secure")
    assert not Token(SECRET).is_in_cookie(Request({"type": "http", "headers": [(b"cookie", b'"')]}))


@pytest.mark.parametrize(
    "secret", ["short", "x" * 501, "with spaces in between", "schlüsselwortschlüssel", "tab\tin the middle of"]
)
def test_a_token_that_is_no_good_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match=r"A token .* Make one with"):
        read_token(secret, None)


def test_a_token_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    assert read_token(None, tmp_path / "token") == SECRET
    assert read_token(None, None) is None
    with pytest.raises(ValueError, match="not both"):
        read_token(SECRET, tmp_path / "token")
    with pytest.raises(ValueError, match=r"cannot be read from .*: No such file"):
        read_token(None, tmp_path / "none")
    (tmp_path / "token").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="it is not a text"):
        read_token(None, tmp_path / "token")
