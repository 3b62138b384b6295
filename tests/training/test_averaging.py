"""Averaged weights, and the BatchNorm statistics that belong to them."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from pursuit.networks import Conv
from pursuit.training import Batch, CarriedHistories, RandomHistories, RolledOutHistories, Stage, train
from pursuit.training.averaging import WeightAverage, refresh_batch_norm
from pursuit.training.samplers import HistorySettings
from pursuit.training.step import TrainingStep
from small_training import PATCHES, fresh, rows, weights


def test_the_average_moves_towards_the_weights_and_warms_up() -> None:
    """After step s the average has moved by 1 - min(decay, (1 + s) / (10 + s)) of the way."""
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.5)
    wanted = model.weight.detach().clone()
    for step in range(25):
        with torch.no_grad():
            model.weight.copy_(torch.randn(2, 3))
        average.schedule(step)
        average.update()
        wanted = wanted.lerp(model.weight.detach(), 1 - min(0.5, (1 + step) / (10 + step)))
        torch.testing.assert_close(average.averaged[0], wanted)


def test_training_averages_the_weights_of_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Tensor, Tensor]] = []
    work = TrainingStep._work

    def watched(self: TrainingStep) -> None:
        work(self)
        seen.append((self.average.weights[0].detach().clone(), self.average.averaged[0].clone()))

    monkeypatch.setattr(TrainingStep, "_work", watched)
    model = fresh()
    average = next(model.parameters()).detach().clone()
    train(model, rows(), [Stage(2, batch_size=16, average=0.5)])
    assert len(seen) == 25
    for step, (now, found) in enumerate(seen):
        average = average.lerp(now, 1 - min(0.5, (1 + step) / (10 + step)))
        torch.testing.assert_close(found, average)
    assert torch.equal(next(model.parameters()), seen[-1][1])


def test_without_decay_nothing_is_averaged() -> None:
    model = nn.Linear(2, 2)
    average = WeightAverage(model, 0.0)
    before = weights(model)
    average.schedule(3)
    average.update()
    with average.applied():
        assert torch.equal(model.weight, before["weight"])
    assert average.averaged == []


def test_averaged_weights_are_applied_for_the_time_being() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = WeightAverage(model, 0.9)
    with torch.no_grad():
        model[0].weight.fill_(7.0)
        model[1].running_mean.fill_(7.0)
    trained = weights(model)
    with average.applied():
        assert not torch.equal(model[0].weight, trained["0.weight"])
        assert torch.equal(model[1].running_mean, torch.zeros(2))  # statistics are averaged with the weights
    with pytest.raises(RuntimeError, match="a loss that failed"), average.applied():
        raise RuntimeError("a loss that failed")
    assert all(torch.equal(tensor, trained[name]) for name, tensor in model.state_dict().items())


def test_parameters_that_are_not_trained_are_not_averaged() -> None:
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    assert [tensor.shape for tensor in WeightAverage(model, 0.9).weights] == [(2, 2)]


def shown(n: int) -> Iterator[Batch]:
    for number in range(n):
        x = torch.randn(5 + number, 3, generator=torch.Generator().manual_seed(number))
        known = torch.zeros(5 + number, 1, dtype=torch.bool)
        yield Batch(x, known, known, known, torch.zeros(5 + number, dtype=torch.long))


def test_batch_norm_is_measured_as_a_plain_mean_over_batches() -> None:
    """Every batch counts as much as another, whatever its size; the variance is that of a sample."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()
    model(torch.randn(50, 3) * 9)  # statistics of weights that are gone
    before = model[0].weight.detach().clone()
    found = refresh_batch_norm(model, shown(6), lambda batch: model(batch.x))
    with torch.no_grad():
        hidden = [model[0](batch.x) for batch in shown(6)]
    mean = torch.stack([h.mean(dim=0) for h in hidden]).mean(dim=0)
    variance = torch.stack([h.var(dim=0, unbiased=True) for h in hidden]).mean(dim=0)
    torch.testing.assert_close(found[0], mean)
    torch.testing.assert_close(found[1], variance)
    assert found[0] is model[1].running_mean
    assert found[1] is model[1].running_var
    assert int(model[1].num_batches_tracked) == 6
    assert model[1].momentum == 0.1
    assert torch.equal(model[0].weight, before)
    assert all(p.grad is None for p in model.parameters())


def test_without_batch_norm_no_batch_is_drawn() -> None:
    def nobody() -> Iterator[Batch]:
        raise AssertionError("a batch was drawn")
        yield

    assert refresh_batch_norm(nn.Linear(3, 4), nobody(), print) == []


@pytest.mark.parametrize(
    ("histories", "average"), [(RandomHistories(), 0.9), (RolledOutHistories(3), 0.9), (CarriedHistories(4), 0.0)]
)
def test_averaged_weights_end_with_statistics_of_their_own(histories: HistorySettings, average: float) -> None:
    """The means are those of what the first norm of the trained model is shown after the last step."""
    model = fresh(PATCHES, Conv((4, 8), hidden=16))
    norm = next(module for module in model.classifier.modules() if isinstance(module, nn.BatchNorm2d))
    inputs: list[Tensor] = []
    norm.register_forward_hook(lambda module, given, _: inputs.append(given[0]) if module.training else None)
    train(model, rows(200, PATCHES), [Stage(3, histories, batch_size=32, average=average)])
    assert len(inputs) == (19 * 2 if average else 19)  # as many batches as the stage had steps
    if not average:
        return
    last = inputs[-19:]
    means = torch.stack([x.mean(dim=(0, 2, 3)) for x in last]).mean(dim=0)
    variances = torch.stack([x.transpose(0, 1).flatten(1).var(dim=1) for x in last]).mean(dim=0)
    torch.testing.assert_close(norm.running_mean, means)
    torch.testing.assert_close(norm.running_var, variances)
    assert int(norm.num_batches_tracked) == 19
    assert norm.momentum == 0.1
