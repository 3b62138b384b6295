"""Trainings as tasks of a Ray cluster, side by side."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pursuit.experiments.results import Failure
from pursuit.experiments.run import Progress
from pursuit.experiments.sweep import R, Run, Sweep, one_by_one, outcome_of
from pursuit.scale.engine import Ray, at_home, connected, find_cluster, one_thread

RETRIES = 5
"""How often a training goes on elsewhere if the machine or the process that did it is lost."""


def sweep_on(cluster: Ray, gpu_share: float = 0.0) -> Sweep:
    """Measure runs on a cluster, each as a task with a core and a share of a GPU.

    The folders of runs must be seen by every machine: a training whose machine is lost goes on elsewhere from its last
    checkpoint there. A run that fails by itself is not tried again. A list of runs is handed over at once; runs that
    come one by one, because they depend on what came of others, are as many at a time as the cluster has places.
    """
    if not 0 <= gpu_share <= 1:
        raise ValueError(f"A training has a share of a GPU, from 0 to 1, not {gpu_share}.")

    def sweep(runs: Iterable[R], progress: Progress) -> Iterator[tuple[R, Any]]:
        import ray

        if isinstance(runs, Sequence) and not runs:
            return
        with connected(cluster.address):
            if gpu_share and cluster.address is None and not ray.cluster_resources().get("GPU"):
                raise ValueError("This machine has no GPU that Ray could share out: leave --gpu-share out.")
            measure = ray.remote(num_cpus=1, num_gpus=gpu_share, max_retries=RETRIES)(_outcome)
            coming = iter(runs)
            waiting: dict[Any, R] = {}
            while True:
                n_at_once = len(runs) if isinstance(runs, Sequence) else _places(gpu_share)
                room = max(0, n_at_once - len(waiting))  # fewer places than before where a machine was lost
                waiting |= {measure.remote(run, Path.cwd()): run for run in islice(coming, room)}
                if not waiting:
                    return
                (done, *_), _ = ray.wait(list(waiting), num_returns=1)
                run = waiting.pop(done)
                try:
                    outcome = ray.get(done)
                except ray.exceptions.RayTaskError as error:  # the rows could not be loaded there
                    raise error.cause from None
                except ray.exceptions.RayError as error:  # the machine was lost again and again
                    outcome = Failure(run.seed, str(error).strip().splitlines()[0])
                yield run, outcome

    return sweep


def find_sweep(engine: str | None, address: str | None, gpu_share: float) -> Sweep:
    """The sweep that a command line means; one by one where it names no engine."""
    cluster = find_cluster(engine, address)
    return one_by_one if cluster is None else sweep_on(cluster, gpu_share)


def _places(gpu_share: float) -> int:
    """How many trainings the cluster can do at a time."""
    import ray

    there = ray.cluster_resources()
    places = there.get("CPU", 1.0)
    if gpu_share:
        places = min(places, there.get("GPU", 0.0) // gpu_share)
    return max(1, int(places))


def _outcome(run: Run, home: Path) -> Any:
    with one_thread(), at_home(home):
        return outcome_of(run)
