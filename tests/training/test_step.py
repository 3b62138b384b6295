"""A step of training: what the learner is given, and how the step is recorded, compiled, or run as it is."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pursuit import ModelSpec
from pursuit.networks import MLP
from pursuit.training import Batch, CarriedHistories, RandomHistories, RolledOutHistories, Stage, TrainingOutcome, train
from pursuit.training import step as step_module
from pursuit.training.samplers import HistorySettings, Sampler
from pursuit.training.step import TIMED, WARM_UP, TrainingStep
from pursuit.vip import VIP
from small_training import QUERIES, fresh, rows, same, weights


class Watching(VIP):
    """Remembers the batches it was given."""

    def forward(self, batch: Batch) -> TrainingOutcome:
        if "batches" not in vars(self):
            self.batches: list[Batch] = []
        scheduled = {"tau": float(batch.tau), "exploration": float(batch.exploration)}  # rewritten in every step
        self.batches.append(batch._replace(**scheduled))
        return super().forward(batch)


def batches_of(stages: list[Stage]) -> list[Batch]:
    torch.manual_seed(0)
    model = Watching.build(ModelSpec(QUERIES, list("abcd"), MLP((4,))))
    train(model, rows(), stages)
    return model.batches


def test_the_learner_is_given_the_phase_of_its_stage() -> None:
    short = {"epochs": 0.4, "batch_size": 16, "average": 0.0}
    stages = [Stage(**short, phase="first"), Stage(**short, phase="second"), Stage(**short)]  # type: ignore[arg-type]
    assert [batch.phase for batch in batches_of(stages)] == ["first"] * 5 + ["second"] * 5 + [""] * 5


def test_tau_and_exploration_are_scheduled_from_step_to_step() -> None:
    stage = Stage(2, batch_size=16, average=0.0, tau=(1.0, 0.2), tau_share=0.5, exploration=(0.4, 0.1))
    batches = batches_of([stage])
    assert len(batches) == 25
    assert [batch.exploration for batch in batches] == pytest.approx([0.4 - 0.3 * i / 25 for i in range(25)])
    assert [batch.tau for batch in batches] == pytest.approx([1.0 - 0.8 * min(1, i / 12.5) for i in range(25)])


def test_smoothing_is_for_learning_alone() -> None:
    """Batches shown to averaged weights, to measure BatchNorm, are as they are in use."""
    stage = Stage(0.4, batch_size=16, average=0.9, label_smoothing=0.2, tau=(0.5, 0.5))
    assert {(batch.label_smoothing, batch.tau) for batch in batches_of([stage])} == {(0.2, 0.5)}
    torch.manual_seed(0)
    model = Watching.build(ModelSpec(QUERIES, list("abcd"), MLP((4,))))
    model.classifier = torch.nn.Sequential(torch.nn.BatchNorm1d(12), model.classifier)
    train(model, rows(), [stage])
    found = [(batch.label_smoothing, batch.tau) for batch in model.batches]
    assert found == [(0.2, 0.5)] * 5 + [(0.0, 1.0)] * 10


@pytest.mark.parametrize(
    ("histories", "asks"), [(RandomHistories(), False), (CarriedHistories(3), False), (RolledOutHistories(3), True)]
)
def test_histories_are_those_of_use_and_learning_is_with_dropout(
    histories: HistorySettings, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing: set[bool] = set()
    model = fresh()
    sampler_class = type(histories.sampler(rows().stream(torch.Generator()), 16, torch.Generator()))
    draw = sampler_class.draw

    def watched(self: Sampler, pursuer: Any) -> Batch:
        drawing.add(pursuer.training)
        return draw(self, pursuer)

    monkeypatch.setattr(sampler_class, "draw", watched)
    learning: set[bool] = set()
    model.register_forward_hook(lambda module, *_: learning.add(module.training))
    model.eval()
    train(model, rows(), [Stage(1, histories, batch_size=16)])
    assert learning == {True}
    if asks:
        assert drawing == {False}


class Silent(VIP):
    """Learns, but does not say what it would ask."""

    def forward(self, batch: Batch) -> TrainingOutcome:
        return TrainingOutcome(super().forward(batch).loss)


def test_a_learner_without_queries_trains_on_random_histories() -> None:
    silent, vip = (cls.build(ModelSpec(QUERIES, list("abcd"), MLP((8,)))) for cls in (Silent, VIP))
    silent.load_state_dict(vip.state_dict())
    for model in (silent, vip):
        train(model, rows(), [Stage(3, RandomHistories(), batch_size=16)], seed=1)
    assert same(weights(silent), weights(vip))
    train(silent, rows(), [Stage(1, RolledOutHistories(2), batch_size=16)])


def test_carried_histories_say_what_to_use_with_a_learner_without_queries() -> None:
    silent = Silent.build(ModelSpec(QUERIES, list("abcd"), MLP((8,))))
    with pytest.raises(ValueError, match=r"go on by the learner's queries, but it chooses none: use RandomHistories"):
        train(silent, rows(), [Stage(1, CarriedHistories(3), batch_size=16)])


class Recorder:
    """Stands for a CUDA graph: runs everything as it is, and remembers what it was asked to do."""

    def __init__(self) -> None:
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

    def seconds_a_step(self) -> float:
        return 1.0


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder that needs no GPU, and training that uses it."""
    found = Recorder()
    monkeypatch.setattr(step_module, "CudaGraph", lambda *_: found)
    monkeypatch.setattr(TrainingStep, "_can_be_recorded", lambda _: True)
    return found


