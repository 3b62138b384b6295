"""The processes that train one model together: which this is, how many there are, and what memory it may have."""

import os
from pathlib import Path


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


def free_memory() -> int | None:
    """How many bytes this process may still allocate, by the machine, its container and its own limit; None where the
    system does not say."""
    found: list[int] = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            found.append(limit - used)
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError, ImportError):  # "max" is no number: the container has no limit
        pass
    return max(0, min(found)) if found else None
