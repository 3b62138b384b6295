"""Steps recorded as a CUDA graph. All of it needs an NVIDIA GPU; `test_step.py` has what does not."""

import logging
from typing import Any

import pytest
import torch

from pursuit.networks import MLP, Conv, NetworkSettings, SetNetwork
from pursuit.queries import ColumnQueries, Group, OnlyAfter, Order, yes_no
from pursuit.training import (
    SGD,
    Adam,
    AdamW,
    CarriedHistories,
    RandomHistories,
    Report,
    RolledOutHistories,
    Stage,
    TrainingRun,
    train,
)
from pursuit.training.rows import Shifts
from pursuit.training.samplers import HistorySettings
from pursuit.training.step import CudaGraph, TrainingStep
from pursuit.vip import VIP
from small_training import PATCHES, KillAt, Killed, fresh, rows

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def losses_of(model: VIP, stage: Stage, run: TrainingRun | None = None, **settings: Any) -> list[float]:
    found: list[float] = []
    kept = run or TrainingRun()
    watched = TrainingRun(kept.folder, kept.resume, on_report=lambda report: found.append(report.loss))
    train(model, rows(200, model.query_set), [stage], run=watched, device="cuda", **settings)
    return found


def test_work_is_recorded_once_and_replayed() -> None:
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(1)
    graph, total, n_run = CudaGraph(device, [generator]), torch.zeros((), device=device), 0

    def work() -> None:
        nonlocal n_run
        n_run += 1
        total.add_(torch.rand((), generator=generator, device=device))

    graph.warm_up(work)
    for _ in range(5):
        assert graph.run(work)
    assert n_run == 2  # as it is, and to be recorded
    assert graph.seconds_a_step() > 0
    again = torch.Generator(device).manual_seed(1)
    wanted = sum(float(torch.rand((), generator=again, device=device)) for _ in range(6))
    assert float(total) == pytest.approx(wanted, abs=1e-5)  # random numbers go on from replay to replay
    graph.forget()
    graph.run(work)
    assert n_run == 3


@pytest.mark.parametrize("network", [MLP((16,)), SetNetwork(8, width=4, hidden=(8,))])
def test_rolled_out_steps_are_recorded(network: NetworkSettings, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        train(fresh(network=network), rows(), [Stage(2, RolledOutHistories(3), batch_size=16)], device="cuda")
    assert "not recorded" not in caplog.text


def test_work_that_cannot_be_recorded_is_left_undone_with_its_randomness(caplog: pytest.LogCaptureFixture) -> None:
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(1)
    graph, drawn = CudaGraph(device, [generator]), []

    def work() -> None:
        drawn.append(float(torch.rand((), generator=generator, device=device)))  # asks the GPU

    assert not graph.run(work)
    assert drawn == []
    work()
    assert drawn == [float(torch.rand((), generator=torch.Generator(device).manual_seed(1), device=device))]
    assert "not recorded as a CUDA graph" in caplog.text


@pytest.mark.parametrize(
    ("histories", "optimizer"),
    [
        (CarriedHistories(4), AdamW()),
        (RandomHistories(), Adam(amsgrad=True)),
        (CarriedHistories(3, 0.0), SGD()),
        (RolledOutHistories(3), AdamW()),
        (RolledOutHistories(), Adam(amsgrad=True)),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_steps_learn_as_plain_ones(
    histories: HistorySettings, optimizer: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(60, histories, optimizer, batch_size=16)
    recorded = losses_of(fresh(network=MLP((16,))), stage, precision="32-true", compiled=compiled)
    monkeypatch.setattr(TrainingStep, "_can_be_recorded", lambda _: False)
    plain = losses_of(fresh(network=MLP((16,))), stage, precision="32-true")
    gap = (torch.tensor(recorded) - torch.tensor(plain)).abs()
    assert gap[:40].max() < 0.02  # later on rounding may turn a close choice, and the two go apart
    assert gap[-20:].mean() < 0.05


def test_recorded_steps_keep_the_order_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is part of the recording, and what is recorded learns as what is not."""
    queries = ColumnQueries([yes_no(f"q{i}") for i in range(6)])
    queries.set_order(Order(("q1",), (OnlyAfter("q0", "q2", ("yes",)),), (Group("g", ("q4", "q5")),)))
    stage = Stage(60, CarriedHistories(4), batch_size=16)
    n_plain, work = 0, TrainingStep._work

    def counted(step: TrainingStep) -> None:
        nonlocal n_plain
        n_plain += 1
        work(step)

    monkeypatch.setattr(TrainingStep, "_work", counted)
    recorded = losses_of(fresh(queries, MLP((16,))), stage, precision="32-true", compiled=False)
    assert n_plain < 10  # but replayed after that
    monkeypatch.setattr(TrainingStep, "_can_be_recorded", lambda _: False)
    plain = losses_of(fresh(queries, MLP((16,))), stage, precision="32-true")
    assert (torch.tensor(recorded) - torch.tensor(plain)).abs()[:40].max() < 0.02


@pytest.mark.parametrize("histories", [CarriedHistories(5), RolledOutHistories(5)])
def test_recorded_images_learn_as_plain_ones(histories: HistorySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(20, histories, batch_size=32, augment=Shifts(1))
    network = Conv((8, 16), hidden=32)
    recorded = losses_of(fresh(PATCHES, network), stage)
    monkeypatch.setattr(TrainingStep, "_can_be_recorded", lambda _: False)
    plain = losses_of(fresh(PATCHES, network), stage)
    gap = (torch.tensor(recorded) - torch.tensor(plain)).abs()
    assert gap[:20].max() < 0.1  # rounding grows from step to step
    assert abs(sum(recorded[-10:]) - sum(plain[-10:])) < 1.0


def test_what_cannot_be_recorded_is_run_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def synchronising(self: Any, query: torch.Tensor) -> None:
        assert int(query.max()) >= 0  # asks the GPU, which a recording does not allow

    monkeypatch.setattr("pursuit.training.samplers._RandomSampler.advance", synchronising)
    reports: list[Report] = []
    run = TrainingRun(on_report=reports.append)
    with caplog.at_level(logging.INFO):
        train(fresh(), rows(), [Stage(5, RandomHistories(), batch_size=16)], device="cuda", run=run)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("pursuit.training")]
    assert len(lines) == 1
    assert "not recorded as a CUDA graph" in lines[0]
    assert reports[-1].step == reports[-1].n_steps


def test_a_recorded_run_goes_on_after_a_stop(tmp_path: Any) -> None:
    stage = Stage(30, CarriedHistories(4), batch_size=16)
    whole = losses_of(fresh(network=MLP((16,))), stage, precision="32-true")
    killed = TrainingRun(tmp_path, on_report=KillAt(40), checkpoint_seconds=0)
    with pytest.raises(Killed):
        train(fresh(network=MLP((16,))), rows(), [stage], device="cuda", precision="32-true", run=killed)
    late = losses_of(fresh(network=MLP((16,))), stage, TrainingRun(tmp_path, resume=True), precision="32-true")
    assert 0 < len(late) < len(whole)
    torch.testing.assert_close(torch.tensor(late), torch.tensor(whole[-len(late) :]), rtol=2e-2, atol=2e-2)
