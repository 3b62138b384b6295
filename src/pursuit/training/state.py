"""What the rest of training depends on, as tensors and plain values: saved in checkpoints, restored on resume."""

import math
from typing import Any

import torch
from torch import Tensor

from pursuit.training.held_out import Kept
from pursuit.training.loop import Trainer

HELD_OUT = ("best_loss", "best_step", "temperature", "looks_since_best", "n_reports", "last_loss")
"""What is remembered of held-out rows, besides the best weights; a loss is infinite before the first look at them."""


def state_of(trainer: Trainer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and plain values. All processes must call it."""
    held_out, optimizer = trainer.held_out, trainer.training_step.optimizer
    tensors = {f"model.{name}": tensor for name, tensor in trainer.model.state_dict().items()}
    tensors |= {f"averaged.{i}": tensor for i, tensor in enumerate(trainer.average.averaged)}
    tensors |= {f"best.{i}": tensor for i, tensor in enumerate(held_out.best if held_out else [])}
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": value for name, value in state.items() if value is not None}
    for number, own in enumerate(_gathered(trainer, _own_state(trainer))):
        tensors |= {f"process {number}.{name}": tensor for name, tensor in own.items()}
    values = {
        "stage": trainer.stage_index,
        "step": trainer.step_index,
        "n_reports": trainer.n_reports,
        "n_processes": trainer.fabric.world_size,
        "held_out": {name: _finite(getattr(held_out, name)) for name in HELD_OUT} if held_out else {},
        "kept": [list(kept) for kept in trainer.kept],
    }
    return {name: tensor.clone() for name, tensor in tensors.items()}, values


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(value) else value


def _own_state(trainer: Trainer) -> dict[str, Tensor]:
    """What is not the same in all processes."""
    own = {f"sampler.{name}": tensor for name, tensor in trainer.training_step.sampler.state().items()}
    own |= {f"stream.{name}": tensor for name, tensor in trainer.stream.state().items()}
    own |= {"generator": trainer.generator.get_state(), "randomness": torch.get_rng_state()}
    if trainer.held_out and len(trainer.held_out.best_losses):
        own["best_losses"] = trainer.held_out.best_losses
    if trainer.fabric.device.type == "cuda":
        own["cuda_randomness"] = torch.cuda.get_rng_state(trainer.fabric.device)
    return own


def _gathered(trainer: Trainer, own: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    if trainer.fabric.world_size == 1:
        return [own]
    everybody: list[Any] = [None] * trainer.fabric.world_size
    torch.distributed.all_gather_object(everybody, {name: tensor.cpu() for name, tensor in own.items()})
    return everybody


def load_state(trainer: Trainer, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Put the trainer where `state_of` found it."""
    trainer.begin(values["stage"])
    device = trainer.fabric.device
    trainer.model.load_state_dict(_part(tensors, "model"))
    for tensor, saved in zip(trainer.average.averaged, _in_order(_part(tensors, "averaged")), strict=True):
        tensor.copy_(saved)
    load_optimizer(trainer.training_step.optimizer, _part(tensors, "optimizer"))
    trainer.step_index, trainer.n_reports = values["step"], values["n_reports"]
    trainer.kept = [Kept(*kept) for kept in values["kept"]]
    if held_out := trainer.held_out:
        held_out.best = [tensor.to(device) for tensor in _in_order(_part(tensors, "best"))]
        for name, value in values["held_out"].items():
            setattr(held_out, name, math.inf if value is None else value)
    if values["n_processes"] == trainer.fabric.world_size:
        _load_own_state(trainer, _part(tensors, f"process {trainer.fabric.global_rank}"))
    else:  # the rows are divided differently now: chains start again, and so does randomness
        trainer.reseed(trainer.n_reports)


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Fused optimizers demand that what they remember of a parameter lies in memory as the parameter does, which on a
    GPU has its channels last; a file does not keep that."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        parameter = parameters[int(index)]
        is_like_it = value.shape == parameter.shape
        state.setdefault(int(index), {})[key] = (
            torch.empty_like(parameter, dtype=value.dtype).copy_(value) if is_like_it else value.to(parameter.device)
        )
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _load_own_state(trainer: Trainer, own: dict[str, Tensor]) -> None:
    trainer.generator.set_state(own["generator"])
    trainer.stream.load_state(_part(own, "stream"))
    trainer.training_step.sampler.load_state(_part(own, "sampler"))
    torch.set_rng_state(own["randomness"])
    if trainer.held_out and "best_losses" in own:
        trainer.held_out.best_losses = own["best_losses"].to(trainer.fabric.device)
    if trainer.fabric.device.type == "cuda" and "cuda_randomness" in own:
        torch.cuda.set_rng_state(own["cuda_randomness"], trainer.fabric.device)


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}


def _in_order(numbered: dict[str, Tensor]) -> list[Tensor]:
    return [numbered[str(i)] for i in range(len(numbered))]
