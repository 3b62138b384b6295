"""Kill training at random moments, resume it, and compare the model with that of a training nobody killed.

    python -m fuzz.kills --times 100 --record

A training is a process of its own, ended by SIGKILL: nothing of it gets to clean up. It is begun again with `resume`,
perhaps killed again, and in the end its weights must be those of the undisturbed training, bit for bit.
"""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.tables import LABEL, good_table
from fuzz.workers import in_folder

N_ROWS, N_STEPS = 400, 100
SEED = 3


@dataclass(frozen=True)
class Kill:
    """One training that was killed and resumed."""

    plan: str
    n_kills: int
    shares: tuple[float, ...]
    """Of the time that an undisturbed training takes, after which each kill came."""
    n_reports: tuple[int, ...]
    """Lines of the log when each kill came."""
    is_exact: bool
    is_log_whole: bool


def _by_information() -> Any:
    from pursuit.methods import VIPClassifier
    from pursuit.networks import MLP
    from pursuit.training import CarriedHistories, Stage

    stages = [Stage(_passes(), CarriedHistories(4), batch_size=32, average=0.9)]
    return VIPClassifier(network=MLP((16,)), stages=stages, held_out=0.2, querier="information", random_state=SEED)


def _straight_through() -> Any:
    from pursuit.methods import VIPClassifier
    from pursuit.networks import MLP
    from pursuit.training import CarriedHistories, RandomHistories, Stage

    stages = [
        Stage(_passes() / 2, RandomHistories(), batch_size=32),
        Stage(_passes() / 2, CarriedHistories(4), batch_size=32),
    ]
    network = MLP((16,), dropout=0.2)
    return VIPClassifier(network=network, stages=stages, querier="straight-through", random_state=SEED)


def _passes() -> float:
    return N_STEPS * 32 / N_ROWS


PLANS: dict[str, Callable[[], Any]] = {
    "by information, one stage, held-out rows": _by_information,
    "straight through, two stages, dropout": _straight_through,
}


def train(plan: str, folder: Path, resume: bool) -> None:
    """Train and save, as `pursuit train` does, with a checkpoint at every report."""
    from pursuit.files import claimed
    from pursuit.training import TrainingRun

    frame = good_table(N_ROWS).drop(columns="seen")
    with claimed(folder):
        model = PLANS[plan]()
        run = TrainingRun(folder, resume=resume, checkpoint_seconds=0.0)
        model.fit(frame.drop(columns=LABEL), frame[LABEL], run=run)
        model.save(folder)


def _start(plan: str, folder: Path, resume: bool) -> Any:
    """The same in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=_quietly, args=(plan, folder, resume))
    process.start()
    return process


def _quietly(plan: str, folder: Path, resume: bool) -> None:
    import torch

    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    train(plan, folder, resume)


def undisturbed(plan: str, folder: Path) -> tuple[bytes, float]:
    """The weights of a training that nobody kills, and the seconds it takes."""
    began = time.monotonic()
    process = _start(plan, folder, resume=False)
    process.join()
    if process.exitcode:
        raise RuntimeError(f"The training {plan} fails by itself: see above.")
    return (folder / "model.safetensors").read_bytes(), time.monotonic() - began


def killed(rng: random.Random, plan: str, folder: Path, weights: bytes, seconds: float) -> Kill:
    """Kill a training one to three times, let it end, and compare."""
    wanted, shares, reports = rng.choice((1, 1, 1, 2, 3)), [], []
    while len(shares) < wanted:
        process, share = _start(plan, folder, resume=bool(shares)), rng.random()
        process.join(share * seconds)
        if process.exitcode is not None:  # it was done before: that is no kill
            if process.exitcode:
                return Kill(plan, len(shares), tuple(shares), tuple(reports), False, False)
            _clear(folder)
            shares, reports = [], []
            continue
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        shares.append(share)
        reports.append(len(_log(folder)))
    process = _start(plan, folder, resume=True)
    process.join()
    end = folder / "model.safetensors"
    is_exact = process.exitcode == 0 and end.is_file() and end.read_bytes() == weights
    log = _log(folder)
    steps = [line.split(b",")[:2] for line in log[1:]]
    is_whole = b"\0" not in b"".join(log) and len({line.count(b",") for line in log}) == 1
    return Kill(plan, wanted, tuple(shares), tuple(reports), is_exact, is_whole and steps == sorted(steps, key=_number))


def _log(folder: Path) -> list[bytes]:
    path = folder / "log.csv"
    return path.read_bytes().splitlines() if path.is_file() else []


def _number(stage_and_step: list[bytes]) -> tuple[int, ...]:
    return tuple(map(int, stage_and_step))


def _clear(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.kills", description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100, help="how many trainings to kill")
    parser.add_argument("--seed", type=int, help="by default another one every time")
    parser.add_argument("--record", action="store_true", help="write what came of it into docs/results/fuzzing.md")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"Seed {seed}.", flush=True)
    kills = kill_often(seed, options.times, lambda text: print(text, flush=True))
    n_exact = sum(kill.is_exact and kill.is_log_whole for kill in kills)
    print(f"{n_exact} of {len(kills)} trainings, killed {sum(kill.n_kills for kill in kills)} times, ended exactly.")
    if options.record:
        from fuzz.page import record_kills

        record_kills(seed, kills)
    return int(n_exact < len(kills))


def kill_often(seed: int, times: int, say: Callable[[str], None]) -> list[Kill]:
    """Kill so many trainings, of every plan in turn."""
    rng, kills = random.Random(seed), []
    with in_folder() as place:
        good = {plan: undisturbed(plan, place / f"good-{number}") for number, plan in enumerate(PLANS)}
        for number in range(times):
            plan = list(PLANS)[number % len(PLANS)]
            kill = killed(rng, plan, place / f"killed-{number}", *good[plan])
            kills.append(kill)
            _clear(place / f"killed-{number}")
            if not (kill.is_exact and kill.is_log_whole) or number % 10 == 9:
                say(f"{number + 1}: {kill}")
    return kills


if __name__ == "__main__":
    sys.exit(main())
