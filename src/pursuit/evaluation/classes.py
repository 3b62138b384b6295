"""How good a pursuer is class by class, and which classes it takes for which."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pursuit.inference.pursuer import Labels, label_list


@dataclass(frozen=True)
class ClassResult:
    """What a stopping rule gives for the rows of one class."""

    label: Any
    n_rows: int
    """Rows that have this label."""
    precision: float
    """The share of right ones among the rows that are taken for this class; 0 if there are none."""
    recall: float
    """The share of right ones among the rows that have this label; 0 if there are none."""
    f1: float
    """The harmonic mean of both."""
    mean_asked: float | None
    """Queries asked of the rows that have this label, on average; None if there are none."""


@dataclass(frozen=True)
class ClassResults:
    """Results class by class, and how many rows of each class were taken for each."""

    classes: tuple[ClassResult, ...]
    confusion: tuple[tuple[int, ...], ...]
    """(C, C): how many rows of the class of each row were taken for the class of each column."""

    @property
    def labels(self) -> list[Any]:
        return [result.label for result in self.classes]

    def frame(self) -> pd.DataFrame:
        """A row a class."""
        return pd.DataFrame([asdict(result) for result in self.classes])

    def confusion_frame(self) -> pd.DataFrame:
        """A row a true label, a column a predicted one."""
        index, columns = (pd.Index(self.labels, name=name) for name in ("true label", "predicted"))
        return pd.DataFrame(self.confusion, index=index, columns=columns)

    def most_confused(self, most: int = 10) -> list[tuple[Any, Any, int]]:
        """(true label, predicted label, rows) of the mistakes made most often."""
        counts = torch.tensor(self.confusion)
        counts.fill_diagonal_(0)
        order = counts.flatten().argsort(descending=True, stable=True)[:most].tolist()
        pairs = [(*divmod(place, len(counts)), int(counts.flatten()[place])) for place in order]
        return [(self.labels[true], self.labels[taken], n) for true, taken, n in pairs if n]


def class_results(classes: Labels, y: Tensor, predicted: Tensor, n_asked: Tensor) -> ClassResults:
    """From the labels (N,), what was predicted (N,) and how many queries that took (N,)."""
    n_classes = len(classes)
    confusion = torch.bincount(y * n_classes + predicted, minlength=n_classes**2).view(n_classes, n_classes)
    return results_of(classes, confusion, torch.zeros(n_classes, dtype=torch.double).index_add(0, y, n_asked.double()))


def results_of(classes: Labels, confusion: Tensor, asked: Tensor) -> ClassResults:
    """From how many rows of each class were taken for which (C, C), and the queries that each class took (C,)."""
    right, n_true, n_taken = confusion.diagonal(), confusion.sum(dim=1), confusion.sum(dim=0)
    results = [
        ClassResult(
            label,
            n,
            hits / taken if taken else 0.0,
            hits / n if n else 0.0,
            2 * hits / (n + taken) if n + taken else 0.0,
            spent / n if n else None,
        )
        for label, n, taken, hits, spent in zip(
            label_list(classes), n_true.tolist(), n_taken.tolist(), right.tolist(), asked.tolist(), strict=True
        )
    ]
    return ClassResults(tuple(results), tuple(map(tuple, confusion.tolist())))
