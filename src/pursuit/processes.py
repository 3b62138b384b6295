"""Several processes that train one model together: which of them this is.

They are started by torchrun, or by Fabric, which runs the same program again once training begins. Either tells them
apart by environment variables.
"""

import os


def process_number() -> int:
    """The rank of this process among those that train together, from 0."""
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
