"""Early stopping: the loss on held-out rows, and the weights that were best there."""

import copy
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pursuit import ModelSpec
from pursuit.inference import rollout
from pursuit.networks import MLP
from pursuit.training import (
    EarlyStopping,
    RandomHistories,
    Report,
    RolledOutHistories,
    Stage,
    TrainingRun,
    train,
)
from pursuit.training import held_out as held_out_module
from pursuit.training.averaging import WeightAverage
from pursuit.training.devices import launched
from pursuit.training.held_out import TEMPERATURES, HeldOut
from pursuit.training.rows import Rows
from pursuit.vip import VIP
from small_training import QUERIES, fresh, rows, same, weights


def noise(n: int, seed: int) -> Rows:
    """Rows whose labels cannot be known."""
    generator = torch.Generator().manual_seed(seed)
    answers = torch.randint(2, (n, 6), generator=generator).numpy()
    return Rows(*QUERIES.answers(answers), torch.randint(4, (n,), generator=generator))


def make_held_out(data: Rows, patience: int = 20) -> HeldOut:
    return HeldOut(launched("cpu", 1, None), EarlyStopping(data, patience, every=1), lambda value: value)


def every_report(data: Rows, patience: int = 20) -> EarlyStopping:
    return EarlyStopping(data, patience, every=1)


def test_early_stopping_keeps_the_best_weights() -> None:
    """With labels that are noise the held-out loss soon rises, so that training must stop early."""
    data, held_out, stages = noise(60, 1), noise(300, 2), [Stage(400, batch_size=32)]
    reports: list[Report] = []
    model = fresh(network=MLP((64, 64)))
    run = TrainingRun(on_report=reports.append)
    (kept,) = train(model, data, stages, early_stopping=every_report(held_out, 5), run=run)
    assert reports[-1].step < reports[-1].n_steps
    losses = [report.held_out_loss for report in reports if report.held_out_loss is not None]
    assert losses.index(min(losses)) == len(losses) - 1 - 5
    assert kept.share == pytest.approx(reports[losses.index(min(losses))].step / reports[0].n_steps)
    # A patience of one report less stops one report earlier, but with the same best weights.
    sooner = fresh(network=MLP((64, 64)))
    assert train(sooner, data, stages, early_stopping=every_report(held_out, 4)) == [kept]
    assert same(weights(model), weights(sooner))
    # And those are the weights of the lowest loss, at its temperature.
    assert model.temperature.tolist() == pytest.approx([kept.temperature] * len(model.temperature))
    model.set_temperature(1.0)
    found = make_held_out(held_out).look(model, stages[0], WeightAverage(model, 0.0), 1, is_last=False)
    assert found == pytest.approx(min(losses), abs=1e-6)


def test_without_held_out_rows_a_stage_ends_with_its_last_step() -> None:
    assert train(fresh(), rows(), [Stage(1, batch_size=50), Stage(1, batch_size=50)]) == [(1.0, 1.0)] * 2


def test_every_stage_starts_its_patience_again() -> None:
    reports: list[Report] = []
    stages = [Stage(400, batch_size=32), Stage(400, RandomHistories(), batch_size=32)]
    run = TrainingRun(on_report=reports.append)
    train(fresh(network=MLP((64, 64))), noise(60, 1), stages, early_stopping=every_report(noise(300, 2), 3), run=run)
    for number in (1, 2):
        losses = [report.held_out_loss for report in reports if report.stage == number]
        assert losses.index(min(losses)) == len(losses) - 1 - 3  # type: ignore[type-var]


def test_one_report_of_several_looks() -> None:
    model, stage = fresh(network=MLP((8,))), Stage(1)
    held_out = HeldOut(launched("cpu", 1, None), EarlyStopping(rows(50), 2, every=3), lambda value: value)
    average, found = WeightAverage(model, 0.9), []
    for step in range(1, 8):
        found.append(held_out.look(model, stage, average, step, is_last=False))
        with torch.no_grad():
            for tensor in average.averaged:
                tensor.mul_(3)
    assert found[0] == found[1] == found[2] != found[3] == found[4] == found[5] != found[6]
    assert held_out.best_step == (1, 4, 7)[found[::3].index(min(found))]
    assert held_out.n_reports == 7


