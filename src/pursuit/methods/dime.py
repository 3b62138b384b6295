"""DIME (Gadgil, Covert and Lee, ICLR 2024): a value network regresses the information of each query.

The loss that an answer removes, -log f(Y | S) + log f(Y | {q, q(X)} u S), is on average the mutual information of q and
the label given the history S, if the posterior f is right. After f was trained alone on random histories, both networks
learn together:

    v(S)_q = sigmoid(g(S)_q) H(f(S))       no answer has more information than is missing
    min over g of  E (v(S)_q - loss removed by q)^2,     min over f of  E [-log f(Y | S)]

with q the best in v / cost, or any with probability epsilon, which falls. The history goes on with q. Scores are
estimates of the information in bits per unit of cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.estimators import MethodClassifier, TaughtClassifier, method
from pursuit.inference.pursuer import choose, per_cost
from pursuit.inference.stopping import BIT, entropy
from pursuit.methods.shared.pretrained import PretrainedModel, check_pretraining, pretrained_plan
from pursuit.registry import register
from pursuit.training.samplers import Batch, TrainingOutcome
from pursuit.training.schedule import Stage


@register
@dataclass(frozen=True)
class DIMESettings:
    """Settings of DIME's training, and of the end of its chains."""

    penalty: float | None = None
    """The bits per unit of cost that a query must promise to be asked at all; where none does, the chain ends."""
    epsilon: tuple[float, float] = (0.2, 0.02)
    """The probability of a random query, at the beginning and at the end."""
    candidates: int = 4
    """Queries of each history whose loss removed is regressed: the one asked, and others at random."""
    pretraining: float = 0.15
    """Share of all histories on which the classifier learns alone, before anything else."""

    def __post_init__(self) -> None:
        if not all(0 < epsilon <= 1 for epsilon in self.epsilon):
            raise ValueError(f"epsilon is a probability above 0 and at most 1, at either end, not {self.epsilon}.")
        if self.candidates < 1:
            raise ValueError(f"candidates are at least 1, the query asked, not {self.candidates}.")
        check_pretraining(self.pretraining)


@register
class DIME(PretrainedModel):
    """A value network as querier, whose scores are information per unit of the query set's costs, and a classifier."""

    Settings = DIMESettings
    settings: DIMESettings
    score_unit = "bits per cost"

    def forward_jointly(self, batch: Batch) -> TrainingOutcome:
        """Squared error of the values and cross-entropy of the classifier, and the queries asked (B,)."""
        encoded = self.network_input(batch.x, batch.known)
        logits = self.classifier(encoded).float()
        log_posterior = self.log_probabilities(logits.detach(), batch.history.n_known)
        values = self.values(self.querier(encoded), log_posterior)  # (B, Q)
        # (B, K) each; the first is asked
        queries, is_left = self._candidates(values.detach(), self.closed(batch), batch.exploration)
        error = (values.gather(1, queries) - self._loss_removed(batch, log_posterior, queries)) ** 2 * is_left
        # The classifier learns from the answer asked for now when the chain has come there.
        error = error if batch.weight is None else error * batch.weight[:, None]
        return TrainingOutcome(batch.label_loss(logits) + error.sum() / is_left.sum().clamp(min=1), queries[:, 0])

    @torch.no_grad()
    def _loss_removed(self, batch: Batch, log_posterior: Tensor, queries: Tensor) -> Tensor:
        """Reduction of the loss, from that of `log_posterior` (B, C), by the answer to each of `queries` (B, K)."""
        n_candidates = queries.shape[1]
        answered = F.one_hot(queries, batch.known.shape[1]).bool() & batch.available[:, None]  # (B, K, Q)
        after = (batch.known[:, None] | answered).flatten(0, 1)
        logits = self.classifier(self.network_input(batch.x.repeat_interleave(n_candidates, dim=0), after)).float()
        targets = batch.targets()
        after_each = targets.repeat_interleave(n_candidates, dim=0)
        loss = F.cross_entropy(logits, after_each, reduction="none").view_as(queries)
        # A query without an answer changes nothing, whatever dropout makes of that.
        removed = F.cross_entropy(log_posterior, targets, reduction="none")[:, None] - loss
        return removed * batch.available.gather(1, queries)

    def _candidates(self, values: Tensor, closed: Tensor, epsilon: Tensor | float) -> tuple[Tensor, Tensor]:
        """K queries of each row, first the one to ask, which is the best or a random one, then others at random; and
        which of them were open, because that may be fewer than K: (B, K) each."""
        lots = torch.rand_like(values).masked_fill(closed, -1)
        explores = torch.rand_like(values[:, 0]) < epsilon
        best = choose(per_cost(values, self.query_set.costs), closed)
        query = torch.where(explores, lots.argmax(dim=1), best)[:, None]
        n_others = min(self.settings.candidates, values.shape[1]) - 1
        lot, others = lots.scatter(1, query, -1).topk(n_others, dim=1)
        return torch.cat([query, others], dim=1), torch.cat([~closed.gather(1, query), lot >= 0], dim=1)

    def values(self, raw: Tensor, log_posterior: Tensor) -> Tensor:
        """Estimates of the information of every query (B, Q) in nats, from the querier's output and the log posterior
        (B, C)."""
        return raw.float().sigmoid() * entropy(log_posterior.float())[:, None]

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        """Bits per unit of cost (B, Q); minus infinity where they are below the penalty."""
        worth = per_cost(self.values(outputs, log_posterior()) / BIT, self.query_set.costs)
        penalty = self.settings.penalty
        return worth if penalty is None else worth.masked_fill(worth < penalty, -torch.inf)


@method("dime", "DIME")
@dataclass(kw_only=True, eq=False, repr=False)
class DIMEClassifier(MethodClassifier, TaughtClassifier):
    """DIME: a value network that estimates the information of each query, and a classifier."""

    uses_weights = True
    Model = DIME

    Settings = DIMESettings
    settings: DIMESettings | None = None
    """The penalty that ends chains, and how it is trained. What queries cost, the query set says."""
    shared: bool = False
    """Whether querier and classifier share a trunk."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        settings: DIMESettings = self.chosen_settings
        return pretrained_plan(stages, settings.pretraining, self.max_queries, exploration=settings.epsilon)
