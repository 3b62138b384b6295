"""Training on one NVIDIA GPU beside what the card can do."""

import time
from dataclasses import replace

import torch

from benchmarks import worlds
from benchmarks.report import Record, columns, grid, grouped, origins
from benchmarks.speed import training_pace
from benchmarks.study import Study
from pursuit import CarriedHistories, PaperConv, Rows, Stage
from pursuit.research.tasks import find_recipe
from pursuit.training import AdamW, Batch
from pursuit.training.augmentation import Shifts
from pursuit.vip import VIP

COUNTED_ROWS, COMPILED = 16, {"recorded": False, "recorded and compiled": True}
"""Rows on which the operations of a history are counted, and how steps are done."""


def measure(part: str, device: str = "cuda", small: bool = False) -> Record:
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("an NVIDIA GPU and a torch built for it are needed; --quick needs none")
    return matmul(device, small) if part == "matmul" else training(part, device, small)


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def matmul(device: str, small: bool) -> Record:
    """Operations a second of large matrix products in bf16: what the card can do at best; the best of five rounds."""
    size, n, rates = (32, 2, []) if small else (8192, 50, [])
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        synchronise(device)
        began = time.perf_counter()
        for _ in range(n):
            left @ right
        synchronise(device)
        rates.append(n * 2 * size**3 / (time.perf_counter() - began))
    return {"matrix": size, "operations_per_second": max(rates)}


def training(part: str, device: str, small: bool) -> Record:
    """Histories a second of `train`, and the operations they are worth; steps recorded, and compiled before that. The
    paper's networks on images of 28x28 pixels, or those of symcat-200's recipe for a GPU."""
    if part == "mnist":
        world, network, n_steps = worlds.mnist(40 if small else 60_000, mask=True), PaperConv(), 600
        histories = CarriedHistories(24, random_share=0.25, random_skew=3.0)
        stage, rows = Stage(1, histories, AdamW(2e-3), batch_size=1024, augment=Shifts(1)), world.rows
    else:
        recipe, world, n_steps = find_recipe("symcat-200", "gpu"), worlds.symcat(200, COUNTED_ROWS), 1500
        network, stage, rows = recipe.network, recipe.stages[0], worlds.symcat_patients(200)
    if small:
        stage = replace(stage, batch_size=4)
    n_steps, warmup = (2, 1) if small else (n_steps, 200)
    each = operations_per_history(world.build(network), world.rows.take(torch.arange(COUNTED_ROWS)))
    found: Record = {"network": str(network), "batch_size": stage.batch_size, "operations_per_history": each}
    for name, compiled in COMPILED.items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        pace = training_pace(world.build(network), rows, stage, n_steps, warmup, device=device, compiled=compiled)
        found[name] = {
            "histories_per_second": pace.histories_per_second,
            "operations_per_second": pace.histories_per_second * each,
            "peak_gpu_mb": torch.cuda.max_memory_allocated() / 1e6 if device == "cuda" else None,
        }
    return found


def operations_per_history(model: VIP, rows: Rows) -> float:
    """Multiplications and additions of the matrix products and convolutions in one training step, forward and back."""
    from torch.utils.flop_counter import FlopCounterMode

    model.train()
    with FlopCounterMode(display=False) as counter:
        model(Batch.of(rows, rows.start())).loss.backward()
    model.zero_grad()
    return float(counter.get_total_flops()) / len(rows)


def page(records: list[Record]) -> dict[str, str]:
    limits = [one["operations_per_second"] for one in records if one["part"] == "matmul"]
    rows = [
        {**one, **one[how], "how": how, "share": one[how]["operations_per_second"] / limits[0] if limits else None}
        for one in records
        if one["part"] != "matmul"
        for how in COMPILED
    ]
    shown = columns(
        "network = network; batch = batch_size; histories/s = histories_per_second|figure;"
        "Mflop a history = operations_per_history*1e-6|figure; Tflop/s = operations_per_second*1e-12|figure;"
        "of the limit = share|.1%; GPU MB = peak_gpu_mb|figure"
    )
    said = "".join(f"Matrix products in bf16: {limit / 1e12:.1f} Tflop/s.\n\n" for limit in limits)
    return {
        "training": said + grid(grouped(rows, "part", "how"), shown, "shapes", "steps"),
        "origins": origins(records, "part"),
    }


STUDY = Study(
    name="gpu",
    runs=[{"part": part, "device": "cuda"} for part in ("matmul", "mnist", "symcat")],
    measure=measure,
    page=page,
    quick={"device": "cpu", "small": True},
)
