"""The partial VAE: Information Pursuit by an autoencoder of whatever is known.

An encoder gives a normal distribution q(z | S) of a latent variable for any answers S, and q(z | S, y) where the label
y is known too; a decoder gives the answers and the label, independent given z. Both are trained on the bound

    E_{X, S} [ E_{z ~ q(z | S)} [ -log p(answers in S | z) - weight log p(y | z) ] + KL(q(z | S) || N(0, 1)) ]

with y given to the encoder every other time. By imagined answers a to query i, the next query is the one that tells
most, under the model, about the label, or about what in the latent variable has to do with it:

    "label"   I(a_i; y | S)
    "eddi"    E_a KL(q(z | S, a) || q(z | S)) - E_{a, y} KL(q(z | S, a, y) || q(z | S, y))

The second is the reward of EDDI (Ma et al., ICML 2019), whose model it is; with the first, tables are asked as by BSODA
(He et al., AAAI 2022) and images as by probabilistic hard attention (Rangrej and Clark, BMVC 2021).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.special import entr

from pursuit.estimators import MethodClassifier, NetworkClassifier, method
from pursuit.inference.history import History
from pursuit.inference.pursuer import choose
from pursuit.inference.stopping import BIT
from pursuit.methods.shared.generative import AnswerLikelihood, Gaussian, n_at_once, of_random_queries, some_labels
from pursuit.networks.dense import dense_layers
from pursuit.networks.first_layer import split_first_layer
from pursuit.networks.settings import check_sizes
from pursuit.registry import register
from pursuit.training import Batch, ClassifierModel, Stage, TrainingOutcome
from pursuit.training.learner import ModelSpec

MAP_SIZE = 16
"""The largest feature map of a network is taken to be this many times its input."""


class Samples(NamedTuple):
    """Outputs of the decoder and of the label decoder for K samples."""

    outputs: Tensor  # (B, K, F) for an `AnswerLikelihood`
    labels: Tensor  # (B, K, L) probabilities of labels


class ImaginedAnswers(NamedTuple):
    """P answers that rows may give to queries, and the network's reading of the history with this answer added."""

    row: Tensor  # (P,)
    query: Tensor  # (P,)
    weight: Tensor  # (P,) the probability of the answer
    label_weight: Tensor  # (P, L) the probability of the answer together with each label
    reading: Tensor  # (P, W)


def mixture_information(likelihood: AnswerLikelihood, known: Tensor, samples: Samples) -> Tensor:
    """The mutual information of the label and the answer to each query (B, Q) in nats, if the samples were all
    there is.

    Of a query that shows several units, it is the sum over those that are not known yet.
    """
    joint = _joint(likelihood.outcomes(samples.outputs), samples.labels)  # (B, A, L)
    of_label = entr(samples.labels.mean(dim=1)).sum(dim=1, keepdim=True)
    by_unit = of_label.repeat(1, likelihood.n_units)
    by_unit.index_add_(1, likelihood.unit_of_outcome, entr(joint.sum(dim=2)) - entr(joint).sum(dim=2))
    query_set = likelihood.query_set
    if query_set.has_own_units:
        return by_unit
    return query_set.units.sum(by_unit * ~query_set.units.known(known))


def _joint(of_answers: Tensor, labels: Tensor) -> Tensor:
    """The probability of every outcome (B, K, A) with every label (B, K, L), over the samples: (B, A, L)."""
    return of_answers.transpose(1, 2) @ labels / of_answers.shape[1]


def can_be_listed(likelihood: AnswerLikelihood) -> bool:
    """Whether `listed_answers` can be used: each answer is a unit, and has inputs of its own in a network."""
    return likelihood.query_set.own_inputs is not None


def listed_answers(
    likelihood: AnswerLikelihood,
    network: nn.Module,
    network_input: Callable[[Tensor, Tensor], Tensor],
    encoded: Tensor,
    samples: Samples,
    wanted: Tensor,
    widest: int,
) -> Iterator[ImaginedAnswers]:
    """All answers to the queries `wanted` (B, Q), none of which is known; a number lies in the middle of an interval.

    `network` reads input such as `encoded` (B, inputs), which `network_input` makes of answers and which of them are
    known. The caller makes about `widest` numbers of each answer.
    """
    of_answers, query_of = likelihood.outcomes(samples.outputs), likelihood.unit_of_outcome  # (B, K, A), (A,)
    weight, joint = of_answers.mean(dim=1), _joint(of_answers, samples.labels)
    alone = likelihood.outcome_answers()  # (A, F)
    only = F.one_hot(query_of, likelihood.n_units).to(alone.dtype)  # (A, Q)
    state, of_answer, join, read = _split(network, encoded, network_input(alone, only))
    places = wanted[:, query_of].nonzero()
    for part in places.split(n_at_once(places.device, max(widest, state.shape[1]))):
        row, outcome = part.unbind(dim=1)
        reading = read(join(state[row], of_answer[outcome])).float()
        yield ImaginedAnswers(row, query_of[outcome], weight[row, outcome], joint[row, outcome], reading)


