"""What an evaluation counts: whole numbers, so that the counts of parts of the rows add up to those of all rows, bit
for bit and in any order. Probabilities, Brier scores and bits are counted in units of 2**-30."""

import math
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from pursuit.evaluation.calibration import N_BINS, ReliabilityBin, bin_of
from pursuit.evaluation.rollouts import ClassTrace
from pursuit.inference.rollout import RolloutStep

UNIT, COST_UNIT = 2**30, 2**26


def whole(values: Tensor, unit: int = UNIT) -> Tensor:
    """Numbers as multiples of 1 / `unit`."""
    return (values.double() * unit).round().long()


@dataclass(frozen=True)
class Counts:
    """Whole numbers by name: tensors, or other counts."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def cpu(self) -> Self:
        return type(self)(*(getattr(self, one.name).cpu() for one in fields(self)))

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, to be written into a file."""
        found = {}
        for one in fields(self):
            value = getattr(self, one.name)
            inner = value.tensors() if isinstance(value, Counts) else {"": value.contiguous()}
            found.update({f"{one.name}.{name}".rstrip("."): tensor for name, tensor in inner.items()})
        return found

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """What `tensors` gave."""
        values = []
        for one in fields(cls):
            inner = {
                name.removeprefix(f"{one.name}."): tensors[name] for name in tensors if name.startswith(f"{one.name}.")
            }
            values.append(one.type.from_tensors(inner) if inner else tensors[one.name])  # type: ignore[union-attr]
        return cls(*values)


@dataclass(frozen=True)
class BeliefCounts(Counts):
    """How confident and how right the beliefs of some rows are, at each of K points of their chains."""

    n_rows: Tensor  # (K, N_BINS) rows by confidence
    confidence: Tensor  # (K, N_BINS) sums of confidences
    right: Tensor  # (K, N_BINS) rows that are right
    brier: Tensor  # (K,) sums of Brier scores

    @classmethod
    def of(cls, rows: ClassTrace, weight: Tensor) -> Self:
        """From B rows at K points, (K, B) each; every row counts `weight` (B,) times."""
        n_points = len(rows.brier)
        shapes = ((n_points, N_BINS),) * 3 + ((n_points,),)
        found = cls(*(torch.zeros(shape, dtype=torch.long, device=weight.device) for shape in shapes))
        for k in range(n_points):  # one after the other, which takes less memory
            bins = bin_of(rows.confidence[k].double())
            found.n_rows[k].index_add_(0, bins, weight)
            found.confidence[k].index_add_(0, bins, whole(rows.confidence[k]) * weight)
            found.right[k].index_add_(0, bins, rows.right[k] * weight)
            found.brier[k] = (whole(rows.brier[k]) * weight).sum()
        return found

    @property
    def total(self) -> Tensor:
        """Rows at each point: (K,), the same everywhere."""
        return self.n_rows.sum(dim=1).double()

    @property
    def accuracy(self) -> Tensor:
        return self.right.sum(dim=1).double() / self.total

    @property
    def mean_confidence(self) -> Tensor:
        return self.confidence.sum(dim=1).double() / UNIT / self.total

    @property
    def calibration_error(self) -> Tensor:
        """The mean gap between confidence and accuracy over bins, weighted by their rows: (K,)."""
        return (self.confidence.double() / UNIT - self.right).abs().sum(dim=1) / self.total

    @property
    def mean_brier(self) -> Tensor:
        return self.brier.double() / UNIT / self.total

    def reliability(self, k: int) -> tuple[ReliabilityBin, ...]:
        """The bins that have rows, at one point."""
        columns = zip(self.n_rows[k].tolist(), self.confidence[k].tolist(), self.right[k].tolist(), strict=True)
        return tuple(
            ReliabilityBin.of(place, n_rows, confidence / UNIT, n_right)
            for place, (n_rows, confidence, n_right) in enumerate(columns)
            if n_rows
        )


@dataclass(frozen=True)
class StoppedRows(ClassTrace):
    """B rows as they are where each of R rules stops them, (R, B) each."""

    cut_short: Tensor
    """Whether the rule would have asked more than the evaluation did."""
    decided: Tensor
    """1 where the rule vouches for the prediction, 0 where it leaves it to a person, -1 if it does neither."""
    covered: Tensor
    """Whether the rule's set of labels has the true one."""
    n_labels: Tensor
    """The size of that set; 0 if the rule has none."""


