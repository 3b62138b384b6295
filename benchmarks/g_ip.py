"""What a step of G-IP costs beside one of V-IP, on images of MNIST's shape: docs/results/g-ip.md.

python benchmarks/g_ip.py                  # a quarter of an hour on two cores
python benchmarks/g_ip.py --device cuda    # on an NVIDIA GPU
python benchmarks/g_ip.py --quick          # toy sizes: only to see that it works
"""

import argparse
import itertools
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import worlds
from pursuit.evaluation.rollouts import placed
from pursuit.inference.pursuer import Pursuer
from pursuit.inference.rollout import pursue
from pursuit.methods.g_ip import GIP, GIPSettings
from pursuit.methods.shared.langevin import Langevin
from pursuit.networks import PaperConv
from pursuit.training.devices import find_device
from report import RESULTS, cpu, figure, into_page, origin, save, table, where


@dataclass(frozen=True)
class Case:
    """Rows at a time, and how often they are measured."""

    rows: int
    steps: int
    """Of every chain: its first queries."""
    rounds: int


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    device: str = "cpu"
    cases: tuple[Case, ...] = (Case(1, 6, 3), Case(16, 2, 3))
    settings: GIPSettings | None = None
    """By default those that suit the images."""


QUICK = Size(cases=(Case(1, 2, 1), Case(2, 1, 1)), settings=GIPSettings(2, (4,), Langevin(n_chains=2)))


def measure(size: Size) -> dict[str, Any]:
    device = find_device(size.device)
    processor = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu()
    measured: dict[str, Any] = {"where": {**where(size.device), "processor": processor}}
    measured["cases"] = [_said(side_by_side(case, size)) for case in size.cases]
    return measured


def _said(result: dict[str, Any]) -> dict[str, Any]:
    print(result, flush=True)
    return result


def side_by_side(case: Case, size: Size) -> dict[str, Any]:
    """Seconds of a step of both, measured by turns; the ratio is the median of those of the rounds."""
    world = worlds.mnist(case.rows)
    v_ip = world.build(PaperConv()).eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        g_ip = GIP(world.query_set, range(world.n_classes), size.settings).eval()
    for pursuer in (v_ip, g_ip):
        step_seconds(pursuer, world.rows.x[:1], 1, size.device)  # to warm up
    pairs = [
        [step_seconds(pursuer, world.rows.x, case.steps, size.device) for pursuer in (v_ip, g_ip)]
        for _ in range(case.rounds)
    ]
    ratios = sorted(slow / fast for fast, slow in pairs)
    return {
        **asdict(case),
        "settings": str(g_ip.settings),
        "v_ip_seconds": statistics.median(pair[0] for pair in pairs),
        "g_ip_seconds": statistics.median(pair[1] for pair in pairs),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def step_seconds(pursuer: Pursuer, x: Tensor, n_steps: int, device: str) -> float:
    """The median time of a step: to believe, to find the next query, and to hear its answer."""
    marks = []
    with placed(pursuer, device) as place:
        for _ in itertools.islice(pursue(pursuer, x.to(place)), n_steps + 1):
            if place.type == "cuda":
                torch.cuda.synchronize(place)
            marks.append(time.perf_counter())  # the first one when all is ready
    return statistics.median(after - before for before, after in itertools.pairwise(marks))


ABOUT = """# G-IP beside V-IP

Written by `python benchmarks/g_ip.py`. A step is what a chain does from one answer to the next: believe, find the query
to ask, and hear its answer; 676 patches of 3x3 pixels, 28x28 pixels in black and white, ten labels. V-IP has the
networks of the paper (PaperConv). G-IP, for every label, moves its chains on by Langevin's algorithm and lists the 512
answers to every patch. All weights are untrained, which costs the same. Median of the first steps of a chain, and of
rounds in which both take turns. The authors report 47 s for a step of G-IP and 0.11 s for one of V-IP.

- G-IP: `{settings}`
"""


def page(measured: dict[str, Any]) -> str:
    rows = [
        [
            case["rows"],
            f"{case['rounds']} x {case['steps']}",
            figure(1e3 * case["v_ip_seconds"]),
            figure(1e3 * case["g_ip_seconds"]),
            figure(case["ratio"]),
            f"{figure(case['ratios'][0])} to {figure(case['ratios'][-1])}",
        ]
        for case in measured["cases"]
    ]
    columns = ["rows at a time", "rounds x steps", "V-IP, ms a step", "G-IP, ms a step", "ratio", "in the rounds"]
    return ABOUT.format(**measured["cases"][0]) + origin(measured) + "\n" + table(columns, rows)


def ratio(measured: dict[str, Any]) -> str:
    """The result in a sentence."""
    one, *others = (
        f"{figure(case['ratio'])} times as long with {case['rows']} row{'s' * (case['rows'] > 1)} at a time"
        for case in measured["cases"]
    )
    where = measured["where"]
    return (
        f"A step of G-IP takes {', and '.join([one, *others])} ({where['processor']}, commit {where['commit']}; the "
        "authors report 47 s against 0.11 s, about 400 times).\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a step of G-IP beside one of V-IP.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--quick", action="store_true", help="toy sizes, only to see that it works")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder to write g-ip.json and g-ip.md into")
    arguments = parser.parse_args()
    size = replace(QUICK if arguments.quick else Size(), device=arguments.device)
    measured = measure(size)
    print(save(measured, page, "g-ip", arguments.into))
    if not arguments.quick:
        into_page(RESULTS.parent / "methods.md", "g-ip", ratio(measured))


if __name__ == "__main__":
    main()
