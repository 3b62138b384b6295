"""Training on one NVIDIA GPU beside what the card can do. The part `cold` trains on the images of MNIST, which must be
there."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, replace

import torch

from benchmarks import worlds
from benchmarks.report import NOTHING, Record, figure, met, origins, table
from benchmarks.speed import overview, training_pace
from benchmarks.study import Study
from pursuit import CarriedHistories, PaperConv, Rows, Stage, VIPClassifier
from pursuit.evaluation.protocols import measure_protocols
from pursuit.research.tasks import TASKS, find_recipe
from pursuit.training import AdamW, Batch
from pursuit.training.augmentation import Shifts
from pursuit.vip import VIP

COUNTED_ROWS, PROFILED, COMPILED = 16, 10, {"recorded": False, "recorded and compiled": True}
"""Rows on which the operations of a history are counted, and steps that are profiled."""
PRODUCTS = ("gemm", "conv", "wgrad", "dgrad", "fprop", "cutlass", "nvjet")
"""What is in the names of kernels for matrix products and convolutions; compiled kernels (triton_) are not counted."""
WANTED = (6.5, 0.98)
"""Mean queries, and the accuracy wanted there, without a cap on the length of chains."""


def measure(part: str, device: str = "cuda", small: bool = False, n_passes: float = 0.0) -> Record:
    """`n_passes` over the images of MNIST, in the part `cold`; by default those of the recipe."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("an NVIDIA GPU and a torch built for it are needed; --quick needs none")
    parts = {"matmul": matmul, "mnist": training, "symcat": training, "profile": profile, "cold": cold}
    return parts[part](part, device, small, n_passes)


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def matmul(part: str, device: str, small: bool, passes: float) -> Record:
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


def training(part: str, device: str, small: bool, passes: float) -> Record:
    """Histories a second of `train`, and the operations they are worth; steps recorded, and compiled before that. The
    paper's networks on images of 28x28 pixels, or those of symcat-200's recipe for a GPU."""
    if part == "mnist":
        world, network, n_steps = worlds.mnist(40 if small else 60_000, mask=True), PaperConv(), 600
        histories = CarriedHistories(24, random_share=0.25, random_skew=3.0)
        stage = Stage(1, histories, AdamW(2e-3), batch_size=4 if small else 1024, augment=Shifts(1))
        rows = world.rows
    else:
        recipe, world, rows, n_steps = (
            find_recipe("symcat-200", "gpu"),
            worlds.symcat(200, COUNTED_ROWS),
            worlds.symcat_patients(200),
            1500,
        )
        network, stage = recipe.network, replace(recipe.stages[0], **({"batch_size": 8} if small else {}))
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


def profile(part: str, device: str, small: bool, passes: float) -> Record:
    """Where the time of a compiled step with the paper's networks goes, by kernels."""
    from torch.profiler import ProfilerActivity, profile

    n = 4 if small else 1024
    world = worlds.mnist(n, mask=True)
    model = world.build(PaperConv()).to(device).to(memory_format=torch.channels_last)
    data = world.rows.to(torch.device(device))
    batch = Batch.of(data, data.start())._replace(tau=torch.ones((), device=device))
    objective = torch.compile(model.forward, dynamic=False)

    def steps(n_steps: int) -> None:
        for _ in range(n_steps):
            with torch.autocast(device, torch.bfloat16):
                loss = objective(batch).loss
            loss.backward()
            model.zero_grad()
        synchronise(device)

    steps(3)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        steps(PROFILED)
    spent = {"products_ms": 0.0, "others_ms": 0.0}
    for event in seen.key_averages():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            is_product = any(name in event.key.lower() for name in PRODUCTS) and not event.key.startswith("triton_")
            spent["products_ms" if is_product else "others_ms"] += event.self_device_time_total / 1e3 / PROFILED
    return {"batch_size": n, **spent}


def cold(part: str, device: str, small: bool, passes: float) -> Record:
    """From the start of a process until a model of MNIST is trained and measured."""
    call = (
        f"import benchmarks.gpu as gpu; gpu.train_and_measure({device!r}, {0.002 if small else passes}, {time.time()})"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - began}


