"""The demonstration."""

import json
from pathlib import Path

import pytest

from experiments.conftest import Watcher
from pursuit import load
from pursuit.research.experiments import reproduce as module
from pursuit.research.experiments.reproduce import run_demo
from pursuit.research.experiments.results import Result

pytestmark = pytest.mark.usefixtures("small_tasks")


@pytest.mark.slow
def test_every_task_is_trained_measured_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EMBEDDED", ("columns", "images"))
    watcher = Watcher()
    shown = list(run_demo(tmp_path, 5, watcher.progress, watcher.said.append))
    assert watcher.titles == ["columns, V-IP, seed 5", "images, V-IP, seed 5"]
    for task, one in zip(("columns", "images"), shown, strict=True):
        assert (one.task, one.folder) == (task, tmp_path / task)
        assert one.figures == (tmp_path / task / "curve.png", tmp_path / task / "chain-0.png")
        assert all(path.read_bytes()[:4] == b"\x89PNG" for path in one.figures)
        assert load(tmp_path / task).notes_["task"] == {"name": task, "seed": 5}
        values = json.loads(json.dumps(one.to_dict()))
        assert (values.pop("task"), values.pop("model"), len(values.pop("figures"))) == (task, str(one.folder), 2)
        assert Result.from_dict(values) == one.result
        assert one.result.beside.keys() == {"random order"}
    again = list(run_demo(tmp_path, 5, watcher.progress, watcher.said.append))
    assert [one.result for one in again] == [one.result for one in shown]
    assert len(watcher.titles) == 2
    assert "already measured" in watcher.said[-1]
    (other, _) = run_demo(tmp_path, 6, watcher.progress)
    assert (other.result.seed, len(watcher.titles)) == (6, 4)
