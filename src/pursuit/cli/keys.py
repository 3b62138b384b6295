"""What a person types in a conversation: an answer, a key for one of the choices, or a command."""

from dataclasses import dataclass
from typing import Literal

from pursuit.queries import QuerySet
from pursuit.queries.column import NO_WORDS, YES_WORDS, fold

Action = Literal["answer", "why", "undo", "change", "skip", "unknown", "wrong", "tell", "more", "help", "quit"]
COMMANDS: dict[Action, tuple[str, ...]] = {
    "why": ("?", "why"),
    "unknown": ("d", "don't know", "dont know"),
    "skip": ("s", "skip"),
    "undo": ("u", "undo"),
    "change": ("c", "change"),
    "wrong": ("n", "wrong", "that's wrong", "thats wrong"),
    "tell": ("t", "tell"),
    "more": ("m", "more"),
    "help": ("h", "help"),
    "quit": ("q", "quit", "exit"),
}
"""The ways to type each command, its key first."""
TAKES_MORE: tuple[Action, ...] = ("change", "wrong", "tell")
"""Commands that may be followed by what they are about."""
HELP = """\
Answer with the key in front of a choice, with its words or their beginning, or with a number.
  d  don't know (Enter alone says the same)   s  skip: ask something else now
  u  undo the last step                       c  change an earlier answer (c fever=no)
  ?  why this question is asked               n  that's wrong: exclude the leading guess (n flu: another one)
  t  tell something unasked (t fever=yes)     m  more questions, after the result
  h  this help                                q  quit; Ctrl-C and Ctrl-D do so, too
Put a slash before a key that is an answer, too: /n"""


@dataclass(frozen=True)
class Typed:
    """What a line that was typed means."""

    action: Action
    rest: str = ""
    """The answer, or what a command is about."""


def read_line(line: str, choices: tuple[str, ...] = ()) -> Typed:
    """What a person means by a line, in answer to a question with these `choices`. An answer goes before a command, and
    a slash makes it a command in any case."""
    text = line.strip()
    is_command = text.startswith("/") and fold(text) not in map(fold, choices)
    text = text[1:].strip() if is_command else text
    if not is_command and is_exactly_one_of(text, choices):
        return Typed("answer", text)
    word, _, rest = text.partition(" ")
    for action, ways in COMMANDS.items():
        if text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") in ways:
            return Typed(action)
        if action in TAKES_MORE and rest and word.casefold() in ways:
            return Typed(action, rest.strip())
    if is_command:
        raise ValueError(f"There is no command '/{text}': h shows all there are.")
    return Typed("answer", text)


def is_exactly_one_of(text: str, choices: tuple[str, ...]) -> bool:
    """Whether a text is a choice or, where these are words for no and yes, another such word; a single letter only if
    it begins one of the choices, as t does not begin yes."""
    words, word = [fold(choice) for choice in choices], fold(text)
    if word in words:
        return True
    is_yes_no = len(words) >= 2 and words[0] in NO_WORDS and words[1] in YES_WORDS
    is_clear = len(word) > 1 or any(choice.startswith(word) for choice in words)
    return is_yes_no and is_clear and (word in NO_WORDS or word in YES_WORDS)


def choice_keys(query_set: QuerySet, query: int, choices: tuple[str, ...]) -> dict[str, str]:
    """A key for each choice: n and y, or numbers; none where typing these would already mean something else."""
    if not choices:
        return {}
    if tuple(map(fold, choices)) == ("no", "yes"):
        return {"y": choices[1], "n": choices[0]}
    keys = {str(number): choice for number, choice in enumerate(choices, start=1)}
    return keys if all(_means(query_set, query, key) in (None, choice) for key, choice in keys.items()) else {}


def _means(query_set: QuerySet, query: int, typed: str) -> str | None:
    """The answer that a text is by itself; None if it is none."""
    row = query_set.blank()[0]
    try:
        query_set.tell(row, query, typed)
    except ValueError:
        return None
    return query_set.describe(query, row)
