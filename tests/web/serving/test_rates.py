"""How much one client may ask for: buckets with a clock of the tests' own, and what the server says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Client

from pursuit.web.serving import auth
from pursuit.web.serving.auth import Buckets, Limits, Rates, client_of
from pursuit.web.serving.models import ServedModels
from served import begin, running, try_move


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def request(address: str = "192.0.2.1", method: str = "GET", path: str = "/api/models") -> dict[str, object]:
    return {"client": (address, 1), "method": method, "path": path}


def test_a_bucket_empties_and_fills_again_for_each_client() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 3.0, clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    clock.now = 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 0.5]
    clock.now = 100.0
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert Buckets(0.0, 0.0, clock).take("a") == 0


def test_clients_seen_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MOST_CLIENTS", 3)
    buckets = Buckets(1.0, 1.0, Clock())
    for client in "abcde":
        assert buckets.take(client) == 0
    assert buckets.take("e") > 0
    assert buckets.take("a") == 0


def test_three_hundred_people_behind_one_address_are_never_refused() -> None:
    """All arrive in one moment, load the page with its files, begin, and answer every 1.5 seconds for two minutes."""
    clock = Clock()
    limits = Limits(Rates(), clock)
    for _ in range(300):
        assert all(limits.problem(request(path="/assets/x.js")) is None for _ in range(30))
        assert all(limits.problem(request()) is None for _ in range(3))
        assert limits.problem(request(method="POST", path="/api/sessions")) is None
    for _ in range(80):
        clock.now += 1.5
        assert all(limits.problem(request(method="POST", path="/api/sessions/x/moves")) is None for _ in range(300))


def test_a_flood_is_refused_until_it_ebbs() -> None:
    clock = Clock()
    limits = Limits(Rates(per_second=10, at_once=50), clock)
    found = [limits.problem(request()) for _ in range(60)]
    assert found[:50] == [None] * 50
    seconds, message = found[-1] or (0, "")
    assert (seconds, message) == (1, "There were too many requests from your address. Try again in 1 second.")
    assert limits.problem(request("192.0.2.2")) is None
    clock.now += 1
    assert limits.problem(request()) is None


def test_networks_of_ipv6_are_one_client() -> None:
    assert client_of(request("2001:db8::1")) == client_of(request("2001:db8::ffff:2")) == "2001:db8::/64"
    assert client_of(request("2001:db8:0:1::1")) != client_of(request("2001:db8::1"))
    assert client_of(request("::ffff:192.0.2.1")) == client_of(request("192.0.2.1"))
    assert client_of({"client": None}) == ""


@pytest.fixture
def hurried(models: ServedModels, tmp_path: Path) -> Iterator[Client]:
    slow = Rates(per_second=0.001, at_once=12, new_sessions=0.06)
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", rates=slow) as client:
        yield client


def test_who_asks_too_much_is_told_when_to_come_again(hurried: Client) -> None:
    answers = [hurried.get("/api/models") for _ in range(14)]
    assert [answer.status_code for answer in answers] == [200] * 12 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) > 900
    assert "Try again in" in answers[-1].json()["message"]
    assert answers[-1].headers["content-security-policy"].startswith("default-src 'none'")


def test_sessions_are_not_begun_without_end(models: ServedModels, tmp_path: Path) -> None:
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", rates=Rates(new_sessions=2)) as client:
        session = begin(client)
        begin(client)
        answer = client.post("/api/sessions", json={"model": "illness"})
        assert answer.status_code == 429
        assert "Too many sessions were begun" in answer.json()["message"]
        assert try_move(client, session, "dont_know").status_code == 200  # who has begun goes on
        assert client.get("/api/sessions").json()["total"] == 2


def test_nobody_says_by_himself_where_he_comes_from(hurried: Client) -> None:
    answers = [hurried.get("/api/models", headers={"x-forwarded-for": f"192.0.2.{i}"}) for i in range(14)]
    assert answers[-1].status_code == 429


def test_a_proxy_that_is_named_is_believed(models: ServedModels, tmp_path: Path) -> None:
    slow, proxy = Rates(per_second=0.001, at_once=3), {"proxy_headers": True, "forwarded_allow_ips": "127.0.0.1"}
    with running(models, f"sqlite:///{tmp_path / 'a.sqlite'}", rates=slow, server=proxy) as client:
        # What a client writes itself stands before what the proxy adds, and does not count.
        spoofed = [
            client.get("/api/models", headers={"x-forwarded-for": f"192.0.2.{i}, 198.51.100.1"}) for i in range(5)
        ]
        assert [answer.status_code for answer in spoofed] == [200] * 3 + [429] * 2
        assert client.get("/api/models", headers={"x-forwarded-for": "198.51.100.2"}).status_code == 200
