"""What is quicker on ARM processors than torch's own choice."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

ON_ARM = platform.machine().lower() in ("aarch64", "arm64")


def has_only_dense_layers(network: object) -> bool:
    """Whether it is a network, and one without convolutions."""
    return isinstance(network, nn.Module) and not any(isinstance(part, nn.Conv2d) for part in network.modules())


@contextmanager
def quick_products(wanted: bool = True) -> Iterator[None]:
    """Matrix products by BLAS instead of oneDNN while this lasts.

    On Neoverse-N1 cores a call of oneDNN takes some 100 microseconds more, whatever its size: small networks are
    quicker without it, large ones no slower. Convolutions need it.
    """
    if not (ON_ARM and wanted):
        yield
        return
    onednn: Any = torch.backends.mkldnn
    before, onednn.enabled = onednn.enabled, False
    try:
        yield
    finally:
        onednn.enabled = before
