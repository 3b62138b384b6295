"""The answer model where answers are missing: to have none is one more possible answer, and may tell the label."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD

from answer_models import N_CLASSES, random_model, trained
from pursuit import ModelSpec
from pursuit.inference.history import History
from pursuit.inference.pursuer import NO_ANSWER
from pursuit.inference.rollout import pursue
from pursuit.information import AnswerModel, AnswerSettings
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import Batch
from pursuit.training.rows import Rows
from pursuit.vip import InformationVIP
from untrained import make_columns, make_rows

PAIR = ColumnQueries([yes_no("a"), yes_no("b")])
EVEN = torch.full((1, 2), 0.5).log()


def partly_answered(share: float, n: int = 4000) -> Rows:
    """Two queries that give the label away. The second has an answer in a share of the rows, whatever the label."""
    y = torch.arange(n) % 2
    answered = torch.arange(n) // 2 % 20 < 20 * share
    return Rows((2.0 * y - 1)[:, None].repeat(1, 2), torch.stack([torch.ones_like(answered), answered], dim=1), y)


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_where_no_answer_says_nothing_information_is_scaled_by_the_probability_of_one(share: float) -> None:
    model = AnswerModel.count(PAIR, 2, partly_answered(share), AnswerSettings(rank=0))
    assert model.maybe_missing.tolist() == [1]
    outputs = torch.zeros(1, model.n_outputs)
    bits = model.information(outputs, EVEN)[0]
    assert float(bits[0]) == pytest.approx(1, abs=0.02)
    assert float(bits[1]) == pytest.approx(share, abs=0.02)
    possible = model.possible_answers(outputs, EVEN, 1)
    assert [answer.text for answer in possible] == ["no", "yes", NO_ANSWER]
    assert possible[2].probability == pytest.approx(1 - share, abs=0.01)
    assert sum(answer.probability for answer in possible) == pytest.approx(1)
    torch.testing.assert_close(possible[2].posterior, torch.tensor([0.5, 0.5]))
    assert possible[1].posterior[1] > 0.99
    assert [answer.text for answer in model.possible_answers(outputs, EVEN, 0)] == ["no", "yes"]
    expected = sum(answer.probability * answer.posterior for answer in possible)
    torch.testing.assert_close(expected, torch.tensor([0.5, 0.5]))


def test_a_query_that_is_never_answered_promises_nothing() -> None:
    model = AnswerModel.count(PAIR, 2, partly_answered(0.0), AnswerSettings(rank=0))
    bits = model.information(torch.zeros(1, model.n_outputs), EVEN)
    assert float(bits[0, 1]) == pytest.approx(0, abs=1e-6)
    # Whatever the network says of its answers, which nothing taught it
    noise = torch.randn(50, model.n_outputs, generator=torch.Generator().manual_seed(0))
    assert model.information(noise, EVEN.expand(50, 2))[:, 1].max() < 0.002


def telling_silence(n: int = 2000) -> Rows:
    """The first query has an answer where the label is 1, and nowhere else; what it is, and the answer to the second,
    are coins."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = 2.0 * torch.randint(2, (n, 2), generator=generator) - 1
    return Rows(x, torch.stack([y == 1, torch.ones_like(y == 1)], dim=1), y)


def test_that_there_is_no_answer_may_tell_the_label_but_promises_nothing_to_who_is_not_told() -> None:
    rows = telling_silence()
    model = AnswerModel.count(PAIR, 2, rows, AnswerSettings(rank=0))
    outputs = torch.zeros(1, model.n_outputs)
    bits = model.information(outputs, EVEN)[0]
    assert float(bits[0]) == pytest.approx(0.5, abs=0.03)  # a whole bit wherever there is an answer
    assert bits[1] < 0.01
    probability, after = model.after_answers(outputs, EVEN, 0)
    torch.testing.assert_close(probability, torch.tensor([[0.25, 0.25, 0.5]]), atol=0.03, rtol=0)
    assert after[0, 2, 0] > 0.99
    no_answer = model.possible_answers(outputs, EVEN, 0)[-1]
    assert no_answer.text == NO_ANSWER
    torch.testing.assert_close(no_answer.posterior, torch.tensor([0.5, 0.5]))  # a classifier is not told


def test_a_classifier_learns_on_its_own_chains_what_it_means_that_there_was_no_answer() -> None:
    """It sees an answer to the second query alone, and the first always comes before that one."""
    rows = telling_silence()
    model = trained(PAIR, rows, AnswerSettings(), n_classes=2, epochs=8, random_share=0.0)
    steps = list(pursue(model, rows.x, rows.available))
    assert (steps[0].query == 0).all()
    assert steps[0].bits is not None
    assert float(steps[0].bits.mean()) == pytest.approx(0.5, abs=0.05)
    right = [(step.log_posterior.argmax(dim=1) == rows.y).float().mean() for step in steps]
    assert right[2] > 0.99
    everything = History(rows.x, rows.available & False, rows.available | True)
    torch.testing.assert_close(model.log_posterior(everything).exp(), EVEN.exp().expand(len(rows), 2))


