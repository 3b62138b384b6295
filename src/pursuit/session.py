"""A session: a chain with a person in it, who is asked, answers, skips, takes back, and comes back later."""

import difflib
import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pursuit.chains import Chain, Step
from pursuit.following import Follower, follow
from pursuit.history import History
from pursuit.pursuer import Pursuer, choose, plain_labels, wants_more
from pursuit.stopping import StoppingRule


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
    n_queries: int
    memory: Tensor | None = None
    enough: bool = False


class Session:
    """Ask and tell until the stopping rule is content. Everything follows from the list of what was told so far."""

    def __init__(self, pursuer: Pursuer, stop: StoppingRule | None = None):
        self.pursuer, self.stop = pursuer, stop
        self._entries: dict[int, _Entry] = {}  # by query, in the order they were told
        self._question: Question | None = None  # asked, and not answered yet
        self._scores: Tensor | None = None  # (1, Q) of what may come next, once somebody wanted to know
        self._x = pursuer.query_set.blank()
        self._follower: Follower | None = None  # of all entries; None once one of them was taken back
        self._standings: list[_Standing] = []  # before anything, then after each entry
        self._stand(None)

    def __repr__(self) -> str:
        state = f"finished: {self.prediction}" if self.done else "going on"
        return f"Session({len(self._entries)} told, {state})"

    @property
    def done(self) -> bool:
        """Whether the stopping rule is content, everything was asked, or the pursuer would ask nothing more."""
        if self._standings[-1].enough or len(self._entries) == len(self.pursuer.query_set):
            return True
        return not bool(wants_more(self._ahead(), self._followed().asked))

    @property
    def posterior(self) -> dict[Any, float]:
        """The belief now, most probable label first."""
        probabilities = self._standings[-1].log_posterior[0].exp().tolist()
        pairs = zip(plain_labels(self.pursuer.classes), probabilities, strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    @property
    def prediction(self) -> Any:
        return plain_labels(self.pursuer.classes)[int(self._standings[-1].log_posterior.argmax())]

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
        follower, queries = self._followed(), self.pursuer.query_set.queries
        scores, asked = self._ahead(), follower.asked
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
            raise ValueError(f"'{query}' was told already: use change() to correct it.")
        if answer is None:
            self._check(index, answer)  # to skip is another thing
        self._add(_Entry(index, _plain(answer), volunteered=query is not None))

    def skip(self) -> None:
        """Leave the question unanswered; it is not asked again."""
        self._add(_Entry(self.ask().query, None))

    def undo(self) -> None:
        """Take back the last answer or skip."""
        if not self._entries:
            raise ValueError("There is nothing to take back yet.")
        self._entries.popitem()
        self._standings.pop()
        self._question = self._follower = self._scores = None

    def change(self, query: str, answer: Any) -> None:
        """Correct an answer given before (None: unknown after all); the other answers stay."""
        index = self._index(query)
        if index not in self._entries:
            raise ValueError(f"'{query}' was not answered yet, so there is nothing to change.")
        answer = _plain(answer)
        if answer is not None:
            self._check(index, answer)
        entries, place = list(self._entries.values()), list(self._entries).index(index)
        self._entries = {entry.query: entry for entry in entries[:place]}
        del self._standings[place + 1 :]
        self._follower = None
        self._scores = None
        for entry in (replace(entries[place], answer=answer), *entries[place + 1 :]):
            self._add(entry)

    @property
    def chain(self) -> Chain:
        """What was asked and believed so far."""
        self._followed()  # such that `x` holds what was told, and nothing else
        query_set, steps = self.pursuer.query_set, []
        beliefs = [standing.log_posterior[0].exp() for standing in self._standings]
        for entry, belief in zip(self._entries.values(), beliefs[1:], strict=True):
            words = query_set.queries[entry.query]
            answer = None if entry.answer is None else query_set.describe(entry.query, self._x[0])
            steps.append(Step(entry.query, words.name, words.text, answer, belief))
        return Chain(tuple(plain_labels(self.pursuer.classes)), beliefs[0], tuple(steps))

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later with the same pursuer, as JSON values."""
        queries = self.pursuer.query_set.queries
        told = [
            {"query": queries[entry.query].name, "answer": entry.answer, "volunteered": entry.volunteered}
            for entry in self._entries.values()
        ]
        return {"format": 1, "told": told}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(cls, state: dict[str, Any], pursuer: Pursuer, stop: StoppingRule | None = None) -> "Session":
        """Go on where `to_dict` left off."""
        session = cls(pursuer, stop)
        try:
            if state["format"] != 1:
                raise ValueError(f"The session has format {state['format']}, but this version reads format 1.")
            told = [(entry["query"], entry["answer"], bool(entry["volunteered"])) for entry in state["told"]]
        except (KeyError, TypeError):
            raise ValueError("This is no saved session: it lacks 'format', 'told' or a part of its entries.") from None
        for name, answer, volunteered in told:
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
            raise ValueError("This is no saved session: it is not JSON.") from None
        return cls.from_dict(state, pursuer, stop)

    def _index(self, name: str) -> int:
        number_of = self.pursuer.query_set.number_of
        if not isinstance(name, str) or name not in number_of:
            close = difflib.get_close_matches(str(name), number_of, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(repr(other) for other in close)}?" if close else ""
            raise ValueError(f"There is no query named '{name}'.{hint}")
        return number_of[name]

    def _check(self, query: int, answer: Any) -> None:
        """Raise ValueError, with what may be answered, before anything is changed."""
        self.pursuer.query_set.tell(self.pursuer.query_set.blank()[0], query, answer)

    def _add(self, entry: _Entry) -> None:
        """One entry more; an answer that cannot be taken raises ValueError before anything is changed."""
        self._show(self._followed(), entry)
        self._entries[entry.query] = entry
        self._question = self._scores = None
        self._stand(entry)

    @torch.no_grad()
    def _followed(self) -> Follower:
        """The follower of all that was told, in the order in which it was told."""
        if self._follower is None:
            self._x = self.pursuer.query_set.blank()
            nothing = torch.zeros(1, len(self.pursuer.query_set), dtype=torch.bool, device=self._x.device)
            follower = follow(self.pursuer, History(self._x, nothing, nothing))
            for entry in self._entries.values():
                self._show(follower, entry)
            self._follower = follower
        return self._follower

    @torch.no_grad()
    def _ahead(self) -> Tensor:
        if self._scores is None:
            self._scores = self._followed().scores()
        return self._scores

    @torch.no_grad()
    def _show(self, follower: Follower, entry: _Entry) -> None:
        if entry.answer is not None:
            self.pursuer.query_set.tell(self._x[0], entry.query, entry.answer)
        follower.ask_one(entry.query, entry.answer is not None)

    @torch.no_grad()
    def _stand(self, entry: _Entry | None) -> None:
        """Note where the session stands after the last entry, or before the first."""
        log_posterior, last = self._followed().log_posterior(), self._standings[-1] if entry else None
        n_asked = last.n_asked + (not entry.volunteered) if entry and last else 0
        n_queries = last.n_queries + (entry.answer is not None) if entry and last else 0
        memory, enough = None, False
        if self.stop is not None:
            device = log_posterior.device
            counts = torch.tensor([[n_asked], [n_queries]], device=device)
            before = self.stop.start(1, device) if last is None or last.memory is None else last.memory
            content, memory = self.stop.step(before, log_posterior, *counts)
            enough = bool(content)
        self._standings.append(_Standing(log_posterior, n_asked, n_queries, memory, enough))


def _plain(value: Any) -> Any:
    """A value or a list of values of numpy's as Python's own, which JSON knows."""
    return value.tolist() if hasattr(value, "tolist") else value
