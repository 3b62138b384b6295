"""The runner goes on where it stopped, skips what is done, and writes whole files."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy
from benchmarks.study import Study

from benchmarks import runner

pytestmark = pytest.mark.programs
FILES = ("", "toy/{name}-{seed}.json")


def run(study: Study, monkeypatch: pytest.MonkeyPatch, out: Path, *words: str) -> None:
    monkeypatch.setattr(runner, "find_study", lambda name: study)
    runner.main(["toy", "--out", str(out), *words])


def begun(folder: Path) -> dict[str, int]:
    return {path.stem: len(path.read_text().splitlines()) for path in sorted(folder.glob("*.log"))}


@pytest.mark.parametrize("file", FILES)
def test_what_is_done_with_the_same_settings_is_skipped(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy.study(tmp_path, ("a", 0), ("a", 1), ("b", 0), file=file)
    run(study, monkeypatch, tmp_path / "out", "--only", "a", "--jobs", "2")
    assert begun(tmp_path) == {"a-0-3": 1, "a-1-3": 1}
    run(study, monkeypatch, tmp_path / "out")
    assert begun(tmp_path) == {"a-0-3": 1, "a-1-3": 1, "b-0-3": 1}
    run(study, monkeypatch, tmp_path / "out", "--only", "b", "--again")
    assert begun(tmp_path)["b-0-3"] == 2
    records = study.read(tmp_path / "out")
    assert [(one["name"], one["seed"], one["size_seen"]) for one in records] == [("a", 0, 3), ("a", 1, 3), ("b", 0, 3)]
    assert records[1]["value"] == 0.33333  # rounded to five digits
    assert {"commit", "torch", "processor"} <= records[0]["where"].keys()
    assert "| a | 0.167 ± 0.236 |" in (tmp_path / "out" / "toy.md").read_text()


def test_other_settings_are_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy.study(tmp_path, ("a", 0))
    run(study, monkeypatch, tmp_path / "out")
    run(study, monkeypatch, tmp_path / "out", "--set", "size=7")
    run(study, monkeypatch, tmp_path / "out", "--seeds", "0,5")
    assert begun(tmp_path) == {"a-0-3": 1, "a-0-7": 1, "a-5-3": 1}
    run(study, monkeypatch, tmp_path / "out", "--run", f"folder={tmp_path}", "name=c", "seed=2")
    assert {(one["name"], one["seed"], one.get("size", 3)) for one in study.read(tmp_path / "out")} == {
        ("a", 0, 3),
        ("a", 0, 7),
        ("a", 5, 3),
        ("c", 2, 3),
    }
    with pytest.raises(SystemExit):
        run(study, monkeypatch, tmp_path / "out", "--set", "colour=red")


def test_what_fails_or_is_killed_is_not_written_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy.study(tmp_path, ("wrong", 0), ("killed", 0), ("a", 0))
    with pytest.raises(SystemExit, match="2 runs failed"):
        run(study, monkeypatch, tmp_path / "out")
    assert "a run that fails" in capsys.readouterr().out
    assert [one["name"] for one in study.read(tmp_path / "out")] == ["a"]


def test_what_takes_too_long_is_said_and_not_tried_with_other_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy.study(tmp_path, ("endless", 0), ("endless", 1), limit_seconds=1.0)
    run(study, monkeypatch, tmp_path / "out")
    assert begun(tmp_path) == {"endless-0-3": 1}
    assert ["more than 1.0 s" in one["not_run"] for one in study.read(tmp_path / "out")] == [True, True]
    run(study, monkeypatch, tmp_path / "out", "--seeds", "0,1,2")
    assert begun(tmp_path) == {"endless-0-3": 1}
    run(study, monkeypatch, tmp_path / "out", "--again")
    assert begun(tmp_path) == {"endless-0-3": 2}


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
import toy
from benchmarks import runner
folder = Path({folder!r})
runner.find_study = lambda name: toy.study(folder, *[(name, seed) for seed in {seeds} for name in ("a", "slow")])
if __name__ == "__main__":
    runner.main(["toy", "--out", str(folder / "out"), "--jobs", "2"])
"""


def start(folder: Path, seeds: list[int]) -> subprocess.Popen[bytes]:
    here = Path(__file__).parent
    script = folder / f"run{seeds[0]}.py"
    script.write_text(PROGRAM.format(path=[str(here), str(here.parents[1])], folder=str(folder), seeds=seeds))
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL)


def test_a_runner_that_is_killed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, first = tmp_path / "out" / "toy.json", start(tmp_path, [0, 1, 2])
    while not path.exists() and first.poll() is None:
        time.sleep(0.02)
    first.kill()
    first.wait()
    kept = json.loads(path.read_text())["runs"]  # whole, whenever it is killed
    assert start(tmp_path, [0, 1, 2]).wait() == 0
    after = json.loads(path.read_text())["runs"]
    assert 0 < len(kept) < len(after) == 6
    assert all(one in after for one in kept)
    n_begun = begun(tmp_path)
    assert all(n_begun[f"{one['name']}-{one['seed']}-3"] == 1 for one in kept)


def test_two_runners_at_once_lose_nothing(tmp_path: Path) -> None:
    runners = [start(tmp_path, [0, 1]), start(tmp_path, [2, 3])]
    assert [one.wait() for one in runners] == [0, 0]
    found = json.loads((tmp_path / "out" / "toy.json").read_text())["runs"]
    assert sorted((one["name"], one["seed"]) for one in found) == [(n, s) for n in ("a", "slow") for s in range(4)]
