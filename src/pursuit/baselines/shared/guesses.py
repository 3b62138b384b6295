"""Guessed answers: what a generative model thinks a row may say next, and histories with one such answer more.

The model has K samples of what a history leaves open; given a sample, all answers and the label are independent.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.special import entr

from pursuit.baselines.shared.answers import AnswerModel
from pursuit.history import History
from pursuit.networks.opened import open_networks
from pursuit.queries import PatchQueries

AT_ONCE, AT_ONCE_ON_GPU = 2**23, 2**27
"""About how many numbers are computed at once: further rows, and further guesses, come after each other."""
MAP_SIZE = 16
"""The largest map of an image in a network is taken for so many times the image."""


class Samples(NamedTuple):
    """What each of K samples says of the answers and of the label."""

    outputs: Tensor  # (B, K, F) numbers for an `AnswerModel`
    labels: Tensor  # (B, K, L) probabilities of labels


class Guesses(NamedTuple):
    """P answers that rows may give to queries, and what a network reads off the history with this answer more."""

    row: Tensor  # (P,)
    query: Tensor  # (P,)
    weight: Tensor  # (P,) the probability of the answer
    label_weight: Tensor  # (P, L) the probability of the answer together with each label
    reading: Tensor  # (P, W)


def n_at_once(device: torch.device, n_numbers: int) -> int:
    """How many things of so many numbers each are computed at once."""
    return max(1, (AT_ONCE_ON_GPU if device.type == "cuda" else AT_ONCE) // n_numbers)


def mixture_information(answers: AnswerModel, known: Tensor, samples: Samples) -> Tensor:
    """The mutual information of the label and the answer to each query (B, Q), if the samples were all there is.

    Of a patch it is the sum over the pixels not seen yet.
    """
    joint = _joint(answers.outcomes(samples.outputs), samples.labels)  # (B, A, C)
    of_label = entr(samples.labels.mean(dim=1)).sum(dim=1, keepdim=True)
    by_unit = of_label.repeat(1, answers.n_units)
    by_unit.index_add_(1, answers.query_of, entr(joint.sum(dim=2)) - entr(joint).sum(dim=2))
    patches = answers.query_set
    if not isinstance(patches, PatchQueries):
        return by_unit
    unseen = (by_unit * (1 - answers.known_units(known))).view(-1, *patches.image_shape).sum(dim=1)
    return (patches.rows_covered @ unseen @ patches.columns_covered.T).flatten(1)


def _joint(of_answers: Tensor, labels: Tensor) -> Tensor:
    """The probability of every outcome (B, K, A) with every label (B, K, L), over the samples: (B, A, L)."""
    return of_answers.transpose(1, 2) @ labels / of_answers.shape[1]


def all_outcomes(
    answers: AnswerModel,
    network: nn.Module,
    see: Callable[[Tensor, Tensor], Tensor],
    encoded: Tensor,
    samples: Samples,
    wanted: Tensor,
    widest: int,
) -> Iterator[Guesses]:
    """All answers to the queries of a table that are `wanted` (B, Q), none of which is known; a number lies in the
    middle of a cell.

    `network` reads network input such as `encoded` (B, inputs), which `see` makes of answers; whoever takes the guesses
    makes `widest` numbers of each.
    """
    of_answers, query_of = answers.outcomes(samples.outputs), answers.query_of  # (B, K, A), (A,)
    weight, joint = of_answers.mean(dim=1), _joint(of_answers, samples.labels)
    state, alone, join, read = _opened(network, encoded, see(*_alone(answers)))
    places = wanted[:, query_of].nonzero()
    for part in places.split(n_at_once(places.device, max(widest, state.shape[1]))):
        row, outcome = part.unbind(dim=1)
        reading = read(join(state[row], alone[outcome])).float()
        yield Guesses(row, query_of[outcome], weight[row, outcome], joint[row, outcome], reading)


def _alone(answers: AnswerModel) -> tuple[Tensor, Tensor]:
    """Rows (A, F) with the answer that every outcome stands for, and the query of each as all that is known (A, Q)."""
    edges = answers.cell_edges
    half = (edges[1] - edges[0]) / 2
    cells = torch.cat([edges - half, edges[-1:] + half])
    yes, choice = torch.ones_like(answers.yes_no), torch.ones_like(answers.choices)
    feature = torch.cat(
        [answers.yes_no, answers.yes_no, answers.choices, answers.numbers.repeat_interleave(len(cells))]
    )
    value = torch.cat([yes, -yes, choice, cells.repeat(len(answers.numbers))])
    x = torch.zeros(len(feature), answers.n_outputs, device=edges.device).scatter_(1, feature[:, None], value[:, None])
    return x, F.one_hot(answers.query_of, answers.n_units).to(x.dtype)


Function = Callable[..., Tensor]


def _opened(network: nn.Module, encoded: Tensor, alone: Tensor) -> tuple[Tensor, Tensor, Function, Function]:
    """States of the rows (B, H) and of single answers (A, H), how two are joined, and what is read off one: one answer
    more need not go through the first layer."""
    opened = open_networks(network, network, encoded.shape[1])
    if opened is None:
        return encoded, alone, torch.add, network

    def read(state: Tensor) -> Tensor:
        return opened.logits(opened.features(state))

    if opened.takes_largest:
        return opened.start(encoded), opened.start(alone), torch.maximum, read
    return opened.start(encoded), opened.start(alone) - opened.bias, torch.add, read


def drawn_patches(
    answers: AnswerModel,
    network: nn.Module,
    history: History,
    encoded: Tensor,
    samples: Samples,
    wanted: Tensor,
    widest: int,
    noise: Tensor,
) -> Iterator[Guesses]:
    """What each of the samples shows in the patches `wanted` (B, Q), which may overlap with what is seen already.

    Pixels that are bright or dark are drawn by `noise` (K, F), uniform from 0 to 1; grey ones are as bright as
    expected.
    """
    patches, bright = answers.query_set, samples.outputs.sigmoid()  # (B, K, F)
    assert isinstance(patches, PatchQueries)
    drawn = bright if patches.threshold is None else (noise < bright).to(bright.dtype)
    seen = patches.pixels(history.known.to(bright.dtype))[:, None]  # (B, 1, 1, H, W)
    images = (2 * drawn - 1).view(*drawn.shape[:2], *patches.image_shape)  # (B, K, C, H, W)
    images = torch.where(seen > 0, history.x[:, None], images)
    n_samples, places = len(noise), wanted.nonzero()
    number = torch.arange(n_samples, device=places.device).repeat(len(places))
    places = torch.cat([places.repeat_interleave(n_samples, dim=0), number[:, None]], dim=1)  # (P, 3)
    for part in places.split(n_at_once(places.device, max(widest, MAP_SIZE * encoded[0].numel()))):
        row, query, sample = part.unbind(dim=1)
        shown = encoded[row]
        patches.reveal(shown, images[row, sample], query, torch.ones_like(row, dtype=torch.bool))
        label_weight = samples.labels[row, sample] / n_samples
        weight = torch.full((len(row),), 1 / n_samples, device=row.device)
        yield Guesses(row, query, weight, label_weight, network(shown).float())
