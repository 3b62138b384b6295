"""One training by several workers of a Ray cluster: the loop that torchrun starts, in the workers of Ray Train."""

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pursuit.estimators import PursuitEstimator
from pursuit.estimators.saving import RUN
from pursuit.files import OWNER, claimed, is_first
from pursuit.networks.dense import one_thread
from pursuit.research.tasks import Task
from pursuit.tables.engine import RETRIES, Ray, at_home, connected, refuse_other_folder
from pursuit.training import Report, TrainingRun
from pursuit.training.checkpoints import remove_checkpoints
from pursuit.training.devices import started_by_torchrun

PATIENCE = 10
"""Minutes until a cluster that has lost too many machines counts as too small."""
LAST = 30.0
"""Seconds that Ray Train has to end when training is stopped."""
LOOK = 0.5
"""Seconds between two looks at how far training is."""

Estimator = TypeVar("Estimator", bound=PursuitEstimator)


def train_on(cluster: Ray, model: Estimator, task: Task, run: TrainingRun) -> Estimator:
    """Train a model on a cluster, as many processes together as it has `devices`; the trained model.

    Every machine must see the folder of the run. If a worker is lost, with its machine or alone, all of them start
    again from the last checkpoint, and end with the bits of a training that nothing happened to. These are those of
    torchrun with as many processes.
    """
    if started_by_torchrun():
        raise ValueError("torchrun has started this process already: leave torchrun out, or --engine.")
    if run.path is None:
        raise ValueError("Training on a cluster needs a folder for its checkpoints.")
    n_workers, folder = int(getattr(model, "devices", 1)), run.path.resolve()
    with claimed(folder), connected(cluster.address):
        on_gpu = _check_room(n_workers, model.device)
        if not run.resume:
            _clear(folder)
        # A worker that begins cannot know whether others did before it, so all of them resume whatever is there.
        remote = replace(run, folder=folder, resume=True, on_report=None, is_claimed=True)
        return _trained(model, task, remote, n_workers, on_gpu, run.on_report or (lambda report: None))


def _trained(
    model: Estimator, task: Task, run: TrainingRun, n_workers: int, on_gpu: bool, on_report: Callable[[Report], None]
) -> Estimator:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # What waits for the workers lives beside this process, on a machine that is lost only with it.
    beside: Any = {
        "num_cpus": 0,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False),
    }
    desks: Any = ray.remote(_Desk)
    desk = desks.options(**beside).remote()
    work = {"work": ray.put(ray.cloudpickle.dumps((model, task, run))), "desk": desk, "home": Path.cwd()}
    together: Any = ray.remote(_train_together)
    training = together.options(**beside, max_retries=0).remote(work, n_workers, on_gpu)
    try:
        is_over = False
        while not is_over:
            is_over = bool(ray.wait([training], timeout=LOOK)[0])
            for report in ray.get(desk.take_reports.remote()):
                on_report(report)
    except BaseException:  # somebody stops it
        ray.cancel(training)  # which ends what looks after the workers, in a while
        _free(desk)
        if not ray.wait([training], timeout=LAST)[0]:
            ray.cancel(training, force=True)
            _free(desk)
        raise
    if problem := ray.get(training):
        raise ValueError(problem)
    trained, said = ray.cloudpickle.loads(ray.get(desk.result.remote()))
    if isinstance(trained, Exception):
        raise trained
    for message in said:
        warnings.warn(message, stacklevel=2)
    trained.device = model.device
    return trained


