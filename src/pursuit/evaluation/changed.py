"""How far results move if answers are changed on purpose, one at a time or two together, and what checking them saves.

A result is what a row is told once the stopping rule has stopped it. Its other answers stay as they are, and nothing
more is asked: the model's own beliefs say what it would have been told.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pursuit.inference.history import History
from pursuit.inference.predictions import predict_rows
from pursuit.inference.pursuer import Pursuer, label_list, label_text
from pursuit.inference.rollout import BATCH_ROWS, rows_at_once
from pursuit.inference.stopping import StoppingRule
from pursuit.inference.target_bins import TargetBins, target_of
from pursuit.queries import QuerySet
from pursuit.training.rows import Rows

MOST_ROWS, MOST_HISTORIES = 200, 50_000
"""Most rows whose answers are changed, and about the most changed pairs; beyond that, there are fewer rows."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Numbers are changed to these quantiles of the measured rows."""
MOST_CHOICES = 12
"""Other answers are changed to the choices that are most frequent in the measured rows."""
N_PAIRED = 10
"""Pairs are made of those answers of a row that move its result most by themselves."""
MOST_LABELS, MOST_PAIRS, MOST_CHECKS = 12, 10, 5
"""How many labels that somebody may want, pairs of questions, and questions to check are listed."""
HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class WantedResult:
    """A result that somebody may want: a label, or a higher or a lower number."""

    result: str
    n_rows: int
    """Rows that have another result; all rows where a number is predicted."""
    n_by_one: int | None
    """Those of them that get it by one other answer; None where a number is predicted."""
    n_by_two: int | None
    """The same by at most two other answers."""
    mean: tuple[float, float, float]
    """Their mean probability of the label, or the mean number: as answered, and the most that one and two other answers
    make of it."""


@dataclass(frozen=True)
class ChangedQuestion:
    """What other answers to one question do."""

    name: str
    text: str
    is_checked: bool
    """Whether its answers are checked, so that they cannot be changed on purpose."""
    n_rows: int
    """Rows that answered it."""
    n_moved: int | None
    """Those of them that get another result by another answer to it alone; None where a number is predicted."""
    shift: float
    """How far another answer lowers the probability of the result at most, or moves the number: the mean of these rows.
    """


@dataclass(frozen=True)
class ChangedPair:
    """What other answers to two questions do together."""

    names: tuple[str, str]
    texts: tuple[str, str]
    n_rows: int
    """Rows in which both were changed."""
    n_moved: int | None
    """Those of them that get another result by both together, and by neither alone."""
    shift: float


@dataclass(frozen=True)
class Check:
    """A question to check, after those before it in the list."""

    name: str
    text: str
    n_by_one: int
    """Rows that can still be given another result by one other answer, once these questions are checked."""
    n_by_two: int


