"""Try bad inputs for some minutes, or so many of them, and count what comes of them.

    python -m fuzz --minutes 3
    python -m fuzz --inputs 100000 --record

The seed is printed: the same seed makes the same inputs. Every bad input is kept in fuzz/found/ and can be tried again:

    python -m fuzz --replay fuzz/found/csv-7-4711
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz import command_line, images, models, tables
from fuzz.judging import BAD, FINE, REFUSED, Watch, judged
from fuzz.workers import Files, Target, Worker, in_folder, write_input

TARGETS: dict[str, Target] = {
    target.name: target for module in (tables, models, images, command_line) for target in module.TARGETS
}
FOUND = Path(__file__).parent / "found"
MOST_BAD = 200
"""A target with so many bad inputs has shown enough."""


@dataclass
class Count:
    """What came of the inputs of a target."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    bad: list[str] = field(default_factory=list)
    sentences: set[str] = field(default_factory=set)

    @property
    def n_inputs(self) -> int:
        return sum(self.outcomes.values())


def fuzz(
    target: Target,
    seed: int,
    is_enough: Callable[[Count], bool],
    first: int = 0,
    say: Callable[[str], None] = print,
    found: Path = FOUND,
) -> Count:
    """Try inputs of a target, the first of this number, until it is enough."""
    count, worker, number = Count(), Worker(target, seed), first
    began = time.monotonic()
    try:
        while not is_enough(count) and len(count.bad) < MOST_BAD:
            outcome = worker.try_input(number)
            count.outcomes[outcome.kind] += 1
            if outcome.kind == BAD:
                count.bad.append(f"{number}: {outcome.what}")
                keep(worker.make(number), outcome.what, found / f"{target.name}-{seed}-{number}")
                say(f"  BAD {target.name} {number}: {outcome.what[:300]}")
            elif outcome.kind == REFUSED:
                count.sentences.add(outcome.what[:40])
            number += 1
            count.seconds = time.monotonic() - began
    finally:
        worker.end()
    return count


def keep(files: Files, what: str, folder: Path) -> None:
    """Keep a bad input, to try it again."""
    write_input(folder, files)
    folder.with_suffix(".txt").write_text(f"{what}\n", encoding="utf-8", errors="replace")


def replay(folder: Path) -> int:
    """Try a kept input again in this process; 1 if it is still bad."""
    target = TARGETS[folder.name.split("-")[0]]
    with in_folder() as place:
        prepared = target.prepare(place / "prepared")
        outcome = judged(lambda where: target.read(where, prepared), folder, Watch())
    print(f"{outcome.kind}: {outcome.what}")
    return int(outcome.kind == BAD)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.replay:
        return replay(options.replay)
    chosen = [TARGETS[name] for name in options.targets.split(",")] if options.targets else list(TARGETS.values())
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"Seed {seed}. To try the same inputs: python -m fuzz --seed {seed}", flush=True)
    counts: dict[str, Count] = {}
    weight = sum(target.weight for target in chosen)
    for target in chosen:
        counts[target.name] = count = fuzz(target, seed, _enough(options, target, weight, len(chosen)), say=_say)
        kinds = ", ".join(f"{count.outcomes[kind]:,} {kind}" for kind in (FINE, REFUSED, BAD))
        _say(f"{target.name}: {count.n_inputs:,} inputs in {count.seconds:.0f} s: {kinds}")
    if options.record:
        from fuzz.page import record

        record(seed, {TARGETS[name]: count for name, count in counts.items()})
    n_bad = sum(count.outcomes[BAD] for count in counts.values())
    _say(f"{sum(count.n_inputs for count in counts.values()):,} inputs, {n_bad} bad.")
    return int(n_bad > 0)


def _enough(options: Any, target: Target, weight: int, n_targets: int) -> Callable[[Count], bool]:
    if options.inputs is not None:
        wanted = max(1, -(-options.inputs * target.weight // weight))
        return lambda count: count.n_inputs >= wanted
    seconds = 60 * options.minutes / n_targets
    return lambda count: count.seconds >= seconds


def _say(text: str) -> None:
    print(text, flush=True)


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0, help="for how long, over all targets")
    parser.add_argument("--inputs", type=int, help="how many inputs instead, over all targets")
    parser.add_argument("--seed", type=int, help="by default another one every time")
    parser.add_argument("--targets", help=f"comma-separated, of {', '.join(TARGETS)}")
    parser.add_argument("--record", action="store_true", help="write the counts into docs/results/fuzzing.md")
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="try a kept input again")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
