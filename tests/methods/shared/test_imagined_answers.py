"""Imagined answers: all outcomes of a table with their probabilities, patches as samples show them, and what a network
reads from a history with one answer more."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pursuit import ModelSpec
from pursuit.exact import IndependentIP
from pursuit.inference.history import History
from pursuit.inference.stopping import BIT
from pursuit.methods.partial_vae import (
    Samples,
    can_be_listed,
    drawn_answers,
    listed_answers,
    mixture_information,
)
from pursuit.methods.shared import generative
from pursuit.methods.shared.generative import AnswerLikelihood
from pursuit.networks import MLP, NetworkSettings, SetNetwork
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.training.learner import ClassifierModel
from pursuit.training.rows import Rows
from untrained import make_columns, make_rows

N_ROWS, N_SAMPLES, N_LABELS = 3, 4, 3
NETWORKS: list[NetworkSettings] = [
    MLP((8, 6)),
    MLP((8,), direct=True),
    SetNetwork(embedding=5, width=7, hidden=(6,)),
    SetNetwork(embedding=5, width=7, hidden=(6,), aggregate="max"),
]


class Opaque(nn.Module):
    """A network that cannot be split after its first layer."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, encoded: Tensor) -> Tensor:
        return self.network(encoded)


def random_samples(n_rows: int, n_outputs: int) -> Samples:
    generator = torch.Generator().manual_seed(1)
    labels = torch.rand(n_rows, N_SAMPLES, N_LABELS, generator=generator)
    outputs = torch.randn(n_rows, N_SAMPLES, n_outputs, generator=generator)
    return Samples(outputs, labels / labels.sum(dim=2, keepdim=True))


def table() -> tuple[ColumnQueries, AnswerLikelihood, History]:
    query_set = make_columns(["yes_no", "choice", "number", "yes_no"])
    rows = make_rows(query_set, N_ROWS)
    known = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(0)) < 0.4
    return query_set, AnswerLikelihood(query_set), History(rows.x.float(), known, known)


@pytest.mark.parametrize(
    ("wrap", "standardised"), [(lambda network: network, True), (Opaque, False)], ids=["split", "opaque"]
)
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_a_network_reads_the_history_with_one_answer_more(
    network: NetworkSettings, wrap: Callable[[Any], nn.Module], standardised: bool
) -> None:
    query_set, likelihood, history = table()
    torch.manual_seed(0)
    model = ClassifierModel.build(ModelSpec(query_set, range(N_LABELS), network, standardised=standardised)).eval()
    if standardised:
        model.standardise(history.x, torch.ones_like(history.known))
    encoded, samples = model.network_input(history.x, history.known), random_samples(N_ROWS, likelihood.n_outputs)
    assert can_be_listed(likelihood)
    network_input = model.network_input
    found = listed_answers(likelihood, wrap(model.classifier), network_input, encoded, samples, ~history.asked, 1)
    values = {0: [1.0, -1.0], 3: [1.0, -1.0], 1: list(torch.eye(3)), 2: torch.linspace(-3.25, 3.25, 14).tolist()}
    for answers in found:
        for row, query, reading in zip(answers.row.tolist(), answers.query.tolist(), answers.reading, strict=True):
            possible = []
            for value in values[query]:
                x, known = history.x[row : row + 1].clone(), history.known[row : row + 1].clone()
                x[0, query_set.own_inputs.features(query)], known[0, query] = torch.as_tensor(value), True
                possible.append(model.classifier(model.network_input(x, known))[0])
            assert min((reading - other).abs().max().item() for other in possible) < 1e-5


def test_the_answers_to_a_query_have_probability_one_together() -> None:
    query_set, likelihood, history = table()
    model = ClassifierModel.build(ModelSpec(query_set, range(N_LABELS), MLP((4,)))).eval()
    samples, wanted = random_samples(N_ROWS, likelihood.n_outputs), ~history.asked
    encoded = model.network_input(history.x, history.known)
    (found,) = listed_answers(likelihood, model.classifier, model.network_input, encoded, samples, wanted, 1)
    total = torch.zeros(wanted.shape).index_put((found.row, found.query), found.weight, accumulate=True)
    torch.testing.assert_close(total, wanted.float())
    torch.testing.assert_close(found.label_weight.sum(dim=1), found.weight)
    by_label = torch.zeros(*wanted.shape, N_LABELS)
    by_label.index_put_((found.row, found.query), found.label_weight, accumulate=True)
    torch.testing.assert_close(by_label, samples.labels.mean(dim=1)[:, None] * wanted[:, :, None])


