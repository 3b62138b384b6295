"""How long a step of a session takes through the API, with many people at once: docs/results/serving.md.

python benchmarks/serving.py                        # the animals of the demonstration, a minute
python benchmarks/serving.py --model runs/mine      # a model of your own
python benchmarks/serving.py --people 5 --seconds 3 --out /tmp/results
"""

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pursuit.cli.served_models import default_models
from report import RESULTS, cpu, figure, origin, save, table, where
from timing import quantile

PEOPLE, SECONDS = 50, 20.0
MOST_STEPS = 20_000
PAUSES = {"a second between answers": (0.5, 1.5), "no pause at all": (0.0, 0.0)}
"""How long people think before they answer, at least and at most: nobody reads a question in less."""
GOAL_MS = 15.0
SECONDS_TO_START = 300


@dataclass
class Load:
    """What people met with."""

    steps: list[float] = field(default_factory=list)
    """Seconds of every answer."""
    begins: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Connection:
    """A connection that stays open. It does as little as possible, because it runs on the machine that is measured."""

    def __init__(self, port: int):
        self._port = port

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length:", 1)[1].split("\r\n", 1)[0])
        return int(answer.split(" ", 2)[1]), json.loads(await self._reader.readexactly(length))

    def close(self) -> None:
        self._writer.close()


async def person(port: int, model: str, pause: tuple[float, float], until: float, seed: int, load: Load) -> None:
    """Somebody who answers anything, and begins again when the model is sure."""
    random_answers, connection = random.Random(seed), Connection(port)
    await connection.open()
    session: dict[str, Any] | None = None
    while (now := time.perf_counter()) < until and len(load.steps) < MOST_STEPS:
        if session is None or session["state"]["done"]:
            path, body, times = "/api/sessions", {"model": model}, load.begins
        else:
            question = session["state"]["question"]
            answer = random_answers.choice([*(choice["value"] for choice in question["choices"]), None])
            body = {"move": "tell", "answer": answer, "revision": session["revision"]}
            path, times = f"/api/sessions/{session['id']}/moves", load.steps
        status, found = await connection.post(path, body)
        times.append(time.perf_counter() - now)
        if status in (200, 201):
            session = found
        else:
            load.errors.append(f"{status} {found['message']}")
        await asyncio.sleep(random_answers.uniform(*pause))
    connection.close()


async def crowd(port: int, model: str, n: int, pause: tuple[float, float], seconds: float) -> Load:
    """All of them at once."""
    load, until = Load(), time.perf_counter() + seconds
    await asyncio.gather(*(person(port, model, pause, until, seed, load) for seed in range(n)))
    return load


@contextmanager
def server(model: Path, workers: int, folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """`pursuit serve` as a process of its own, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    database = f"sqlite:///{folder / 'sessions.sqlite'}"
    options = ["--no-open", "--port", str(port), "--database", database, "--workers", str(workers)]
    command = [sys.executable, "-m", "pursuit", "serve", str(model), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait(port, process)
        yield port, process
    finally:
        process.terminate()
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the server answers, and has measured its model."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and process.poll() is None:
        if (found := _models(port)) and found["models"][0]["is_measured"]:
            return
        time.sleep(0.5)
    raise SystemExit("The server did not start.")


def _models(port: int) -> dict[str, Any] | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(b"GET /api/models HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        found: dict[str, Any] = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    except (OSError, IndexError):
        return None
    return found


def cpu_seconds(process: subprocess.Popen[bytes]) -> float | None:
    """What a process has used of the processor, where the system says so."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(model: Path, n_people: int, seconds: float, workers: int, note: str = "") -> dict[str, Any]:
    """Every kind of load in turn."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, server(model, workers, Path(folder)) as (port, process):
        found = _models(port)
        assert found is not None
        model_id = found["models"][0]["id"]
        asyncio.run(crowd(port, model_id, 2, (0.0, 0.0), min(2.0, seconds)))  # the first of everything is slow
        for name, pause in PAUSES.items():
            before, began = cpu_seconds(process), time.perf_counter()
            load = asyncio.run(crowd(port, model_id, n_people, pause, seconds))
            took, after = time.perf_counter() - began, cpu_seconds(process)
            used = None if before is None or after is None or workers > 1 else after - before
            n = len(load.steps) + len(load.begins)
            rows.append(
                {
                    "pause": name,
                    "n_steps": len(load.steps),
                    "n_begins": len(load.begins),
                    "n_errors": len(load.errors),
                    "errors": load.errors[:3],
                    "steps_per_second": len(load.steps) / took,
                    "median_ms": 1000 * quantile(load.steps, 0.5),
                    "p95_ms": 1000 * quantile(load.steps, 0.95),
                    "p99_ms": 1000 * quantile(load.steps, 0.99),
                    "cpu_ms": None if used is None else 1000 * used / n,
                }
            )
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    setting = {"model": model.name, "people": n_people, "workers": workers, "seconds": seconds, "cores": os.cpu_count()}
    return {**setting, "load_average": busy, "note": note, "rows": rows, "where": {**where("cpu"), "processor": cpu()}}


def page(measured: dict[str, Any]) -> str:
    rows = [
        (
            row["pause"],
            f"{row['n_steps']:,}",
            row["n_errors"],
            figure(row["steps_per_second"]),
            figure(row["median_ms"]),
            figure(row["p95_ms"]),
            figure(row["p99_ms"]),
            figure(row["cpu_ms"]),
        )
        for row in measured["rows"]
    ]
    first = measured["rows"][0]
    verdict = "met" if first["median_ms"] < GOAL_MS and not first["n_errors"] else "missed"
    head = ("people make", "steps", "errors", "steps/s", "median ms", "95 % ms", "99 % ms", "processor ms a step")
    return (
        "# A session step through the API\n\n"
        f"{measured['people']} people at once play {measured['model']} on {measured['cores']} cores; the server "
        f"({measured['workers']} process) and the people are on the same machine. A step sends an answer, keeps it in "
        "SQLite, and gets the next question with the belief. "
        f"The goal, a median below {GOAL_MS:g} ms without an error while people think about a second, is {verdict}. "
        "Without any pause the server is full, and steps wait for each other.\n\n"
        f"{table(head, rows)}\n"
        f"The load of the machine at the end, other programs included, was {figure(measured['load_average'])}."
        f"{' ' + measured['note'] if measured['note'] else ''}\n\n"
        f"{origin(measured)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder; by default the animals of the demonstration")
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each kind of load")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--note", default="", help="a sentence about the circumstances, for the page")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    model = given.model or default_models()[0]
    print(save(measure(model, given.people, given.seconds, given.workers, given.note), page, "serving", given.out))


if __name__ == "__main__":
    main()
