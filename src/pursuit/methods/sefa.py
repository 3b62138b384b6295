"""SEFA: stochastic encodings for active feature acquisition (Norcliffe et al., ICML 2025).

Each answer is encoded by itself, into a normal distribution of latent variables of its own; a query without an answer
has one too. A predictor gives the label from all latent variables z, and both are trained on random histories S:

    p(z | S) = product over queries i of N(z_i; mean_i, deviation_i),   p(y | S) = E_{z ~ p(z | S)} p(y | z)
    min of   E_{X, S} [ -log p(Y | S) + beta KL(p(z | S) || N(0, 1)) ]

Asked is the query whose latent variables decide most about the label, on average over the labels y and over latent
variables that make y likely:

    score_i = sum over y of p(y | S) E_{z ~ p(z | S, y)} r_i(y, z),   r_i = |dp(y | z) / dz_i| / sum over j of the same

where j goes over what was not asked yet. Since p(z | S, y) is p(z | S) p(y | z) / p(y | S), the score is the mean of
p(y | z) r_i(y, z), summed over labels, over samples of p(z | S).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from pursuit.estimators import MethodClassifier, TaughtClassifier, method
from pursuit.inference.history import History
from pursuit.inference.pursuer import choose
from pursuit.methods.shared.generative import Gaussian, n_at_once, of_random_queries, some_labels
from pursuit.networks import MLP
from pursuit.networks.dense import dense_layers
from pursuit.networks.settings import check_sizes
from pursuit.queries import QuerySet
from pursuit.registry import register
from pursuit.training import Batch, ClassifierModel, Stage, TrainingOutcome
from pursuit.training.learner import ModelSpec

FIRST_LOG_VARIANCE = -4.0
"""At first, so that answers are not drowned in noise."""
SMALLEST = 1e-12
"""Attributions that are all smaller than this are not compared."""


@register
@dataclass(frozen=True)
class SEFASettings:
    """The sizes of the encoders, and how many samples stand for distributions."""

    latent: int = 6
    """Number of latent variables of a query."""
    width: int = 20
    """Width of the two hidden layers of an encoder."""
    beta: float = 1e-4
    """Weight of the divergence from normal variables that carry nothing."""
    training_samples: int = 8
    samples: int = 64
    """Number of samples that beliefs and scores are computed with; the published code has 200."""
    labels: int = 16
    """Number of labels that attributions are computed for; where there are more, these stand for all."""

    def __post_init__(self) -> None:
        check_sizes(self, "latent", "width", "training_samples", "samples", "labels")
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is a weight of 0 or more, not {self.beta}.")


class AnswerEncoders(nn.Module):
    """A small network for each query, from its answer to the distribution of its latent variables. All are computed
    at once."""

    features: Tensor
    is_feature: Tensor

    def __init__(self, query_set: QuerySet, width: int, latent: int):
        super().__init__()
        of_unit = query_set.units.features
        own = [[feature for unit in units for feature in of_unit[unit]] for units in query_set.units.of_query.tolist()]
        widest, n_queries = max(map(len, own)), len(own)
        features, is_feature = torch.zeros(n_queries, widest, dtype=torch.long), torch.zeros(n_queries, widest)
        for query, places in enumerate(own):
            features[query, : len(places)] = torch.tensor(places)
            is_feature[query, : len(places)] = 1
        self.register_buffer("features", features, persistent=False)  # (Q, w)
        self.register_buffer("is_feature", is_feature, persistent=False)  # (Q, w)
        sizes = (widest + 1, width, width, 2 * latent)
        self.weights = nn.ParameterList(
            torch.randn(n_queries, n_in, n_out) / math.sqrt(n_in) for n_in, n_out in pairwise(sizes)
        )
        self.biases = nn.ParameterList(torch.zeros(n_queries, n_out) for n_out in sizes[1:])
        nn.init.constant_(self.biases[-1][:, latent:], FIRST_LOG_VARIANCE)

    def forward(self, x: Tensor, known: Tensor) -> Gaussian:
        """The latent variables (B, Q, D) of answers `x` (B, F) of which `known` (B, Q) may be read."""
        shown = x[:, self.features] * self.is_feature * known[:, :, None]
        hidden = torch.cat([shown, known[:, :, None]], dim=2)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.einsum("bqi,qio->bqo", hidden.relu() if layer else hidden, weight) + bias
        return Gaussian.from_outputs(hidden)


@register
class SEFA(ClassifierModel):
    """Encoders of single answers, and a predictor (its `classifier`) of the label from their latent variables.

    Randomness is a fixed `noise`, the same for all rows: scores and posteriors are functions of the history.
    """

    Settings = SEFASettings
    settings: SEFASettings
    noise: Tensor

    def __init__(self, spec: ModelSpec, classifier: nn.Module):
        super().__init__(spec, classifier)
        settings, n_queries = self.settings, len(spec.query_set)
        self.encoders = AnswerEncoders(spec.query_set, settings.width, settings.latent)
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(settings.samples, n_queries, settings.latent, generator=generator)
        self.register_buffer("noise", noise)  # (K, Q, D)

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, **parts: Any) -> Self:
        """The predictor has the hidden layers of the network."""
        n_inputs = len(spec.query_set) * (spec.settings or SEFASettings()).latent
        hidden, dropout = (
            (spec.network.hidden, spec.network.dropout) if isinstance(spec.network, MLP) else ((100,) * 2, 0.0)
        )
        layers = dense_layers(n_inputs, hidden, dropout)
        return cls(spec, nn.Sequential(*layers, nn.Linear(hidden[-1] if hidden else n_inputs, len(spec.classes))))

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The loss on a batch of histories, and random queries (B,), by which carried histories go on."""
        latent = self.latent(batch.x, batch.known)
        shape = len(batch.y), self.settings.training_samples, *latent.mean.shape[1:]
        log_share = self.log_shares(latent, torch.randn(shape, device=latent.mean.device))  # (B, K, C)
        loss = batch.label_loss(log_share.logsumexp(dim=1))
        spread = batch.mean(latent.divergence_from_standard().sum(dim=1))
        query = choose(torch.rand(batch.asked.shape, device=batch.y.device), self.closed(batch))
        return TrainingOutcome(loss + self.settings.beta * spread, query)

    def latent(self, x: Tensor, known: Tensor) -> Gaussian:
        """The latent variables (B, Q, D) of histories."""
        own_inputs = self.query_set.own_inputs
        x = self.standardise_features(x if own_inputs is None else own_inputs.shown(x), slice(None))
        return self.encoders(x.flatten(1), known.to(x.dtype))

    def log_shares(self, latent: Gaussian, noise: Tensor) -> Tensor:
        """The log probabilities of labels (B, K, C) at samples by `noise` (K, Q, D), or of each row."""
        return self.predict(latent.at((slice(None), None)).sample(noise))

    def predict(self, z: Tensor) -> Tensor:
        """The log probabilities of labels (B, K, C) given the latent variables (B, K, Q, D)."""
        return self.classifier(z.flatten(0, 1).flatten(1)).float().unflatten(0, z.shape[:2]).log_softmax(dim=2)

    def log_posterior(self, history: History) -> Tensor:
        with torch.autocast(history.x.device.type, enabled=False):
            log_share = torch.cat(
                [
                    self.log_shares(self.latent(part.x, part.known), self.noise).logsumexp(dim=1)
                    for part in self._parts(history)
                ]
            )
        return self.log_probabilities(log_share, history.n_known)

    @torch.no_grad()
    def scores(self, history: History) -> Tensor:
        with torch.autocast(history.x.device.type, enabled=False):
            return torch.cat([self._scores(part) for part in self._parts(history)])

    def _parts(self, history: History) -> list[History]:
        """Rows of a history, in parts of bounded memory."""
        n_rows = n_at_once(history.x.device, 2 * self.noise.numel())
        return [history.rows(part) for part in torch.arange(len(history), device=history.x.device).split(n_rows)]

    def _scores(self, history: History) -> Tensor:
        z = self.latent(history.x, history.known).at((slice(None), None)).sample(self.noise)  # (B, K, Q, D)
        closed = self.closed(history)
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            share = self.predict(z).exp()  # (B, K, C)
            labels, times = some_labels(share.detach().mean(dim=1), self.settings.labels)  # (B, L) each
            score = torch.zeros_like(closed, dtype=share.dtype)
            for place in range(labels.shape[1]):
                label = labels[:, None, place, None].expand(-1, share.shape[1], 1)
                of_label = share.gather(2, label)[:, :, 0]  # (B, K)
                (slope,) = torch.autograd.grad(of_label.sum(), z, retain_graph=True)
                size = slope.norm(dim=3).masked_fill(closed[:, None], 0)  # (B, K, Q)
                part = size / size.sum(dim=2, keepdim=True).clamp(min=SMALLEST)
                score += (of_label.detach()[:, :, None] * part).mean(dim=1) * times[:, place, None]
        return score


@method("sefa", "SEFA")
@dataclass(kw_only=True, eq=False, repr=False)
class SEFAClassifier(MethodClassifier, TaughtClassifier):
    """Asks what decides most about the label, by stochastic encodings of single answers. The predictor has the hidden
    layers of the `network`, an `MLP`."""

    uses_weights = True
    Model = SEFA

    Settings = SEFASettings
    settings: SEFASettings | None = None
    """The sizes of the encoders, and how many samples stand for distributions."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        return of_random_queries(stages)
