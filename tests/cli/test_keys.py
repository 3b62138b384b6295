"""What is typed: answers go before commands, keys never change what an answer means."""

import pytest

from pursuit.cli.conversation import COMMANDS, HELP, Typed, choice_keys, read_line
from pursuit.queries import Choice, ColumnQueries, Number, yes_no


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("?", Typed("why")),
        ("WHY", Typed("why")),
        (" u ", Typed("undo")),
        ("c", Typed("change")),
        ("c fever=no", Typed("change", "fever=no")),
        ("s", Typed("skip")),
        ("d", Typed("unknown")),
        ("don\N{RIGHT SINGLE QUOTATION MARK}t know", Typed("unknown")),
        ("n", Typed("wrong")),
        ("that's wrong", Typed("wrong")),
        ("n common cold", Typed("wrong", "common cold")),
        ("t age = 40", Typed("tell", "age = 40")),
        ("m", Typed("more")),
        ("h", Typed("help")),
        ("exit", Typed("quit")),
        ("undo it", Typed("answer", "undo it")),
        ("37.5", Typed("answer", "37.5")),
        ("-1", Typed("answer", "-1")),
    ],
)
def test_lines_are_commands_or_answers(line: str, typed: Typed) -> None:
    assert read_line(line) == typed
    assert read_line(f"/{line.strip()}").action == typed.action if typed.action != "answer" else True


@pytest.mark.parametrize(
    ("line", "choices", "typed"),
    [
        ("n", ("no", "yes"), Typed("answer", "n")),
        ("N", ("nein", "ja"), Typed("answer", "N")),
        ("n", ("no", "yes", "not given"), Typed("answer", "n")),
        ("/n", ("no", "yes"), Typed("wrong")),
        ("s", ("C", "Q", "S"), Typed("answer", "s")),
        ("/s", ("C", "Q", "S"), Typed("skip")),
        ("s", ("spring", "summer"), Typed("skip")),
        ("u", ("no", "yes"), Typed("undo")),
        ("t", ("no", "yes"), Typed("tell")),
        ("t", ("false", "true"), Typed("answer", "t")),
        ("true", ("no", "yes"), Typed("answer", "true")),
        ("skip", ("jump", "skip"), Typed("answer", "skip")),
        ("/x", ("/x", "/y"), Typed("answer", "/x")),
    ],
)
def test_an_answer_goes_before_a_command(line: str, choices: tuple[str, ...], typed: Typed) -> None:
    assert read_line(line, choices) == typed


def test_a_command_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="There is no command '/jump'"):
        read_line("/jump")


def test_the_help_has_every_key() -> None:
    assert all(f"  {ways[0]}  " in HELP for ways in COMMANDS.values())


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (yes_no("a"), {"y": "yes", "n": "no"}),
        (Choice("a", "A?", ("nein", "ja")), {}),  # 0 and 1 are words for them
        (Choice("a", "A?", ("red", "green", "blue")), {"1": "red", "2": "green", "3": "blue"}),
        (Choice("a", "A?", ("1st", "2nd")), {"1": "1st", "2": "2nd"}),
        (Choice("a", "A?", ("2nd", "1st")), {}),
        (Choice("a", "A?", ("4", "6", "8")), {"1": "4", "2": "6", "3": "8"}),
        (Choice("a", "A?", ("1", "2", "3")), {"1": "1", "2": "2", "3": "3"}),
        (Choice("a", "A?", ("2", "3", "4")), {}),
        (Choice("a", "A?", ("low", "high"), values=(0, 1)), {}),
        (Number("a", "A?"), {}),
    ],
)
def test_keys_never_change_what_an_answer_means(query: Choice | Number, keys: dict[str, str]) -> None:
    assert choice_keys(ColumnQueries([query]), 0, query.offered) == keys


def test_every_choice_has_a_key() -> None:
    choices = tuple(f"choice {chr(65 + i)}" for i in range(20))
    assert list(choice_keys(ColumnQueries([Choice("a", "A?", choices)]), 0, choices).values()) == list(choices)
