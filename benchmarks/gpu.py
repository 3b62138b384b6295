"""Training on one NVIDIA GPU beside what the card can do: docs/results/gpu.md.

    python benchmarks/gpu.py                      # all parts, a few minutes
    python benchmarks/gpu.py --only mnist cold    # some of: cold, matmul, mnist, profile, symcat

A part that fails says why, and the others go on. The part `cold` trains on the images of MNIST, which must be there.
"""

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import worlds
from pursuit.data.augmentation import Shifts
from pursuit.data.rows import Rows, RowSource
from pursuit.evaluation.protocols import measure_protocols
from pursuit.networks import NetworkSettings, PaperConv
from pursuit.tasks import TASKS, find_recipe
from pursuit.training import AdamW, Batch, CarriedHistories, Stage
from pursuit.vip import VIP
from report import RESULTS, figure, origin, save, table, where
from timing import training_pace

COUNTED_ROWS = 16
"""Rows on which the operations of a history are counted."""
PROFILED = 10
PRODUCTS = ("gemm", "conv", "wgrad", "dgrad", "fprop", "cutlass", "nvjet")
"""What is in the names of kernels for matrix products and convolutions; compiled kernels (triton_) are not counted."""
WANTED = (6.5, 0.98)
"""Mean queries, and the accuracy wanted there, without a cap on the length of chains."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    device: str = "cuda"
    matrix: int = 8192
    products: int = 50
    image_rows: int = 60_000
    image_batch: int = 1024
    image_steps: int = 600
    patients_batch: int | None = None
    patients_steps: int = 1500
    warmup: int = 200
    passes: float | None = None
    """Over the images of MNIST, in the part `cold`; by default those of the recipe."""


QUICK = Size("cpu", 32, 2, 40, 4, 2, 8, 2, 1, 0.002)
COMPILED = {"recorded": False, "recorded and compiled": True}


def matmul(size: Size) -> dict[str, Any]:
    """Operations a second of large matrix products in bf16: what the card can do at best; the best of five rounds."""
    left, right = (torch.randn(size.matrix, size.matrix, device=size.device, dtype=torch.bfloat16) for _ in range(2))
    rates = []
    for _ in range(5):
        _synchronise(size.device)
        began = time.perf_counter()
        for _ in range(size.products):
            left @ right
        _synchronise(size.device)
        rates.append(size.products * 2 * size.matrix**3 / (time.perf_counter() - began))
    return {"matrix": size.matrix, "operations_per_second": max(rates)}


def mnist(size: Size) -> dict[str, Any]:
    """The paper's networks on images of 28x28 pixels."""
    world = worlds.mnist(size.image_rows, mask=True)
    stage = Stage(
        1,
        CarriedHistories(24, random_share=0.25, random_skew=3.0),
        AdamW(2e-3),
        batch_size=size.image_batch,
        augment=Shifts(1),
    )
    return _training(world, PaperConv(), world.rows, stage, size.image_steps, size)


def symcat(size: Size) -> dict[str, Any]:
    """The networks and the stage of symcat-200's recipe for a GPU, on patients drawn from a table of that size."""
    recipe = find_recipe("symcat-200", "gpu")
    stage = replace(recipe.stages[0], batch_size=size.patients_batch or recipe.stages[0].batch_size)
    world = worlds.symcat(200, COUNTED_ROWS)
    return _training(world, recipe.network, worlds.symcat_patients(200), stage, size.patients_steps, size)


