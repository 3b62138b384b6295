"""Imagined answers: what a generative model expects a row to answer next, and histories with one such answer more.

The model has K samples of what a history leaves open; given a sample, all answers and the label are independent.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.special import entr

from pursuit.inference.history import History
from pursuit.methods.shared.answer_likelihood import AnswerLikelihood
from pursuit.methods.shared.memory import n_at_once
from pursuit.networks.first_layer import split_first_layer

MAP_SIZE = 16
"""The largest feature map of a network is taken to be this many times its input."""


class Samples(NamedTuple):
    """What each of K samples says of the answers and of the label."""

    outputs: Tensor  # (B, K, F) for an `AnswerLikelihood`
    labels: Tensor  # (B, K, L) probabilities of labels


class ImaginedAnswers(NamedTuple):
    """P answers that rows may give to queries, and what a network reads from the history with this answer more."""

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
        shown = encoded[row]
        if not query_set.reveal(shown, x[row, sample], query, torch.ones_like(row, dtype=torch.bool)):
            shown = network_input(x[row, sample], history.known[row].scatter(1, query[:, None], True))
        label_weight = samples.labels[row, sample] / n_samples
        weight = torch.full((len(row),), 1 / n_samples, device=row.device)
        yield ImaginedAnswers(row, query, weight, label_weight, network(shown).float())