Function = Callable[..., Tensor]


def _split(network: nn.Module, encoded: Tensor, alone: Tensor) -> tuple[Tensor, Tensor, Function, Function]:
    """States of rows (B, H) and of single answers (A, H), how two are joined, and what is read from one: an answer more
    need not go through the first layer."""
    split = split_first_layer(network, network, encoded.shape[1])
    if split is None:
        return encoded, alone, torch.add, network

    def read(state: Tensor) -> Tensor:
        return split.logits(split.features(state))

    if split.max_pooled:
        return split.start(encoded), split.start(alone), torch.maximum, read
    return split.start(encoded), split.start(alone) - split.bias, torch.add, read


def drawn_answers(
    likelihood: AnswerLikelihood,
    network: nn.Module,
    network_input: Callable[[Tensor, Tensor], Tensor],
    history: History,
    encoded: Tensor,
    samples: Samples,
    wanted: Tensor,
    widest: int,
    noise: Tensor,
) -> Iterator[ImaginedAnswers]:
    """The answer of each sample to the queries `wanted` (B, Q), which may show units that are known already.

    Answers are drawn by `noise` (K, F), uniform from 0 to 1; shares, such as grey pixels, are as expected instead.
    """
    query_set, shares = likelihood.query_set, likelihood.shares
    drawn = likelihood.sample(samples.outputs, noise)  # (B, K, F)
    drawn[..., shares] = 2 * samples.outputs[..., shares].sigmoid() - 1
    is_known = query_set.units.known(history.known)[:, None, likelihood.unit_of_feature]  # (B, 1, F)
    x = torch.where(is_known, history.x.flatten(1)[:, None], drawn).unflatten(2, query_set.answer_shape)
    n_samples, places = len(noise), wanted.nonzero()
    number = torch.arange(n_samples, device=places.device).repeat(len(places))
    places = torch.cat([places.repeat_interleave(n_samples, dim=0), number[:, None]], dim=1)  # (P, 3)
    for part in places.split(n_at_once(places.device, max(widest, MAP_SIZE * encoded[0].numel()))):
        row, query, sample = part.unbind(dim=1)
        seen = encoded[row]
        if not query_set.reveal(seen, x[row, sample], query, torch.ones_like(row, dtype=torch.bool)):
            seen = network_input(x[row, sample], history.known[row].scatter(1, query[:, None], True))
        label_weight = samples.labels[row, sample] / n_samples
        weight = torch.full((len(row),), 1 / n_samples, device=row.device)
        yield ImaginedAnswers(row, query, weight, label_weight, network(seen).float())


LEAST_LABEL_WEIGHT = 16.0
"""Least weight of the label if answers are few: with less, the latent variable does not learn the label."""


@register
@dataclass(frozen=True)
class PartialVAESettings:
    """The sizes of the autoencoder, and its reward."""

    latent: int = 16
    width: int = 128
    """Width of the network's reading of the answers, and of the hidden layers around the latent variable."""
    label_weight: float | None = None
    """Weight of the label in training, in multiples of an answer's. By default half as much as all answers
    together, and at least `LEAST_LABEL_WEIGHT`."""
    reward: Literal["eddi", "label"] = "eddi"
    samples: int = 8
    """Number of samples that stand for the distribution of the latent variable: even, since they come in opposite
    pairs."""
    candidates: int | None = 16
    """Number of queries that are scored exactly: those whose answers, unit by unit, tell most about the label in the
    samples. None: all."""
    labels: int = 16
    """With reward "eddi", the most labels that are looked at; where there are more, these stand for all."""

    def __post_init__(self) -> None:
        if self.reward not in ("label", "eddi"):
            raise ValueError(f"reward is 'label' or 'eddi', not {self.reward!r}.")
        if self.samples < 2 or self.samples % 2:
            raise ValueError(f"samples come in pairs: their number is even and at least 2, not {self.samples}.")
        check_sizes(self, "latent", "width", "labels", "samples")
        if self.candidates is not None:
            check_sizes(self, "candidates")
        if self.label_weight is not None and not self.label_weight > 0:
            raise ValueError(f"label_weight is above 0, not {self.label_weight}: without it no label is learnt.")


