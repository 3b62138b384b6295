"""How long a step of a session takes through the API, with many people at once: `--set model=runs/mine` for a model of
your own, by default the animals of the demonstration."""

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from benchmarks.crowd import Ledger, Person, cpu_seconds, free_port, served_model, start, stop, wait
from benchmarks.report import Record, columns, grid, grouped, met, origins
from benchmarks.speed import quantile
from benchmarks.study import Study

MOST_STEPS, GOAL_MS = 20_000, 15.0
PAUSES = {"a second between answers": (0.5, 1.5), "no pause at all": (0.0, 0.0)}
"""How long people think before they answer, at least and at most: nobody reads a question in less."""


@dataclass
class Load:
    """What people met with: seconds of every answer and of every beginning."""

    steps: list[float] = field(default_factory=list)
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


def measure(people: int, workers: int, pause: str, seconds: float = 20.0, model: str | None = None) -> Record:
    """One kind of load, at a server of its own."""
    path = served_model(model)
    with tempfile.TemporaryDirectory() as folder:
        port, database = free_port(), f"sqlite:///{Path(folder) / 'sessions.sqlite'}"
        process = start(path, port, database, workers)
        try:
            name = wait(port, process)
            asyncio.run(crowd(port, name, 2, (0.0, 0.0), min(2.0, seconds)))  # the first of everything is slow
            before, began = cpu_seconds(process), time.perf_counter()
            load = asyncio.run(crowd(port, name, people, PAUSES[pause], seconds))
            took, after = time.perf_counter() - began, cpu_seconds(process)
            kept = load.ledger.compared_with(database)
        finally:
            stop(process)
    used = None if before is None or after is None or workers > 1 else after - before
    return {
        "played": path.name,
        "cores": os.cpu_count(),
        "n_steps": len(load.steps),
        "n_begins": len(load.begins),
        "n_errors": len(load.ledger.errors),
        "errors": load.ledger.errors[:3],
        "n_lost": kept["n_lost"],
        "steps_per_second": len(load.steps) / took,
        **{
            f"{name}_ms": 1000 * quantile(load.steps, share)
            for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))
        },
        "slowest_ms": 1000 * max(load.steps),
        "cpu_ms": None if used is None else 1000 * used / (len(load.steps) + len(load.begins)),
        "load_average": os.getloadavg()[0],
    }


def page(records: list[Record]) -> dict[str, str]:
    shown = columns(
        "steps = n_steps|,; errors = n_errors; lost = n_lost; steps/s = steps_per_second|figure;"
        "median ms = median_ms|figure; 95 % ms = p95_ms|figure; 99 % ms = p99_ms|figure;"
        "slowest ms = slowest_ms|figure; processor ms = cpu_ms|figure; load = load_average|figure"
    )
    n_errors, n_lost = (sum(one[key] for one in records) for key in ("n_errors", "n_lost"))
    said = ""
    if records:
        first = records[0]
        verdict = met(first["median_ms"] if not first["n_errors"] else 1e9, most=GOAL_MS)
        said = (
            f"Of all steps, {n_errors} were errors, and {n_lost} sessions are not as confirmed. The goal, a median "
            f"below {GOAL_MS:g} ms without an error while {first['people']} people think a second, is {verdict}.\n\n"
        )
    keys = ("people", "workers", "pause")
    text = said + grid(grouped(records, *keys), shown, "people", "processes", "they make")
    return {"figures": text, "origins": origins(records, "played", "cores", "seconds")}


STUDY = Study(
    name="serving",
    runs=[{"people": n, "workers": own, "pause": pause} for n, own, pause in product((50, 300), (1, 2), PAUSES)],
    measure=measure,
    page=page,
    quick={"people": 3, "workers": 1, "seconds": 2.0},
)
