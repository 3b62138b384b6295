"""The log of a session: the moves of a person so far, the form in which they are saved, and all that follows from them,
move by move, for one target or for several."""

import contextlib
import copy
import datetime
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pursuit.inference.chain import ChainStep, doubt
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import (
    Pursuer,
    by_groups,
    choose,
    highest_left,
    information,
    label_list,
    leave_out,
    per_cost,
    refuse_nan,
    score_unit,
    wants_more,
)
from pursuit.inference.stopping import Standing, StoppingRule
from pursuit.inference.target_bins import TargetBins, target_of
from pursuit.queries import Order, Query, QuerySet
from pursuit.queries.column import listed
from pursuit.registry import UnknownName, did_you_mean
from pursuit.sessions.exclusion import information_without, without
from pursuit.sessions.why import Candidate, candidates

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
    hint = did_you_mean(str(name), query_set.index_of, f"Queries are {listed(list(query_set.index_of))}.")
    error = UnknownName(f"There is no query named '{name}'. {hint}")
    error.add_note("`query_set.index_of` has the names of all queries.")  # the program and the server say other things
    raise error


def label_index(pursuer: Pursuer, label: Any) -> int:
    """The class that is a label, or has it as its text; raises ValueError if none has."""
    labels = label_list(pursuer.classes)
    if label in labels:
        return labels.index(label)
    texts = [str(own).casefold() for own in labels]
    if (text := str(label).strip().casefold()) not in texts:
        hint = did_you_mean(str(label), map(str, labels), f"Labels are {listed(labels)}.")
        error = UnknownName(f"There is no label '{label}'. {hint}")
        error.add_note("`classes` of the model has all labels.")
        raise error
    return texts.index(text)


