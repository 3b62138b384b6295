"""Training logs."""

import importlib.util
from pathlib import Path

import pytest

from pursuit.training.logs import check_log, open_log


def test_a_csv_log_goes_on_after_what_is_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path, "csv", n_kept=0)
    for i in range(4):
        log.write({"step": i, "loss": 0.5, "held_out_loss": None})
    log.close()
    log = open_log(tmp_path, "csv", n_kept=2)
    log.write({"step": 2, "loss": 0.25, "held_out_loss": None})
    log.close()
    assert (tmp_path / "log.csv").read_text().splitlines() == ["step,loss,held_out_loss", "0,0.5,", "1,0.5,", "2,0.25,"]


def test_a_new_run_starts_a_new_log(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("old\n")
    log = open_log(tmp_path, "csv", n_kept=0)
    log.write({"step": 1})
    log.close()
    assert (tmp_path / "log.csv").read_text() == "step\n1\n"


def test_tensorboard_writes_events(tmp_path: Path) -> None:
    log = open_log(tmp_path, "tensorboard", n_kept=0)
    log.write({"step": 1, "loss": 0.5, "held_out_loss": None})
    log.close()
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_without_a_folder_there_is_no_log() -> None:
    log = open_log(None, "csv", n_kept=0)
    log.write({"step": 1})
    log.close()


def test_a_log_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_log("csv")
    check_log("tensorboard")
    with pytest.raises(ValueError, match="The log is csv or tensorboard, not 'paper'"):
        check_log("paper")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"TensorBoard is not installed: run pip install 'pursuit\[tensorboard\]'"):
        check_log("tensorboard")
    check_log("csv")
