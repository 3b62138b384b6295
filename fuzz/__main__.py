"""Try bad inputs for some minutes, or so many of them, and count what comes of them.

    python -m fuzz --minutes 3
    python -m fuzz --inputs 100000 --record
    python -m fuzz --inputs 1000000 --jobs 16 --out counts.json   # and later: python -m fuzz --record-from counts.json

The seed is printed: the same seed makes the same inputs. Every bad input is kept in fuzz/found/ and can be tried again:

    python -m fuzz --replay fuzz/found/csv-7-4711
"""

import argparse
import json
import math
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz import command_line, images, models, schemas, tables
from fuzz.judging import BAD, FINE, REFUSED, Watch, judged
from fuzz.workers import Files, Target, Worker, in_folder, write_input

TARGETS: dict[str, Target] = {
    target.name: target for module in (tables, models, schemas, images, command_line) for target in module.TARGETS
}
FOUND = Path(__file__).parent / "found"
ROOT = Path(__file__).parent.parent
ADDED = ("inputs", FINE, REFUSED, BAD, "seconds")
"""What is added up over runs."""
MINUTES = 3.0
PART = 10**9
"""Between the numbers of the inputs of two processes."""
AT_ONCE = 20
"""Inputs between two looks at the clock."""
MOST_BAD = 200
"""A target with so many bad inputs has shown enough."""


@dataclass
class Count:
    """What came of the inputs of a target."""

    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    bad: list[str] = field(default_factory=list)
    sentences: set[str] = field(default_factory=set)
    n_sentences_elsewhere: int = 0

    def add(self, found: dict[str, Any]) -> None:
        """What another process counted."""
        self.outcomes.update({kind: found[kind] for kind in (FINE, REFUSED, BAD)})
        self.seconds += found["seconds"]
        self.bad += found["found"]
        self.n_sentences_elsewhere = max(self.n_sentences_elsewhere, found["sentences"])

    @property
    def n_sentences(self) -> int:
        """How many different sentences there were, at least."""
        return max(len(self.sentences), self.n_sentences_elsewhere)

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
            outcomes = worker.try_inputs(number, 1 if target.is_slow else AT_ONCE)
            for outcome in outcomes:
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
        watch = None if target.is_slow else Watch()
        outcome = judged(lambda where: target.read(where, prepared), folder, watch)
    print(f"{outcome.kind}: {outcome.what}")
    return int(outcome.kind == BAD)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.replay:
        return replay(options.replay)
    if options.record_from:
        return _record_from(options.record_from, options.note)
    chosen = [TARGETS[name] for name in options.targets.split(",")] if options.targets else list(TARGETS.values())
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"Seed {seed}. To try the same inputs: python -m fuzz --seed {seed}", flush=True)
    counts = {target.name: Count() for target in chosen}
    weight = sum(target.weight for target in chosen)
    if options.jobs > 1:
        _fuzz_together(options, seed, counts)
    for target in chosen if options.jobs == 1 else ():
        is_enough = _enough(options, target, weight, len(chosen))
        counts[target.name] = count = fuzz(target, seed, is_enough, options.part * PART, _say, options.found)
        kinds = ", ".join(f"{count.outcomes[kind]:,} {kind}" for kind in (FINE, REFUSED, BAD))
        _say(f"{target.name}: {count.n_inputs:,} inputs in {count.seconds:.0f} s: {kinds}")
        if options.out:
            _write(options.out, seed, counts)
    if options.out:
        _write(options.out, seed, counts)
    if options.record:
        from fuzz.page import record

        record(seed, {TARGETS[name]: count for name, count in counts.items()})
    n_bad = sum(count.outcomes[BAD] for count in counts.values())
    _say(f"{sum(count.n_inputs for count in counts.values()):,} inputs, {n_bad} bad.")
    return int(n_bad > 0)


