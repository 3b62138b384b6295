"""How tests are run: where data and temporary files lie, which tests share a process, and when garbage is looked for.

What they share is in `support/shared_fixtures.py`. This file imports nothing heavy: with several processes, the first
one only hands out tests.
"""

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SHARED_DATA, OWN_CACHE = ROOT.parent / "shared" / "data", ROOT / ".cache" / "data"
# Set before any test is collected, because some look for their data at once.
if SHARED_DATA.is_dir():
    os.environ.setdefault("PURSUIT_DATA", str(SHARED_DATA))
os.environ.setdefault("PURSUIT_CACHE", str(OWN_CACHE))
os.environ.setdefault("PURSUIT_COMMIT", "under test")  # or git would be asked at every result

# Temporary files lie in memory where there is room: databases and checkpoints wait for a disk at every write.
MEMORY, ENOUGH = Path("/dev/shm"), 8 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# A shell that starts tests in the background has them ignore Ctrl-C, which programs that they start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules and tests are never garbage: they are neither looked through while they are collected nor later.
gc.disable()


@pytest.hookimpl(tryfirst=True)  # hypothesis loads the profile that is asked for after ours
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") == "no":  # a process that runs tests itself
        config.pluginmanager.import_plugin("shared_fixtures")


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests of a file, or of a named group, run in one process and share what they load or train."""
    from xdist.scheduler import LoadGroupScheduling

    class FileScheduling(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return super()._split_scope(nodeid).split("::")[0]

    return FileScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


class Rotated(pytest.Dir):
    """A folder that every process begins to read at another file. All processes read all files, so each finds in the
    cache what another one has rewritten, and the assertions of a file are rewritten once."""

    def collect(self) -> list[Any]:
        nodes, worker = list(super().collect()), int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
        start = worker * len(nodes) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        return nodes[start:] + nodes[:start]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return None if (path / "__init__.py").exists() else Rotated.from_parent(parent, path=path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # what trainings leave behind is looked through less often
    gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Long texts are named by their beginning."""
    text = val.decode("latin-1") if isinstance(val, bytes) else val
    return ascii(text[:40])[1:-1] if isinstance(text, str) and len(text) > 200 else None
