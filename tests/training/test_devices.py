"""Devices by name, and several processes that train one model together: on a CPU, and on one NVIDIA GPU."""

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import train_together
from pursuit.inference.pursuer import Pursuer
from pursuit.networks import MLP
from pursuit.training import Batch, TrainingRun, train
from pursuit.training.checkpoints import load_checkpoint
from pursuit.training.devices import (
    OneProcess,
    fast_convolutions,
    find_device,
    launched,
    own_randomness,
)
from pursuit.training.loop import SEED_STRIDE
from pursuit.training.rows import RowStream
from pursuit.training.samplers import HistorySettings, Sampler
from small_training import fresh, fresh_by_information, rows, same
from train_together import SEED, STAGES, look_at_ends, train_columns

pytestmark = pytest.mark.programs

PROGRAM = Path(train_together.__file__)
together = pytest.mark.xdist_group("train together")
"""Tests that share what two processes have trained."""


COPIED_AT = 60
"""The report at which a copy of the run is put aside, as if its processes had ended there."""


def start(folder: Path, devices: int, *options: str, launcher: tuple[str, ...] = ()) -> None:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, *launcher, str(PROGRAM), str(folder), str(devices), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def trained(folder: Path, number: int = 0) -> dict[str, Tensor]:
    return safetensors.torch.load_file(folder / f"weights-{number}")


def losses(folder: Path) -> list[float]:
    return json.loads((folder / "losses.json").read_text())


class Joined(Sampler):
    """What several processes draw, in one batch."""

    is_static = False  # a CUDA graph would record the randomness of one of them

    def __init__(self, samplers: list[Sampler]):
        self.samplers, self.generator = samplers, samplers[0].generator

    def prepare(self) -> None:
        for sampler in self.samplers:
            sampler.prepare()

    def draw(self, pursuer: Pursuer) -> Batch:
        batches = [sampler.draw(pursuer) for sampler in self.samplers]
        names = ("x", "known", "asked", "available", "y")
        return Batch(*(torch.cat([getattr(batch, name) for batch in batches]) for name in names))

    def advance(self, query: Tensor | None) -> None:
        assert query is not None
        for sampler, part in zip(self.samplers, query.chunk(len(self.samplers)), strict=True):
            sampler.advance(part)


@dataclass(frozen=True)
class AsInProcesses:
    """Histories as `n` processes draw them, each from its part of the rows and by randomness of its own."""

    histories: HistorySettings
    streams: list[RowStream]
    max_queries = None

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        share = batch_size // len(self.streams)
        return Joined([self.histories.sampler(own, share, own.generator) for own in self.streams])  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have trained from beginning to end."""
    folder = tmp_path_factory.mktemp("together") / "whole"
    start(folder, 2, "--copy-at", str(COPIED_AT))
    return folder


def assert_learnt_as_one(folder: Path, device: str = "cpu") -> None:
    """Two processes have had the losses, and ended with the weights, of one process that saw the same batches; and both
    have the same model."""
    generators = [torch.Generator(device).manual_seed(SEED + SEED_STRIDE * number) for number in (0, 1)]
    shards = [rows(200).shard(i, 2).to(torch.device(device)) for i in (0, 1)]
    streams: list[Any] = [shard.stream(generator) for shard, generator in zip(shards, generators, strict=True)]
    stages: list[Any] = [replace(stage, histories=AsInProcesses(stage.histories, streams)) for stage in STAGES]
    model, alone = fresh(network=MLP((16,))), []
    run = TrainingRun(on_report=lambda report: alone.append(report.loss))
    train(model, rows(200), stages, seed=SEED, device=device, precision="32-true", run=run)
    torch.testing.assert_close(torch.tensor(losses(folder)), torch.tensor(alone), rtol=1e-4, atol=1e-5)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(trained(folder)[name], tensor, rtol=1e-3, atol=1e-4)
    assert same(trained(folder), trained(folder, 1))


@together
def test_two_processes_learn_as_one_with_the_same_batch(whole: Path) -> None:
    assert_learnt_as_one(whole)


def start_two_machines(folder: Path, *options: str) -> None:
    """Train as two machines with a process each, which both are this one: if it has a GPU, they share it. NCCL refuses
    that of one machine, and goes by the names of the machines."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    meeting = ["--master-addr", "127.0.0.1", "--master-port", port]
    running = []
    for number in ("0", "1"):
        names = {"NCCL_HOSTID": f"machine-{number}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
        command = [*torchrun, *meeting, "--node-rank", number, str(PROGRAM), str(folder), "1", *options]
        with (folder / f"said-{number}").open("w") as said:
            running.append(subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | names))
    try:
        for process in running:
            process.wait(timeout=300)
    finally:
        for process in running:
            process.kill()
    told = "\n".join((folder / f"said-{number}").read_text()[-3000:] for number in (0, 1))
    assert [process.returncode for process in running] == [0, 0], told


