"""Devices by name, and several processes that train one model together (on a CPU, by gloo)."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from pursuit.checkpoints import load_checkpoint
from pursuit.devices import find_device, n_processes
from pursuit.histories import Batch, HistorySettings, Sampler
from pursuit.history import History
from pursuit.networks import MLP
from pursuit.pursuer import Pursuer
from pursuit.rows import Rows, RowStream
from pursuit.training import APART, train
from test_training import fresh, rows, same
from train_together import BATCH, SEED, STAGES

PROGRAM = Path(__file__).parent / "train_together.py"


def run(folder: Path, devices: int, *options: str, launcher: tuple[str, ...] = ()) -> int:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, *launcher, str(PROGRAM), str(folder), str(devices), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 9), done.stderr[-3000:]
    return done.returncode


def trained(folder: Path, number: int = 0) -> dict[str, Tensor]:
    return safetensors.torch.load_file(folder / f"weights-{number}")


def losses(folder: Path) -> list[float]:
    return json.loads((folder / "losses.json").read_text())


class Joined(Sampler):
    """What several processes draw, in one batch."""

    def __init__(self, samplers: list[Sampler]):
        self.samplers, self.generator = samplers, samplers[0].generator

    def prepare(self) -> None:
        for sampler in self.samplers:
            sampler.prepare()

    def draw(self, pursuer: Pursuer) -> Batch:
        batches = [sampler.draw(pursuer) for sampler in self.samplers]
        rows = [batch.rows for batch in batches]
        x, known, asked = (torch.cat([getattr(b.history, name) for b in batches]) for name in ("x", "known", "asked"))
        return Batch(
            Rows(x, torch.cat([r.available for r in rows]), torch.cat([r.y for r in rows])), History(x, known, asked)
        )

    def advance(self, query: Tensor) -> None:
        for sampler, part in zip(self.samplers, query.chunk(len(self.samplers)), strict=True):
            sampler.advance(part)


@dataclass(frozen=True)
class AsInProcesses:
    """Histories as `n` processes draw them, each from its part of the rows and by randomness of its own."""

    histories: HistorySettings
    streams: list[RowStream]

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        share = batch_size // len(self.streams)
        return Joined([self.histories.sampler(own, share, own.generator) for own in self.streams])  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have trained from beginning to end."""
    folder = tmp_path_factory.mktemp("together") / "whole"
    run(folder, 2)
    return folder


def test_two_processes_learn_as_one_with_the_same_batch(whole: Path) -> None:
    generators = [torch.Generator().manual_seed(SEED + APART * number) for number in (0, 1)]
    streams: list[Any] = [rows(200).shard(i, 2).stream(generator) for i, generator in enumerate(generators)]
    stages: list[Any] = [replace(stage, histories=AsInProcesses(stage.histories, streams)) for stage in STAGES]
    model, alone = fresh(network=MLP((16,))), []
    train(model, rows(200), stages, seed=SEED, on_report=lambda report: alone.append(report.loss))
    torch.testing.assert_close(torch.tensor(losses(whole)), torch.tensor(alone), rtol=1e-4, atol=1e-5)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(trained(whole)[name], tensor, rtol=1e-3, atol=1e-4)
    # And all processes end with the same model.
    assert same(trained(whole), trained(whole, 1))


def test_torchrun_is_the_same(whole: Path, tmp_path: Path) -> None:
    run(tmp_path, 1, launcher=("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"))
    assert losses(tmp_path) == losses(whole)


def test_a_checkpoint_goes_on_with_as_many_processes_or_others(whole: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "killed", 2, "--reports", "60") == 9
    saved = load_checkpoint(tmp_path / "killed" / "run" / "checkpoints")
    assert saved
    assert saved[1]["n_processes"] == 2
    for devices in (2, 1):
        folder = tmp_path / f"on {devices}"
        shutil.copytree(tmp_path / "killed", folder)
        run(folder, devices, "--resume")
        lines = (folder / "run" / "log.csv").read_text().splitlines()
        assert len(lines) == len(losses(whole)) + 1  # with its header; written by one process alone
        late, wanted = losses(folder), losses(whole)[-len(losses(folder)) :]
        assert len(late) < len(losses(whole))
        if devices == 2:
            assert late == wanted
            assert same(trained(folder), trained(whole))
        else:  # other rows and histories, but no new beginning
            assert late[0] < (wanted[0] + losses(whole)[0]) / 2
            assert late[-1] == pytest.approx(wanted[-1], abs=0.2)


def test_batch_norm_and_held_out_rows_are_the_same_in_all_processes(tmp_path: Path) -> None:
    run(tmp_path, 2, "--network", "conv", "--held-out")
    assert any("running_mean" in name for name in trained(tmp_path))
    assert same(trained(tmp_path), trained(tmp_path, 1))
    header, *lines = (tmp_path / "run" / "log.csv").read_text().splitlines()
    assert all(float(line.split(",")[header.split(",").index("held_out_loss")]) > 0 for line in lines)


def test_a_batch_that_cannot_be_dealt_evenly_is_refused() -> None:
    with pytest.raises(ValueError, match=f"A batch of {BATCH} rows cannot be dealt evenly to 3 processes"):
        train(fresh(), rows(), STAGES, devices=3)
    with pytest.raises(ValueError, match="at least one device, not 0"):
        train(fresh(), rows(), STAGES, devices=0)


def test_torchrun_knows_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert n_processes(3) == 3
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("LOCAL_WORLD_SIZE", "2"), ("WORLD_SIZE", "4")):
        monkeypatch.setenv(name, value)
    assert n_processes(1) == 4


def test_devices_are_found_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert find_device("auto").type == ("cuda" if has_gpu else "cpu")
    assert find_device("cuda").type == "cuda"
    assert find_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name, message in (("cuda", "NVIDIA"), ("mps", "Apple"), ("tpu", "one of")):
        with pytest.raises(ValueError, match=message):
            find_device(name)
