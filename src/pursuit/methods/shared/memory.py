"""How much is computed at once, where one history leads to many numbers."""

import torch

AT_ONCE, AT_ONCE_ON_GPU = 2**23, 2**27
"""About how many numbers are computed at once: further rows, queries and answers come after each other."""


def n_at_once(device: torch.device, n_numbers: int) -> int:
    """How many things of `n_numbers` numbers each are computed at once."""
    return max(1, (AT_ONCE if device.type == "cpu" else AT_ONCE_ON_GPU) // max(1, n_numbers))
