"""What every page of results says about its origin."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import sklearn
import torch

import pursuit

RESULTS = Path(__file__).parent.parent / "docs" / "results"


def where() -> dict[str, Any]:
    """Commit, versions and machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain", "src"], capture_output=True, text=True).stdout.strip()
    return {
        "commit": commit + (" with changes" if changed else ""),
        "pursuit": pursuit.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} CPU threads",
    }
