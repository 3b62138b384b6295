"""The training loop: reports, seeds, and what stages begin and end with."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pursuit import ModelSpec
from pursuit.networks import MLP, Conv
from pursuit.training import AdamW, EarlyStopping, RandomHistories, Report, Stage, TrainingRun, train
from pursuit.training.averaging import REFRESH_STEPS
from pursuit.training.devices import launched
from pursuit.training.loop import REPORTS_PER_STAGE, Trainer
from pursuit.training.rows import Shifts
from pursuit.vip import VIP
from small_training import PATCHES, QUERIES, STAGES, fresh, rows, same, weights


def make_trainer(stages: list[Stage], model: VIP | None = None, **settings: Any) -> Trainer:
    given = {"seed": 0, "early_stopping": None, "compiled": None, **settings}
    return Trainer(launched("cpu", 1, None), model or fresh(), rows(), stages, **given)


def test_the_same_seed_gives_the_same_weights_and_leaves_other_randomness_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    models = [fresh() for _ in range(3)]
    torch.manual_seed(5)
    for model, seed in zip(models, (1, 1, 2), strict=True):
        train(model, rows(64), STAGES, seed=seed)
    assert torch.equal(torch.rand(3), expected)
    assert same(weights(models[0]), weights(models[1]))
    assert not same(weights(models[0]), weights(models[2]))


def test_reports_say_loss_and_progress() -> None:
    reports: list[Report] = []
    stage = Stage(32, optimizer=AdamW(lr=0.008), batch_size=32)
    train(fresh(), rows(), [stage], run=TrainingRun(on_report=reports.append))
    assert reports[-1].loss < 0.6 * reports[0].loss
    assert [report.step for report in reports] == sorted({report.step for report in reports})
    assert REPORTS_PER_STAGE <= len(reports) <= REPORTS_PER_STAGE + 30
    assert reports[-1].step == reports[-1].n_steps == 200
    assert reports[-1].seconds_left == 0
    assert all(report.held_out_loss is None for report in reports)
    for report in reports:
        assert report.lr == stage.lr_at(report.step - 1, 200)
        assert report.tau == stage.tau_at(report.step - 1, 200)


def test_a_report_is_the_mean_loss_of_the_steps_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    losses: list[float] = []
    model = fresh()
    model.register_forward_hook(lambda _, __, outcome: losses.append(float(outcome.loss.detach())))
    monkeypatch.setattr("pursuit.training.loop.REPORTS_PER_STAGE", 3)
    reports = list(make_trainer([Stage(50 * 16 / 200, batch_size=16, average=0.0)], model).run())
    assert [report.step for report in reports] == [16, 32, 48, 50]
    for report, start in zip(reports, (0, 16, 32, 48), strict=True):
        assert report.loss == pytest.approx(sum(losses[start : report.step]) / (report.step - start), abs=1e-5)


def test_stages_are_counted_and_the_time_left_is_that_of_all() -> None:
    reports = list(make_trainer([Stage(1, batch_size=20), Stage(3, RandomHistories(), batch_size=20)]).run())
    assert [report.stage for report in reports] == [1] * 10 + [2] * 30
    end_of_first, first_of_second = reports[9], reports[10]
    assert end_of_first.seconds_left == pytest.approx(30 * 20 / end_of_first.histories_per_second)
    assert first_of_second.seconds_left == pytest.approx(29 * 20 / first_of_second.histories_per_second)


def test_a_learner_is_prepared_for_every_stage() -> None:
    begun: list[str] = []

    class Prepared(VIP):
        def begin(self, stage: Stage) -> None:
            begun.append(stage.phase)

    model = Prepared.build(ModelSpec(QUERIES, list("abcd"), MLP((4,))))
    train(model, rows(), [Stage(0.1, phase="one"), Stage(0.1, phase="two")])
    assert begun == ["one", "two"]


def test_a_stage_ends_with_its_averaged_weights() -> None:
    trainer = make_trainer([Stage(1, batch_size=20)])
    for _ in trainer.run():
        averaged, last = [tensor.clone() for tensor in trainer.average.averaged], trainer.average.copy()
    now = trainer.average.copy()
    assert all(torch.equal(one, other) for one, other in zip(now, averaged, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(now, last, strict=True))


def test_held_out_rows_are_looked_at_with_every_report() -> None:
    trainer = make_trainer([Stage(1, batch_size=20)], early_stopping=EarlyStopping(rows(40), patience=1000))
    losses = [report.held_out_loss for report in trainer.run()]
    assert all(loss is not None for loss in losses)
    assert trainer.held_out is not None
    assert trainer.held_out.best_loss == min(losses)  # type: ignore[type-var]
    kept = zip(trainer.average.copy(), trainer.held_out.best, strict=True)
    assert all(torch.equal(one, other) for one, other in kept)


@pytest.mark.parametrize(
    ("n_steps", "n_batches"), [(3, 10), (19, 19), pytest.param(120, REFRESH_STEPS, marks=pytest.mark.slow)]
)
def test_a_short_stage_needs_few_batches_to_measure_batch_norm(n_steps: int, n_batches: int) -> None:
    model = fresh(network=MLP((4,)))
    model.classifier = nn.Sequential(nn.BatchNorm1d(12), model.classifier)
    train(model, rows(), [Stage(n_steps * 10 / 200, batch_size=10)])
    assert int(model.classifier[0].num_batches_tracked) == n_batches


def test_images_are_augmented_only_in_stages_that_say_so() -> None:
    shown: list[Tensor] = []
    model = fresh(PATCHES, Conv((4,), hidden=4))
    model.register_forward_pre_hook(lambda _, given: shown.append(given[0].x.clone()))
    data = rows(20, PATCHES)
    stages = [Stage(1, RandomHistories(), batch_size=20, augment=augment) for augment in (None, Shifts(2))]
    train(model, data, stages)

    def unchanged(batch: Tensor) -> int:
        return sum(bool((image == data.x).flatten(1).all(dim=1).any()) for image in batch)

    assert [len(batch) for batch in shown[:2]] == [20, 20]
    assert unchanged(shown[0]) == 20
    assert unchanged(shown[-1]) < 10
