"""G-IP: Information Pursuit by a generative model of all answers (Chattopadhyay et al. 2022, Interpretable by Design).

A variational autoencoder learns how answers come about: p(answers | z, y), where z is standard normal whatever the
label y is, and answers are independent given both. What a history S leaves open of z is sampled by Langevin's
algorithm, in M chains z_m ~ p(z | y, S) for every label, which each new answer a moves on:

    p(a | y, S)     = mean over m of p(a | z_m, y)
    p(y | S, a) is proportional to p(y | S) p(a | y, S)
    I(a; y | S)     = H(sum over y of p(y | S) p(a | y, S)) - sum over y of p(y | S) H(p(a | y, S))

The query with the most information I comes next; scores are that information in bits. `GIPSettings.released` are the
settings of the authors' code, in which chains go on after every answer until they have passed through 12,000 samples.
"""

import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from pursuit.estimators import LearnerClassifier, MethodClassifier, method
from pursuit.inference.history import History
from pursuit.inference.incremental import EvidenceState, HistoryState
from pursuit.inference.pursuer import Labels
from pursuit.inference.stopping import BIT
from pursuit.methods.shared.generative import AnswerLikelihood, Gaussian, n_at_once
from pursuit.networks.settings import check_sizes
from pursuit.queries import QuerySet
from pursuit.registry import register, settings_from, to_config
from pursuit.training import Batch, Learner, RandomHistories, Stage, TrainingOutcome
from pursuit.training.rows import RowSource

logger = logging.getLogger(__name__)


@register
@dataclass(frozen=True)
class Langevin:
    """Unadjusted: every step is accepted, and samples are exact only as `step` goes to zero.

    The burn-in is G-IP's. `released` has the other numbers of its code too, which take far longer. `scaled` is quicker
    where answers say much about z.
    """

    n_chains: int = 12
    burn_in: int = 20
    """Steps after each answer before chains count as samples. They go on from where they were."""
    step: float = 0.1
    """The variance of the noise in a step; where steps are scaled, in multiples of the variance of the density."""
    clip: float | None = 10.0
    """The greatest length of a gradient. None: the steps are scaled instead."""
    cut: float | None = None
    """Instead of both: the greatest length of the gradients of all chains of a label together. Where they are longer,
    the step is shorter by as much, noise included."""
    n_samples: int | None = None
    """Samples of each label: after the burn-in, chains go on until they have passed through that many. None: one for
    each chain."""

    def __post_init__(self) -> None:
        lengths = [length for length in (self.clip, self.cut) if length is not None]
        if self.n_chains < 2 or self.burn_in < 1 or not self.step > 0 or not all(length > 0 for length in lengths):
            raise ValueError(
                "Langevin's algorithm needs at least 2 chains, a burn-in of at least 1 step, and a step, a clip and a "
                f"cut above 0, not {self}."
            )
        if len(lengths) == 2:
            raise ValueError(f"Gradients are clipped or steps cut, not both: {self}.")
        if self.n_samples is not None and self.n_samples < self.n_chains:
            raise ValueError(f"Each chain gives at least one sample, so n_samples is at least n_chains, not {self}.")

    @classmethod
    def scaled(cls, n_chains: int = 48, burn_in: int = 5, step: float = 0.5) -> Self:
        """Many chains, each moved on by a few steps that are as long as the density is wide."""
        return cls(n_chains, burn_in, step, clip=None)

    @classmethod
    def released(cls, n_chains: int = 256, n_samples: int = 12_000) -> Self:
        """The numbers of the authors' code for images and birds: z moves by 0.1 of the gradient and noise of variance
        0.2, both less where gradients are cut. For texts it has 512 chains and 10,000 samples."""
        return cls(n_chains, burn_in=20, step=0.2, clip=None, cut=100.0, n_samples=n_samples)

    def path(self, slope: Callable[[Tensor], Tensor], z: Tensor, noise: Tensor) -> Iterator[Tensor]:
        """The chains `z` (..., M, L) after each step, M for each density; `slope` gives the gradient of its logarithm
        at chains, and `noise` (steps, ..., M, L) is standard normal."""
        for push in noise:
            gradient = slope(z)
            variance = self._variance(gradient)
            if self.clip is not None:
                gradient *= self.clip / gradient.norm(dim=-1, keepdim=True).clamp(min=self.clip)
            z = z + self.step / 2 * variance * gradient + (self.step * variance).sqrt() * push
            yield z

    def _variance(self, gradient: Tensor) -> Tensor:
        """The scale of steps (..., 1, 1): if answers say much about z, its density is narrow, and a step that suits the
        prior would leave it.

        The mean squared gradient over samples of a density, here the M chains, estimates the inverse of its variance.
        It is at least 1, because the prior is standard normal.
        """
        if self.clip is not None:
            return torch.ones_like(gradient[..., :1, :1])
        if self.cut is not None:
            return self.cut / gradient.norm(dim=(-2, -1), keepdim=True).clamp(min=self.cut)
        return 1 / gradient.square().mean(dim=(-2, -1), keepdim=True).clamp(min=1)


