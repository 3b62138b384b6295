"""A program that trains on several devices; `test_devices.py` runs it.

python train_together.py FOLDER N_DEVICES [--device cuda [--backend gloo]] [--copy-at N] [--resume-in FOLDER]
                         [--images] [--by-information] [--ends]

Starting processes takes most of the time, so that those of torchrun train several times.
"""

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from pursuit.files import is_first, process_number
from pursuit.networks import MLP, Conv
from pursuit.training import (
    AdamW,
    CarriedHistories,
    EarlyStopping,
    RandomHistories,
    Report,
    Stage,
    TrainingRun,
    train,
)
from pursuit.training.averaging import WeightAverage
from pursuit.training.devices import launched
from pursuit.training.held_out import HeldOut
from small_training import PATCHES, fresh, fresh_by_information, rows, weights

SEED, BATCH = 7, 16
STAGES = [
    Stage(4, RandomHistories(), AdamW(), batch_size=BATCH, average=0.0),
    Stage(4, CarriedHistories(4), AdamW(), batch_size=BATCH, average=0.9),
]


def train_columns(
    folder: Path, devices: int, resume: bool = False, copy_at: int | None = None, device: str = "cpu"
) -> None:
    """Train on columns in `folder`. With `copy_at`, the run is copied at that report, as a crash would leave it."""
    losses: list[float] = []

    def on_report(report: Report) -> None:
        losses.append(report.loss)
        if len(losses) == copy_at:
            shutil.copytree(folder / "run", folder / "crashed" / "run")

    model = fresh(network=MLP((16,)))
    run = TrainingRun(folder / "run", resume, on_report=on_report, checkpoint_seconds=0)
    train(model, rows(), STAGES, seed=SEED, device=device, devices=devices, precision="32-true", run=run)
    safetensors.torch.save_file(weights(model), folder / f"weights-{process_number()}")
    if is_first():
        (folder / "losses.json").write_text(json.dumps(losses))


def train_images(folder: Path, devices: int) -> None:
    """Train on images, with BatchNorm and held-out rows."""
    model = fresh(PATCHES, Conv((4, 8), hidden=16))
    held_out = EarlyStopping(rows(51, PATCHES), patience=1000)
    run = TrainingRun(folder / "images")
    train(model, rows(100, PATCHES), STAGES, seed=SEED, devices=devices, early_stopping=held_out, run=run)
    safetensors.torch.save_file(weights(model), folder / f"image-weights-{process_number()}")


def train_by_information(folder: Path, devices: int) -> None:
    """Train by information where some answers are missing and where none is, with held-out rows."""
    for name in ("missing", "complete"):
        some = rows()
        some = some if name == "missing" else replace(some, available=torch.ones_like(some.available))
        model = fresh_by_information(some, MLP((16,)))
        held_out = EarlyStopping(some.take(slice(50)), patience=1000)
        train(model, some, STAGES, seed=SEED, devices=devices, early_stopping=held_out)
        safetensors.torch.save_file(weights(model), folder / f"{name}-weights-{process_number()}")


def look_at_ends(devices: int) -> list[dict[str, float]]:
    """Which weights are kept by one that prefers the end, if beliefs move before the last look: from the label of the
    second process's rows to that of the first one's, the other way, or from both to a third."""
    fabric = launched("cpu", devices, None)
    some = rows(50)
    some = replace(some, y=torch.arange(50) % 2)  # processes take turns, so that each has rows of one label
    found = []

    def mean(value: torch.Tensor) -> Any:
        return fabric.all_reduce(value, reduce_op="mean") if fabric.world_size > 1 else value

    for wins, loses in ((0, 1), (1, 0), (2, slice(2))):
        model = fresh(network=MLP((16,)))
        torch.nn.init.zeros_(model.classifier[-1].weight)
        torch.nn.init.zeros_(model.classifier[-1].bias)
        held_out = HeldOut(fabric, EarlyStopping(some, every=1, prefers_end=True), mean)
        first_loss = held_out.look(model, STAGES[0], WeightAverage(model, 0.0), 1, is_last=False)
        with torch.no_grad():
            model.classifier[-1].bias[wins] += 0.2
            model.classifier[-1].bias[loses] -= 0.2
        held_out.look(model, STAGES[0], WeightAverage(model, 0.0), 2, is_last=True)
        found.append({"kept": held_out.best_step, "loss": held_out.best_loss, "loss_before": first_loss})
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices", type=int)
    parser.add_argument("--device", default="cpu", help="where to train on columns")
    parser.add_argument("--backend", help="what processes on GPUs talk by, where it is not NCCL")
    parser.add_argument("--copy-at", type=int)
    parser.add_argument("--resume-in", type=Path, help="also go on with the run in this folder")
    parser.add_argument("--images", action="store_true", help="also train on images")
    parser.add_argument("--by-information", action="store_true", help="also train by information")
    parser.add_argument("--ends", action="store_true", help="also see which weights are kept at the end")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.backend:
        torch.distributed.Backend.default_device_backend_map["cuda"] = given.backend
    train_columns(given.folder, given.devices, copy_at=given.copy_at, device=given.device)
    if given.resume_in:
        train_columns(given.resume_in, given.devices, resume=True)
    if given.images:
        train_images(given.folder, given.devices)
    if given.by_information:
        train_by_information(given.folder, given.devices)
    if given.ends:
        (given.folder / f"ends-{process_number()}.json").write_text(json.dumps(look_at_ends(given.devices)))


if __name__ == "__main__":
    main()
