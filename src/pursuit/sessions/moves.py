"""What a person does in a session, move by move, and the form in which a session is saved."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.queries import Query, QuerySet
from pursuit.registry import did_you_mean

FORMAT = 2
"""Of saved sessions."""


@dataclass(frozen=True)
class Tell:
    """An answer, asked for or volunteered."""

    query: int
    answer: Any
    """As the person gave it; None: don't know."""
    volunteered: bool = False


@dataclass(frozen=True)
class Skip:
    """Ask something else now."""

    query: int


@dataclass(frozen=True)
class Reject:
    """These labels are wrong."""

    labels: tuple[int, ...]


@dataclass(frozen=True)
class GoOn:
    """Ask on, although the stopping rule is satisfied."""


Move = Tell | Skip | Reject | GoOn


@dataclass(frozen=True)
class Change:
    """A move that the person corrected or took back, though others came after it."""

    n_moves: int
    """How many moves there were after it."""
    place: int
    """Where the move stood."""
    before: Move
    """What stood there."""
    is_removed: bool = False
    """Whether nothing took its place."""


def moves_to_dict(moves: Sequence[Move], changes: Sequence[Change], pursuer: Pursuer) -> dict[str, Any]:
    """Moves, and what was corrected among them, as JSON values, which name queries and labels."""
    queries = pursuer.query_set.queries
    state: dict[str, Any] = {"format": FORMAT, "moves": [_to_dict(move, queries, pursuer) for move in moves]}
    if changes:
        described = [_to_dict(change.before, queries, pursuer) for change in changes]
        state["changes"] = [{**vars(change), "before": own} for change, own in zip(changes, described, strict=True)]
    return state


def _to_dict(move: Move, queries: Sequence[Query], pursuer: Pursuer) -> dict[str, Any]:
    match move:
        case Tell():
            given = {"answer": move.answer, "volunteered": move.volunteered}
            return {"move": "tell", "query": queries[move.query].name, **given}
        case Skip():
            return {"move": "skip", "query": queries[move.query].name}
        case Reject():
            labels = label_list(pursuer.classes)
            return {"move": "reject", "labels": [str(labels[i]) for i in move.labels]}
        case GoOn():
            return {"move": "go on"}


def moves_from_dict(state: Any, pursuer: Pursuer) -> tuple[list[Move], list[Change]]:
    """What `moves_to_dict` described; raises ValueError for anything else."""
    try:
        if state["format"] != FORMAT:
            raise ValueError(
                f"The session has format {state['format']}, but this version reads format {FORMAT}: begin a new one."
            )
        moves = [_from_dict(saved, pursuer) for saved in state["moves"]]
        changes = [
            Change(**{**saved, "before": _from_dict(saved["before"], pursuer)}) for saved in state.get("changes", ())
        ]
        n_most = len(moves) + sum(change.is_removed is True for change in changes)  # with all that was removed
        if not all(_can_be_taken_back(change, n_most) for change in changes):
            raise TypeError
    except (KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError("This is not a saved session: it lacks 'format', 'moves' or a part of them.") from None
    told = [move.query for move in moves if isinstance(move, Tell)]
    if twice := [query for query in told if told.count(query) > 1]:
        raise ValueError(f"The saved session has '{pursuer.query_set.queries[twice[0]].name}' twice.")
    wrong = {label for move in moves if isinstance(move, Reject) for label in move.labels}
    if len(wrong) == len(label_list(pursuer.classes)):
        raise ValueError("The saved session excludes every label that the model knows: begin a new one.")
    return moves, changes


def _can_be_taken_back(change: Change, n_most: int) -> bool:
    """Whether a change is one of at most so many moves."""
    are_numbers = all(type(number) is int for number in (change.n_moves, change.place))
    return are_numbers and type(change.is_removed) is bool and 0 <= change.place <= change.n_moves <= n_most


def _from_dict(saved: dict[str, Any], pursuer: Pursuer) -> Move:
    match saved["move"]:
        case "tell":
            query = query_index(pursuer.query_set, saved["query"])
            return Tell(query, saved["answer"], bool(saved["volunteered"]))
        case "skip":
            return Skip(query_index(pursuer.query_set, saved["query"]))
        case "reject":
            return Reject(tuple(label_index(pursuer, label) for label in saved["labels"]))
        case "go on":
            return GoOn()
        case other:
            raise ValueError(f"The saved session has a move '{other}', which this version does not know.")


def query_index(query_set: QuerySet, name: Any) -> int:
    """The query of this name or, in any case, of this name or wording; raises ValueError if there is none."""
    if isinstance(name, str):
        if name in query_set.index_of:
            return query_set.index_of[name]
        word = name.strip().casefold()
        for words in ([query.name for query in query_set.queries], [query.text for query in query_set.queries]):
            same = [i for i, other in enumerate(words) if other.casefold() == word]
            if len(same) == 1:
                return same[0]
    raise ValueError(f"There is no query named '{name}'. {did_you_mean(str(name), query_set.index_of, '')}".strip())


def label_index(pursuer: Pursuer, label: Any) -> int:
    """The class that is a label, or has it as its text; raises ValueError if none has."""
    labels = label_list(pursuer.classes)
    if label in labels:
        return labels.index(label)
    texts = [str(own).casefold() for own in labels]
    if (text := str(label).strip().casefold()) not in texts:
        some = ", ".join(map(str, labels[:6])) + (" …" if len(labels) > 6 else "")
        raise ValueError(f"There is no label '{label}' that could be wrong. Labels are {some}")
    return texts.index(text)


def json_value(value: Any) -> Any:
    """A value or a list of values of numpy's as Python's own, and a date as text, which JSON can hold."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else value
