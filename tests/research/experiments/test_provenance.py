"""Where a result comes from: commit, versions and machine."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from pursuit.research.experiments import results as module
from pursuit.research.experiments.results import COMMIT_VARIABLE, provenance
from pursuit.version import __version__

FILE = "research/experiments/results.py"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package's, in no repository."""
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "source"
    (folder / FILE).parent.mkdir(parents=True)
    monkeypatch.setattr(module, "__file__", str(folder / FILE))
    return folder


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_everything_is_a_json_value() -> None:
    found = provenance()
    assert json.loads(json.dumps(found)) == found
    assert found["pursuit"] == __version__
    assert found["torch"] == torch.__version__
    assert found["device"] == "CPU"
    assert f"{torch.get_num_threads()} CPU threads" in found["machine"]
    assert {"commit", "python", "numpy", "scikit-learn"} <= found.keys()


def test_the_commit_is_marked_where_files_differ(source: Path) -> None:
    (source / FILE).write_text("first")
    git(source, "init")
    git(source, "add", ".")
    git(source, "commit", "-m", "first")
    commit = git(source, "rev-parse", "--short", "HEAD")
    assert re.fullmatch("[0-9a-f]+", commit)
    assert provenance()["commit"] == commit
    (source / "another.py").write_text("second")  # anywhere in the package
    assert provenance()["commit"] == f"{commit} with changes"


def test_outside_a_repository_there_is_no_commit_but_the_named_one(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert provenance()["commit"] is None
    monkeypatch.setenv(COMMIT_VARIABLE, "abc1234")
    assert provenance()["commit"] == "abc1234"
    monkeypatch.setenv(COMMIT_VARIABLE, "")
    assert provenance()["commit"] is None


def test_without_git_there_is_no_commit(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source))
    assert provenance()["commit"] is None


@pytest.mark.parametrize(
    ("device", "has_gpu", "name"),
    [("cpu", True, "CPU"), ("auto", False, "CPU"), ("auto", True, "a GPU"), ("cuda", True, "a GPU")],
)
def test_the_device_is_the_one_computed_on(
    device: str, has_gpu: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gpu_name(*_: Any) -> str:
        return "a GPU"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "get_device_name", gpu_name)
    assert provenance(device)["device"] == name


def test_the_commit_of_a_repository_that_does_not_keep_the_source_is_not_given(source: Path) -> None:
    """As where the package is installed into an environment inside a user's own repository."""
    (source / FILE).write_text("installed")
    (source / "their_own.py").write_text("first")
    git(source, "init")
    git(source, "add", "their_own.py")
    git(source, "commit", "-m", "first")
    assert provenance()["commit"] is None
