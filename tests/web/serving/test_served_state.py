"""What the state of a session says, kind by kind of question."""

import csv
import io
from typing import Any

import pytest
from httpx import Client

from served import begin, move, play


def question(client: Client, model: str, name: str) -> dict[str, Any]:
    questions = client.get(f"/api/models/{model}/questions").json()["questions"]
    return next(one for one in questions if one["name"] == name)


def test_questions_say_how_they_are_answered(client: Client) -> None:
    yes_no = question(client, "illness", "sneezing")
    assert (yes_no["kind"], yes_no["is_yes_no"]) == ("choice", True)
    assert [one["value"] for one in yes_no["choices"]] == ["yes", "no"]  # as people say it
    number = question(client, "illness", "temperature")
    assert (number["kind"], number["choices"], number["decimals"]) == ("number", [], 1)
    assert 30 < number["seen"][0] < number["centre"] < number["seen"][1] < 45
    assert question(client, "illness", "since")["kind"] == "date"
    season = question(client, "illness", "season")
    assert [one["text"] for one in season["choices"]] == ["spring", "summer", "autumn", "winter"]


def test_not_knowing_moves_neither_belief_nor_progress(client: Client) -> None:
    before = begin(client)
    after = move(client, before, "tell", answer=None)
    assert after["state"]["belief"] == before["state"]["belief"]
    assert after["state"]["progress"] == before["state"]["progress"] == 0
    left = after["state"]["answers"][0]
    assert (left["value"], left["shown"], left["gained"]) == (None, None, None)
    told = move(client, after, "tell", query="season", answer="spring")
    assert 0 < told["state"]["progress"] < 1


def test_answers_are_given_back_as_they_would_be_sent(client: Client) -> None:
    session = begin(client, known={"temperature": "37,5", "sneezing": "Y", "since": "2024-02-03", "itching": None})
    shown = {one["question"]["name"]: (one["value"], one["shown"]) for one in session["state"]["answers"]}
    assert shown == {
        "temperature": (37.5, "37.5"),
        "sneezing": ("yes", "yes"),
        "since": ("2024-02-03", "2024-02-03"),
    }
    assert all(one["volunteered"] and one["question"]["number"] == 0 for one in session["state"]["answers"])


def test_how_many_questions_are_left_is_never_more_than_there_are(client: Client) -> None:
    session = begin(client)
    while not session["state"]["done"]:
        left = session["state"]["questions_left"]
        assert 1 <= left["n"] <= min(len(session["state"]["open"]), 4 - len(session["state"]["answers"]))
        session = move(client, session, "dont_know")
    assert session["n_asked"] == 4  # its budget
    free = move(client, session, "go_on")["state"]
    assert free["questions_left"] == {"kind": "at_most", "n": 1, "low": 1}
    assert not free["can_skip"]


def test_a_number_is_predicted_with_its_range(client: Client) -> None:
    session = play(client, begin(client, "degrees"), {"season": "winter", "itching": "no", "sneezing": "no"})
    state = session["state"]
    number = state["belief"]["number"]
    assert state["is_number"]
    assert number["low"] <= number["expected"] <= number["high"]
    assert (session["outcome"], session["probability"]) == (state["result"]["label"], None)
    assert state["result"]["runner_up"] is None
    path = f"/api/sessions/{session['id']}/truth"
    assert client.put(path, json={"label": "hot"}).status_code == 422
    assert client.put(path, json={"label": str(number["expected"])}).json()["right"] is True
    assert client.put(path, json={"label": "11,5"}).json()["right"] is False
    answer = client.post(f"/api/sessions/{session['id']}/moves", json={"move": "reject", "revision": 99})
    assert answer.status_code == 409


def test_what_is_known_beforehand_comes_first_and_does_not_count(client: Client) -> None:
    session = begin(client, "ordered")
    asked = session["state"]["question"]
    assert (asked["name"], asked["number"], asked["is_beforehand"]) == ("season", 0, True)
    why = client.get(f"/api/sessions/{session['id']}/why").json()
    assert why["reason"]["kind"] == "beforehand"
    session = move(client, session, "tell", answer="winter")
    assert (session["n_asked"], session["state"]["question"]["number"]) == (0, 1)
    for name in ("season", "SEASON", "season?"):  # however it is named
        answers = [{"query": name, "answer": "winter"}]
        following = client.post("/api/models/ordered/next", json={"answers": answers}).json()["state"]
        assert following == session["state"]