@dataclass(frozen=True)
class StopCounts(Counts):
    """Sums over rows at the stop of each of R rules, (R,) each."""

    n_asked: Tensor
    n_answered: Tensor
    cost: Tensor
    cut_short: Tensor
    decided: Tensor
    wrong_of_decided: Tensor
    deferred: Tensor
    """Rows left to a person."""
    covered: Tensor
    n_labels: Tensor

    @classmethod
    def of(cls, rows: StoppedRows, weight: Tensor) -> Self:
        decided = rows.decided == 1
        each = (
            rows.n_asked,
            rows.n_answered,
            whole(rows.cost, COST_UNIT),
            rows.cut_short,
            decided,
            decided & ~rows.right,
            rows.decided == 0,
            rows.covered,
            rows.n_labels,
        )
        return cls(*((values.long() * weight).sum(dim=1) for values in each))


@dataclass(frozen=True)
class QuestionCounts(Counts):
    """What came of each of Q queries, (Q,) each."""

    asked: Tensor
    """Rows that were asked it."""
    answered: Tensor
    """Rows that answered it."""
    positions: Tensor
    """Sum of its positions in chains, from 1."""
    bits: Tensor
    """Sum of the bits that were expected."""
    gained: Tensor
    """Sum of the bits that were gained."""
    unknown_bits: Tensor
    """Rows for which the expected bits are not known."""

    @classmethod
    def zeros(cls, n_queries: int, device: torch.device | None = None) -> Self:
        return cls(*(torch.zeros(n_queries, dtype=torch.long, device=device) for _ in fields(cls)))


class QuestionCounter:
    """Counts what is asked of the rows of one batch, step by step; each counts `weight` (B,) times."""

    def __init__(self, n_queries: int, weight: Tensor):
        self.counts, self.weight = QuestionCounts.zeros(n_queries, weight.device), weight
        self.query = torch.full_like(weight, -1)  # asked last, -1 once the rule has stopped
        self.entropy = torch.zeros(len(weight), device=weight.device)  # before that

    def watch(self, n_asked: int, step: RolloutStep) -> None:
        """Count a step in which the rows that go on are asked."""
        self.add(step, step.goes_on)

    def add(self, step: RolloutStep, goes_on: Tensor) -> None:
        """Count a step of the batch, in which the rows `goes_on` (b,) are asked what the step says."""
        rows, weight, counts = step.rows, self.weight[step.rows], self.counts
        entropy = torch.special.entr(step.log_posterior.float().exp()).sum(dim=1) / math.log(2)
        before = self.query[rows]
        had = before >= 0
        counts.gained.index_add_(0, before[had], (whole(self.entropy[rows] - entropy) * weight)[had])
        query, weight = step.query[goes_on], weight[goes_on]
        counts.asked.index_add_(0, query, weight)
        counts.answered.index_add_(0, query, step.answered[goes_on] * weight)
        counts.positions.index_add_(0, query, (step.n_asked[goes_on] + 1) * weight)
        if step.bits is None:
            counts.unknown_bits.index_add_(0, query, weight)
        else:
            counts.bits.index_add_(0, query, whole(step.bits[goes_on]) * weight)
        self.query[rows] = torch.where(goes_on, step.query, -1)
        self.entropy[rows] = entropy


@dataclass(frozen=True)
class EvaluationCounts(Counts):
    """Everything that is counted on some rows."""

    n_rows: Tensor  # ()
    right_with_all: Tensor  # () rows that are right once everything is answered
    by_asked: BeliefCounts  # after 0, 1, 2 … queries
    by_answered: Tensor  # (T + 1,) by how much the rows that are right change with each answer
    by_cost: Tensor  # (P,) and with each step of cost
    at_stop: BeliefCounts  # where each of R rules stops
    stops: StopCounts
    confusion: Tensor  # (C, C) rows by true and predicted label at the first rule; (0, 0) unless in detail
    asked_by_class: Tensor  # (C,) queries asked of the rows of each class until then
    questions: QuestionCounts
    """What is asked until the first rule stops; all zero unless in detail."""


def count_classes(
    y: Tensor, predicted: Tensor, n_asked: Tensor, n_classes: int, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows by true and predicted label (C, C), and queries asked by class (C,), of rows (B,)."""
    confusion = weight.new_zeros(n_classes**2).index_add(0, y * n_classes + predicted, weight)
    return confusion.view(n_classes, n_classes), weight.new_zeros(n_classes).index_add(0, y, n_asked * weight)


def count_changes(right: Tensor, position: Tensor, n_positions: int, weight: Tensor) -> Tensor:
    """By how much the rows that are right change at each position (n,), from whether they are after every step (T, B)
    and where each then is (T, B); positions never fall from one step to the next."""
    changes, before = weight.new_zeros(n_positions), torch.zeros_like(weight)
    for now, where in zip(right.long(), position.long(), strict=True):
        changes.index_add_(0, where, (now - before) * weight)
        before = now
    return changes
