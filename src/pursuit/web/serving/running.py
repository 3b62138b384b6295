"""How the server is started: settings, a socket, one process or several."""

import dataclasses
import errno
import ipaddress
import json
import os
import socket
import threading
import webbrowser
from dataclasses import dataclass
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI

from pursuit.web.serving.app import make_app
from pursuit.web.serving.models import FindSamples, Measure, load_models
from pursuit.web.serving.store import Store, default_database

SETTINGS_VARIABLE = "PURSUIT_SERVE_SETTINGS"
"""How the processes of a server get to know its settings."""
OPTIONS: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
BACKLOG = 1024
SECONDS_TO_FINISH = 5
"""How long requests have to finish once the server stops."""


@dataclass(frozen=True)
class Settings:
    """What is served, and for whom."""

    models: tuple[str, ...]
    """Folders."""
    database: str | None = None
    stop: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def make_app(self, measure: Measure, find_samples: FindSamples) -> tuple[FastAPI, str]:
        """The application, and where it keeps sessions; raises ValueError or OSError saying what is wrong."""
        torch.set_num_threads(1)  # sessions are small, and many may run at once
        models = load_models(self.models, self.stop, measure, find_samples)
        store = Store(self.database or default_database())
        return make_app(models, store, hosts=self.hosts, origins=self.origins), store.place

    def to_environment(self) -> None:
        os.environ[SETTINGS_VARIABLE] = json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_environment(cls) -> "Settings":
        values: dict[str, Any] = json.loads(os.environ[SETTINGS_VARIABLE])
        lists: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises ValueError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family)
    if os.name == "posix":
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)  # from now on people may come, and wait until everything is loaded
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"Port {port} is in use; perhaps another server runs already. Take another with --port {port + 1}, or "
                "any that is free with --port 0."
            ) from None
        if error.errno == errno.EACCES:
            raise ValueError(f"You may not listen on port {port}: take one above 1024, as in --port 8000.") from None
        raise ValueError(f"The server cannot listen on {host}: give an address of this machine with --host.") from None
    return found


def address_of(host: str, port: int) -> str:
    """What to open in a browser."""
    name = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(app: FastAPI, listening: socket.socket, show: str | None = None) -> None:
    """Serve until somebody stops it; `show` is the address to open in a browser."""
    config = uvicorn.Config(app, timeout_graceful_shutdown=SECONDS_TO_FINISH, **OPTIONS)
    if show is not None:
        threading.Timer(1.0, webbrowser.open, [show]).start()
    uvicorn.Server(config).run(sockets=[listening])


def run_workers(factory: str, settings: Settings, listening: socket.socket, n: int) -> None:
    """The same with several processes, each with an application of its own; `factory` is where it is made."""
    settings.to_environment()
    options = {**OPTIONS, "timeout_graceful_shutdown": SECONDS_TO_FINISH}
    uvicorn.run(factory, factory=True, workers=n, fd=listening.fileno(), **options)
