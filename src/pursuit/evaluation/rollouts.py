"""Rolling out rows with labels in batches, on any device, and noting their states step by step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from pursuit.evaluation.calibration import brier_scores
from pursuit.inference.incremental import HistoryState
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import BATCH_BYTES, RolloutStep, pursue, rows_at_once, template_state
from pursuit.inference.stopping import StoppingRule
from pursuit.training.devices import find_device
from pursuit.training.rows import Rows

GPU_BATCH_ROWS, GPU_BATCH_BYTES = 5000, 2**32


@contextmanager
def placed(pursuer: Pursuer, device: str) -> Iterator[torch.device]:
    """The pursuer on a device, with the precision that is fast there; `auto` is an NVIDIA GPU where there is one."""
    place = find_device(device)
    if not isinstance(pursuer, nn.Module) or place.type == "cpu":
        yield torch.device("cpu")
        return
    pursuer.to(place).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        with torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"):
            yield place
    finally:
        pursuer.to("cpu").to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


class Batch(NamedTuple):
    """Some of the rows, on the device of the pursuer."""

    rows: Rows
    template: HistoryState  # what all batches of the pursuer share


def row_batches(pursuer: Pursuer, rows: Rows, place: torch.device, batch_rows: int | None = None) -> Iterator[Batch]:
    """All rows, `batch_rows` at a time; by default as many as the memory allows."""
    bounds = (GPU_BATCH_ROWS, GPU_BATCH_BYTES) if place.type == "cuda" else (None, BATCH_BYTES)
    batch_rows = batch_rows or rows_at_once(pursuer, *bounds)
    template = template_state(pursuer, rows.x[:0].to(place))
    for start in range(0, len(rows), batch_rows):
        yield Batch(rows.take(slice(start, start + batch_rows)).to(place), template)


@dataclass(frozen=True)
class Trace:
    """Chains of B rows after 0, 1, 2 … queries, (T, B) each. A row that is asked nothing more keeps its last state."""

    n_asked: Tensor
    n_answered: Tensor
    cost: Tensor

    @staticmethod
    def describe(step: RolloutStep, y: Tensor) -> tuple[Tensor, ...]:
        """What else is noted of the rows of a step, whose labels are `y` (b,): (b,) each, the fields of a subclass."""
        return ()

    @classmethod
    def of(
        cls,
        pursuer: Pursuer,
        batch: Batch,
        until: StoppingRule,
        with_bits: bool = False,
        watch: Callable[[int, RolloutStep], None] | None = None,
    ) -> Self:
        """Roll out a batch until a rule stops its rows. `watch` sees the number of queries asked, and each step."""
        rows, states = batch.rows, list[list[Tensor]]()
        steps = pursue(pursuer, rows.x, rows.available, until, rows.initially_known, batch.template, with_bits)
        for n, step in enumerate(steps):
            at = step.standing
            seen = [at.n_asked.int(), at.n_answered.int(), at.cost, *cls.describe(step, rows.y[step.rows])]
            if states:
                places = {value.device: step.rows.to(value.device) for value in seen}
                seen = [last.index_copy(0, places[new.device], new) for last, new in zip(states[-1], seen, strict=True)]
            states.append(seen)
            if watch is not None:
                watch(n, step)
        return cls(*(torch.stack(values) for values in zip(*states, strict=True)))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The chains of several batches, as long as the longest of them."""
        longest = max(len(part.cost) for part in parts)
        values = zip(*(part.steps(longest).values() for part in parts), strict=True)
        return cls(*(torch.cat(own, dim=1) for own in values))

    def values(self) -> list[Tensor]:
        """All fields, in order."""
        return [getattr(self, one.name) for one in fields(self)]

    def steps(self, n: int) -> Self:
        """The first `n` steps of every chain."""
        index = torch.arange(n).clamp(max=len(self.cost) - 1)
        return type(self)(*(values[index.to(values.device)] for values in self.values()))

    def last(self) -> Self:
        """The end of every chain: (1, B) each."""
        return type(self)(*(values[-1:] for values in self.values()))

    def at(self, step: Tensor) -> Self:
        """The state after a number of queries that differs from row to row (R, B): also (R, B) each."""
        return type(self)(*(values.gather(0, step) for values in self.values()))

    def cpu(self) -> Self:
        return type(self)(*(values.cpu() for values in self.values()))


@dataclass(frozen=True)
class ClassTrace(Trace):
    """The predicted classes besides, (T, B) each."""

    predicted: Tensor
    confidence: Tensor
    """The probability of the predicted class."""
    right: Tensor
    brier: Tensor

    @staticmethod
    def describe(step: RolloutStep, y: Tensor) -> tuple[Tensor, ...]:
        highest = step.log_posterior.max(dim=1)
        confidence, is_right = highest.values.float().exp(), highest.indices == y
        return highest.indices.int(), confidence, is_right, brier_scores(step.log_posterior, y)
