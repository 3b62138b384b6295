"""A session: a chain with a person in it, who is asked, answers, skips, takes back, objects, and comes back later."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from pursuit.files import parse_json
from pursuit.inference import html
from pursuit.inference.chain import Chain, ChainStep, remaining
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import Pursuer, highest_left, leave_out, score_unit
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import target_of
from pursuit.inference.unusual import Unusual, unusual_of
from pursuit.queries import DoubtfulAnswer
from pursuit.queries.own_words import Suggestion, suggest
from pursuit.sessions.experience import Experience
from pursuit.sessions.log import (
    FurtherTarget,
    GoOn,
    JointLog,
    Move,
    Position,
    Reject,
    SessionLog,
    Skip,
    Tell,
    json_value,
    label_index,
    look_ahead,
    moves_from_dict,
    moves_to_dict,
    query_index,
)
from pursuit.sessions.reasons import Reasons, WhatIf, reasons_of, what_if
from pursuit.sessions.state import State, state_of
from pursuit.sessions.why import (
    LITTLE,
    NextQuestion,
    Why,
    WhyKind,
    WhyReason,
    answer_effects,
    bits_told,
    imagined_answers,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_NAMED = 3
"""How many labels a belief in words names."""


class Session:
    """Ask and tell until the stopping rule is satisfied. Everything follows from the moves of the person so far.

    `known` are answers by name that are known before anything is asked; None stands for one that is not. Where there
    are many sessions with one pursuer, a `template` shares among them what does not depend on answers. `also` are
    further targets that the same answers are to tell about.
    """

    def __init__(
        self,
        pursuer: Pursuer,
        stop: StoppingRule | None = None,
        known: Mapping[str, Any] | None = None,
        *,
        template: HistoryState | None = None,
        also: Mapping[str, FurtherTarget] | None = None,
    ):
        self.pursuer, self.stop = pursuer, stop
        self._log = JointLog(pursuer, stop, template, also) if also else SessionLog(pursuer, stop, template)
        for name, answer in (known or {}).items():
            if answer is not None:
                self._tell(self.place_of(name), answer, volunteered=True)

    def __repr__(self) -> str:
        decision = "not sure" if self.decided is False else self.prediction
        state = f"finished: {decision}" if self.done else "going on"
        return f"Session({len(self._log.told)} questions answered or not known, {state})"

    def _repr_html_(self) -> str:
        """Where the session stands, as a notebook shows it."""
        if self.done:
            return self.chain._repr_html_()
        asked = self.ask()
        question = f"{asked.text} ({asked.expected})" if asked.expected else asked.text
        return html.block("It asks:", html.paragraph(question)) + self.chain._repr_html_()

    def copy(self) -> "Session":
        """A session about one target that stands where this one does, with all that was computed here, and goes on by
        itself."""
        return self._of(self._log.copy())

    @classmethod
    def _of(cls, log: SessionLog) -> "Session":
        session = cls.__new__(cls)
        session.pursuer, session.stop, session._log = log.pursuer, log.stop, log
        return session

    def plot(self, path: str | Path | None = None, title: str = "") -> "Figure":
        """Beliefs after each answer so far, as those of a chain."""
        return self.chain.plot(path, title)

    def state(
        self,
        title: str = "",
        experience: Experience | None = None,
        *,
        accepted: bool = False,
        has_picture: bool = False,
        expects_reports: bool = False,
    ) -> State:
        """All that there is to show now: question, belief, answers and, once enough was asked, the result.
        `experience` is what was measured of the model, if it was."""
        options = {"accepted": accepted, "has_picture": has_picture, "expects_reports": expects_reports}
        also = {name: other._chain() for name, other in self.also.items()}
        return state_of(self._log, self._chain(), title, experience, also, **options)

    @property
    def also(self) -> dict[str, "Session"]:
        """What the answers tell about further targets: a session of each, to be read."""
        return {name: self._of(log) for name, log in self._log.others().items()}

    # ---- what is asked

    @property
    def done(self) -> bool:
        """Whether the stopping rule is satisfied, everything was asked, or the pursuer would ask nothing more that may
        be asked; never before what is known beforehand was given or skipped."""
        return self._log.is_over

    @property
    def can_go_on(self) -> bool:
        """Whether something is left to ask, whatever the stopping rule says."""
        return self._log.can_go_on

    @property
    def can_skip(self) -> bool:
        """Whether something else than the question asked can be asked now."""
        return self._log.can_skip

    def ask(self) -> NextQuestion:
        """The next question; the same one until it is answered or skipped."""
        log, index = self._log, self._next_query()
        query, (best, *others) = self.pursuer.query_set.queries[index], log.candidates
        return NextQuestion(
            **vars(best),
            query=index,
            number=log.next_number,
            choices=query.offered,
            runners_up=tuple((other.text, other.bits) for other in others),
            help=query.help,
            unit=query.unit,
            expected=query.expected,
        )

    def _next_query(self) -> int:
        if self.done:
            raise ValueError(
                f"The session is finished: the prediction is {self.prediction}. Ask on with go_on(), say that it is "
                "wrong with reject(), or take an answer back with undo()."
            )
        return self._log.next_query

    @torch.no_grad()
    def why(self) -> Why:
        """Why the next question is asked: what it is expected to tell, what else could be asked, what each answer would
        change."""
        query, log = self._next_query(), self._log
        before, excluded, best = log.now.belief, log.now.excluded, log.candidates[0]
        answers = imagined_answers(self.pursuer, log.history(), query, excluded)
        n_left, n_skipped = len(log.open_queries()), len([other for other in log.now.put_off if other != query])
        kind: WhyKind
        if log.is_beforehand(query):
            kind = "beforehand"
        elif query in log.now.put_off:
            kind = "again"
        elif n_left == 1 and not log.is_in_group(query):  # of which one may be left, and others come after it
            kind = "last"
        elif best.bits is None:
            kind = "share"
        elif log.is_in_group(query):
            kind = "decides" if self._group_tells_little(query) else "group"
        elif score_unit(self.pursuer) == "bits per cost":
            kind = "cost"
        else:
            most = self._most_bits(query)
            told = max(best.bits, bits_told(answers, before))
            kind = "bits" if best.bits >= most else "decides" if told < LITTLE * most else "prefers"
        return Why(
            WhyReason(kind, n_left, best.bits, best.cost, log.is_restricted(), n_skipped),
            log.candidates,
            answer_effects(self.pursuer, answers, before, excluded),
            log.now.doubt,
            self.bits_gained,
            is_cost_aware=score_unit(self.pursuer) == "bits per cost",
        )

    def _group_tells_little(self, query: int) -> bool:
        """Whether a querier that does not go by bits begins a group that tells little by itself, even all of it."""
        query_set, bits, log = self.pursuer.query_set, self._log.information(), self._log
        if score_unit(self.pursuer) is not None or bits is None:
            return False
        group = query_set.whole_groups(F.one_hot(torch.tensor([query]), len(query_set)).to(bits)) * ~log.asked
        return float((group * bits).sum()) < LITTLE * self._most_bits(query)

    def _most_bits(self, query: int) -> float:
        """The most bits that a query promises which may be asked now, and was not put off."""
        bits, log = self._log.information(), self._log
        assert bits is not None
        rivals = leave_out(bits, log.allowed()).clone()
        rivals[0, [other for other in log.now.put_off if other != query]] = -torch.inf
        return float(highest_left(rivals, log.asked))

    # ---- what is believed

    @property
    def position(self) -> Position:
        """Where the session stands: what was asked and spent, and what the stopping rule makes of it."""
        return self._log.now

    @property
    def posterior(self) -> dict[Any, float]:
        """The belief now, most probable label first; labels that are excluded have none, and come last."""
        probabilities = self._log.now.belief.tolist()
        labels, excluded = self._log.labels, set(self._log.now.excluded)
        order = sorted(range(len(labels)), key=lambda i: (i in excluded, -probabilities[i]))
        return {labels[i]: probabilities[i] for i in order}

    @property
    def excluded(self) -> tuple[Any, ...]:
        """The labels that the person said are wrong."""
        return tuple(self._log.labels[i] for i in self._log.now.excluded)

    @property
    def prediction(self) -> Any:
        """The most probable label, or the expected number."""
        log_posterior, target = self._log.now.log_posterior, target_of(self.pursuer)
        if target is not None:
            return float(target.mean(log_posterior.exp()))
        return self._log.labels[int(log_posterior.argmax())]

    @property
    def decided(self) -> bool | None:
        """Whether the stopping rule vouches for the prediction. Where it does not once the session is done, a person
        must decide. None where it promises nothing.

        Nothing is promised of sessions in which more was said than answers to what was asked: told unasked, skipped,
        or that a guess is wrong.
        """
        return self._log.now.decided

    @property
    def label_set(self) -> tuple[Any, ...] | None:
        """The labels that remain by the belief now, the most probable first; None where the stopping rule does not
        say."""
        return remaining(self.stop, self._log.labels, self._log.now.belief, self.excluded)

    @property
    def belief(self) -> str:
        """The belief now in words: the most probable labels, or "about 152 (90%: 80 to 240)" of a number."""
        target = target_of(self.pursuer)
        if target is not None:
            return target.belief(self._log.now.belief)
        n_named = min(N_NAMED, len(self.posterior) - len(self.excluded))
        return ", ".join(f"{label} {share:.0%}" for label, share in list(self.posterior.items())[:n_named])

    @property
    def bits_gained(self) -> float:
        """How much the answers told so far: the entropy of the first belief minus that of the belief now, in bits.

        A surprising answer may leave more in doubt than before, so this may shrink and even be negative. Labels that
        are excluded count in neither.
        """
        return self._log.as_now(self._log.positions[0]).doubt - self._log.now.doubt

    @property
    def cost(self) -> float:
        """What was spent on the queries asked so far; what a person volunteers is free."""
        return float(self._log.now.cost)

    # ---- what was said

    @property
    def answers(self) -> dict[str, Any]:
        """The answers so far by the name of their query, as the person gave them; None: don't know."""
        queries = self.pursuer.query_set.queries
        return {queries[tell.query].name: tell.answer for tell in self._log.told.values()}

    def place_of(self, query: str) -> int:
        """The number of the query of this name or wording; raises ValueError if there is none."""
        return query_index(self.pursuer.query_set, query)

    def is_answered(self, query: str) -> bool:
        """Whether the query of this name or wording has an answer."""
        tell = self._log.told.get(self.place_of(query))
        return tell is not None and tell.answer is not None

    @property
    def moves(self) -> tuple[Move, ...]:
        """What the person did, in order, with all corrections made."""
        return tuple(self._log.moves)

    @property
    def open_queries(self) -> tuple[int, ...]:
        """The queries that may still be asked or volunteered, whatever the stopping rule says."""
        return self._log.open_queries()

    @property
    def skipped(self) -> tuple[str, ...]:
        """The names of the queries that were put off, the one put off longest ago first."""
        return tuple(self.pursuer.query_set.queries[query].name for query in self._log.now.put_off)

    @property
    def history(self) -> History:
        """What was asked and answered so far, as a history of one row."""
        return self._log.history()

    @property
    def chain(self) -> Chain:
        """What was asked and believed so far. Labels that are excluded count in none of its beliefs."""
        self._log.compute_bits()
        return self._chain()

    def _chain(self) -> Chain:
        """The same, of which the bits of answers that were told again may not be computed."""
        log, tells = self._log, self._log.told.values()
        answered = [
            position for move, position in zip(log.moves, log.positions[1:], strict=True) if isinstance(move, Tell)
        ]
        query_set, x, excluded = log.query_set, log.x[0], self.excluded
        before = first = log.as_now(log.positions[0])
        # Steps before the last are those of the last look, unless something was changed or excluded since.
        known, log.steps = log.steps, {}
        for tell, position in zip(tells, answered, strict=True):
            key = position, log.now.excluded
            if key not in known:
                answer = None if tell.answer is None else query_set.describe_given(tell.query, x, tell.answer)
                after = log.as_now(position)
                gained = before.doubt - after.doubt
                asked = tell.query, query_set.queries[tell.query].name, query_set.queries[tell.query].text
                known[key] = after, ChainStep(*asked, answer, after.belief, position.bits, gained, tell.volunteered)
            log.steps[key] = known[key]
            before = known[key][0]
        steps = tuple(step for _, step in log.steps.values())
        return Chain(
            log.labels,
            first.belief,
            steps,
            target=target_of(self.pursuer),
            excluded=excluded,
            decided=self.decided,
            label_set=self.label_set,
        )

    def reasons(self, label: Any = None) -> Reasons:
        """Which answers spoke for the prediction, or for another `label`, and which against it."""
        if label is not None and target_of(self.pursuer) is None:
            label = self._log.labels[label_index(self.pursuer, label)]
        return reasons_of(self.chain, label)

    @property
    def unusual(self) -> Unusual | None:
        """What is unusual in the answers so far, compared with those that the model learnt from; None if nothing is, or
        the model cannot tell."""
        return unusual_of(self.pursuer, self.history.x[0], self.chain)

    def what_if(self) -> tuple[WhatIf, ...]:
        """The answers any of which alone would have led to another prediction, the surest first."""
        return what_if(self.pursuer, self.history.x[0], self.chain)

    def suggest(self, text: str) -> tuple[Suggestion, ...]:
        """Answers that a text in a person's own words may mean, to be confirmed one by one: nothing is told by this.
        Needs the extra `words`."""
        return suggest(self.pursuer.query_set, text, self.open_queries)

    # ---- what the person does

    def tell(self, answer: Any, query: str | None = None, *, confirmed: bool = False, unasked: bool = False) -> None:
        """Answer the question asked, or volunteer the answer to another one, named or worded `query`, at any time.

        A number far outside what training saw raises DoubtfulAnswer, with what may have been meant, and is only taken
        if it is `confirmed`. An answer that is `unasked` counts as volunteered even if its question would be next.
        """
        index = self._next_query() if query is None else self.place_of(query)
        is_next = not self.done and index == self._log.next_query and not self._log.is_beforehand(index)
        self._tell(index, answer, confirmed, volunteered=unasked or not is_next)

    def _tell(self, index: int, answer: Any, confirmed: bool = False, *, volunteered: bool) -> None:
        before = self._log.told.get(index)
        if before is not None and before.answer is not None:
            name = self.pursuer.query_set.queries[index].name
            raise ValueError(f"'{name}' was answered already: use change() to correct it.")
        answer = json_value(answer)
        if before is not None or answer is None:
            self._check(index, answer)  # not knowing is said by dont_know()
        self._ask_again_if_doubtful(index, answer, confirmed)
        if before is not None:
            self._substitute(index, answer)
        else:
            self._log.add(Tell(index, answer, volunteered))

    def ask_again(self, query: str) -> None:
        """Ask the query of this name next, if it may still be asked: somebody was asked it when the session was
        saved."""
        self._log.pin(self.place_of(query))

    def dont_know(self) -> None:
        """Leave the question unanswered, because nobody knows: it is not asked again, and the belief stays."""
        query = self._next_query()
        self._log.add(Tell(query, None, self._log.is_beforehand(query)))

    def skip(self) -> None:
        """Put the question off and ask something else now. It does not count as asked, and comes back once nothing else
        is left to ask."""
        query = self._next_query()
        if not self.can_skip:
            raise ValueError("There is nothing else to ask now: answer the question, or say that you don't know.")
        self._log.add(Skip(query))

    def undo(self) -> None:
        """Take back the last answer, or whatever else was done last."""
        if not self._log.moves:
            raise ValueError("There is nothing to take back yet.")
        self._log.undo()

    def change(self, query: str, answer: Any, *, confirmed: bool = False) -> None:
        """Correct an answer given before (None: don't know after all). All else stays as it was said: the session is
        then as if the person had answered so at once."""
        index = self.place_of(query)
        if index not in self._log.told:
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
        self._log.add(GoOn())

    def reject(self, *labels: Any) -> None:
        """Say that the prediction, or other `labels`, are wrong. They are excluded from the belief; if the session was
        finished, the stopping rule begins again."""
        if target_of(self.pursuer) is not None:
            raise ValueError("A number is predicted, which is never quite right: change an answer, or go on.")
        wrong = tuple(dict.fromkeys(label_index(self.pursuer, label) for label in labels or (self.prediction,)))
        if len({*self._log.now.excluded, *wrong}) == len(self._log.labels):
            raise ValueError(
                f"{self.prediction} is the only label left. If it is wrong too, an answer may be, or the model "
                "does not know the right label."
            )
        self._log.add(Reject(wrong))

    def take_back_rejection(self, label: Any) -> None:
        """Say that a label is not wrong after all. All else stays as it was said."""
        if not self._log.take_back(label_index(self.pursuer, label)):
            raise ValueError(f"Nobody said that {label} is wrong, so there is nothing to take back.")

    def _substitute(self, index: int, answer: Any) -> None:
        before = self._log.told[index]
        self._log.substitute(self._log.moves.index(before), replace(before, answer=answer))

    def _check(self, query: int, answer: Any) -> None:
        """Raise ValueError, with what may be answered, before anything is changed."""
        self.pursuer.query_set.tell(self.pursuer.query_set.blank()[0], query, answer)

    def _ask_again_if_doubtful(self, query: int, answer: Any, confirmed: bool) -> None:
        if not confirmed and (reason := self.pursuer.query_set.doubt(query, answer)) is not None:
            raise DoubtfulAnswer(reason)

    # ---- saving

    def to_dict(self) -> dict[str, Any]:
        """All that is needed to go on later with the same pursuer, as JSON values."""
        return moves_to_dict(self._log.moves, self._log.changes, self.pursuer)

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
        also: Mapping[str, FurtherTarget] | None = None,
    ) -> "Session":
        """Go on where `to_dict` left off."""
        session = cls(pursuer, stop, template=template, also=also)
        moves, changes = moves_from_dict(state, pursuer)
        for move in moves:
            session._log.add(move, with_bits=False)
        session._log.changes += changes
        return session

    @classmethod
    def from_json(
        cls,
        text: str,
        pursuer: Pursuer,
        stop: StoppingRule | None = None,
        *,
        also: Mapping[str, FurtherTarget] | None = None,
    ) -> "Session":
        try:
            state = parse_json(text)
        except ValueError:
            raise ValueError("This is not a saved session: it is not JSON.") from None
        return cls.from_dict(state, pursuer, stop, also=also)


