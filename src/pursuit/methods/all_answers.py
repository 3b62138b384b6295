"""All answers: a black box that needs every answer before it predicts anything. It shows what asking only a few costs
in accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from pursuit.estimators import TaughtClassifier, method
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer
from pursuit.registry import register
from pursuit.training.learner import ClassifierModel
from pursuit.training.rows import RowStream
from pursuit.training.samplers import Batch, Sampler
from pursuit.training.schedule import Stage


@register
@dataclass(frozen=True)
class FullHistories:
    """Every query was asked, and every available answer is known."""

    registry_kind: ClassVar[str] = "histories"

    @property
    def max_queries(self) -> int | None:
        return None

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _FullSampler(stream, batch_size, None, generator)


class _FullSampler(Sampler):
    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        return Batch.of(rows, History(rows.x, rows.available, torch.ones_like(rows.available)))


@register
class AllAnswers(ClassifierModel):
    """Asks in the order of the query set. Its posterior is the prior until every query was asked that may be,
    answered or not, and then that of its classifier network."""

    def log_posterior(self, history: History) -> Tensor:
        with_answers = super().log_posterior(history)
        return torch.where(self.closed(history).all(dim=1, keepdim=True), with_answers, self.log_prior)


@method("all-answers", "all answers")
@dataclass(kw_only=True, eq=False, repr=False)
class AllAnswersClassifier(TaughtClassifier):
    """A classifier network trained on all answers. With `max_queries` below the number of queries it never gets beyond
    the prior."""

    uses_weights = True
    Model = AllAnswers

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        return [replace(stage, histories=FullHistories()) for stage in stages]
