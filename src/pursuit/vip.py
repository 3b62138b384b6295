"""Variational Information Pursuit: the algorithm.

A querier g scores queries and a classifier f predicts the label, both from a history S of answers. Trained together on

    min over f, g of   E_{X, S} [ -log f(Y | {q, q(X)} u S) ],   q = argmax g(S)

the querier comes to ask the query with the most mutual information with the label given the history, for the loss
after an answer is least, on average, for the answer that tells most (docs/algorithm.md has the argument).
"""

import torch.nn.functional as F
from torch import Tensor

from pursuit.learner import NetworkPair
from pursuit.pursuer import choose

ASKED = -1e9
"""The score of a query that was asked already: low enough to get no share of a softmax, and finite if all were
asked."""


class VIP(NetworkPair):
    """A querier and a classifier that learn to ask and to believe by one objective."""

    def forward(
        self,
        x: Tensor,
        known: Tensor,
        asked: Tensor,
        available: Tensor,
        y: Tensor,
        tau: Tensor | float,
        label_smoothing: float = 0.0,
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The V-IP objective on histories (`known`, `asked`) of rows `x` with labels `y`, and the queries chosen
        (B,)."""
        known = known.to(x.dtype)
        scores = self.querier(self.see(x, known)).float()
        query = choose_straight_through(scores, asked, tau)  # (B, Q) one-hot
        answered = known + query * available  # a query without an answer reveals nothing
        logits = self.classifier(self.see(x, answered)).float()
        return F.cross_entropy(logits, y, label_smoothing=label_smoothing), query.detach().argmax(dim=1)


def choose_straight_through(scores: Tensor, asked: Tensor, tau: Tensor | float) -> Tensor:
    """One-hot choice (B, Q) of the best query not asked yet, whose gradient is that of softmax(scores / tau).

    A row in which everything was asked chooses nothing: all zeros.
    """
    soft = (scores.masked_fill(asked, ASKED) / tau).softmax(dim=1)
    hard = F.one_hot(choose(scores, asked), scores.shape[1])
    # Bracketed so that the softmax cancels to exactly zero: no trace of an unasked answer gets through.
    return (hard + (soft - soft.detach())) * ~asked
