"""AdamW for a single process on a CPU, on all parameters side by side.

A step of training on a CPU is many small operations. With the parameters in one tensor, an update takes one of them,
however many layers there are; and torch's optimizers, which import its compiler, are not needed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pursuit.training.schedule import AdamW

BETAS = (0.9, 0.999)
EPS = 1e-8


def side_by_side(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """A copy of all tensors in one, and the parts of it that have their shapes."""
    flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
    parts = flat.split([tensor.numel() for tensor in tensors])
    return flat, [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


class FlatAdamW:
    """What the training loop uses of torch's AdamW; parameters and their gradients become parts of one tensor each.

    Its state is torch's, so that a run can go on with either.
    """

    def __init__(self, parameters: list[Tensor], settings: "AdamW"):
        self.weight_decay, self._n_steps = settings.weight_decay, 0
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, "lr": settings.lr}]
        self._flat, own = side_by_side(parameters)
        zeros = [torch.zeros_like(parameter) for parameter in parameters]
        self._gradient, gradients = side_by_side(zeros)
        (self._mean, self._means), (self._square, self._squares) = side_by_side(zeros), side_by_side(zeros)
        for parameter, part, gradient in zip(parameters, own, gradients, strict=True):
            parameter.data, parameter.grad = part, gradient

    @torch.no_grad()
    def step(self) -> None:
        self._n_steps += 1
        torch._fused_adamw_(  # the operation of torch.optim.AdamW(fused=True)
            [self._flat],
            [self._gradient],
            [self._mean],
            [self._square],
            [],
            [torch.tensor(float(self._n_steps))],
            lr=self.param_groups[0]["lr"],
            beta1=BETAS[0],
            beta2=BETAS[1],
            weight_decay=self.weight_decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

    def zero_grad(self) -> None:
        self._gradient.zero_()

    def state_dict(self) -> dict[str, Any]:
        state = {
            i: {"step": torch.tensor(float(self._n_steps)), "exp_avg": mean, "exp_avg_sq": square}
            for i, (mean, square) in enumerate(zip(self._means, self._squares, strict=True))
        }
        return {"state": state if self._n_steps else {}, "param_groups": self.param_groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for i, saved in state_dict["state"].items():
            self._n_steps = int(saved["step"])
            self._means[i].copy_(saved["exp_avg"])
            self._squares[i].copy_(saved["exp_avg_sq"])
