"""Calibration error at the stop, counted and written down."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import calibration


def test_the_error_is_the_mean_gap_by_confidence() -> None:
    stopped = torch.tensor([[3, 0.95, 1, 0.0], [3, 0.93, 0, 0.0], [2, 0.55, 1, 0.0], [2, 0.57, 0, 0.0]]).double()
    assert calibration.calibration_error(stopped) == pytest.approx((0.88 + 0.12) / 4)


def test_results_of_tasks_are_read(tmp_path: Path) -> None:
    seeds = [{"evaluation": {"at_stop": {"calibration_error": error}}} for error in (0.003, 0.001)]
    (tmp_path / "mnist-gpu.json").write_text(json.dumps({"methods": {"vip": {"seeds": seeds}}}))
    assert calibration.reproduced(tmp_path) == {"mnist": [0.003, 0.001]}


def test_the_page_says_what_was_wanted_and_found() -> None:
    manner: dict[str, Any] = {"asked": 4.0, "accuracy": 0.9, "confidence": 0.9, "calibration_error": 0.01, "brier": 0.2}
    part = {"rows": 100, "manners": dict.fromkeys(calibration.MANNERS, manner)}
    measured = {
        "where": {"commit": "abc"},
        "parts": {"digits": part, "heart": part},
        "reproduced": {"mnist": [0.003, 0.001]},
    }
    text = calibration.page(measured)
    assert "digits 0.0100, mnist 0.0010 to 0.0030" in text
    assert "Not measured yet: animals, symcat-200." in text
    assert "| heart | 100 | 4.00 | 0.900 | 0.0100 | 0.0100 | 0.0100 | 0.2000 | 0.2000 |" in text