def _train_together(work: dict[str, Any], n_workers: int, on_gpu: bool) -> str | None:
    """Train by Ray Train; gives a message if the cluster failed."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchTrainer

    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"  # paths mean what they mean where training is started
    most: Any = {"max_failures": RETRIES, "controller_failure_limit": PATIENCE}
    with tempfile.TemporaryDirectory() as unused:  # Ray's own checkpoints would go there
        trainer = TorchTrainer(
            _work,
            train_loop_config={**work, "on_gpu": on_gpu},
            scaling_config=ScalingConfig(num_workers=n_workers, use_gpu=on_gpu),
            run_config=RunConfig(storage_path=unused, failure_config=FailureConfig(**most)),
        )
        try:
            trainer.fit()
        except TrainingFailedError as error:
            return _in_words(error, n_workers, on_gpu)
    return None


# ----------------------------------------------------------------------------------------------------------------------
# In the workers


def _work(config: dict[str, Any]) -> None:
    """Train as one of the processes of torchrun does."""
    import ray

    desk = config["desk"]
    if ray.get(desk.result.remote()) is not None:  # what was wrong before all began again would be wrong again
        return
    try:
        ray.get(desk.note_places.remote(ray.util.get_current_placement_group()))
        _look_like_torchrun(config["on_gpu"])
        model, task, run = ray.cloudpickle.loads(ray.get(config["work"]))
        model.device = "cuda" if config["on_gpu"] else "cpu"
        with one_thread(), at_home(config["home"]), warnings.catch_warnings(record=True) as caught:
            refuse_other_folder(run.path, OWNER)
            task.fit(model, replace(run, on_report=lambda report: desk.report.remote(report)))
    except (RuntimeError, ray.exceptions.RayError):  # others are lost, or this machine is not well: it is tried again
        raise
    except Exception as error:  # the others wait for this worker in vain: Ray Train lets all begin again, and end
        ray.get(desk.end.remote(ray.cloudpickle.dumps((error, []))))
        raise
    if is_first():
        said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        ray.get(desk.end.remote(ray.cloudpickle.dumps((model, said))))


def _look_like_torchrun(on_gpu: bool) -> None:
    """Ray Train has joined the processes and set the variables of torchrun, but for the one it is known by."""
    os.environ["TORCHELASTIC_RUN_ID"] = "ray"
    if not on_gpu:  # nothing is shared on a machine, which may then have more workers than another
        os.environ.update(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    elif int(os.environ["WORLD_SIZE"]) % int(os.environ["LOCAL_WORLD_SIZE"]):
        raise ValueError("The machines have unequal numbers of GPUs to train on: choose another number of --devices.")


# ----------------------------------------------------------------------------------------------------------------------
# Here


class _Desk:
    """An actor that takes the reports and the result of the workers. It lives beside the waiting process."""

    def __init__(self) -> None:
        self._reports: list[Report] = []
        self._result: bytes | None = None
        self._places: Any = None

    def note_places(self, places: Any) -> None:
        """The cores and GPUs that the workers have, as a placement group."""
        self._places = places

    def places(self) -> Any:
        return self._places

    def report(self, report: Report) -> None:
        self._reports.append(report)

    def take_reports(self) -> list[Report]:
        taken, self._reports = self._reports, []
        return taken

    def end(self, result: bytes) -> None:
        self._result = self._result or result

    def result(self) -> bytes | None:
        return self._result


def _free(desk: Any) -> None:
    """End the workers, whatever they are doing, and give back the cores and GPUs that they had."""
    import ray

    places = ray.get(desk.places.remote())
    if places is not None:
        ray.util.remove_placement_group(places)


def _check_room(n_workers: int, device: str) -> bool:
    """Whether workers have GPUs; raises ValueError if the cluster is too small for them."""
    import ray

    there = ray.cluster_resources()
    on_gpu = device == "cuda" or (device == "auto" and there.get("GPU", 0) >= n_workers)
    for name, words in (("CPU", "cores"), *([("GPU", "GPUs")] if on_gpu else [])):
        n_there = int(there.get(name, 0))
        if n_there < n_workers:
            raise ValueError(
                f"{n_workers} processes are to train together, but the cluster has only {n_there} {words}: choose "
                "fewer --devices, or add machines to it."
            )
    return on_gpu


def _clear(folder: Path) -> None:
    """Remove the files of an earlier training; its model stays until there is another."""
    (folder / RUN).unlink(missing_ok=True)
    remove_checkpoints(folder / "checkpoints")


def _in_words(error: Exception, n_workers: int, on_gpu: bool) -> str:
    failures = getattr(error, "worker_failures", None)
    if failures:
        why = _last_line(next(iter(failures.values())))
        return (
            f"Training lost its workers {RETRIES + 1} times, at last by this: {why} Once the cluster is well, continue "
            "with --resume."
        )
    what = "GPUs" if on_gpu else "cores"
    return (
        f"The cluster has not had {n_workers} free {what} for {PATIENCE} minutes: add machines or wait for other work "
        f"to end, and continue with --resume. ({_last_line(error)})"
    )


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
