"""How much the answer to each query would tell about the label, under a generative model of which every label has M
samples.

With p(a | y) the mean over the samples of label y, and p(y) what is believed of the labels, this is

    I(a; y) = H(sum over y of p(y) p(a | y)) - sum over y of p(y) H(p(a | y))

All possible answers are listed where a query shows one unit, or a few that have two values each, as the pixels of small
patches. Of larger queries every sample draws an answer.
"""

import itertools
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.methods.shared.answer_likelihood import AnswerLikelihood
from pursuit.methods.shared.memory import n_at_once

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
        listed = (_listed(yes[..., features]) for features in _some_queries(likelihood, outputs))
        return torch.cat([_gain(outcomes, log_posterior).sum(dim=2) for outcomes in listed], dim=1)
    drawn = (noise < outputs.sigmoid()).float() * unseen[:, None, None]
    parts = [
        _drawn_binary_gain(outputs[..., features], drawn[..., features], unseen[:, features], log_posterior)
        for features in _some_queries(likelihood, outputs)
    ]
    return torch.cat(parts, dim=1)


def _some_queries(likelihood: AnswerLikelihood, outputs: Tensor) -> Iterator[Tensor]:
    """The features (q, S) that queries show, of as many queries at a time as memory is for."""
    n_units, n_rows, n_classes = likelihood.units_a_query, len(outputs), outputs.shape[1]
    n_samples = n_classes * outputs.shape[2]
    n_numbers = n_samples * (n_samples + 3 * n_units)
    if n_units <= LISTED_UNITS:
        n_numbers = n_classes * 3 * 2**n_units + n_samples * (n_units + 2 * 2 ** math.ceil(n_units / 2))
    yield from likelihood.features_of_query.split(n_at_once(outputs.device, n_rows * n_numbers))


def _gain(outcomes: Tensor, log_posterior: Tensor) -> Tensor:
    """What every outcome adds to I(a; y), (B, ...), from p(a | y) (B, C, ...) and log p(y) (B, C)."""
    posterior = log_posterior.exp()
    mixed, noise = (
        torch.einsum("bc,bc...->b...", posterior, part) for part in (outcomes, torch.special.entr(outcomes))
    )
    return torch.special.entr(mixed) - noise


def _listed(yes: Tensor) -> Tensor:
    """The probabilities (B, C, q, 2^S) of all that queries may show, from those of yes in every sample
    (B, C, M, q, S)."""
    n_samples, n_units = yes.shape[2], yes.shape[4]
    yes = yes.movedim(2, 3)  # (B, C, q, M, S)
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
    odds, shown = (part.flatten(1, 2).movedim(2, 1) for part in (outputs, drawn))  # (B, q, C M, S)
    no = (F.softplus(odds) * unseen[:, :, None]).sum(dim=3)  # (B, q, C M)
    log_prob = (shown @ odds.mT - no[:, :, None]).unflatten(3, (n_classes, n_samples)).unflatten(2, (n_classes, -1))
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