def test_two_machines_with_a_process_each_learn_as_one(tmp_path: Path) -> None:
    start_two_machines(tmp_path)
    assert_learnt_as_one(tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_two_processes_on_one_gpu_learn_as_one(tmp_path: Path, backend: str) -> None:
    """NCCL is what several GPUs talk by; gloo shows whether a failure is its own."""
    start_two_machines(tmp_path, "--device", "cuda", "--backend", backend)
    assert_learnt_as_one(tmp_path, "cuda")


def copy_of_crashed(whole: Path, folder: Path) -> int:
    """Copy the run as a crash would have left it into `folder`; how many reports its newest checkpoint has."""
    shutil.copytree(whole / "crashed", folder)
    saved = load_checkpoint(folder / "run" / "checkpoints")
    assert saved
    assert saved[1]["n_processes"] == 2
    assert 0 < saved[1]["n_reports"] < COPIED_AT
    return saved[1]["n_reports"]


@together
def test_processes_started_by_torchrun_train_the_same_and_go_on_the_same(whole: Path, tmp_path: Path) -> None:
    n_done = copy_of_crashed(whole, tmp_path / "resumed")
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    also = ("--resume-in", str(tmp_path / "resumed"), "--images", "--by-information", "--ends")
    start(tmp_path, 1, *also, launcher=launcher)
    assert losses(tmp_path) == losses(whole)
    assert same(trained(tmp_path), trained(whole))
    # A checkpoint goes on with the same bits.
    assert losses(tmp_path / "resumed") == losses(whole)[n_done:]
    assert same(trained(tmp_path / "resumed"), trained(whole))
    assert_log_is_whole(tmp_path / "resumed", whole)
    # An answer model is the same in all processes too, and has learnt.
    for name in ("missing", "complete"):
        models = [safetensors.torch.load_file(tmp_path / f"{name}-weights-{number}") for number in (0, 1)]
        assert same(*models)
        assert not torch.equal(models[0]["answer_model.table"], fresh_by_information(rows()).answer_model.table)
    # BatchNorm statistics and losses on held-out rows are the same in all processes.
    images = [safetensors.torch.load_file(tmp_path / f"image-weights-{number}") for number in (0, 1)]
    assert any("running_mean" in name for name in images[0])
    assert same(*images)
    header, *lines = (tmp_path / "images" / "log.csv").read_text().splitlines()
    assert all(float(line.split(",")[header.split(",").index("held_out_loss")]) > 0 for line in lines)
    # The last weights are kept as one process keeps them: if all rows together are not clearly worse, though those of
    # one process are.
    ends = [json.loads((tmp_path / f"ends-{number}.json").read_text()) for number in (0, 1)]
    alone = look_at_ends(1)
    assert [end["kept"] for end in alone] == [2, 2, 1]
    assert all(end["loss"] > end["loss_before"] for end in alone[:2])
    assert ends[0] == ends[1]
    for end, wanted in zip(ends[0], alone, strict=True):
        assert end == pytest.approx(wanted, abs=1e-5)


@together
def test_a_checkpoint_of_two_processes_goes_on_with_one(whole: Path, tmp_path: Path) -> None:
    """With other rows and histories, but without a new beginning."""
    folder = tmp_path / "resumed"
    n_done = copy_of_crashed(whole, folder)
    train_columns(folder, devices=1, resume=True)
    late, wanted = losses(folder), losses(whole)[n_done:]
    assert len(late) == len(wanted)
    assert late[0] < (wanted[0] + losses(whole)[0]) / 2
    assert late[-1] == pytest.approx(wanted[-1], abs=0.2)
    assert_log_is_whole(folder, whole)


def assert_log_is_whole(folder: Path, whole: Path) -> None:
    """One line a report and the header, written by one process alone."""
    assert len((folder / "run" / "log.csv").read_text().splitlines()) == len(losses(whole)) + 1


# Devices and processes by themselves


def test_devices_are_found_by_name_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_one_process_on_a_cpu_computes_with_full_precision() -> None:
    fabric = launched("cpu", 1, None)
    assert (fabric.world_size, fabric.global_rank, fabric.device.type) == (1, 0, "cpu")
    assert isinstance(fabric, OneProcess)
    assert launched("cpu", 1, "bf16-mixed")._precision.precision == "bf16-mixed"


def test_one_process_on_a_cpu_learns_what_fabric_would(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [fresh(), fresh()]
    train(models[0], rows(), STAGES, seed=SEED)
    from lightning_fabric import Fabric  # takes seconds to import

    fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
    monkeypatch.setattr("pursuit.training.run.launched", lambda *_, **__: fabric)
    train(models[1], rows(), STAGES, seed=SEED)
    for own, fabrics in zip(*(model.state_dict().values() for model in models), strict=True):
        torch.testing.assert_close(own, fabrics)  # sums may be rounded in another order


def test_randomness_is_seeded_inside_and_untouched_outside() -> None:
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    with own_randomness(9, torch.device("cpu")):
        drawn = torch.rand(3)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(9)))
    assert torch.equal(torch.rand(2), expected)


def test_convolutions_stay_as_they_are_on_a_cpu() -> None:
    model, before = nn.Conv2d(2, 2, 3), torch.backends.cudnn.benchmark
    with fast_convolutions(model, torch.device("cpu")):
        assert torch.backends.cudnn.benchmark == before
        assert model.weight.is_contiguous()
