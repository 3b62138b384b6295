"""What answers tell about the label: listed or drawn, it is the information of the definition."""

import itertools

import pytest
import torch
from torch import Tensor

from pursuit.methods import g_ip as module
from pursuit.methods.g_ip import label_information
from pursuit.methods.shared import generative
from pursuit.methods.shared.generative import AnswerLikelihood
from pursuit.queries import PatchQueries, QuerySet
from untrained import make_columns

POSTERIOR = torch.tensor([0.2, 0.5, 0.3])


def random_outputs(likelihood: AnswerLikelihood, n_samples: int = 8, spread: float = 2.0) -> Tensor:
    """Of one row (1, 3, n_samples, F), whose labels differ."""
    generator = torch.Generator().manual_seed(0)
    by_label = torch.randn(1, 3, 1, likelihood.n_outputs, generator=generator) * spread
    return by_label + torch.randn(1, 3, n_samples, likelihood.n_outputs, generator=generator)


def by_definition(likelihood: AnswerLikelihood, outputs: Tensor, seen: Tensor) -> Tensor:
    """The information of every query of one row (Q,), from all that its unseen units may be."""
    outcomes = likelihood.outcomes(outputs)[0]  # (C, M, A)
    found = []
    for units in likelihood.query_set.units.of_query.tolist():
        open_ = [(likelihood.unit_of_outcome == unit).nonzero()[:, 0].tolist() for unit in units if not seen[0, unit]]
        total = 0.0
        for answer in itertools.product(*open_):
            by_label = outcomes[..., list(answer)].prod(dim=2).mean(dim=1)  # (C,)
            ratio = by_label / (POSTERIOR @ by_label)
            total += float(torch.special.xlogy(POSTERIOR * by_label, ratio).sum())
        found.append(total)
    return torch.tensor(found)


def one_seen(query_set: QuerySet) -> Tensor:
    """The units (1, U) of the first query."""
    known = torch.zeros(1, len(query_set), dtype=torch.bool)
    known[0, 0] = True
    return query_set.units.known(known)


@torch.no_grad()
@pytest.mark.parametrize(("size", "channels"), [(1, 1), (2, 1), (2, 2)])
def test_the_information_of_patches_is_that_of_all_they_may_show(size: int, channels: int) -> None:
    images = PatchQueries((channels, 3, 4), size, threshold=0.5)
    likelihood, seen = AnswerLikelihood(images), one_seen(images)
    outputs = random_outputs(likelihood)
    found = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], torch.empty(0))
    assert found.shape == (1, len(images))
    torch.testing.assert_close(found[0], by_definition(likelihood, outputs, seen), atol=1e-5, rtol=0)
    assert found[0, 0].abs() < 1e-6
    assert found[0, 1:].min() > 0


@torch.no_grad()
def test_the_information_of_columns_is_that_of_their_outcomes() -> None:
    columns = make_columns(["yes_no", "choice", "number", "single", "yes_no"])
    likelihood, seen = AnswerLikelihood(columns), one_seen(columns)
    outputs = random_outputs(likelihood, spread=1.0)
    found = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], torch.empty(0))
    torch.testing.assert_close(found[0], by_definition(likelihood, outputs, seen), atol=1e-5, rtol=0)
    assert found[0, 0] == 0
    assert found[0, 3].abs() < 1e-6  # a single choice


@torch.no_grad()
def test_drawn_patches_tell_about_the_same_as_listed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    images = PatchQueries((1, 3, 4), size=2, threshold=0.5)
    likelihood, seen = AnswerLikelihood(images), torch.zeros(1, 12, dtype=torch.bool)
    seen[0, [0, 1, 4, 5, 6]] = True
    outputs = random_outputs(likelihood, 120)
    noise = torch.rand(120, 12, generator=torch.Generator().manual_seed(1))
    listed = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], noise)
    monkeypatch.setattr(module, "LISTED_UNITS", 3)
    drawn = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], noise)
    torch.testing.assert_close(drawn, listed, atol=0.05, rtol=0)
    assert drawn[0, 0].abs() < 1e-5
    assert listed.max() > 0.2
    likelihood.is_binary = False  # one sample after the other, as for units of other types
    one_by_one = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], noise)
    torch.testing.assert_close(one_by_one, drawn, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@torch.no_grad()
def test_queries_of_ones_own_tell_about_what_their_units_tell(pairs: QuerySet) -> None:
    likelihood, seen = AnswerLikelihood(pairs), one_seen(pairs)
    outputs = random_outputs(likelihood, 300)
    noise = torch.rand(300, 7, generator=torch.Generator().manual_seed(1))
    found = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], noise)
    torch.testing.assert_close(found[0], by_definition(likelihood, outputs, seen), atol=0.08, rtol=0)
    assert found[0, 0].abs() < 1e-5
    assert found[0, 1:].max() > 0.3


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 2, 3])
def test_parts_are_the_same_as_all_at_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTED_UNITS", 4)  # those of nine pixels are drawn
    images = PatchQueries((1, 4, 4), size)
    likelihood, seen = AnswerLikelihood(images), one_seen(images)
    outputs, noise = random_outputs(likelihood), torch.rand(8, 16, generator=torch.Generator().manual_seed(1))
    whole = label_information(likelihood, outputs, seen, POSTERIOR.log()[None], noise)
    monkeypatch.setattr(generative, "AT_ONCE", 1)  # query by query
    torch.testing.assert_close(label_information(likelihood, outputs, seen, POSTERIOR.log()[None], noise), whole)
