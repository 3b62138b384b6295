"""Probabilities of answers given a decoder's outputs: they sum to one, and samples come as often as they say."""

import math
from typing import Any

import pytest
import torch

from pursuit.methods.shared.generative import AnswerLikelihood
from pursuit.queries import Choice, ColumnQueries, Number, PatchQueries, QuerySet, yes_no
from pursuit.training.rows import Rows
from untrained import make_columns

TABLE = ColumnQueries(
    [yes_no("fever"), Choice("colour", "Which?", ("red", "blue", "green")), Number("n", "How many?"), yes_no("cough")]
)
IMAGES = PatchQueries((1, 4, 4), size=2, threshold=0.5)
OUTPUTS = torch.tensor([0.5, 1.0, -1.0, 0.3, 0.7, -2.0])  # fever, three colours, a number, cough


def test_log_probabilities_are_those_of_each_type() -> None:
    x = torch.tensor([1.0, 0, 1, 0, 1.2, -1.0])
    fever, colour, number, cough = AnswerLikelihood(TABLE).log_prob(OUTPUTS, x).tolist()
    assert fever == pytest.approx(math.log(1 / (1 + math.exp(-0.5))))
    assert colour == pytest.approx(OUTPUTS[1:4].log_softmax(dim=0)[1].item(), abs=1e-5)
    assert number == pytest.approx(torch.distributions.Normal(0.7, 1.0).log_prob(torch.tensor(1.2)).item(), abs=1e-5)
    assert cough == pytest.approx(math.log(1 / (1 + math.exp(-2.0))), abs=1e-5)


@pytest.mark.parametrize("query_set", [TABLE, IMAGES, ColumnQueries([yes_no("a"), yes_no("b")])])
def test_outcomes_of_every_unit_sum_to_one(query_set: QuerySet) -> None:
    model = AnswerLikelihood(query_set)
    outputs = torch.randn(2, 5, model.n_outputs, generator=torch.Generator().manual_seed(0)) * 3
    outcomes = model.outcomes(outputs)
    assert outcomes.shape == (2, 5, len(model.unit_of_outcome))
    total = torch.zeros(2, 5, model.n_units).index_add(-1, model.unit_of_outcome, outcomes)
    torch.testing.assert_close(total, torch.ones_like(total))


def test_a_single_choice_is_certain() -> None:
    model = AnswerLikelihood(make_columns(["single", "yes_no"]))
    outputs, x = torch.tensor([-5.0, 0.5]), torch.tensor([1.0, 1.0])
    assert model.log_prob(outputs, x)[0] == 0
    assert model.outcomes(outputs)[model.unit_of_outcome == 0].tolist() == [1]
    assert model.sample(outputs, torch.tensor([0.9, 0.9]))[0] == 1


def test_units_of_a_query_set_of_ones_own_may_come_in_any_order(pairs: Any, pair_rows: Rows) -> None:
    model, x = AnswerLikelihood(pairs), pair_rows.x[:50]
    outputs = torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    found = model.log_prob(outputs, x)  # its features: a number, three choices, a share, and two of yes or no
    yes = outputs[:, [6, 5]].sigmoid()
    expected = [
        torch.where(x[:, 6] > 0, yes[:, 0], 1 - yes[:, 0]).log(),
        (outputs[:, 1:4].log_softmax(dim=1) * x[:, 1:4]).sum(dim=1),
        torch.distributions.Normal(outputs[:, 0], 1.0).log_prob(x[:, 0]),
        (x[:, 4] + 1) / 2 * outputs[:, 4] - (1 + outputs[:, 4].exp()).log(),
        torch.where(x[:, 5] > 0, yes[:, 1], 1 - yes[:, 1]).log(),
    ]
    torch.testing.assert_close(found, torch.stack(expected, dim=1))


def test_every_outcome_stands_for_an_answer() -> None:
    model = AnswerLikelihood(make_columns(["yes_no", "choice", "number"]))
    answers = model.outcome_answers()
    assert answers.shape == (2 + 3 + 14, 5)
    assert answers[:2, 0].tolist() == [1, -1]
    assert torch.equal(answers[2:5, 1:4], torch.eye(3))
    torch.testing.assert_close(answers[5:, 4], torch.linspace(-3.25, 3.25, 14))
    assert (answers != 0).sum() == len(answers)  # nothing but its own


def test_samples_come_as_often_as_they_are_probable() -> None:
    model, n = AnswerLikelihood(TABLE), 20_000
    x = model.sample(OUTPUTS.expand(n, -1), torch.rand(n, 6, generator=torch.Generator().manual_seed(0)))
    assert set(x[:, 0].tolist()) == {-1.0, 1.0}
    assert (x[:, 0] > 0).float().mean().item() == pytest.approx(OUTPUTS[0].sigmoid().item(), abs=0.015)
    torch.testing.assert_close(x[:, 1:4].mean(dim=0), OUTPUTS[1:4].softmax(dim=0), atol=0.015, rtol=0)
    assert torch.equal(x[:, 1:4].sum(dim=1), torch.ones(n))
    assert x[:, 4].mean().item() == pytest.approx(0.7, abs=0.03)
    assert x[:, 4].std().item() == pytest.approx(1.0, abs=0.03)


def test_a_grey_pixel_counts_as_both_by_its_share() -> None:
    model = AnswerLikelihood(PatchQueries((1, 2, 2), size=1))
    outputs = torch.full((4,), 0.8)
    dark, bright, grey = (model.log_prob(outputs, torch.full((4,), value))[0] for value in (-1.0, 1.0, 0.5))
    assert grey.item() == pytest.approx((0.25 * dark + 0.75 * bright).item(), abs=1e-6)


def test_the_deviation_of_numbers_is_learnt() -> None:
    model = AnswerLikelihood(TABLE)
    (-model.log_prob(OUTPUTS, torch.tensor([1.0, 0, 1, 0, 0.7, -1.0])).sum()).backward()
    assert model.log_deviation.grad is not None
    assert model.log_deviation.grad.item() > 0  # where the output is right, a smaller deviation is better
