"""Where to compute: devices by name, their precision and kernels, and the processes that train together."""

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)

DEVICES = ("cpu", "cuda", "mps", "auto")


def find_device(device: str) -> torch.device:
    """The device of this name, where `auto` is an NVIDIA GPU if there is one; raises ValueError if there is none."""
    if device not in DEVICES:
        raise ValueError(f"The device is one of {', '.join(DEVICES)}, not '{device}'.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "The device cuda needs an NVIDIA GPU and a torch built for it, and neither was found: use cpu or auto."
        )
    if device == "mps" and not torch.backends.mps.is_available():
        raise ValueError("The device mps needs an Apple GPU and a torch built for it: use cpu or auto.")
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)


def started_by_torchrun() -> tuple[int, int] | None:
    """The number of processes on this machine and of machines, if torchrun has started them."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return local, int(os.environ["WORLD_SIZE"]) // local


def n_processes(devices: int) -> int:
    """How many processes train together on this many devices; where torchrun has started them, as many as it did."""
    if devices < 1:
        raise ValueError(f"Training needs at least one device, not {devices}.")
    n_here, n_machines = started_by_torchrun() or (devices, 1)
    return n_here * n_machines


class OneProcess:
    """All that training uses of Fabric, where one process computes on a CPU with full precision: Fabric takes seconds
    to import, and would have nothing to do."""

    device = torch.device("cpu")
    world_size, global_rank, is_global_zero = 1, 0, True

    def setup_module(self, module: nn.Module) -> nn.Module:
        return module.to(self.device)

    def setup_optimizers(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        return optimizer

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def broadcast(self, value: Any) -> Any:
        return value

    def barrier(self) -> None:
        return None


def launched(device: str, devices: int, precision: Any, in_phases: bool = False) -> "Fabric":
    """Fabric on a device, with all its processes running, or `OneProcess` in its place.

    A learner that learns `in_phases` leaves some parameters without a gradient in each, which DDP must be prepared for.
    """
    accelerator = find_device(device).type
    if precision is None:
        precision = "bf16-mixed" if accelerator == "cuda" else "32-true"
        if accelerator == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
            logger.warning("This GPU does not know bf16: training with full precision.")
            precision = "32-true"
    n_here, n_machines = started_by_torchrun() or (devices, 1)
    if accelerator == "cpu" and precision == "32-true" and n_here * n_machines == 1:
        return cast("Fabric", OneProcess())
    from lightning_fabric import Fabric  # takes seconds to import

    ddp = "ddp_find_unused_parameters_true" if in_phases else "ddp"
    strategy = ddp if n_here * n_machines > 1 else "auto"
    fabric = Fabric(
        accelerator=accelerator, strategy=strategy, devices=n_here, num_nodes=n_machines, precision=precision
    )
    fabric.launch()
    return fabric


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seeded global randomness (dropout draws from it) that leaves the caller's untouched."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield


@contextmanager
def fast_convolutions(model: nn.Module, device: torch.device) -> Iterator[None]:
    """On a GPU: pixels side by side with their channels, and the fastest kernels for the shapes at hand."""
    if device.type != "cuda":
        yield
        return
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
