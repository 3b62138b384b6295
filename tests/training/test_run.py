"""Training from start to end: plans that are refused, files, and going on after a crash as if nothing had happened."""

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import small_training
from pursuit.training import EarlyStopping, Report, Stage, TrainingRun, train
from pursuit.training import run as run_module
from pursuit.training.checkpoints import load_checkpoint
from pursuit.training.run import _check_all_see, check_plan
from small_training import STAGES, KillAt, Killed, fresh, fresh_by_information, rows, same, weights


def test_a_model_ends_ready_for_use() -> None:
    model = fresh()
    train(model, rows(), [Stage(0.1)])
    assert not model.training
    assert all(parameter.device.type == "cpu" for parameter in model.parameters())


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(fresh(), rows(), [Stage(0.1)])
    assert list(tmp_path.iterdir()) == []
    assert TrainingRun().path is None
    assert TrainingRun("here").path == Path("here")


N_REPORTS = 19
"""Of each stage on 100 rows."""


@cache
def trained_at_once(held_out: bool) -> tuple[dict[str, Tensor], list[str]]:
    """The weights and the log of a training that nothing interrupts."""
    model = fresh()
    with TemporaryDirectory() as folder:
        train(model, rows(100), STAGES, seed=3, early_stopping=held_out_rows(held_out), run=TrainingRun(folder))
        return weights(model), timeless_log(Path(folder))


def held_out_rows(held_out: bool) -> EarlyStopping | None:
    return EarlyStopping(rows(50), patience=1000) if held_out else None


def timeless_log(folder: Path) -> list[str]:
    """Without the last two columns, which are speed and time."""
    return [line.rsplit(",", 2)[0] for line in (folder / "log.csv").read_text().splitlines()]