LARGE_IMAGE = 16
"""From this many pixels a side."""
MOST_PARTS = 16
"""A history of more answers than this is taken in by this many parts of a few answers each."""


@register
@dataclass(frozen=True)
class ConvLayers:
    """Layers of a convolutional autoencoder of images."""

    channels: tuple[int, int, int, int] = (32, 64, 128, 256)
    """Of the four convolutions of the encoder; the decoder goes the same way back."""
    dense: int = 2048
    """Numbers in the encoder's layer behind them."""

    def __post_init__(self) -> None:
        check_sizes(self, "channels", "dense")


@register
@dataclass(frozen=True)
class GIPSettings:
    """The sizes of the autoencoder, and how z is sampled: more chains ask better, at a cost that grows with them."""

    latent: int = 8
    hidden: tuple[int, ...] | ConvLayers = (64,)
    """Layers of the decoder, and of the encoder in reverse; or `ConvLayers`, for images."""
    langevin: Langevin = field(default_factory=Langevin)

    def __post_init__(self) -> None:
        check_sizes(self, "latent", *(() if isinstance(self.hidden, ConvLayers) else ("hidden",)))
        if self.hidden == ():
            raise ValueError("G-IP needs at least one hidden layer.")

    @classmethod
    def suiting(cls, query_set: QuerySet) -> Self:
        """Larger sizes for large images."""
        return cls(latent=32, hidden=(512, 512)) if _has_large_images(query_set) else cls()

    @classmethod
    def released(cls, query_set: QuerySet, langevin: Langevin | None = None) -> Self:
        """As in the authors' code, which takes minutes for a few queries on a CPU: 100 latent numbers, convolutions for
        large images, and Langevin's algorithm with its chains, samples, step and cut.

        Three things differ. Fully connected layers, and the last ones of the encoder of images, are ours: smooth and
        without BatchNorm. The training plan is the estimator's. A history that is given as a whole, and not asked
        answer by answer, is taken in by the chains alone.
        """
        langevin = langevin or Langevin.released()
        return cls(100, ConvLayers() if _has_large_images(query_set) else (128, 512), langevin)


