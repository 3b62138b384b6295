"""How long a step of a session takes through the API with many people at once, and what is lost if the server is killed
with `kill -9` again and again while they answer. `--set model=runs/mine` for a model of your own, by default the
animals of the demonstration. Another database, which must be empty: `--run people=200 kills=10
database=postgresql://…`."""

import asyncio
import os
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.crowd import LOST_CONNECTION, Ledger, Person, Server, hellos_per_second
from benchmarks.report import Record, columns, grid, grouped, met, origins
from benchmarks.study import Study, every
from pursuit.cli.served_models import default_models

GOAL_MS = 15.0
PAUSES = {
    "a second between answers": (0.5, 1.5),
    "no pause at all": (0.0, 0.0),
    "less than a second between answers": (0.2, 1.0),
}
"""How long people think before they answer, at least and at most: nobody reads a question in less."""
MOMENT, SECONDS_TO_COME_BACK = (0.5, 4.0), 300.0
"""Seconds from when the server is back until it is killed."""
SHARES = {"median": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass
class Load:
    """What people met with: seconds of every answer and of every beginning."""

    steps: list[float] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)


async def answering(person: Person, pause: tuple[float, float], ends: asyncio.Event, load: Load) -> None:
    """Somebody who does not mind that the server goes away. Nobody comes at the very same moment as all others."""
    await asyncio.sleep(person.random.uniform(0, pause[1]))
    while not ends.is_set():
        try:
            kind, took = await person.step()
            (load.begins if kind == "begin" else load.steps).append(took)
        except LOST_CONNECTION:
            await person.come_back(time.perf_counter() + SECONDS_TO_COME_BACK)
        await asyncio.sleep(person.random.uniform(*pause))
    person.connection.close()


async def crowd(server: Server, people: int, pause: tuple[float, float], seconds: float, kills: int, seed: int) -> Load:
    """All of them at once: while the server is killed at random moments, and for some seconds."""
    load, ends, moments = Load(), asyncio.Event(), random.Random(seed)
    everybody = [Person(server.port, server.model, seed + i, load.ledger) for i in range(people)]
    tasks = [asyncio.create_task(answering(person, pause, ends, load)) for person in everybody]
    for _ in range(kills):
        await asyncio.sleep(moments.uniform(*MOMENT))
        await server.kill()
    await asyncio.sleep(moments.uniform(*MOMENT) if kills else seconds)
    ends.set()
    await asyncio.gather(*tasks)
    return load


def measure(
    people: int,
    workers: int = 1,
    pause: str = "less than a second between answers",
    kills: int = 0,
    seconds: float = 20.0,
    seed: int = 0,
    database: str = "sqlite",
    model: str | None = None,
) -> Record:
    """One kind of load, at a server of its own."""
    path = (Path(model) if model else default_models()[0]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        place = f"sqlite:///{Path(folder) / 'sessions.sqlite'}" if database == "sqlite" else database
        with Server(path, place, workers) as server:
            if not kills:  # the first of everything is slow
                asyncio.run(crowd(server, 2, (0.0, 0.0), min(2.0, seconds), 0, seed))
            before, began = server.cpu_seconds(), time.perf_counter()
            load = asyncio.run(crowd(server, people, PAUSES[pause], seconds, kills, seed))
            took, used = time.perf_counter() - began, server.cpu_seconds() - before
        kept, errors = load.ledger.compared_with(place), load.ledger.errors
    cut_off = load.ledger.n_cut_off
    n_errors = len(errors) + (0 if kills else cut_off)  # a server that nobody kills loses no connection
    found = {"n_cut_off": cut_off, "n_errors": n_errors, "errors": errors[:5]}
    found = {"played": path.name, "cores": os.cpu_count(), **kept, **found, "load_average": os.getloadavg()[0]}
    if kills:
        return {**found, "seconds_away": sum(server.seconds_away) / kills}
    hellos = asyncio.run(hellos_per_second(people, min(5.0, seconds)))
    return {
        **found,
        "hellos_per_second": hellos,
        "n_steps": len(load.steps),
        "n_begins": len(load.begins),
        "steps_per_second": len(load.steps) / took,
        **{f"{name}_ms": 1000 * float(np.quantile(load.steps, share)) for name, share in SHARES.items()},
        "slowest_ms": 1000 * max(load.steps),
        "cpu_ms": 1000 * used / (len(load.steps) + len(load.begins)) if workers == 1 else None,
    }


def page(records: list[Record]) -> dict[str, str]:
    killed, others = ([one for one in records if bool(one.get("kills")) == is_killed] for is_killed in (True, False))
    steps = columns(
        "steps = n_steps|,; errors = n_errors; lost = n_lost; steps/s = steps_per_second|figure;"
        "median ms = median_ms|figure; 95 % ms = p95_ms|figure; 99 % ms = p99_ms|figure;"
        "slowest ms = slowest_ms|figure; processor ms = cpu_ms|figure;"
        "hello/s = hellos_per_second|figure; load = load_average|figure"
    )
    losses = columns(
        "kills = kills; sessions = n_sessions|,; confirmed = n_confirmed|,; lost = n_lost; no reply = n_cut_off|,;"
        "kept all the same = n_kept_unconfirmed; errors = n_errors; away s = seconds_away|figure;"
        "load = load_average|figure"
    )
    first = others[0]["median_ms"] if others else None
    said = f"Wanted, of the first row: a median of at most {GOAL_MS:g} ms: {met(first, most=GOAL_MS)}.\n\n"
    by_database = [{**one, "kind": one.get("database", "sqlite").split(":", 1)[0]} for one in killed]
    keys = ("people", "workers", "pause")
    return {
        "figures": said + grid(grouped(others, *keys), steps, "people", "processes", "they make"),
        "origins": origins(others, "played", "cores", "seconds"),
        "survival.md#figures": grid(grouped(by_database, "kind", "people"), losses, "database", "people"),
        "survival.md#origins": origins(by_database, "kind"),
    }


STUDY = Study(
    name="serving",
    runs=[
        *every(people=(50, 300, 500), workers=(1, 2), pause=[*PAUSES][:2]),
        {"people": 200, "kills": 10},
    ],
    measure=measure,
    page=page,
    quick={"people": 3, "seconds": 2.0},
)
