"""Early stopping: the loss on held-out rows, and the weights that were best there."""

import pytest
import torch
from small_training import QUERIES, fresh, rows, same, weights
from torch import nn
from torch.nn import functional as F

from pursuit.data.rows import Rows
from pursuit.networks import MLP
from pursuit.training import (
    Batch,
    EarlyStopping,
    Outcome,
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
from pursuit.training.held_out import HELD_OUT_SEED, HeldOut
from pursuit.training.samplers import rolled_out_histories
from pursuit.vip import VIP


def noise(n: int, seed: int) -> Rows:
    """Rows whose labels cannot be known."""
    generator = torch.Generator().manual_seed(seed)
    answers = torch.randint(2, (n, 6), generator=generator).numpy()
    return Rows(*QUERIES.answers(answers), torch.randint(4, (n,), generator=generator))


def make_held_out(data: Rows, patience: int = 20) -> HeldOut:
    return HeldOut(launched("cpu", 1, None), EarlyStopping(data, patience), lambda value: value)


def test_early_stopping_keeps_the_best_weights() -> None:
    """With labels that are noise the held-out loss soon rises, so that training must stop early."""
    data, held_out, stages = noise(60, 1), noise(300, 2), [Stage(400, batch_size=32)]
    reports: list[Report] = []
    model = fresh(network=MLP((64, 64)))
    run = TrainingRun(on_report=reports.append)
    train(model, data, stages, early_stopping=EarlyStopping(held_out, 5), run=run)
    assert reports[-1].step < reports[-1].n_steps
    losses = [report.held_out_loss for report in reports if report.held_out_loss is not None]
    assert losses.index(min(losses)) == len(losses) - 1 - 5
    # A patience of one report less stops one report earlier, but with the same best weights.
    sooner = fresh(network=MLP((64, 64)))
    train(sooner, data, stages, early_stopping=EarlyStopping(held_out, 4))
    assert same(weights(model), weights(sooner))
    # And those are the weights of the lowest loss.
    found = make_held_out(held_out).look(model, stages[0], WeightAverage(model, 0.0))
    assert found == pytest.approx(min(losses), abs=1e-6)


def test_every_stage_starts_its_patience_again() -> None:
    reports: list[Report] = []
    stages = [Stage(400, batch_size=32), Stage(400, RandomHistories(), batch_size=32)]
    run = TrainingRun(on_report=reports.append)
    train(fresh(network=MLP((64, 64))), noise(60, 1), stages, early_stopping=EarlyStopping(noise(300, 2), 3), run=run)
    for number in (1, 2):
        losses = [report.held_out_loss for report in reports if report.stage == number]
        assert losses.index(min(losses)) == len(losses) - 1 - 3  # type: ignore[type-var]


@pytest.mark.parametrize("longest", [None, 3])
def test_the_loss_is_that_of_the_queriers_own_histories(longest: int | None) -> None:
    data, model, stage = rows(50), fresh().eval(), Stage(1, RolledOutHistories(longest), phase="late")
    found = make_held_out(data).look(model, stage, WeightAverage(model, 0.0))
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    k = torch.randint(longest or len(QUERIES), (50,), generator=generator)
    history = rolled_out_histories(data, k, model)
    with torch.no_grad():
        query = model.scores(history).masked_fill(history.asked, -torch.inf).argmax(dim=1)
        answered = history.ask(query, data.available)
        logits = model.classifier(model.network_input(answered.x, answered.known))
    assert found == pytest.approx(float(F.cross_entropy(logits, data.y)), abs=1e-6)


def test_the_loss_does_not_depend_on_batches_and_leaves_randomness_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model, stage = rows(50), fresh(), Stage(1)
    state = torch.get_rng_state()
    whole = make_held_out(data).look(model, stage, WeightAverage(model, 0.0))
    monkeypatch.setattr(held_out_module, "BATCH_ROWS", 7)
    parts = make_held_out(data).look(model, stage, WeightAverage(model, 0.0))
    assert parts == pytest.approx(whole, abs=1e-6)
    assert torch.equal(torch.get_rng_state(), state)


class PhaseLearner(VIP):
    """Remembers what it was given besides rows."""

    def forward(self, batch: Batch) -> Outcome:
        self.given = (batch.phase, batch.tau, batch.exploration, batch.label_smoothing)
        return super().forward(batch)


def test_the_learner_is_given_the_phase_and_nothing_random() -> None:
    model = PhaseLearner.build(QUERIES, list("abcd"), MLP((4,)))
    stage = Stage(1, phase="joint", tau=(1.0, 0.2), exploration=(0.5, 0.5), label_smoothing=0.3)
    make_held_out(rows(20)).look(model, stage, WeightAverage(model, 0.0))
    assert model.given == ("joint", 0.2, 0.0, 0.0)


def test_a_look_is_at_averaged_weights_and_keeps_the_best_of_them() -> None:
    model, stage = fresh(network=MLP((8,))), Stage(1)
    held_out, average = make_held_out(rows(50), patience=2), WeightAverage(model, 0.9)
    start = average.copy()
    with torch.no_grad():  # the model goes astray, and its average has not followed yet
        for parameter in model.parameters():
            parameter.add_(10 * torch.randn_like(parameter))
    astray = weights(model)
    best = held_out.look(model, stage, average)
    assert same(weights(model), astray)
    assert all(torch.equal(one, other) for one, other in zip(held_out.best, start, strict=True))
    with torch.no_grad():
        for tensor in average.averaged:
            tensor.mul_(20)
    assert held_out.look(model, stage, average) > best
    assert (held_out.best_loss, held_out.reports_since_best, held_out.has_stopped) == (best, 1, False)
    held_out.look(model, stage, average)
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