@pytest.mark.parametrize("longest", [None, 3])
def test_the_loss_is_that_along_the_chains_at_the_best_temperature(longest: int | None) -> None:
    data, model, stage = rows(50), fresh().eval(), Stage(1, RolledOutHistories(longest), phase="late")
    found = make_held_out(data).look(model, stage, WeightAverage(model, 0.0), 1, is_last=False)
    history, losses = data.start(), torch.zeros(len(TEMPERATURES))
    n_queries = longest or len(QUERIES)
    with torch.no_grad():
        for _ in range(n_queries):
            history = history.ask(
                model.scores(history).masked_fill(history.asked, -torch.inf).argmax(1), data.available
            )
            beliefs = model.log_posterior(history)
            losses += torch.stack([F.cross_entropy(beliefs / t, data.y) for t in TEMPERATURES]) / n_queries
    assert found == pytest.approx(float(losses.min()), abs=1e-5)


@pytest.mark.parametrize(
    ("prefers_end", "is_last", "spread", "is_kept"),
    [(True, True, 0.2, True), (True, True, 0.0, False), (True, False, 0.2, False), (False, True, 0.2, False)],
)
def test_the_last_weights_are_kept_unless_they_are_clearly_worse(
    prefers_end: bool, is_last: bool, spread: float, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are worse by a hundredth in the mean, which is less than a standard error where rows differ."""
    held_out = HeldOut(launched("cpu", 1, None), EarlyStopping(rows(50), 2, 1, prefers_end), lambda value: value)
    model, stage = fresh(network=MLP((8,))), Stage(1)
    before = torch.full((len(TEMPERATURES), 50), 0.5)
    after = before + 0.01 + spread * (torch.arange(50) % 2 * 2 - 1)
    looks = iter([before, after])
    monkeypatch.setattr(held_out, "_losses", lambda *_: (next(looks), torch.ones(50)))
    held_out.look(model, stage, WeightAverage(model, 0.9), 10, is_last=False)
    held_out.look(model, stage, WeightAverage(model, 0.9), 20, is_last=is_last)
    assert held_out.best_step == (20 if is_kept else 10)


def test_one_that_prefers_the_end_has_no_patience() -> None:
    reports: list[Report] = []
    run, settings = TrainingRun(on_report=reports.append), EarlyStopping(noise(300, 2), 1, 1, prefers_end=True)
    (kept,) = train(fresh(), noise(60, 1), [Stage(12, batch_size=32)], early_stopping=settings, run=run)
    assert reports[-1].step == reports[-1].n_steps
    losses = [report.held_out_loss for report in reports]
    assert kept.share in (1.0, reports[losses.index(min(losses))].step / reports[-1].n_steps)  # type: ignore[type-var]


def test_the_last_report_looks_whatever_its_number() -> None:
    model, stage = fresh(network=MLP((8,))), Stage(1)
    held_out = HeldOut(launched("cpu", 1, None), EarlyStopping(rows(50), every=3), lambda value: value)
    average = WeightAverage(model, 0.9)
    first = held_out.look(model, stage, average, 1, is_last=False)
    with torch.no_grad():
        for tensor in average.averaged:
            tensor.mul_(3)
    assert held_out.look(model, stage, average, 2, is_last=True) != first


def test_rows_of_more_weight_count_more() -> None:
    data, model, stage = rows(50), fresh().eval(), Stage(1)
    weight = torch.where(torch.arange(50) < 20, 2.0, 0.0)
    weighted = make_held_out(Rows(data.x, data.available, data.y, weight=weight))
    found = weighted.look(model, stage, WeightAverage(model, 0.0), 1, is_last=False)
    alone = make_held_out(data.take(slice(20))).look(model, stage, WeightAverage(model, 0.0), 1, is_last=False)
    assert found == pytest.approx(alone, abs=1e-5)


class Blaring(VIP):
    """Logits a few times what the classifier makes of them."""

    loudness = 1.0

    def log_probabilities(self, logits: Tensor, n_known: Tensor) -> Tensor:
        return super().log_probabilities(logits * self.loudness, n_known)


@cache
def blaring() -> tuple[Blaring, Rows]:
    """Labels that two queries give away in nine rows of ten, and a classifier that learnt these shares."""
    generator = torch.Generator().manual_seed(5)
    data = rows(600)
    wrong = torch.rand(600, generator=generator) < 0.1
    data = Rows(data.x, data.available, torch.where(wrong, torch.randint(4, (600,), generator=generator), data.y))
    torch.manual_seed(0)
    model = Blaring.build(ModelSpec(QUERIES, list("abcd"), MLP((16,))))
    train(model, data.take(slice(300)), [Stage(20, batch_size=32)])
    return model, data


@pytest.mark.parametrize(("loudness", "is_above"), [(1.0, False), (6.0, True)])
def test_overconfident_beliefs_are_cooled_down(loudness: float, is_above: bool) -> None:
    model, data = copy.deepcopy(blaring())
    model.loudness = loudness
    held_out, stage, average = make_held_out(data.take(slice(300, 600))), Stage(1), WeightAverage(model, 0.0)
    loss = held_out.look(model, stage, average, 1, is_last=False)
    assert (held_out.temperature > 1.5) == is_above
    losses, _ = held_out._losses(model, stage)
    as_learnt = float(losses[TEMPERATURES.index(1.0)].mean())
    assert (loss < as_learnt - 0.1) == is_above
    assert loss <= as_learnt
    # The temperature does for the model what it did for the loss.
    model.set_temperature(held_out.temperature)
    assert float(held_out._losses(model, stage)[0][TEMPERATURES.index(1.0)].mean()) == pytest.approx(loss, abs=1e-5)


def test_the_loss_does_not_depend_on_batches_and_leaves_randomness_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model, stage = rows(50), fresh(), Stage(1)
    state = torch.get_rng_state()
    whole = make_held_out(data).look(model, stage, WeightAverage(model, 0.0), 1, is_last=False)
    monkeypatch.setattr(rollout.rows_at_once, "__defaults__", (7, rollout.BATCH_BYTES))
    parts = make_held_out(data).look(model, stage, WeightAverage(model, 0.0), 1, is_last=False)
    assert parts == pytest.approx(whole, abs=1e-6)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_look_is_at_averaged_weights_and_keeps_the_best_of_them() -> None:
    model, stage = fresh(network=MLP((8,))), Stage(1)
    held_out, average = make_held_out(rows(50), patience=2), WeightAverage(model, 0.9)
    start = average.copy()
    with torch.no_grad():  # the model goes astray, and its average has not followed yet
        for parameter in model.parameters():
            parameter.add_(10 * torch.randn_like(parameter))
    astray = weights(model)
    best = held_out.look(model, stage, average, 10, is_last=False)
    assert same(weights(model), astray)
    assert all(torch.equal(one, other) for one, other in zip(held_out.best, start, strict=True))
    with torch.no_grad():
        for tensor in average.averaged:
            tensor.mul_(20)
    assert held_out.look(model, stage, average, 20, is_last=False) > best
    assert (held_out.best_loss, held_out.best_step, held_out.looks_since_best) == (best, 10, 1)
    assert not held_out.has_stopped
    held_out.look(model, stage, average, 30, is_last=False)
    assert held_out.has_stopped
    assert all(torch.equal(one, other) for one, other in zip(held_out.best, start, strict=True))
    held_out.start()
    assert not held_out.has_stopped
    assert held_out.best == []


def test_only_so_many_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out_module, "HELD_OUT_MOST", 30)
    assert len(make_held_out(rows(50)).rows) == 30
    assert len(make_held_out(rows(20)).rows) == 20


def test_batch_norm_statistics_of_the_best_weights_are_measured_again() -> None:
    """Best weights are kept with their statistics, but are refreshed like any that no step was trained with."""
    model = fresh(network=MLP((8,)))
    model.classifier = nn.Sequential(nn.BatchNorm1d(12), model.classifier)
    norm = model.classifier[0]
    train(model, rows(), [Stage(2, batch_size=20, average=0.0)], early_stopping=EarlyStopping(rows(40), 1000))
    assert int(norm.num_batches_tracked) == 20