def _has_large_images(query_set: QuerySet) -> bool:
    return query_set.patches is not None and min(query_set.patches.image_shape[1:]) >= LARGE_IMAGE


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
        self.encoder: nn.Module
        self.decoder: _Decoder | _ConvDecoder
        if isinstance(hidden, ConvLayers):
            sizes = _ImageSizes.of(query_set)
            self.encoder = _ConvEncoder(sizes, hidden, n_classes, 2 * latent)
            self.decoder = _ConvDecoder(sizes, hidden, n_classes, latent)
            return
        n_inputs = self.likelihood.n_outputs + self.likelihood.n_units + n_classes
        self.encoder = nn.Sequential(*_smooth_layers((n_inputs, *reversed(hidden), 2 * latent)))
        self.decoder = _Decoder(latent, n_classes, (*hidden, self.likelihood.n_outputs))

    def forward(self, batch: Batch) -> TrainingOutcome:
        """Minus the evidence lower bound of all answers that a row has, known or not."""
        there = self.query_set.units.known(batch.available)  # (B, U)
        x = self.known_answers(batch.x, there)
        label = F.one_hot(batch.y, len(self.classes)).to(x.dtype)
        mean, log_variance = Gaussian.from_outputs(self.encoder(torch.cat([x, there.to(x.dtype), label], dim=1)))
        z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        log_prob = (self.likelihood.log_prob(self.decoder(z, batch.y), x) * there).sum(dim=1)
        divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum(dim=1)
        return TrainingOutcome(batch.mean(divergence - log_prob))

    def known_answers(self, x: Tensor, units: Tensor) -> Tensor:
        """The answers x to these units (B, U) alone, and zero elsewhere: (B, F)."""
        return torch.where(units[:, self.likelihood.unit_of_feature], x.flatten(1).float(), 0.0)

    def scores(self, history: History) -> Tensor:
        return self.history_state(history).scores()

    def log_posterior(self, history: History) -> Tensor:
        return self.history_state(history).log_posterior()

    def history_state(self, history: History) -> HistoryState:
        return _LangevinState(self._frozen(), history)

    def _frozen(self) -> Self:
        """The same model with a decoder that no longer learns."""
        frozen = copy(self)
        frozen._modules = {**self._modules, "decoder": self.decoder.frozen()}
        return frozen

    def decoded(self, z: Tensor) -> Tensor:
        """The decoder's outputs (B, C, M, F) at chains z (B, C, M, L), each with its label."""
        return _decoded(self.decoder, z)

    def log_prob(self, z: Tensor, x: Tensor, units: Tensor) -> Tensor:
        """The log probability (B, C, M) of the answers x (B, F) to these units (B, U) at chains z (B, C, M, L)."""
        return self.log_prob_of(self.decoded(z), x, units)

    def log_prob_of(self, outputs: Tensor, x: Tensor, units: Tensor) -> Tensor:
        """The same, given what the chains decode to (B, C, M, F)."""
        return (self.likelihood.log_prob(outputs, x[:, None, None]) * units[:, None, None]).sum(dim=3)

    def path(
        self, z: Tensor, x: Tensor, seen: Tensor, noise: Tensor, outputs: list[Tensor] | None = None
    ) -> Iterator[Tensor]:
        """Chains z (B, C, M, L) moved towards p(z | y, S) step by step, S being the answers x (B, F) to the units seen
        (B, U). What they decode to before each step (B, C, M, F) is added to `outputs`."""

        def slope(z: Tensor) -> Tensor:
            gradient, decoded = self._slope(z, x, seen)
            if outputs is not None:
                outputs.append(decoded)
            return gradient

        return self.settings.langevin.path(slope, z, noise)

    def _slope(self, z: Tensor, x: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of log p(z, S | y) at chains z (B, C, M, L), of as many at a time as memory is for, and what
        they decode to."""
        density = _log_density
        if z.is_cuda and self.settings.langevin.n_samples is not None:
            density = _compiled(_log_density)
        gradients, outputs = [], []
        for part in z.detach().split(self.chains_at_once(len(z)), dim=2):
            part.requires_grad_()
            fastest = torch.backends.cudnn.flags(enabled=True, benchmark=z.is_cuda)
            with torch.enable_grad(), fastest:
                log_density, decoded = density(self.decoder, self.likelihood, part, x, seen)
                gradients += torch.autograd.grad(log_density, part)
            outputs.append(decoded)
        return (gradients[0], outputs[0]) if len(outputs) == 1 else (torch.cat(gradients, 2), torch.cat(outputs, 2))

    def chains_at_once(self, n_rows: int) -> int:
        """Number of chains for each label of each row that are decoded at once."""
        return n_at_once(self.log_prior.device, n_rows * len(self.classes) * self._numbers_a_chain)

    def information(self, z: Tensor, seen: Tensor, log_posterior: Tensor, noise: Tensor) -> Tensor:
        """The mutual information (B, Q) of every answer with the label in bits, at chains z (B, C, M, L), units seen
        (B, U) and a log posterior (B, C); `noise` (M, F), uniform, draws answers that are too many to list."""
        return label_information(self.likelihood, self.decoded(z).float(), seen, log_posterior, noise) / BIT

    @property
    def rows_at_once(self) -> int:
        """Number of rows whose chains are moved at once."""
        n_chains = len(self.classes) * self.settings.langevin.n_chains
        return n_at_once(self.log_prior.device, n_chains * self._numbers_a_chain)

    @property
    def _numbers_a_chain(self) -> int:
        likelihood = self.likelihood
        n_numbers = self.decoder.n_hidden + 3 * likelihood.n_outputs
        if likelihood.units_a_query == 1:
            n_numbers += len(likelihood.unit_of_outcome)
        elif not likelihood.is_binary:
            n_numbers += len(self.query_set) * likelihood.units_a_query
        return n_numbers

    def to_config(self) -> dict[str, Any]:
        return {"settings": to_config(self.settings), "seed": self.seed}

    @classmethod
    def from_config(cls, query_set: QuerySet, classes: Labels, config: dict[str, Any]) -> Self:
        return cls(query_set, classes, settings_from(config["settings"], GIPSettings), seed=config["seed"])


def _decoded(decoder: nn.Module, z: Tensor) -> Tensor:
    """What chains z (B, C, M, L), each with its label, decode to (B, C, M, F): numbers of 16 bits on a GPU, with errors
    far below the scatter of samples."""
    labels = torch.arange(z.shape[1], device=z.device)[:, None]
    with torch.autocast(z.device.type, torch.bfloat16, enabled=z.is_cuda):
        outputs: Tensor = decoder(z, labels)
    return outputs


def _log_density(
    decoder: nn.Module, likelihood: AnswerLikelihood, z: Tensor, x: Tensor, seen: Tensor
) -> tuple[Tensor, Tensor]:
    """The sum of log p(z, S | y) over chains z (B, C, M, L), S being the answers x (B, F) to the units seen (B, U); and
    what they decode to (B, C, M, F)."""
    outputs = _decoded(decoder, z)
    log_prob = likelihood.log_prob(outputs, x[:, None, None]) * seen[:, None, None]
    return log_prob.sum() - (z**2).sum() / 2, outputs.detach()


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled for a GPU, or as it is where it cannot be compiled, which a line in the log says."""
    compiled = torch.compile(function, dynamic=False)

    def run(*inputs: Any) -> Any:
        nonlocal compiled
        try:
            return compiled(*inputs)
        except Exception as error:  # whatever a compiler may find missing
            if compiled is function:
                raise
            logger.warning("Sampling is not compiled: %s", str(error).strip().splitlines()[0])
            compiled = function
            return function(*inputs)

    return run


class _Decoder(nn.Module):
    """From z (..., L) and labels y (...) to the outputs (..., F) for an `AnswerLikelihood`."""

    def __init__(self, n_latent: int, n_classes: int, sizes: tuple[int, ...]):
        super().__init__()
        self.latent, self.label = nn.Linear(n_latent, sizes[0]), nn.Embedding(n_classes, sizes[0])
        self.rest = nn.Sequential(nn.SiLU(), *_smooth_layers(sizes))
        self.usual = nn.Embedding(n_classes, sizes[-1])
        nn.init.zeros_(self.usual.weight)
        self.n_hidden = 2 * sum(sizes[:-1])  # numbers that a gradient needs

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return self.rest(self.latent(z) + self.label(y)) + self.usual(y)

    def frozen(self) -> Self:
        """A copy that nothing is learnt by: a compiler leaves the gradients of its weights out."""
        return deepcopy(self).requires_grad_(False)


def _smooth_layers(sizes: tuple[int, ...]) -> list[nn.Module]:
    """Linear layers with a smooth function between them, so that gradients in z are smooth."""
    layers: list[nn.Module] = []
    for n_inputs, n_outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(n_inputs, n_outputs), nn.SiLU()]
    return layers[:-1]


