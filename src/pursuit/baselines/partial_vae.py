"""The partial VAE: Information Pursuit by an autoencoder of what happens to be known.

An encoder gives a normal distribution q(z | S) of a latent variable for any answers S, and one q(z | S, y) where the
label y is known besides; a decoder gives the answers and the label, independent given z. Both are trained on the bound

    E_{X, S} [ E_{z ~ q(z | S)} [ -log p(answers in S | z) - weight log p(y | z) ] + KL(q(z | S) || N(0, 1)) ]

with y known to the encoder every other time. With guessed answers a to query i, the next query is the one that tells
most, under the model, of the label, or of what in the latent variable has to do with it:

    "label"   I(a_i; y | S)
    "eddi"    E_a KL(q(z | S, a) || q(z | S)) - E_{a, y} KL(q(z | S, a, y) || q(z | S, y))

The second is the reward of EDDI (Ma et al., ICML 2019), whose model it is; with the first, tables are asked as by BSODA
(He et al., AAAI 2022) and images as by probabilistic hard attention (Rangrej and Clark, BMVC 2021).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.special import entr

from pursuit.baselines.shared.answers import AnswerModel
from pursuit.baselines.shared.guesses import (
    Guesses,
    Samples,
    all_outcomes,
    drawn_patches,
    mixture_information,
    n_at_once,
)
from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.histories import CarriedHistories, RandomHistories
from pursuit.history import History
from pursuit.learner import Believer, network_from_config
from pursuit.networks import NetworkSettings, default_network
from pursuit.networks.dense import dense_layers
from pursuit.pursuer import Labels, choose
from pursuit.queries import PatchQueries, QuerySet
from pursuit.rows import RowSource
from pursuit.stages import Stage

LARGEST = 8.0
"""Log variances lie between this and its negative."""
LEAST_LABEL_WEIGHT = 16.0
"""Where answers are few: below it, the label is not worth the divergence from the prior that it takes to tell it."""


@dataclass(frozen=True)
class PartialVAESettings:
    """The sizes of the autoencoder, and by what it asks."""

    latent: int = 16
    width: int = 128
    """Of what the network reads off the answers, and of the hidden layers around the latent variable."""
    label_weight: float | None = None
    """How many times as much the label weighs in training as an answer. By default half as much as all answers
    together, and no less than `LEAST_LABEL_WEIGHT`."""
    reward: Literal["eddi", "label"] = "eddi"
    samples: int = 8
    """How many latent variables stand for their distribution: an even number, for they come in opposite pairs."""
    candidates: int | None = 16
    """How many queries are looked at closely: those whose answers, pixel by pixel, have most to do with the label in
    the samples. None: all."""
    labels: int = 16
    """With reward "eddi", the most labels that are looked at: further ones are represented by these."""

    def __post_init__(self) -> None:
        if self.reward not in ("label", "eddi"):
            raise ValueError(f"reward is 'label' or 'eddi', not {self.reward!r}.")
        if self.samples < 2 or self.samples % 2:
            raise ValueError(f"samples come in pairs: their number is even and at least 2, not {self.samples}.")
        if min(self.latent, self.width, self.labels, 1 if self.candidates is None else self.candidates) < 1:
            raise ValueError(f"latent, width, labels and candidates are at least 1, in {self}.")
        if self.label_weight is not None and not self.label_weight > 0:
            raise ValueError(f"label_weight is above 0, not {self.label_weight}: without it no label is learnt.")


class Gaussian(NamedTuple):
    """Independent normal variables, the last dimension of both."""

    mean: Tensor
    log_variance: Tensor

    def at(self, index: Any) -> "Gaussian":
        return Gaussian(self.mean[index], self.log_variance[index])

    def sample(self, noise: Tensor) -> Tensor:
        return self.mean + (0.5 * self.log_variance).exp() * noise

    def divergence(self, other: "Gaussian") -> Tensor:
        """KL from this to the other."""
        wider = self.log_variance - other.log_variance
        apart = (self.mean - other.mean) ** 2 * (-other.log_variance).exp()
        return 0.5 * (wider.exp() + apart - 1 - wider).sum(dim=-1)


class PartialVAE(Believer):
    """An autoencoder of answers and label, and the pursuit of information by it.

    Its `classifier` reads the answers; what it reads and the label, if known, are added up before the latent variable.
    Chance is a fixed `noise`, the same for all rows: scores and beliefs are functions of the history.
    """

    noise: Tensor
    pixel_noise: Tensor

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        classifier: nn.Module,
        own: PartialVAESettings,
        prior: Tensor | None = None,
        standardised: bool = False,
    ):
        super().__init__(query_set, classes, classifier, prior, standardised)
        self.own, self.answers = own, AnswerModel(query_set)
        weight, hidden = own.label_weight, (own.width,)
        self.label_weight = max(self.answers.n_units / 2, LEAST_LABEL_WEIGHT) if weight is None else weight
        self.label = nn.Linear(len(classes), own.width, bias=False)
        self.encoder = nn.Sequential(
            nn.LayerNorm(own.width),
            nn.ReLU(),
            *dense_layers(own.width, hidden, 0.0),
            nn.Linear(own.width, 2 * own.latent),
        )
        self.decoder = nn.Sequential(
            *dense_layers(own.latent, hidden, 0.0), nn.Linear(own.width, self.answers.n_outputs)
        )
        self.label_decoder = nn.Sequential(*dense_layers(own.latent, hidden, 0.0), nn.Linear(own.width, len(classes)))
        generator = torch.Generator().manual_seed(0)
        half = torch.randn(own.samples // 2, own.latent, generator=generator)
        self.register_buffer("noise", torch.cat([half, -half]))  # (K, latent)
        if isinstance(query_set, PatchQueries):
            self.register_buffer("pixel_noise", torch.rand(own.samples, self.answers.n_outputs, generator=generator))

    @classmethod
    def build(  # type: ignore[override]
        cls,
        query_set: QuerySet,
        classes: Labels,
        network: NetworkSettings | None = None,
        own: PartialVAESettings | None = None,
        prior: Tensor | None = None,
        standardised: bool = False,
    ) -> Self:
        """With fresh networks, which it can be saved with; `network` is the one that reads the answers."""
        network, own = network or default_network(query_set), own or PartialVAESettings()
        model = cls(query_set, classes, network.build(query_set, own.width, False)[1], own, prior, standardised)
        model.settings = (network, False)
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
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The bound on histories of rows `x` with labels `y`, a share of which is known, and queries by chance (B,)."""
        is_told = torch.rand(len(y), 1, device=y.device) < 0.5
        label = F.one_hot(y, len(self.classes)) * is_told
        latent = self.latent(self.classifier(self.see(x, known.to(x.dtype))) + self.label(label.to(x.dtype)))
        z = latent.sample(torch.randn_like(latent.mean))
        of_answers = self.answers.log_prob(self.decoder(z), x.flatten(1)) * self.answers.known_units(known)
        standard = Gaussian(torch.zeros_like(latent.mean), torch.zeros_like(latent.mean))
        bound = (latent.divergence(standard) - of_answers.sum(dim=1)).mean()
        of_label = F.cross_entropy(self.label_decoder(z).float(), y, label_smoothing=label_smoothing)
        return of_label + bound / self.label_weight, choose(torch.rand(asked.shape, device=asked.device), asked)

    def latent(self, reading: Tensor) -> Gaussian:
        """The distribution of the latent variable given what was read off the answers, and the label, if added."""
        mean, log_variance = self.encoder(reading).float().chunk(2, dim=-1)
        return Gaussian(mean, log_variance.clamp(-LARGEST, LARGEST))

    def labels(self, z: Tensor) -> Tensor:
        """The probabilities of the labels (..., C) given the latent variable."""
        return self.label_decoder(z).float().softmax(dim=-1)

    def believed(self, latent: Gaussian) -> Tensor:
        """The probabilities of the labels (B, C) over the samples of each distribution."""
        return self.labels(latent.at((slice(None), None)).sample(self.noise)).mean(dim=1)

    def log_posterior(self, history: History) -> Tensor:
        with torch.autocast(history.x.device.type, enabled=False):
            belief = self.believed(self.latent(self.classifier(self.see(history.x, history.known))))
        return self.believe(belief.clamp(min=torch.finfo(belief.dtype).tiny).log(), history.known.any(dim=1))

    @torch.no_grad()
    def scores(self, history: History) -> Tensor:
        n_outcomes, device = len(self.answers.query_of), history.x.device
        n_rows = n_at_once(device, n_outcomes * max(len(self.noise), len(self.classes)))
        with torch.autocast(device.type, enabled=False):  # information differs little from query to query
            parts = torch.arange(len(history), device=device).split(n_rows)
            return torch.cat([self._scores(history.rows(part)) for part in parts])

    def _scores(self, history: History) -> Tensor:
        encoded = self.see(history.x, history.known)
        reading = self.classifier(encoded)
        latent = self.latent(reading)
        z = latent.at((slice(None), None)).sample(self.noise)  # (B, K, latent)
        samples = Samples(self.decoder(z).float(), self.labels(z))
        rough = mixture_information(self.answers, history.known, samples)
        wanted = ~history.asked
        if self.own.candidates is not None and self.own.candidates < wanted.shape[1]:
            best = rough.masked_fill(history.asked, -torch.inf).topk(self.own.candidates, dim=1).indices
            wanted = wanted & torch.zeros_like(wanted).scatter(1, best, True)
        if self.own.reward == "label":
            reward = self._label_reward(self._guesses(history, encoded, samples, wanted), wanted)
        else:
            chosen, share = some_labels(samples.labels.mean(dim=1), self.own.labels)
            by_sample = samples.labels.gather(2, chosen[:, None].expand(-1, len(self.noise), -1)) * share[:, None]
            guesses = self._guesses(history, encoded, Samples(samples.outputs, by_sample), wanted)
            reward = self._eddi_reward(guesses, wanted, reading, latent, chosen)
        # What is not looked at closely comes after, in the order of the rough information.
        least = reward.masked_fill(~wanted, torch.inf).amin(dim=1, keepdim=True).clamp(max=0)
        return torch.where(wanted, reward, least - 1 + rough - rough.amax(dim=1, keepdim=True))

    def _guesses(self, history: History, encoded: Tensor, samples: Samples, wanted: Tensor) -> Iterator[Guesses]:
        """Answers to the queries `wanted` (B, Q)."""
        n_labels = samples.labels.shape[2]
        widest = max(len(self.noise) * max(self.own.width, n_labels), n_labels * self.own.width)
        if isinstance(self.query_set, PatchQueries):
            noise = self.pixel_noise
            return drawn_patches(self.answers, self.classifier, history, encoded, samples, wanted, widest, noise)
        return all_outcomes(self.answers, self.classifier, self.see, encoded, samples, wanted, widest)

    def _label_reward(self, guesses: Iterator[Guesses], wanted: Tensor) -> Tensor:
        """The mutual information (B, Q) of the label and each of the queries `wanted` (B, Q)."""
        uncertainty = torch.zeros(wanted.numel(), device=wanted.device)
        marginal = torch.zeros(wanted.numel(), len(self.classes), device=wanted.device)
        for guess in guesses:
            place, belief = guess.row * wanted.shape[1] + guess.query, self.believed(self.latent(guess.reading))
            uncertainty.index_add_(0, place, guess.weight * entr(belief).sum(dim=1))
            marginal.index_add_(0, place, guess.weight[:, None] * belief)
        return (entr(marginal).sum(dim=1) - uncertainty).view(wanted.shape)

    def _eddi_reward(
        self, guesses: Iterator[Guesses], wanted: Tensor, reading: Tensor, latent: Gaussian, chosen: Tensor
    ) -> Tensor:
        """The same for EDDI's reward, over the labels `chosen` (B, L)."""
        reward = torch.zeros(wanted.numel(), device=wanted.device)
        of_label = self.label.weight.T[chosen]  # (B, L, W)
        latent_by_label = self.latent(reading[:, None] + of_label)
        for row, query, weight, label_weight, further in guesses:
            told = weight * self.latent(further).divergence(latent.at(row))
            by_label = self.latent(further[:, None] + of_label[row]).divergence(latent_by_label.at(row))  # (P, L)
            reward.index_add_(0, row * wanted.shape[1] + query, told - (label_weight * by_label).sum(dim=1))
        return reward.view(wanted.shape)

    def extra_repr(self) -> str:
        return repr(self.own)

    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "settings": asdict(self.own)}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        network, own = network_from_config(config["network"]), PartialVAESettings(**config["settings"])
        return cls.build(query_set, classes, network, own, standardised=config["standardised"])


