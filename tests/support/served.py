"""Servers for tests: a real uvicorn on a free port of the loopback."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import uvicorn

from pursuit.methods import METHODS
from pursuit.web.serving.app import make_app
from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.running import OPTIONS, bound
from pursuit.web.serving.store import Store

SECONDS = 120


def letters_model(folder: Path) -> Path:
    """A model of twelve yes/no questions, learnt in a moment and saved into the folder."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 4, 300)
    yes = {f"q{i}": draw.random(300) < 0.2 + 0.2 * ((y + i) % 4) for i in range(12)}
    frame = pd.DataFrame({name: np.where(own, "yes", "no") for name, own in yes.items()})
    fitted = METHODS["naive-bayes"].build(None, random_state=0, stop="confidence=0.9999")
    fitted.fit(frame, np.array([*"abcd"])[y]).save(folder, {"task": {"name": "letters"}})
    return folder


class PromptServer(uvicorn.Server):
    """Looks a hundred times a second, not ten, whether it is to stop."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)


@contextmanager
def running(
    models: ServedModels, database: str, server: dict[str, Any] | None = None, **options: Any
) -> Iterator[httpx.Client]:
    """A client of a server in this process, with `options` of ours and of uvicorn's `server`."""
    named = ("routers", "token", "operator_token", "rates", "api_keys", "webhook_secret")
    own = {name: options.pop(name) for name in named if name in options}
    app = make_app(models, Store(database), ServingOptions(**options), **own)
    listening = bound("127.0.0.1", 0)
    own = PromptServer(uvicorn.Config(app, **{**OPTIONS, **(server or {})}))
    thread = threading.Thread(target=own.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not own.started:
            assert thread.is_alive()
            time.sleep(0.01)
        with client_of(listening.getsockname()[1]) as client:
            client.stop = lambda: setattr(own, "should_exit", True)  # type: ignore[attr-defined]
            yield client
    finally:
        own.should_exit = True
        thread.join(SECONDS)


def client_of(port: int) -> httpx.Client:
    """Without certificates, which take longer to read than most tests take."""
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, trust_env=False, verify=False)


@contextmanager
def program(*arguments: str | Path, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`pursuit serve` as a process of its own, until it is stopped."""
    command = [sys.executable, "-m", "pursuit", "serve", "--no-open", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})}
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def port_of(process: subprocess.Popen[str]) -> int:
    """Where it serves, once it says so."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("Open http://"):
            return int(line.split()[1].rsplit(":", 1)[1])
    raise AssertionError("".join(said))


def begin(client: httpx.Client, model: str = "illness", **more: Any) -> dict[str, Any]:
    answer = client.post("/api/sessions", json={"model": model, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def move(client: httpx.Client, session: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    """The session after a move."""
    answer = try_move(client, session, name, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def try_move(client: httpx.Client, session: dict[str, Any], name: str, **more: Any) -> httpx.Response:
    body = {"move": name, "revision": session["revision"], **more}
    return client.post(f"/api/sessions/{session['id']}/moves", json=body)


def play(client: httpx.Client, session: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    """Answer until the session is done; what has no answer is not known."""
    for _ in range(100):
        if session["state"]["done"]:
            return session
        answer = answers.get(session["state"]["question"]["name"])
        session = move(client, session, "tell", answer=answer)
    raise AssertionError("it does not end")


def without_clock(session: dict[str, Any], ignored: Sequence[str] = ("id", "revision", "created", "updated")) -> Any:
    return {name: value for name, value in session.items() if name not in ignored}
