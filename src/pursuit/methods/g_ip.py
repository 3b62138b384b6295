"""G-IP: Information Pursuit by a generative model of all answers (Chattopadhyay et al. 2022, Interpretable by Design).

A variational autoencoder learns how answers come about: p(answers | z, y), where z is standard normal whatever the
label y is, and answers are independent given both. What a history S leaves open of z is sampled by Langevin's
algorithm, in M chains z_m ~ p(z | y, S) for every label, which each new answer a moves on:

    p(a | y, S)     = mean over m of p(a | z_m, y)
    p(y | S, a) is proportional to p(y | S) p(a | y, S)
    I(a; y | S)     = H(sum over y of p(y | S) p(a | y, S)) - sum over y of p(y | S) H(p(a | y, S))

The query with the most information I comes next; scores are that information in bits.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.data.rows import RowSource
from pursuit.estimators import LearnerClassifier, MethodClassifier, method
from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import Labels
from pursuit.inference.stopping import BIT
from pursuit.methods.shared.answer_likelihood import AnswerLikelihood
from pursuit.methods.shared.label_information import label_information
from pursuit.methods.shared.langevin import Langevin
from pursuit.methods.shared.memory import n_at_once
from pursuit.queries import QuerySet
from pursuit.registry import register, settings_from, to_config
from pursuit.training import Batch, Learner, Outcome, RandomHistories, Stage

LARGE_IMAGE = 16
"""From this many pixels a side."""
MOST_PARTS = 16
"""A history of more answers than this is taken in by this many parts of a few answers each."""


@register
@dataclass(frozen=True)
class GIPSettings:
    """The sizes of the autoencoder, and how z is sampled: more chains ask better, at a cost that grows with them."""

    latent: int = 8
    hidden: tuple[int, ...] = (64,)
    """Layers of the decoder, and of the encoder in reverse."""
    langevin: Langevin = field(default_factory=Langevin)

    def __post_init__(self) -> None:
        if self.latent < 1 or not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"G-IP needs a latent variable and hidden layers of at least one number each, not {self}.")

    @classmethod
    def suiting(cls, query_set: QuerySet) -> Self:
        """Larger sizes for large images."""
        if query_set.patches is not None and min(query_set.patches.image_shape[1:]) >= LARGE_IMAGE:
            return cls(latent=32, hidden=(512, 512))
        return cls()


@register
class GIP(Learner):
    """An autoencoder of answers given the label, and the pursuit of information by it.

    Randomness starts again from `seed` with every state of histories, and is the same for all rows and labels: a row is
    asked the same whatever rows are beside it, and labels that decode alike look alike.
    """

    score_unit = "bits"

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        settings: GIPSettings | None = None,
        prior: Tensor | None = None,
        seed: int = 0,
    ):
        super().__init__(query_set, classes, prior)
        self.settings, self.seed = settings or GIPSettings.suiting(query_set), seed
        self.likelihood = AnswerLikelihood(query_set)
        latent, hidden, n_classes = self.settings.latent, self.settings.hidden, len(classes)
        n_inputs = self.likelihood.n_outputs + self.likelihood.n_units + n_classes
        self.encoder = nn.Sequential(*_smooth_layers((n_inputs, *reversed(hidden), 2 * latent)))
        self.decoder = _Decoder(latent, n_classes, (*hidden, self.likelihood.n_outputs))

    def forward(self, batch: Batch) -> Outcome:
        """Minus the evidence lower bound of all answers that a row has, known or not."""
        there = self.query_set.units.known(batch.available)  # (B, U)
        x = self.shown(batch.x, there)
        label = F.one_hot(batch.y, len(self.classes)).to(x.dtype)
        encoded = self.encoder(torch.cat([x, there.to(x.dtype), label], dim=1)).float()
        mean, log_variance = encoded.chunk(2, dim=1)
        z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        log_prob = (self.likelihood.log_prob(self.decoder(z, batch.y), x) * there).sum(dim=1)
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(dim=1)
        return Outcome(batch.mean(divergence - log_prob))

    def shown(self, x: Tensor, units: Tensor) -> Tensor:
        """The answers x to these units (B, U) alone, and zero elsewhere: (B, F)."""
        return torch.where(units[:, self.likelihood.unit_of_feature], x.flatten(1).float(), 0.0)

    def scores(self, history: History) -> Tensor:
        return self.history_state(history).scores()

    def log_posterior(self, history: History) -> Tensor:
        return self.history_state(history).log_posterior()

    def history_state(self, history: History) -> HistoryState:
        return _LangevinState(self, history)

    def decoded(self, z: Tensor) -> Tensor:
        """The decoder's outputs (B, C, M, F) at chains z (B, C, M, L), each with its label."""
        return self.decoder(z, torch.arange(z.shape[1], device=z.device)[:, None]).float()

    def log_prob(self, z: Tensor, x: Tensor, units: Tensor) -> Tensor:
        """The log probability (B, C, M) of the answers x (B, F) to these units (B, U) at chains z (B, C, M, L)."""
        return (self.likelihood.log_prob(self.decoded(z), x[:, None, None]) * units[:, None, None]).sum(dim=3)

    def moved(self, z: Tensor, x: Tensor, seen: Tensor, noise: Tensor) -> Tensor:
        """Chains z (B, C, M, L) moved towards p(z | y, S), S being the answers x (B, F) to the units seen (B, U)."""
        return self.settings.langevin.move(lambda z: self.log_prob(z, x, seen) - (z**2).sum(dim=3) / 2, z, noise)

    def information(self, z: Tensor, seen: Tensor, log_posterior: Tensor, noise: Tensor) -> Tensor:
        """The mutual information (B, Q) of every answer with the label in bits, at chains z (B, C, M, L), units seen
        (B, U) and a log posterior (B, C); `noise` (M, F), uniform, draws answers that are too many to list."""
        return label_information(self.likelihood, self.decoded(z), seen, log_posterior, noise) / BIT

    @property
    def rows_at_once(self) -> int:
        """How many rows have their chains moved at once."""
        n_chains, likelihood = len(self.classes) * self.settings.langevin.n_chains, self.likelihood
        n_numbers = 2 * sum(self.settings.hidden) + 3 * likelihood.n_outputs
        if likelihood.units_a_query == 1:
            n_numbers += len(likelihood.unit_of_outcome)
        elif not likelihood.is_binary:
            n_numbers += len(self.query_set) * likelihood.units_a_query
        return n_at_once(self.log_prior.device, n_chains * n_numbers)

    def to_config(self) -> dict[str, Any]:
        return {"settings": to_config(self.settings), "seed": self.seed}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(query_set, classes, settings_from(config["settings"], GIPSettings), seed=config["seed"])