def _fuzz_together(options: Any, seed: int, counts: dict[str, Count]) -> None:
    """Let several processes try inputs of other numbers each, and add up what came of them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the others end, and what they counted is added up
    with in_folder() as folder:
        common = [sys.executable, "-W", "ignore", "-m", "fuzz", "--seed", str(seed), "--found", str(options.found)]
        common += ["--targets", ",".join(counts)]
        common += [] if options.minutes is None else ["--minutes", str(options.minutes)]
        if options.inputs is not None:
            common += ["--inputs", str(-(-options.inputs // options.jobs))]
        processes = []
        for part in range(options.jobs):
            command = [*common, "--part", str(part), "--out", str(folder / f"{part}.json")]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        readers = [threading.Thread(target=_pass_on, args=(part, one)) for part, one in enumerate(processes)]
        for reader in readers:
            reader.start()
        try:
            for reader, process in zip(readers, processes, strict=True):
                reader.join()
                process.wait()
        except (KeyboardInterrupt, SystemExit):
            _say("Stopped: what was counted so far is added up.")
        finally:
            for process in processes:
                process.kill()
                process.wait()
            for path in sorted(folder.glob("*.json")):  # of a part that broke off, what it had by then
                for name, found in json.loads(path.read_text(encoding="utf-8"))["targets"].items():
                    counts[name].add(found)
    if broken := [part for part, process in enumerate(processes) if process.returncode not in (0, 1)]:
        counts[next(iter(counts))].bad.append(f"the processes {broken} broke off")
        counts[next(iter(counts))].outcomes[BAD] += 1


def _pass_on(part: int, process: Any) -> None:
    for line in process.stdout:
        _say(f"[{part}] {line.rstrip()}")


def _write(path: Path, seed: int, counts: dict[str, Count]) -> None:
    from fuzz.page import counted

    path.write_text(json.dumps(counted(seed, {TARGETS[name]: one for name, one in counts.items()}), indent=1) + "\n")


def _record_from(paths: Sequence[Path], note: str) -> int:
    """Add up what several runs counted, and write it into docs/results."""
    from fuzz.page import put

    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    total = found[-1]
    for other in found[:-1]:
        for name, one in other["targets"].items():
            own = total["targets"].setdefault(
                name, {**one, **dict.fromkeys(ADDED, 0), "found": [], "seed": one["seed"], "commit": one["commit"]}
            )
            own |= {key: own[key] + one[key] for key in (*ADDED, "found")}
            for key in ("seed", "commit"):
                if str(one[key]) not in str(own[key]).split(", "):
                    own[key] = f"{one[key]}, {own[key]}"
    put("inputs", {**total, "note": note})
    return 0


def _enough(options: Any, target: Target, weight: int, n_targets: int) -> Callable[[Count], bool]:
    minutes = MINUTES if options.minutes is None and options.inputs is None else options.minutes
    wanted = math.inf if options.inputs is None else max(1, -(-options.inputs * target.weight // weight))
    seconds = math.inf if minutes is None else 60 * minutes / n_targets
    return lambda count: count.n_inputs >= wanted or count.seconds >= seconds


def _say(text: str) -> None:
    print(text, flush=True)


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help=f"for how long at most, over all targets; by default {MINUTES:g}")
    parser.add_argument("--inputs", type=int, help="how many inputs at most, over all targets, for however long")
    parser.add_argument("--seed", type=int, help="by default another one every time")
    parser.add_argument("--targets", help=f"comma-separated, of {', '.join(TARGETS)}")
    parser.add_argument("--record", action="store_true", help="write the counts into docs/results/fuzzing.md")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes try inputs at once")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the counts as JSON")
    parser.add_argument(
        "--record-from", type=Path, nargs="+", metavar="FILE", help="write counts of --out into docs/results"
    )
    parser.add_argument("--note", default="", help="what the page says of the bad ones of --record-from")
    parser.add_argument("--found", type=Path, default=FOUND, help="where bad inputs are kept")
    parser.add_argument("--part", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--replay", type=Path, metavar="FOLDER", help="try a kept input again")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