def some_labels(belief: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Labels (B, L) that stand for all C, and how many times each of them counts; all once, or `most` of them as they
    come at equal steps of the cumulative `belief` (B, C), each for its share."""
    n_classes = belief.shape[1]
    if n_classes <= most:
        every = torch.arange(n_classes, device=belief.device).expand(belief.shape)
        return every, torch.ones_like(belief)
    steps = (torch.arange(most, device=belief.device) + 0.5) / most
    chosen = torch.searchsorted(belief.cumsum(dim=1), steps.repeat(len(belief), 1)).clamp(max=n_classes - 1)
    return chosen, 1 / (most * belief.gather(1, chosen).clamp(min=torch.finfo(belief.dtype).tiny))


class PartialVAEClassifier(RivalClassifier):
    """Asks by the information that a partial VAE expects of each query: EDDI and BSODA on tables, probabilistic hard
    attention on images.

    Parameters
    ----------
    query_set, stop, max_queries, standardise, stages, random_state, device
        As for every rival with networks (`RivalClassifier`).
    network : NetworkSettings, optional
        The network that reads the answers; by default as for V-IP. EDDI's own is a `SetNetwork`.
    shared : bool
        Of no consequence: there is one network.
    settings : PartialVAESettings, optional
        The sizes of the autoencoder, and by what it asks.
    """

    kind = PartialVAE
    Settings = PartialVAESettings

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> PartialVAE:
        model = PartialVAE.build(query_set, self.classes_, self.network, self._own, prior, self.standardise)
        return self._standardised(model, rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        """Histories as long as V-IP's, of queries that come by chance."""
        return [
            stage
            if isinstance(stage.histories, CarriedHistories)
            else replace(stage, histories=RandomHistories(stage.histories.max_queries))
            for stage in stages
        ]

    @classmethod
    def _settings_of(cls, model: PartialVAE) -> dict[str, Any]:
        return {**super()._settings_of(model), "settings": model.own}
