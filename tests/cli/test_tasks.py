"""`pursuit tasks`."""

from pathlib import Path

import pytest

from program import json_of, run
from pursuit.research.tasks import TASKS


def test_every_task_has_a_line(tmp_path: Path) -> None:
    listed = json_of(run(tmp_path, "tasks", "--json"))["tasks"]
    assert [task["task"] for task in listed] == list(TASKS)
    by_name = {task["task"]: task for task in listed}
    assert by_name["digits"]["n_queries"] == 49
    assert by_name["animals"]["n_classes"] >= 100
    assert by_name["digits"]["present"]
    lines = run(tmp_path, "tasks").stdout.splitlines()  # 80 columns wide
    for task in listed:
        (line,) = [line for line in lines if line.split()[:1] == [task["task"]]]
        assert f"{task['n_train']:,} + {task['n_test']:,} {', '.join(task['recipes'])}" in " ".join(line.split())


def test_each_origin_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PURSUIT_DATA", "PURSUIT_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    said = run(tmp_path, "tasks").stdout
    assert "symcat-200, symcat-300, symcat-400: Put SymCAT.json" in said
    assert said.count("Casande-RL") == 1
    assert "muzhi: Put acl2018-mds.p" in said
