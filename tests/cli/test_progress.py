"""How far a command is."""

import io
import time

import pytest
from rich.console import Console

from pursuit.cli.console import rows_bar, training_bar
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


def reported(*steps: int) -> list[Report]:
    return [Report(1, step, 1000, 0.412, 1e-3, 0.5, None, 1000.0, 12.0) for step in steps]


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    screen = io.StringIO()
    with training_bar("wine", Console(file=screen, width=40)) as on_report:
        for seconds, report in zip((4, 9, 11, 19, 21, 22), reported(100, 200, 300, 400, 500, 1000), strict=True):
            clock[0] = seconds
            on_report(report)
    assert screen.getvalue().splitlines() == [
        "wine, stage 1: step 300 of 1,000, loss 0.412, 0:12 left",
        "wine, stage 1: step 500 of 1,000, loss 0.412, 0:12 left",
        "wine, stage 1: step 1,000 of 1,000, loss 0.412, done in 0:22",
    ]


def test_what_was_interrupted_is_not_done() -> None:
    screen = io.StringIO()

    def stopped() -> None:
        with training_bar("wine", Console(file=screen)) as on_report:
            on_report(reported(100)[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert screen.getvalue() == ""


def test_rows_are_counted() -> None:
    for is_terminal in (False, True):
        screen = io.StringIO()
        with rows_bar("Predicting", Console(file=screen, force_terminal=is_terminal, width=80)) as on_rows:
            on_rows(1)
            on_rows(20_000)
        assert "Predicting: 20,000 rows" in screen.getvalue()
        assert "1 rows" not in screen.getvalue()
