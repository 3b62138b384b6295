"""The engine of the page gives the states that a session gives, after the same moves, field by field."""

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import pytest

from exported import computed, model_of, needs_node
from pursuit import Session, export
from pursuit.report.measured import Measured
from pursuit.sessions.experience import Experience, SureRows

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
    "deciding group": [["tell", "yes"], ["undo"], ["tell", "no"], ["tell", "no"], ["goOn"], ["undo"], ["reject"]],
    "whole group": [
        ["tell", "yes"],
        ["tell", "yes"],
        ["tell", "no"],
        ["undo"],
        ["undo"],
        *[["tell", "no"]] * 2,
        ["reject"],
    ],
    "number": [["tell", None], ["skip"], ["tell", None], ["tell", None], ["tell", None], ["goOn"], ["undo"]],
}
IN_WORDS = {"text_of_number"}
"""What only the package says: the page has words of its own."""
CLOSE = 1e-2
"""How far numbers may be apart, since the page's weights are rounded, those of questions more than those of beliefs."""


@cache
def model_and_page(name: str) -> tuple[Any, Path]:
    estimator, page = model_of(name), Path(mkdtemp()) / "page.html"
    export(estimator, page, title="Title", measured=measured(name, estimator))
    return estimator, page


def measured(name: str, estimator: Any) -> Measured | None:
    """Figures as if they were measured; the straight-through model has none."""
    if name == "straight-through":
        return None
    rows = [[0, 3, 9, 4], [2, 8, 3], [10], [6, 5], [4, 1, 1], *[[9, 2]] * 5]
    return SimpleNamespace(  # type: ignore[return-value]
        experience=Experience(
            40,
            tuple(SureRows(i / 10, (i + 1) / 10, 4, 3) for i in range(2, 10)),
            0.85 if name == "number" else None,
            tuple(map(tuple, rows)),
        )
    )


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
        case "takeBackRejection":
            session.take_back_rejection(value)
        case "accept":
            pass
        case _:
            getattr(session, name)()


def as_json(part: Any) -> Any:
    return json.loads(json.dumps(asdict(part)))


def assert_same(own: Any, theirs: Any, where: str) -> None:
    """Equal in all fields, numbers up to rounding; in lists of labels and of reasons, near ties may change places."""
    if isinstance(theirs, dict):
        assert set(own) == set(theirs) - IN_WORDS, where
        for key, value in own.items():
            if (key, where[-6:]) != ("text", "number"):  # rounded, and then in words
                assert_same(value, theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(own) == len(theirs), where
        if where.endswith((".labels", ".for", ".against")):
            own, theirs = (sorted(side, key=lambda one: one.get("label") or one["name"]) for side in (own, theirs))
        for i, (one, other) in enumerate(zip(own, theirs, strict=True)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(theirs, float) and own is not None:
        assert own == pytest.approx(theirs, abs=CLOSE, rel=CLOSE), where
    else:
        assert own == theirs, where


@needs_node
@pytest.mark.parametrize("name", MOVES)
def test_states_and_reasons_are_those_of_a_session(name: str) -> None:
    estimator, page = model_and_page(name)
    session, expects_reports = estimator.session(), bool(estimator.has_initially_known_)
    figures = measured(name, estimator)
    experience = None if figures is None else figures.experience
    calls, expected = [["begin"]], [session.state("Title", experience, expects_reports=expects_reports)]
    for call in [["begin"], *MOVES[name]]:
        try:
            if call != ["begin"]:
                move(session, *call)
                calls.append(call)
                accepted = call[0] == "accept"
                expected.append(session.state("Title", experience, accepted=accepted, expects_reports=expects_reports))
        except ValueError:
            continue  # which cannot be done here
        if not session.done:
            calls.append(["why"])
            expected.append(session.why())
    found = computed(page, moves=[calls[1:]])["plays"][0]
    assert len([call for call in calls if call != ["why"]]) >= 7
    for i, (own, theirs) in enumerate(zip(found, expected, strict=True)):
        assert_same(own, as_json(theirs), f"{name} after {calls[: i + 1]}: ")
    if name.startswith("deciding"):
        kinds = [one.reason.kind for one, call in zip(expected, calls, strict=True) if call == ["why"]]
        assert kinds[:2] == ["decides", "group" if name == "deciding group" else "prefers"]


@needs_node
def test_going_back_after_a_rejection_was_taken_back_makes_it_again() -> None:
    estimator, page = model_and_page("straight-through")
    session = estimator.session()
    calls = [["reject"], ["tell", None], ["takeBackRejection", session.prediction], ["undo"], ["undo"]]
    expected = []
    for call in calls:
        move(session, *call)
        expected.append(session.state("Title"))
    _, *found = computed(page, moves=[calls])["plays"][0]
    for own, theirs, call in zip(found, expected, calls, strict=True):
        assert_same(own, as_json(theirs), f"after {call}: ")


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