def test_the_effects_of_numbers_have_their_ends(client: Client) -> None:
    session = begin(client, "ordered", known={"season": "winter", "sneezing": "no", "itching": "no"})
    if session["state"]["done"]:
        session = move(client, session, "go_on")
    assert session["state"]["question"]["name"] == "temperature"
    why = client.get(f"/api/sessions/{session['id']}/why").json()
    assert why["reason"]["kind"] == "last"
    ranges = [one for one in why["answers"] if one["low"] or one["high"]]
    assert len(ranges) > 2
    assert all(float(one["low"]) < float(one["high"]) for one in ranges if one["low"] and one["high"])


def test_the_stateless_question_is_that_of_a_session(client: Client) -> None:
    session = begin(client, known={"sneezing": "no", "season": "winter"})
    evidence = {"known": {"sneezing": "no", "season": "winter", "itching": None}}
    answer = client.post("/api/models/illness/next", json=evidence).json()
    assert answer["state"]["belief"] == session["state"]["belief"]
    assert answer["state"]["question"] == session["state"]["question"]
    wrong = client.post("/api/models/illness/next", json={"rejected": ["flu"], "known": {"season": "winter"}}).json()
    assert "flu" not in [one["label"] for one in wrong["state"]["belief"]["labels"]]


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"known": {"fever": "yes"}}, "There is no query named 'fever'. Queries are "),
        ({"known": {"seasons": "yes"}}, "Did you mean 'season'? All names: GET /api/models/illness/questions"),
        ({"known": {"season": "monsoon"}}, "is one of spring, summer, autumn, winter"),
        ({"known": {"season": "winter"}, "answers": [{"query": "Season", "answer": "spring"}]}, "is answered twice"),
        ({"rejected": ["gout"]}, "There is no label 'gout'"),
        ({"rejected": ["flu", "cold", "hay fever"]}, "excludes every label"),
        ({"known": {"temperature": 390}}, "Did you mean 39?"),
    ],
)
def test_evidence_that_cannot_be_used_is_explained(client: Client, evidence: Any, message: str) -> None:
    answer = client.post("/api/models/illness/next", json=evidence)
    assert answer.status_code == 422
    assert message in answer.json()["message"]


def test_models_say_what_they_are(client: Client) -> None:
    models = {one["id"]: one for one in client.get("/api/models").json()["models"]}
    assert list(models) == ["illness", "degrees", "ordered", "digits", "cautious"]
    assert models["illness"]["title"] == "Illness"
    assert models["digits"]["is_image"]
    details = client.get("/api/models/illness").json()
    assert details["labels"] == ["cold", "flu", "hay fever"]
    assert details["report"] is None
    missing = client.get("/api/models/measles")
    assert missing.status_code == 404
    assert "Those served are: illness, degrees" in missing.json()["message"]


def test_who_must_decide_is_said_in_the_state_the_list_and_the_file(client: Client) -> None:
    surely = {"temperature": 39.0, "sneezing": "no", "itching": "no", "season": "winter"}
    sure = begin(client, "cautious", known=surely)
    unsure = begin(client, "cautious")
    while not unsure["state"]["done"]:
        unsure = move(client, unsure, "dont_know")
    assert sure["state"]["done"]
    assert (sure["decided"], sure["state"]["result"]["decided"]) == (True, True)
    assert sure["state"]["result"]["label_set"] == ["flu"]
    assert (unsure["decided"], unsure["state"]["result"]["decided"]) == (False, False)
    remain = unsure["state"]["result"]["label_set"]
    assert unsure["outcome"] in remain
    listed = {one["id"]: one["decided"] for one in client.get("/api/sessions").json()["sessions"]}
    assert (listed[sure["id"]], listed[unsure["id"]]) == (True, False)
    lines = csv.DictReader(io.StringIO(client.get("/api/sessions.csv").content.decode("utf-8-sig")))
    # An id may begin with a minus, which gets an apostrophe in a table.
    written = {one["id"].removeprefix("'"): (one["decided"], one["labels that remain"]) for one in lines}
    assert written[sure["id"]] == ("decided", "flu")
    assert written[unsure["id"]] == ("not sure", " | ".join(remain))


def test_models_that_promise_nothing_say_nothing_of_it(client: Client) -> None:
    session = play(client, begin(client), {})
    assert (session["decided"], session["state"]["result"]["decided"]) == (None, None)
    assert session["state"]["result"]["label_set"] is None