def json_value(value: Any) -> Any:
    """A value or a list of values of numpy's as Python's own, and a date as text, which JSON can hold."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else value


F = TypeVar("F", bound=Callable[..., Any])

PINNED, FORESEEN = "pinned", "foreseen"
"""What may be known at a position before anything is computed there: the query to ask, and what was foreseen."""
NOT_COMPUTED = math.nan
"""The bits of an answer that was told again: what was expected of it takes the most computing, and few ask for it."""
MOST_CHANGES = 200
"""How many corrections can be taken back; those before them count as what was said at first."""


@dataclass(frozen=True, eq=False)
class Position:
    """Where a session stands after a move."""

    log_posterior: Tensor  # (1, C), without what is excluded
    cost: Tensor  # (1,) of all that was asked
    n_asked: int = 0
    bits: float | None = None
    """The information expected of the answer that led here; NOT_COMPUTED where moves were made again."""
    excluded: tuple[int, ...] = ()
    """Labels that are wrong."""
    put_off: tuple[int, ...] = ()
    """Queries that were skipped and not answered, the one put off longest ago first."""
    is_free: bool = False
    """Whether the person went on, so that the rule is not heard."""
    # What the rule saw since it began, or began again when a guess was wrong:
    asked_by_rule: int = 0
    answered_by_rule: int = 0
    cost_before_rule: float = 0.0
    memory: Tensor | None = None
    enough: bool = False
    decided: bool | None = None
    """Whether the rule vouches for a prediction made here; None where it promises nothing."""

    @functools.cached_property
    def belief(self) -> Tensor:
        """The probability of each label (C,)."""
        return self.log_posterior[0].exp()

    @functools.cached_property
    def doubt(self) -> float:
        """The entropy of the belief, in bits."""
        return doubt(self.belief)

    @property
    def spent(self) -> Tensor:
        """What the rule counts as spent (1,)."""
        return self.cost - self.cost_before_rule


@dataclass(frozen=True)
class Foreseen:
    """What follows from an answer that is to come."""

    told: tuple[Tell, ...]
    """All answers with it."""
    history: History
    """Of one row, with the answer."""
    log_posterior: Tensor  # (1, C)
    scores: Tensor | None = None  # (1, Q); None where other answers come after it
    bits: Tensor | None = None  # (1, Q) of queries, where scores are a mere preference
    before: Position | None = None
    position: Position | None = None
    """Where it leads from the position before it, with what the rule says there; None where that is not foreseen."""


def once(method: F) -> F:
    """A method of a log whose result follows from the position, and is computed once at each."""

    @functools.wraps(method)
    def found(log: "SessionLog", *arguments: Any) -> Any:
        key = method, arguments
        if key not in log._found:
            log._found[key] = method(log, *arguments)
        return log._found[key]

    return cast(F, found)


class SessionLog:
    """The moves so far, where they led, and what comes next. The same moves always give the same."""

    def __init__(self, pursuer: Pursuer, stop: StoppingRule | None, template: HistoryState | None = None):
        self.pursuer, self.stop, self._template = pursuer, stop, template
        self.query_set = pursuer.query_set  # kept here because attributes of a module are slow to look up
        self.order = pursuer.query_set.order or Order()
        self.labels = tuple(label_list(pursuer.classes))
        self.moves: list[Move] = []
        self.told: dict[int, Tell] = {}  # by query, in the order they were given
        self.changes: list[Change] = []
        self._made: History | None = None  # of all answers; None once one of them was taken back
        self._state: HistoryState | None = None  # of this history; None until something is to be computed there
        self.steps: dict[Any, tuple[Position, ChainStep]] = {}  # of the last chain, by where they led
        self.shown: dict[Any, tuple[ChainStep, Any]] = {}  # as the state looked at last has these steps
        self._found: dict[Any, Any] = {}  # what `once` computed at the position now
        self._ahead: list[Foreseen] = []  # answers that are to come, one after the other
        start = Position(self._belief(()), torch.zeros(1, device=self.query_set.costs.device))
        self.positions: list[Position] = []  # before anything, then after each move
        self._stand(start)

    @property
    def now(self) -> Position:
        return self.positions[-1]

    def copy(self) -> "SessionLog":
        """A log that stands where this one does, with all that was computed here, and goes on by itself."""
        found = copy.copy(self)
        found.moves, found.positions, found.changes = [*self.moves], [*self.positions], [*self.changes]
        found.told, found._found = {**self.told}, {**self._found}
        found._made, found._state, found._ahead = None, None, []
        found.steps, found.shown = {}, {}
        return found

    def others(self) -> dict[str, "SessionLog"]:
        """The logs of further targets of the same interview, by name."""
        return {}

    def as_now(self, position: Position) -> Position:
        """An earlier position, with a belief without all that is excluded by now."""
        excluded = self.now.excluded
        if position.excluded == excluded:
            return position
        return replace(position, log_posterior=without(position.log_posterior, excluded), excluded=excluded)

    # ---- moves

    def add(self, move: Move, with_bits: bool = True) -> None:
        """Make a move; an answer that cannot be used raises ValueError before anything is changed."""
        match move:
            case Tell():
                self._tell(move, with_bits)
            case Skip(query):
                put_off = (*(other for other in self.now.put_off if other != query), query)
                self._arrive(replace(self.now, put_off=put_off, bits=None))
            case Reject(labels):
                self._reject(labels)
            case GoOn():
                self._arrive(replace(self.now, is_free=True, bits=None))
        self.moves.append(move)

    def undo(self) -> None:
        """Take the last move back, or the last change if nothing was done since."""
        if self.changes and self.changes[-1].n_moves == len(self.moves):
            change = self.changes.pop()
            self._replay(change.place, change.before, *self.moves[change.place + (not change.is_removed) :])
            return
        move = self.moves.pop()
        self.positions.pop()
        if isinstance(move, Tell):
            del self.told[move.query]
            self._made = self._state = None
        self._found = {}

    def substitute(self, place: int, move: Move | None) -> None:
        """Make another move, or None, in place of the one made there, and all that came after it again."""
        before = self.moves[place]
        later = self.moves[place + 1 :]
        self._replay(place, *([] if move is None else [move]), *later)
        self.changes.append(Change(len(self.moves), place, before, is_removed=move is None))
        del self.changes[:-MOST_CHANGES]

    def take_back(self, label: int) -> bool:
        """Make the moves again without the rejection of a label; whether there was one."""
        for place, move in enumerate(self.moves):
            if isinstance(move, Reject) and label in move.labels:
                others = tuple(other for other in move.labels if other != label)
                self.substitute(place, Reject(others) if others else None)
                return True
        return False

    def compute_bits(self) -> None:
        """Compute what was expected of answers that were told again, which takes as long as to tell all of them."""
        if any(position.bits is not None and math.isnan(position.bits) for position in self.positions):
            found = self._found
            self._replay(0, *self.moves, with_bits=True)
            self._found = found

    def _replay(self, place: int, *moves: Move, with_bits: bool = False) -> None:
        """Make these moves instead of all from this place on."""
        del self.moves[place:], self.positions[place + 1 :]
        self.told = {tell.query: tell for tell in self.moves if isinstance(tell, Tell)}
        self._made, self._state, self._found = None, None, {}
        for move in moves:
            self.add(move, with_bits)

    @torch.no_grad()
    def _tell(self, move: Tell, with_bits: bool) -> None:
        ahead = self._ahead.pop(0) if self._ahead else None
        if ahead is None or ahead.told != (*self.told.values(), move):
            ahead, self._ahead = None, []
        foreseen = ahead.position if ahead is not None and ahead.before is self.now else None
        if foreseen is None:
            bits = None if move.volunteered else self._bits_of(move.query) if with_bits else NOT_COMPUTED
            belief = self._belief_after(move) if ahead is None else ahead.log_posterior
            position = self._position_after(move, belief, bits)
        if ahead is not None:
            self._made, self._state = ahead.history, None
        self.told[move.query] = move
        if foreseen is None:
            self._stand(position, ahead)
        else:
            self._arrive(foreseen, ahead)

    def _belief_after(self, move: Tell) -> Tensor:
        """What is believed (1, C) after one more answer to the state."""
        state = self._current()
        self._write(move, self._history)
        state.ask_one(move.query, move.answer is not None)
        return refuse_nan(state.log_posterior())

    def _position_after(self, move: Tell, log_posterior: Tensor, bits: float | None) -> Position:
        """Where an answer leads, after which this is believed (1, C) by all answers, before the rule is asked."""
        last, is_asked = self.now, not move.volunteered
        return replace(
            last,
            log_posterior=without(log_posterior, last.excluded),
            cost=last.cost + self.query_set.costs[move.query] if is_asked else last.cost,
            n_asked=last.n_asked + is_asked,
            bits=bits,
            put_off=tuple(query for query in last.put_off if query != move.query),
            asked_by_rule=last.asked_by_rule + is_asked,
            answered_by_rule=last.answered_by_rule + (move.answer is not None),
        )

    @torch.no_grad()
    def _reject(self, labels: Iterable[int]) -> None:
        last = self.now
        excluded = tuple(dict.fromkeys((*last.excluded, *labels)))
        position = replace(last, log_posterior=self._belief(excluded), bits=None, excluded=excluded)
        if self.is_over:  # the rule was satisfied with a wrong guess
            position = replace(
                position,
                is_free=False,
                asked_by_rule=0,
                answered_by_rule=0,
                cost_before_rule=float(last.cost),
                memory=None,
            )
        self._stand(position)

    def _arrive(self, position: Position, ahead: Foreseen | None = None) -> None:
        self.positions.append(position)
        self._found = {} if ahead is None else {FORESEEN: ahead}

    def _stand(self, position: Position, ahead: Foreseen | None = None) -> None:
        """Arrive at a position, of which something may be foreseen, and ask the rule what it says of it."""
        self._arrive(position, ahead)
        if self.stop is None:
            return
        in_group = None
        if self.query_set.order is not None:
            last = next((move.query for move in reversed(self.told.values()) if not move.volunteered), -1)
            in_group = self.query_set.in_group(torch.tensor([last], device=self.asked.device), self.allowed())
        (self.positions[-1],) = judged(self.stop, [position], target_of(self.pursuer), self._worth(), in_group)

    def _worth(self) -> Tensor | None:
        """The most that a query left and affordable promises (1,), if the rule needs it and the pursuer knows."""
        if self.stop is None or not self.stop.needs_worth:
            return None
        promised = self.information() if score_unit(self.pursuer) is None else self._next_scores()
        return None if promised is None else highest_left(leave_out(promised, self.allowed()), self.asked)

    # ---- what comes next

    @property
    def is_over(self) -> bool:
        """Whether the rule is satisfied, everything was asked, or nothing more may be asked; never before what is known
        beforehand was given or put off."""
        if self.first_unknown() is not None:
            return False
        return (not self.now.is_free and self._has_enough()) or not self.has_more()

    def _has_enough(self) -> bool:
        return self.now.enough

    @once
    def has_more(self, is_free: bool | None = None) -> bool:
        """Whether there is a query left that the pursuer would ask, and that may be asked; `is_free`: whatever the rule
        says."""
        if len(self.told) == len(self.query_set):
            return False
        return bool(wants_more(leave_out(self._next_scores(), self.allowed(is_free)), self.asked))

    @property
    def is_settled(self) -> bool:
        """Whether the rule is satisfied or affords nothing more, even if the person goes on."""
        return self.now.enough or not self.has_more(False)

    def unknown(self) -> list[int]:
        """The queries that are known beforehand and were neither given nor put off yet."""
        indices = (self.query_set.index_of[name] for name in self.order.beforehand)
        return [i for i in indices if i not in self.told and i not in self.now.put_off]

    def first_unknown(self) -> int | None:
        """The first of these."""
        return next(iter(self.unknown()), None)

    @property
    def asked(self) -> Tensor:
        """(1, Q) bool"""
        return self._history.asked

    @property
    def x(self) -> Tensor:
        """All answers (1, *answer_shape)."""
        return self._history.x

    @once
    def open_scores(self) -> Tensor:
        """The scores (1, Q) of what may be asked alone."""
        return leave_out(self._next_scores(), self.allowed())

    def preferred_scores(self) -> Tensor:
        """The same without what was put off; if nothing else is left, of that which was put off longest ago alone."""
        scores, put_off = self.open_scores(), self.now.put_off
        if not put_off:
            return scores
        others = scores.clone()
        others[0, list(put_off)] = -torch.inf
        if bool(wants_more(others, self.asked)):
            return others
        first = next((query for query in put_off if scores[0, query] > -torch.inf), None)
        if first is None:
            return others
        others[0, first] = scores[0, first]
        return others

    @once
    def open_queries(self) -> tuple[int, ...]:
        """The queries that may still be asked or volunteered, whatever the rule says."""
        asked, allowed = self.asked[0], self.allowed(True)
        is_open = ~asked if allowed is None else ~asked & allowed[0]
        return tuple(is_open.nonzero()[:, 0].tolist())

    @property
    @once
    @torch.no_grad()
    def next_query(self) -> int:
        """The query to ask now; only where something is left to ask."""
        if (first := self.first_unknown()) is not None:
            return first
        scores, asked, pinned = self.preferred_scores(), self.asked, self._found.get(PINNED)
        if pinned is not None and not asked[0, pinned] and scores[0, pinned] > -torch.inf:
            return int(pinned)
        return int(choose(self._by_groups(scores), asked))

    @property
    @once
    @torch.no_grad()
    def candidates(self) -> tuple[Candidate, ...]:
        """What speaks for this query, and for those that come after it."""
        if (first := self.first_unknown()) is not None:
            query = self.query_set.queries[first]
            return (Candidate(query.name, query.text, None, None, query.cost),)
        scores, bits = self._by_groups(self.preferred_scores()), self.information()
        return candidates(self.query_set, scores, self.asked, bits, self.next_query)

    def _by_groups(self, scores: Tensor) -> Tensor:
        return by_groups(self.pursuer, scores, self.asked)

    def pin(self, query: int) -> None:
        """Let a query be the next one if it may be asked: it was put to the person before, and rounding orders close
        scores differently where many are computed together."""
        self._found = {PINNED: query}

    @property
    def next_number(self) -> int:
        """Which question it is, from 1; 0 for what is known beforehand."""
        return 0 if self.is_beforehand(self.next_query) else self.now.n_asked + 1

    @property
    def can_skip(self) -> bool:
        """Whether something else than the next query can be asked now."""
        if self.is_over:
            return False
        n_left = int(((self.open_scores() > -torch.inf) & ~self.asked).sum())
        return n_left + (len(self.unknown()) if self.is_beforehand(self.next_query) else 0) > 1

    @property
    def can_go_on(self) -> bool:
        """Whether something is left to ask, whatever the rule says."""
        return self.first_unknown() is not None or self.has_more() or self.has_more(True)

    def is_beforehand(self, query: int) -> bool:
        """Whether a query is known beforehand, so that nobody chooses to ask it."""
        return self.query_set.queries[query].name in self.order.beforehand

    def is_in_group(self, query: int) -> bool:
        """Whether a query is asked together with others."""
        name = self.query_set.queries[query].name
        return any(name in group.queries for group in self.order.groups)

    @once
    def allowed(self, is_free: bool | None = None) -> Tensor | None:
        """What may be asked (1, Q) in the order of queries and, unless the person `is_free` of the rule, with what was
        spent so far; None: everything."""
        query_set, is_free = self.query_set, self.now.is_free if is_free is None else is_free
        affordable = (
            None if self.stop is None or is_free else self.stop.affordable(self.now.spent, query_set.prices(self.asked))
        )
        if query_set.order is None:
            return affordable
        history = self.history()
        return query_set.allowed(history.x, history.known, history.asked, affordable)

    def is_restricted(self) -> bool:
        """Whether the order of queries closes any that was not asked."""
        history, query_set = self.history(), self.query_set
        closed = query_set.closed(history.x, history.known, history.asked)
        return bool((closed & ~history.asked).any())

    @once
    @torch.no_grad()
    def information(self) -> Tensor | None:
        """The bits expected of every query (1, Q); None where the pursuer does not know them."""
        if score_unit(self.pursuer) is not None:
            return information(self.pursuer, self._next_scores())
        ahead = self._found.get(FORESEEN)
        bits = self._current().information() if ahead is None or ahead.scores is None else ahead.bits
        left = self._information_left() if bits is not None and self.now.excluded else None
        return bits if left is None else left

    def _bits_of(self, query: int) -> float | None:
        """The information expected of a query that is asked now."""
        bits = self.information()
        expected = -math.inf if bits is None else float(bits[0, query])
        # What the pursuer would not ask has no finite score, and may still have been asked before a change.
        return expected if math.isfinite(expected) else None

    @once
    @torch.no_grad()
    def _next_scores(self) -> Tensor:
        """The scores (1, Q) of what may come next."""
        ahead, unit = self._found.get(FORESEEN), score_unit(self.pursuer)
        scores = None if ahead is None else ahead.scores
        if scores is None:
            scores = refuse_nan(self._current().scores())
        bits = self._information_left() if self.now.excluded and unit is not None else None
        if bits is None:
            return scores
        worth = per_cost(bits, self.query_set.costs) if unit == "bits per cost" else bits
        return worth.to(scores.dtype).masked_fill(scores == -torch.inf, -torch.inf)

    def _information_left(self) -> Tensor | None:
        """The bits (1, Q) that queries tell about the labels that are left; None where nobody knows."""
        position, history = self.now, self.history()
        return information_without(self.pursuer, history, position.log_posterior, position.excluded, history.asked)

    # ---- the history

    def history(self) -> History:
        """What was asked and answered so far, as a history of one row."""
        return History(self.x, self._history.known.clone(), self.asked.clone())

    def histories_after(self, place: int, tells: Sequence[Tell]) -> list[tuple[tuple[Tell, ...], History]]:
        """The answers, and the histories of one row, to which answers in place of the moves from a place on lead, one
        after the other; raises ValueError for one that cannot be used."""
        told, history = [move for move in self.moves[:place] if isinstance(move, Tell)], self._history
        if place < len(self.moves):
            history = self._history_of(told)
        found = []
        for tell in tells:
            history = History(history.x.clone(), history.known.clone(), history.asked.clone())
            self._write(tell, history)
            told.append(tell)
            found.append((tuple(told), history))
        return found

    def _write(self, tell: Tell, history: History) -> None:
        if tell.answer is not None:
            self.query_set.tell(history.x[0], tell.query, tell.answer)
            history.known[0, tell.query] = True
        history.asked[0, tell.query] = True

    @property
    def _history(self) -> History:
        """What was asked and answered so far; it is changed in place."""
        if self._made is None:
            self._made = self._history_of(self.told.values())
        return self._made

    def _history_of(self, told: Iterable[Tell]) -> History:
        blank = self.query_set.blank()
        nothing = torch.zeros(2, 1, len(self.query_set), dtype=torch.bool, device=blank.device)
        history = History(blank, *nothing)
        for tell in told:
            self._write(tell, history)
        return history

    def _belief(self, excluded: tuple[int, ...]) -> Tensor:
        with torch.no_grad():
            return without(refuse_nan(self._current().log_posterior()), excluded)

    @torch.no_grad()
    def _current(self) -> HistoryState:
        """The state after all answers, in their order."""
        if self._state is None:
            nothing = torch.zeros_like(self.asked)
            self._template = self._state = state_of_histories(self, History(self.x, nothing, nothing))
            for tell in self.told.values():
                self._state.ask_one(tell.query, tell.answer is not None)
        return self._state


def state_of_histories(log: SessionLog, history: History) -> HistoryState:
    """The state of the pursuer of a log, which shares with others what does not depend on answers."""
    return history_state(log.pursuer, history) if log._template is None else log._template.restart(history)


def judged(
    stop: StoppingRule,
    positions: Sequence[Position],
    target: TargetBins | None,
    worth: Tensor | None = None,
    in_group: Tensor | None = None,
) -> list[Position]:
    """Positions of one or several logs with what the rule says of them."""
    belief = torch.cat([one.log_posterior for one in positions])
    asked, answered = torch.tensor(
        [[one.asked_by_rule, one.answered_by_rule] for one in positions], device=belief.device
    ).unbind(dim=1)
    start = stop.start(1, belief.device)
    before = torch.cat([start if one.memory is None else one.memory for one in positions])
    spent = torch.cat([one.spent for one in positions])
    standing = Standing(belief, asked, answered, spent, worth, target, in_group)
    satisfied, memory = stop.stops(before, standing)
    vouched = stop.decides(standing)
    decided = [None] * len(positions) if vouched is None else vouched.tolist()
    said = zip(positions, memory.split(1), satisfied.tolist(), decided, strict=True)
    return [replace(one, memory=own, enough=enough, decided=vouches) for one, own, enough, vouches in said]


@torch.no_grad()
def look_ahead(answers: Sequence[tuple[SessionLog, int, Sequence[Tell]]]) -> None:
    """Compute, in one batch, what follows from answers that several logs of one pursuer and one rule are about to get
    in place of their moves from some place on. Nothing is changed by this: an answer that cannot be used is refused
    when it is told."""
    found: list[tuple[SessionLog, list[tuple[tuple[Tell, ...], History]]]] = []
    for log, place, tells in answers:
        with contextlib.suppress(ValueError, TypeError):
            found.append((log, log.histories_after(place, tells)))
    if len(found) < 2:
        return
    log, stop, histories = found[0][0], found[0][0].stop, [history for _, own in found for _, history in own]
    parts = zip(*((one.x, one.known, one.asked) for one in histories), strict=True)
    state = state_of_histories(log, History(*map(torch.cat, parts)))
    beliefs = state.log_posterior()
    n_rows = [len(own) for _, own in found]
    if len(histories) > len(found):  # what is asked next is wanted of the last alone
        state.keep(torch.tensor(n_rows, device=beliefs.device).cumsum(dim=0) - 1)
    scores = state.scores()
    if (beliefs.sum() + scores.sum()).isnan():
        return  # whose it is will be said when it is told
    bits = state.information() if score_unit(log.pursuer) is None else None
    of_histories = iter(beliefs.split(1))
    for i, (one, own) in enumerate(found):
        one._ahead = [Foreseen(told, history, next(of_histories)) for told, history in own]
        one._ahead[-1] = replace(
            one._ahead[-1], scores=scores[i : i + 1], bits=None if bits is None else bits[i : i + 1]
        )
    if stop is None or stop.needs_worth or log.query_set.order is not None:
        return  # what is worth asking, and groups, need more than positions
    single = [one for one, own in found if len(own) == 1 and own[0][0][-1].query not in one.told]
    positions = []
    for one in single:
        tell, belief = one._ahead[0].told[-1], one._ahead[0].log_posterior
        bits_of = None if tell.volunteered else one._bits_of(tell.query)
        positions.append(one._position_after(tell, belief, bits_of))
    if single:
        for one, position in zip(single, judged(stop, positions, target_of(log.pursuer)), strict=True):
            one._ahead[0] = replace(one._ahead[0], before=one.now, position=position)


@dataclass(frozen=True)
class FurtherTarget:
    """Another target of an interview. It is settled by its own `stop`; a bit about it counts `weight` times as much as
    one about the first target."""

    pursuer: Pursuer
    stop: StoppingRule | None = None
    weight: float = 1.0
    template: HistoryState | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"The weight of a target is a number above 0, not {self.weight}.")


class JointLog(SessionLog):
    """The log of an interview about a first target and further ones. Whatever follows from the moves follows for each
    target by itself; only the next question and the end are found together."""

    def __init__(
        self,
        pursuer: Pursuer,
        stop: StoppingRule | None,
        template: HistoryState | None,
        targets: Mapping[str, FurtherTarget],
    ):
        self._targets = targets
        self._places = {name: _places(pursuer.query_set, target, name) for name, target in targets.items()}
        self._others: dict[str, SessionLog] = {}
        self._followed: list[Move] = []  # by the logs of the further targets
        super().__init__(pursuer, stop, template)
        expected = {"the first target": SessionLog.information(self)}
        for name, bits in (expected | {name: log.information() for name, log in self.others().items()}).items():
            if bits is None:
                raise ValueError(
                    f"The model of {name} does not say what its questions are expected to tell, so it cannot be asked "
                    "together with others."
                )

    def others(self) -> dict[str, SessionLog]:
        """The logs of the further targets, after the same moves."""
        if not self._others or self._followed != self.moves[: len(self._followed)]:
            each = self._targets.items()
            self._others = {name: SessionLog(one.pursuer, one.stop, one.template) for name, one in each}
            self._followed = []
        for move in self.moves[len(self._followed) :]:
            for name, log in self._others.items():
                if isinstance(move, Tell | Skip):
                    log.add(replace(move, query=self._places[name][move.query]))
                elif not isinstance(move, Reject):  # which is about labels of the first target
                    log.add(move)
            self._followed.append(move)
        return self._others

    def _has_enough(self) -> bool:
        return all(self._settled())

    def _settled(self) -> list[bool]:
        """Whether enough was asked about the first target, and about each further one, or its rule affords no more."""
        return [self.now.enough, *(log.is_settled for log in self.others().values())]

    @once
    def information(self) -> Tensor | None:
        """The bits (1, Q) expected of every query about all targets that are not settled."""
        return self._expected(is_weighted=False)

    @once
    def open_scores(self) -> Tensor:
        bits = self._expected(is_weighted=True)
        return leave_out(per_cost(bits, self.query_set.costs) if self._has_costs else bits, self.allowed())

    def _by_groups(self, scores: Tensor) -> Tensor:
        return self.query_set.group_scores(scores, self.asked, self._has_costs)

    @property
    def _has_costs(self) -> bool:
        """Whether costs differ, so that questions are asked by bits per cost."""
        return bool((self.query_set.costs != self.query_set.costs[0]).any())

    def _worth(self) -> Tensor | None:
        """For the rule of the first target, what there is to be told about it alone."""
        bits = None if self.stop is None or not self.stop.needs_worth else super().information()
        return None if bits is None else highest_left(leave_out(bits, self.allowed()), self.asked)

    def _expected(self, is_weighted: bool) -> Tensor:
        bits, weights, are_settled = [super().information()], [1.0], self._settled()
        for name, log in self.others().items():
            told = log.information()
            bits.append(None if told is None else told[:, self._places[name]])
            weights.append(self._targets[name].weight)
        goes_on = all(are_settled)  # because the person wants to
        counted = [
            each * weight if is_weighted else each
            for each, weight, is_settled in zip(bits, weights, are_settled, strict=True)
            if each is not None and (goes_on or not is_settled)
        ]
        return torch.stack(counted).sum(dim=0)


def _places(query_set: QuerySet, target: FurtherTarget, name: str) -> list[int]:
    """Where a further target has each of the queries; raises ValueError if it has others."""
    other = target.pursuer.query_set
    own_names, other_names = {query.name for query in query_set.queries}, {query.name for query in other.queries}
    if differing := sorted(own_names ^ other_names):
        raise ValueError(
            f"The model of {name} asks other questions ({', '.join(differing[:3])}): train all models of an interview "
            "on the same columns, without the targets of any."
        )
    for query in query_set.queries:
        if query.offered != other.queries[other.index_of[query.name]].offered:
            raise ValueError(f"The model of {name} knows other answers to '{query.name}': train all on the same rows.")
    return [other.index_of[query.name] for query in query_set.queries]