def make_move(
    session: Session,
    name: str,
    query: str | None = None,
    answer: Any = None,
    label: Any = None,
    confirmed: bool = False,
) -> None:
    """Make the move that a client names; raises ValueError for one that there is not."""
    match name:
        case "tell" if answer is not None or query is not None:
            session.tell(answer, query, confirmed=confirmed)
        case "tell" | "dont_know":
            session.dont_know()
        case "change":
            session.change(str(query), answer, confirmed=confirmed)
        case "reject":
            session.reject(*([] if label is None else [label]))
        case "take_back_rejection":
            session.take_back_rejection(label)
        case "skip":
            session.skip()
        case "undo":
            session.undo()
        case "go_on":
            session.go_on()
        case _:
            raise ValueError(f"There is no move '{name}'.")


def foresee(answers: Sequence[tuple[Session, str | None, Any]]) -> None:
    """Compute, in one batch, what follows from the answers (None: don't know) that sessions with one pursuer are about
    to get, each to the query of a name or, None, to the one that is asked; what was told before is corrected. Sessions
    about several targets compute by themselves, and so do a single one and an answer that is volunteered."""
    expected: list[tuple[SessionLog, int, list[Tell]]] = []
    for session, name, answer in answers if len(answers) > 1 else ():
        log = session._log
        query = None if name is None else log.query_set.index_of.get(name)
        if log.others():
            continue
        if query in log.told and (log.stop is None or not log.stop.needs_worth):
            before = log.told[query]
            place = log.moves.index(before)
            later = [move for move in log.moves[place + 1 :] if isinstance(move, Tell)]
            expected.append((log, place, [replace(before, answer=answer), *later]))
        elif not log.is_over and (name is None or query == log.next_query):
            tell = Tell(log.next_query, answer, log.is_beforehand(log.next_query))
            expected.append((log, len(log.moves), [tell]))
    look_ahead(expected)
