"""A session: a chain with a person in it, who is asked, answers, skips, takes back, objects, and comes back later."""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch

from pursuit.files import parse_json
from pursuit.inference.chain import Chain, chain_step, doubt
from pursuit.inference.course import Course, Position
from pursuit.inference.exclusion import without
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState
from pursuit.inference.moves import (
    GoOn,
    Move,
    Reject,
    Skip,
    Tell,
    json_value,
    label_index,
    moves_from_dict,
    moves_to_dict,
    query_index,
)
from pursuit.inference.pursuer import Pursuer, highest_left, label_list, leave_out, score_unit
from pursuit.inference.question import Question
from pursuit.inference.reasons import Reasons, reasons_of
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target import target_of
from pursuit.inference.what_if import WhatIf, what_if
from pursuit.inference.why import Candidate, Why, answer_effects, candidates
from pursuit.queries import DoubtfulAnswer

N_SHOWN = 3
"""How many labels a belief names."""


class Session:
    """Ask and tell until the stopping rule is satisfied. Everything follows from the moves of the person so far.

    `known` are answers by name that are known before anything is asked; None stands for one that is not. Where there
    are many sessions with one pursuer, a `template` shares among them what does not depend on answers.
    """

    def __init__(
        self,
        pursuer: Pursuer,
        stop: StoppingRule | None = None,
        known: Mapping[str, Any] | None = None,
        *,
        template: HistoryState | None = None,
    ):
        self.pursuer, self.stop = pursuer, stop
        self._course = Course(pursuer, stop, template)
        self._question: Question | None = None  # asked, and not answered yet
        for name, answer in (known or {}).items():
            if answer is not None:
                self.tell(answer, name)

    def __repr__(self) -> str:
        state = f"finished: {self.prediction}" if self.done else "going on"
        return f"Session({len(self._course.told)} questions answered or not known, {state})"

    # ---- what is believed

    @property
    def done(self) -> bool:
        """Whether the stopping rule is satisfied, everything was asked, or the pursuer would ask nothing more that may
        be asked; never before what is known beforehand was given or skipped."""
        return self._course.is_over

    @property
    def can_go_on(self) -> bool:
        """Whether something is left to ask, whatever the stopping rule says."""
        return self._course.first_unknown() is not None or self._course.has_more(is_free=True)

    @property
    def can_skip(self) -> bool:
        """Whether something else than the question asked can be asked now."""
        return not self.done and self._course.n_others(self._is_beforehand(self.ask().query)) > 0

    @property
    def position(self) -> Position:
        """Where the session stands: what was asked and spent, and what the stopping rule makes of it."""
        return self._course.now

    @property
    def posterior(self) -> dict[Any, float]:
        """The belief now, most probable label first; labels that are excluded have none, and come last."""
        probabilities = self._course.now.log_posterior[0].exp().tolist()
        labels, excluded = label_list(self.pursuer.classes), set(self._course.now.excluded)
        order = sorted(range(len(labels)), key=lambda i: (i in excluded, -probabilities[i]))
        return {labels[i]: probabilities[i] for i in order}

    @property
    def excluded(self) -> tuple[Any, ...]:
        """The labels that the person said are wrong."""
        labels = label_list(self.pursuer.classes)
        return tuple(labels[i] for i in self._course.now.excluded)

    @property
    def prediction(self) -> Any:
        """The most probable label, or the expected number."""
        log_posterior, target = self._course.now.log_posterior, target_of(self.pursuer)
        if target is not None:
            return float(target.mean(log_posterior.exp()))
        return label_list(self.pursuer.classes)[int(log_posterior.argmax())]

    @property
    def belief(self) -> str:
        """The belief now in words: the most probable labels, or "about 152 (90%: 80 to 240)" of a number."""
        target = target_of(self.pursuer)
        if target is not None:
            return target.belief(self._course.now.log_posterior[0].exp())
        n_shown = min(N_SHOWN, len(self.posterior) - len(self.excluded))
        return ", ".join(f"{label} {share:.0%}" for label, share in list(self.posterior.items())[:n_shown])

    @property
    def bits_gained(self) -> float:
        """How much the answers told so far: the entropy of the first belief minus that of the belief now, in bits.

        A surprising answer may leave more in doubt than before, so this may shrink and even be negative. Labels that
        are excluded count in neither.
        """
        first, now = (self._course.positions[i].log_posterior[0] for i in (0, -1))
        return doubt(without(first, self._course.now.excluded).exp()) - doubt(now.exp())

    @property
    def cost(self) -> float:
        """What was spent on the queries asked so far; what a person volunteers is free."""
        return float(self._course.now.cost)

    @property
    def answers(self) -> dict[str, Any]:
        """The answers so far by the name of their query, as the person gave them; None: don't know."""
        queries = self.pursuer.query_set.queries
        return {queries[tell.query].name: tell.answer for tell in self._course.told.values()}

    def place_of(self, query: str) -> int:
        """The number of the query of this name or wording; raises ValueError if there is none."""
        return query_index(self.pursuer.query_set, query)

    def is_answered(self, query: str) -> bool:
        """Whether the query of this name or wording has an answer."""
        tell = self._course.told.get(self.place_of(query))
        return tell is not None and tell.answer is not None

    @property
    def moves(self) -> tuple[Move, ...]:
        """What the person did, in order, with all corrections made."""
        return tuple(self._course.moves)

    @property
    def open_queries(self) -> tuple[int, ...]:
        """The queries that may still be asked or volunteered, whatever the stopping rule says."""
        return self._course.open_queries()

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of the queries that were put off, the one put off longest ago first."""
        return tuple(self.pursuer.query_set.queries[query].name for query in self._course.now.put_off)

    @property
    def history(self) -> History:
        """What was asked and answered so far, as a history of one row."""
        return self._course.history()

    @property
    def chain(self) -> Chain:
        """What was asked and believed so far. Labels that are excluded count in none of its beliefs."""
        course, tells = self._course, self._course.told.values()
        answered = [
            position
            for move, position in zip(course.moves, course.positions[1:], strict=True)
            if isinstance(move, Tell)
        ]
        query_set, x = self.pursuer.query_set, self.history.x[0]
        positions = [course.positions[0], *answered]
        beliefs = [without(position.log_posterior[0], course.now.excluded).exp() for position in positions]
        steps = tuple(
            chain_step(
                query_set,
                tell.query,
                None if tell.answer is None else query_set.describe_given(tell.query, x, tell.answer),
                before,
                after,
                position.bits,
                tell.volunteered,
            )
            for tell, position, (before, after) in zip(tells, answered, pairwise(beliefs), strict=True)
        )
        classes = tuple(label_list(self.pursuer.classes))
        return Chain(classes, beliefs[0], steps, target=target_of(self.pursuer), excluded=self.excluded)

    def reasons(self, label: Any = None) -> Reasons:
        """Which answers spoke for the prediction, or for another `label`, and which against it."""
        if label is not None and target_of(self.pursuer) is None:
            label = label_list(self.pursuer.classes)[label_index(self.pursuer, label)]
        return reasons_of(self.chain, label)

    def what_if(self) -> tuple[WhatIf, ...]:
        """The answers any of which alone would have led to another prediction, the surest first."""
        return what_if(self.pursuer, self.history.x[0], self.chain)

    # ---- what is asked

    @torch.no_grad()
    def ask(self) -> Question:
        """The next question; the same one until it is answered or skipped."""
        if self._question is not None:
            return self._question
        if self.done:
            raise ValueError(
                f"The session is finished: the prediction is {self.prediction}. Ask on with go_on(), say that it is "
                "wrong with reject(), or take an answer back with undo()."
            )
        best, *others = self._candidates()
        number = 0 if self._is_beforehand(best.query) else self._course.now.n_asked + 1
        self._question = Question.of(self.pursuer.query_set.queries[best.query], number, best, others)
        return self._question

    def _candidates(self) -> list[Candidate]:
        """The query to ask now, and those that come after it."""
        course = self._course
        if (first := course.first_unknown()) is not None:
            query = self.pursuer.query_set.queries[first]
            return [Candidate(first, query.name, query.text, None, None, query.cost)]
        return candidates(self.pursuer, course.preferred_scores(), course.asked, course.information())

    def _is_beforehand(self, query: int) -> bool:
        query_set = self.pursuer.query_set
        return query_set.order is not None and query_set.queries[query].name in query_set.order.beforehand

    @torch.no_grad()
    def why(self) -> Why:
        """Why the next question is asked: what it is expected to tell, what else could be asked, what each answer would
        change."""
        query = self.ask().query  # raises ValueError if there is nothing to ask
        course = self._course
        best, *others = self._candidates()
        before, bits = course.now.log_posterior[0].exp(), course.information()
        is_beforehand, put_off = self._is_beforehand(query), course.now.put_off
        promises_most = True
        if bits is not None and not is_beforehand:
            rivals = leave_out(bits, course.allowed()).clone()
            rivals[0, [other for other in put_off if other != query]] = -torch.inf
            promises_most = bool(bits[0, query] >= highest_left(rivals, course.asked))
        return Why(
            best,
            tuple(others),
            answer_effects(self.pursuer, course.history(), query, before, course.now.excluded),
            doubt(before),
            self.bits_gained,
            is_cost_aware=score_unit(self.pursuer) == "bits per cost",
            promises_most=promises_most,
            is_beforehand=is_beforehand,
            is_restricted=course.is_restricted(),
            n_skipped=len([other for other in put_off if other != query]),
            is_again=query in put_off,
        )

    # ---- what the person does

    def tell(self, answer: Any, query: str | None = None, *, confirmed: bool = False) -> None:
        """Answer the question asked, or volunteer the answer to the one named or worded `query`, at any time.

        A number far outside what training saw raises DoubtfulAnswer, with what may have been meant, and is only taken
        if it is `confirmed`.
        """
        index = self.ask().query if query is None else self.place_of(query)
        before = self._course.told.get(index)
        if before is not None and before.answer is not None:
            raise ValueError(f"'{query}' was answered already: use change() to correct it.")
        answer = json_value(answer)
        if before is not None or answer is None:
            self._check(index, answer)  # not knowing is said by dont_know()
        self._ask_again_if_doubtful(index, answer, confirmed)
        if before is not None:
            self._substitute(index, answer)
            return
        self._course.add(Tell(index, answer, query is not None or self._is_beforehand(index)))
        self._question = None

    def dont_know(self) -> None:
        """Leave the question unanswered, because nobody knows: it is not asked again, and the belief stays."""
        query = self.ask().query
        self._course.add(Tell(query, None, self._is_beforehand(query)))
        self._question = None

    def skip(self) -> None:
        """Put the question off and ask something else now. It does not count as asked, and comes back once nothing else
        is left to ask."""
        query = self.ask().query  # raises ValueError if there is nothing to ask
        if not self.can_skip:
            raise ValueError("There is nothing else to ask now: answer the question, or say that you don't know.")
        self._course.add(Skip(query))
        self._question = None

    def undo(self) -> None:
        """Take back the last answer, or whatever else was done last."""
        if not self._course.moves:
            raise ValueError("There is nothing to take back yet.")
        self._course.undo()
        self._question = None

    def change(self, query: str, answer: Any, *, confirmed: bool = False) -> None:
        """Correct an answer given before (None: don't know after all). All else stays as it was said: the session is
        then as if the person had answered so at once."""
        index = self.place_of(query)
        if index not in self._course.told:
            raise ValueError(f"'{query}' was not answered yet, so there is nothing to change.")
        answer = json_value(answer)
        if answer is not None:
            self._check(index, answer)
            self._ask_again_if_doubtful(index, answer, confirmed)
        self._substitute(index, answer)

    def go_on(self) -> None:
        """Ask on although the stopping rule is satisfied, until the person has enough or nothing is left to ask."""
        if not self.done:
            raise ValueError("The session goes on already: ask() has the next question.")
        if not self.can_go_on:
            raise ValueError("There is nothing left to ask.")
        self._course.add(GoOn())
        self._question = None

    def reject(self, *labels: Any) -> None:
        """Say that the prediction, or other `labels`, are wrong. They are excluded from the belief; if the session was
        finished, the stopping rule begins again."""
        if target_of(self.pursuer) is not None:
            raise ValueError("A number is predicted, which is never quite right: change an answer, or go on.")
        wrong = tuple(dict.fromkeys(label_index(self.pursuer, label) for label in labels or (self.prediction,)))
        excluded = {*self._course.now.excluded, *wrong}
        if len(excluded) == len(label_list(self.pursuer.classes)):
            raise ValueError(
                f"{self.prediction} is the only label left. If it is wrong too, an answer may be, or the model "
                "does not know the right label."
            )
        self._course.add(Reject(wrong))
        self._question = None

    def take_back_rejection(self, label: Any) -> None:
        """Say that a label is not wrong after all. All else stays as it was said."""
        if not self._course.take_back(label_index(self.pursuer, label)):
            raise ValueError(f"Nobody said that {label} is wrong, so there is nothing to take back.")
        self._question = None

    def _substitute(self, index: int, answer: Any) -> None:
        moves = self._course.moves
        place = next(i for i, move in enumerate(moves) if isinstance(move, Tell) and move.query == index)
        volunteered = self._course.told[index].volunteered
        self._course.substitute(place, Tell(index, answer, volunteered))
        self._question = None

    def _check(self, query: int, answer: Any) -> None:
        """Raise ValueError, with what may be answered, before anything is changed."""
        self.pursuer.query_set.tell(self.pursuer.query_set.blank()[0], query, answer)

    def _ask_again_if_doubtful(self, query: int, answer: Any, confirmed: bool) -> None:
        if not confirmed and (reason := self.pursuer.query_set.doubt(query, answer)) is not None:
            raise DoubtfulAnswer(reason)

    # ---- saving

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later with the same pursuer, as JSON values."""
        return moves_to_dict(self._course.moves, self._course.changes, self.pursuer)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_dict(
        cls,
        state: dict[str, Any],
        pursuer: Pursuer,
        stop: StoppingRule | None = None,
        *,
        template: HistoryState | None = None,
    ) -> "Session":
        """Go on where `to_dict` left off."""
        session = cls(pursuer, stop, template=template)
        moves, changes = moves_from_dict(state, pursuer)
        for move in moves:
            session._course.add(move)
        session._course.changes += changes
        return session

    @classmethod
    def from_json(cls, text: str, pursuer: Pursuer, stop: StoppingRule | None = None) -> "Session":
        try:
            state = parse_json(text)
        except ValueError:
            raise ValueError("This is not a saved session: it is not JSON.") from None
        return cls.from_dict(state, pursuer, stop)