def train_and_measure(device: str, passes: float, began: float) -> None:
    """What the process of `cold` does; marks are seconds since the process was started."""
    marks = {"imported": time.time() - began}
    recipe, info = find_recipe("mnist"), TASKS["mnist"]
    task = info.load(0).with_recipe(recipe).hold_out()
    marks["loaded"] = time.time() - began
    in_full = sum(stage.epochs for stage in recipe.stages)
    recipe = recipe.scaled(passes / in_full) if passes else recipe
    model = VIPClassifier(task.query_set, random_state=0, device=device, **recipe.settings())
    model.fit(task.X_train, task.y_train)
    marks["trained"] = time.time() - began
    to_choose, rows = (model.rows(part.X_test, part.y_test) for part in (task.held_out, task))
    found = measure_protocols(model.model_, to_choose, rows, info.protocols, info.protocol_length, device)
    marks["measured"] = time.time() - began
    protocols = [asdict(one) for one in found]
    print(
        json.dumps(
            {"network": str(recipe.network), "passes": passes or in_full, "marks": marks, "protocols": protocols}
        )
    )


# ---- what the pages say


def cold_figures(found: Record) -> tuple[float, float, str]:
    """Queries, accuracy, and how the confidence was chosen. Older results had no protocols: there, the best on the test
    images within the queries wanted counts."""
    if "protocols" in found:
        one = found["protocols"][0]
        how = f"{one['name']} on chains, the confidence chosen on held-out training images"
        return one["mean_counted"], one["accuracy"], how
    short = [(queries, right) for _, queries, right in found["trade_off"] if queries <= WANTED[0]]
    how = "chains of at most 40, the confidence picked on the test images; not yet measured again without either"
    return *max(short, key=lambda pair: pair[1]), how


def cold_sentence(found: Record) -> str:
    queries, accuracy, how = cold_figures(found)
    return (
        f"From a cold start, imports included, to a model of MNIST with an accuracy of {accuracy:.3f} after "
        f"{queries:.2f} queries ({how}), trained and measured: {found['seconds']:.0f} s."
    )


def page(records: list[Record]) -> dict[str, str]:
    parts, sections = {one["part"]: one for one in records}, {"origins": origins(records, "part")}
    limit, rows = parts.get("matmul", {}).get("operations_per_second"), []
    for name in ("mnist", "symcat"):
        for how in COMPILED if name in parts else ():
            one, found = parts[name], parts[name][how]
            rate, each = found["operations_per_second"], figure(one["operations_per_history"] / 1e6)
            cells = [
                figure(found["histories_per_second"]),
                each,
                figure(rate / 1e12),
                f"{rate / limit:.1%}" if limit else NOTHING,
            ]
            rows.append([name, one["network"], one["batch_size"], how, *cells, figure(found["peak_gpu_mb"])])
    columns = [
        "shapes",
        "network",
        "batch",
        "steps",
        "histories/s",
        "Mflop a history",
        "Tflop/s",
        "of the limit",
        "GPU MB",
    ]
    said = f"Matrix products in bf16: {limit / 1e12:.1f} Tflop/s.\n\n" if limit else ""
    sections["training"] = said + table(columns, rows)
    if limit and "mnist" in parts and "profile" in parts:
        one = parts["profile"]
        least = 1e3 * parts["mnist"]["operations_per_history"] * one["batch_size"] / limit
        sections["bounds"] = (
            f"Of a compiled step of the paper's networks with {one['batch_size']} rows, the GPU spends "
            f"{one['products_ms']:.1f} ms in convolutions and matrix products, and {one['others_ms']:.1f} ms in all "
            f"else. At the limit above its products would take {least:.1f} ms."
        )
    if "cold" in parts:
        one = parts["cold"]
        queries, accuracy, _ = cold_figures(one)
        is_reached = met(accuracy if queries <= WANTED[0] else 0, least=WANTED[1])
        marks = [[name, figure(seconds)] for name, seconds in [*one["marks"].items(), ("all", one["seconds"])]]
        if "protocols" in one:
            keys = ("level", "mean_held_out", "mean_counted", "accuracy")
            rules = [[rule["name"], *(f"{rule[key]:.4f}" for key in keys)] for rule in one["protocols"]]
            titles = ["protocol", "confidence", "mean queries held out", "mean queries", "accuracy on the test images"]
        else:
            rules = [[rule, f"{n:.2f}", f"{right:.4f}"] for rule, n, right in one["trade_off"]]
            titles = ["rule", "mean queries", "accuracy on the test images"]
        said = f"{one['passes']:g} passes, {one['network']}. Wanted: an accuracy of {WANTED[1]} after at most "
        said += f"{WANTED[0]} queries on average: {is_reached}.\n"
        sections["cold"] = "\n".join([said, table(["until", "seconds since the start"], marks), table(titles, rules)])
    return (
        {**sections, "index.md#speed": overview()}
        if {"cold", "matmul", "mnist", "symcat"} <= parts.keys()
        else sections
    )


STUDY = Study(
    name="gpu",
    runs=[{"part": part} for part in ("cold", "matmul", "mnist", "profile", "symcat")],
    measure=measure,
    page=page,
    quick={"device": "cpu", "small": True},
)
