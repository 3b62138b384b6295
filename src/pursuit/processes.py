"""The processes that train one model together: which of them this is, and how many there are."""

import os


def process_number() -> int:
    """The rank of this process among those that train together, from 0.

    Fabric's own helper reads the same variables, but importing Fabric takes seconds, and every command asks this.
    """
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))


def is_first() -> bool:
    """Whether this process is the one that reports and writes files."""
    return process_number() == 0


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