@register
class PartialVAE(ClassifierModel):
    """An autoencoder of answers and label, and the pursuit of information by it.

    Its `classifier` reads the answers; its reading and the label, if given, are added up before the latent variable.
    Randomness is a fixed `noise`, the same for all rows: scores and posteriors are functions of the history.
    """

    Settings = PartialVAESettings
    settings: PartialVAESettings
    noise: Tensor
    answer_noise: Tensor

    @property
    def score_unit(self) -> Literal["bits"] | None:
        """Bits, where the reward is information about the label and no query has a rough score instead."""
        n_candidates = self.settings.candidates
        looks_at_all = n_candidates is None or n_candidates >= len(self.query_set)
        return "bits" if self.settings.reward == "label" and looks_at_all else None

    def __init__(self, spec: ModelSpec, classifier: nn.Module):
        super().__init__(spec, classifier)
        query_set, classes, settings = spec.query_set, spec.classes, self.settings
        self.likelihood = AnswerLikelihood(query_set)
        weight, width, latent = settings.label_weight, settings.width, settings.latent
        self.label_weight = max(self.likelihood.n_units / 2, LEAST_LABEL_WEIGHT) if weight is None else weight
        self.label = nn.Linear(len(classes), width, bias=False)
        hidden = dense_layers(width, (width,), 0.0)
        self.encoder = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), *hidden, nn.Linear(width, 2 * latent))
        self.decoder = _decoder(latent, width, self.likelihood.n_outputs)
        self.label_decoder = _decoder(latent, width, len(classes))
        generator = torch.Generator().manual_seed(0)
        half = torch.randn(settings.samples // 2, latent, generator=generator)
        self.register_buffer("noise", torch.cat([half, -half]))  # (K, latent)
        if not can_be_listed(self.likelihood):
            noise = torch.rand(settings.samples, self.likelihood.n_outputs, generator=generator)
            self.register_buffer("answer_noise", noise)  # (K, F)

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, **parts: Any) -> Self:
        """Its `classifier` is the network that reads the answers."""
        assert spec.network is not None
        width = (spec.settings or PartialVAESettings()).width
        return cls(spec, spec.network.build(spec.query_set, width, shared=False)[1])

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The bound on a batch of histories, and random queries (B,), by which carried histories go on."""
        x, y = batch.x, batch.y
        is_given = torch.rand(len(y), 1, device=y.device) < 0.5
        label = F.one_hot(y, len(self.classes)) * is_given
        reading = self.classifier(self.network_input(x, batch.known.to(x.dtype)))
        latent = self.latent(reading + self.label(label.to(x.dtype)))
        z = latent.sample(torch.randn_like(latent.mean))
        is_known = self.query_set.units.known(batch.known)  # (B, U)
        of_answers = self.likelihood.log_prob(self.decoder(z), x.flatten(1)) * is_known
        bound = batch.mean(latent.divergence_from_standard() - of_answers.sum(dim=1))
        of_label = batch.label_loss(self.label_decoder(z).float())
        query = choose(torch.rand(batch.asked.shape, device=y.device), self.closed(batch))
        return TrainingOutcome(of_label + bound / self.label_weight, query)

    def latent(self, reading: Tensor) -> Gaussian:
        """The distribution of the latent variable given the reading of the answers, with the label's part, if added."""
        return Gaussian.from_outputs(self.encoder(reading))

    def labels(self, z: Tensor) -> Tensor:
        """The probabilities of the labels (..., C) given the latent variable."""
        return self.label_decoder(z).float().softmax(dim=-1)

    def mean_labels(self, latent: Gaussian) -> Tensor:
        """The probabilities of the labels (B, C) over the samples of each distribution."""
        return self.labels(latent.at((slice(None), None)).sample(self.noise)).mean(dim=1)

    def log_posterior(self, history: History) -> Tensor:
        with torch.autocast(history.x.device.type, enabled=False):
            reading = self.classifier(self.network_input(history.x, history.known))
            posterior = self.mean_labels(self.latent(reading))
        least = torch.finfo(posterior.dtype).tiny
        return self.log_probabilities(posterior.clamp(min=least).log(), history.n_known)

    @torch.no_grad()
    def scores(self, history: History) -> Tensor:
        n_outcomes, device = len(self.likelihood.unit_of_outcome), history.x.device
        n_rows = n_at_once(device, n_outcomes * max(len(self.noise), len(self.classes)))
        with torch.autocast(device.type, enabled=False):  # information differs little from query to query
            parts = torch.arange(len(history), device=device).split(n_rows)
            return torch.cat([self._scores(history.rows(part)) for part in parts])

    def _scores(self, history: History) -> Tensor:
        encoded = self.network_input(history.x, history.known)
        reading = self.classifier(encoded)
        latent = self.latent(reading)
        z = latent.at((slice(None), None)).sample(self.noise)  # (B, K, latent)
        samples = Samples(self.decoder(z).float(), self.labels(z))
        rough = mixture_information(self.likelihood, history.known, samples)
        closed = self.closed(history)
        wanted = ~closed
        if self.settings.candidates is not None and self.settings.candidates < wanted.shape[1]:
            best = rough.masked_fill(closed, -torch.inf).topk(self.settings.candidates, dim=1).indices
            wanted = wanted & torch.zeros_like(wanted).scatter(1, best, True)
        if self.settings.reward == "label":
            reward = self._label_reward(self._imagined(history, encoded, samples, wanted), wanted)
        else:
            chosen, share = some_labels(samples.labels.mean(dim=1), self.settings.labels)
            by_sample = samples.labels.gather(2, chosen[:, None].expand(-1, len(self.noise), -1)) * share[:, None]
            imagined = self._imagined(history, encoded, Samples(samples.outputs, by_sample), wanted)
            reward = self._eddi_reward(imagined, wanted, reading, latent, chosen)
        # What is not looked at closely comes after, in the order of the rough information.
        least = reward.masked_fill(~wanted, torch.inf).amin(dim=1, keepdim=True).clamp(max=0)
        return torch.where(wanted, reward, least - 1 + rough - rough.amax(dim=1, keepdim=True))

    def _imagined(
        self, history: History, encoded: Tensor, samples: Samples, wanted: Tensor
    ) -> Iterator[ImaginedAnswers]:
        """Answers to the queries `wanted` (B, Q)."""
        n_labels, width = samples.labels.shape[2], self.settings.width
        widest = max(len(self.noise) * max(width, n_labels), n_labels * width)
        model = self.likelihood, self.classifier, self.network_input
        if can_be_listed(self.likelihood):
            return listed_answers(*model, encoded, samples, wanted, widest)
        return drawn_answers(*model, history, encoded, samples, wanted, widest, self.answer_noise)

    def _label_reward(self, imagined: Iterator[ImaginedAnswers], wanted: Tensor) -> Tensor:
        """The mutual information (B, Q) in bits of the label and each of the queries `wanted` (B, Q)."""
        uncertainty = torch.zeros(wanted.numel(), device=wanted.device)
        marginal = torch.zeros(wanted.numel(), len(self.classes), device=wanted.device)
        for answer in imagined:
            place = answer.row * wanted.shape[1] + answer.query
            posterior = self.mean_labels(self.latent(answer.reading))
            uncertainty.index_add_(0, place, answer.weight * entr(posterior).sum(dim=1))
            marginal.index_add_(0, place, answer.weight[:, None] * posterior)
        return (entr(marginal).sum(dim=1) - uncertainty).view(wanted.shape) / BIT

    def _eddi_reward(
        self, imagined: Iterator[ImaginedAnswers], wanted: Tensor, reading: Tensor, latent: Gaussian, chosen: Tensor
    ) -> Tensor:
        """The same for EDDI's reward, over the labels `chosen` (B, L)."""
        reward = torch.zeros(wanted.numel(), device=wanted.device)
        of_label = self.label.weight.T[chosen]  # (B, L, W)
        latent_by_label = self.latent(reading[:, None] + of_label)
        for row, query, weight, label_weight, further in imagined:
            gained = weight * self.latent(further).divergence(latent.at(row))
            by_label = self.latent(further[:, None] + of_label[row]).divergence(latent_by_label.at(row))  # (P, L)
            reward.index_add_(0, row * wanted.shape[1] + query, gained - (label_weight * by_label).sum(dim=1))
        return reward.view(wanted.shape)


def _decoder(latent: int, width: int, n_outputs: int) -> nn.Sequential:
    return nn.Sequential(*dense_layers(latent, (width,), 0.0), nn.Linear(width, n_outputs))


@method("partial-vae", "Partial VAE")
@dataclass(kw_only=True, eq=False, repr=False)
class PartialVAEClassifier(MethodClassifier, NetworkClassifier):
    """Asks by the information that a partial VAE expects of each query: EDDI and BSODA on tables, probabilistic hard
    attention on images. The `network` reads the answers; EDDI's own is a `SetNetwork`."""

    uses_weights = True
    Model = PartialVAE

    Settings = PartialVAESettings
    settings: PartialVAESettings | None = None
    """The sizes of the autoencoder, and its reward."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        return of_random_queries(stages)
