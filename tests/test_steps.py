"""A step of training: what it averages, and how it is recorded, compiled, or run as it is."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pursuit import steps
from pursuit.augmentation import Shifts
from pursuit.histories import CarriedHistories, HistorySettings, RandomHistories, RolledOutHistories
from pursuit.networks import MLP, Conv
from pursuit.queries import PatchQueries
from pursuit.stages import SGD, Adam, AdamW, Stage
from pursuit.training import Report, train
from pursuit.vip import VIP
from test_training import fresh, rows, same, weights

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
PATCHES = PatchQueries((1, 8, 8), size=2)


def losses_of(model: VIP, stage: Stage, **settings: Any) -> list[float]:
    found: list[float] = []
    train(model, rows(200, model.query_set), [stage], on_report=lambda report: found.append(report.loss), **settings)
    return found


def test_the_average_moves_towards_the_weights_and_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After step s the average has moved by 1 - min(average, (1 + s) / (10 + s)) of the way."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    work = steps.TrainingStep._work

    def watched(self: steps.TrainingStep) -> None:
        work(self)
        seen.append((self.weights[0].detach().clone(), self.averaged[0].clone()))

    monkeypatch.setattr(steps.TrainingStep, "_work", watched)
    model = fresh()
    average = next(model.parameters()).detach().clone()
    train(model, rows(), [Stage(2, batch_size=16, average=0.5)])
    assert len(seen) == 25
    for step, (now, found) in enumerate(seen):
        average = average.lerp(now, 1 - min(0.5, (1 + step) / (10 + step)))
        torch.testing.assert_close(found, average)


class Recorder:
    """Runs everything as it is, and remembers what it was told to do."""

    def __init__(self, *_: Any) -> None:
        self.calls: list[str] = []

    def warm_up(self, work: Callable[[], None]) -> None:
        self.calls.append("warm up")
        work()

    def run(self, work: Callable[[], None]) -> bool:
        self.calls.append("run")
        work()
        return True

    def forget(self) -> None:
        self.calls.append("forget")

    def pace(self) -> float:
        return 1.0


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder that needs no GPU, and training that uses it."""
    found = Recorder()
    monkeypatch.setattr(steps, "_Recorder", lambda *_: found)
    monkeypatch.setattr(steps.TrainingStep, "_can_be_recorded", lambda _: True)
    return found


N_STEPS = 40
STAGE = Stage(N_STEPS * 16 / 200, CarriedHistories(4), batch_size=16)


