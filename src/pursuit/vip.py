"""Variational Information Pursuit: the algorithm.

A querier g scores queries and a classifier f predicts the label, both from a history S of answers. Trained together on

    min over f, g of   E_{X, S} [ -log f(Y | {q, q(X)} u S) ],   q = argmax g(S)

the querier learns to ask the query with the most mutual information with the label given the history, because the loss
after an answer is lowest, on average, for the most informative one (docs/algorithm.md has the argument).
"""

import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.pursuer import ASKED, choose
from pursuit.registry import register
from pursuit.training.batch import Batch, Outcome
from pursuit.training.learner import QuerierClassifier


@register
class VIP(QuerierClassifier):
    """A querier and a classifier that learn what to ask and what to believe by one objective."""

    def forward(self, batch: Batch) -> Outcome:
        """The V-IP objective on a batch of histories, and the queries chosen (B,)."""
        known = batch.known.to(batch.x.dtype)
        scores = self.querier(self.network_input(batch.x, known)).float()
        query = choose_straight_through(scores, batch.asked, batch.tau)  # (B, Q) one-hot
        answered = known + query * batch.available  # a query without an answer reveals nothing
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