N_STEPS = 40
STAGE = Stage(N_STEPS * 16 / 200, CarriedHistories(4), batch_size=16)


def test_compiled_steps_are_the_same_steps(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever compiles the objective gets every batch, and takes the place of one step and of all after it."""
    plain = fresh(network=MLP((16,)))
    train(plain, rows(), [STAGE], compiled=False)
    assert recorder.calls == ["warm up"] * WARM_UP + ["run"] * (N_STEPS - WARM_UP)
    recorder.calls.clear()
    compiled = 0

    def compile(function: Callable[[Batch], TrainingOutcome], dynamic: bool) -> Callable[[Batch], TrainingOutcome]:
        def counted(batch: Batch) -> TrainingOutcome:
            nonlocal compiled
            compiled += 1
            return function(batch)

        return counted

    monkeypatch.setattr(torch, "compile", compile)
    model = fresh(network=MLP((16,)))
    train(model, rows(), [STAGE], compiled=True)
    before = WARM_UP + TIMED
    assert compiled == N_STEPS - before
    assert recorder.calls[before : before + 3] == ["warm up", "forget", "run"]
    assert same(weights(plain), weights(model))


def test_training_goes_on_uncompiled_with_one_line(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_compiler(*_: Any, **__: Any) -> Callable[[Batch], TrainingOutcome]:
        def fail(batch: Batch) -> TrainingOutcome:
            raise RuntimeError("There is no C++ compiler.\nTry another machine.")

        return fail

    monkeypatch.setattr(torch, "compile", no_compiler)
    model = fresh(network=MLP((16,)))
    with caplog.at_level(logging.INFO):
        train(model, rows(), [STAGE], compiled=True)
    assert [r.getMessage() for r in caplog.records if r.name == "pursuit.training.step"] == [
        "Training is not compiled: There is no C++ compiler."
    ]
    plain = fresh(network=MLP((16,)))
    train(plain, rows(), [STAGE], compiled=False)
    assert abs(loss_of(model) - loss_of(plain)) < 0.3  # what was drawn for the attempt is lost, nothing else


def loss_of(model: VIP) -> float:
    data = rows(200)
    known = data.available & (torch.arange(6) < 4)
    return float(model(Batch(data.x, known, known, data.available, data.y, tau=0.2)).loss.detach())


@pytest.mark.parametrize(("seconds", "pays"), [(0.0, True), (1e9, False)])
def test_compiling_must_pay(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, seconds: float, pays: bool) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: calls.append(dynamic) or function)
    monkeypatch.setattr(step_module, "COMPILING_PAYS", seconds)
    train(fresh(), rows(), [STAGE])
    assert calls == [False] * pays


def test_where_a_step_cannot_be_recorded_it_is_run_as_it_is(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder that gives up has left the step undone, and is not asked again."""

    def give_up(work: Callable[[], None]) -> bool:
        recorder.calls.append("gave up")
        return False

    monkeypatch.setattr(recorder, "run", give_up)
    model, plain = fresh(network=MLP((16,))), fresh(network=MLP((16,)))
    train(model, rows(), [STAGE])
    assert recorder.calls == ["warm up"] * WARM_UP + ["gave up"]
    monkeypatch.setattr(TrainingStep, "_can_be_recorded", lambda _: False)
    train(plain, rows(), [STAGE])
    assert same(weights(model), weights(plain))


def test_nothing_is_recorded_on_a_cpu(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pursuit"):
        train(fresh(), rows(), [Stage(1, batch_size=16)])
    assert not caplog.records
