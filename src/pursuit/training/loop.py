"""The training loop: stage after stage, step after step, with reports on the way."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pursuit.training.averaging import REFRESH_STEPS, WeightAverage, refresh_batch_norm
from pursuit.training.devices import OneProcess
from pursuit.training.flat_adamw import FlatAdamW
from pursuit.training.held_out import EarlyStopping, HeldOut, Kept
from pursuit.training.learner import Learner
from pursuit.training.rows import RowSource, RowStream, augmented, unreliable
from pursuit.training.samplers import Batch
from pursuit.training.schedule import AdamW, Stage
from pursuit.training.step import TrainingStep

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DIVERGED = (
    "Nothing is saved. Train with a lower learning rate (`stages` of the estimator), and look for columns with "
    "enormous numbers."
)
REPORTS_PER_STAGE = 100
"""At least this often a stage reports: each time it logs, looks at the held-out rows and may save a checkpoint."""
SEED_STRIDE = 1_000_003
"""Between the seeds of processes that train together."""


class Diverged(ValueError):
    """Training went wrong: its loss or its weights are not numbers any more."""


@dataclass(frozen=True)
class Report:
    """How training stands."""

    stage: int
    step: int
    n_steps: int
    loss: float
    lr: float
    tau: float
    held_out_loss: float | None
    histories_per_second: float
    seconds_left: float


class Trainer:
    """The state of training and how it moves on; `checkpoints` saves and restores it."""

    def __init__(
        self,
        fabric: "Fabric",
        model: Learner,
        rows: RowSource,
        stages: Sequence[Stage],
        seed: int,
        early_stopping: EarlyStopping | None,
        compiled: bool | None,
    ):
        self.fabric, self.rows, self.stages, self.seed, self.compiled = fabric, rows, stages, seed, compiled
        self.generator = torch.Generator(fabric.device)
        self.wrapped_model = fabric.setup_module(model)
        self.model = model
        self.reseed(0)
        shard = rows.shard(fabric.global_rank, fabric.world_size).to(fabric.device)
        self.stream = shard.stream(self.generator)
        self.held_out = HeldOut(fabric, early_stopping, self._mean) if early_stopping else None
        self.n_reports = 0
        self.kept: list[Kept] = []
        """What each finished stage ended with."""
        self.begin(0)

    def reseed(self, offset: int) -> None:
        """Give each process random numbers of its own; `offset` differs between runs that resume one another."""
        rank = self.fabric.global_rank + self.fabric.world_size * offset
        self.generator.manual_seed(self.seed + SEED_STRIDE * rank)

    def begin(self, index: int) -> None:
        """Prepare for the first step of a stage."""
        self.stage_index, self.step_index = index, 0
        stage = self.stages[index]
        self.model.begin(stage)
        self.model.set_temperature(1.0)
        stream: RowStream = self.stream
        if stage.augment is not None:
            stream = augmented(stream, stage.augment, self.generator)
        if stage.unreliable is not None:
            stream = unreliable(stream, stage.unreliable, self.model.query_set, self.generator)
        sampler = stage.histories.sampler(stream, stage.batch_size // self.fabric.world_size, self.generator)
        parameters: list[Tensor] = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = self._optimizer(stage, parameters)
        self.average = WeightAverage(self.model, stage.average)
        self.training_step = TrainingStep(
            self.fabric, self.model, self.wrapped_model, stage, sampler, optimizer, self.average, self.compiled
        )
        if self.held_out:
            self.held_out.start()

    def _optimizer(self, stage: Stage, parameters: list[Tensor]) -> Any:
        """The optimizer of a stage: ours where a single process computes on a CPU. Parameters that a phase leaves alone
        have no gradient, which only torch's optimizers see."""
        if isinstance(self.fabric, OneProcess) and isinstance(stage.optimizer, AdamW) and not stage.phase:
            return FlatAdamW(parameters, stage.optimizer)
        return self.fabric.setup_optimizers(stage.optimizer.build(parameters))

    def run(self) -> Iterator[Report]:
        """Train to the end, reporting on the way; the state may be saved whenever a report is out."""
        while True:
            yield from self._run_stage(self.stages[self.stage_index])
            self._end()
            self._check_weights()
            if self.stage_index + 1 == len(self.stages):
                return
            self.begin(self.stage_index + 1)

    def _run_stage(self, stage: Stage) -> Iterator[Report]:
        n_steps = stage.n_steps(len(self.rows))
        n_later = sum(later.n_steps(len(self.rows)) for later in self.stages[self.stage_index + 1 :])
        every = max(1, n_steps // REPORTS_PER_STAGE)
        loss_sum, n_summed = self.training_step.loss_sum.zero_(), 0
        started, first_step = time.monotonic(), self.step_index
        while self.step_index < n_steps and not (self.held_out and self.held_out.has_stopped):
            self.training_step.run(self.step_index, n_steps)
            n_summed += 1
            self.step_index += 1
            if self.step_index % every == 0 or self.step_index == n_steps:
                loss = self._mean(loss_sum / n_summed)
                if not loss.isfinite():
                    raise Diverged(
                        f"Training diverged in stage {self.stage_index + 1} by step {self.step_index:,} of "
                        f"{n_steps:,}: its loss is {float(loss)}. {DIVERGED}"
                    )
                look = self.held_out and self.held_out.look
                is_last = self.step_index == n_steps
                held_out_loss = look(self.model, stage, self.average, self.step_index, is_last) if look else None
                self.n_reports += 1
                # A coarse clock may not have moved after a quick step.
                pace = max(time.monotonic() - started, 1e-6) / (self.step_index - first_step)
                yield Report(
                    self.stage_index + 1,
                    self.step_index,
                    n_steps,
                    loss=float(loss),
                    lr=stage.lr_at(self.step_index - 1, n_steps),
                    tau=stage.tau_at(self.step_index - 1, n_steps),
                    held_out_loss=held_out_loss,
                    histories_per_second=stage.batch_size / pace,
                    seconds_left=pace * (n_steps - self.step_index) + pace * n_later,
                )
                loss_sum.zero_()
                n_summed = 0

    def _mean(self, value: Tensor) -> Tensor:
        """Over all processes."""
        mean: Any = self.fabric.all_reduce(value, reduce_op="mean") if self.fabric.world_size > 1 else value
        return mean

    def _end(self) -> None:
        """Keep the best weights where rows are held out for that, otherwise the averaged ones."""
        n_steps, kept_now = self.stages[self.stage_index].n_steps(len(self.rows)), Kept(1.0, 1.0)
        if self.held_out and self.held_out.best:
            kept_now = Kept(self.held_out.best_step / n_steps, self.held_out.temperature)
        self.kept.append(kept_now)
        self.model.set_temperature(kept_now.temperature)
        kept = (self.held_out.best if self.held_out else []) or self.average.averaged
        if not kept:
            return
        self.average.use(kept)
        n_batches = min(REFRESH_STEPS, max(10, self.step_index))  # a short stage needs a short refresh
        for statistic in refresh_batch_norm(self.model, self._batches(n_batches), self._show):
            statistic.copy_(self._mean(statistic))

    def _check_weights(self) -> None:
        """The last step may have spoilt weights that no loss was computed with."""
        for name, parameter in self.model.named_parameters():
            if not parameter.isfinite().all():
                raise Diverged(
                    f"Training diverged in stage {self.stage_index + 1}: the weights {name} are not finite numbers. "
                    f"{DIVERGED}"
                )

    def _batches(self, n: int) -> Iterator[Batch]:
        for _ in range(n):
            self.training_step.sampler.prepare()
            yield self.training_step.draw()._replace(tau=1.0, label_smoothing=0.0)

    def _show(self, batch: Batch) -> None:
        """Let the model see a batch, without learning from it."""
        with self.fabric.autocast():
            outcome = self.model(batch)
        self.training_step.sampler.advance(outcome.query)
