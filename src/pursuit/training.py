"""The one training loop: devices, processes, averaged weights, held-out rows, checkpoints, resume."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pursuit.augmentation import AugmentedRows
from pursuit.chains import BATCH_ROWS
from pursuit.checkpoints import load_checkpoint, remove_checkpoints, save_checkpoint
from pursuit.devices import fast_convolutions, find_device, launched, n_processes, own_randomness
from pursuit.histories import Batch, rolled_out_histories
from pursuit.learner import Learner
from pursuit.logs import LogKind, check_log, open_log
from pursuit.networks.arm import has_only_dense_layers, quick_products
from pursuit.rows import Rows, RowSource
from pursuit.stages import Stage
from pursuit.steps import TrainingStep, inputs

if TYPE_CHECKING:
    from lightning_fabric import Fabric

REPORTS_PER_STAGE = 100
"""How often a stage says how it does: each time it logs, looks at the held-out rows and may save a checkpoint."""
HELD_OUT_SEED, HELD_OUT_MOST = 20230, 4096
"""Held-out rows are looked at often: their histories are seeded, and no more than these are used."""
APART = 1_000_003
"""Between the seeds of processes that train together."""
CHECKPOINT_PAUSE = 20
"""Between checkpoints lies at least so many times what it takes to write one."""
REFRESH_STEPS = 100
"""Batches shown to averaged weights to measure their BatchNorm statistics."""


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


@dataclass(frozen=True)
class EarlyStopping:
    """End a stage once the loss on held-out rows has not improved for `patience` reports; keep the best weights."""

    rows: Rows
    patience: int = 20


def train(
    model: Learner,
    rows: RowSource,
    stages: list[Stage],
    *,
    seed: int = 0,
    device: str = "cpu",
    devices: int = 1,
    precision: Any = None,
    compiled: bool | None = None,
    early_stopping: EarlyStopping | None = None,
    folder: Path | None = None,
    resume: bool = False,
    log: LogKind = "csv",
    checkpoint_seconds: float = 2.0,
    on_report: Callable[[Report], None] | None = None,
) -> None:
    """Train `model` in place on `rows`, stage after stage.

    By default the precision is bf16-mixed on an NVIDIA GPU and full elsewhere, and on such a GPU the objective is
    `compiled` where that pays. With a `folder`, progress is logged there and checkpoints are kept; `resume` goes on
    from the newest good one and, on a CPU, ends with bit for bit the weights of a run that was never interrupted.

    With several `devices` (or started by torchrun), as many processes train the model together: each learns from a
    part of the rows and of every batch, and the first one reports and writes files. Fabric starts them by running the
    program again up to this place.
    """
    check_plan(stages, device, log, n_processes(devices))
    fabric = launched(device, devices, precision)
    with (
        own_randomness(seed + fabric.global_rank, fabric.device),
        fast_convolutions(model, fabric.device),
        quick_products(has_only_dense_layers(model)),
    ):
        trainer = _Trainer(fabric, model, rows, stages, seed, early_stopping, compiled)
        checkpoints = folder / "checkpoints" if folder else None
        saved = load_checkpoint(checkpoints) if checkpoints and resume else None
        if saved:
            trainer.load_state(*saved)
        elif checkpoints and fabric.is_global_zero:
            remove_checkpoints(checkpoints)
        reports = open_log(folder if fabric.is_global_zero else None, log, n_kept=trainer.n_reports)
        last_saved, next_pause = time.monotonic(), checkpoint_seconds
        try:
            for report in trainer.run():
                reports.write(asdict(report))
                if on_report and fabric.is_global_zero:
                    on_report(report)
                began = time.monotonic()
                is_due = began - last_saved >= next_pause or report.step == report.n_steps
                if checkpoints and fabric.broadcast(is_due):  # by the clock of the first process
                    state = trainer.state()
                    if fabric.is_global_zero:
                        save_checkpoint(checkpoints, trainer.n_reports, *state)
                    last_saved = time.monotonic()
                    # Large models take long to write, and most of the time is for training.
                    next_pause = max(checkpoint_seconds, CHECKPOINT_PAUSE * (last_saved - began))
        finally:
            reports.close()
    fabric.barrier()
    model.to("cpu").eval()


def check_plan(stages: Sequence[Stage], device: str, log: str, n_processes: int = 1) -> None:
    """Raise ValueError for what can be seen to be wrong before anything is trained or written."""
    if not stages:
        raise ValueError("There are no stages to train: at least one is needed.")
    uneven = [stage.batch_size for stage in stages if stage.batch_size % n_processes]
    if uneven:
        raise ValueError(
            f"A batch of {uneven[0]} rows cannot be dealt evenly to {n_processes} processes: choose another batch_size "
            "or number of devices."
        )
    find_device(device)
    check_log(log)


class _Trainer:
    """The state of training and how it moves on."""

    def __init__(
        self,
        fabric: "Fabric",
        model: Learner,
        rows: RowSource,
        stages: list[Stage],
        seed: int,
        early_stopping: EarlyStopping | None,
        compiled: bool | None,
    ):
        self.fabric, self.rows, self.stages, self.seed, self.compiled = fabric, rows, stages, seed, compiled
        self.generator = torch.Generator(fabric.device)
        self.module = fabric.setup_module(model)
        self.model = model
        self._seed_anew(0)
        shard = rows.shard(fabric.global_rank, fabric.world_size).to(fabric.device)
        self.stream = shard.stream(self.generator)
        self.held_out = early_stopping.rows if early_stopping else None
        if self.held_out:
            some = torch.arange(fabric.global_rank, min(len(self.held_out), HELD_OUT_MOST), fabric.world_size)
            self.held_out = self.held_out.take(some).to(fabric.device)
        self.patience = early_stopping.patience if early_stopping else 0
        self.n_reports = 0
        self._begin(0)

    def _seed_anew(self, n_resumed: int) -> None:
        """Each process has randomness of its own."""
        self.generator.manual_seed(self.seed + APART * (self.fabric.global_rank + self.fabric.world_size * n_resumed))

    def _begin(self, stage: int) -> None:
        """Make ready for the first step of a stage."""
        self.stage, self.step = stage, 0
        settings = self.stages[stage]
        self.model.begin(settings)
        stream = AugmentedRows(self.stream, settings.augment, self.generator) if settings.augment else self.stream
        sampler = settings.histories.sampler(stream, settings.batch_size // self.fabric.world_size, self.generator)
        parameters: list[Tensor] = [p for p in self.model.parameters() if p.requires_grad]
        optimizer: Any = self.fabric.setup_optimizers(settings.optimizer.build(parameters))
        # What is averaged and kept: the parameters, and the running statistics of BatchNorm
        self.weights = [*parameters, *(b for b in self.model.buffers() if b.is_floating_point())]
        averaged = [tensor.detach().clone() for tensor in self.weights] if settings.average else []
        self.training_step = TrainingStep(
            self.fabric, self.model, self.module, settings, sampler, optimizer, self.weights, averaged, self.compiled
        )
        self.best: list[Tensor] = []
        self.best_loss, self.reports_since_best = math.inf, 0

    def run(self) -> Iterator[Report]:
        """Train to the end, reporting on the way; the state may be saved whenever a report is out."""
        while self.stage < len(self.stages):
            settings = self.stages[self.stage]
            n_steps = settings.n_steps(len(self.rows))
            every = max(1, n_steps // REPORTS_PER_STAGE)
            self.training_step.loss_sum.zero_()
            started, first_step, n_summed = time.monotonic(), self.step, 0
            while self.step < n_steps and not self._has_stopped():
                self.training_step.run(self.step, n_steps)
                n_summed += 1
                self.step += 1
                if self.step % every == 0 or self.step == n_steps:
                    loss = self._mean(self.training_step.loss_sum / n_summed)
                    held_out_loss = self._look_at_held_out(settings)
                    self.n_reports += 1
                    pace = (time.monotonic() - started) / (self.step - first_step)
                    yield Report(
                        self.stage + 1,
                        self.step,
                        n_steps,
                        loss=float(loss),
                        lr=settings.lr_at(self.step - 1, n_steps),
                        tau=settings.tau_at(self.step - 1, n_steps),
                        held_out_loss=held_out_loss,
                        histories_per_second=settings.batch_size / pace,
                        seconds_left=pace * (n_steps - self.step) + pace * self._steps_of_later_stages(),
                    )
                    self.training_step.loss_sum.zero_()
                    n_summed = 0
            self._end()
            if self.stage + 1 == len(self.stages):
                return
            self._begin(self.stage + 1)

    def _mean(self, value: Tensor) -> Tensor:
        """Over all processes."""
        mean: Any = self.fabric.all_reduce(value, reduce_op="mean") if self.fabric.world_size > 1 else value
        return mean

    def _steps_of_later_stages(self) -> int:
        return sum(stage.n_steps(len(self.rows)) for stage in self.stages[self.stage + 1 :])

    @contextmanager
    def _using(self, weights: list[Tensor]) -> Iterator[None]:
        """Put `weights` in place of the model's for a while."""
        own = [tensor.detach().clone() for tensor in self.weights]
        self._set_weights(weights)
        try:
            yield
        finally:
            self._set_weights(own)

    @torch.no_grad()
    def _set_weights(self, weights: list[Tensor]) -> None:
        torch._foreach_copy_(self.weights, weights)

    @torch.no_grad()
    def _look_at_held_out(self, settings: Stage) -> float | None:
        """The objective on the held-out rows with the weights that the stage would end with now."""
        if self.held_out is None:
            return None
        with self._using(self.training_step.averaged or self.weights):
            self.model.eval()
            loss = self._held_out_loss(self.held_out, settings)
            if loss < self.best_loss:
                self.best_loss, self.reports_since_best = loss, 0
                self.best = [tensor.detach().clone() for tensor in self.weights]
            else:
                self.reports_since_best += 1
        return loss

    def _held_out_loss(self, held_out: Rows, settings: Stage) -> float:
        """Each row has a history of the querier's own, of the same length every time."""
        generator = torch.Generator(self.fabric.device).manual_seed(HELD_OUT_SEED)
        n_queries, longest = len(self.model.query_set), settings.histories.max_queries
        limit = n_queries if longest is None else max(1, min(longest, n_queries))
        k = torch.randint(limit, (len(held_out),), generator=generator, device=generator.device)
        total = torch.zeros(2, device=k.device)
        for part in torch.arange(len(held_out), device=k.device).split(BATCH_ROWS):
            rows = held_out.take(part)
            history = rolled_out_histories(rows, k[part], self.model)
            with self.fabric.autocast():
                loss, _ = self.model(*inputs(Batch(rows, history), settings.tau[1]))
            total += torch.stack([loss * len(part), torch.full_like(loss, len(part))])
        loss_sum, n_rows = self._mean(total).tolist()
        return loss_sum / n_rows

    def _has_stopped(self) -> bool:
        return self.held_out is not None and self.reports_since_best >= self.patience

    def _end(self) -> None:
        """Keep the best weights where rows are held out for that, otherwise the averaged ones."""
        if kept := self.best or self.training_step.averaged:
            self._set_weights(kept)
            self._refresh_batch_norm()

    @torch.no_grad()
    def _refresh_batch_norm(self) -> None:
        """Measure the BatchNorm statistics of weights that no step was trained with."""
        norms = [m for m in self.model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        if not norms:
            return
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over all batches
        sampler = self.training_step.sampler
        for _ in range(min(REFRESH_STEPS, max(10, self.step))):  # a short stage needs no longer refreshment
            sampler.prepare()
            batch = self.training_step.draw()
            with self.fabric.autocast():
                _, query = self.model(*inputs(batch, 1.0))
            sampler.advance(query)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            for statistic in (norm.running_mean, norm.running_var):
                if statistic is not None:
                    statistic.copy_(self._mean(statistic))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the rest of training depends on: tensors, and plain values. All processes must call it."""
        step = self.training_step
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"averaged.{i}": tensor for i, tensor in enumerate(step.averaged)}
        tensors |= {f"best.{i}": tensor for i, tensor in enumerate(self.best)}
        for i, state in step.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in state.items() if value is not None}
        for number, own in enumerate(self._gathered(self._own_state())):
            tensors |= {f"process {number}.{name}": tensor for name, tensor in own.items()}
        values = {
            "stage": self.stage,
            "step": self.step,
            "n_reports": self.n_reports,
            "n_processes": self.fabric.world_size,
            "best_loss": None if math.isinf(self.best_loss) else self.best_loss,
            "reports_since_best": self.reports_since_best,
        }
        return {name: tensor.clone() for name, tensor in tensors.items()}, values

    def _own_state(self) -> dict[str, Tensor]:
        """What is not the same in all processes."""
        own = {f"sampler.{name}": tensor for name, tensor in self.training_step.sampler.state().items()}
        own |= {f"stream.{name}": tensor for name, tensor in self.stream.state().items()}
        own |= {"generator": self.generator.get_state(), "randomness": torch.get_rng_state()}
        if self.fabric.device.type == "cuda":
            own["cuda_randomness"] = torch.cuda.get_rng_state(self.fabric.device)
        return own

    def _gathered(self, own: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        if self.fabric.world_size == 1:
            return [own]
        everybody: list[Any] = [None] * self.fabric.world_size
        torch.distributed.all_gather_object(everybody, {name: tensor.cpu() for name, tensor in own.items()})
        return everybody

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._begin(values["stage"])

        def part(prefix: str) -> dict[str, Tensor]:
            start = len(prefix) + 1
            return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}

        self.model.load_state_dict(part("model"))
        self.best = [tensor.to(self.fabric.device) for tensor in _in_order(part("best"))]
        for tensor, saved in zip(self.training_step.averaged, _in_order(part("averaged")), strict=True):
            tensor.copy_(saved)
        optimizer = self.training_step.optimizer.state_dict()
        optimizer["state"] = {}
        for name, value in part("optimizer").items():
            index, key = name.split(".", 1)
            optimizer["state"].setdefault(int(index), {})[key] = value.to(self.fabric.device)
        self.training_step.optimizer.load_state_dict(optimizer)
        self.step, self.n_reports = values["step"], values["n_reports"]
        self.best_loss = math.inf if values["best_loss"] is None else values["best_loss"]
        self.reports_since_best = values["reports_since_best"]
        if values.get("n_processes") == self.fabric.world_size:
            self._load_own_state(part(f"process {self.fabric.global_rank}"))
        else:  # the rows are dealt out anew: chains start anew, and so does randomness
            self._seed_anew(self.n_reports)

    def _load_own_state(self, own: dict[str, Tensor]) -> None:
        self.generator.set_state(own["generator"])
        for prefix, place in (("stream.", self.stream), ("sampler.", self.training_step.sampler)):
            place.load_state({name.removeprefix(prefix): t for name, t in own.items() if name.startswith(prefix)})
        torch.set_rng_state(own["randomness"])
        if self.fabric.device.type == "cuda" and "cuda_randomness" in own:
            torch.cuda.set_rng_state(own["cuda_randomness"], self.fabric.device)


def _in_order(numbered: dict[str, Tensor]) -> list[Tensor]:
    return [numbered[str(i)] for i in range(len(numbered))]