def test_compiled_steps_are_the_same_steps(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever compiles the objective gets every input, and takes the place of one step and of all after it."""
    plain = fresh(network=MLP((16,)))
    train(plain, rows(), [STAGE], compiled=False)
    assert recorder.calls == ["warm up"] * steps.WARM_UP + ["run"] * (N_STEPS - steps.WARM_UP)
    recorder.calls.clear()
    compiled = 0

    def compile(function: Callable[..., Any], dynamic: bool) -> Callable[..., Any]:
        def counted(*inputs: Any) -> Any:
            nonlocal compiled
            compiled += 1
            return function(*inputs)

        return counted

    monkeypatch.setattr(torch, "compile", compile)
    model = fresh(network=MLP((16,)))
    train(model, rows(), [STAGE], compiled=True)
    before = steps.WARM_UP + steps.TIMED
    assert compiled == N_STEPS - before
    assert recorder.calls[before : before + 3] == ["warm up", "forget", "run"]
    assert same(weights(plain), weights(model))


def test_training_goes_on_uncompiled_with_one_line(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_compiler(*_: Any, **__: Any) -> Callable[..., Any]:
        def fail(*_: Any) -> Any:
            raise RuntimeError("There is no C++ compiler.\nTry another machine.")

        return fail

    monkeypatch.setattr(torch, "compile", no_compiler)
    model = fresh(network=MLP((16,)))
    with caplog.at_level(logging.INFO):
        train(model, rows(), [STAGE], compiled=True)
    assert [r.getMessage() for r in caplog.records if r.name == "pursuit.steps"] == [
        "Training is not compiled: There is no C++ compiler."
    ]
    plain = fresh(network=MLP((16,)))
    train(plain, rows(), [STAGE], compiled=False)
    assert losses_close(model, plain)  # what was drawn for the attempt is lost, nothing else


def losses_close(*models: VIP) -> bool:
    data = rows(200)
    known = data.available & (torch.arange(6) < 4)
    first, second = (float(model(data.x, known, known, data.available, data.y, 0.2)[0].detach()) for model in models)
    return abs(first - second) < 0.3


@pytest.mark.parametrize(("seconds", "pays"), [(0.0, True), (1e9, False)])
def test_compiling_must_pay(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, seconds: float, pays: bool) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: calls.append(dynamic) or function)
    monkeypatch.setattr(steps, "COMPILING_PAYS", seconds)
    train(fresh(), rows(), [STAGE])
    assert calls == [False] * pays


@needs_gpu
@pytest.mark.parametrize(
    ("histories", "optimizer"),
    [(CarriedHistories(4), AdamW()), (RandomHistories(), Adam(amsgrad=True)), (CarriedHistories(3, 0.0), SGD())],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_recorded_steps_learn_as_plain_ones(
    histories: HistorySettings, optimizer: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(60, histories, optimizer, batch_size=16, augment=None)
    recorded = losses_of(fresh(network=MLP((16,))), stage, device="cuda", precision="32-true", compiled=compiled)
    monkeypatch.setattr(steps.TrainingStep, "_can_be_recorded", lambda _: False)
    plain = losses_of(fresh(network=MLP((16,))), stage, device="cuda", precision="32-true")
    gap = (torch.tensor(recorded) - torch.tensor(plain)).abs()
    assert gap[:40].max() < 0.02  # later on rounding may turn a close choice, and the two go apart
    assert gap[-20:].mean() < 0.05


@needs_gpu
def test_recorded_images_learn_as_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(20, CarriedHistories(5), batch_size=32, augment=Shifts(1))
    network = Conv((8, 16), hidden=32)
    recorded = losses_of(fresh(PATCHES, network), stage, device="cuda")
    monkeypatch.setattr(steps.TrainingStep, "_can_be_recorded", lambda _: False)
    plain = losses_of(fresh(PATCHES, network), stage, device="cuda")
    gap = (torch.tensor(recorded) - torch.tensor(plain)).abs()
    assert gap[:20].max() < 0.1  # rounding grows from step to step
    assert abs(sum(recorded[-10:]) - sum(plain[-10:])) < 1.0


@needs_gpu
def test_what_cannot_be_recorded_is_run_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def synchronising(self: Any, query: torch.Tensor) -> None:
        assert int(query.max()) >= 0  # asks the GPU, which a recording does not allow

    monkeypatch.setattr("pursuit.histories._RandomSampler.advance", synchronising)
    reports: list[Report] = []
    with caplog.at_level(logging.INFO):
        train(fresh(), rows(), [Stage(5, RandomHistories(), batch_size=16)], device="cuda", on_report=reports.append)
    told = [record.getMessage() for record in caplog.records if record.name == "pursuit.steps"]
    assert len(told) == 1
    assert "not recorded as a CUDA graph" in told[0]
    assert reports[-1].step == reports[-1].n_steps
    caplog.clear()
    with caplog.at_level(logging.INFO):
        train(fresh(), rows(), [Stage(2, RolledOutHistories(3), batch_size=16)], device="cuda")
    assert "rolled-out histories differ" in caplog.text


@needs_gpu
def test_a_recorded_run_goes_on_after_a_stop(tmp_path: Any) -> None:
    stage = Stage(30, CarriedHistories(4), batch_size=16)
    whole = losses_of(fresh(network=MLP((16,))), stage, device="cuda", precision="32-true")
    n_reports = 0

    class Stopped(Exception):
        pass

    def stop(_: Report) -> None:
        nonlocal n_reports
        n_reports += 1
        if n_reports == 40:
            raise Stopped

    settings: dict[str, Any] = {"device": "cuda", "precision": "32-true", "folder": tmp_path, "checkpoint_seconds": 0}
    with pytest.raises(Stopped):
        train(fresh(network=MLP((16,))), rows(), [stage], on_report=stop, **settings)
    late = losses_of(fresh(network=MLP((16,))), stage, resume=True, **settings)
    torch.testing.assert_close(torch.tensor(late), torch.tensor(whole[-len(late) :]), rtol=2e-2, atol=2e-2)