class _Decoder(nn.Module):
    """From z (..., L) and labels y (...) to the outputs (..., F) for an `AnswerLikelihood`."""

    def __init__(self, n_latent: int, n_classes: int, sizes: tuple[int, ...]):
        super().__init__()
        self.latent, self.label = nn.Linear(n_latent, sizes[0]), nn.Embedding(n_classes, sizes[0])
        self.rest = nn.Sequential(nn.SiLU(), *_smooth_layers(sizes))
        self.usual = nn.Embedding(n_classes, sizes[-1])
        nn.init.zeros_(self.usual.weight)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return self.rest(self.latent(z) + self.label(y)) + self.usual(y)


def _smooth_layers(sizes: tuple[int, ...]) -> list[nn.Module]:
    """Linear layers with a smooth function between them, so that gradients in z are smooth."""
    layers: list[nn.Module] = []
    for n_inputs, n_outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(n_inputs, n_outputs), nn.SiLU()]
    return layers[:-1]


class _LangevinState(HistoryState):
    """The chains of B rows, moved on by every answer."""

    @torch.no_grad()
    def __init__(self, model: GIP, history: History):
        self._model, self._x, self._asked = model, history.x, history.asked.clone()
        self._rows = torch.arange(len(history), device=history.x.device)
        self._generator = torch.Generator().manual_seed(model.seed)
        n_classes, latent = len(model.classes), model.settings.latent
        n_chains = model.settings.langevin.n_chains
        z = torch.randn(n_chains, latent, generator=self._generator).to(self._x.device)
        self._z = z.repeat(len(history), n_classes, 1, 1)  # (B, C, M, L)
        self._seen = model.query_set.units.known(torch.zeros_like(history.known))  # (B, U)
        self._evidence = model.log_prior.repeat(len(history), 1)  # (B, C): log p(y, S)
        n_known, number = history.known.sum(dim=1, keepdim=True), history.known.cumsum(dim=1) - 1
        part = number * n_known.clamp(max=MOST_PARTS) // n_known.clamp(min=1)  # (B, Q) when an answer is taken in
        for turn in range(min(MOST_PARTS, int(n_known.max()) if len(history) else 0)):
            self._take_in(history.known & (part == turn))
        self._generator.manual_seed(model.seed + 1)  # what comes must not depend on the longest history here

    @property
    def asked(self) -> Tensor:
        return self._asked

    def log_posterior(self) -> Tensor:
        return self._evidence.log_softmax(dim=1)

    @torch.no_grad()
    def scores(self) -> Tensor:
        model, log_posterior = self._model, self.log_posterior()
        generator = torch.Generator().manual_seed(model.seed)
        noise = torch.rand(self._z.shape[2], model.likelihood.n_outputs, generator=generator).to(self._z.device)
        with torch.autocast(self._z.device.type, enabled=False):
            parts = [
                model.information(self._z[part], self._seen[part], log_posterior[part], noise)
                for part in self._parts(len(self._z))
            ]
        return torch.cat(parts) if parts else torch.zeros(self._asked.shape, device=self._z.device)

    def _parts(self, n_rows: int) -> list[slice]:
        n = self._model.rows_at_once
        return [slice(start, start + n) for start in range(0, n_rows, n)]

    @torch.no_grad()
    def ask(self, query: Tensor, answered: Tensor) -> None:
        self._asked.scatter_(1, query[:, None], True)
        self._take_in(F.one_hot(query, self._asked.shape[1]).bool() & answered[:, None])

    def _take_in(self, known: Tensor) -> None:
        """Update the posterior by the answers that become known (B, Q), and move the chains of these rows on."""
        model, langevin = self._model, self._model.settings.langevin
        new = model.query_set.units.known(known) & ~self._seen  # (B, U)
        self._seen = self._seen | new
        noise = torch.randn(langevin.burn_in, *self._z.shape[2:], generator=self._generator).to(self._z.device)
        changed = new.any(dim=1).nonzero()[:, 0]
        with torch.autocast(self._z.device.type, enabled=False):
            for part in self._parts(len(changed)):
                rows = changed[part]
                z, seen = self._z[rows], self._seen[rows]
                x = model.shown(self._x[self._rows[rows]], seen)
                self._evidence[rows] += model.log_prob(z, x, new[rows]).logsumexp(dim=2) - math.log(z.shape[2])
                self._z[rows] = model.moved(z, x, seen, noise)

    def restart(self, history: History) -> HistoryState:
        return _LangevinState(self._model, history)

    def keep(self, rows: Tensor) -> None:
        self._rows, self._asked, self._z = self._rows[rows], self._asked[rows], self._z[rows]
        self._seen, self._evidence = self._seen[rows], self._evidence[rows]


@method("g-ip", "G-IP")
@dataclass(kw_only=True, eq=False, repr=False)
class GIPClassifier(MethodClassifier, LearnerClassifier):
    """G-IP: a generative model of answers, and the information of every query computed from it.

    Parameters
    ----------
    query_set, stop, max_queries, stages, held_out, random_state, device, devices
        As for every estimator that is trained (`LearnerClassifier`). `stages` are those of V-IP: the autoencoder learns
        from as many rows as these have histories, in the same batches.
    settings : GIPSettings, optional
        The sizes of the autoencoder, and how z is sampled. By default `GIPSettings.suiting` the query set.
    """

    uses_weights = True

    Settings = GIPSettings
    settings: GIPSettings | None = None

    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> GIP:
        return GIP(query_set, self.classes_, self.settings, prior)  # None: what suits the query set

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        """All answers of a row are learnt from, so that its history does not matter."""
        return [replace(stage, histories=RandomHistories(0)) for stage in stages]
