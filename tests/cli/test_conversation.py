"""The conversation through a pipe: bars, keys, doubts, changes, wrong guesses, and what comes after the result."""

import io
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from known_bits import in_bits
from pursuit.cli.conversation import BAR_WIDTH, Conversation, belief_bars, trust_text
from pursuit.exact import IndependentIP
from pursuit.inference.stopping import Budget
from pursuit.inference.target_bins import TargetBins
from pursuit.queries import Choice, ColumnQueries, Number, yes_no
from pursuit.sessions.experience import Trust
from pursuit.sessions.session import Session


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A conversation in which these lines are typed: what was printed, whether it ended with a result, and how often
    the session was kept."""

    def run(session: Session, *lines: str, width: int = 80) -> tuple[str, bool, int]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        kept: list[str] = []
        console = Console(width=width)
        finished = Conversation(session, console, True, lambda: kept.append(session.to_json())).run()
        if kept:
            assert kept[-1] == session.to_json()
        return capsys.readouterr().out, finished, len(kept)

    return run


def test_a_conversation_reads_well_without_colours(world: Any, talk: Any) -> None:
    session = Session(in_bits(world.pursuer), Budget(2))
    printed, finished, n_kept = talk(session, "y", "3", "")
    assert finished
    assert n_kept == 2
    assert "\x1b" not in printed
    assert printed.startswith("\n1. Do you have a fever?\n   y  yes   n  no\n> y\n   flu ")
    assert "2. Which season is it?\n   1  spring   2  summer   3  winter\n> 3\n" in printed
    assert "\nResult: flu (" in printed
    assert "For it:\n  Do you have a fever? yes" in printed
    assert "Enter to finish, n if that is wrong, m for more questions" in printed
    assert session.answers == {"fever": "yes", "season": "winter"}


def test_the_end_of_input_ends_the_conversation(world: Any, talk: Any) -> None:
    assert talk(Session(world.pursuer, Budget(2)), "y")[1] is False
    assert talk(Session(world.pursuer, Budget(1)), "y")[1] is True
    assert talk(Session(world.pursuer, Budget(1)), "q")[1] is False


def test_every_key_does_what_it_says(world: Any, talk: Any) -> None:
    session = Session(world.pursuer)
    first = "Do you have a fever?"
    printed, _, _ = talk(session, "?", "h", "s", "u", "d", "nonsense", "m")
    assert "What an answer would change:" in printed
    assert "Put a slash before a key" in printed
    assert printed.count(f"1. {first}") == 4  # at first, after why, after help, after undo
    assert "is one of" in printed
    assert "There is no result yet" in printed
    assert session.answers == {"fever": None}
    printed, _, _ = talk(session, "u", "u")
    assert session.answers == {}
    assert "There is nothing to take back yet." in printed


def test_enter_says_that_nobody_knows(world: Any, talk: Any) -> None:
    session = Session(world.pursuer, Budget(1))
    talk(session, "")
    assert session.answers == {"fever": None}


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (["c", "1", "n"], {"fever": "no", "itching": "no"}),
        (["c", "2", "y"], {"fever": "yes", "itching": "yes"}),
        (["c", "fever", "d"], {"fever": None, "itching": "no"}),
        (["c Fever=no"], {"fever": "no", "itching": "no"}),
        (["c Do you have a fever?", "no"], {"fever": "no", "itching": "no"}),
        (["c", ""], {"fever": "yes", "itching": "no"}),
        (["c", "1", ""], {"fever": "yes", "itching": "no"}),
        (["c", "1", "/s"], {"fever": "yes", "itching": "no"}),
        (["c", "9"], {"fever": "yes", "itching": "no"}),
        (["c sneezing", "no"], {"fever": "yes", "itching": "no"}),
        (["t season=winter"], {"fever": "yes", "itching": "no", "season": "winter"}),
        (["t", "Which season is it?=winter"], {"fever": "yes", "itching": "no", "season": "winter"}),
        (["t fever=no"], {"fever": "no", "itching": "no"}),
        (["t fever"], {"fever": "yes", "itching": "no"}),
        (["t season=autumn"], {"fever": "yes", "itching": "no"}),
    ],
)
def test_answers_are_changed_and_volunteered(
    world: Any, talk: Any, lines: list[str], answers: dict[str, str | None]
) -> None:
    session = Session(world.pursuer)
    session.tell("no", "itching")
    talk(session, "y")
    session = Session.from_dict({"format": 2, "moves": session.to_dict()["moves"][::-1]}, world.pursuer)
    talk(session, *lines)
    assert session.answers == answers


def test_nothing_can_be_changed_at_first(world: Any, talk: Any) -> None:
    assert "There is no answer to change yet." in talk(Session(world.pursuer), "c")[0]


def test_a_wrong_result_is_excluded_and_the_questions_go_on(world: Any, talk: Any) -> None:
    session = Session(world.pursuer, Budget(1))
    printed, finished, _ = talk(session, "y", "n", "d", "n", "n", "n", "x", "")
    assert finished
    assert session.excluded == ("flu", "cold")
    assert "excluded: flu\n" in printed
    assert "allergy is the only label left." in printed
    assert printed.count("Result: allergy") == 1
    assert len(session.answers) == 3


def test_a_slash_is_for_keys_that_are_answers_too(world: Any, talk: Any) -> None:
    session = Session(world.pursuer)
    talk(session, "/n", "n", "n allergy")
    assert session.excluded == ("cold", "allergy")
    assert len(session.answers) == 1


def test_more_questions_after_the_result(world: Any, talk: Any) -> None:
    session = Session(world.pursuer, Budget(1))
    printed, finished, _ = talk(session, "y", "m", "n", "?", "u", "what", "")
    assert finished is False  # the last line said that nobody knows, and more is to be asked
    session = Session(world.pursuer, Budget(1))
    printed, finished, _ = talk(session, "y", "?", "what", "u", "y", "h", "q")
    assert finished
    assert "There is no question now" in printed
    assert printed.count("Prediction: flu") == 1
    assert printed.count("Result:") == 2


def number_session(stop: Any = None) -> Session:
    """One number in two bins of equal likelihood, and a colour."""
    hot = Number("temperature", "How hot?", centre=37.0, spread=1.0, seen=(35.0, 42.0), unit="°C", help="In the mouth.")
    return Session(_Indifferent(ColumnQueries([hot, yes_no("red")])), stop)


class _Indifferent:
    """Asks in order, and believes the same whatever is said."""

    def __init__(self, query_set: ColumnQueries, classes: Any = ("a", "b")):
        self.query_set, self.classes = query_set, classes

    def scores(self, history: Any) -> torch.Tensor:
        return -torch.arange(len(self.query_set), dtype=torch.float)[None]

    def log_posterior(self, history: Any) -> torch.Tensor:
        return torch.full((len(history), len(self.classes)), 1 / len(self.classes)).log()


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["375", ""], "37.5"),
        (["375", "y"], "375"),
        (["375", "38"], "38"),
        (["375", "3800", "y"], "3800"),
        (["375!"], "375"),
        (["98.6", "", "38"], "38"),
        (["375", "d", "38"], "38"),
        (["375", "x", "38"], "38"),
        (["t temperature=375", ""], "37.5"),
        (["38", "c temperature=375", ""], "37.5"),
        (["38", "c", "1", "375", "y"], "375"),
    ],
)
def test_a_doubtful_number_is_asked_again(talk: Any, lines: list[str], answer: str) -> None:
    session = number_session()
    printed, _, _ = talk(session, *lines)
    assert session.answers == {"temperature": answer}
    assert printed.startswith("\n1. How hot?  (35 to 42 °C)\n   In the mouth.\n> ")
    if lines[0] == "375":
        assert "375 °C is far outside the usual range of 35 to 42 °C. Did you mean 37.5?" in printed
        assert "(Enter for 37.5, y if 375 °C is right, or type another answer.)" in printed


def test_all_choices_are_shown_in_columns(talk: Any) -> None:
    choices = tuple(f"choice [{chr(65 + i)}]" for i in range(26))
    session = Session(_Indifferent(ColumnQueries([Choice("a", "Which?", choices, help="Any [of] these.")])))
    printed, _, _ = talk(session, "26", width=40)
    assert all(choice in printed for choice in choices)
    assert "   1  choice [A]    2  choice [B]\n   3  choice [C]    4  choice [D]\n" in printed
    assert session.answers == {"a": "choice [Z]"}


def test_costs_are_shown_where_they_differ(world: Any, talk: Any) -> None:
    columns: list[Any] = [replace(query, cost=2.5) for query in world.query_set.queries[:1]]
    columns += world.query_set.queries[1:]
    pursuer = IndependentIP(
        ColumnQueries(columns), world.pursuer.classes, world.pursuer.prior, world.pursuer.likelihood
    )
    assert "1. Do you have a fever?  (cost 2.5)" in talk(Session(pursuer), "q")[0]


def test_a_number_is_not_wrong(talk: Any) -> None:
    target = TargetBins.of(np.arange(90.0), 3)
    session = Session(_Indifferent(ColumnQueries([yes_no("red")]), target), Budget(1))
    printed, _, _ = talk(session, "y", "n")
    assert "about 44" in printed
    assert "n if that is wrong" not in printed
    assert "A number is predicted" in printed


def test_bars_are_as_long_as_labels_are_probable(world: Any) -> None:
    session = Session(world.pursuer)
    cold, flu, allergy = belief_bars(session.state()).splitlines()
    assert cold == f"cold     {'█' * 12}{' ' * 12}   50.0%"
    assert flu.count("█") == round(0.3 * BAR_WIDTH)
    assert allergy.endswith("20.0%")
    assert "#" * 12 in belief_bars(session.state(), "ascii")
    session.reject("cold")
    assert belief_bars(session.state()).splitlines()[-1] == "excluded: cold"


def test_of_many_labels_some_have_bars() -> None:
    labels = ["x" * 50, *(f"label {i}" for i in range(9))]
    lines = belief_bars(Session(_Indifferent(ColumnQueries([yes_no("red")]), labels)).state()).splitlines()
    assert lines[0].startswith("x" * 29 + "…  ")
    assert lines[5:] == ["and 5 more with 50.0% together"]


@pytest.mark.parametrize(
    ("n_rows", "text"),
    [
        (0, "about as sure in none of 180 rows that it was not trained on, so nobody knows"),
        (1, "about as sure in only 1 of 180 rows"),
        (90, "about as sure in 90 of 180 rows that it was not trained on, and 80 of them were right"),
    ],
)
def test_how_far_to_trust_a_result(n_rows: int, text: str) -> None:
    assert text in trust_text(Trust(n_measured=180, n_rows=n_rows, n_right=min(n_rows, 80)), is_number=False)
