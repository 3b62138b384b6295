"""The one training loop: devices, averaged weights, held-out rows, checkpoints, resume."""

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
from pursuit.histories import Batch, Sampler, rolled_out_histories
from pursuit.logs import LogKind, check_log, open_log
from pursuit.rows import Rows, RowSource
from pursuit.stages import Stage
from pursuit.vip import VIP

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DEVICES = ("cpu", "cuda", "mps", "auto")
REPORTS_PER_STAGE = 100
"""How often a stage says how it does: each time it logs, looks at the held-out rows and may save a checkpoint."""
HELD_OUT_SEED, HELD_OUT_MOST = 20230, 4096
"""Held-out rows are looked at often: their histories are seeded, and no more than these are used."""
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
    model: VIP,
    rows: RowSource,
    stages: list[Stage],
    *,
    seed: int = 0,
    device: str = "cpu",
    precision: Any = None,
    early_stopping: EarlyStopping | None = None,
    folder: Path | None = None,
    resume: bool = False,
    log: LogKind = "csv",
    checkpoint_seconds: float = 2.0,
    on_report: Callable[[Report], None] | None = None,
) -> None:
    """Train `model` in place on `rows`, stage after stage.

    By default the precision is bf16-mixed on an NVIDIA GPU and full elsewhere. With a `folder`, progress is logged
    there and checkpoints are kept; `resume` goes on from the newest good one and, on a CPU, ends with bit for bit the
    weights of a run that was never interrupted.
    """
    check_plan(stages, device, log)
    from lightning_fabric import Fabric  # takes seconds to import, and only training needs it

    kind = find_device(device).type
    fabric = Fabric(accelerator=kind, devices=1, precision=precision or ("bf16-mixed" if kind == "cuda" else "32-true"))
    with _own_randomness(seed, fabric.device), _fast_convolutions(model, fabric.device):
        trainer = _Trainer(fabric, model, rows.to(fabric.device), stages, seed, early_stopping)
        checkpoints = folder / "checkpoints" if folder else None
        saved = load_checkpoint(checkpoints) if checkpoints and resume else None
        if saved:
            trainer.load_state(*saved)
        elif checkpoints:
            remove_checkpoints(checkpoints)
        reports = open_log(folder, log, n_kept=trainer.n_reports)
        last_saved, next_pause = time.monotonic(), checkpoint_seconds
        try:
            for report in trainer.run():
                reports.write(asdict(report))
                if on_report:
                    on_report(report)
                began = time.monotonic()
                if checkpoints and (began - last_saved >= next_pause or report.step == report.n_steps):
                    save_checkpoint(checkpoints, trainer.n_reports, *trainer.state())
                    last_saved = time.monotonic()
                    # Large models take long to write, and most of the time is for training.
                    next_pause = max(checkpoint_seconds, CHECKPOINT_PAUSE * (last_saved - began))
        finally:
            reports.close()
    model.to("cpu").eval()


def check_plan(stages: Sequence[Stage], device: str, log: str) -> None:
    """Raise ValueError for what can be seen to be wrong before anything is trained or written."""
    if not stages:
        raise ValueError("There are no stages to train: at least one is needed.")
    find_device(device)
    check_log(log)


def find_device(device: str) -> torch.device:
    """The device of this name, where `auto` is an NVIDIA GPU if there is one; raises ValueError if there is none."""
    if device not in DEVICES:
        raise ValueError(f"The device is one of {', '.join(DEVICES)}, not '{device}'.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "The device cuda needs an NVIDIA GPU and a torch built for it, and neither was found: use cpu or auto."
        )
    if device == "mps" and not torch.backends.mps.is_available():
        raise ValueError("The device mps needs an Apple GPU and a torch built for it: use cpu or auto.")
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)


@contextmanager
def _own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seeded global randomness (dropout draws from it) that leaves the caller's untouched."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield


