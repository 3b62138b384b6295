"""Programs of others in Python, each installed once into a folder of its own in `.cache/pip`, apart from ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

FOLDER = Path(__file__).parents[2] / ".cache" / "pip"
SECONDS = 300


def tool(requirement: str) -> dict[str, str]:
    """The environment in which Python finds a package and what it depends on, and nothing of ours; skips the test where
    it cannot be had."""
    folder = FOLDER / requirement
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER.parent / ".gitignore").write_text("*\n")
    with FileLock(FOLDER / f"{requirement}.lock"):
        if not (folder / "done").exists():
            command = [sys.executable, "-m", "venv", "--clear", str(folder)]
            subprocess.run(command, check=True, timeout=SECONDS)
            own = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", requirement, "ruff"]
            done = subprocess.run(own, capture_output=True, text=True, timeout=SECONDS)
            if done.returncode:
                pytest.skip(f"{requirement} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
            (folder / "done").touch()
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": os.environ.get("HOME", ""), "PYTHON": str(folder / "bin" / "python")}