def _training(
    world: worlds.World, network: NetworkSettings, rows: RowSource, stage: Stage, n_steps: int, size: Size
) -> dict[str, Any]:
    """Histories a second of `train`, and the operations they are worth; steps recorded, and compiled before that."""
    per_history = operations_per_history(world.build(network), world.rows.take(torch.arange(COUNTED_ROWS)))
    on_gpu = size.device == "cuda"
    found: dict[str, Any] = {
        "network": str(network),
        "batch_size": stage.batch_size,
        "operations_per_history": per_history,
    }
    for name, compiled in COMPILED.items():
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        pace = training_pace(
            world.build(network), rows, stage, n_steps, size.warmup, device=size.device, compiled=compiled
        )
        found[name] = {
            "histories_per_second": pace.histories_per_second,
            "operations_per_second": pace.histories_per_second * per_history,
            "peak_gpu_mb": torch.cuda.max_memory_allocated() / 1e6 if on_gpu else None,
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


def profile(size: Size) -> dict[str, Any]:
    """Where the time of a compiled step with the paper's networks goes, by kernels."""
    from torch.profiler import ProfilerActivity, profile

    rows = worlds.mnist(size.image_batch, mask=True)
    model = rows.build(PaperConv()).to(size.device).to(memory_format=torch.channels_last)
    data = rows.rows.to(torch.device(size.device))
    batch = Batch.of(data, data.start())._replace(tau=torch.ones((), device=size.device))
    objective = torch.compile(model.forward, dynamic=False)

    def step() -> None:
        with torch.autocast(size.device, torch.bfloat16):
            loss = objective(batch).loss
        loss.backward()
        model.zero_grad()

    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(PROFILED):
            step()
        _synchronise(size.device)
    spent = {"products_ms": 0.0, "others_ms": 0.0}
    for event in seen.key_averages():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            is_product = any(name in event.key.lower() for name in PRODUCTS) and not event.key.startswith("triton_")
            kind = "products_ms" if is_product else "others_ms"
            spent[kind] += event.self_device_time_total / 1e3 / PROFILED
    return {"batch_size": size.image_batch, **spent}


def cold(size: Size) -> dict[str, Any]:
    """From the start of a process until a model of MNIST is trained and measured."""
    command = [sys.executable, __file__, "--child", size.device, str(size.passes or 0), str(time.time())]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - began}


def train_and_measure(device: str, passes: float, began: float) -> dict[str, Any]:
    """What the process of `cold` does; marks are seconds since the process was started."""
    from pursuit import VIPClassifier

    marks = {"imported": time.time() - began}
    recipe = find_recipe("mnist")
    info = TASKS["mnist"]
    task = info.load(0).with_recipe(recipe).hold_out()
    held_out = task.held_out
    assert held_out is not None
    assert info.protocol_length is not None
    marks["loaded"] = time.time() - began
    in_full = sum(stage.epochs for stage in recipe.stages)
    recipe = recipe.scaled(passes / in_full) if passes else recipe
    model = VIPClassifier(task.query_set, random_state=0, device=device, **recipe.settings())
    model.fit(task.X_train, task.y_train)
    marks["trained"] = time.time() - began
    to_choose, rows = (model.rows(part.X_test, part.y_test) for part in (held_out, task))
    found = measure_protocols(model.model_, to_choose, rows, info.protocols, info.protocol_length, device)
    marks["measured"] = time.time() - began
    no_cap = found[0]
    return {
        "network": str(recipe.network),
        "passes": passes or in_full,
        "marks": marks,
        "protocols": [asdict(one) for one in found],
        "wanted": list(WANTED),
        "reached": no_cap.mean_counted <= WANTED[0] and no_cap.accuracy >= WANTED[1],
    }


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


PARTS: dict[str, Callable[[Size], dict[str, Any]]] = {
    "cold": cold,
    "matmul": matmul,
    "mnist": mnist,
    "profile": profile,
    "symcat": symcat,
}

ABOUT = """\
# Training on one GPU

Written by `make bench-gpu`; the figures are in `gpu.json` beside this page. Histories a second are those of `train`, by
its reports, after a warm-up; data are generated in the shapes of the tasks. Operations are those of matrix products and
convolutions, forward and back, as torch counts them on one step. The limit is what large bf16 matrix products reach on
the same card in the same run.
"""
BOUNDS = """\
What bounds them is memory more than arithmetic. Of a compiled step of the paper's networks with {batch_size} rows, the
GPU spends {products:.1f} ms in convolutions and matrix products, whose 32 to 256 channels fill its matrix units badly,
and {others:.1f} ms in all else: BatchNorm, activations, pooling and enlarging with their gradients, which read and
write every map, the optimizer, and copies. At the limit above its products would take {least:.1f} ms.
"""
COLD = """\
## From the start of a process to a measured model

MNIST by the recipe `fast`, {passes:g} passes, {network}: everything a user waits for, importing included. Seed 0;
10,000 images to measure on. Length of chains, learning rate, padding and passes were chosen on 6,000 held-out training
images; the rest of the recipe follows sketches whose figures were read off test images. {protocol}
Wanted: an accuracy of {wanted[1]} after at most {wanted[0]} queries on average: {reached}.
"""
HELD_OUT = """\
Confidences were chosen on 6,000 training images, which were not learnt from, and test images measured once."""
PICKED = """\
**All 60,000 training images were learnt from, chains had at most 40 queries, and a confidence that one reads off the
table is picked on the test images**: not yet measured again by the protocols of [tasks.md](tasks.md)."""


