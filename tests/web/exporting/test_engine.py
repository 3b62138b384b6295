"""The engine of the page gives the states that the server gives, after the same moves."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch

from exported import MODELS, computed, needs_node
from pursuit import Session, export

state = pytest.importorskip("pursuit.web.serving.state", reason="the server is not installed")
state_of, why_of = state.state_of, state.why_of
MOVES: dict[str, list[list[Any]]] = {
    "ordered": [
        ["tell", "f"],
        ["skip"],
        ["tell", None],
        ["undo"],
        ["tell", "yes", {"query": "fever"}],
        ["change", "sex", "m"],
        ["undo"],
        ["change", "fever", "no"],
        ["skip"],
        *[["tell", None]] * 7,
        ["reject"],
        ["goOn"],
        ["tell", None],
        ["accept"],
    ],
    "promising": [
        *[["tell", None]] * 9,
        ["undo"],
        ["tell", "yes", {"query": "fever"}],
        ["goOn"],
        ["tell", None],
        ["reject"],
        ["tell", None],
    ],
    "not given": [["skip"], ["tell", "not given"], ["tell", None], ["undo"], *[["tell", None]] * 8],
    "straight-through": [["skip"], *[["tell", None]] * 3, ["undo"], ["undo"], *[["tell", None]] * 3],
    "deciding": [["tell", "yes"], ["undo"], ["tell", "no"], ["tell", "no"], ["goOn"], ["undo"], ["reject"]],
    "number": [["tell", None], ["skip"], ["tell", None], ["tell", None], ["tell", None], ["goOn"], ["undo"]],
}
SAME = ("n_labels", "is_number", "is_image", "skipped", "can_undo", "can_skip", "done", "open")


@cache
def model_and_page(name: str) -> tuple[Any, Path]:
    with torch.enable_grad():
        estimator, page = MODELS[name](), Path(mkdtemp()) / "page.html"
    export(estimator, page, title="Title")
    return estimator, page


def move(session: Session, name: str, value: Any = None, *more: Any) -> None:
    match name:
        case "tell":
            options = more[0] if more else {}
            if value is None and "query" not in options:
                session.dont_know()
            else:
                session.tell(value, options.get("query"), confirmed=options.get("confirmed", False))
        case "change":
            session.change(value, more[0])
        case "goOn":
            session.go_on()
        case "accept":
            pass
        case _:
            getattr(session, name)()


@needs_node
@pytest.mark.parametrize("name", MOVES)
def test_states_are_those_of_the_server(name: str) -> None:
    estimator, page = model_and_page(name)
    session, calls = estimator.session(), []
    expected = [state_of(session, session.chain, "Title")]
    for call in MOVES[name]:
        try:
            move(session, *call)
        except ValueError:
            continue  # which cannot be done here
        calls.append(call)
        expected.append(state_of(session, session.chain, "Title", accepted=call[0] == "accept"))
    found = computed(page, moves=[calls])["plays"][0]
    assert len(calls) >= 6
    for own, one, call in zip(found, expected, [["begin"], *calls], strict=True):
        theirs = one.model_dump(by_alias=True)
        assert {key: own[key] for key in SAME} == {key: theirs[key] for key in SAME}, call
        assert own["progress"] == pytest.approx(theirs["progress"], abs=2e-3)
        assert_same_question(own["question"], theirs["question"])
        assert own["questions_left"] == theirs["questions_left"]
        assert_same_belief(own["belief"], theirs["belief"])
        assert len(own["answers"]) == len(theirs["answers"])
        for entry, other in zip(own["answers"], theirs["answers"], strict=True):
            assert entry["kind"] == other["kind"]
            if entry["kind"] == "answer":
                assert (entry["value"], entry["question"]["name"]) == (other["value"], other["question"]["name"])
                assert entry["gained"] == pytest.approx(other["gained"], abs=2e-3)
        assert_same_result(own["result"], theirs["result"])


@needs_node
@pytest.mark.parametrize("name", ["straight-through", "deciding"])
def test_reasons_are_those_of_the_server(name: str) -> None:
    estimator, page = model_and_page(name)
    session, calls, expected = estimator.session(), [], {}
    for call in [["begin"], *MOVES[name]]:
        try:
            if call != ["begin"]:
                move(session, *call)
                calls.append(call)
        except ValueError:
            continue  # which cannot be done here
        if not session.done:
            calls.append(["why"])
            expected[len(calls)] = why_of(session).model_dump(by_alias=True)
    found = computed(page, moves=[calls])["plays"][0]
    for place, theirs in expected.items():
        own = found[place]
        assert {own["reason"][key] == theirs["reason"][key] for key in ("kind", "n", "cost")} == {True}, calls[:place]
        assert own["reason"]["bits"] == pytest.approx(theirs["reason"]["bits"], abs=1e-2)
        listed = [one for one in theirs["answers"] if one["text"] != "no answer"]
        for answer, other in zip(own["answers"], listed, strict=True):
            assert answer["probability"] == pytest.approx(other["probability"], abs=1e-2)
            chances = [{one["label"]: one["probability"] for one in side["labels"]} for side in (answer, other)]
            assert chances[0] == pytest.approx(chances[1], abs=1e-2)
    if name == "deciding":
        assert [one["reason"]["kind"] for one in expected.values()][:2] == ["decides", "prefers"]


def assert_same_question(own: dict[str, Any] | None, theirs: dict[str, Any] | None) -> None:
    assert (own is None) == (theirs is None)
    if own is not None and theirs is not None:
        keys = set(own)
        assert {key: own[key] for key in keys} == {
            key: list(value) if isinstance(value := theirs[key], tuple) else value for key in keys
        }


def assert_same_belief(own: dict[str, Any], theirs: dict[str, Any]) -> None:
    probabilities = [{one["label"]: one["probability"] for one in belief["labels"]} for belief in (own, theirs)]
    assert probabilities[0] == pytest.approx(probabilities[1], abs=1e-3)
    assert own["n_others"] == theirs["n_others"]
    if theirs["number"] is not None:
        for key in ("expected", "low", "high"):
            assert own["number"][key] == pytest.approx(theirs["number"][key], rel=1e-3)


def assert_same_result(own: dict[str, Any] | None, theirs: dict[str, Any] | None) -> None:
    assert (own is None) == (theirs is None)
    if own is None or theirs is None:
        return
    keys = ("label", "n_asked", "accepted", "decided", "label_set")
    assert [own[key] for key in keys] == [theirs[key] for key in keys]
    for side in ("for", "against"):
        weights = [{one["name"]: one["weight"] for one in result["reasons"][side]} for result in (own, theirs)]
        assert weights[0] == pytest.approx(weights[1], abs=5e-3)
    assert (own["what_if"] is None) == (theirs["what_if"] is None)
    if own["what_if"] is not None and theirs["what_if"] is not None:
        keys = ("name", "answer", "instead", "label")
        assert [own["what_if"][key] for key in keys] == [theirs["what_if"][key] for key in keys]


@needs_node
def test_doubts_are_those_of_the_query_set() -> None:
    estimator, page = model_and_page("ordered")
    numbers = [query for query in estimator.model_.query_set.queries if getattr(query, "seen", None)]
    given = [(query, factor * query.seen[1]) for query in numbers for factor in (0.5, 1.4, 1.6, 10, 1000, -1, 1e7)]
    calls = [[["tell", number, {"query": query.name}]] for query, number in given]
    plays = computed(page, moves=calls)["plays"]
    n_doubts = 0
    for (query, number), (_, state) in zip(given, plays, strict=True):
        doubt = estimator.model_.query_set.doubt(estimator.model_.query_set.index_of[query.name], number)
        assert ("doubt" in state) == (doubt is not None), (query.name, number)
        if doubt is not None:
            n_doubts += 1
            meant = [float(one) for one in state["doubt"]["suggestions"]]
            assert meant == pytest.approx([float(one) for one in doubt.suggestions], rel=1e-5), (query.name, number)
    assert n_doubts > len(numbers)


@needs_node
def test_a_promise_that_was_not_chosen_cannot_be_exported(tmp_path: Path) -> None:
    estimator, _ = model_and_page("ordered")
    with pytest.raises(ValueError, match="guarantee"):
        export(estimator, tmp_path / "page.html", stop="risk=0.1")
