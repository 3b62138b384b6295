"""What an evaluation is made of: sums over rows, as whole numbers. Those of parts of the rows add up to those of all,
bit for bit and in whatever order."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pursuit.evaluation.calibration import N_BINS, UNIT, StepSums, bin_of
from pursuit.inference.stopping import Standing, StoppingRule

COST_UNIT = 2**26
"""Costs are counted in parts this small."""


@dataclass(frozen=True)
class EvaluationSums:
    """Everything counted on some rows, of R stopping rules."""

    n_rows: int
    right_with_all: int
    """Rows that are right once everything is answered."""
    curves: Tensor  # (3, n) by how much the rows that are right change with each query, answer and step of cost
    by_step: StepSums
    at_stops: Tensor  # (R, 10) sums of queries asked, answers, costs, rows cut short, Brier scores; rows decided, wrong
    # among them, left to a person, whose label is among those that remain; labels that remain
    bins: Tensor  # (R, N_BINS, 3) rows, sums of confidences and rows that are right, by confidence
    confusion: Tensor  # (C, C) rows by true and predicted label at the first rule; (0, 0) where nobody wants it
    asked_by_class: Tensor  # (C,) queries asked of the rows of each class until then
    questions: Tensor  # (6, Q) what `QuestionCounts` counts

    def __add__(self, other: "EvaluationSums") -> "EvaluationSums":
        both = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return EvaluationSums(*(one + another for one, another in both))

    def tensors(self) -> dict[str, Tensor]:
        """All of it, to be kept in a file."""
        counts = {"n_rows": torch.tensor(self.n_rows), "right_with_all": torch.tensor(self.right_with_all)}
        by_step = {"step_changes": self.by_step.changes, "step_brier_changes": self.by_step.brier_changes}
        names = ("curves", "at_stops", "bins", "confusion", "asked_by_class", "questions")
        return {**counts, **by_step, **{name: getattr(self, name).contiguous() for name in names}}

    @classmethod
    def from_tensors(cls, kept: dict[str, Tensor]) -> "EvaluationSums":
        """What `tensors` gave."""
        by_step = StepSums(len(kept["step_changes"]))
        by_step.changes, by_step.brier_changes = kept["step_changes"], kept["step_brier_changes"]
        rest = (kept[name] for name in ("at_stops", "bins", "confusion", "asked_by_class", "questions"))
        return cls(int(kept["n_rows"]), int(kept["right_with_all"]), kept["curves"], by_step, *rest)


def promised(rule: StoppingRule, standing: Standing, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether a rule vouches for beliefs, -1 where it does not say; whether the labels that remain have the right one;
    and how many remain, 0 where it does not say: (b,) each."""
    decided, remain = rule.decides(standing), rule.label_set(standing.log_posterior.exp().float())
    of_labels = (
        (torch.zeros_like(y),) * 2 if remain is None else (remain.gather(1, y[:, None])[:, 0], remain.sum(dim=1))
    )
    return torch.full_like(y, -1) if decided is None else decided, *of_labels


def stop_sums(at_stops: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The sums (R, 10) and the bins (R, N_BINS, 3) of where rules stop rows: (R, N, 11) as `evaluate` notes it. Each
    row counts as several (N,)."""
    asked, answered, cost, right, confidence, is_cut, _, brier, *rest = at_stops.double().unbind(dim=2)  # (R, N) each
    decided, covered, n_labels = rest
    of_promises = (decided == 1, (decided == 1) & (right == 0), decided == 0, covered, n_labels)
    exact = (asked, answered, cost * COST_UNIT, is_cut, brier * UNIT, *(part.double() for part in of_promises))
    sums = torch.stack([(values.round().long() * counts).sum(dim=1) for values in exact], dim=1)
    each = torch.stack([torch.ones_like(right), confidence * UNIT, right], dim=2).round().long() * counts[:, None]
    bins = torch.zeros(len(at_stops), N_BINS, 3, dtype=torch.long)
    for own, place, values in zip(bins, bin_of(confidence), each, strict=True):
        own.index_add_(0, place, values)
    return sums, bins


def class_sums(y: Tensor, at_stop: Tensor, n_classes: int, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows by true and predicted label (C, C), and queries asked by class (C,), of rows that one rule stopped, each of
    which counts as several (N,)."""
    predicted, asked = at_stop[:, 6].long(), at_stop[:, 0].long()
    confusion = torch.zeros(n_classes**2, dtype=torch.long).index_add(0, y * n_classes + predicted, counts)
    by_class = torch.zeros(n_classes, dtype=torch.long).index_add(0, y, asked * counts)
    return confusion.view(n_classes, n_classes), by_class
