"""The progress bar."""

import io

import pytest
from rich.console import Console

from pursuit.cli.progress import training_bar
from pursuit.training import Report


def test_bar_shows_loss_and_time_left() -> None:
    screen = io.StringIO()
    with training_bar("digits", Console(file=screen, force_terminal=True, width=120)) as on_report:
        on_report(Report(1, 50, 100, 0.123, 1e-3, 0.5, 0.456, 1000.0, 75.0))
    text = screen.getvalue()
    assert "digits, stage 1" in text
    assert "loss 0.123, held out 0.456, 1:15 left" in text
    assert "50%" in text


def test_there_is_no_bar_before_there_is_anything_to_report() -> None:
    screen = io.StringIO()
    with (
        pytest.raises(ValueError, match="wrong from the start"),
        training_bar("digits", Console(file=screen, force_terminal=True, width=120)),
    ):
        raise ValueError("wrong from the start")
    assert screen.getvalue() == ""
