"""Benchmarks are programs, not a package: they are found by their folder."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent / "benchmarks"))
