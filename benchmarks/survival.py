"""Kill the server with `kill -9` again and again while people answer, and see what is lost. Another database, which
must be empty: `--run people=200 kills=10 seed=0 database=postgresql://…`."""

import asyncio
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from benchmarks.crowd import LOST_CONNECTION, Ledger, Person, free_port, served_model, start, stop, wait
from benchmarks.report import Record, columns, grid, grouped, origins
from benchmarks.study import Study

PAUSE, MOMENT, SECONDS_TO_COME_BACK = (0.2, 1.0), (0.5, 4.0), 300.0
"""Seconds that people think, and from when the server is back until it is killed."""


async def answering(person: Person, ends: asyncio.Event) -> None:
    """Somebody who does not mind that the server goes away."""
    while not ends.is_set():
        try:
            await person.step()
        except LOST_CONNECTION:
            await person.come_back(time.perf_counter() + SECONDS_TO_COME_BACK)
        await asyncio.sleep(person.random.uniform(*PAUSE))
    person.connection.close()


class Server:
    """One that is killed and started again at the same place."""

    def __init__(self, model: Path, database: str):
        self.model, self.database, self.port, self.seconds_away = model, database, free_port(), []
        self.process = start(model, self.port, database)
        self.name = wait(self.port, self.process, is_measured=False)

    async def kill(self) -> None:
        began = time.perf_counter()
        stop(self.process, signal.SIGKILL)
        self.process = start(self.model, self.port, self.database)
        await asyncio.to_thread(wait, self.port, self.process, False)
        self.seconds_away.append(time.perf_counter() - began)


async def killing(server: Server, ledger: Ledger, people: int, kills: int, seed: int) -> None:
    """People answer while the server is killed at random moments."""
    ends, moments = asyncio.Event(), random.Random(seed)
    crowd = [Person(server.port, server.name, seed + 1 + i, ledger) for i in range(people)]
    tasks = [asyncio.create_task(answering(person, ends)) for person in crowd]
    for _ in range(kills):
        await asyncio.sleep(moments.uniform(*MOMENT))
        await server.kill()
    await asyncio.sleep(moments.uniform(*MOMENT))
    ends.set()
    await asyncio.gather(*tasks)


def measure(people: int, kills: int, seed: int, database: str = "sqlite", model: str | None = None) -> Record:
    path = served_model(model)
    with tempfile.TemporaryDirectory() as folder:
        place = f"sqlite:///{Path(folder) / 'sessions.sqlite'}" if database == "sqlite" else database
        server, ledger = Server(path, place), Ledger()
        try:
            asyncio.run(killing(server, ledger, people, kills, seed))
        finally:
            stop(server.process, signal.SIGKILL)
        found = ledger.compared_with(place)
    errors = {"n_cut_off": ledger.n_cut_off, "n_errors": len(ledger.errors), "errors": ledger.errors[:5]}
    away = sum(server.seconds_away) / max(1, len(server.seconds_away))
    return {"played": path.name, **found, **errors, "seconds_away": away, "load_average": os.getloadavg()[0]}


def page(records: list[Record]) -> dict[str, str]:
    shown = columns(
        "kills = kills; sessions = n_sessions|,; confirmed = n_confirmed|,; lost = n_lost; no reply = n_cut_off|,;"
        "kept all the same = n_kept_unconfirmed; errors = n_errors; away s = seconds_away|figure;"
        "load = load_average|figure"
    )
    by_database = grouped(({**one, "kind": one["database"].split(":", 1)[0]} for one in records), "kind", "people")
    n_lost = sum(one["n_lost"] + one["n_errors"] for one in records)
    verdict = "Nothing that was confirmed is lost." if not n_lost else f"{n_lost} sessions are not as confirmed."
    return {
        "figures": verdict + "\n\n" + grid(by_database, shown, "database", "people"),
        "origins": origins(records, "database"),
    }


STUDY = Study(
    name="survival",
    runs=[{"people": 200, "kills": 10, "seed": 0}],
    measure=measure,
    page=page,
    quick={"people": 4, "kills": 1},
)