def test_what_was_never_missing_before_teaches_nothing_where_it_is_missing() -> None:
    query_set = make_columns(["yes_no", "choice"])
    model, outputs, _ = random_model(query_set, make_rows(query_set, 20, n_classes=N_CLASSES))
    rows = make_rows(query_set, 20, seed=1, missing=0.5, n_classes=N_CLASSES)
    outputs.requires_grad_()
    loss = model.loss(outputs, rows.x, rows.y, rows.available, rows.available & False)
    as_if_asked = model.loss(outputs, rows.x, rows.y, rows.available | True, ~rows.available)
    torch.testing.assert_close(loss, as_if_asked)
    b, _ = model._terms(torch.autograd.grad(loss, outputs)[0])
    assert torch.equal(b[:, 0] != 0, rows.available[:, 0])


def test_it_learns_from_the_history_whether_an_answer_will_come() -> None:
    """The second query has an answer where the first is yes, and only there."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (2000,), generator=generator)
    first = torch.randint(2, (2000,), generator=generator).bool()
    x = torch.stack([2.0 * first - 1, 2.0 * (y == 0) - 1], dim=1)
    rows = Rows(x, torch.stack([torch.ones_like(first), first], dim=1), y)
    model = trained(PAIR, rows, AnswerSettings(rank=2), n_classes=3, epochs=12)
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    history = History.start(x, 2).record(torch.tensor([0, 0]), torch.tensor([True, True]))
    with torch.no_grad():
        bits = model.scores(history)[:, 1]
    assert bits[0] > 0.6
    assert bits[1] < 0.1 * bits[0]


def test_every_part_learns() -> None:
    query_set, rows = PAIR, partly_answered(0.5, 50)
    model = InformationVIP.build(
        ModelSpec(query_set, [0, 1], MLP((4,))),
        answer_model=AnswerModel.count(query_set, 2, rows, AnswerSettings(rank=2)),
    )
    asked = torch.rand(rows.available.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    batch, optimizer = Batch.of(rows, History(rows.x, asked & rows.available, asked)), SGD(model.parameters(), 0.1)
    model(batch).loss.backward()
    optimizer.step()  # the reader's last layer starts at zero, and lets nothing through to others before
    optimizer.zero_grad()
    model(batch).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("hidden", ["asked", "missing"])
def test_nothing_is_learnt_from_answers_that_were_asked_for_or_are_missing(hidden: str) -> None:
    query_set = make_columns(["yes_no", "choice", "number"])
    rows = make_rows(query_set, 20, missing=0.3, n_classes=N_CLASSES)
    model, outputs, _ = random_model(query_set, rows)
    outputs.requires_grad_()
    hides = torch.tensor([False, True, False]).expand(20, 3)
    asked, available = (hides, rows.available) if hidden == "asked" else (hides & False, rows.available & ~hides)

    def gradients(x: Tensor) -> list[Tensor]:
        loss = model.loss(outputs, x.float(), rows.y, available, asked)
        return [loss.detach(), *torch.autograd.grad(loss, [outputs, model.table, model.label_vectors])]

    found, of_query = gradients(rows.x), model.query_of == 1
    b, u = model._terms(found[1])
    if hidden == "asked":
        for of_odds in (b.T, u.transpose(0, 1), found[2]):  # (A, ...)
            assert not of_odds[of_query].any()
            assert of_odds[~of_query].any()
    else:  # what it would have been teaches nothing, but that it is missing does
        *answers, missing = b.T[of_query]
        assert all((one > 0).all() for one in answers)
        assert (missing < 0).all()
    other = rows.x.clone()
    other[:, query_set.own_inputs.features(1)] = other[:, query_set.own_inputs.features(1)].roll(1, dims=1)
    assert all(torch.equal(one, another) for one, another in zip(found, gradients(other), strict=True))


@pytest.mark.parametrize("missing", [[-1], [2], ["a"]])
def test_a_file_names_queries_that_there_are(missing: list[Any]) -> None:
    config = AnswerModel.count(PAIR, 2, partly_answered(0.5)).to_config() | {"maybe_missing": missing}
    with pytest.raises(ValueError, match="maybe_missing has the places of queries"):
        AnswerModel.from_config(PAIR, 2, config)
