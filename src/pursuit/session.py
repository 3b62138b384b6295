"""A session: a chain with a person in it, who is asked, answers, skips, takes back, and comes back later."""

import difflib
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pursuit.chains import Chain, Step
from pursuit.history import History
from pursuit.pursuer import Pursuer, choose, plain_labels
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


class Session:
    """Ask and tell until the stopping rule is content. Everything follows from the list of what was told so far."""

    def __init__(self, pursuer: Pursuer, stop: StoppingRule | None = None):
        self.pursuer, self.stop = pursuer, stop
        self._entries: list[_Entry] = []
        self._log_posteriors: list[Tensor] = []  # before anything, then after each entry: (C,)
        self._question: Question | None = None  # asked, and not answered yet
        self._replay()

    def __repr__(self) -> str:
        state = f"finished: {self.prediction}" if self.done else "going on"
        return f"Session({len(self._entries)} told, {state})"

    @property
    def done(self) -> bool:
        """Whether the stopping rule is content, or everything was asked."""
        if len(self._entries) == len(self.pursuer.query_set):
            return True
        if self.stop is None:
            return False
        memory, enough = self.stop.start(1), torch.zeros(1, dtype=torch.bool)
        n_asked, n_queries = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
        told = [None, *self._entries]
        for entry, log_posterior in zip(told, self._log_posteriors, strict=True):
            n_asked += entry is not None and not entry.volunteered
            n_queries += entry is not None and entry.answer is not None
            enough, memory = self.stop.step(memory, log_posterior[None], n_asked, n_queries)
        return bool(enough)

    @property
    def posterior(self) -> dict[Any, float]:
        """The belief now, most probable label first."""
        probabilities = self._log_posteriors[-1].exp().tolist()
        pairs = zip(plain_labels(self.pursuer.classes), probabilities, strict=True)
        return dict(sorted(pairs, key=lambda pair: -pair[1]))

    @property
    def prediction(self) -> Any:
        return plain_labels(self.pursuer.classes)[int(self._log_posteriors[-1].argmax())]

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
        history = self._history(len(self._entries))
        scores = self.pursuer.scores(history)
        chosen = int(choose(scores, history.asked))
        shares = scores[0].masked_fill(history.asked[0], -torch.inf).softmax(dim=0)
        query = self.pursuer.query_set.queries[chosen]
        left = [i for i in shares.topk(min(4, len(shares))).indices.tolist() if i != chosen and not history.asked[0, i]]
        runners_up = tuple((self.pursuer.query_set.queries[i].text, float(shares[i])) for i in left[:3])
        n_asked = sum(not entry.volunteered for entry in self._entries)
        share = float(shares[chosen])
        self._question = Question(n_asked + 1, chosen, query.name, query.text, query.choices, share, runners_up)
        return self._question

    def tell(self, answer: Any, query: str | None = None) -> None:
        """Answer the question asked, or volunteer the answer to the one named `query`."""
        index = self.ask().query if query is None else self._index(query)
        if any(entry.query == index for entry in self._entries):
            raise ValueError(f"'{query}' was told already: use change() to correct it.")
        self._check(index, answer)
        self._entries.append(_Entry(index, _plain(answer), volunteered=query is not None))
        self._replay()

    def skip(self) -> None:
        """Leave the question unanswered; it is not asked again."""
        self._entries.append(_Entry(self.ask().query, None))
        self._replay()

    def undo(self) -> None:
        """Take back the last answer or skip."""
        if not self._entries:
            raise ValueError("There is nothing to take back yet.")
        self._entries.pop()
        self._log_posteriors.pop()
        self._question = None

    def change(self, query: str, answer: Any) -> None:
        """Correct an answer given before (None: unknown after all); the other answers stay."""
        index = self._index(query)
        place = next((i for i, entry in enumerate(self._entries) if entry.query == index), None)
        if place is None:
            raise ValueError(f"'{query}' was not answered yet, so there is nothing to change.")
        if answer is not None:
            self._check(index, answer)
        self._entries[place] = _Entry(index, _plain(answer), self._entries[place].volunteered)
        del self._log_posteriors[place + 1 :]
        self._replay()

    @property
    def chain(self) -> Chain:
        """What was asked and believed so far."""
        query_set, x = self.pursuer.query_set, self._history(len(self._entries)).x[0]
        steps = []
        for entry, log_posterior in zip(self._entries, self._log_posteriors[1:], strict=True):
            words = query_set.queries[entry.query]
            answer = None if entry.answer is None else query_set.describe(entry.query, x)
            steps.append(Step(entry.query, words.name, words.text, answer, log_posterior.exp()))
        return Chain(tuple(plain_labels(self.pursuer.classes)), self._log_posteriors[0].exp(), tuple(steps))

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later with the same pursuer, as JSON values."""
        names = [query.name for query in self.pursuer.query_set.queries]
        told = [{"query": names[e.query], "answer": e.answer, "volunteered": e.volunteered} for e in self._entries]
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
            if answer is not None:
                session._check(index, answer)
            if any(entry.query == index for entry in session._entries):
                raise ValueError(f"The saved session has '{name}' twice.")
            session._entries.append(_Entry(index, answer, volunteered))
        session._replay()
        return session

    @classmethod
    def from_json(cls, text: str, pursuer: Pursuer, stop: StoppingRule | None = None) -> "Session":
        try:
            state = json.loads(text)
        except ValueError:
            raise ValueError("This is no saved session: it is not JSON.") from None
        return cls.from_dict(state, pursuer, stop)

    def _index(self, name: str) -> int:
        names = [query.name for query in self.pursuer.query_set.queries]
        if name not in names:
            close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(repr(other) for other in close)}?" if close else ""
            raise ValueError(f"There is no query named '{name}'.{hint}")
        return names.index(name)

    def _check(self, query: int, answer: Any) -> None:
        """Raise ValueError, with what may be answered, before anything is changed."""
        self.pursuer.query_set.tell(self.pursuer.query_set.blank()[0], query, answer)

    def _history(self, n_entries: int) -> History:
        """The history after the first entries, as a batch of one row."""
        query_set = self.pursuer.query_set
        x = query_set.blank()
        known = torch.zeros(1, len(query_set), dtype=torch.bool)
        asked = known.clone()
        for entry in self._entries[:n_entries]:
            asked[0, entry.query] = True
            if entry.answer is not None:
                known[0, entry.query] = True
                query_set.tell(x[0], entry.query, entry.answer)
        return History(x, known, asked)

    @torch.no_grad()
    def _replay(self) -> None:
        """Compute the beliefs that are not there yet, after what was told has changed."""
        self._question = None
        for n_entries in range(len(self._log_posteriors), len(self._entries) + 1):
            self._log_posteriors.append(self.pursuer.log_posterior(self._history(n_entries))[0])


def _plain(value: Any) -> Any:
    """A value or a list of values of numpy's as Python's own, which JSON knows."""
    return value.tolist() if hasattr(value, "tolist") else value
