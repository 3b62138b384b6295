"""What passes between samplers, the training step and learners."""

from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.history import History
from pursuit.training.rows import Rows


class Batch(NamedTuple):
    """The histories of B rows to learn from.

    Samplers fill in the rows, the training step the rest. A tuple of tensors, so that Fabric and torch.compile can look
    inside.
    """

    x: Tensor  # (B, *answer_shape)
    known: Tensor  # (B, Q) bool
    asked: Tensor  # (B, Q) bool
    available: Tensor  # (B, Q) bool, False where a row has no answer to a query
    y: Tensor  # (B,) class index
    weight: Tensor | None = None
    """(B,) how much each row counts, 1 on average over all rows; None: all the same."""
    target: Tensor | None = None
    """(B, C) the posterior to learn in place of the label; None: the label. Rows without a label have `y` -1."""
    n_chains: int | None = None
    """The first so many histories go on by the queries chosen; None: all of them may."""
    extra: Any = None
    """What the sampler adds for its learner, such as the rewards of what was asked: (B, ...) each."""
    tau: Tensor | float = 1.0
    """The temperature of a relaxed choice of queries, as the stage schedules it."""
    exploration: Tensor | float = 0.0
    """The probability of a random query in place of the chosen one, as the stage schedules it."""
    label_smoothing: float = 0.0
    phase: str = ""
    """The phase that the stage names, for learners that learn one thing after the other."""

    @classmethod
    def of(cls, rows: Rows, history: History, **more: Any) -> "Batch":
        return cls(history.x, history.known, history.asked, rows.available, rows.y, rows.weight, rows.target, **more)

    def take(self, index: Tensor | slice) -> "Batch":
        """Some of the histories, without what the sampler added of all."""
        taken: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[index]
            for name in ("x", "known", "asked", "available", "y", "weight", "target")
        }
        return self._replace(**taken, n_chains=None, extra=None)

    @property
    def history(self) -> History:
        return History(self.x, self.known, self.asked)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of a value of each row (B,), by their weights."""
        return values.mean() if self.weight is None else (values * self.weight).mean()

    def label_loss(self, logits: Tensor, kernel: Tensor | None = None) -> Tensor:
        """The cross-entropy of the targets at `logits` (B, C): the mean over the rows, by their weights. Targets are
        those of teachers, or else the labels; where labels have neighbours, `kernel` (C, C) says how much a row of each
        counts for the others."""
        if self.weight is None:
            return F.cross_entropy(logits, self.targets(kernel), label_smoothing=self.label_smoothing)
        return self.mean(self.label_losses(logits, kernel))

    def label_losses(self, logits: Tensor, kernel: Tensor | None = None) -> Tensor:
        """The same for each row (B,), without weights."""
        smoothing = self.label_smoothing
        return F.cross_entropy(logits, self.targets(kernel), reduction="none", label_smoothing=smoothing)

    def targets(self, kernel: Tensor | None = None) -> Tensor:
        """What classifiers learn: probabilities (B, C), or labels (B,)."""
        if self.target is not None:
            return self.target
        return self.y if kernel is None else kernel[self.y]

    @property
    def n_rows(self) -> int:
        return len(self.y)


class TrainingOutcome(NamedTuple):
    """What a learner makes of a batch."""

    loss: Tensor
    query: Tensor | None = None
    """(B,) what it would ask next in each history; None where it does not choose queries."""
