"""Greedy dynamic feature selection (GDFS; Covert et al., ICML 2023): the choice of a query is relaxed.

The classifier f is first trained alone on random histories. Then the querier g learns with it, while the temperature
tau falls:

    min over f, g of   E_{X, S, G} [ -log f(Y | S u soft) ],   soft = softmax((g(S) + G) / tau)

where G is Gumbel noise, so that soft is a Concrete sample: of every answer not known yet, the classifier sees the share
that soft has of it. The history goes on with the whole answer to the query that has the largest share.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.baselines.shared.pretrained import PretrainedPair, check_pretraining, pretrained_plan
from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.pursuer import choose
from pursuit.queries import PatchQueries, QuerySet
from pursuit.rows import RowSource
from pursuit.stages import Stage
from pursuit.vip import ASKED

LEAST_NOISE = 1e-20
"""Under the logarithm of Gumbel noise, which must stay finite."""


@dataclass(frozen=True)
class GDFSSettings:
    """How GDFS is trained."""

    temperature: tuple[float, float] = (2.0, 0.1)
    """Of the Concrete samples, at the beginning and at the end. Published runs train at five temperatures one after the
    other; with one budget for all, a steady fall under one schedule of the learning rate asks better."""
    pretraining: float = 0.15
    """Share of all histories on which the classifier learns alone before."""

    def __post_init__(self) -> None:
        if min(self.temperature) <= 0:
            raise ValueError(f"temperature is above 0 throughout, not {self.temperature}.")
        check_pretraining(self.pretraining)


class GDFS(PretrainedPair):
    """A querier that learns by Concrete samples of its choice, and a classifier that learns with it."""

    Settings = GDFSSettings

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
        """Cross-entropy with a Concrete sample of the next query revealed, and the query most of which it reveals
        (B,)."""
        if self.is_pretraining:
            return super().forward(x, known, asked, available, y, tau, label_smoothing)
        known = known.to(x.dtype)
        scores = self.querier(self.see(x, known)).float()
        noisy = scores - torch.empty_like(scores).exponential_().clamp(min=LEAST_NOISE).log()
        soft = (noisy.masked_fill(asked, ASKED) / tau).softmax(dim=1) * ~asked  # (B, Q)
        logits = self.classifier(self.see_partly(x, known, soft * available)).float()
        loss = F.cross_entropy(logits, y, label_smoothing=label_smoothing)
        return loss, choose(noisy.detach(), asked)

    def see_partly(self, x: Tensor, known: Tensor, shares: Tensor) -> Tensor:
        """What the networks see of answers `x`, all of what is `known` and `shares` of others: (B, Q) each."""
        if not isinstance(self.query_set, PatchQueries):
            return self.see(x, known + shares)
        # Of a pixel that no known patch shows, as much is seen as all patches on it have together.
        patches = self.query_set
        rows, columns = (covered.to(shares.dtype) for covered in (patches.rows_covered, patches.columns_covered))
        on_pixels = rows.T @ (shares.view(-1, *patches.grid) @ columns)  # (B, H, W)
        seen = (patches.pixels(known) + on_pixels[:, None]).clamp(max=1)  # (B, 1, H, W)
        return torch.cat([x * seen, seen], dim=1) if patches.mask else x * seen


class GDFSClassifier(RivalClassifier):
    """Greedy dynamic feature selection: two networks as V-IP's, of which the querier learns by Concrete samples.

    Parameters
    ----------
    query_set, stop, max_queries, network, shared, standardise, stages, random_state, device
        As for every rival with networks (`RivalClassifier`).
    settings : GDFSSettings, optional
        Temperature, and how long the classifier learns alone.
    """

    kind = GDFS
    Settings = GDFSSettings

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> GDFS:
        model = GDFS.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        model.own = self._own
        return self._standardised(model, rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        return pretrained_plan(stages, self._own.pretraining, self._own.temperature, self.max_queries)

    @classmethod
    def _settings_of(cls, model: GDFS) -> dict[str, Any]:
        return {**super()._settings_of(model), "settings": model.own}
