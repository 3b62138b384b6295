"""The README shows what the pages of results say."""

import json

import pytest

from report import README, RESULTS
from summary import summary


def test_the_readme_has_the_figures_of_the_results() -> None:
    paths = [RESULTS / "speed.json", RESULTS / "gpu.json"]
    if not all(path.exists() for path in paths):
        pytest.skip("speed was not measured yet")
    speed, gpu = (json.loads(path.read_text()) for path in paths)
    assert summary(speed, gpu).rstrip() in README.read_text(encoding="utf-8")
