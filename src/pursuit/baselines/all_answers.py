"""All answers: a black box that must see every answer before it believes anything. What asking costs in accuracy is
measured against it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pursuit.estimators import NetworkClassifier
from pursuit.histories import Batch, Sampler
from pursuit.history import History
from pursuit.learner import Believer
from pursuit.pursuer import Pursuer
from pursuit.queries import QuerySet
from pursuit.rows import RowSource, RowStream
from pursuit.stages import Stage


@dataclass(frozen=True)
class FullHistories:
    """Every query was asked, and every answer there is is known."""

    @property
    def max_queries(self) -> int | None:
        return None

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _FullSampler(stream, batch_size, None, generator)


class _FullSampler(Sampler):
    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        return Batch(rows, History(rows.x, rows.available, torch.ones_like(rows.available)))


class AllAnswers(Believer):
    """Asks in the order of the query set and believes the label's frequencies until everything was asked, answered or
    not; then what its classifier network says."""

    def scores(self, history: History) -> Tensor:
        n_queries = history.asked.shape[1]
        return -torch.arange(float(n_queries), device=history.asked.device).expand(history.asked.shape)

    def log_posterior(self, history: History) -> Tensor:
        believed = super().log_posterior(history)
        return torch.where(history.asked.all(dim=1, keepdim=True), believed, self.log_prior)


class AllAnswersClassifier(NetworkClassifier):
    """A classifier network trained on all answers. With `max_queries` below the number of queries it never gets to
    believe anything but the frequencies of the labels."""

    kind = AllAnswers

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> AllAnswers:
        model = AllAnswers.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        return self._standardised(model, rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        return [replace(stage, histories=FullHistories()) for stage in stages]
