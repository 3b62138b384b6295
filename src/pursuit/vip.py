"""Variational Information Pursuit: the algorithm, with two ways to learn what to ask.

A querier g scores queries and a classifier f predicts the label, both from a history S of answers. Trained together on

    min over f, g of   E_{X, S} [ -log f(Y | {q, q(X)} u S) ],   q = argmax g(S)

the querier learns to ask the query with the most mutual information with the label given the history, because the loss
after an answer is lowest, on average, for the most informative one (docs/algorithm.md has the argument).

`VIP` is the paper's way: the choice is hard, and its gradient is that of a softmax. That gradient comes from a single
answer and label, and says little about which of hundreds of queries was best. `InformationVIP` learns the same
classifier on the histories of its own queries, but asks by the information that follows from what would be answered
(`AnswerModel`), which every answer of a row teaches.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.inference.history import History
from pursuit.inference.pursuer import ASKED, Labels, PossibleAnswer, ScoreUnit, choose, per_cost
from pursuit.information import AnswerModel
from pursuit.networks import NetworkSettings, TrunkAndHeads, default_network
from pursuit.queries import QuerySet
from pursuit.registry import from_config, register
from pursuit.training.batch import Batch, Outcome
from pursuit.training.learner import QuerierClassifier

MOST_LABELS = 64
"""Training estimates information on this many labels of a row at most; in use, all of them count."""


@register
class VIP(QuerierClassifier):
    """A querier and a classifier that learn what to ask and what to believe by one objective."""

    def forward(self, batch: Batch) -> Outcome:
        """The V-IP objective on a batch of histories, and the queries chosen (B,)."""
        known = batch.known.to(batch.x.dtype)
        scores = self.querier(self.network_input(batch.x, known)).float()
        query = choose_straight_through(scores, batch.asked, batch.tau)  # (B, Q) one-hot
        return self.loss_after(query, batch)

    def loss_after(self, query: Tensor, batch: Batch) -> Outcome:
        """The classifier's loss once the answers to `query` (B, Q), one-hot, are known too."""
        answered = batch.known.to(batch.x.dtype) + query * batch.available  # one without an answer reveals nothing
        logits = self.classifier(self.network_input(batch.x, answered)).float()
        loss = F.cross_entropy(logits, batch.y, label_smoothing=batch.label_smoothing)
        return Outcome(loss, query.detach().argmax(dim=1))


def choose_straight_through(scores: Tensor, asked: Tensor, tau: Tensor | float) -> Tensor:
    """One-hot choice (B, Q) of the best query not asked yet, whose gradient is that of softmax(scores / tau).

    A row in which everything was asked chooses nothing: all zeros.
    """
    soft = (scores.masked_fill(asked, ASKED) / tau).softmax(dim=1)
    hard = F.one_hot(choose(scores, asked), scores.shape[1])
    # Bracketed so that the softmax cancels to exactly zero: no trace of an unasked answer gets through.
    return (hard + (soft - soft.detach())) * ~asked


@register
class InformationVIP(VIP):
    """Asks the query whose answer is expected to tell most about the label.

    In place of a querier that scores queries, a network reads the history for the answer model.
    """

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        reader: nn.Module,
        classifier: nn.Module,
        prior: Tensor | None = None,
        standardised: bool = False,
        *,
        answer_model: AnswerModel,
        cost_aware: bool = False,
    ):
        super().__init__(query_set, classes, reader, classifier, prior, standardised)
        self.answer_model, self.cost_aware = answer_model, cost_aware

    @classmethod
    def build(
        cls,
        query_set: QuerySet,
        classes: Labels,
        network: NetworkSettings | None = None,
        *,
        shared: bool = False,
        prior: Tensor | None = None,
        standardised: bool = False,
        **more: Any,
    ) -> Self:
        """With fresh networks; `more` are the `answer_model`, and whether it is `cost_aware`."""
        network = network or default_network(query_set)
        _, classifier = network.build(query_set, len(classes), shared=False)
        n_outputs = more["answer_model"].n_outputs
        if not shared:
            _, reader = network.build(query_set, n_outputs, shared=False)
        elif isinstance(network, TrunkAndHeads) and isinstance(classifier, nn.Sequential):
            reader = nn.Sequential(classifier[0], network.heads(query_set, n_outputs)[1])
        else:
            raise ValueError(f"{network} has no trunk that an answer model could share: use shared=False.")
        model = cls(query_set, classes, reader, classifier, prior, standardised, **more)
        model.network_settings, model.shared = network, shared
        return model

    def forward(self, batch: Batch) -> Outcome:
        """V-IP's objective at the most informative query, and beside it how well answers were foreseen."""
        encoded = self.network_input(batch.x, batch.known.to(batch.x.dtype))
        outputs = self.querier(encoded)
        with torch.no_grad():
            log_posterior = self.log_probabilities(self.classifier(encoded), batch.known.any(dim=1))
            bits = self.answer_model.information(outputs, log_posterior, MOST_LABELS)
            scores = self._scored(bits)
            query = F.one_hot(choose(scores, batch.asked), scores.shape[1]) * ~batch.asked
        loss, chosen = self.loss_after(query, batch)
        surprise = self.answer_model.loss(outputs, batch.x, batch.y, batch.available, batch.asked)
        return Outcome(loss + surprise, chosen)

    @property
    def score_unit(self) -> ScoreUnit:
        return "bits per cost" if self.cost_aware else "bits"

    def scores_from(self, outputs: Tensor, log_posterior: Callable[[], Tensor]) -> Tensor:
        """The expected information (B, Q) in bits, or in bits per unit of cost."""
        return self._scored(self.answer_model.information(outputs, log_posterior()))

    def _scored(self, bits: Tensor) -> Tensor:
        return per_cost(bits, self.query_set.costs) if self.cost_aware else bits

    def possible_answers(self, history: History, query: int) -> tuple[PossibleAnswer, ...]:
        """What may be answered to a query in a single history, and what each answer would do to the belief."""
        outputs = self.querier(self.network_input(history.x, history.known))
        log_posterior = self.log_posterior(history)
        return self.answer_model.possible_answers(outputs, log_posterior, query)

    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "answers": self.answer_model.to_config(), "cost_aware": self.cost_aware}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls.build(
            query_set,
            classes,
            from_config(config["network"]),
            shared=config["shared"],
            standardised=config["standardised"],
            answer_model=AnswerModel.from_config(query_set, len(classes), config["answers"]),
            cost_aware=config["cost_aware"],
        )
