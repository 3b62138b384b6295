"""How long a step of a session takes through the API, with many people at once: docs/results/serving.md.

python benchmarks/serving.py                        # the animals of the demonstration, some minutes
python benchmarks/serving.py --model runs/mine      # a model of your own
python benchmarks/serving.py --people 5 --seconds 3 --out /tmp/results
"""

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crowd import Ledger, Person, cpu_seconds, free_port, load_average, start, stop, wait
from pursuit.cli.served_models import default_models
from report import RESULTS, cpu, figure, origin, save, table, where
from timing import quantile

PEOPLE, SECONDS, WORKERS = (50, 300), 30.0, (1, 2)
MOST_STEPS = 20_000
PAUSES = {"a second between answers": (0.5, 1.5), "no pause at all": (0.0, 0.0)}
"""How long people think before they answer, at least and at most: nobody reads a question in less."""
GOAL_MS = 15.0


@dataclass
class Load:
    """What people met with."""

    steps: list[float] = field(default_factory=list)
    """Seconds of every answer."""
    begins: list[float] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)


async def answering(person: Person, pause: tuple[float, float], until: float, load: Load) -> None:
    """Somebody who answers until it is enough. Nobody comes at the very same moment as all others."""
    await asyncio.sleep(person.random.uniform(0, pause[1]))
    while time.perf_counter() < until and len(load.steps) < MOST_STEPS:
        kind, took = await person.step()
        (load.begins if kind == "begin" else load.steps).append(took)
        await asyncio.sleep(person.random.uniform(*pause))
    person.connection.close()


async def crowd(port: int, model: str, n: int, pause: tuple[float, float], seconds: float) -> Load:
    """All of them at once."""
    load, until = Load(), time.perf_counter() + seconds
    people = [Person(port, model, seed, load.ledger) for seed in range(n)]
    await asyncio.gather(*(answering(person, pause, until, load) for person in people))
    return load


def measure(model: Path, n_people: int, seconds: float, workers: int) -> list[dict[str, Any]]:
    """Every kind of load in turn, at a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        port, database = free_port(), f"sqlite:///{Path(folder) / 'sessions.sqlite'}"
        process = start(model, port, database, workers)
        try:
            name = wait(port, process)
            asyncio.run(crowd(port, name, 2, (0.0, 0.0), min(2.0, seconds)))  # the first of everything is slow
            return [_row(process, port, name, n_people, pause, seconds, workers, database) for pause in PAUSES]
        finally:
            stop(process)


def _row(
    process: subprocess.Popen[bytes],
    port: int,
    model: str,
    n_people: int,
    pause: str,
    seconds: float,
    workers: int,
    database: str,
) -> dict[str, Any]:
    before, began = cpu_seconds(process), time.perf_counter()
    load = asyncio.run(crowd(port, model, n_people, PAUSES[pause], seconds))
    took, after = time.perf_counter() - began, cpu_seconds(process)
    used = None if before is None or after is None or workers > 1 else after - before
    kept = load.ledger.compared_with(database)
    return {
        "people": n_people,
        "workers": workers,
        "pause": pause,
        "n_steps": len(load.steps),
        "n_begins": len(load.begins),
        "n_errors": len(load.ledger.errors),
        "errors": load.ledger.errors[:3],
        "n_lost": kept["n_lost"],
        "steps_per_second": len(load.steps) / took,
        "median_ms": 1000 * quantile(load.steps, 0.5),
        "p95_ms": 1000 * quantile(load.steps, 0.95),
        "p99_ms": 1000 * quantile(load.steps, 0.99),
        "slowest_ms": 1000 * max(load.steps),
        "cpu_ms": None if used is None else 1000 * used / (len(load.steps) + len(load.begins)),
        "load_average": load_average(),
    }


def measure_all(
    model: Path, people: tuple[int, ...], seconds: float, workers: tuple[int, ...], note: str = ""
) -> dict[str, Any]:
    rows = [row for n in people for own in workers for row in measure(model, n, seconds, own)]
    about = {"model": model.name, "seconds": seconds, "cores": os.cpu_count(), "note": note}
    return {**about, "rows": rows, "where": {**where("cpu"), "processor": cpu()}}


def page(measured: dict[str, Any]) -> str:
    rows = [
        (
            row["people"],
            row["workers"],
            row["pause"],
            f"{row['n_steps']:,}",
            row["n_errors"],
            row["n_lost"],
            figure(row["steps_per_second"]),
            figure(row["median_ms"]),
            figure(row["p95_ms"]),
            figure(row["p99_ms"]),
            figure(row["slowest_ms"]),
            figure(row["cpu_ms"]),
            figure(row["load_average"]),
        )
        for row in measured["rows"]
    ]
    first = measured["rows"][0]
    verdict = "met" if first["median_ms"] < GOAL_MS and not first["n_errors"] else "missed"
    n_errors, n_lost = (sum(row[name] for row in measured["rows"]) for name in ("n_errors", "n_lost"))
    head = (
        "people",
        "processes",
        "they make",
        "steps",
        "errors",
        "lost",
        "steps/s",
        "median ms",
        "95 % ms",
        "99 % ms",
        "slowest ms",
        "processor ms a step",
        "load",
    )
    return (
        "# A session step through the API\n\n"
        f"People play {measured['model']} on {measured['cores']} cores; the server and the people are on the same "
        f"machine, and each kind of load lasts {measured['seconds']:g} s. A step sends an answer or a correction, "
        "keeps it in SQLite, and gets the next question with the belief. In the end every answer that was confirmed "
        f"is looked up in the database. Of all steps, {n_errors} were errors, and {n_lost} sessions are not as "
        "confirmed.\n\n"
        f"The goal, a median below {GOAL_MS:g} ms without an error while {first['people']} people think about a "
        f"second, is {verdict}. Without any pause the server is full, and steps wait for each other: with N people "
        "and S steps a second, each waits about N / S seconds. The same holds where people who think a second ask "
        "for more steps a second than the server makes.\n\n"
        f"{table(head, rows)}\n"
        "*Load* is that of the machine at the end of the row, other programs included: about the number of processes "
        f"that wanted one of the {measured['cores']} cores.{' ' + measured['note'] if measured['note'] else ''}\n\n"
        f"{origin(measured)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; by default the animals of the demonstration")
    parser.add_argument("--people", type=int, nargs="+", default=PEOPLE)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each kind of load")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--note", default="", help="a sentence about the circumstances, for the page")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    model = (given.model or default_models()[0]).resolve()
    measured = measure_all(model, tuple(given.people), given.seconds, tuple(given.workers), given.note)
    print(save(measured, page, "serving", given.out))


if __name__ == "__main__":
    main()
