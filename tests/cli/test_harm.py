"""What must never happen to somebody who runs the program: each of these did once."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from program import assert_refused, run
from pursuit.methods import NaiveBayesIPClassifier
from pursuit.tables import csv as text_files

TRAIN = ("train", "t.csv", "--target", "y", "--method", "tree")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 2, 60), "b": rng.normal(size=60)})
    frame["y"] = np.where(frame["a"] == 1, "sick", "well")
    frame.to_csv(tmp_path / "t.csv", index=False)
    NaiveBayesIPClassifier(random_state=0).fit(frame[["a", "b"]], frame["y"]).save(tmp_path / "model")
    return tmp_path


@contextmanager
def training_elsewhere(folder: Path) -> Iterator[int]:
    """Another process that is training in a folder."""
    code = "import sys, pathlib; from pursuit.files import claimed\n"
    code += "with claimed(pathlib.Path(sys.argv[1])): print('mine', flush=True); input()"
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        yield other.pid
        other.kill()


def test_two_trainings_do_not_share_a_folder(folder: Path) -> None:
    with training_elsewhere(folder / "out") as process:
        done = run(folder, *TRAIN, "--out", "out")
        assert_refused(done, f"out is in use by process {process}, which is training there")
    assert run(folder, *TRAIN, "--out", "out").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "pipe", "--target", "y"),
        ("train", "pipe.csv", "--target", "y"),
        ("train", "pipe.parquet", "--target", "y"),
        ("train", "t.csv", "--target", "y", "--questions", "pipe"),
        ("predict", "model", "--data", "pipe.csv"),
        ("predict", "model", "--data", "pipe.parquet"),
        ("explain", "model", "--data", "/dev/zero"),
        ("ask", "model", "--session", "pipe"),
        ("show", "pipe"),
        ("show", "of-pipes"),
        ("questions", "/dev/zero", "--target", "y"),
    ],
)
def test_pipes_and_devices_are_refused_at_once(folder: Path, arguments: tuple[str, ...]) -> None:
    for name in ("pipe", "pipe.csv", "pipe.parquet"):
        os.mkfifo(folder / name)
    (folder / "of-pipes").mkdir()
    for name in ("model.json", "model.safetensors"):
        os.mkfifo(folder / "of-pipes" / name)
    done = run(folder, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert not (folder / "runs").exists()


def test_a_file_that_unpacks_to_a_multiple_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "HARMLESS_BYTES", 1_000_000)
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1," * 2_000_000))
    done = run(folder, "train", "t.csv.gz", "--target", "y")
    assert_refused(done, "unpacks to more than 200 times its size")


@pytest.mark.parametrize(
    "session", ["[]", "7", "[" * 100_000, '{"format": 2, "moves": 1e999}', "\udcff", '{"format": []}']
)
def test_a_session_of_another_shape_is_refused(folder: Path, session: str) -> None:
    (folder / "session.json").write_bytes(session.encode("utf-8", errors="surrogateescape"))
    done = run(folder, "ask", "model", "--session", "session.json")
    assert_refused(done, "session")
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize("cost", ["1" + "0" * 400, "1" + "0" * 5000, "[" * 5000 + "]" * 5000, "nan"])
def test_questions_beyond_all_measure_are_refused(folder: Path, cost: str) -> None:
    (folder / "q.toml").write_text(f"[questions.a]\ncost = {cost}\n")
    done = run(folder, *TRAIN, "--questions", "q.toml")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: q.toml: ")


def test_a_disk_that_is_full_is_said_with_the_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = run(folder, *TRAIN, "--out", "out")
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert "cannot be written: the disk is full. Free some space there, or choose a folder on another disk." in said
    assert "out/" in said


def test_numbers_of_an_edited_file_are_not_shown_as_measured(folder: Path) -> None:
    compare = ("compare", "t.csv", "--target", "y", "--methods", "tree", "--out", "results", "--device", "cpu")
    assert run(folder, *compare).returncode == 0
    path = folder / "results" / "tree" / "seed-0" / "result.json"
    path.write_text(path.read_text().replace('"n_train": 48', '"n_train": 4800'))
    done = run(folder, *compare, "--collect")
    assert "was changed after it was measured" in " ".join(done.stderr.split())
    assert "already measured" not in done.stderr
