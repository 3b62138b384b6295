"""`pursuit reproduce paper` as it is met on the command line."""

import re
import subprocess
from pathlib import Path

import pytest

import program
from program import assert_refused, json_of


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return program.run(folder, "reproduce", *arguments)


def test_it_lists_every_run_with_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PURSUIT_CACHE", str(tmp_path / "cache"))
    runs = json_of(run(tmp_path, "paper", "--json"))["runs"]
    assert len(runs) > 200
    assert [one["value"] for one in runs] == sorted((one["value"] for one in runs), reverse=True)
    assert {one["status"] for one in runs} == {"data absent"}
    some = run(tmp_path, "paper", "--only", "dxy-fast-*-seed-0", "--only", "muzhi-fast-ref*-seed-0")
    assert "dxy-fast-straight-through-querier-seed-0" in some.stdout
    assert re.search(r"Left: 5 of 5 runs, about \d+ minutes", some.stdout)
    lines = run(tmp_path, "paper").stdout.splitlines()
    assert {one["name"] for one in runs} <= set(lines)  # whole, each on a line of its own
    assert max(map(len, lines)) < 80
    assert not list(tmp_path.iterdir())


def test_runs_without_data_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PURSUIT_CACHE", str(tmp_path / "cache"))
    done = run(tmp_path, "paper", "--next", "1", "--device", "cpu")
    assert done.returncode == 0
    assert "dxy is left out: its data are absent" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["paper", "--only", "nothing-*"], "No run is called nothing-*"),
        (["paper", "--recipe", "gpu"], "choose among them with --only"),
        (["paper", "--sampling", "irs"], "choose among them with --only"),
        (["paper", "--device", "tpu"], "The device is one of"),
        (["papr"], "Did you mean 'paper'?"),
        (["nothing"], "symcat-400, paper."),
        (["digits", "--next", "5"], "--next and --only are for `pursuit reproduce paper`"),
        (["digits", "--only", "digits-*"], "--next and --only are for `pursuit reproduce paper`"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(tmp_path, *arguments)
    assert_refused(done, message)
    assert not list(tmp_path.iterdir())