@pytest.mark.parametrize(
    ("killed_at", "held_out"),
    [
        pytest.param(1, True, marks=pytest.mark.slow),
        pytest.param(7, False, marks=pytest.mark.slow),
        (N_REPORTS + 1, True),
        (N_REPORTS + 11, False),
        pytest.param(2 * N_REPORTS + 11, True, marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_ends_with_the_same_bits(
    tmp_path: Path, killed_at: int, held_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the first checkpoint, after the last one of a stage, and amid random, carried and rolled-out
    histories."""
    monkeypatch.setattr(run_module, "CHECKPOINT_PAUSE", 0)  # a checkpoint with every report
    killed = TrainingRun(tmp_path, on_report=KillAt(killed_at), checkpoint_seconds=0)
    with pytest.raises(Killed):
        train(fresh(), rows(100), STAGES, seed=3, early_stopping=held_out_rows(held_out), run=killed)
    model, reports = fresh(), []
    torch.manual_seed(99)  # whatever the new process has drawn before must not matter
    resumed = TrainingRun(tmp_path, resume=True, on_report=reports.append)
    train(model, rows(100), STAGES, seed=3, early_stopping=held_out_rows(held_out), run=resumed)
    assert len(reports) == 3 * N_REPORTS - (killed_at - 1)
    wanted, log = trained_at_once(held_out)
    assert same(weights(model), wanted)
    assert timeless_log(tmp_path) == log


@pytest.mark.slow
def test_a_run_by_information_ends_with_the_same_bits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed amid carried histories, before rolled-out ones."""
    monkeypatch.setattr(run_module, "CHECKPOINT_PAUSE", 0)
    at_once, begun, resumed = (fresh_by_information(rows(100)) for _ in range(3))
    train(at_once, rows(100), STAGES, seed=3, early_stopping=held_out_rows(True))
    killed = TrainingRun(tmp_path, on_report=KillAt(N_REPORTS + 11), checkpoint_seconds=0)
    with pytest.raises(Killed):
        train(begun, rows(100), STAGES, seed=3, early_stopping=held_out_rows(True), run=killed)
    torch.manual_seed(99)
    run = TrainingRun(tmp_path, resume=True)
    train(resumed, rows(100), STAGES, seed=3, early_stopping=held_out_rows(True), run=run)
    assert same(weights(resumed), weights(at_once))
    assert not same(weights(resumed), weights(fresh_by_information(rows(100))))


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    finished, resumed, reports = fresh(), fresh(), []
    train(finished, rows(), STAGES[:2], seed=3, run=TrainingRun(tmp_path))
    train(resumed, rows(), STAGES[:2], seed=3, run=TrainingRun(tmp_path, resume=True, on_report=reports.append))
    assert reports == []
    assert same(weights(finished), weights(resumed))


def test_without_resume_old_checkpoints_are_not_used(tmp_path: Path) -> None:
    train(fresh(), rows(), STAGES[:1], seed=1, run=TrainingRun(tmp_path, checkpoint_seconds=0))
    alone, again = fresh(), fresh()
    train(alone, rows(), STAGES[:1], seed=2)
    train(again, rows(), STAGES[:1], seed=2, run=TrainingRun(tmp_path, checkpoint_seconds=0))
    assert same(weights(alone), weights(again))


def test_checkpoints_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause is at least CHECKPOINT_PAUSE times what writing takes; the end of a stage is always saved."""
    now = 0.0
    saved: list[int] = []
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: now))

    def save(folder: Path, step: int, *_: object) -> None:
        nonlocal now
        now += 1.0
        saved.append(step)

    def on_report(_: Report) -> None:
        nonlocal now
        now += 0.5

    monkeypatch.setattr(run_module, "save_checkpoint", save)
    stages = [Stage(100 * 20 / 200, batch_size=20), Stage(0.1, batch_size=20)]
    train(fresh(), rows(), stages, run=TrainingRun(tmp_path, on_report=on_report, checkpoint_seconds=3.0))
    # The first after 3 s, the next ones 20 s after a write of 1 s: every 40 reports of 0.5 s.
    assert saved == [6, 46, 86, 100, 101]


@pytest.mark.parametrize("log", ["csv", "tensorboard"])
def test_reports_are_logged(tmp_path: Path, log: str) -> None:
    train(fresh(), rows(), [Stage(1, batch_size=20)], run=TrainingRun(tmp_path, log=log))  # type: ignore[arg-type]
    if log == "csv":
        header, *lines = (tmp_path / "log.csv").read_text().splitlines()
        assert header.startswith("stage,step,n_steps,loss,lr,tau,held_out_loss")
        assert len(lines) == 10
    else:
        assert list((tmp_path / "tensorboard").glob("events*"))


def test_a_plan_that_cannot_be_trained_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    run = TrainingRun(tmp_path / "run")
    with pytest.raises(ValueError, match="no stages to train: at least one is needed"):
        train(fresh(), rows(), [], run=run)
    with pytest.raises(ValueError, match="The device is one of cpu, cuda, mps, auto, not 'tpu'"):
        train(fresh(), rows(), STAGES, device="tpu", run=run)
    with pytest.raises(ValueError, match="The log is csv or tensorboard, not 'paper'"):
        train(fresh(), rows(), STAGES, run=TrainingRun(tmp_path / "run", log="paper"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="A batch of 16 rows cannot be divided evenly among 3 processes"):
        train(fresh(), rows(), STAGES, devices=3, run=run)
    with pytest.raises(ValueError, match="at least one device, not 0"):
        train(fresh(), rows(), STAGES, devices=0, run=run)
    assert not (tmp_path / "run").exists()
    check_plan(STAGES, "cpu", "csv", n_processes=4)


def test_a_run_may_be_killed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the newest checkpoint is torn: the one before it is taken."""
    monkeypatch.setattr(run_module, "CHECKPOINT_PAUSE", 0)
    for n_reports in (8, 20, 9):
        killed = TrainingRun(tmp_path, resume=True, on_report=KillAt(n_reports), checkpoint_seconds=0)
        with pytest.raises(Killed):
            train(fresh(), rows(100), STAGES, seed=3, run=killed)
    newest = max((tmp_path / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    saved, model, reports = load_checkpoint(tmp_path / "checkpoints"), fresh(), []
    assert saved
    train(model, rows(100), STAGES, seed=3, run=TrainingRun(tmp_path, resume=True, on_report=reports.append))
    assert len(reports) == 3 * N_REPORTS - saved[1]["n_reports"] == 3 * N_REPORTS - (7 + 19 + 8 - 1)
    wanted, log = trained_at_once(held_out=False)
    assert same(weights(model), wanted)
    assert timeless_log(tmp_path) == log


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
from small_training import STAGES, fresh, rows
from pursuit.training import TrainingRun, train
import torch
torch.set_num_threads(1)
report = lambda report: (print("report", flush=True), time.sleep(0.01))
train(fresh(), rows(), STAGES, seed=3, run=TrainingRun(sys.argv[1], on_report=report, checkpoint_seconds=0))
"""


@pytest.mark.programs
def test_what_a_killed_process_leaves_is_taken_up_by_another(tmp_path: Path) -> None:
    """A real process, killed without warning amid its work."""
    command = [sys.executable, "-c", SCRIPT.format(tests=str(Path(small_training.__file__).parent)), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(50):
            assert process.stdout.readline() == "report\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    saved, reports = load_checkpoint(tmp_path / "checkpoints"), []
    assert saved
    whole, resumed = fresh(), fresh()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train(whole, rows(), STAGES, seed=3)
    train(resumed, rows(), STAGES, seed=3, run=TrainingRun(tmp_path, resume=True, on_report=reports.append))
    torch.set_num_threads(n_threads)
    assert len(reports) == sum(stage.n_steps(200) for stage in STAGES) - saved[1]["n_reports"]
    assert same(weights(whole), weights(resumed))


def test_processes_never_go_on_from_different_checkpoints() -> None:
    class Together:
        """Processes of which the first has seen the checkpoint of report 30."""

        def broadcast(self, value: int) -> int:
            return 30

    _check_all_see(Together(), 30)
    with pytest.raises(RuntimeError, match="finds the checkpoint of report 20, and the first one that of report 30"):
        _check_all_see(Together(), 20)
