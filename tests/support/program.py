"""What tests of the program share: running it, reading its JSON, waiting for what it does."""

import contextlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pursuit.cli import main


def run(folder: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """The program's `main` in this process, as starting one takes seconds: what it printed, and how it ended."""
    printed, complained = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(complained),
    ):
        patch.setattr(sys, "argv", ["pursuit", *arguments])
        patch.setattr(sys, "stdin", io.StringIO(typed))
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(list(arguments), code, printed.getvalue(), complained.getvalue())


def json_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Standard output must be exactly one JSON object."""
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def assert_refused(done: subprocess.CompletedProcess[str], message: str) -> None:
    """A mistake gets one sentence on standard error, and nothing is done."""
    assert done.returncode == 1
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Poll until it holds; the time is only a bound for a test that would hang."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to pass")
