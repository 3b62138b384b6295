"""Checkpoints: what the rest of training depends on, as tensors and JSON values in one file with a checksum.

A checkpoint is one file: a safetensors body, whose metadata hold the JSON part, followed by the body's sha256. It is
written beside its place and moved there, and a file whose checksum does not fit is never read as good.
"""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from pursuit.files import DamagedFile, make_folder, parse_json, read_bytes, write_whole
from pursuit.training.held_out import Kept
from pursuit.training.loop import Trainer

KEPT = 2
"""How many checkpoints stay: the newest, and one to fall back on if that is damaged."""
_DIGEST_BYTES = hashlib.sha256().digest_size
_NAME = re.compile(r"checkpoint-(\d+)\.pursuit")


class CannotResume(ValueError):
    """A folder holds a run with other settings or data, or what it holds is damaged."""


def save_checkpoint(
    folder: Path, step: int, tensors: dict[str, Tensor], values: dict[str, Any], identity: str = ""
) -> None:
    """Write the checkpoint of `step` into `folder`, and remove those no longer needed. It carries the `identity` of its
    run."""
    make_folder(folder)
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    body = safetensors.torch.save(contiguous, metadata={"values": json.dumps(values), "run": identity})
    write_whole(folder / f"checkpoint-{step:09d}.pursuit", body + hashlib.sha256(body).digest())
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    for torn in folder.glob(".checkpoint-*"):
        torn.unlink(missing_ok=True)


def load_checkpoint(folder: Path, identity: str = "") -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest checkpoint in `folder` that is whole, or None where there is none; raises CannotResume if it is of a
    run with another `identity`."""
    for path in _newest_first(folder):
        try:
            tensors, values, run = _read(path)
        except DamagedFile:
            continue
        if run != identity:
            raise CannotResume(
                f"{path} belongs to another run, with another seed, other settings or other data, so it cannot be "
                "resumed with these. Start again with --overwrite, or in another folder."
            )
        return tensors, values
    return None


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints, and the folder if nothing else is in it."""
    for path in (*_newest_first(folder), *folder.glob(".checkpoint-*")):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, reverse=True)


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Tensors, values and the identity of the run."""
    data = read_bytes(path, "a checkpoint")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise DamagedFile(f"{path} is damaged: its checksum does not fit.")
    try:
        tensors = safetensors.torch.load(body)
        header_bytes = int.from_bytes(body[:8], "little")
        metadata = parse_json(body[8 : 8 + header_bytes])["__metadata__"]
        values, run = parse_json(metadata["values"]), metadata["run"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path} is damaged: {error}") from None
    return tensors, values, run


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
