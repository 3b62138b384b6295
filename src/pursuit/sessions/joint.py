"""Several targets in one interview: every answer is told to the models of all of them, a question is chosen by what it
is expected to tell about all that are not settled yet, and the interview is over once each of them is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import Pursuer, highest_left, leave_out, per_cost
from pursuit.inference.stopping import StoppingRule
from pursuit.queries import QuerySet
from pursuit.sessions.log import Move, Reject, SessionLog, Skip, Tell, once


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
        own = SessionLog.information(self)
        for name, bits in {
            "the first target": own,
            **{n: log.information() for n, log in self.others().items()},
        }.items():
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

    @property
    def is_over(self) -> bool:
        if self.first_unknown() is not None:
            return False
        is_settled = all(log.now.enough for log in (self, *self.others().values()))
        return (is_settled and not self.now.is_free) or not self.has_more()

    @once
    def information(self) -> Tensor | None:
        """The bits (1, Q) expected of every query about all targets that are not settled."""
        return self._expected(is_weighted=False)

    @once
    def open_scores(self) -> Tensor:
        bits, query_set = self._expected(is_weighted=True), self.pursuer.query_set
        has_costs = bool((query_set.costs != query_set.costs[0]).any())
        return leave_out(per_cost(bits, query_set.costs) if has_costs else bits, self.allowed())

    def _worth(self) -> Tensor | None:
        """For the rule of the first target, what there is to be told about it alone."""
        bits = None if self.stop is None or not self.stop.needs_worth else super().information()
        return None if bits is None else highest_left(leave_out(bits, self.allowed()), self.asked)

    def _expected(self, is_weighted: bool) -> Tensor:
        bits, weights, are_settled = [super().information()], [1.0], [self.now.enough]
        for name, log in self.others().items():
            told = log.information()
            bits.append(None if told is None else told[:, self._places[name]])
            weights.append(self._targets[name].weight)
            are_settled.append(log.now.enough)
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
