"""Rows read from object storage and results written there: the same bits as on a disk, by both engines."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from object_store import ObjectStore, object_store
from program import run
from pursuit.estimators import PursuitClassifier
from pursuit.research.tasks import load_task
from pursuit.tables.engine import Engine, Local, Ray
from pursuit.tables.filesystem import find_path
from pursuit.tables.row_jobs import Predict, measure_all, write_folder
from scale.conftest import make_rows, of


class Idle(Engine):
    """Has nothing to do."""

    def each(self, do: Any, items: Any) -> Any:
        raise AssertionError("everything was done before")


@pytest.fixture(scope="module")
def store(parquet: Path) -> Iterator[ObjectStore]:
    """The same files as `parquet`, and some CSV files."""
    with object_store() as server:
        for path in parquet.iterdir():
            server.objects[f"rows/{path.name}"] = path.read_bytes()
        for seed in (1, 2):
            server.objects[f"csv/{seed}.csv"] = make_rows(30, seed).to_csv(index=False).encode()
        yield server


def nobody(n_rows: int) -> None:
    """Watches."""


def parts(store: ObjectStore, folder: str) -> dict[str, bytes]:
    return {
        key.rpartition("/")[2]: content for key, content in store.objects.items() if key.startswith(f"{folder}/part")
    }


def predicted_on_disk(model: PursuitClassifier, parquet: Path, folder: Path) -> dict[str, bytes]:
    write_folder(Predict(model, of(parquet), None, folder), Local(), nobody)
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


@pytest.mark.slow
def test_predictions_are_those_on_a_disk(
    model: PursuitClassifier, store: ObjectStore, parquet: Path, tmp_path: Path
) -> None:
    rows, out = of(store.uri("rows")), find_path(store.uri("out"))
    assert write_folder(Predict(model, rows, None, out), Local(), nobody) == 2400
    assert parts(store, "out") == predicted_on_disk(model, parquet, tmp_path / "out")
    assert write_folder(Predict(model, of(store.uri("rows")), None, out), Idle(), nobody) == 2400
    with pytest.raises(ValueError, match=r"^s3://bucket/out holds what came of another stop: choose another folder"):
        write_folder(Predict(model, rows, "budget=1", out), Local(), nobody)


@pytest.mark.slow
def test_a_measurement_is_that_on_a_disk(model: PursuitClassifier, store: ObjectStore, parquet: Path) -> None:
    here = measure_all(model, of(parquet), None, Local(), nobody)
    kept = find_path(store.uri("kept"))
    assert measure_all(model, of(store.uri("rows")), None, Local(), nobody, kept) == here
    del store.objects["kept/counts-000003.safetensors"]
    assert measure_all(model, of(store.uri("rows")), None, Local(), nobody, kept) == here
    assert measure_all(model, of(store.uri("rows")), None, Idle(), nobody, kept) == here


def test_a_folder_of_csv_files(model: PursuitClassifier, store: ObjectStore) -> None:
    assert (
        write_folder(Predict(model, of(store.uri("csv")), None, find_path(store.uri("of-csv"))), Local(), nobody) == 60
    )
    found = pd.concat(pd.read_parquet(io.BytesIO(content)) for _, content in sorted(parts(store, "of-csv").items()))
    assert list(zip(found["file"], found["line"], strict=True))[29:31] == [("1.csv", 31), ("2.csv", 2)]
    measured = measure_all(model, of(store.uri("csv")), None, Local(), nobody, find_path(store.uri("kept-csv")))
    assert measured.evaluation.n_rows == 60


def test_training_streams_the_same_rows_from_there(store: ObjectStore, parquet: Path) -> None:
    there, here = (load_task(source, target="label", drop=["key"]) for source in (store.uri("rows"), parquet))
    assert (there.notes, there.name) == ({**here.notes, "file": "3 files"}, "rows")
    batches = [task.X_train.stream(torch.Generator().manual_seed(0)).next(200) for task in (there, here)]
    assert torch.equal(batches[0].x, batches[1].x)
    assert torch.equal(batches[0].y, batches[1].y)
    assert there.X_test.equals(here.X_test)


def test_the_program_says_what_is_wrong(model: PursuitClassifier, store: ObjectStore, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    into = ("--engine", "local", "--out", "out")
    for data, message in (
        (store.uri("rows", bucket="other"), "There is nothing at s3://other/rows"),
        (store.uri("nowhere"), "There is nothing at s3://bucket/nowhere"),
        (store.uri("rows", keys="wrong:secret"), "s3://bucket/rows cannot be reached (AWS Error ACCESS_DENIED"),
        ("ftp://host/rows", "ftp://host/rows cannot be used"),
    ):
        done = run(tmp_path, "predict", "model", "--data", data, *into)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {message}")
        assert "secret" not in done.stderr
    done = run(tmp_path, "predict", "model", "--data", store.uri("rows"), "--out", store.uri("x.csv"))
    assert "Written into s3://bucket/x.csv" in done.stderr
    run(tmp_path, "predict", "model", "--data", store.uri("rows"), "--out", store.uri("y.csv"), "--engine", "local")
    assert len(store.objects["x.csv"].splitlines()) == 2401
    assert store.objects["x.csv"] == store.objects["y.csv"]
    assert not [key for key in store.objects if key.startswith("y.csv.parts")]
    done = run(tmp_path, "train", store.uri("csv/1.csv"), "--target", "label")
    assert "copy the CSV file here first" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.scale
def test_a_cluster_reads_and_writes_there_too(
    model: PursuitClassifier, store: ObjectStore, parquet: Path, tmp_path: Path, cluster: Any
) -> None:
    rows = of(store.uri("rows"))
    assert write_folder(Predict(model, rows, None, find_path(store.uri("by-ray"))), Ray(), nobody) == 2400
    assert parts(store, "by-ray") == predicted_on_disk(model, parquet, tmp_path / "out")
    kept = find_path(store.uri("kept-by-ray"))
    assert measure_all(model, rows, None, Ray(), nobody, kept) == measure_all(model, of(parquet), None, Local(), nobody)
