"""One step of training: draw histories, learn from them, average the weights.

On an NVIDIA GPU the whole step is recorded once as a CUDA graph and then replayed; where training is long enough for
that to pay, the objective is compiled first. Recorded or not, it is the same code: values that change between steps are
kept in fixed tensors and updated in place. What cannot be recorded or compiled is run as it is, and a line in the log
says why.
"""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pursuit.training.averaging import WeightAverage
from pursuit.training.learner import Learner
from pursuit.training.samplers import Batch, Sampler, TrainingOutcome
from pursuit.training.schedule import Stage

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class CudaGraph:
    """Runs work on a GPU, recorded the first time and replayed from then on.

    What differs from step to step must lie in tensors that stay where they are.
    """

    def __init__(self, device: torch.device, generators: list[torch.Generator]):
        self.device, self.generators = device, generators
        self.stream = torch.cuda.Stream(device)
        self.forget()

    def forget(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None
        self._n_replayed, self._started = 0, 0.0

    def warm_up(self, work: Callable[[], None]) -> None:
        """Run work as it is, on the stream that a recording will be made on."""
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        try:
            with torch.cuda.stream(self.stream):
                work()
        finally:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def run(self, work: Callable[[], None]) -> bool:
        """Run work recorded, and say so; or say that it cannot be recorded, and leave it undone."""
        if self._graph is None:
            generators = [*self.generators, torch.cuda.default_generators[self.device.index or 0]]
            states = [generator.get_state() for generator in generators]
            try:
                self._graph = self._record(work)
            except RuntimeError as error:
                logger.warning("Steps are not recorded as a CUDA graph: %s", str(error).strip().splitlines()[0])
                torch.cuda.synchronize(self.device)
                for generator, state in zip(generators, states, strict=True):  # they still believe they are recorded
                    generator.graphsafe_set_state(torch.Generator(self.device).set_state(state))
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

    def seconds_a_step(self) -> float:
        """How long a replayed step takes."""
        torch.cuda.synchronize(self.device)
        return (time.monotonic() - self._started) / max(1, self._n_replayed)


logger = logging.getLogger(__name__)

WARM_UP = 3
"""Steps before a recording, in which libraries choose their kernels and the optimizer allocates its memory."""
TIMED = 20
"""Recorded steps after which the pace is known."""
COMPILING_PAYS = 60.0
"""Compile if at least this many seconds of training remain: it takes some 20 s for convolutions, and makes steps 1.6 to
1.8 times as fast (on one H200, commit 96689a9)."""


class TrainingStep:
    """One optimisation step of a stage."""

    def __init__(
        self,
        fabric: "Fabric",
        model: Learner,
        module: Any,
        stage: Stage,
        sampler: Sampler,
        optimizer: Any,
        average: WeightAverage,
        compiled: bool | None = None,
    ):
        self.fabric, self.model, self.stage, self.sampler, self.optimizer = fabric, model, stage, sampler, optimizer
        self.average = average
        self.objective: Callable[[Batch], TrainingOutcome] = module
        self.tau, self.exploration, self.loss_sum = (torch.zeros((), device=fabric.device) for _ in range(3))
        self._graph = CudaGraph(fabric.device, [sampler.generator]) if self._can_be_recorded() else None
        self._wants_compiled = compiled
        self._n_done = 0

    def _can_be_recorded(self) -> bool:
        if self.fabric.device.type != "cuda":
            return False
        if not self.sampler.is_static:
            logger.info("Steps are not recorded as a CUDA graph: their operations differ from step to step.")
        elif self.fabric.world_size > 1:
            logger.info("Steps are not recorded as a CUDA graph: several processes take part.")
        else:
            return True
        return False

    def run(self, step: int, n_steps: int) -> None:
        """Take step number `step` of `n_steps`; its loss is added to `loss_sum`."""
        self._schedule(step, n_steps)
        self.sampler.prepare()
        if self._graph is None:
            self._work()
            return
        if self._n_done == WARM_UP + TIMED and self._should_compile(self._graph, n_steps - step):
            self._compile(self._graph)
        elif self._n_done < WARM_UP:
            self._graph.warm_up(self._work)
        else:
            self._run_recorded(self._graph)
        self._n_done += 1

    def _run_recorded(self, graph: CudaGraph) -> None:
        """Replay the step, recorded if that was not done yet; or run it as it is, from now on, where it cannot be."""
        if not graph.run(self._work):
            self._graph = None
            self.optimizer.zero_grad()  # a broken recording may have left gradients that were never computed
            self._work()

    def _schedule(self, step: int, n_steps: int) -> None:
        lr = self.stage.lr_at(step, n_steps)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        self.tau.fill_(self.stage.tau_at(step, n_steps))
        self.exploration.fill_(self.stage.exploration_at(step, n_steps))
        self.model.schedule(step / n_steps)
        self.average.schedule(step)

    def _work(self) -> None:
        outcome = self.objective(self.draw())
        self.fabric.backward(outcome.loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.sampler.advance(outcome.query)
        self.average.update()
        self.loss_sum += outcome.loss.detach()

    def draw(self) -> Batch:
        """The next batch, with the model ready to learn from it; `sampler.prepare` must have been called."""
        if self.sampler.asks_querier:
            self.model.eval()  # histories are those of use, without dropout
        with self.fabric.autocast():
            batch = self.sampler.draw(self.model)
        if not self.model.training:
            self.model.train()
        return batch._replace(
            tau=self.tau,
            exploration=self.exploration,
            label_smoothing=self.stage.label_smoothing,
            phase=self.stage.phase,
        )

    def _should_compile(self, graph: CudaGraph, n_left: int) -> bool:
        if self._wants_compiled is None:
            return graph.seconds_a_step() * n_left > COMPILING_PAYS
        return self._wants_compiled

    def _compile(self, graph: CudaGraph) -> None:
        """Take this step with the objective compiled, and record that; or go on as before."""
        plain, compiled = self.objective, torch.compile(self.model.forward, dynamic=False)

        def objective(batch: Batch) -> TrainingOutcome:
            with self.fabric.autocast():
                return compiled(batch)

        self.objective = objective
        try:
            graph.warm_up(self._work)
        except Exception as error:  # whatever a compiler may find missing
            logger.warning("Training is not compiled: %s", str(error).strip().splitlines()[0])
            self.objective = plain
            self.optimizer.zero_grad()
            self.sampler.prepare()  # what was drawn for this attempt is gone
            self._run_recorded(graph)
        else:
            graph.forget()
