"""The state of a training: saved and restored, the rest of training is the same."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pursuit.training import EarlyStopping, Stage
from pursuit.training.checkpoints import (
    HELD_OUT,
    load_checkpoint,
    load_optimizer,
    load_state,
    save_checkpoint,
    state_of,
)
from pursuit.training.devices import launched, own_randomness
from pursuit.training.held_out import TEMPERATURES
from pursuit.training.loop import SEED_STRIDE, Trainer
from pursuit.training.schedule import Adam
from small_training import STAGES, fresh, rows, same, weights

EVERY_STAGE = pytest.mark.parametrize("stage", STAGES, ids=["random", "carried", "rolled out"])


def make_trainer(stages: list[Stage], seed: int = 3, held_out: bool = True) -> Trainer:
    early_stopping = EarlyStopping(rows(50), patience=1000) if held_out else None
    return Trainer(launched("cpu", 1, None), fresh(), rows(), stages, seed, early_stopping, None)


@EVERY_STAGE
@pytest.mark.parametrize("held_out", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_state_is_restored_and_training_goes_on_with_the_same_bits(stage: Stage, held_out: bool) -> None:
    """The trainer that goes on has another seed, and has been elsewhere before."""
    with own_randomness(3, torch.device("cpu")):
        one = make_trainer([stage], held_out=held_out)
        running = one.run()
        for _ in range(11):
            next(running)
        tensors, values = state_of(one)
        values = json.loads(json.dumps(values))  # as a checkpoint keeps it
        left = [(report.step, report.loss, report.held_out_loss) for report in running]
    other = make_trainer([stage], seed=8, held_out=held_out)
    torch.manual_seed(99)
    beyond = other.run()
    for _ in range(5):
        next(beyond)
    load_state(other, tensors, values)
    again_tensors, again_values = state_of(other)
    assert again_values == values
    assert same(again_tensors, tensors)
    left_again = [(report.step, report.loss, report.held_out_loss) for report in other.run()]
    assert left_again == left
    assert len(left) == stage.n_steps(200) - 11
    assert same(weights(one.model), weights(other.model))  # type: ignore[arg-type]


@EVERY_STAGE
def test_a_state_stays_what_it_was(stage: Stage) -> None:
    trainer = make_trainer([stage])
    running = trainer.run()
    next(running)
    tensors, values = state_of(trainer)
    before, values_before = {name: tensor.clone() for name, tensor in tensors.items()}, dict(values)
    for _ in range(5):
        next(running)
    assert same(tensors, before)
    assert values == values_before
    assert not same(state_of(trainer)[0], before)


def test_a_state_is_what_a_checkpoint_file_gives_back(tmp_path: Path) -> None:
    trainer = make_trainer(STAGES)
    for number, _ in enumerate(trainer.run()):
        if number == 50:
            break
    tensors, values = state_of(trainer)
    save_checkpoint(tmp_path, 1, tensors, values)
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert same(loaded[0], tensors)
    assert loaded[1] == values
    assert (values["stage"], values["step"], values["n_processes"]) == (1, 13, 1)
    parts = {name.split(".")[0] for name in tensors}
    assert parts == {"model", "averaged", "best", "optimizer", "process 0"}
    assert {"process 0.sampler.step", "process 0.stream.place", "process 0.generator"} <= set(tensors)


def test_before_the_first_look_at_held_out_rows_there_is_no_best_loss() -> None:
    trainer = make_trainer(STAGES)
    tensors, values = state_of(trainer)
    assert json.loads(json.dumps(values, allow_nan=False))["held_out"]["best_loss"] is None
    assert trainer.held_out is not None
    next(trainer.run())
    load_state(trainer, tensors, values)
    assert trainer.held_out.best_loss == trainer.held_out.last_loss == float("inf")
    assert trainer.held_out.best == []


def test_what_early_stopping_remembers_is_part_of_the_state() -> None:
    trainer, other = make_trainer(STAGES), make_trainer(STAGES)
    assert trainer.held_out is not None
    assert other.held_out is not None
    running = trainer.run()
    for _ in range(6):  # the first and the fifth report look at the rows
        next(running)
    trainer.held_out.looks_since_best, trainer.held_out.temperature = 999, 1.4
    load_state(other, *state_of(trainer))
    for name in HELD_OUT:
        assert getattr(other.held_out, name) == getattr(trainer.held_out, name)
    assert (other.held_out.n_reports, other.held_out.looks_since_best, other.held_out.temperature) == (6, 999, 1.4)


def test_how_finished_stages_ended_is_part_of_the_state() -> None:
    trainer, other = make_trainer(STAGES), make_trainer(STAGES)
    for report in trainer.run():
        if report.stage == 3:
            break
    load_state(other, *state_of(trainer))
    assert len(trainer.kept) == 2
    assert other.kept == trainer.kept
    assert all(0 < kept.share <= 1 and kept.temperature in TEMPERATURES for kept in trainer.kept)


def test_with_another_number_of_processes_rows_and_randomness_start_again() -> None:
    """Weights, averages and the optimizer go on; the rows are divided differently, so that chains cannot."""
    trainer = make_trainer([STAGES[1]])
    running = trainer.run()
    for _ in range(6):
        next(running)
    tensors, values = state_of(trainer)
    other = make_trainer([STAGES[1]])
    load_state(other, tensors, {**values, "n_processes": 2})
    now = state_of(other)[0]

    def common(state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in state.items() if not name.startswith("process")}

    assert same(common(now), common(tensors))
    assert other.step_index == 6
    assert not torch.equal(now["process 0.generator"], tensors["process 0.generator"])
    wanted = torch.Generator().manual_seed(3 + SEED_STRIDE * values["n_reports"])
    assert torch.equal(other.generator.get_state(), wanted.get_state())
    assert not torch.equal(now["process 0.sampler.step"], tensors["process 0.sampler.step"])


def test_the_optimizer_keeps_all_it_has_gathered() -> None:
    trainer = make_trainer([Stage(1, optimizer=Adam(amsgrad=True), batch_size=20)])
    next(trainer.run())
    names = {name.split(".", 2)[2] for name in state_of(trainer)[0] if name.startswith("optimizer")}
    assert names == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}


def test_what_is_remembered_of_a_parameter_lies_in_memory_as_it_does() -> None:
    def optimizer() -> torch.optim.Optimizer:
        weight = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
        parameters = [nn.Parameter(weight.contiguous(memory_format=torch.channels_last)), nn.Parameter(torch.zeros(5))]
        found = torch.optim.AdamW(parameters, fused=True)
        for parameter in parameters:
            parameter.grad = parameter.detach() + 1
        found.step()
        return found

    before, after = optimizer(), optimizer()
    state = before.state_dict()["state"]
    # As a file gives them back: of the same values, in plain order.
    tensors = {f"{i}.{name}": 2 * value.contiguous() for i, one in state.items() for name, value in one.items()}
    load_optimizer(after, tensors)
    for i, parameter in enumerate(after.param_groups[0]["params"]):
        remembered = after.state[parameter]
        assert remembered["exp_avg"].stride() == remembered["exp_avg_sq"].stride() == parameter.stride()
        assert all(torch.equal(remembered[name], tensors[f"{i}.{name}"]) for name in state[i])
    assert tensors["0.exp_avg"].stride() != after.param_groups[0]["params"][0].stride()
    after.step()
