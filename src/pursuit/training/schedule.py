"""The training plan: stages, each with its histories, optimizer and schedules."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from pursuit.registry import register
from pursuit.training.rows import Shifts, Unreliable
from pursuit.training.samplers import CarriedHistories, HistorySettings

MOST = 10**9
"""Passes over the rows, and rows in a batch."""


@register
@dataclass(frozen=True)
class Adam:
    lr: float = 1e-3
    amsgrad: bool = False

    def build(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            parameters, _lr(self.lr, parameters), amsgrad=self.amsgrad, fused=True, capturable=_on_gpu(parameters)
        )


@register
@dataclass(frozen=True)
class AdamW:
    lr: float = 2e-3
    weight_decay: float = 0.01

    def build(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters,
            _lr(self.lr, parameters),
            weight_decay=self.weight_decay,
            fused=True,
            capturable=_on_gpu(parameters),
        )


@register
@dataclass(frozen=True)
class SGD:
    lr: float = 1e-2
    momentum: float = 0.9

    def build(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, _lr(self.lr, parameters), self.momentum, fused=True)


def _lr(lr: float, parameters: list[Tensor]) -> float | Tensor:
    """A learning rate that a recorded step reads each time it is replayed: on a GPU it lies beside the parameters."""
    return torch.tensor(lr, device=parameters[0].device) if _on_gpu(parameters) else lr


def _on_gpu(parameters: list[Tensor]) -> bool:
    return parameters[0].device.type == "cuda"


@register
@dataclass(frozen=True)
class Stage:
    """One part of training. IRS, SBS and IRS+SBS of the paper are stages with random and with rolled-out histories."""

    epochs: float
    """How many histories to train on, in multiples of the number of rows; a fraction is allowed. Carried histories take
    a fresh row only where a chain ends, so that they see fewer rows than that."""
    histories: HistorySettings = field(default_factory=CarriedHistories)
    optimizer: Adam | AdamW | SGD = field(default_factory=AdamW)
    schedule: Literal["cosine", "constant"] = "cosine"
    period: float | None = None
    """Epochs in which the cosine falls from the full learning rate to zero; the whole stage by default. It rises
    again after."""
    warmup: float = 0.05
    """Share of the stage in which the learning rate rises from zero."""
    tau: tuple[float, float] = (1.0, 0.2)
    """Temperature of relaxed choices, such as the straight-through softmax, at the beginning and at the end."""
    tau_share: float = 0.8
    """Share of the stage after which tau has reached its end."""
    exploration: tuple[float, float] = (0.0, 0.0)
    """Probability of a random query in place of the chosen one, at the beginning and at the end; for learners that
    explore."""
    batch_size: int = 128
    average: float = 0.99
    """Decay of the running average of the weights, which the stage ends with; 0 keeps the last weights."""
    augment: Shifts | None = None
    """How images are changed each time they are drawn."""
    unreliable: Unreliable | None = field(default=None, repr=False)
    """How often answers are withheld and wrong, drawn again each time a row is."""
    label_smoothing: float = 0.0
    """Share of the probability that training spreads over all labels: guards against overconfidence."""
    phase: str = ""
    """What a learner learns in this stage, where it learns one thing after the other: the method names its phases."""

    def __post_init__(self) -> None:
        if not 0 < self.epochs <= MOST or not 1 <= self.batch_size <= MOST:
            raise ValueError(
                f"A stage needs epochs above 0 and a batch size of at least 1, both up to {MOST:,}, not {self.epochs} "
                f"and {self.batch_size}."
            )
        if min(self.tau) <= 0:
            raise ValueError(f"tau must be above 0 throughout, not {self.tau}.")
        if not 0 <= self.average < 1 or not 0 <= self.warmup < 1 or not 0 <= self.label_smoothing < 1:
            raise ValueError("average, warmup and label_smoothing are shares from 0 to below 1.")
        if not all(0 <= share <= 1 for share in self.exploration):
            raise ValueError(f"exploration is a probability at either end of the stage, not {self.exploration}.")
        if not 0 < self.tau_share <= 1:
            raise ValueError(f"tau_share is a share of the stage, above 0 and at most 1, not {self.tau_share}.")

    def n_steps(self, n_rows: int) -> int:
        return max(1, round(self.epochs * n_rows / self.batch_size))

    def lr_at(self, step: int, n_steps: int) -> float:
        """The learning rate, a function of the step alone: a resumed run needs no scheduler's state."""
        rising = min(1.0, (step + 1) / (self.warmup * n_steps + 1))
        if self.schedule == "constant":
            return self.optimizer.lr * rising
        done = step / n_steps * (self.epochs / self.period if self.period else 1.0)
        return self.optimizer.lr * rising * 0.5 * (1 + math.cos(math.pi * done))

    def tau_at(self, step: int, n_steps: int) -> float:
        start, end = self.tau
        return start + (end - start) * min(1.0, step / (self.tau_share * n_steps))

    def exploration_at(self, step: int, n_steps: int) -> float:
        start, end = self.exploration
        return start + (end - start) * min(1.0, step / n_steps)

    def scaled(self, effort: float) -> "Stage":
        """The same stage `effort` times as long."""
        period = None if self.period is None else self.period * effort
        return replace(self, epochs=self.epochs * effort, period=period)


PAPER_ADAM = Adam(lr=1e-4, amsgrad=True)


def paper_stage(
    histories: HistorySettings,
    epochs: float = 500,
    optimizer: Adam | SGD = PAPER_ADAM,
    period: float | None = 50,
    batch_size: int = 128,
    tau_share: float = 1.0,
    augment: Shifts | None = None,
) -> Stage:
    """A stage with the schedules of the paper: no warm-up, no averaged weights, tau falling over the whole stage.

    Its IRS is a list of one with `RandomHistories`, its SBS one with `RolledOutHistories`, and IRS+SBS the two
    together.
    """
    return Stage(
        epochs,
        histories,
        optimizer,
        period=period,
        warmup=0.0,
        tau_share=tau_share,
        batch_size=batch_size,
        average=0.0,
        augment=augment,
    )
