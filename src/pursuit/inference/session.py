"""A session: a chain with a person in it, who is asked, answers, skips, takes back, objects, and comes back later."""

import json
from collections.abc import Mapping
from typing import Any

import torch

from pursuit.files import parse_json
from pursuit.inference.chain import doubt
from pursuit.inference.course import Course
from pursuit.inference.incremental import HistoryState
from pursuit.inference.moves import (
    GoOn,
    Reject,
    Skip,
    Tell,
    json_value,
    label_index,
    moves_from_dict,
    moves_to_dict,
)
from pursuit.inference.pursuer import Pursuer, highest_left, label_list, leave_out, score_unit
from pursuit.inference.question import Question
from pursuit.inference.session_beliefs import SessionBeliefs
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target import target_of
from pursuit.inference.why import (
    LITTLE,
    Candidate,
    Why,
    answer_effects,
    bits_told,
    candidates,
    imagined_answers,
)
from pursuit.queries import DoubtfulAnswer


class Session(SessionBeliefs):
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
        outcome = "not sure" if self.decided is False else self.prediction
        state = f"finished: {outcome}" if self.done else "going on"
        return f"Session({len(self._course.told)} questions answered or not known, {state})"

    # ---- what is asked

    @property
    def can_skip(self) -> bool:
        """Whether something else than the question asked can be asked now."""
        return not self.done and self._course.n_others(self._is_beforehand(self.ask().query)) > 0

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
        answers = imagined_answers(self.pursuer, course.history(), query, course.now.excluded)
        promises_most, tells_little = True, False
        if bits is not None and not is_beforehand:
            rivals = leave_out(bits, course.allowed()).clone()
            rivals[0, [other for other in put_off if other != query]] = -torch.inf
            most = highest_left(rivals, course.asked)
            promises_most = bool(bits[0, query] >= most)
            told = max(float(bits[0, query]), bits_told(answers, before))
            tells_little = told < LITTLE * float(most)
        return Why(
            best,
            tuple(others),
            answer_effects(self.pursuer, answers, before, course.now.excluded),
            doubt(before),
            self.bits_gained,
            is_cost_aware=score_unit(self.pursuer) == "bits per cost",
            promises_most=promises_most,
            tells_little=tells_little,
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
