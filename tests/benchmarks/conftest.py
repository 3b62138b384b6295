"""Benchmarks are a package beside the tests, of which nothing is installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
