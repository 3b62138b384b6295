"""A program that trains on several devices; `test_devices.py` runs it.

python train_together.py FOLDER N_DEVICES [--resume] [--network conv] [--reports N]
"""

import argparse
import json
import os
from pathlib import Path

import safetensors.torch
import torch

from pursuit.histories import CarriedHistories, RandomHistories
from pursuit.networks import MLP, Conv
from pursuit.processes import is_first
from pursuit.queries import PatchQueries
from pursuit.stages import AdamW, Stage
from pursuit.training import EarlyStopping, Report, train
from test_training import fresh, rows

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
    parser.add_argument("--reports", type=int, help="end without a word after so many")
    parser.add_argument("--held-out", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    patches = PatchQueries((1, 8, 8), size=2)
    model = fresh(patches, Conv((4, 8), hidden=16)) if given.network == "conv" else fresh(network=MLP((16,)))
    losses: list[float] = []

    def hear(report: Report) -> None:
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
        folder=given.folder / "run",
        resume=given.resume,
        checkpoint_seconds=0,
        on_report=hear,
    )
    number = os.environ.get("LOCAL_RANK", "0")
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    safetensors.torch.save_file(tensors, given.folder / f"weights-{number}")
    if is_first():
        (given.folder / "losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    main()