class _ImageSizes(NamedTuple):
    """Images (n, height, width), and how large they are behind the first and the second half of the convolutions."""

    image: tuple[int, int, int]
    middle: tuple[int, int]
    last: tuple[int, int]

    @classmethod
    def of(cls, query_set: QuerySet) -> Self:
        patches = query_set.patches
        if patches is None or min(patches.image_shape[1:]) < LARGE_IMAGE:
            raise ValueError(f"Convolutions of G-IP are for patches of images of at least {LARGE_IMAGE} pixels a side.")
        middle = _halved(patches.image_shape[1:])
        return cls(patches.image_shape, middle, _halved(middle))


def _halved(shape: Sequence[int]) -> tuple[int, int]:
    """The shape behind two convolutions of 3x3 pixels without padding, and a maximum of 2x2."""
    height, width = ((n - 4) // 2 for n in shape)
    return height, width


def _normed(layer: nn.Module, n_channels: int) -> list[nn.Module]:
    return [layer, nn.BatchNorm2d(n_channels), nn.LeakyReLU(0.3, inplace=True)]


class _ConvEncoder(nn.Module):
    """From answers, which of them are there, and the one-hot label (B, 2 F + C) to numbers (B, n_outputs).

    A maximum over 2x2 pixels is behind each pair of convolutions, and a mean over all pixels behind the last."""

    def __init__(self, sizes: _ImageSizes, layers: ConvLayers, n_classes: int, n_outputs: int):
        super().__init__()
        self.image_shape, channels = sizes.image, layers.channels
        widths = (2 * sizes.image[0], *channels)
        first, second, third, fourth = (_normed(nn.Conv2d(*pair, 3), pair[1]) for pair in itertools.pairwise(widths))
        self.convolutions = nn.Sequential(*first, *second, nn.MaxPool2d(2), *third, *fourth, nn.MaxPool2d(2))
        self.label = nn.Linear(n_classes, channels[-1])
        self.dense = nn.Sequential(*_smooth_layers((2 * channels[-1], layers.dense, n_outputs)))

    def forward(self, inputs: Tensor) -> Tensor:
        n_features = math.prod(self.image_shape)
        images, label = inputs.split([2 * n_features, inputs.shape[1] - 2 * n_features], dim=1)
        images = images.unflatten(1, (2 * self.image_shape[0], *self.image_shape[1:]))
        found = self.convolutions(images).mean(dim=(2, 3))
        return self.dense(torch.cat([found, self.label(label)], dim=1))


class _ConvDecoder(nn.Module):
    """As `_Decoder`, from one pixel to the image by the transposes of the encoder's layers."""

    def __init__(self, sizes: _ImageSizes, layers: ConvLayers, n_classes: int, n_latent: int):
        super().__init__()
        first, second, third, last = layers.channels
        self.latent, self.label = nn.Linear(n_latent, last), nn.Embedding(n_classes, last)
        transposed = nn.ConvTranspose2d
        self.rest = nn.Sequential(
            nn.LeakyReLU(0.3),
            *_normed(transposed(last, last, sizes.last), last),
            *_normed(_doubled(last, sizes.last, sizes.middle), last),
            *_normed(transposed(last, third, 3), third),
            *_normed(transposed(third, second, 3), second),
            *_normed(_doubled(second, sizes.middle, sizes.image[1:]), second),
            *_normed(transposed(second, first, 3), first),
            transposed(first, sizes.image[0], 3),
        )
        (height, width), (whole_height, whole_width) = sizes.middle, sizes.image[1:]
        n_pixels = (height - 4) * (width - 4) * last + (height - 2) * (width - 2) * third + height * width * second
        n_pixels += (whole_height - 4) * (whole_width - 4) * second + (whole_height - 2) * (whole_width - 2) * first
        self.n_hidden = 3 * (n_pixels + math.prod(sizes.last) * last)  # of a convolution, of its norm, and behind it

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        hidden = self.latent(z) + self.label(y)
        return self.rest(hidden.flatten(0, -2)[..., None, None]).flatten(1).unflatten(0, hidden.shape[:-1])

    def frozen(self) -> Self:
        """As of `_Decoder`, with every norm in the convolution before it: most of the time goes into reading and
        writing maps, and so there are fewer of them, with their channels last, as the fastest kernels of a GPU want
        them."""
        frozen, layers = deepcopy(self).eval(), list[nn.Module]()
        for layer in frozen.rest:
            if isinstance(layer, nn.BatchNorm2d):
                layers[-1] = fuse_conv_bn_eval(layers[-1], layer, transpose=True)  # type: ignore[type-var]
            else:
                layers.append(layer)
        frozen.rest = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return frozen.requires_grad_(False)


def _doubled(n_channels: int, small: Sequence[int], large: Sequence[int]) -> nn.Module:
    """To about twice the size: what two convolutions of 3x3 pixels leave of `large`."""
    left_over = [to - 4 - 2 * n for n, to in zip(small, large, strict=True)]
    return nn.ConvTranspose2d(n_channels, n_channels, 2, 2, output_padding=(left_over[0], left_over[1]))


KEPT_NUMBERS, KEPT_BYTES_ON_GPU = 2**29, 8
"""About how many numbers of samples a state keeps, and on a GPU how many bytes of its memory there are for each of
them; samples of further rows are drawn again, which gives the same."""


PRIOR = -1
"""In place of a row's number: of rows without answers."""


class _Samples(NamedTuple):
    """The samples of a row, and what they decode to, if that is kept."""

    z: Tensor  # (1, C, N, L)
    outputs: Tensor | None = None  # (1, C, N, F)

    def decoded(self, model: GIP) -> Iterator[Tensor]:
        """What they decode to, of as many at a time as memory is for."""
        n_chains = model.chains_at_once(1)
        if self.outputs is not None:
            yield from self.outputs.split(n_chains, dim=2)
        else:
            yield from map(model.decoded, self.z.split(n_chains, dim=2))


class _LangevinState(EvidenceState):
    """The chains of B rows, moved on by every answer.

    If there are more samples than chains, the chains stand where the burn-in left them, and samples are drawn row by
    row when they are needed.
    """

    @torch.no_grad()
    def __init__(self, model: GIP, history: History):
        self._model, self._x, self._asked = model, history.x, history.asked.clone()
        self._rows = torch.arange(len(history), device=history.x.device)
        self._generator = torch.Generator().manual_seed(model.seed)
        n_classes, latent, langevin = len(model.classes), model.settings.latent, model.settings.langevin
        n_samples = langevin.n_samples or langevin.n_chains
        # Before the first answer, samples are those of the prior.
        self._start = torch.randn(n_samples, latent, generator=self._generator).to(self._x.device)  # (N, L)
        self._z = self._start[: langevin.n_chains].repeat(len(history), n_classes, 1, 1)  # (B, C, M, L)
        self._is_sampled = n_samples > langevin.n_chains
        self._samples: dict[int, _Samples] = {}
        self._draw_noise()
        self._seen = model.query_set.units.known(torch.zeros_like(history.known))  # (B, U)
        self._evidence = model.log_prior.repeat(len(history), 1)  # (B, C): log p(y, S)
        n_known, number = history.known.sum(dim=1, keepdim=True), history.known.cumsum(dim=1) - 1
        part = number * n_known.clamp(max=MOST_PARTS) // n_known.clamp(min=1)  # (B, Q) when an answer is taken in
        for turn in range(min(MOST_PARTS, int(n_known.max()) if len(history) else 0)):
            self._take_in(history.known & (part == turn))
        self._generator.manual_seed(model.seed + 1)  # what comes must not depend on the longest history here
        self._draw_noise()

    @torch.no_grad()
    def scores(self) -> Tensor:
        model, log_posterior = self._model, self.log_posterior()
        generator = torch.Generator().manual_seed(model.seed)
        noise = torch.rand(self._z.shape[2], model.likelihood.n_outputs, generator=generator).to(self._z.device)
        with torch.autocast(self._z.device.type, enabled=False):
            if self._is_sampled:
                parts = [
                    sampled_information(model, self._sample(row), self._seen[row], log_posterior[row], noise)
                    for row in range(len(self._z))
                ]
            else:
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
        known = F.one_hot(query, self._asked.shape[1]).bool() & answered[:, None]
        if self._is_sampled:
            self._weigh(known)
        self._take_in(known, weighs=not self._is_sampled)

    def _weigh(self, known: Tensor) -> None:
        """Update the posterior by the answers that become known (B, Q) and all samples, a few of which chains go on
        from: the same ones of all rows and labels."""
        model, langevin = self._model, self._model.settings.langevin
        new = model.query_set.units.known(known) & ~self._seen  # (B, U)
        chosen = torch.randperm(len(self._start), generator=self._generator)[: langevin.n_chains].to(self._z.device)
        with torch.autocast(self._z.device.type, enabled=False):
            for row in new.any(dim=1).nonzero()[:, 0].tolist():
                x = model.known_answers(self._x[self._rows[row]][None], new[row : row + 1])
                samples = self._sample(row)
                log_prob = [model.log_prob_of(outputs, x, new[row : row + 1]) for outputs in samples.decoded(model)]
                self._evidence[row] += torch.cat(log_prob, dim=2)[0].logsumexp(dim=1) - math.log(len(self._start))
                self._z[row] = samples.z[0, :, chosen]

    def _sample(self, row: int) -> _Samples:
        """The samples of p(z | y, S) of a row: where its chains are now, and on their way from there."""
        model, n_classes = self._model, self._z.shape[1]
        is_started = bool(self._seen[row].any())
        number = int(self._rows[row]) if is_started else PRIOR
        if number in self._samples:
            return self._samples[number]
        keeps = self._n_to_keep() > 0
        if not is_started:
            prior = _Samples(self._start.expand(1, n_classes, -1, -1))
            if keeps:
                prior = self._samples[PRIOR] = prior._replace(outputs=torch.cat([*prior.decoded(model)], dim=2))
            return prior
        rows = self._rows_to_sample(row)
        z, seen, numbers = self._z[rows], self._seen[rows], self._rows[rows]
        outputs: list[Tensor] = []
        x, noise = model.known_answers(self._x[numbers], seen), self._noise.to(z.device)
        path = [z, *model.path(z, x, seen, noise, outputs if keeps else None)]
        n_samples = len(self._start)
        found = [torch.cat(path, dim=2)[:, :, :n_samples]]
        if keeps:
            found.append(torch.cat([*outputs, model.decoded(path[-1])], dim=2)[:, :, :n_samples])
        samples = [_Samples(*parts) for parts in zip(*(part.split(1) for part in found), strict=True)]
        if keeps:
            self._samples.update(zip(numbers.tolist(), samples, strict=True))
        return samples[0]

    def _rows_to_sample(self, row: int) -> Tensor:
        """This row, and as many further ones without samples as are moved at once and can be kept."""
        n_rows = max(1, min(self._model.rows_at_once, self._n_to_keep()))
        seen, numbers = self._seen[row:].any(dim=1).tolist(), self._rows[row:].tolist()
        rows = [row + i for i, number in enumerate(numbers) if seen[i] and number not in self._samples]
        return torch.tensor(rows[:n_rows], device=self._z.device)

    def _n_to_keep(self) -> int:
        """Number of further rows whose samples can be kept."""
        model, kept = self._model, KEPT_NUMBERS
        if self._z.is_cuda:
            kept = torch.cuda.get_device_properties(self._z.device).total_memory // KEPT_BYTES_ON_GPU
        n_numbers = len(model.classes) * len(self._start) * (self._start.shape[1] + model.likelihood.n_outputs)
        return kept // n_numbers - len(self._samples)

    def _draw_noise(self) -> None:
        """The noise of the steps (n, M, L) that samples are drawn by, until the next answer."""
        self._samples.clear()
        if self._is_sampled:
            n_steps = math.ceil(len(self._start) / self._z.shape[2]) - 1
            self._noise = torch.randn(n_steps, *self._z.shape[2:], generator=self._generator)

    def _take_in(self, known: Tensor, weighs: bool = True) -> None:
        """Move the chains of rows on by the answers that become known (B, Q). If it `weighs` these, the posterior is
        updated by the chains."""
        model, langevin = self._model, self._model.settings.langevin
        new = model.query_set.units.known(known) & ~self._seen  # (B, U)
        self._seen = self._seen | new
        noise = torch.randn(langevin.burn_in, *self._z.shape[2:], generator=self._generator).to(self._z.device)
        changed = new.any(dim=1).nonzero()[:, 0]
        with torch.autocast(self._z.device.type, enabled=False):
            for part in self._parts(len(changed)):
                rows = changed[part]
                z, seen = self._z[rows], self._seen[rows]
                x = model.known_answers(self._x[self._rows[rows]], seen)
                if weighs:
                    self._evidence[rows] += model.log_prob(z, x, new[rows]).logsumexp(dim=2) - math.log(z.shape[2])
                for moved in model.path(z, x, seen, noise):
                    z = moved
                self._z[rows] = z
        self._draw_noise()

    def restart(self, history: History) -> HistoryState:
        return _LangevinState(self._model, history)

    def keep(self, rows: Tensor) -> None:
        super().keep(rows)
        self._z, self._seen = self._z[rows], self._seen[rows]


@method("g-ip", "G-IP")
@dataclass(kw_only=True, eq=False, repr=False)
class GIPClassifier(MethodClassifier, LearnerClassifier):
    """G-IP: a generative model of answers, and the information of every query computed from it. Its autoencoder learns
    from as many rows as `stages` have histories, in the same batches."""

    uses_weights = True

    Settings = GIPSettings
    settings: GIPSettings | None = None
    """The sizes of the autoencoder, and how z is sampled. By default `GIPSettings.suiting` the query set."""

    def make_learner(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> GIP:
        return GIP(query_set, self.classes_, self.settings, prior)  # None: what suits the query set

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        """All answers of a row are learnt from, so that its history does not matter."""
        return [replace(stage, histories=RandomHistories(0)) for stage in stages]


LISTED_UNITS = 9
"""Up to this many units of two values, all that a query may show is listed; above it, answers are drawn."""


def label_information(
    likelihood: AnswerLikelihood, outputs: Tensor, seen: Tensor, log_posterior: Tensor, noise: Tensor
) -> Tensor:
    """The mutual information (B, Q) of the label and every answer in nats, from outputs (B, C, M, F), units that are
    `seen` (B, U) and tell nothing new, and a log posterior (B, C); `noise` (M, F), uniform, draws answers."""
    query_set = likelihood.query_set
    if likelihood.units_a_query == 1:
        gain = _gain(likelihood.outcomes(outputs).mean(dim=2), log_posterior)  # (B, A)
        by_unit = torch.zeros(seen.shape, device=seen.device).index_add(1, likelihood.unit_of_outcome, gain)
        return query_set.units.sum(by_unit * ~seen)
    if not likelihood.is_binary:
        return _drawn_gain(likelihood, outputs, ~seen, log_posterior, noise)
    unseen = ~seen[:, likelihood.unit_of_feature]  # (B, F)
    # What was seen is certain: such pixels are dark in all that is listed, and left out of what is drawn.
    if likelihood.units_a_query <= LISTED_UNITS:
        yes = outputs.sigmoid() * unseen[:, None, None]
        listed = (_listed(yes, features) for features in _some_queries(likelihood, outputs))
        return torch.cat([_gain(outcomes, log_posterior).sum(dim=2) for outcomes in listed], dim=1)
    drawn = (noise < outputs.sigmoid()).float() * unseen[:, None, None]
    parts = [
        _drawn_binary_gain(outputs[..., features], drawn[..., features], unseen[:, features], log_posterior)
        for features in _some_queries(likelihood, outputs)
    ]
    return torch.cat(parts, dim=1)


def sampled_information(model: GIP, samples: _Samples, seen: Tensor, log_posterior: Tensor, noise: Tensor) -> Tensor:
    """As `GIP.information` of one row (1, Q), at more samples than can be decoded at once. Where answers are too many
    to list, these are drawn from as many of them as there are chains."""
    likelihood, query_set, n_samples = model.likelihood, model.query_set, samples.z.shape[2]
    seen, log_posterior = seen[None], log_posterior[None]
    if likelihood.units_a_query > (LISTED_UNITS if likelihood.is_binary else 1):
        some = samples.z[:, :, : model.settings.langevin.n_chains]
        return model.information(some, seen, log_posterior, noise[: some.shape[2]])
    if likelihood.units_a_query == 1:
        add_up = _compiled(_sum_of_outcomes) if seen.is_cuda else _sum_of_outcomes
        outcomes = torch.stack([add_up(likelihood, outputs) for outputs in samples.decoded(model)]).sum(dim=0)
        gain = _gain(outcomes / n_samples, log_posterior)  # (1, A)
        by_unit = torch.zeros(seen.shape, device=seen.device).index_add(1, likelihood.unit_of_outcome, gain)
        return query_set.units.sum(by_unit * ~seen) / BIT
    shape = (1, len(model.classes), len(query_set), 2**likelihood.units_a_query)
    listed, unseen = torch.zeros(shape, device=seen.device), ~seen[:, likelihood.unit_of_feature]
    list_answers = _compiled(_listed) if seen.is_cuda else _listed
    for outputs in samples.decoded(model):
        yes, first = outputs.float().sigmoid() * unseen[:, None, None], 0
        for features in _some_queries(likelihood, outputs):
            share = outputs.shape[2] / n_samples
            listed[:, :, first : first + len(features)] += list_answers(yes, features) * share
            first += len(features)
    return _gain(listed, log_posterior).sum(dim=2) / BIT


def _some_queries(likelihood: AnswerLikelihood, outputs: Tensor) -> Iterator[Tensor]:
    """The features (q, S) that queries show, of as many queries at a time as memory is for."""
    n_units, n_rows, n_classes = likelihood.units_a_query, len(outputs), outputs.shape[1]
    n_samples = n_classes * outputs.shape[2]
    n_numbers = n_samples * (n_samples + 3 * n_units)
    if n_units <= LISTED_UNITS:
        n_numbers = n_classes * 3 * 2**n_units + n_samples * (n_units + 2 * 2 ** math.ceil(n_units / 2))
    yield from likelihood.features_of_query.split(n_at_once(outputs.device, n_rows * n_numbers))


def _gain(outcomes: Tensor, log_posterior: Tensor) -> Tensor:
    """Contribution of every outcome to I(a; y), (B, ...), from p(a | y) (B, C, ...) and log p(y) (B, C)."""
    posterior = log_posterior.exp()
    mixed, noise = (
        torch.einsum("bc,bc...->b...", posterior, part) for part in (outcomes, torch.special.entr(outcomes))
    )
    return torch.special.entr(mixed) - noise


def _sum_of_outcomes(likelihood: AnswerLikelihood, outputs: Tensor) -> Tensor:
    return likelihood.outcomes(outputs).sum(dim=2)


def _listed(yes: Tensor, features: Tensor) -> Tensor:
    """The probabilities (B, C, q, 2^S) of all that queries may show, whose features are (q, S), from those of yes in
    every sample (B, C, M, F)."""
    n_samples, n_units = yes.shape[2], features.shape[1]
    yes = yes[..., features].movedim(2, 3)  # (B, C, q, M, S)
    # Units are independent in a sample: two halves of a query meet in a product, summed over the samples.
    first, second = (_products(part) for part in yes.split([n_units // 2, n_units - n_units // 2], dim=4))
    return (first.mT @ (second / n_samples)).flatten(3)


def _products(yes: Tensor) -> Tensor:
    """The probabilities (..., 2^S) of all combinations of S independent units (..., S)."""
    joint = yes.new_ones(*yes.shape[:-1], 1)
    for unit in yes.unbind(dim=-1):
        joint = torch.cat([joint * (1 - unit[..., None]), joint * unit[..., None]], dim=-1)
    return joint


def _drawn_binary_gain(outputs: Tensor, drawn: Tensor, unseen: Tensor, log_posterior: Tensor) -> Tensor:
    """I(a; y) of queries (B, q), estimated from the answers that each sample drew.

    From the log odds (B, C, M, q, S) of their units, which of them are `drawn` as yes, which are `unseen` (B, q, S),
    and log p(y) (B, C). The sample that drew is left out of p(a | y), and so is the one of the same number of every
    other label: it knows its own answer too well.
    """
    n_classes, n_samples = outputs.shape[1:3]
    odds, answers = (part.flatten(1, 2).movedim(2, 1) for part in (outputs, drawn))  # (B, q, C M, S)
    no = (F.softplus(odds) * unseen[:, :, None]).sum(dim=3)  # (B, q, C M)
    log_prob = (answers @ odds.mT - no[:, :, None]).unflatten(3, (n_classes, n_samples)).unflatten(2, (n_classes, -1))
    itself = torch.eye(n_samples, dtype=torch.bool, device=odds.device)[:, None]  # (M, 1, M)
    by_label = log_prob.masked_fill(itself, -torch.inf).logsumexp(dim=5) - math.log(n_samples - 1)  # (B, q, C, M, C)
    mixed = (by_label + log_posterior[:, None, None, None]).logsumexp(dim=4)
    own = by_label.diagonal(dim1=2, dim2=4).movedim(3, 2)  # (B, q, C, M)
    return ((own - mixed).mean(dim=3) * log_posterior.exp()[:, None]).sum(dim=2)


def _drawn_gain(
    likelihood: AnswerLikelihood, outputs: Tensor, unseen: Tensor, log_posterior: Tensor, noise: Tensor
) -> Tensor:
    """The same for units of all types: I(a; y) of every query (B, Q), from outputs (B, C, M, F), one sample that draws
    after the other; `unseen` is (B, U)."""
    n_rows, n_classes, n_samples, _ = outputs.shape
    drawn, posterior = likelihood.sample(outputs, noise), log_posterior.exp()
    total = torch.zeros(n_rows, len(likelihood.query_set), device=outputs.device)
    for label, number in itertools.product(range(n_classes), range(n_samples)):
        log_prob = likelihood.log_prob(outputs, drawn[:, None, None, label, number]) * unseen[:, None, None]
        of_query = likelihood.query_set.units.sum(log_prob.flatten(0, 2)).unflatten(0, outputs.shape[:3])
        of_query[:, :, number] = -torch.inf
        by_label = of_query.logsumexp(dim=2) - math.log(n_samples - 1)  # (B, C, Q)
        mixed = (by_label + log_posterior[:, :, None]).logsumexp(dim=1)
        total += posterior[:, label, None] * (by_label[:, label] - mixed) / n_samples
    return total
