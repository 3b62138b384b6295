"""A session: a chain with a person in it, who is asked, answers, skips, takes back, and comes back later."""

import difflib
import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pursuit.inference.chain import Chain, chain_step
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import Pursuer, choose, highest_left, label_list, score_unit, wants_more
from pursuit.inference.stopping import Standing, StoppingRule


@dataclass(frozen=True)
class Question:
    """What a person is asked, and why this."""

    number: int
    query: int
    name: str
    text: str
    choices: tuple[str, ...]
    share: float
    """How strongly the pursuer prefers this query: its share of a softmax over all that are left."""
    runners_up: tuple[tuple[str, float], ...]
    """The wordings it would have asked otherwise, with their shares."""


@dataclass(frozen=True)
class _Entry:
    query: int
    answer: Any
    """As the person gave it; None if the query was skipped."""
    volunteered: bool = False


@dataclass(frozen=True)
class _Standing:
    """Where the session stands after an entry: the belief, how many were asked and answered, and the rule's view."""

    log_posterior: Tensor  # (1, C)
    n_asked: int
    n_answered: int
    memory: Tensor | None = None
    enough: bool = False


class Session:
    """Ask and tell until the stopping rule is satisfied. Everything follows from the list of answers given so far."""

    def __init__(self, pursuer: Pursuer, stop: StoppingRule | None = None):
        self.pursuer, self.stop = pursuer, stop
        self._entries: dict[int, _Entry] = {}  # by query, in the order they were given
        self._question: Question | None = None  # asked, and not answered yet
        self._scores: Tensor | None = None  # (1, Q) of what may come next, once they were needed
        self._x = pursuer.query_set.blank()
        self._state: HistoryState | None = None  # of all entries; None once one of them was taken back
        self._standings: list[_Standing] = []  # before anything, then after each entry
        self._stand(None)

    def __repr__(self) -> str:
        state = f"finished: {self.prediction}" if self.done else "going on"
        return f"Session({len(self._entries)} answers given or skipped, {state})"

    @property
    def done(self) -> bool:
        """Whether the stopping rule is satisfied, everything was asked, or the pursuer would ask nothing more."""
        if self._standings[-1].enough or len(self._entries) == len(self.pursuer.query_set):
            return True
        return not bool(wants_more(self._next_scores(), self._current().asked))

    @property
    def posterior(self) -> dict[Any, float]:
        """The belief now, most probable label first."""
        probabilities = self._standings[-1].log_posterior[0].exp().tolist()
        pairs = zip(label_list(self.pursuer.classes), probabilities, strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    @property
    def prediction(self) -> Any:
        return label_list(self.pursuer.classes)[int(self._standings[-1].log_posterior.argmax())]

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
        state, queries = self._current(), self.pursuer.query_set.queries
        scores, asked = self._next_scores(), state.asked
        chosen = int(choose(scores, asked))
        shares = scores[0].masked_fill(asked[0], -torch.inf).softmax(dim=0)
        best = zip(*(part.tolist() for part in shares.topk(min(4, len(shares)))), strict=True)
        others = [(queries[i].text, share) for share, i in best if i != chosen and i not in self._entries]
        self._question = Question(
            self._standings[-1].n_asked + 1,
            chosen,
            queries[chosen].name,
            queries[chosen].text,
            queries[chosen].choices,
            float(shares[chosen]),
            tuple(others[:3]),
        )
        return self._question

    def tell(self, answer: Any, query: str | None = None) -> None:
        """Answer the question asked, or volunteer the answer to the one named `query`."""
        index = self.ask().query if query is None else self._index(query)
        if index in self._entries:
            raise ValueError(f"'{query}' was answered already: use change() to correct it.")
        if answer is None:
            self._check(index, answer)  # skipping is done by skip()
        self._add(_Entry(index, _json_value(answer), volunteered=query is not None))

    def skip(self) -> None:
        """Leave the question unanswered; it is not asked again."""
        self._add(_Entry(self.ask().query, None))

    def undo(self) -> None:
        """Take back the last answer or skip."""
        if not self._entries:
            raise ValueError("There is nothing to take back yet.")
        self._entries.popitem()
        self._standings.pop()
        self._question = self._state = self._scores = None

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
        self._state = None
        self._scores = None
        for entry in (replace(entries[place], answer=answer), *entries[place + 1 :]):
            self._add(entry)

    @property
    def chain(self) -> Chain:
        """What was asked and believed so far."""
        self._current()  # so that `x` holds the answers given, and nothing else
        query_set, steps = self.pursuer.query_set, []
        beliefs = [standing.log_posterior[0].exp() for standing in self._standings]
        for entry, belief in zip(self._entries.values(), beliefs[1:], strict=True):
            steps.append(chain_step(query_set, self._x[0], entry.query, entry.answer is not None, belief))
        return Chain(tuple(label_list(self.pursuer.classes)), beliefs[0], tuple(steps))

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
        self._show(self._current(), entry)
        self._entries[entry.query] = entry
        self._question = self._scores = None
        self._stand(entry)

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

    @torch.no_grad()
    def _show(self, state: HistoryState, entry: _Entry) -> None:
        if entry.answer is not None:
            self.pursuer.query_set.tell(self._x[0], entry.query, entry.answer)
        state.ask_one(entry.query, entry.answer is not None)

    def _cost(self) -> Tensor:
        """Of all that was asked, which does not include what was volunteered: (1,)."""
        costs = self.pursuer.query_set.costs
        asked = [entry.query for entry in self._entries.values() if not entry.volunteered]
        return costs[asked].sum(dim=0, keepdim=True)

    def _worth(self) -> Tensor | None:
        """The highest score left (1,), where scores have a unit and the rule looks at it."""
        if self.stop is None or not self.stop.needs_worth or score_unit(self.pursuer) is None:
            return None
        return highest_left(self._next_scores(), self._current().asked)

    @torch.no_grad()
    def _stand(self, entry: _Entry | None) -> None:
        """Note where the session stands after the last entry, or before the first."""
        log_posterior, last = self._current().log_posterior(), self._standings[-1] if entry else None
        n_asked = last.n_asked + (not entry.volunteered) if entry and last else 0
        n_answered = last.n_answered + (entry.answer is not None) if entry and last else 0
        memory, enough = None, False
        if self.stop is not None:
            device = log_posterior.device
            asked, answered = torch.tensor([[n_asked], [n_answered]], device=device)
            before = self.stop.start(1, device) if last is None or last.memory is None else last.memory
            satisfied, memory = self.stop.step(
                before, Standing(log_posterior, asked, answered, self._cost(), self._worth())
            )
            enough = bool(satisfied)
        self._standings.append(_Standing(log_posterior, n_asked, n_answered, memory, enough))


def _json_value(value: Any) -> Any:
    """A value or a list of values of numpy's as Python's own, which JSON can hold."""
    return value.tolist() if hasattr(value, "tolist") else value