@contextmanager
def _fast_convolutions(model: VIP, device: torch.device) -> Iterator[None]:
    """On a GPU: pixels side by side with their channels, and the fastest kernels for the shapes at hand."""
    if device.type != "cuda":
        yield
        return
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


class _Trainer:
    """The state of training and how it moves on."""

    def __init__(
        self,
        fabric: "Fabric",
        model: VIP,
        rows: RowSource,
        stages: list[Stage],
        seed: int,
        early_stopping: EarlyStopping | None,
    ):
        self.fabric, self.rows, self.stages = fabric, rows, stages
        self.generator = torch.Generator(fabric.device).manual_seed(seed)
        self.module = fabric.setup_module(model)
        self.model = model
        self.stream = rows.stream(self.generator)
        self.held_out = early_stopping.rows.to(fabric.device) if early_stopping else None
        if self.held_out and len(self.held_out) > HELD_OUT_MOST:
            self.held_out = self.held_out.take(torch.arange(HELD_OUT_MOST, device=fabric.device))
        self.patience = early_stopping.patience if early_stopping else 0
        self.n_reports = 0
        self._begin(0)

    def _begin(self, stage: int) -> None:
        """Make ready for the first step of a stage."""
        self.stage, self.step = stage, 0
        settings = self.stages[stage]
        stream = AugmentedRows(self.stream, settings.augment, self.generator) if settings.augment else self.stream
        self.sampler: Sampler = settings.histories.sampler(stream, settings.batch_size, self.generator)
        self.parameters: list[Tensor] = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer: Any = self.fabric.setup_optimizers(settings.optimizer.build(self.parameters))
        # What is averaged and kept: the parameters, and the running statistics of BatchNorm
        self.weights = [*self.parameters, *(b for b in self.model.buffers() if b.is_floating_point())]
        self.averaged = [tensor.detach().clone() for tensor in self.weights] if settings.average else []
        self.best: list[Tensor] = []
        self.best_loss, self.reports_since_best = math.inf, 0

    def run(self) -> Iterator[Report]:
        """Train to the end, reporting on the way; the state may be saved whenever a report is out."""
        while self.stage < len(self.stages):
            settings = self.stages[self.stage]
            n_steps = settings.n_steps(len(self.rows))
            every = max(1, n_steps // REPORTS_PER_STAGE)
            started, first_step, loss_sum, n_summed = (
                time.monotonic(),
                self.step,
                torch.zeros((), device=self.fabric.device),
                0,
            )
            while self.step < n_steps and not self._has_stopped():
                loss_sum += self._train_step(settings, n_steps)
                n_summed += 1
                self.step += 1
                if self.step % every == 0 or self.step == n_steps:
                    held_out_loss = self._look_at_held_out(settings)
                    self.n_reports += 1
                    pace = (time.monotonic() - started) / (self.step - first_step)
                    yield Report(
                        self.stage + 1,
                        self.step,
                        n_steps,
                        loss=float(loss_sum) / n_summed,
                        lr=settings.lr_at(self.step - 1, n_steps),
                        tau=settings.tau_at(self.step - 1, n_steps),
                        held_out_loss=held_out_loss,
                        histories_per_second=settings.batch_size / pace,
                        seconds_left=pace * (n_steps - self.step) + pace * self._steps_of_later_stages(),
                    )
                    loss_sum.zero_()
                    n_summed = 0
            self._end(settings)
            if self.stage + 1 == len(self.stages):
                return
            self._begin(self.stage + 1)

    def _steps_of_later_stages(self) -> int:
        return sum(stage.n_steps(len(self.rows)) for stage in self.stages[self.stage + 1 :])

    def _train_step(self, settings: Stage, n_steps: int) -> Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr_at(self.step, n_steps)
        rows, history = self._draw()
        tau = settings.tau_at(self.step, n_steps)
        loss, query = self.module(
            history.x, history.known, history.asked, rows.available, rows.y, tau, settings.label_smoothing
        )
        self.fabric.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.sampler.advance(query)
        if self.averaged:
            # The average warms up, so that it does not remember the first weights for long.
            decay = min(settings.average, (1 + self.step) / (10 + self.step))
            torch._foreach_lerp_(self.averaged, [tensor.detach() for tensor in self.weights], 1 - decay)
        return loss.detach()

    def _draw(self) -> Batch:
        """The next histories, and the model ready to learn from them."""
        if self.sampler.asks_querier:
            self.model.eval()  # histories are those of use, without dropout
        with self.fabric.autocast():
            batch = self.sampler.draw(self.model)
        if not self.model.training:
            self.model.train()
        return batch

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
        with self._using(self.averaged or self.weights):
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
        total = 0.0
        for part in torch.arange(len(held_out), device=k.device).split(BATCH_ROWS):
            rows = held_out.take(part)
            history = rolled_out_histories(rows, k[part], self.model)
            loss, _ = self.module(history.x, history.known, history.asked, rows.available, rows.y, settings.tau[1])
            total += float(loss) * len(part)
        return total / len(held_out)

    def _has_stopped(self) -> bool:
        return self.held_out is not None and self.reports_since_best >= self.patience

    def _end(self, settings: Stage) -> None:
        """Keep the best weights where rows are held out for that, otherwise the averaged ones."""
        if self.best or self.averaged:
            self._set_weights(self.best or self.averaged)
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
        for _ in range(min(REFRESH_STEPS, max(10, self.step))):  # a short stage needs no longer refreshment
            rows, history = self._draw()
            _, query = self.module(history.x, history.known, history.asked, rows.available, rows.y, 1.0)
            self.sampler.advance(query)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything the rest of training depends on: tensors, and plain values."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"averaged.{i}": tensor for i, tensor in enumerate(self.averaged)}
        tensors |= {f"best.{i}": tensor for i, tensor in enumerate(self.best)}
        tensors |= {f"sampler.{name}": tensor for name, tensor in self.sampler.state().items()}
        tensors |= {f"stream.{name}": tensor for name, tensor in self.stream.state().items()}
        for i, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{i}.{name}": value for name, value in state.items() if value is not None}
        tensors["generator"], tensors["randomness"] = self.generator.get_state(), torch.get_rng_state()
        if self.fabric.device.type == "cuda":
            tensors["cuda_randomness"] = torch.cuda.get_rng_state(self.fabric.device)
        values = {
            "stage": self.stage,
            "step": self.step,
            "n_reports": self.n_reports,
            "best_loss": None if math.isinf(self.best_loss) else self.best_loss,
            "reports_since_best": self.reports_since_best,
        }
        return {name: tensor.clone() for name, tensor in tensors.items()}, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self._begin(values["stage"])

        def part(prefix: str) -> dict[str, Tensor]:
            start = len(prefix) + 1
            found = {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}
            return {
                name: tensor if "shuffle" in name else tensor.to(self.fabric.device) for name, tensor in found.items()
            }

        self.model.load_state_dict(part("model"))
        self.averaged, self.best = (_in_order(part(name)) for name in ("averaged", "best"))
        self.generator.set_state(tensors["generator"])
        self.stream.load_state(part("stream"))
        self.sampler.load_state(part("sampler"))
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = {}
        for name, value in part("optimizer").items():
            index, key = name.split(".", 1)
            optimizer["state"].setdefault(int(index), {})[key] = value
        self.optimizer.load_state_dict(optimizer)
        torch.set_rng_state(tensors["randomness"])
        if self.fabric.device.type == "cuda" and "cuda_randomness" in tensors:
            torch.cuda.set_rng_state(tensors["cuda_randomness"], self.fabric.device)
        self.step, self.n_reports = values["step"], values["n_reports"]
        self.best_loss = math.inf if values["best_loss"] is None else values["best_loss"]
        self.reports_since_best = values["reports_since_best"]


def _in_order(numbered: dict[str, Tensor]) -> list[Tensor]:
    return [numbered[str(i)] for i in range(len(numbered))]
