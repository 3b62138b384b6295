"""A session: a chain with a person in it, who is asked, answers, skips, takes back, and comes back later."""

import datetime
import difflib
import json
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pursuit.inference.chain import Chain, chain_step, doubt
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import (
    Pursuer,
    highest_left,
    information,
    label_list,
    leave_out,
    score_unit,
    wants_more,
)
from pursuit.inference.question import Question
from pursuit.inference.stopping import Standing, StoppingRule
from pursuit.inference.target import target_of
from pursuit.inference.why import Candidate, Why, answer_effects, candidates

N_SHOWN = 3
"""How many labels a belief names."""


@dataclass(frozen=True)
class _Entry:
    query: int
    answer: Any
    """As the person gave it; None if the query was skipped."""
    volunteered: bool = False


@dataclass(frozen=True)
class _Standing:
    """Where the session stands after an entry: the belief, what was asked, answered and spent, and the rule's view."""

    log_posterior: Tensor  # (1, C)
    n_asked: int
    n_answered: int
    cost: Tensor  # (1,)
    bits: float | None  # the information expected of the entry
    memory: Tensor | None = None
    enough: bool = False


class Session:
    """Ask and tell until the stopping rule is satisfied. Everything follows from the list of answers given so far."""

    def __init__(self, pursuer: Pursuer, stop: StoppingRule | None = None):
        self.pursuer, self.stop = pursuer, stop
        self._entries: dict[int, _Entry] = {}  # by query, in the order they were given
        self._question: Question | None = None  # asked, and not answered yet
        self._scores: Tensor | None = None  # (1, Q) of what may come next, once they were needed
        self._bits: tuple[Tensor | None] | None = None  # the same for the bits expected
        self._x = pursuer.query_set.blank()
        self._state: HistoryState | None = None  # of all entries; None once one of them was taken back
        self._standings: list[_Standing] = []  # before anything, then after each entry
        self._stand()

    def __repr__(self) -> str:
        state = f"finished: {self.prediction}" if self.done else "going on"
        return f"Session({len(self._entries)} answers given or skipped, {state})"

    @property
    def done(self) -> bool:
        """Whether the stopping rule is satisfied, everything was asked, or the pursuer would ask nothing more that may
        be asked; never before what is known beforehand was given or skipped."""
        if self._first_unknown() is not None:
            return False
        if self._standings[-1].enough or len(self._entries) == len(self.pursuer.query_set):
            return True
        return not bool(wants_more(self._open_scores(), self._current().asked))

    @property
    def posterior(self) -> dict[Any, float]:
        """The belief now, most probable label first."""
        probabilities = self._standings[-1].log_posterior[0].exp().tolist()
        pairs = zip(label_list(self.pursuer.classes), probabilities, strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    @property
    def prediction(self) -> Any:
        """The most probable label, or the expected number."""
        log_posterior, target = self._standings[-1].log_posterior, target_of(self.pursuer)
        if target is not None:
            return float(target.mean(log_posterior.exp()))
        return label_list(self.pursuer.classes)[int(log_posterior.argmax())]

    @property
    def belief(self) -> str:
        """The belief now in words: the most probable labels, or "about 152 (90%: 80 to 240)" of a number."""
        target = target_of(self.pursuer)
        if target is not None:
            return target.belief(self._standings[-1].log_posterior[0].exp())
        return ", ".join(f"{label} {share:.0%}" for label, share in list(self.posterior.items())[:N_SHOWN])

    @property
    def bits_gained(self) -> float:
        """How much the answers told so far: the entropy of the first belief minus that of the belief now, in bits.

        A surprising answer may leave more in doubt than before, so this may shrink and even be negative.
        """
        first, now = (self._standings[i].log_posterior[0].exp() for i in (0, -1))
        return doubt(first) - doubt(now)

    @property
    def cost(self) -> float:
        """What was spent on the queries asked so far; what a person volunteers is free."""
        return float(self._standings[-1].cost)

    @torch.no_grad()
    def ask(self) -> Question:
        """The next question; the same one until it is answered or skipped."""
        if self._question is not None:
            return self._question
        if self.done:
            raise ValueError(
                f"The session is finished: the prediction is {self.prediction}. Take an answer back "
                "with undo() to go on."
            )
        best, *others = self._candidates()
        number = 0 if self._is_beforehand(best.query) else self._standings[-1].n_asked + 1
        self._question = Question.of(self.pursuer.query_set.queries[best.query], number, best, others)
        return self._question

    def _candidates(self) -> list[Candidate]:
        """The query to ask now, and those that come after it."""
        if (first := self._first_unknown()) is not None:
            query = self.pursuer.query_set.queries[first]
            return [Candidate(first, query.name, query.text, None, None, query.cost)]
        return candidates(self.pursuer, self._open_scores(), self._current().asked, self._information())

    def _first_unknown(self) -> int | None:
        """The first query that is known beforehand and was neither given nor skipped yet."""
        query_set = self.pursuer.query_set
        names = () if query_set.order is None else query_set.order.beforehand
        return next((i for name in names if (i := query_set.index_of[name]) not in self._entries), None)

    def _is_beforehand(self, query: int) -> bool:
        query_set = self.pursuer.query_set
        return query_set.order is not None and query_set.queries[query].name in query_set.order.beforehand

    @torch.no_grad()
    def why(self) -> Why:
        """Why the next question is asked: what it is expected to tell, what else could be asked, what each answer would
        change."""
        self.ask()  # raises ValueError if there is nothing to ask
        asked, bits, allowed = self._current().asked, self._information(), self._allowed()
        best, *others = self._candidates()
        before = self._standings[-1].log_posterior[0].exp()
        is_beforehand = self._is_beforehand(best.query)
        return Why(
            best,
            tuple(others),
            answer_effects(self.pursuer, self._history(), best.query, before),
            doubt(before),
            self.bits_gained,
            is_cost_aware=score_unit(self.pursuer) == "bits per cost",
            promises_most=is_beforehand
            or bits is None
            or bool(bits[0, best.query] >= highest_left(leave_out(bits, allowed), asked)),
            is_beforehand=is_beforehand,
            is_restricted=self._is_restricted(),
        )

    def tell(self, answer: Any, query: str | None = None) -> None:
        """Answer the question asked, or volunteer the answer to the one named `query`."""
        index = self.ask().query if query is None else self._index(query)
        if index in self._entries:
            raise ValueError(f"'{query}' was answered already: use change() to correct it.")
        if answer is None:
            self._check(index, answer)  # skipping is done by skip()
        self._add(_Entry(index, _json_value(answer), query is not None or self._is_beforehand(index)))

    def skip(self) -> None:
        """Leave the question unanswered; it is not asked again."""
        query = self.ask().query
        self._add(_Entry(query, None, self._is_beforehand(query)))

    def undo(self) -> None:
        """Take back the last answer or skip."""
        if not self._entries:
            raise ValueError("There is nothing to take back yet.")
        self._entries.popitem()
        self._standings.pop()
        self._question = self._state = self._scores = self._bits = None

    def change(self, query: str, answer: Any) -> None:
        """Correct an answer given before (None: unknown after all); the other answers stay."""
        index = self._index(query)
        if index not in self._entries:
            raise ValueError(f"'{query}' was not answered yet, so there is nothing to change.")
        answer = _json_value(answer)
        if answer is not None:
            self._check(index, answer)
        entries, place = list(self._entries.values()), list(self._entries).index(index)
        self._entries = {entry.query: entry for entry in entries[:place]}
        del self._standings[place + 1 :]
        self._state = self._scores = self._bits = None
        for entry in (replace(entries[place], answer=answer), *entries[place + 1 :]):
            self._add(entry)

    @property
    def chain(self) -> Chain:
        """What was asked and believed so far."""
        self._current()  # so that `x` holds the answers given, and nothing else
        beliefs = [standing.log_posterior[0].exp() for standing in self._standings]
        steps = tuple(
            chain_step(
                self.pursuer.query_set,
                self._x[0],
                entry.query,
                entry.answer is not None,
                before,
                after,
                standing.bits,
                entry.volunteered,
            )
            for entry, standing, (before, after) in zip(
                self._entries.values(), self._standings[1:], pairwise(beliefs), strict=True
            )
        )
        return Chain(tuple(label_list(self.pursuer.classes)), beliefs[0], steps, target=target_of(self.pursuer))

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later with the same pursuer, as JSON values."""
        queries = self.pursuer.query_set.queries
        answers = [
            {"query": queries[entry.query].name, "answer": entry.answer, "volunteered": entry.volunteered}
            for entry in self._entries.values()
        ]
        return {"format": 1, "answers": answers}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, state: dict[str, Any], pursuer: Pursuer, stop: StoppingRule | None = None) -> "Session":
        """Go on where `to_dict` left off."""
        session = cls(pursuer, stop)
        try:
            if state["format"] != 1:
                raise ValueError(f"The session has format {state['format']}, but this version reads format 1.")
            answers = [(entry["query"], entry["answer"], bool(entry["volunteered"])) for entry in state["answers"]]
        except (KeyError, TypeError):
            raise ValueError("This is not a saved session: it lacks 'format', 'answers' or a part of them.") from None
        for name, answer, volunteered in answers:
            index = session._index(name)
            if index in session._entries:
                raise ValueError(f"The saved session has '{name}' twice.")
            session._add(_Entry(index, answer, volunteered))
        return session

    @classmethod
    def from_json(cls, text: str, pursuer: Pursuer, stop: StoppingRule | None = None) -> "Session":
        try:
            state = json.loads(text)
        except ValueError:
            raise ValueError("This is not a saved session: it is not JSON.") from None
        return cls.from_dict(state, pursuer, stop)

    def _index(self, name: str) -> int:
        index_of = self.pursuer.query_set.index_of
        if not isinstance(name, str) or name not in index_of:
            close = difflib.get_close_matches(str(name), index_of, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(repr(other) for other in close)}?" if close else ""
            raise ValueError(f"There is no query named '{name}'.{hint}")
        return index_of[name]

    def _check(self, query: int, answer: Any) -> None:
        """Raise ValueError, with what may be answered, before anything is changed."""
        self.pursuer.query_set.tell(self.pursuer.query_set.blank()[0], query, answer)

    def _add(self, entry: _Entry) -> None:
        """Add an entry; an answer that cannot be used raises ValueError before anything is changed."""
        bits = None if entry.volunteered else self._bits_of(entry.query)
        self._show(self._current(), entry)
        self._entries[entry.query] = entry
        self._question = self._scores = self._bits = None
        self._stand(entry, bits)

    @torch.no_grad()
    def _bits_of(self, query: int) -> float | None:
        """The information expected of a query that is asked now."""
        bits = self._information()
        # What the pursuer would not ask has no finite score, and may still have been asked before a change.
        return None if bits is None or not math.isfinite(bits[0, query]) else float(bits[0, query])

    @torch.no_grad()
    def _information(self) -> Tensor | None:
        """The bits expected of every query (1, Q); None where the pursuer does not know them."""
        if self._bits is None:
            has_unit = score_unit(self.pursuer) is not None
            bits = information(self.pursuer, self._next_scores()) if has_unit else self._current().information()
            self._bits = (bits,)
        return self._bits[0]

    def _history(self) -> History:
        """What was asked and answered so far, as a history of one row."""
        asked = self._current().asked.clone()
        known = torch.zeros_like(asked)
        known[0, [entry.query for entry in self._entries.values() if entry.answer is not None]] = True
        return History(self._x, known, asked)

    @torch.no_grad()
    def _current(self) -> HistoryState:
        """The state after all entries, in their order."""
        if self._state is None:
            self._x = self.pursuer.query_set.blank()
            nothing = torch.zeros(1, len(self.pursuer.query_set), dtype=torch.bool, device=self._x.device)
            state = history_state(self.pursuer, History(self._x, nothing, nothing))
            for entry in self._entries.values():
                self._show(state, entry)
            self._state = state
        return self._state

    @torch.no_grad()
    def _next_scores(self) -> Tensor:
        if self._scores is None:
            self._scores = self._current().scores()
        return self._scores

    def _open_scores(self) -> Tensor:
        """The same for what may be asked alone."""
        return leave_out(self._next_scores(), self._allowed())

    def _allowed(self, spent: Tensor | None = None) -> Tensor | None:
        """What may be asked (1, Q) in the order of queries and with what was spent so far; None: everything."""
        spent, query_set = self._standings[-1].cost if spent is None else spent, self.pursuer.query_set
        affordable = None if self.stop is None else self.stop.affordable(spent, query_set.costs)
        if query_set.order is None:
            return affordable
        history = self._history()
        return query_set.allowed(history.x, history.known, history.asked, affordable)

    def _is_restricted(self) -> bool:
        """Whether the order of queries closes any that was not asked."""
        history, query_set = self._history(), self.pursuer.query_set
        closed = query_set.closed(history.x, history.known, history.asked)
        return bool((closed & ~history.asked).any())

    @torch.no_grad()
    def _show(self, state: HistoryState, entry: _Entry) -> None:
        if entry.answer is not None:
            self.pursuer.query_set.tell(self._x[0], entry.query, entry.answer)
        state.ask_one(entry.query, entry.answer is not None)

    @torch.no_grad()
    def _stand(self, entry: _Entry | None = None, bits: float | None = None) -> None:
        """Note where the session stands after the last entry, or before the first."""
        log_posterior, last = self._current().log_posterior(), self._standings[-1] if entry else None
        n_asked = last.n_asked + (not entry.volunteered) if entry and last else 0
        n_answered = last.n_answered + (entry.answer is not None) if entry and last else 0
        costs = self.pursuer.query_set.costs
        cost = last.cost if last else torch.zeros(1, device=costs.device)
        if entry and not entry.volunteered:
            cost = cost + costs[entry.query]
        memory, enough = None, False
        if self.stop is not None:
            asked, answered = torch.tensor([[n_asked], [n_answered]], device=log_posterior.device)
            before = self.stop.start(1, log_posterior.device) if last is None or last.memory is None else last.memory
            standing = Standing(log_posterior, asked, answered, cost, self._worth(cost), target_of(self.pursuer))
            satisfied, memory = self.stop.step(before, standing)
            enough = bool(satisfied)
        self._standings.append(_Standing(log_posterior, n_asked, n_answered, cost, bits, memory, enough))

    def _worth(self, cost: Tensor) -> Tensor | None:
        """The most that a query left and affordable promises (1,), if the rule needs it and the pursuer knows."""
        if self.stop is None or not self.stop.needs_worth:
            return None
        promised = self._information() if score_unit(self.pursuer) is None else self._next_scores()
        if promised is None:
            return None
        return highest_left(leave_out(promised, self._allowed(cost)), self._current().asked)


def _json_value(value: Any) -> Any:
    """A value or a list of values of numpy's as Python's own, and a date as text, which JSON can hold."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else value
