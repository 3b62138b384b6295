"""What a step of G-IP costs beside one of V-IP, on images of MNIST's shape, with untrained weights."""

import itertools
import statistics
import time

import torch
from torch import Tensor

from benchmarks import worlds
from benchmarks.report import Record, commit_of, figure, grid, grouped, origins
from benchmarks.study import Study
from pursuit import PaperConv
from pursuit.evaluation.rollouts import placed
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import pursue
from pursuit.methods.g_ip import GIP, GIPSettings, Langevin


def measure(rows: int, steps: int, rounds: int = 3, device: str = "cpu", small: bool = False) -> Record:
    """Seconds of a step of both, by turns: the first steps of chains of so many rows at a time."""
    world = worlds.mnist(rows)
    v_ip = world.build(PaperConv()).eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        settings = GIPSettings(2, (4,), Langevin(n_chains=2)) if small else None
        g_ip = GIP(world.query_set, range(world.n_classes), settings).eval()
    for pursuer in (v_ip, g_ip):
        step_seconds(pursuer, world.rows.x[:1], 1, device)  # to warm up
    pairs = [[step_seconds(pursuer, world.rows.x, steps, device) for pursuer in (v_ip, g_ip)] for _ in range(rounds)]
    ratios, (fast, slow) = sorted(slow / fast for fast, slow in pairs), zip(*pairs, strict=True)
    seconds = {"v_ip_seconds": statistics.median(fast), "g_ip_seconds": statistics.median(slow)}
    return {"settings": str(g_ip.settings), **seconds, "ratio": statistics.median(ratios), "ratios": ratios}


def step_seconds(pursuer: Pursuer, x: Tensor, n_steps: int, device: str) -> float:
    """The median time of a step: to believe, to find the next query, and to hear its answer."""
    marks = []
    with placed(pursuer, device) as place:
        for _ in itertools.islice(pursue(pursuer, x.to(place)), n_steps + 1):
            if place.type == "cuda":
                torch.cuda.synchronize(place)
            marks.append(time.perf_counter())  # the first one when all is ready
    return statistics.median(after - before for before, after in itertools.pairwise(marks))


def page(records: list[Record]) -> dict[str, str]:
    columns = {
        "V-IP, ms a step": lambda each: figure(1e3 * each[0]["v_ip_seconds"]),
        "G-IP, ms a step": lambda each: figure(1e3 * each[0]["g_ip_seconds"]),
        "ratio": "ratio|figure",
        "in the rounds": lambda each: f"{figure(each[0]['ratios'][0])} to {figure(each[0]['ratios'][-1])}",
        "G-IP": "settings",
    }
    said = [
        f"{figure(one['ratio'])} times as long with {one['rows']} row{'s' * (one['rows'] > 1)} at a time"
        for one in records
    ]
    place = (
        f" ({commit_of(records[0], 'processor')}; the authors report 47 s against 0.11 s, about 400 times)"
        if records
        else ""
    )
    return {
        "figures": grid(grouped(records, "rows", "steps"), columns, "rows at a time", "steps"),
        "origins": origins(records),
        "../methods.md#g-ip": f"A step of G-IP takes {', and '.join(said)}{place}.",
    }


STUDY = Study(
    name="g-ip",
    runs=[{"rows": 1, "steps": 6}, {"rows": 16, "steps": 2}],
    measure=measure,
    page=page,
    quick={"rows": 1, "steps": 1, "rounds": 1, "small": True},
)