@pytest.mark.parametrize("reveals_in_place", [True, False])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_patches_show_what_samples_show_and_what_is_seen_already(
    threshold: float | None, reveals_in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_set = PatchQueries((2, 4, 4), size=2, stride=1, threshold=threshold)
    likelihood, generator = AnswerLikelihood(query_set), torch.Generator().manual_seed(0)
    assert not can_be_listed(likelihood)
    x = 2.0 * torch.randint(2, (3, 2, 4, 4), generator=generator) - 1
    known = torch.rand(3, 9, generator=generator) < 0.3
    history, samples = History(x, known, known), random_samples(3, 32)
    noise = torch.rand(N_SAMPLES, 32, generator=generator)
    encoded = query_set.encode(x, known)
    bright = samples.outputs.sigmoid()
    images = (bright if threshold is None else (noise < bright).float()) * 2 - 1
    encode = query_set.encode
    (found,) = drawn_answers(likelihood, nn.Flatten(), encode, history, encoded, samples, ~known, 1, noise)
    if not reveals_in_place:
        monkeypatch.setattr(PatchQueries, "reveal", QuerySet.reveal)
        (again,) = drawn_answers(likelihood, nn.Flatten(), encode, history, encoded, samples, ~known, 1, noise)
        for one, other in zip(found, again, strict=True):
            torch.testing.assert_close(other, one)
        found = again
    assert len(found.row) == (~known).sum() * N_SAMPLES
    for i, (row, query) in enumerate(zip(found.row.tolist(), found.query.tolist(), strict=True)):
        image = images[row, i % N_SAMPLES].view(2, 4, 4)
        seen = query_set.pixels(known[row : row + 1].float())
        more = known[row : row + 1].clone()
        more[0, query] = True
        expected = query_set.encode(x[row] * seen + image * (1 - seen), more)
        torch.testing.assert_close(found.reading[i], expected.flatten())
        torch.testing.assert_close(found.label_weight[i], samples.labels[row, i % N_SAMPLES] / N_SAMPLES)


def test_parts_are_the_same_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    query_set, likelihood, history = table()
    model = ClassifierModel.build(ModelSpec(query_set, range(N_LABELS), MLP((4,)))).double().eval()
    samples = random_samples(N_ROWS, likelihood.n_outputs)
    encoded = model.network_input(history.x.double(), history.known)

    def read() -> list[Any]:
        return list(
            listed_answers(
                likelihood,
                model.classifier,
                lambda x, known: model.network_input(x.double(), known),
                encoded,
                samples,
                ~history.asked,
                4,
            )
        )

    (whole,) = read()
    monkeypatch.setattr(generative, "AT_ONCE", 12)
    parts = read()
    assert max(len(part.row) for part in parts) == 3
    for at_once, by_part in zip(whole, zip(*parts, strict=True), strict=True):
        torch.testing.assert_close(at_once, torch.cat(by_part))


def test_the_information_in_a_mixture_of_labels_is_that_of_exact_pursuit() -> None:
    yes = torch.rand(N_LABELS, 5, generator=torch.Generator().manual_seed(0))
    query_set = ColumnQueries([yes_no(f"q{i}") for i in range(5)])
    exact = IndependentIP.from_yes(query_set, range(N_LABELS), torch.full((N_LABELS,), 1 / N_LABELS), yes)
    samples = Samples(yes.logit()[None], torch.eye(N_LABELS)[None])  # each sample is sure of one label
    history = History.start(torch.zeros(1, 5), 5)
    found = mixture_information(AnswerLikelihood(query_set), history.known, samples)
    torch.testing.assert_close(found, exact.scores(history).float() * BIT, atol=1e-5, rtol=1e-4)


def test_samples_of_queries_of_ones_own_answer_what_is_not_known(pairs: Any, pair_rows: Rows) -> None:
    likelihood, rows = AnswerLikelihood(pairs), pair_rows.take(slice(3))
    known = rows.available & torch.eye(3, 5, dtype=torch.bool)
    history, samples = History(rows.x, known, known), random_samples(3, 7)
    noise = torch.rand(N_SAMPLES, 7, generator=torch.Generator().manual_seed(0))
    x = likelihood.sample(samples.outputs, noise)
    x[..., 4] = 2 * samples.outputs[..., 4].sigmoid() - 1  # the share, as expected
    encoded = pairs.encode(rows.x, known)
    assert not can_be_listed(likelihood)
    (found,) = drawn_answers(likelihood, nn.Identity(), pairs.encode, history, encoded, samples, ~known, 1, noise)
    assert len(found.row) == (~known).sum() * N_SAMPLES
    for i, (row, query) in enumerate(zip(found.row.tolist(), found.query.tolist(), strict=True)):
        is_known = pairs.units.known(known[row : row + 1])[0, pairs.units.of_feature]
        answers = torch.where(is_known, rows.x[row], x[row, i % N_SAMPLES])
        more = known[row : row + 1].clone()
        more[0, query] = True
        torch.testing.assert_close(found.reading[i], pairs.encode(answers[None], more)[0])


def test_the_information_of_a_patch_is_that_of_its_pixels_not_seen() -> None:
    query_set = PatchQueries((1, 3, 3), size=2)
    likelihood, samples = AnswerLikelihood(query_set), random_samples(1, 9)
    nothing = torch.zeros(1, 4, dtype=torch.bool)
    pixels = AnswerLikelihood(PatchQueries((1, 3, 3), size=1))
    by_pixel = mixture_information(pixels, torch.zeros(1, 9), samples).view(3, 3)
    corners = mixture_information(likelihood, nothing, samples)[0]
    torch.testing.assert_close(corners[0], by_pixel[:2, :2].sum())
    torch.testing.assert_close(corners[3], by_pixel[1:, 1:].sum())
    first = nothing.clone()
    first[0, 0] = True
    corners = mixture_information(likelihood, first, samples)[0]
    assert corners[0] == 0
    torch.testing.assert_close(corners[3], by_pixel[1:, 1:].sum() - by_pixel[1, 1])
