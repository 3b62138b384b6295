"""The training loop: schedules, stages, held-out rows, and going on after a kill as if nothing had happened."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from pursuit.checkpoints import load_checkpoint
from pursuit.histories import CarriedHistories, RandomHistories, RolledOutHistories
from pursuit.networks import MLP, Conv, NetworkSettings
from pursuit.queries import ColumnQueries, PatchQueries, QuerySet, yes_no
from pursuit.rows import Rows
from pursuit.stages import SGD, Adam, AdamW, Stage
from pursuit.training import EarlyStopping, Report, train
from pursuit.vip import VIP

QUERIES = ColumnQueries([yes_no(f"q{i}") for i in range(6)])
STAGES = [
    Stage(3, RandomHistories(), Adam(amsgrad=True), batch_size=16, average=0.0),
    Stage(3, CarriedHistories(4), AdamW(), batch_size=16),
    Stage(3, RolledOutHistories(4), SGD(), schedule="constant", batch_size=16),
]


def rows(n: int = 200, query_set: QuerySet = QUERIES) -> Rows:
    generator = torch.Generator().manual_seed(0)
    answers = torch.randint(2, (n, 6), generator=generator)
    y = answers[:, 0] + 2 * answers[:, 3]
    if isinstance(query_set, PatchQueries):
        images = torch.rand(n, 1, 8, 8, generator=generator) + answers[:, :1, None, None] * 0.5
        return Rows(*query_set.answers((images / 2).numpy()), y)
    x, available = query_set.answers(answers.numpy())
    return Rows(x, available & (torch.rand(available.shape, generator=generator) < 0.9), y)


NETWORK = MLP((16,), dropout=0.2)


def fresh(query_set: QuerySet = QUERIES, network: NetworkSettings = NETWORK) -> VIP:
    torch.manual_seed(0)
    return VIP.build(query_set, list("abcd"), network)


def weights(model: VIP) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_same_seed_same_weights_and_the_callers_randomness_is_untouched() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    models = [fresh() for _ in range(3)]
    torch.manual_seed(5)
    for model, seed in zip(models, (1, 1, 2), strict=True):
        train(model, rows(), STAGES, seed=seed)
    assert torch.equal(torch.rand(3), expected)
    assert same(weights(models[0]), weights(models[1]))
    assert not same(weights(models[0]), weights(models[2]))


def test_reports_tell_loss_and_progress() -> None:
    reports: list[Report] = []
    train(fresh(), rows(), [Stage(60, batch_size=32)], on_report=reports.append)
    assert reports[-1].loss < 0.6 * reports[0].loss
    assert [report.step for report in reports] == sorted({report.step for report in reports})
    assert reports[-1].step == reports[-1].n_steps
    assert reports[-1].seconds_left == 0


def test_early_stopping_keeps_the_best_weights() -> None:
    """With labels that are noise the held-out loss soon rises, so that training must stop early."""
    data = rows(60)
    generator = torch.Generator().manual_seed(1)
    data = Rows(data.x, data.available, torch.randint(4, (60,), generator=generator))
    held_out = Rows(
        *QUERIES.answers(torch.randint(2, (300, 6), generator=generator).numpy()),
        torch.randint(4, (300,), generator=generator),
    )
    reports: list[Report] = []
    model = fresh(network=MLP((64, 64)))
    train(model, data, [Stage(400, batch_size=32)], early_stopping=EarlyStopping(held_out, 5), on_report=reports.append)
    assert reports[-1].step < reports[-1].n_steps
    losses = [report.held_out_loss for report in reports if report.held_out_loss is not None]
    assert losses.index(min(losses)) == len(losses) - 1 - 5
    # A patience of one report less stops one report earlier, but with the same best weights.
    sooner = fresh(network=MLP((64, 64)))
    train(sooner, data, [Stage(400, batch_size=32)], early_stopping=EarlyStopping(held_out, 4))
    assert same(weights(model), weights(sooner))


def test_averaged_weights_get_batch_norm_statistics_of_their_own() -> None:
    query_set = PatchQueries((1, 8, 8), size=2)
    model = fresh(query_set, Conv((4, 8), hidden=16))
    train(model, rows(200, query_set), [Stage(3, batch_size=32, average=0.9)])
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms  # as many batches as the stage had steps
    assert all(int(norm.num_batches_tracked) == 19 and norm.momentum == 0.1 for norm in norms)


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_at", [1, 37, 38, 95])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_resumed_run_ends_with_the_same_bits(tmp_path: Path, killed_at: int, early_stopping: bool) -> None:
    held_out = EarlyStopping(rows(50), patience=1000) if early_stopping else None
    whole = fresh()
    train(whole, rows(), STAGES, seed=3, early_stopping=held_out, folder=tmp_path / "whole", checkpoint_seconds=0)

    n_reports = 0

    def kill(report: Report) -> None:
        nonlocal n_reports
        n_reports += 1
        if n_reports == killed_at:
            raise Killed

    with pytest.raises(Killed):
        train(
            fresh(),
            rows(),
            STAGES,
            seed=3,
            early_stopping=held_out,
            folder=tmp_path / "run",
            checkpoint_seconds=0,
            on_report=kill,
        )
    resumed = fresh()
    torch.manual_seed(99)  # whatever the new process has drawn before must not matter
    train(
        resumed,
        rows(),
        STAGES,
        seed=3,
        early_stopping=held_out,
        folder=tmp_path / "run",
        resume=True,
        checkpoint_seconds=0,
    )
    assert same(weights(whole), weights(resumed))
    timeless = [
        [line.rsplit(",", 2)[0] for line in (tmp_path / f / "log.csv").read_text().splitlines()]
        for f in ("whole", "run")
    ]
    assert timeless[0] == timeless[1]


def test_without_resume_old_checkpoints_are_not_used(tmp_path: Path) -> None:
    train(fresh(), rows(), STAGES[:1], seed=1, folder=tmp_path, checkpoint_seconds=0)
    alone, again = fresh(), fresh()
    train(alone, rows(), STAGES[:1], seed=2)
    train(again, rows(), STAGES[:1], seed=2, folder=tmp_path, checkpoint_seconds=0)
    assert same(weights(alone), weights(again))


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_training import STAGES, fresh, rows
from pursuit.training import train
import safetensors.torch, time, torch
torch.set_num_threads(1)
model = fresh()
train(model, rows(), STAGES, seed=3, folder=Path(sys.argv[1]), resume=True, checkpoint_seconds=0,
      on_report=lambda report: (print("report", flush=True), time.sleep(0.02)))
safetensors.torch.save_file({{k: v.clone() for k, v in model.state_dict().items()}}, sys.argv[2])
"""


def test_killed_minus_nine_again_and_again(tmp_path: Path) -> None:
    """A real process, killed without warning after a few reports, until at last it may finish."""
    import safetensors.torch

    command = [
        sys.executable,
        "-c",
        SCRIPT.format(tests=str(Path(__file__).parent)),
        str(tmp_path / "run"),
        str(tmp_path / "weights"),
    ]
    for n_reports in (3, 20, 17):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(n_reports):
                assert process.stdout.readline() == "report\n"
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])  # and the machine tore the last file
    assert load_checkpoint(tmp_path / "run" / "checkpoints") is not None
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = fresh()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train(whole, rows(), STAGES, seed=3)
    torch.set_num_threads(n_threads)
    assert same(weights(whole), safetensors.torch.load_file(tmp_path / "weights"))