@dataclass(frozen=True)
class ChangedAnswers:
    """How far results move if answers are changed on purpose. Answers that are checked stay as they are."""

    n_rows: int
    n_by_one: int | None
    """Rows that get another result by one other answer; None where a number is predicted."""
    n_by_two: int | None
    """The same by at most two other answers."""
    wanted: tuple[WantedResult, ...]
    questions: tuple[ChangedQuestion, ...]
    """The questions that were answered, those that move most rows first."""
    pairs: tuple[ChangedPair, ...]
    checks: tuple[Check, ...]
    """The questions whose checking leaves fewest rows that can be moved, one after the other."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Changes:
    """S histories, in each of which k answers of a row are those of other rows."""

    row: Tensor  # (S,)
    query: Tensor  # (S, k)
    donor: Tensor  # (S, k)

    def take(self, index: Tensor) -> "_Changes":
        return _Changes(self.row[index], self.query[index], self.donor[index])


@dataclass(frozen=True)
class _Results:
    """The results of histories: what somebody may want is in the columns (D), and a higher value is nearer to it."""

    value: Tensor  # (S, D): probabilities of labels; or the number, and its negative
    label: Tensor | None  # (S,), None where a number is predicted

    @classmethod
    def of(cls, posterior: Tensor, target: TargetBins | None) -> "_Results":
        if target is None:
            return cls(posterior, posterior.argmax(dim=1))
        number = target.mean(posterior).to(posterior.dtype)
        return cls(torch.stack([number, -number], dim=1), None)

    def take(self, index: Tensor) -> "_Results":
        return _Results(self.value[index], None if self.label is None else self.label[index])

    def effect(self, before: "_Results", row: Tensor) -> tuple[Tensor, Tensor]:
        """How far each history is from the result of its row before, and whether the result is another: (S,) each."""
        if before.label is None or self.label is None:
            shift = (self.value[:, 0] - before.value[row, 0]).abs()
            return shift, torch.zeros_like(row, dtype=torch.bool)
        label = before.label[row]
        at = label[:, None]
        shift = before.value[row].gather(1, at) - self.value.gather(1, at)
        return shift[:, 0].clamp(min=0), self.label != label


class _Interviews:
    """Rows as they were asked and answered, and what their results would be with other answers."""

    def __init__(self, pursuer: Pursuer, rows: Rows, some: Tensor, stop: StoppingRule | None):
        own = rows.take(some)
        self.pursuer, self.donors, self.rows = pursuer, rows.x.flatten(1), own
        found = predict_rows(pursuer, own.x, own.available, stop, own.initially_known)
        self.answered = torch.zeros(own.available.shape, dtype=torch.bool)  # (N, Q)
        start = own.start()
        asked = start.asked.clone()
        for query, is_answered in zip(found.query.T, found.answered.T, strict=True):
            there = (query >= 0).nonzero()[:, 0]
            asked[there, query[there]] = True
            self.answered[there, query[there]] = is_answered[there]
        self.asked, self.known = asked, start.known | self.answered
        self.before = _Results.of(found.posterior, target_of(pursuer))

    def other_answers(self, values: Sequence[Tensor]) -> _Changes:
        """All changes of one answer to another one of `values`: for every query, rows that have each answer."""
        unit_of_feature, x = self.pursuer.query_set.units.of_feature, self.rows.x.flatten(1)
        parts: list[tuple[Tensor, Tensor, Tensor]] = [(torch.empty(0, dtype=torch.long),) * 3]
        for query, donors in enumerate(values):
            rows, features = self.answered[:, query].nonzero()[:, 0], unit_of_feature == query
            for donor in donors.tolist() if len(rows) else ():
                differs = (x[rows][:, features] != self.donors[donor, features]).any(dim=1)
                changed = rows[differs]
                parts.append((changed, torch.full_like(changed, query), torch.full_like(changed, donor)))
        row, of_query, of_donor = (torch.cat(part) for part in zip(*parts, strict=True))
        order = row.argsort(stable=True)
        return _Changes(row[order], of_query[order, None], of_donor[order, None])

    def results(self, changes: _Changes) -> _Results:
        """The results if answers are changed."""
        unit_of_feature, target = self.pursuer.query_set.units.of_feature, target_of(self.pursuer)
        found, size = [torch.empty(0, len(self.pursuer.classes))], rows_at_once(self.pursuer, BATCH_ROWS)
        for index in torch.arange(len(changes.row)).split(size):
            some = changes.take(index)
            x = self.rows.x[some.row].flatten(1)
            for query, donor in zip(some.query.T, some.donor.T, strict=True):
                x = torch.where(unit_of_feature == query[:, None], self.donors[donor], x)
            x = x.view(-1, *self.rows.x.shape[1:])
            log_posterior = self.pursuer.log_posterior(History(x, self.known[some.row], self.asked[some.row]))
            found.append(log_posterior.exp().float())
        return _Results.of(torch.cat(found), target)


@torch.no_grad()
def changed_answers(pursuer: Pursuer, rows: Rows, stop: StoppingRule | None = None) -> ChangedAnswers | None:
    """Change the answers of rows that are asked until `stop`, one by one and two by two, to answers of other rows; None
    where queries share answers, as patches of an image do, so that none can be changed by itself, or none was given."""
    query_set = pursuer.query_set
    if not query_set.has_own_units or not len(rows):
        return None
    values = _values(query_set, rows)
    some = _spread(len(rows), MOST_ROWS)
    interviews = _Interviews(pursuer, rows, some, stop)
    if not interviews.answered.any():
        return None
    singles = interviews.other_answers(values)
    n_pairs = _pairs_at_most(singles, interviews.answered)
    if n_pairs > MOST_HISTORIES:
        some = some[_spread(len(some), max(1, int(len(some) * MOST_HISTORIES / n_pairs)))]
        interviews = _Interviews(pursuer, rows, some, stop)
        singles = interviews.other_answers(values)
    before, n_rows, n_queries = interviews.before, len(some), len(query_set)
    is_checked = torch.tensor([query.checked for query in query_set.queries])
    by_one = interviews.results(singles)
    shift, is_moved = by_one.effect(before, singles.row)
    cell = singles.row * n_queries + singles.query[:, 0]
    shift_of = _highest(cell, shift, n_rows * n_queries).view(n_rows, n_queries)
    moved_of = _highest(cell, is_moved.float(), n_rows * n_queries).view(n_rows, n_queries) > 0
    questions = _questions(query_set, interviews.answered, shift_of, moved_of, before.label is not None)

    free = ~is_checked[singles.query[:, 0]]
    pairs = _pairs(singles.take(free.nonzero()[:, 0]), shift_of.masked_fill(is_checked, -1.0))
    by_two = interviews.results(pairs)
    listed, only_together = _listed_pairs(query_set, pairs, by_two, before, moved_of)
    alone = [set(row.nonzero()[:, 0].tolist()) for row in moved_of & ~is_checked]
    n_by_one, n_by_two = _n_movable(alone, only_together, set())
    is_number = before.label is None
    return ChangedAnswers(
        n_rows,
        None if is_number else n_by_one,
        None if is_number else n_by_two,
        _wanted(pursuer, before, [(singles.row[free], by_one.take(free)), (pairs.row, by_two)]),
        questions,
        listed,
        () if is_number else _checks(query_set, alone, only_together),
    )


def _spread(n: int, most: int) -> Tensor:
    """At most `most` of n rows, evenly over all."""
    return torch.linspace(0, n - 1, min(n, most)).long()


def _values(query_set: QuerySet, rows: Rows) -> list[Tensor]:
    """For every query, rows that have the answers to change to."""
    units, x, found = query_set.units, rows.x.flatten(1), []
    for query in range(len(query_set)):
        features = (units.of_feature == query).nonzero()[:, 0]
        there = rows.available[:, query].nonzero()[:, 0]
        answers = x[there][:, features]
        if units.feature_types[int(features[0])] in ("number", "share") and len(there):
            order = answers[:, 0].argsort(stable=True)
            places = (torch.tensor(QUANTILES) * (len(there) - 1)).round().long()
            donors = there[order[places]]
            _, first = _first_of_each(x[donors][:, features])
            found.append(donors[first])
            continue
        counts, first = _first_of_each(answers)
        frequent = counts.argsort(descending=True, stable=True)[:MOST_CHOICES]
        found.append(there[first[frequent]])
    return found


def _first_of_each(answers: Tensor) -> tuple[Tensor, Tensor]:
    """How often each of the different rows of `answers` (n, f) occurs, and where it does first."""
    _, first, counts = np.unique(answers.numpy(), axis=0, return_index=True, return_counts=True)
    return torch.from_numpy(counts), torch.from_numpy(first)


def _pairs_at_most(singles: _Changes, answered: Tensor) -> float:
    """About how many changed pairs there would be."""
    n_changes = torch.bincount(singles.row, minlength=len(answered)).double()
    n_answers = answered.sum(dim=1).clamp(min=1)
    paired = n_changes * (N_PAIRED / n_answers).clamp(max=1)
    return float((paired**2 / 2).sum())


def _pairs(singles: _Changes, shift_of: Tensor) -> _Changes:
    """Both of two changes of a row, for those of its answers that move it most (N, Q)."""
    most = shift_of.topk(min(N_PAIRED, shift_of.shape[1]), dim=1).indices
    is_paired = torch.zeros_like(shift_of, dtype=torch.bool).scatter(1, most, True)
    chosen = singles.take(is_paired[singles.row, singles.query[:, 0]].nonzero()[:, 0])
    found, start = [torch.empty(0, 2, dtype=torch.long)], 0
    for n in torch.bincount(chosen.row).tolist():
        both = torch.combinations(torch.arange(start, start + n))
        found.append(both[chosen.query[both[:, 0], 0] != chosen.query[both[:, 1], 0]])
        start += n
    both = torch.cat(found)
    return _Changes(chosen.row[both[:, 0]], chosen.query[both, 0], chosen.donor[both, 0])


def _highest(cell: Tensor, value: Tensor, n: int) -> Tensor:
    """The highest value (S,) of each of n cells; 0 where there is none."""
    return torch.zeros(n, dtype=value.dtype).scatter_reduce(0, cell, value, "amax")


def _questions(
    query_set: QuerySet, answered: Tensor, shift_of: Tensor, moved_of: Tensor, has_labels: bool
) -> tuple[ChangedQuestion, ...]:
    found = [
        ChangedQuestion(
            query.name,
            query.text,
            query.checked,
            n,
            int(moved_of[:, i].sum()) if has_labels else None,
            float(shift_of[answered[:, i], i].mean()),
        )
        for i, query in enumerate(query_set.queries)
        if (n := int(answered[:, i].sum()))
    ]
    return tuple(sorted(found, key=lambda one: (-(one.n_moved or 0), -one.shift * one.n_rows)))


def _listed_pairs(
    query_set: QuerySet, pairs: _Changes, results: _Results, before: _Results, moved_of: Tensor
) -> tuple[tuple[ChangedPair, ...], list[set[tuple[int, int]]]]:
    """The pairs that do most, and those that give each row another result which neither of the two gives alone."""
    n_queries, only_together = len(query_set), [set[tuple[int, int]]() for _ in moved_of]
    shift, is_moved = results.effect(before, pairs.row)
    is_moved &= ~moved_of[pairs.row[:, None], pairs.query].any(dim=1)
    low, high = pairs.query.amin(dim=1, keepdim=True), pairs.query.amax(dim=1, keepdim=True)
    cells, cell = torch.cat([pairs.row[:, None], low, high], dim=1).unique(dim=0, return_inverse=True)
    most, moved = _highest(cell, shift, len(cells)), _highest(cell, is_moved.float(), len(cells)) > 0
    for row, one, other in cells[moved].tolist():
        only_together[row].add((one, other))
    both, number = (cells[:, 1] * n_queries + cells[:, 2]).unique(return_inverse=True)
    n_rows = torch.bincount(number, minlength=len(both))
    n_moved = torch.bincount(number, moved.float(), minlength=len(both))
    total = torch.bincount(number, most.double(), minlength=len(both))
    order = sorted(range(len(both)), key=lambda i: (-float(n_moved[i]), -float(total[i])))
    found = []
    for i in order[:MOST_PAIRS]:
        own = [query_set.queries[q] for q in divmod(int(both[i]), n_queries)]
        n = None if before.label is None else int(n_moved[i])
        if n != 0:
            names, texts = (own[0].name, own[1].name), (own[0].text, own[1].text)
            found.append(ChangedPair(names, texts, int(n_rows[i]), n, float(total[i] / n_rows[i])))
    return tuple(found), only_together


def _wanted(pursuer: Pursuer, before: _Results, changed: Sequence[tuple[Tensor, _Results]]) -> tuple[WantedResult, ...]:
    """How far each result is within reach of rows that have another."""
    n_rows, n_wanted = before.value.shape
    best, reached = [before.value], [torch.zeros_like(before.value, dtype=torch.bool)]
    for row, results in changed:
        cell = row[:, None].expand(-1, n_wanted)
        best.append(best[-1].scatter_reduce(0, cell, results.value, "amax"))
        if results.label is not None:
            flat = _highest(row * n_wanted + results.label, torch.ones(len(row)), n_rows * n_wanted)
            reached.append(reached[-1] | (flat.view(n_rows, n_wanted) > 0))
    if before.label is None:
        means = [part.mean(dim=0) for part in best]
        return tuple(
            WantedResult(name, n_rows, None, None, _three([sign * float(mean[i]) for mean in means]))
            for i, (name, sign) in enumerate(((HIGHER, 1), (LOWER, -1)))
        )
    found, labels = [], label_list(pursuer.classes)
    for i in torch.bincount(before.label, minlength=n_wanted).argsort(descending=True, stable=True)[:MOST_LABELS]:
        other = before.label != i
        if n := int(other.sum()):
            n_by_one, n_by_two = (int((part[:, i] & other).sum()) for part in reached[1:])
            mean = _three([float(part[other, i].mean()) for part in best])
            found.append(WantedResult(label_text(labels[int(i)]), n, n_by_one, n_by_two, mean))
    return tuple(found)


def _three(values: list[float]) -> tuple[float, float, float]:
    first, second, third = values
    return first, second, third


def _n_movable(
    alone: Sequence[set[int]], together: Sequence[set[tuple[int, int]]], checked: set[int]
) -> tuple[int, int]:
    """How many rows one answer, and at most two answers, give another result, if none of the `checked` is changed."""
    one = [bool(own - checked) for own in alone]
    two = [done or any(checked.isdisjoint(pair) for pair in pairs) for done, pairs in zip(one, together, strict=True)]
    return sum(one), sum(two)


def _checks(
    query_set: QuerySet, alone: Sequence[set[int]], together: Sequence[set[tuple[int, int]]]
) -> tuple[Check, ...]:
    """Which questions to check, one after the other: that which leaves fewest rows that two answers move."""
    checked, found = set[int](), list[Check]()
    candidates = set().union(*alone, *(pair for pairs in together for pair in pairs))
    left = _n_movable(alone, together, checked)
    while len(found) < MOST_CHECKS and left[1]:
        counts = {query: _n_movable(alone, together, checked | {query}) for query in sorted(candidates - checked)}
        best = min(counts, key=lambda query: (counts[query][1], counts[query][0]))
        checked.add(best)
        left = counts[best]
        query = query_set.queries[best]
        found.append(Check(query.name, query.text, *left))
    return tuple(found)
