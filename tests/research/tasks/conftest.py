"""What the tests of tasks share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pursuit import registry
from pursuit.research.tasks import TaskInfo


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that tests make do not have the checksums of those published."""
    monkeypatch.setenv("PURSUIT_UNCHECKED", "1")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that data files are looked for in, which is empty, as is the cache beside it."""
    monkeypatch.setenv("PURSUIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PURSUIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def register_task(monkeypatch: pytest.MonkeyPatch) -> Callable[[TaskInfo], None]:
    """Makes a task known for the length of a test."""

    def add(info: TaskInfo) -> None:
        monkeypatch.setitem(registry._known[TaskInfo.registry_kind], info.name, info)

    return add
