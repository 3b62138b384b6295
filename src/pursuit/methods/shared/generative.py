"""What generative models of a query set share: the probability of answers given a decoder's outputs, normal latent
variables, a few labels that stand for all, and histories of random queries.

Answers are made of U units that are independent given the outputs: the columns of a table, each the answer to a query
of its own, or the pixels of images, several of which a patch shows.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.queries import QuerySet
from pursuit.training import CarriedHistories, RandomHistories, Stage

EDGES = torch.linspace(-3, 3, 13)
"""Between the intervals that the outcomes of a number are; numbers are standardised."""
LEAST_DEVIATION = 0.05
"""Least deviation of a number around the decoder's output, so that its density stays bounded."""


class AnswerLikelihood(nn.Module):
    """From a decoder's outputs (..., F), one for every feature of an answer row, to probabilities of answers.

    The output of a yes/no feature is the log odds of yes, and those of choices are logits; a number is normal around
    its output, with a deviation that is learnt. A share counts as yes and as no, each by its part: a grey pixel is
    partly bright and partly dark.
    """

    yes_no: Tensor
    shares: Tensor
    numbers: Tensor
    choices: Tensor
    unit_of_feature: Tensor
    unit_of_outcome: Tensor
    features_of_query: Tensor
    edges: Tensor

    def __init__(self, query_set: QuerySet):
        super().__init__()
        units = query_set.units
        assert units.features  # which raises where units are not of these types
        if lacking := [query.name for query in query_set.queries if query.may_be_missing]:
            raise ValueError(
                "A generative model of answers does not know the answer 'not given', which "
                f"'{lacking[0]}' may have: leave missing_informs out."
            )
        unit_of_feature, units_of_query, types = units.of_feature, units.of_query, units.feature_types
        self.query_set, self.n_outputs, self.n_units = query_set, len(types), len(units)
        self.units_a_query = units_of_query.shape[1]
        self.is_binary = set(types) <= {"yes_no", "share"}
        self._unit_is_feature = unit_of_feature.tolist() == list(range(self.n_outputs))
        yes_no, shares, numbers, choices = (
            torch.tensor([i for i, own in enumerate(types) if own in wanted], dtype=torch.long)
            for wanted in (("yes_no", "share"), ("share",), ("number",), ("choice",))
        )
        # AnswerValues are yes, no, the choices, and the intervals of numbers, in this order.
        features = torch.cat([yes_no, yes_no, choices, numbers.repeat_interleave(len(EDGES) + 1)])
        if self.is_binary:  # every unit has one feature
            self.register_buffer(
                "features_of_query", unit_of_feature.argsort()[units_of_query], persistent=False
            )  # (Q, S)
        for name, tensor in (
            ("yes_no", yes_no),  # features, shares included
            ("shares", shares),
            ("numbers", numbers),
            ("choices", choices),
            ("unit_of_feature", unit_of_feature.clone()),  # (F,)
            ("unit_of_outcome", unit_of_feature[features]),  # (A,)
            ("edges", EDGES),
        ):
            self.register_buffer(name, tensor, persistent=False)
        self.log_deviation = nn.Parameter(torch.zeros(len(numbers)))

    def log_prob(self, outputs: Tensor, x: Tensor) -> Tensor:
        """The log probability (for numbers, log density) of every unit of the answers x (..., F): (..., U)."""
        outputs = outputs.float()
        if self.is_binary and self._unit_is_feature:
            return _log_bernoulli(outputs, x)
        of_features = torch.zeros(torch.broadcast_shapes(outputs.shape, x.shape), device=x.device)
        of_features[..., self.yes_no] = _log_bernoulli(outputs[..., self.yes_no], x[..., self.yes_no])
        expected, answer, deviation = outputs[..., self.numbers], x[..., self.numbers], self._deviation()
        distance = (answer - expected) / deviation
        of_features[..., self.numbers] = -0.5 * (distance**2 + math.log(2 * math.pi)) - deviation.log()
        of_features[..., self.choices] = self._log_choices(outputs) * x[..., self.choices]
        return of_features if self._unit_is_feature else self._by_unit(of_features, self.unit_of_feature)

    def _deviation(self) -> Tensor:
        return self.log_deviation.exp().clamp(min=LEAST_DEVIATION)

    def _log_choices(self, outputs: Tensor) -> Tensor:
        """Log probabilities of all choices: (..., n)."""
        logits, unit = outputs[..., self.choices], self.unit_of_feature[self.choices]
        largest = outputs.amax(dim=-1, keepdim=True)
        total = self._by_unit((logits - largest).exp(), unit)
        return logits - largest - total.clamp(min=torch.finfo(total.dtype).tiny).log()[..., unit]

    def _by_unit(self, values: Tensor, unit: Tensor) -> Tensor:
        total = torch.zeros(*values.shape[:-1], self.n_units, dtype=values.dtype, device=values.device)
        return total.index_add(-1, unit, values)

    def outcomes(self, outputs: Tensor) -> Tensor:
        """The probability of every outcome (..., A), each of the unit in `unit_of_outcome`; those of a number are
        intervals between `EDGES`."""
        outputs = outputs.float()
        yes = outputs[..., self.yes_no].sigmoid()
        parts = [yes, 1 - yes, self._log_choices(outputs).exp()]
        if len(self.numbers):
            distance = (self.edges - outputs[..., self.numbers, None]) / self._deviation()[:, None]
            below = F.pad(torch.special.ndtr(distance), (1, 0))
            parts.append((F.pad(below, (0, 1), value=1.0).diff(dim=-1)).flatten(-2))
        return torch.cat(parts, dim=-1)

    def outcome_answers(self) -> Tensor:
        """Rows (A, F) with the answer that each outcome stands for, and zero elsewhere; a number lies in the middle of
        its interval."""
        half = (self.edges[1] - self.edges[0]) / 2
        middles = torch.cat([self.edges - half, self.edges[-1:] + half])
        yes, choice = torch.ones_like(self.yes_no), torch.ones_like(self.choices)
        feature = torch.cat([self.yes_no, self.yes_no, self.choices, self.numbers.repeat_interleave(len(middles))])
        value = torch.cat([yes, -yes, choice, middles.repeat(len(self.numbers))])
        x = torch.zeros(len(feature), self.n_outputs, device=value.device)
        return x.scatter_(1, feature[:, None], value[:, None])

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Answers (..., F) drawn by `noise`, uniform from 0 to 1 and of a shape that broadcasts; shares are drawn as
        yes or no."""
        outputs = outputs.float()
        noise = noise.expand(outputs.shape)
        x = torch.zeros_like(outputs)
        x[..., self.yes_no] = (noise < outputs.sigmoid())[..., self.yes_no] * 2.0 - 1.0
        spread = torch.special.ndtri(noise[..., self.numbers].clamp(1e-6, 1 - 1e-6)) * self._deviation()
        x[..., self.numbers] = outputs[..., self.numbers] + spread
        if len(self.choices):
            x[..., self.choices] = self._drawn_choices(outputs, noise)
        return x

    def _drawn_choices(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """1 for the choice of each unit whose logit is largest with Gumbel noise, and 0 for others."""
        gumbel = -(-noise.clamp(min=1e-20).log()).clamp(min=1e-20).log()
        noisy, unit = (outputs + gumbel)[..., self.choices], self.unit_of_feature[self.choices]
        best = torch.full((*noisy.shape[:-1], self.n_units), -torch.inf, device=noisy.device)
        best = best.scatter_reduce(-1, unit.expand(noisy.shape), noisy, "amax")
        return (noisy == best[..., unit]).float()


def _log_bernoulli(logit: Tensor, x: Tensor) -> Tensor:
    """Log probability of x = 1 or -1; values between count as both, each by its part."""
    share = (x + 1) / 2
    return share * logit - F.softplus(logit)


AT_ONCE, BYTES_ON_GPU = 2**23, 128
"""About how many numbers are computed at once (further rows, queries and answers come after each other), and on a GPU
how many bytes of its memory there are for each of them."""


def n_at_once(device: torch.device, n_numbers: int) -> int:
    """Number of items, of `n_numbers` numbers each, that are computed at once."""
    at_once = AT_ONCE
    if device.type == "cuda":
        at_once = torch.cuda.get_device_properties(device).total_memory // BYTES_ON_GPU
    return max(1, at_once // max(1, n_numbers))


LARGEST = 8.0
"""Log variances lie between this and its negative."""


class Gaussian(NamedTuple):
    """Independent normal variables, the last dimension of both."""

    mean: Tensor
    log_variance: Tensor

    @classmethod
    def from_outputs(cls, outputs: Tensor) -> "Gaussian":
        """Means and log variances are the two halves of a network's outputs."""
        mean, log_variance = outputs.float().chunk(2, dim=-1)
        return cls(mean, log_variance.clamp(-LARGEST, LARGEST))

    def at(self, index: Any) -> "Gaussian":
        return Gaussian(self.mean[index], self.log_variance[index])

    def sample(self, noise: Tensor) -> Tensor:
        return self.mean + (0.5 * self.log_variance).exp() * noise

    def divergence(self, other: "Gaussian") -> Tensor:
        """KL from this to the other."""
        wider = self.log_variance - other.log_variance
        apart = (self.mean - other.mean) ** 2 * (-other.log_variance).exp()
        return 0.5 * (wider.exp() + apart - 1 - wider).sum(dim=-1)

    def divergence_from_standard(self) -> Tensor:
        """KL from this to variables of mean 0 and variance 1."""
        return self.divergence(Gaussian(torch.zeros_like(self.mean), torch.zeros_like(self.mean)))


def some_labels(posterior: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Labels (B, L) that stand for all C, and how many times each counts: every label once, or `most` of them, those at
    equal steps of the cumulative `posterior` (B, C), each by its share."""
    n_classes = posterior.shape[1]
    if n_classes <= most:
        every = torch.arange(n_classes, device=posterior.device).expand(posterior.shape)
        return every, torch.ones_like(posterior)
    steps = (torch.arange(most, device=posterior.device) + 0.5) / most
    chosen = torch.searchsorted(posterior.cumsum(dim=1), steps.repeat(len(posterior), 1)).clamp(max=n_classes - 1)
    return chosen, 1 / (most * posterior.gather(1, chosen).clamp(min=torch.finfo(posterior.dtype).tiny))


def of_random_queries(stages: Sequence[Stage]) -> list[Stage]:
    """Stages with histories as long as V-IP's, of random queries: carried chains ask at random by themselves."""
    return [
        stage
        if isinstance(stage.histories, CarriedHistories)
        else replace(stage, histories=RandomHistories(stage.histories.max_queries))
        for stage in stages
    ]
