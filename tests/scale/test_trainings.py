"""Trainings in Ray Train on a cluster of two nodes, one of which is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from program import run, wait_for
from pursuit import MLP, Stage, VIPClassifier
from pursuit.estimators import PursuitClassifier
from pursuit.research.experiments.cluster import train_on
from pursuit.research.tasks import Task, load_task
from pursuit.tables.engine import Ray, find_engine
from pursuit.tables.streaming import ParquetRows
from pursuit.training import AdamW, TrainingRun
from pursuit.training.loop import Diverged
from scale.conftest import make_rows, needs_ray
from scale.test_ray_engine import Killer

pytestmark = [pytest.mark.scale, needs_ray]

TRAIN = (
    "train",
    "rows.csv",
    "--target",
    "label",
    "--drop",
    "key",
    "--epochs",
    "800",
)  # long enough for a checkpoint, which comes after two seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    make_rows(600, 1).to_csv(folder / "rows.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def by_torchrun(folder: Path) -> bytes:
    """The weights that two processes of torchrun end with, if nothing disturbs them."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    subprocess.run([*launcher, "-m", "pursuit", *TRAIN, "--out", "torchrun"], cwd=folder, check=True)
    return weights(folder / "torchrun")


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def has_checkpoint(folder: Path) -> bool:
    return any((folder / "checkpoints").glob("checkpoint-*"))


def test_a_node_that_is_killed_changes_nothing(
    folder: Path, by_torchrun: bytes, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[Any] = []
    killer = Killer(cluster, after=1)

    def on_report(report: Any) -> None:
        reports.append(report)
        killer(int(has_checkpoint(folder / "killed")))

    monkeypatch.setattr("pursuit.cli.train.training_bar", lambda title: nullcontext(on_report))
    done = run(folder, *TRAIN, "--out", "killed", "--engine", "ray", "--devices", "2")
    assert done.returncode == 0, done.stderr
    assert killer.has_killed
    steps = [report.step for report in reports]
    assert steps.count(steps[0]) == 1  # it went on from a checkpoint, not from the beginning
    assert weights(folder / "killed") == by_torchrun
    log = pd.read_csv(folder / "killed" / "log.csv")
    assert log["step"].is_monotonic_increasing


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The program in a process of its own, with a cluster of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-m", "pursuit", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.slow
def test_an_interrupted_training_ends_and_can_be_resumed(folder: Path, by_torchrun: bytes) -> None:
    command = (*TRAIN, "--out", "stopped", "--engine", "ray", "--devices", "2")
    with started(folder, *command) as process:
        wait_for(lambda: has_checkpoint(folder / "stopped") or process.poll() is not None, seconds=900)
        if process.poll() is not None:
            pytest.fail(f"Training ended before its first checkpoint: {process.communicate()[1]}")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "Stopped. Run the same command with --resume to continue." in " ".join(said.split())
    assert "Traceback" not in said
    assert not (folder / "stopped" / "model.json").exists()
    with started(folder, *command, "--resume") as process:
        _, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    assert weights(folder / "stopped") == by_torchrun


def test_a_stopped_training_frees_its_cores(folder: Path, cluster: Any) -> None:
    import ray

    def stop(report: Any) -> None:
        raise KeyboardInterrupt

    long = small(stages=[Stage(400, batch_size=32)])
    rows = load_task(str(folder / "rows.csv"), 0, "label", drop=["key"])
    with pytest.raises(KeyboardInterrupt):
        train_on(Ray(), long, rows, TrainingRun(folder / "freed", on_report=stop))
    assert {one["state"] for one in ray.util.placement_group_table().values()} <= {"REMOVED"}
    wait_for(lambda: ray.available_resources().get("CPU") == 2.0, seconds=300)


def small(**changes: Any) -> PursuitClassifier:
    settings = {"network": MLP((8,)), "stages": [Stage(4, batch_size=32)], "random_state": 0, "devices": 2, **changes}
    return VIPClassifier(**settings)


@pytest.fixture
def task(folder: Path) -> Task:
    return load_task(str(folder / "rows.csv"), 0, "label", drop=["key"])


def test_one_worker_may_train_too(task: Task, tmp_path: Path, cluster: Any) -> None:
    found = train_on(Ray(), small(devices=1, held_out=0.2), task, TrainingRun(tmp_path / "ray"))
    here = small(devices=1, held_out=0.2)
    task.fit(here, TrainingRun(tmp_path / "here"))
    assert all(found.model_.state_dict()[name].equal(value) for name, value in here.model_.state_dict().items())


def test_too_few_cores_are_told_at_once(task: Task, tmp_path: Path, cluster: Any) -> None:
    with pytest.raises(ValueError, match="3 processes are to train together, but the cluster has only 2 cores"):
        train_on(Ray(), small(devices=3), task, TrainingRun(tmp_path))
    with pytest.raises(ValueError, match="the cluster has only 0 GPUs"):
        train_on(Ray(), small(device="cuda"), task, TrainingRun(tmp_path))


def test_what_goes_wrong_in_all_workers_is_said_here(task: Task, tmp_path: Path, cluster: Any) -> None:
    wild = [Stage(4, optimizer=AdamW(lr=1e30), batch_size=32)]
    with pytest.raises(Diverged, match="Training diverged in stage 1"):
        train_on(Ray(), small(stages=wild), task, TrainingRun(tmp_path / "wild"))
    with pytest.raises(ValueError, match="A batch of 33 rows cannot be divided evenly among 2 processes"):
        train_on(Ray(), small(stages=[Stage(4, batch_size=33)]), task, TrainingRun(tmp_path / "uneven"))


def test_what_goes_wrong_in_one_worker_ends_the_others(tmp_path: Path, cluster: Any) -> None:
    for seed in (1, 2):
        make_rows(400, seed).to_parquet(tmp_path / f"{seed}.parquet")
    rows = ParquetRows(tmp_path, "label", drop=["key"], test_share=0.0)
    assert rows.query_set is not None
    task = Task("two", rows.query_set, rows, None, None, pd.Series([]).to_numpy())
    (tmp_path / "2.parquet").write_bytes(b"no longer")
    with pytest.raises(ValueError, match=r"2\.parquet cannot be read: it is not a Parquet file, is damaged"):
        train_on(Ray(), small(query_set=rows.query_set, held_out=0.0), task, TrainingRun(tmp_path / "run"))


def test_a_new_training_replaces_an_old_one_and_a_resumed_one_must_be_the_same(
    task: Task, tmp_path: Path, cluster: Any
) -> None:
    train_on(Ray(), small(), task, TrainingRun(tmp_path))
    with pytest.raises(ValueError, match="holds a run with other seed, so it cannot be resumed"):
        train_on(Ray(), small(random_state=1), task, TrainingRun(tmp_path, resume=True))
    again = train_on(Ray(), small(random_state=1), task, TrainingRun(tmp_path))
    assert again.random_state == 1


def test_clusters_by_name(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(find_engine("ray"), Ray)
    with pytest.raises(ValueError, match="needs a folder for its checkpoints"):
        train_on(Ray(), small(), task, TrainingRun())
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="torchrun has started this process already"):
        train_on(Ray(), small(), task, replace(TrainingRun(tmp_path), resume=True))
