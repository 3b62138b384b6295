"""A training step recorded once as a CUDA graph and then replayed, so that nothing waits for Python."""

import logging
import time
from collections.abc import Callable

import torch

logger = logging.getLogger(__name__)


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
