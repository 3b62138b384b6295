"""A program that trains on several devices; `test_devices.py` runs it.

python train_together.py FOLDER N_DEVICES [--resume] [--network conv] [--reports N] [--held-out]
"""

import argparse
import json
import os
from pathlib import Path

import safetensors.torch
import torch
from small_training import PATCHES, fresh, rows, weights

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
from pursuit.training.devices import is_first

SEED, BATCH = 7, 16
STAGES = [
    Stage(4, RandomHistories(), AdamW(), batch_size=BATCH, average=0.0),
    Stage(4, CarriedHistories(4), AdamW(), batch_size=BATCH, average=0.9),
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices", type=int)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--network", choices=("mlp", "conv"), default="mlp")
    parser.add_argument("--reports", type=int, help="end without warning after this many")
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = fresh(PATCHES, Conv((4, 8), hidden=16)) if given.network == "conv" else fresh(network=MLP((16,)))
    losses: list[float] = []

    def on_report(report: Report) -> None:
        losses.append(report.loss)
        if len(losses) == given.reports:
            os._exit(9)

    query_set = model.query_set
    train(
        model,
        rows(200, query_set),
        STAGES,
        seed=SEED,
        devices=given.devices,
        early_stopping=EarlyStopping(rows(51, query_set), patience=1000) if given.held_out else None,
        run=TrainingRun(given.folder / "run", given.resume, on_report=on_report, checkpoint_seconds=0),
    )
    number = os.environ.get("LOCAL_RANK", "0")
    safetensors.torch.save_file(weights(model), given.folder / f"weights-{number}")
    if is_first():
        (given.folder / "losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main()
