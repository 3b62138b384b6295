"""What runs faster on ARM processors than torch's own choice, behind one switch.

`ENABLED` is true on ARM alone; with False everything here is plain torch. The results are the same up to rounding
(docs/results/speed.md has what each is worth).
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ENABLED = platform.machine().lower() in ("aarch64", "arm64")


def has_only_dense_layers(network: object) -> bool:
    """Whether it is a network, and one without convolutions."""
    return isinstance(network, nn.Module) and not any(isinstance(part, nn.Conv2d) for part in network.modules())


@contextmanager
def fast_products(wanted: bool = True) -> Iterator[None]:
    """Matrix products by BLAS instead of oneDNN while this lasts.

    On Neoverse-N1 cores a call of oneDNN takes some 100 microseconds more, whatever its size: small networks are
    faster without it, large ones no slower. Convolutions need it.
    """
    if not (ENABLED and wanted):
        yield
        return
    onednn: Any = torch.backends.mkldnn
    before, onednn.enabled = onednn.enabled, False
    try:
        yield
    finally:
        onednn.enabled = before


class Convolution(nn.Conv2d):
    """`nn.Conv2d` of stride 1, the same but for the way its gradients are computed on ARM processors.

    There torch's own gradients take almost twice as long as the convolution for the same number of operations. Both
    gradients are convolutions again, and as such they run at the forward one's pace: the paper's networks for MNIST
    then train 1.36 times as fast as by a plain loop.
    """

    def forward(self, image: Tensor) -> Tensor:
        learns = torch.is_grad_enabled() and image.device.type == "cpu" and image.dtype == self.weight.dtype
        if ENABLED and learns and self._is_plain() and not torch.is_autocast_enabled("cpu"):
            convolved: Tensor = _Convolved.apply(image, self.weight, self.padding)
            return convolved if self.bias is None else convolved + self.bias.view(-1, 1, 1)
        return super().forward(image)

    def _is_plain(self) -> bool:
        return (
            self.stride == (1, 1)
            and self.dilation == (1, 1)
            and self.groups == 1
            and self.padding_mode == "zeros"
            and isinstance(self.padding, tuple)
            and all(pad < side for pad, side in zip(self.padding, self.kernel_size, strict=True))
        )


class _Convolved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, weight: Tensor, padding: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(image, weight)
        ctx.padding = padding
        return F.conv2d(image, weight, padding=padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        image, weight = ctx.saved_tensors
        of_image = of_weight = None
        if ctx.needs_input_grad[0]:
            # The gradient spread back by the flipped kernel, with input and output channels swapped
            turned = weight.flip(2, 3).transpose(0, 1)
            margin = [side - 1 - pad for side, pad in zip(weight.shape[2:], ctx.padding, strict=True)]
            of_image = F.conv2d(grad, turned, padding=margin)
        if ctx.needs_input_grad[1]:
            # The image convolved with the gradient as its kernel, rows taking the place of channels
            of_weight = F.conv2d(image.transpose(0, 1), grad.transpose(0, 1), padding=ctx.padding).transpose(0, 1)
        return of_image, of_weight, None
