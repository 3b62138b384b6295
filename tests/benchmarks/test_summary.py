"""The overview of results shows the speed that was measured."""

import json

import pytest

from report import OVERVIEW, RESULTS
from summary import _cold, summary


def test_the_overview_has_the_figures_of_the_results() -> None:
    paths = [RESULTS / "speed.json", RESULTS / "gpu.json"]
    if not all(path.exists() for path in paths):
        pytest.skip("speed was not measured yet")
    speed, gpu = (json.loads(path.read_text()) for path in paths)
    assert summary(speed, gpu).rstrip() in OVERVIEW.read_text(encoding="utf-8")


def test_a_cold_start_says_how_its_confidence_was_chosen() -> None:
    older = {"trade_off": [["confidence=0.9", 6.0, 0.97], ["confidence=0.99", 9.0, 0.99]], "wanted": [6.5, 0.98]}
    text = _cold({**older, "seconds": 64.4})
    assert "0.970 after 6.00 queries (chains of at most 40, the confidence picked on the test images; not yet" in text
    measured = {"name": "no cap", "mean_counted": 6.35, "accuracy": 0.978}
    text = _cold({"protocols": [measured], "seconds": 70.0})
    assert "0.978 after 6.35 queries (no cap on chains, the confidence chosen on held-out training images)" in text
    assert "picked" not in text
