"""Many people at a server of its own process: what they send, what it confirms, and whether it has kept that."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import free_port
from pursuit.web.serving.store import Store

SECONDS_TO_START = 300
SHARE_CHANGED = 0.1
"""How often somebody corrects an earlier answer instead of giving the next one."""
LOST_CONNECTION = (ConnectionError, asyncio.IncompleteReadError, OSError)
Answers = list[tuple[str, Any]]
"""What was told, by the name of the question, in order."""


class Connection:
    """A connection that stays open. It does as little as possible, because it runs on the machine that is measured."""

    def __init__(self, port: int):
        self._port = port
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        if self._writer is None:
            await self.open()
        assert self._writer is not None
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length:", 1)[1].split("\r\n", 1)[0])
        return int(answer.split(" ", 2)[1]), json.loads(await self._reader.readexactly(length))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@dataclass
class Receipt:
    """What the server confirmed of a session, and what was sent after that and is not confirmed yet."""

    revision: int
    answers: Answers
    under_way: Answers | None = None

    def confirm(self, revision: int) -> None:
        """What was sent has been kept."""
        assert self.under_way is not None
        self.revision, self.answers, self.under_way = revision, self.under_way, None


@dataclass
class Ledger:
    """What all people were told."""

    receipts: dict[str, Receipt] = field(default_factory=dict)
    n_confirmed: int = 0
    """Answers and corrections."""
    errors: list[str] = field(default_factory=list)
    n_cut_off: int = 0
    """How often somebody got no reply, because the server had gone away."""
    n_kept_unconfirmed: int = 0
    """How often the move without a reply was kept all the same."""

    def compared_with(self, database: str) -> dict[str, Any]:
        """What the database holds of it: every session at the revision that was confirmed, with those answers, or one
        move further, where that was sent."""
        store, lost, n_unconfirmed = Store(database), [], self.n_kept_unconfirmed
        for session_id, receipt in self.receipts.items():
            stored = store.read(session_id)
            if stored is None:
                lost.append(f"{session_id}: it is not there")
                continue
            told = [(move["query"], move["answer"]) for move in stored.moves["moves"] if move["move"] == "tell"]
            if (stored.revision, told) == (receipt.revision, receipt.answers):
                continue
            if (stored.revision, told) == (receipt.revision + 1, receipt.under_way):
                n_unconfirmed += 1
            else:
                lost.append(f"{session_id}: revision {stored.revision}, but {receipt.revision} was confirmed")
        store.close()
        return {
            "n_sessions": len(self.receipts),
            "n_confirmed": self.n_confirmed,
            "n_lost": len(lost),
            "lost": lost[:5],
            "n_kept_unconfirmed": n_unconfirmed,
        }


class Person:
    """Somebody who answers anything, corrects himself now and then, and begins again when the model is sure."""

    def __init__(self, port: int, model: str, seed: int, ledger: Ledger):
        self.connection, self.model, self.ledger = Connection(port), model, ledger
        self.random = random.Random(seed)
        self.session: dict[str, Any] | None = None

    async def step(self) -> tuple[str, float]:
        """One request: "begin" or "answer", and how many seconds it took."""
        if self.session is None or self.session["state"]["done"]:
            return "begin", await self._begin()
        return "answer", await self._answer(self.session)

    async def _begin(self) -> float:
        began = time.perf_counter()
        status, found = await self.connection.call("POST", "/api/sessions", {"model": self.model})
        took = time.perf_counter() - began
        if self._is_well(status, found):
            self.session = found
            self.ledger.receipts[found["id"]] = Receipt(found["revision"], [])
        return took

    async def _answer(self, session: dict[str, Any]) -> float:
        receipt, question = self.ledger.receipts[session["id"]], session["state"]["question"]
        answers = receipt.answers
        if answers and self.random.random() < SHARE_CHANGED:
            place = self.random.randrange(len(answers))
            name, before = answers[place]
            other = {"yes": "no", "no": "yes", None: "yes"}.get(before, before)
            body: dict[str, Any] = {"move": "change", "query": name, "answer": other}
            receipt.under_way = [*answers[:place], (name, other), *answers[place + 1 :]]
        else:
            answer = self.random.choice([*(choice["value"] for choice in question["choices"]), None])
            body = {"move": "tell", "answer": answer}
            receipt.under_way = [*answers, (question["name"], answer)]
        began = time.perf_counter()
        path = f"/api/sessions/{session['id']}/moves"
        status, found = await self.connection.call("POST", path, {**body, "revision": session["revision"]})
        took = time.perf_counter() - began
        if self._is_well(status, found):
            receipt.confirm(found["revision"])
            self.session = found
            self.ledger.n_confirmed += 1
        return took

    async def come_back(self, until: float) -> None:
        """After the server was away: find it again, and see where the session stands."""
        self.connection.close()
        self.ledger.n_cut_off += 1
        while time.perf_counter() < until:
            try:
                if self.session is not None:
                    await self._look(self.session["id"])
                return
            except LOST_CONNECTION:
                self.connection.close()
                await asyncio.sleep(0.2)

    async def _look(self, session_id: str) -> None:
        status, found = await self.connection.call("GET", f"/api/sessions/{session_id}")
        if not self._is_well(status, found):
            self.session = None
            return
        receipt = self.ledger.receipts[session_id]
        if found["revision"] == receipt.revision + 1 and receipt.under_way is not None:
            receipt.confirm(found["revision"])
            self.ledger.n_kept_unconfirmed += 1
        elif found["revision"] != receipt.revision:
            self.ledger.errors.append(f"revision {found['revision']} after {receipt.revision} was confirmed")
        self.session = found

    def _is_well(self, status: int, found: dict[str, Any]) -> bool:
        if status not in (200, 201):
            self.ledger.errors.append(f"{status} {found.get('message')}")
        return status in (200, 201)


# ---- a server


class Server:
    """`pursuit serve` as a process of its own, without limits for an address, because all people here have one; it can
    be killed, and is then started again at the same place."""

    def __init__(self, model: Path, database: str, workers: int = 1):
        self.port = free_port()
        options = ["--no-open", "--port", str(self.port), "--database", database, "--workers", str(workers)]
        options += ["--rate", "0", "--new-sessions", "0"]
        self.command = [sys.executable, "-m", "pursuit", "serve", str(model), *options]
        self.seconds_away: list[float] = []

    def __enter__(self) -> "Server":
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        self.model = self._wait(is_measured=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    async def kill(self) -> None:
        began = time.perf_counter()
        self.process.kill()
        self.process.wait()
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        await asyncio.to_thread(self._wait, is_measured=False)
        self.seconds_away.append(time.perf_counter() - began)

    def _wait(self, is_measured: bool) -> str:
        """Until the server answers, and perhaps has measured its model; gives the model's id."""
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/models", timeout=30) as answer:
                    model = json.load(answer)["models"][0]
                if model["is_measured"] or not is_measured:
                    return str(model["id"])
            except OSError:
                pass
            time.sleep(0.2)
        raise TimeoutError("The server did not start.")

    def cpu_seconds(self) -> float:
        """What its process has used of the processor."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


HELLO = """
import sys
import uvicorn
from fastapi import FastAPI

app = FastAPI()

@app.post("/hello")
async def hello(body: dict) -> dict:
    return {"message": "hello"}

uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", http="h11", access_log=False)
"""


async def hellos_per_second(people: int, seconds: float) -> float:
    """How often a plain FastAPI application of one process says hello to as many people who do not pause: the limit of
    this machine and of these clients."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", HELLO, str(port)])
    count, ends = 0, time.perf_counter() + SECONDS_TO_START

    async def ask(connection: Connection) -> None:
        nonlocal count
        while time.perf_counter() < ends:
            await connection.call("POST", "/hello", {"answer": "yes"})
            count += 1
        connection.close()

    try:
        first = Connection(port)
        while True:
            try:
                await first.open()
                break
            except LOST_CONNECTION:
                await asyncio.sleep(0.2)
        first.close()
        began, ends = time.perf_counter(), time.perf_counter() + seconds
        await asyncio.gather(*(ask(Connection(port)) for _ in range(people)))
        return count / (time.perf_counter() - began)
    finally:
        process.terminate()
        process.wait()
