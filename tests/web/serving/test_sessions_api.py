"""Sessions by the API, the same with SQLite and with PostgreSQL."""

import csv
import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Client, Response

from pursuit.web.serving.models import ServedModels
from served import begin, move, play, running, try_move, without_clock

FLU = {"temperature": 39.2, "sneezing": "no", "itching": "no", "season": "winter", "since": "2024-02-01"}


@pytest.fixture
def client(models: ServedModels, database: str) -> Iterator[Client]:
    with running(models, database) as found:
        yield found


def test_a_person_is_asked_until_the_model_is_sure(client: Client) -> None:
    session = begin(client)
    state = session["state"]
    assert (session["revision"], session["outcome"], state["done"], state["can_undo"]) == (0, None, False, False)
    assert state["question"]["number"] == 1
    assert [one["name"] for one in state["open"]] == list(FLU)
    session = play(client, session, FLU)
    state = session["state"]
    assert session["outcome"] == state["result"]["label"] == "flu"
    assert session["probability"] == state["belief"]["labels"][0]["probability"] > 0.9
    assert session["n_asked"] == state["result"]["n_asked"] == len(state["answers"])
    assert state["result"]["reasons"]["for"][0]["weight"] > 0
    assert sum(one["probability"] for one in state["belief"]["labels"]) == pytest.approx(1, abs=1e-5)
    assert client.get(f"/api/sessions/{session['id']}").json() == session


def test_a_session_outlives_the_server(models: ServedModels, database: str) -> None:
    with running(models, database) as client:
        session = move(client, begin(client), "tell", answer="yes", query="sneezing")
        session = move(client, session, "skip")
        session = move(client, session, "reject", label="cold")
    with running(models, database) as client:
        again = client.get(f"/api/sessions/{session['id']}").json()
        assert again == session
        assert move(client, again, "undo")["state"]["answers"][-1]["kind"] == "answer"


def test_a_changed_session_equals_a_fresh_one_with_those_answers(client: Client) -> None:
    session = begin(client)
    assert session["state"]["question"]["name"] == "season"
    session = move(client, session, "tell", answer="winter")
    session = move(client, session, "dont_know")
    session = move(client, session, "tell", query="since", answer="2024-03-01")
    changed = move(client, session, "change", query="season", answer="autumn")
    assert [given["shown"] for given in changed["state"]["answers"]] == ["autumn", None, "2024-03-01"]
    told = [
        {"query": given["question"]["name"], "answer": given["value"], "volunteered": given["volunteered"]}
        for given in changed["state"]["answers"]
    ]
    fresh = client.post("/api/models/illness/next", json={"answers": told}).json()
    assert fresh["state"] == changed["state"]
    assert fresh["why"] == client.get(f"/api/sessions/{changed['id']}/why").json()
    back = move(client, changed, "undo")
    assert without_clock(back) == without_clock(session)


def test_undo_is_the_same_whether_the_session_is_in_memory_or_not(models: ServedModels, database: str) -> None:
    with running(models, database) as client:
        session = move(client, begin(client), "tell", answer="yes", query="sneezing")
        session = move(client, session, "reject", label="flu")
        session = move(client, session, "change", query="sneezing", answer="no")
        session = move(client, session, "take_back_rejection", label="flu")
    with running(models, database) as client:
        session = move(client, session, "undo")
        assert {"kind": "rejected", "label": "flu"} in session["state"]["answers"]
        session = move(client, session, "undo")
        assert session["state"]["answers"][0]["value"] == "yes"


def test_two_tabs_never_lose_a_move(client: Client) -> None:
    session = begin(client)
    first = try_move(client, session, "tell", answer="yes", query="sneezing")
    second = try_move(client, session, "tell", answer="yes", query="itching")
    assert (first.status_code, second.status_code) == (200, 409)
    assert second.json()["session"] == first.json()
    assert "another window" in second.json()["message"]
    assert move(client, second.json()["session"], "tell", answer="yes", query="itching")["revision"] == 2


