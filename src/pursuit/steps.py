"""One step of training: draw histories, learn from them, average the weights.

On an NVIDIA GPU the whole step is recorded once as a CUDA graph and then replayed, so that nothing waits for Python;
where training is long enough for that to pay, the objective is compiled first. Recorded or not, it is the same code:
what differs from step to step lies in tensors that stay where they are. What cannot be recorded or compiled is run as
it is, and a line in the log says why.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pursuit.histories import Batch, Sampler
from pursuit.learner import Learner
from pursuit.stages import Stage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)

WARM_UP = 3
"""Steps before a recording, in which libraries choose their kernels and the optimizer makes its memory."""
TIMED = 20
"""Recorded steps after which the pace is known."""
COMPILING_PAYS = 60.0
"""Seconds of training left from which on it is compiled: that takes some 20 s for convolutions, and makes steps
1.6 to 1.8 times as fast (docs/results/gpu.md)."""


class TrainingStep:
    """What a stage does again and again."""

    def __init__(
        self,
        fabric: "Fabric",
        model: Learner,
        module: Any,
        stage: Stage,
        sampler: Sampler,
        optimizer: Any,
        weights: list[Tensor],
        averaged: list[Tensor],
        compiled: bool | None = None,
    ):
        self.fabric, self.model, self.stage, self.sampler, self.optimizer = fabric, model, stage, sampler, optimizer
        self.weights, self.averaged = weights, averaged
        self.objective: Callable[..., tuple[Tensor, Tensor]] = module
        self.tau, self.pull, self.loss_sum = (torch.zeros((), device=fabric.device) for _ in range(3))
        self._recorder = _Recorder(fabric.device, [sampler.generator]) if self._can_be_recorded() else None
        self._wants_compiled = compiled
        self._n_done = 0

    def _can_be_recorded(self) -> bool:
        if self.fabric.device.type != "cuda":
            return False
        if not self.sampler.is_static:
            logger.info("Steps are not recorded as a CUDA graph: rolled-out histories differ in their operations.")
        elif self.fabric.world_size > 1:
            logger.info("Steps are not recorded as a CUDA graph: several processes take part.")
        else:
            return True
        return False

    def run(self, step: int, n_steps: int) -> None:
        """Take step number `step` of `n_steps`; its loss is added to `loss_sum`."""
        self._schedule(step, n_steps)
        self.sampler.prepare()
        if self._recorder is None:
            self._work()
            return
        if self._n_done == WARM_UP + TIMED and self._should_compile(n_steps - step):
            self._compile()
        elif self._n_done < WARM_UP:
            self._recorder.warm_up(self._work)
        elif not self._recorder.run(self._work):
            self._recorder = None
        self._n_done += 1

    def _schedule(self, step: int, n_steps: int) -> None:
        lr = self.stage.lr_at(step, n_steps)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        self.tau.fill_(self.stage.tau_at(step, n_steps))
        # The average warms up, so that it does not remember the first weights for long.
        self.pull.fill_(1 - min(self.stage.average, (1 + step) / (10 + step)))

    def _work(self) -> None:
        loss, query = self.objective(*inputs(self.draw(), self.tau, self.stage.label_smoothing))
        self.fabric.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.sampler.advance(query)
        self._average()
        self.loss_sum += loss.detach()

    def draw(self) -> Batch:
        """The next histories, and the model ready to learn from them; the host's part is done."""
        if self.sampler.asks_querier:
            self.model.eval()  # histories are those of use, without dropout
        with self.fabric.autocast():
            batch = self.sampler.draw(self.model)
        if not self.model.training:
            self.model.train()
        return batch

    @torch.no_grad()
    def _average(self) -> None:
        if self.averaged:
            way = torch._foreach_sub(self.weights, self.averaged)
            torch._foreach_mul_(way, self.pull)
            torch._foreach_add_(self.averaged, way)

    def _should_compile(self, n_left: int) -> bool:
        if self._wants_compiled is None:
            assert self._recorder
            return self._recorder.pace() * n_left > COMPILING_PAYS
        return self._wants_compiled

    def _compile(self) -> None:
        """Take this step with the objective compiled, and record that; or go on as before."""
        assert self._recorder
        plain, compiled = self.objective, torch.compile(self.model.forward, dynamic=False)

        def objective(*given: Any) -> tuple[Tensor, Tensor]:
            with self.fabric.autocast():
                return compiled(*given)

        self.objective = objective
        try:
            self._recorder.warm_up(self._work)
        except Exception as error:  # whatever a compiler may find missing
            logger.warning("Training is not compiled: %s", str(error).strip().splitlines()[0])
            self.objective = plain
            self.optimizer.zero_grad()
            self.sampler.prepare()  # what was drawn for this attempt is gone
            self._recorder.run(self._work)
        else:
            self._recorder.forget()


def inputs(batch: Batch, tau: Tensor | float, label_smoothing: float = 0.0) -> tuple[Any, ...]:
    """What a learner's objective is called with."""
    rows, history, more = batch
    return history.x, history.known, history.asked, rows.available, rows.y, tau, label_smoothing, *more


class _Recorder:
    """Runs work on a GPU, recorded as a CUDA graph the first time and replayed from then on."""

    def __init__(self, device: torch.device, generators: list[torch.Generator]):
        self.device, self.generators = device, generators
        self.stream = torch.cuda.Stream(device)
        self.forget()

    def forget(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None
        self._n_replayed, self._started = 0, 0.0

    def warm_up(self, work: Callable[[], None]) -> None:
        """Run work as it is, apart from the main stream, as a recording will be made."""
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            work()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def run(self, work: Callable[[], None]) -> bool:
        """Run work, recorded if possible; whether it was."""
        if self._graph is None:
            generators = [*self.generators, torch.cuda.default_generators[self.device.index or 0]]
            states = [generator.get_state() for generator in generators]
            try:
                self._graph = self._record(work)
            except RuntimeError as error:
                logger.warning("Steps are not recorded as a CUDA graph: %s", str(error).strip().splitlines()[0])
                torch.cuda.synchronize(self.device)
                for generator, state in zip(generators, states, strict=True):  # which still think they are recorded
                    generator.graphsafe_set_state(torch.Generator(self.device).set_state(state))
                work()
                return False
            torch.cuda.synchronize(self.device)
            self._started = time.monotonic()
        self._graph.replay()
        self._n_replayed += 1
        return True

    def _record(self, work: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            work()
        return graph

    def pace(self) -> float:
        """Seconds a replayed step takes."""
        torch.cuda.synchronize(self.device)
        return (time.monotonic() - self._started) / max(1, self._n_replayed)
