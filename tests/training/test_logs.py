"""Training logs."""

import errno
import importlib.util
from pathlib import Path

import pytest

from pursuit.files import CannotWrite
from pursuit.training.run import check_log, open_log


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


def test_a_log_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_log("csv")
    check_log("tensorboard")
    with pytest.raises(ValueError, match="The log is csv or tensorboard, not 'paper'"):
        check_log("paper")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"TensorBoard is not installed: run pip install 'pursuit\[tensorboard\]'"):
        check_log("tensorboard")
    check_log("csv")


@pytest.mark.parametrize(
    "torn", [b"1,0.5,", b"1,0.5,\0\0\0\0\n", b"1,0.", b"\0" * 30 + b"2,0.5,\n", b"1,0.5,3,4\n", b"\xff\xfe\n"]
)
def test_what_a_crash_tore_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    (tmp_path / "log.csv").write_bytes(b"step,loss,held_out_loss\n0,0.5,\n" + torn)
    log = open_log(tmp_path, "csv", n_kept=3)
    log.write({"step": 3, "loss": 0.25, "held_out_loss": None})
    log.close()
    assert (tmp_path / "log.csv").read_bytes() == b"step,loss,held_out_loss\n0,0.5,\n3,0.25,\n"


def test_two_writers_leave_no_holes(tmp_path: Path) -> None:
    first = open_log(tmp_path, "csv", n_kept=0)
    first.write({"step": 1, "loss": 0.5})
    second = open_log(tmp_path, "csv", n_kept=0)  # what the first wrote is gone, but its file is still open
    second.write({"step": 1, "loss": 0.25})
    first.write({"step": 2, "loss": 0.5})
    first.close()
    second.close()
    assert b"\0" not in (tmp_path / "log.csv").read_bytes()


class _Full:
    """A file on a full disk."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", lambda *_, **__: _Full())
    log = open_log(tmp_path, "csv", n_kept=0)
    with pytest.raises(CannotWrite, match=r"log\.csv cannot be written: the disk is full\. Free some space"):
        log.write({"step": 1})
