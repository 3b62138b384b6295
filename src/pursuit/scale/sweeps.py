"""Trainings of a comparison as tasks of a Ray cluster, side by side."""

from collections.abc import Iterator, Sequence

from pursuit.experiments.compare import Sweep, one_by_one, outcome_of
from pursuit.experiments.results import Failure, Result
from pursuit.experiments.run import MethodRun, Progress
from pursuit.scale.engine import one_thread
from pursuit.scale.engines import find_engine
from pursuit.scale.ray_engine import Ray, connected

RETRIES = 5
"""How often a training goes on elsewhere if the machine or the process that did it is lost."""


def sweep_on(cluster: Ray, gpu_share: float = 0.0) -> Sweep:
    """Measure runs on a cluster, each as a task with a core and a share of a GPU.

    The folders of runs must be seen by every machine: a training whose machine is lost goes on elsewhere from its last
    checkpoint there. A run that fails by itself is not tried again.
    """
    if not 0 <= gpu_share <= 1:
        raise ValueError(f"A training has a share of a GPU, from 0 to 1, not {gpu_share}.")

    def sweep(runs: Sequence[MethodRun], progress: Progress) -> Iterator[tuple[MethodRun, Result | Failure]]:
        import ray

        if not runs:
            return
        with connected(cluster.address):
            measure = ray.remote(num_cpus=1, num_gpus=gpu_share, max_retries=RETRIES)(_outcome)
            waiting = {measure.remote(run): run for run in runs}
            while waiting:
                (done, *_), _ = ray.wait(list(waiting), num_returns=1)
                run = waiting.pop(done)
                try:
                    outcome: Result | Failure = ray.get(done)
                except ray.exceptions.RayError as error:  # the machine was lost again and again
                    outcome = Failure(run.seed, str(error).strip().splitlines()[0])
                yield run, outcome

    return sweep


def find_sweep(engine: str | None, address: str | None, gpu_share: float) -> Sweep:
    """The sweep that a command line means; one by one where it names no engine."""
    if engine is None and address is None:
        return one_by_one
    found = find_engine(engine, address)
    return sweep_on(found, gpu_share) if isinstance(found, Ray) else one_by_one


def _outcome(run: MethodRun) -> Result | Failure:
    with one_thread():
        return outcome_of(run)