def page(measured: dict[str, Any]) -> str:
    parts = [ABOUT, origin(measured)]
    if limit := measured.get("matmul", {}).get("operations_per_second"):
        parts.append(f"Matrix products in bf16: {limit / 1e12:.1f} Tflop/s.\n")
    rows = [
        _training_row(name, measured[name], how, limit)
        for name in ("mnist", "symcat")
        for how in COMPILED
        if name in measured
    ]
    if rows:
        columns = ["shapes", "network", "batch", "steps", "histories/s", "Mflop a history", "Tflop/s", "of the limit"]
        parts.append(table([*columns, "GPU MB"], rows))
    if limit and "mnist" in measured and "profile" in measured:
        profile = measured["profile"]
        operations = measured["mnist"]["operations_per_history"] * profile["batch_size"]
        parts.append(
            BOUNDS.format(
                batch_size=profile["batch_size"],
                products=profile["products_ms"],
                others=profile["others_ms"],
                least=1e3 * operations / limit,
            )
        )
    if "cold" in measured:
        parts += _cold_section(measured["cold"])
    parts += [f"{name} failed: {error.splitlines()[-1]}\n" for name, error in measured["errors"].items()]
    return "\n".join(parts)


def _training_row(name: str, found: dict[str, Any], how: str, limit: float | None) -> list[str]:
    rate = found[how]["operations_per_second"]
    return [
        name,
        found["network"],
        str(found["batch_size"]),
        how,
        figure(found[how]["histories_per_second"]),
        figure(found["operations_per_history"] / 1e6),
        figure(rate / 1e12),
        f"{rate / limit:.1%}" if limit else "–",
        figure(found[how]["peak_gpu_mb"]),
    ]


def _cold_section(found: dict[str, Any]) -> list[str]:
    is_chosen = "protocols" in found  # which measurements from before there were protocols have not
    about = {**found, "reached": "reached" if found["reached"] else "not reached"}
    about["protocol"] = HELD_OUT if is_chosen else PICKED
    marks = [[name, figure(seconds)] for name, seconds in [*found["marks"].items(), ("all", found["seconds"])]]
    if is_chosen:
        columns = ["protocol", "confidence", "mean queries held out", "mean queries", "accuracy on the test images"]
        keys = "level", "mean_held_out", "mean_counted", "accuracy"
        rules = [[one["name"], *(f"{one[key]:.4f}" for key in keys)] for one in found["protocols"]]
    else:
        columns = ["rule", "mean queries", "accuracy on the test images"]
        rules = [[rule, f"{queries:.2f}", f"{accuracy:.4f}"] for rule, queries, accuracy in found["trade_off"]]
    return [COLD.format(**about), table(["until", "seconds since the start"], marks), table(columns, rules)]


def measure(size: Size, parts: list[str], into: Path) -> dict[str, Any]:
    """Measure part by part, and write after each what there is so far."""
    measured: dict[str, Any] = {"where": where(size.device), "errors": {}}
    for name in parts:
        began = time.perf_counter()
        try:
            measured[name] = PARTS[name](size)
        except Exception:
            measured["errors"][name] = traceback.format_exc()
            print(f"{name} failed:\n{measured['errors'][name]}", flush=True)
        else:
            print(name, f"{time.perf_counter() - began:.1f} s", measured[name], flush=True)
        save(measured, page, "gpu", into)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure training on a GPU beside what the card can do.")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="the parts to measure")
    parser.add_argument(
        "--passes", type=float, help="over the images of MNIST in the part cold; else as the recipe has"
    )
    parser.add_argument("--quick", action="store_true", help="toy sizes on the CPU, only to see that it works")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder to write gpu.json and gpu.md into")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        device, passes, began = arguments.child
        print(json.dumps(train_and_measure(device, float(passes), float(began))))
        return
    if not arguments.quick and not torch.cuda.is_available():
        parser.error("an NVIDIA GPU and a torch built for it are needed, and neither was found; --quick needs none")
    size = QUICK if arguments.quick else replace(Size(), passes=arguments.passes)
    measured = measure(size, arguments.only, arguments.into)
    print(page(measured))
    if measured["errors"]:
        sys.exit(f"{len(measured['errors'])} of {len(arguments.only)} parts failed.")


if __name__ == "__main__":
    main()