def test_of_many_who_race_for_one_revision_one_wins(client: Client) -> None:
    session = begin(client)
    names = ["sneezing", "itching"] * 8
    answers: list[Response] = []
    barrier = threading.Barrier(len(names))

    def race(name: str) -> None:
        barrier.wait()
        answers.append(try_move(client, session, "tell", answer="yes", query=name))

    threads = [threading.Thread(target=race, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * (len(names) - 1)]
    now = client.get(f"/api/sessions/{session['id']}").json()
    assert (now["revision"], len(now["state"]["answers"])) == (1, 1)
    assert now == next(answer.json() for answer in answers if answer.status_code == 200)


def test_a_person_rejects_goes_on_and_accepts(client: Client) -> None:
    session = play(client, begin(client), FLU)
    session = move(client, session, "accept")
    assert session["accepted"]
    assert session["right"]
    session = move(client, session, "undo")  # of being content, and of no answer
    assert not session["accepted"]
    assert session["state"]["done"]
    rejected = move(client, session, "reject")
    assert rejected["outcome"] != "flu"
    assert {"kind": "rejected", "label": "flu"} in rejected["state"]["answers"]
    back = move(client, rejected, "take_back_rejection", label="flu")
    assert back["state"]["belief"] == session["state"]["belief"]
    if back["state"]["can_go_on"]:
        assert not move(client, back, "go_on")["state"]["done"]


def test_a_number_that_is_hardly_meant_is_asked_for_again(client: Client) -> None:
    session = begin(client)
    answer = try_move(client, session, "tell", query="temperature", answer=375)
    assert answer.status_code == 422
    assert answer.json()["doubt"]["suggestions"] == ["37.5"]
    session = move(client, session, "tell", query="temperature", answer=375, confirmed=True)
    assert session["state"]["answers"][0]["value"] == 375


def test_past_sessions_are_found_by_model_result_answer_and_truth(client: Client) -> None:
    flu = play(client, begin(client, title="Ms Ö. from 100% Street"), FLU)
    open_one = move(client, begin(client), "tell", query="season", answer="summer")
    begin(client, "ordered")
    client.put(f"/api/sessions/{flu['id']}/truth", json={"label": "Grippe A"}).raise_for_status()

    def found(**parameters: Any) -> list[str]:
        answer = client.get("/api/sessions", params=parameters).json()
        assert answer["total"] >= len(answer["sessions"])
        return [one["id"] for one in answer["sessions"]]

    assert len(found()) == 3
    assert found()[-1] == flu["id"]  # the newest come first
    assert found(model="illness") == [open_one["id"], flu["id"]]
    assert found(query="SUMMER") == [open_one["id"]]
    assert found(query="flu grippe") == [flu["id"]]
    assert found(query="ö. 100%") == [flu["id"]]
    assert found(query="1_0%") == []  # nothing is a pattern
    assert found(limit=1, offset=1) == [open_one["id"]]
    assert found(query="nothing like it") == []


def test_the_table_of_sessions_holds_no_formulas(client: Client) -> None:
    session = play(client, begin(client, title='=HYPERLINK("evil")'), FLU)
    client.put(f"/api/sessions/{session['id']}/truth", json={"label": "+flu"}).raise_for_status()
    answer = client.get("/api/sessions.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert len(rows) == 1
    assert rows[0]["title"] == """'=HYPERLINK("evil")"""
    assert rows[0]["true result"] == "'+flu"
    assert (rows[0]["result"], rows[0]["finished"], rows[0]["right"]) == ("flu", "yes", "no")
    assert "39.2" in rows[0]["answers"] or "winter" in rows[0]["answers"]


def test_accuracy_is_that_of_first_guesses_whose_truth_is_known(client: Client) -> None:
    assert client.get("/api/accuracy").json() == {
        "n": 0,
        "n_right": 0,
        "accuracy": None,
        "interval": None,
        "points": [],
    }
    right, wrong, rejected, _ = (play(client, begin(client), FLU) for _ in range(4))
    client.put(f"/api/sessions/{right['id']}/truth", json={"label": " FLU "}).raise_for_status()
    client.put(f"/api/sessions/{wrong['id']}/truth", json={"label": "measles"}).raise_for_status()
    rejected = play(client, move(client, rejected, "reject"), FLU)
    move(client, rejected, "accept")
    found = client.get("/api/accuracy", params={"model": "illness"}).json()
    assert (found["n"], found["n_right"], found["accuracy"]) == (3, 1, pytest.approx(1 / 3))
    assert found["interval"][0] < 1 / 3 < found["interval"][1]
    assert [(one["n"], one["so_far_right"]) for one in found["points"]] == [(3, 1)]
    answer = client.put(f"/api/sessions/{right['id']}/truth", json={"label": None})
    assert (answer.json()["truth"], answer.json()["right"]) == (None, None)


def test_what_is_deleted_is_gone(client: Client) -> None:
    session = begin(client)
    assert client.delete(f"/api/sessions/{session['id']}").status_code == 204
    for answer in (
        client.get(f"/api/sessions/{session['id']}"),
        client.delete(f"/api/sessions/{session['id']}"),
        try_move(client, session, "skip"),
    ):
        assert answer.status_code == 404
        assert "There is no such session" in answer.json()["message"]


def test_a_report_is_a_page_that_loads_nothing(client: Client) -> None:
    session = play(client, begin(client), FLU)
    page = client.get(f"/api/sessions/{session['id']}/report")
    assert page.headers["content-type"].startswith("text/html")
    assert "unsafe-inline" not in page.headers["content-security-policy"].split("style-src")[0]
    assert "<h1>flu</h1>" in page.text
    assert "http" not in page.text.replace("http-equiv", "")


def test_why_says_what_speaks_for_the_question(client: Client) -> None:
    session = begin(client)
    why = client.get(f"/api/sessions/{session['id']}/why").json()
    assert why["reason"]["kind"] == "bits"
    assert why["candidates"][0]["name"] == session["state"]["question"]["name"]
    assert why["candidates"][0]["bits"] >= why["candidates"][1]["bits"]
    assert sum(one["probability"] for one in why["answers"]) == pytest.approx(1, abs=1e-4)
    done = play(client, session, FLU)
    assert client.get(f"/api/sessions/{done['id']}/why").status_code == 422
