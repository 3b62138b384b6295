"""Training logs."""

from pathlib import Path

from pursuit.logs import open_log


def test_csv_goes_on_after_what_is_kept(tmp_path: Path) -> None:
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


def test_no_folder_no_log() -> None:
    log = open_log(None, "csv", n_kept=0)
    log.write({"step": 1})
    log.close()
