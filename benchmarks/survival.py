"""Kill the server with `kill -9` again and again while people answer, and see what is lost: docs/results/survival.md.

python benchmarks/survival.py                              # 200 sessions, 10 kills, SQLite; some minutes
python benchmarks/survival.py --database postgresql://…    # the same with a database of your own, which must be empty
python benchmarks/survival.py --people 10 --kills 2 --out /tmp/results
"""

import argparse
import asyncio
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from crowd import LOST_CONNECTION, Ledger, Person, free_port, load_average, start, stop, wait
from pursuit.cli.served_models import default_models
from report import RESULTS, cpu, figure, origin, save, table, where

PEOPLE, KILLS, SEED = 200, 10, 0
PAUSE = (0.2, 1.0)
"""Seconds that people think."""
MOMENT = (0.5, 4.0)
"""Seconds after the server is back, at the least and at the most, until it is killed."""
SECONDS_TO_COME_BACK = 300.0


class Server:
    """One that is killed and started again at the same place."""

    def __init__(self, model: Path, database: str):
        self.model, self.database, self.port = model, database, free_port()
        self.process: subprocess.Popen[bytes] = start(model, self.port, database)
        self.name = wait(self.port, self.process, is_measured=False)
        self.seconds_away: list[float] = []

    async def kill(self) -> None:
        began = time.perf_counter()
        stop(self.process, signal.SIGKILL)
        self.process = start(self.model, self.port, self.database)
        await asyncio.to_thread(wait, self.port, self.process, False)
        self.seconds_away.append(time.perf_counter() - began)


async def answering(person: Person, ends: asyncio.Event, pause: tuple[float, float]) -> None:
    """Somebody who does not mind that the server goes away."""
    while not ends.is_set():
        try:
            await person.step()
        except LOST_CONNECTION:
            await person.come_back(time.perf_counter() + SECONDS_TO_COME_BACK)
        await asyncio.sleep(person.random.uniform(*pause))
    person.connection.close()


async def killing(server: Server, ledger: Ledger, n_people: int, n_kills: int, seed: int) -> None:
    """People answer while the server is killed at random moments."""
    ends, moments = asyncio.Event(), random.Random(seed)
    people = [Person(server.port, server.name, seed + 1 + i, ledger) for i in range(n_people)]
    tasks = [asyncio.create_task(answering(person, ends, PAUSE)) for person in people]
    for _ in range(n_kills):
        await asyncio.sleep(moments.uniform(*MOMENT))
        await server.kill()
    await asyncio.sleep(moments.uniform(*MOMENT))
    ends.set()
    await asyncio.gather(*tasks)


def measure(model: Path, n_people: int, n_kills: int, seed: int, database: str | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place = database or f"sqlite:///{Path(folder) / 'sessions.sqlite'}"
        server, ledger = Server(model, place), Ledger()
        try:
            asyncio.run(killing(server, ledger, n_people, n_kills, seed))
        finally:
            stop(server.process, signal.SIGKILL)
        found = ledger.compared_with(place)
    return {
        "database": place.split(":", 1)[0],
        "n_kills": n_kills,
        **found,
        "n_cut_off": ledger.n_cut_off,
        "n_errors": len(ledger.errors),
        "errors": ledger.errors[:5],
        "seconds_away": sum(server.seconds_away) / max(1, len(server.seconds_away)),
    }


def measure_all(
    model: Path, databases: list[str | None], n_people: int, n_kills: int, seed: int, note: str = ""
) -> dict[str, Any]:
    rows = [measure(model, n_people, n_kills, seed, database) for database in databases]
    about = {"model": model.name, "people": n_people, "seed": seed, "note": note, "load_average": load_average()}
    return {**about, "rows": rows, "where": {**where("cpu"), "processor": cpu()}}


def page(measured: dict[str, Any]) -> str:
    head = ("database", "kills", "sessions", "confirmed", "lost", "no reply", "kept all the same", "errors", "away s")
    rows = [
        (
            row["database"],
            row["n_kills"],
            f"{row['n_sessions']:,}",
            f"{row['n_confirmed']:,}",
            row["n_lost"],
            f"{row['n_cut_off']:,}",
            row["n_kept_unconfirmed"],
            row["n_errors"],
            figure(row["seconds_away"]),
        )
        for row in measured["rows"]
    ]
    n_lost = sum(row["n_lost"] + row["n_errors"] for row in measured["rows"])
    verdict = "Nothing that was confirmed is lost." if not n_lost else f"{n_lost} sessions are not as confirmed."
    return (
        "# Killed in the middle of it\n\n"
        f"{measured['people']} people play {measured['model']} at once, correcting one answer in ten, while the "
        "server is killed with `kill -9` at random moments and started again. Everybody goes on where the session "
        "stood. In the end, every session that the server confirmed is looked up in the database: it must be at the "
        f"confirmed revision with the confirmed answers, in order, or one move further if one was sent. {verdict}\n\n"
        f"{table(head, rows)}\n"
        "*Confirmed* are answers and corrections that the client got a reply to. *No reply* says how often somebody "
        "got none, because the server was killed before it or had gone; each then looked where the session stood and "
        "went on. *Kept all the same* are moves among these that were in the database already. *Away* is the mean "
        "time from a kill to the first reply after it.\n\n"
        "A reply is sent after the transaction is committed. With SQLite (write-ahead log, `synchronous=FULL`) that "
        "is after the operating system was asked to put it on the disk, so a power cut should not lose it either, "
        "as far as the disk keeps its word; that is not measured here. With PostgreSQL it depends on its own "
        "settings (`synchronous_commit`, on by default); for this measurement the database itself was not killed.\n\n"
        f"The load of the machine at the end, other programs included, was {figure(measured['load_average'])}."
        f"{' ' + measured['note'] if measured['note'] else ''} Seed {measured['seed']}.\n\n"
        f"{origin(measured)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; by default the animals of the demonstration")
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--database", action="append", help="besides SQLite; it must be empty; repeatable")
    parser.add_argument("--note", default="", help="a sentence about the circumstances, for the page")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    model = (given.model or default_models()[0]).resolve()
    databases: list[str | None] = [None, *(given.database or [])]
    measured = measure_all(model, databases, given.people, given.kills, given.seed, given.note)
    print(save(measured, page, "survival", given.out))


if __name__ == "__main__":
    main()
