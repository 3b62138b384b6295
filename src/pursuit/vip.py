"""Variational Information Pursuit: the algorithm.

A querier g scores queries and a classifier f predicts the label, both from a history S of answers. Trained together on

    min over f, g of   E_{X, S} [ -log f(Y | {q, q(X)} u S) ],   q = argmax g(S)

the querier comes to ask the query with the most mutual information with the label given the history, for the loss
after an answer is least, on average, for the answer that tells most (docs/algorithm.md has the argument).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.following import Follower, follow_networks
from pursuit.history import History
from pursuit.networks import NetworkSettings, default_network
from pursuit.pursuer import Labels, choose
from pursuit.queries import ColumnQueries, QuerySet

ASKED = -1e9
"""The score of a query that was asked already: low enough to get no share of a softmax, and finite if all were
asked."""


LEAST_SPREAD = 0.3
"""Rarer answers are not seen larger than those with this deviation, lest a handful of rows drown the rest."""


class VIP(nn.Module):
    """A querier and a classifier over one query set: a pursuer that learns."""

    log_prior: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        querier: nn.Module,
        classifier: nn.Module,
        prior: Tensor | None = None,
        standardised: bool = False,
    ):
        super().__init__()
        self.query_set, self.classes = query_set, classes
        self.settings: tuple[NetworkSettings, bool] | None = None
        self.querier, self.classifier = querier, classifier
        self.standardised = standardised
        if standardised:
            self.register_buffer("centre", torch.zeros(query_set.answer_shape))
            self.register_buffer("scale", torch.ones(query_set.answer_shape))
        prior = torch.full((len(classes),), 1 / len(classes)) if prior is None else prior
        self.register_buffer("log_prior", prior.log())  # (C,) what to believe when nothing is known

    @classmethod
    def build(
        cls,
        query_set: QuerySet,
        classes: Labels,
        network: NetworkSettings | None = None,
        shared: bool = False,
        prior: Tensor | None = None,
        standardised: bool = False,
    ) -> "VIP":
        """A model with fresh networks, which it can be saved with; `shared` puts both on one trunk."""
        network = network or default_network(query_set)
        model = cls(query_set, classes, *network.build(query_set, len(classes), shared), prior, standardised)
        model.settings = (network, shared)
        return model

    def forward(
        self,
        x: Tensor,
        known: Tensor,
        asked: Tensor,
        available: Tensor,
        y: Tensor,
        tau: Tensor | float,
        label_smoothing: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """The V-IP objective on histories (`known`, `asked`) of rows `x` with labels `y`, and the queries chosen
        (B,)."""
        known = known.to(x.dtype)
        scores = self.querier(self.see(x, known)).float()
        query = choose_straight_through(scores, asked, tau)  # (B, Q) one-hot
        answered = known + query * available  # a query without an answer reveals nothing
        logits = self.classifier(self.see(x, answered)).float()
        return F.cross_entropy(logits, y, label_smoothing=label_smoothing), query.detach().argmax(dim=1)

    def see(self, x: Tensor, known: Tensor) -> Tensor:
        """What the networks see of answers `x` of which `known` may be read."""
        return self.query_set.encode((x - self.centre) * self.scale if self.standardised else x, known)

    def seen_features(self, values: Tensor, features: Tensor | slice) -> Tensor:
        """The same for the known `values` of some `features` alone."""
        return (values - self.centre[features]) * self.scale[features] if self.standardised else values

    def standardise(self, x: Tensor, available: Tensor) -> None:
        """Measure by these answers what is usual: where nearly all say no, a yes is seen larger and a no smaller."""
        if not self.standardised or not isinstance(self.query_set, ColumnQueries):
            raise ValueError(
                "Only models of columns, words or concepts made with standardised=True can be standardised."
            )
        there = available[:, self.query_set.owner.to(available.device)]  # (N, F)
        n = there.sum(dim=0).clamp(min=1)
        self.centre.copy_((x * there).sum(dim=0) / n)
        spread = (((x - self.centre) ** 2 * there).sum(dim=0) / n).sqrt()
        self.scale.copy_(1 / spread.clamp(min=LEAST_SPREAD))

    def scores(self, history: History) -> Tensor:
        return self.querier(self.see(history.x, history.known)).float()

    def log_posterior(self, history: History) -> Tensor:
        return self.believe(self.classifier(self.see(history.x, history.known)), history.known.any(dim=1))

    def believe(self, logits: Tensor, knows_any: Tensor) -> Tensor:
        """Log probabilities (B, C) from what the classifier says, and whether a row knows any answer (B,)."""
        # Training hardly ever shows the classifier an empty history, and there the labels' frequencies are the answer.
        return torch.where(knows_any[:, None], logits.float().log_softmax(dim=1), self.log_prior)

    def follow(self, history: History) -> Follower:
        """Scores and beliefs from here on, answer by answer."""
        is_usual = type(self).scores is VIP.scores and type(self).log_posterior is VIP.log_posterior
        return follow_networks(self, history) if is_usual else Follower(self, history)


def choose_straight_through(scores: Tensor, asked: Tensor, tau: Tensor | float) -> Tensor:
    """One-hot choice (B, Q) of the best query not asked yet, whose gradient is that of softmax(scores / tau).

    A row in which everything was asked chooses nothing: all zeros.
    """
    soft = (scores.masked_fill(asked, ASKED) / tau).softmax(dim=1)
    hard = F.one_hot(choose(scores, asked), scores.shape[1])
    # Bracketed so that the softmax cancels to exactly zero: no trace of an unasked answer gets through.
    return (hard + (soft - soft.detach())) * ~asked
