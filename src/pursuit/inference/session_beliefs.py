"""What is believed in a session, and what was said in it so far."""

from itertools import pairwise
from typing import Any

from pursuit.inference.chain import Chain, chain_step, doubt, remaining
from pursuit.inference.course import Course, Position
from pursuit.inference.exclusion import without
from pursuit.inference.history import History
from pursuit.inference.moves import Move, Tell, label_index, query_index
from pursuit.inference.pursuer import Pursuer, label_list
from pursuit.inference.reasons import Reasons, reasons_of
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target import target_of
from pursuit.inference.unusual import Unusual, unusual_of
from pursuit.inference.what_if import WhatIf, what_if

N_SHOWN = 3
"""How many labels a belief names."""


class SessionBeliefs:
    """All that can be looked at in a session; `Session` has what a person can do in it."""

    pursuer: Pursuer
    stop: StoppingRule | None
    _course: Course

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
    def decided(self) -> bool | None:
        """Whether the stopping rule vouches for the prediction. Where it does not once the session is done, a person
        must decide. None where it promises nothing.

        Nothing is promised of sessions in which more was said than answers to what was asked: told unasked, skipped,
        or that a guess is wrong.
        """
        return self._course.now.decided

    @property
    def label_set(self) -> tuple[Any, ...] | None:
        """The labels that remain by the belief now, the most probable first; None where the stopping rule does not
        say."""
        posterior = self._course.now.log_posterior[0].exp()
        return remaining(self.stop, label_list(self.pursuer.classes), posterior, self.excluded)

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
        return Chain(
            classes,
            beliefs[0],
            steps,
            target=target_of(self.pursuer),
            excluded=self.excluded,
            decided=self.decided,
            label_set=self.label_set,
        )

    def reasons(self, label: Any = None) -> Reasons:
        """Which answers spoke for the prediction, or for another `label`, and which against it."""
        if label is not None and target_of(self.pursuer) is None:
            label = label_list(self.pursuer.classes)[label_index(self.pursuer, label)]
        return reasons_of(self.chain, label)

    @property
    def unusual(self) -> Unusual | None:
        """What is unusual in the answers so far, compared with those that the model learnt from; None if nothing is, or
        the model cannot tell."""
        return unusual_of(self.pursuer, self.history.x[0], self.chain)

    def what_if(self) -> tuple[WhatIf, ...]:
        """The answers any of which alone would have led to another prediction, the surest first."""
        return what_if(self.pursuer, self.history.x[0], self.chain)
