"""Provenance of a result: commit, versions and machine."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy
import sklearn
import torch

from pursuit.version import __version__

COMMIT_VARIABLE = "PURSUIT_COMMIT"
"""Names the commit if the source lies outside its repository."""


def provenance(device: str = "cpu") -> dict[str, Any]:
    """The provenance as JSON values."""
    return {
        "commit": os.environ.get(COMMIT_VARIABLE) or _commit(),
        "pursuit": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} CPU threads",
        "device": _device_name(device),
    }


def _commit() -> str | None:
    """The commit of the source, marked if files differ from it; None if the source is not kept in a repository.

    An installed package may lie inside the repository of another project, whose commit says nothing about it.
    """
    source = Path(__file__).parents[2]  # of the whole package

    def git(*words: str) -> str:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git(
            "ls-files", "--error-unmatch", str(Path(__file__).relative_to(source))
        )  # fails if the file is not kept there
        return git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _device_name(device: str) -> str:
    wants_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    return torch.cuda.get_device_name() if wants_gpu else "CPU"
