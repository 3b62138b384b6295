"""Results in detail: class by class with the confusion matrix, and query by query."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from pursuit.evaluation.counts import UNIT, QuestionCounts
from pursuit.inference.pursuer import Labels, label_list
from pursuit.queries import QuerySet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    @classmethod
    def of(cls, classes: Labels, confusion: Tensor, asked: Tensor) -> "ClassResults":
        """From the rows of each class taken for each (C, C), and the queries asked of the rows of each class (C,)."""
        right, n_true, n_taken = confusion.diagonal(), confusion.sum(dim=1), confusion.sum(dim=0)
        columns = (n_true.tolist(), n_taken.tolist(), right.tolist(), asked.tolist())
        results = [
            ClassResult(
                label,
                n_rows=n,
                precision=hits / taken if taken else 0.0,
                recall=hits / n if n else 0.0,
                f1=2 * hits / (n + taken) if n + taken else 0.0,
                mean_asked=n_asked / n if n else None,
            )
            for label, n, taken, hits, n_asked in zip(label_list(classes), *columns, strict=True)
        ]
        return cls(tuple(results), tuple(map(tuple, confusion.tolist())))

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

    def plot(self, path: str | Path | None = None, title: str = "") -> "Figure":
        """The confusion matrix as a figure."""
        from pursuit.evaluation.figures import confusion_figure

        return confusion_figure(self.labels, self.confusion, path, title)

    def most_confused(self, most: int = 10) -> list[tuple[Any, Any, int]]:
        """(true label, predicted label, rows) of the mistakes made most often."""
        counts = torch.tensor(self.confusion)
        counts.fill_diagonal_(0)
        order = counts.flatten().argsort(descending=True, stable=True)[:most].tolist()
        pairs = [(*divmod(place, len(counts)), int(counts.flatten()[place])) for place in order]
        return [(self.labels[true], self.labels[taken], n) for true, taken, n in pairs if n]


@dataclass(frozen=True)
class QuestionUse:
    """What came of one query. Means are over the rows that were asked it, and None if none was."""

    name: str
    text: str
    share_asked: float
    """Of all rows."""
    share_answered: float | None
    """Of the rows that were asked."""
    mean_position: float | None
    """The place in the chain: 1 for what is asked first."""
    mean_bits: float | None
    """What the answer was expected to tell; None also where the pursuer does not know that,
    or was not asked to compute it."""
    mean_gained: float | None
    """What it did tell: the entropy of the belief before it minus that after it."""


class QuestionUses(tuple[QuestionUse, ...]):
    """The use of every query, those asked of most rows first."""

    @classmethod
    def of(cls, query_set: QuerySet, counts: QuestionCounts, n_rows: int) -> "QuestionUses":
        """From what was counted on `n_rows` rows."""
        knows_bits = not counts.unknown_bits.any()

        def mean(total: float, n: float) -> float | None:
            return total / n if n else None

        columns = [values.tolist() for values in counts.tensors().values()]
        uses = [
            QuestionUse(
                query.name,
                query.text,
                share_asked=asked / n_rows,
                share_answered=mean(answered, asked),
                mean_position=mean(positions, asked),
                mean_bits=mean(bits / UNIT, asked) if knows_bits else None,
                mean_gained=mean(gained / UNIT, asked),
            )
            for query, asked, answered, positions, bits, gained, _ in zip(query_set.queries, *columns, strict=True)
        ]
        return cls(sorted(uses, key=lambda use: (-use.share_asked, use.mean_position or math.inf)))

    def frame(self) -> pd.DataFrame:
        """A row a query."""
        return pd.DataFrame(self.to_list())

    def to_list(self) -> list[dict[str, Any]]:
        return [asdict(use) for use in self]
