"""Greedy dynamic feature selection (GDFS; Covert et al., ICML 2023): the choice of a query is relaxed.

The classifier f is first trained alone on random histories. Then the querier g learns with it, while the temperature
tau falls:

    min over f, g of   E_{X, S, G} [ -log f(Y | S u soft) ],   soft = softmax((g(S) + G) / tau)

where G is Gumbel noise, so that soft is a Concrete sample: of every answer not known yet, the classifier sees the share
that soft gives it. The history goes on with the whole answer to the query with the largest share.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pursuit.estimators import MethodClassifier, TaughtClassifier, method
from pursuit.inference.pursuer import ASKED, choose
from pursuit.methods.shared.pretrained import PretrainedModel, check_pretraining, pretrained_plan
from pursuit.registry import register
from pursuit.training.samplers import Batch, TrainingOutcome
from pursuit.training.schedule import Stage

LEAST_NOISE = 1e-20
"""Under the logarithm of Gumbel noise, which must stay finite."""


@register
@dataclass(frozen=True)
class GDFSSettings:
    """Settings of GDFS's training."""

    temperature: tuple[float, float] = (2.0, 0.1)
    """Temperature of the Concrete samples, at the beginning and at the end. Published runs train at five temperatures
    one after the other; with one budget for all, a steady fall under one schedule of the learning rate asks better."""
    pretraining: float = 0.15
    """Share of all histories on which the classifier learns alone, before anything else."""

    def __post_init__(self) -> None:
        if min(self.temperature) <= 0:
            raise ValueError(f"temperature is above 0 throughout, not {self.temperature}.")
        check_pretraining(self.pretraining)


@register
class GDFS(PretrainedModel):
    """A querier that learns by Concrete samples of its choice, and a classifier that learns with it."""

    Settings = GDFSSettings
    settings: GDFSSettings

    def forward_jointly(self, batch: Batch) -> TrainingOutcome:
        """Cross-entropy with a Concrete sample of the next query revealed, and the query it reveals most of (B,)."""
        known = batch.known.to(batch.x.dtype)
        scores = self.querier(self.network_input(batch.x, known)).float()
        noisy = scores - torch.empty_like(scores).exponential_().clamp(min=LEAST_NOISE).log()
        closed = self.closed(batch)
        soft = (noisy.masked_fill(closed, ASKED) / batch.tau).softmax(dim=1) * ~closed  # (B, Q)
        logits = self.classifier(self.partial_input(batch.x, known, soft * batch.available)).float()
        return TrainingOutcome(batch.label_loss(logits), choose(noisy.detach(), closed))

    def partial_input(self, x: Tensor, known: Tensor, shares: Tensor) -> Tensor:
        """Network input for answers `x`: all of what is `known`, and `shares` of the others, (B, Q) each."""
        if self.reads_next_apart:
            return self.input_after(x, known, shares)
        return self.query_set.encode_partly(self.standardise_features(x, slice(None)), known, shares)


@method("gdfs", "GDFS")
@dataclass(kw_only=True, eq=False, repr=False)
class GDFSClassifier(MethodClassifier, TaughtClassifier):
    """Greedy dynamic feature selection: the networks of V-IP, whose querier learns by Concrete samples."""

    uses_weights = True
    Model = GDFS

    Settings = GDFSSettings
    settings: GDFSSettings | None = None
    """The temperature, and how long the classifier learns alone."""
    shared: bool = False
    """Whether querier and classifier share a trunk."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        settings: GDFSSettings = self.chosen_settings
        return pretrained_plan(stages, settings.pretraining, self.max_queries, tau=settings.temperature)
