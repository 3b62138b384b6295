"""How the server is started: settings, a socket, one process or several."""

import dataclasses
import errno
import gc
import ipaddress
import json
import logging
import os
import signal
import socket
import threading
import time
import webbrowser
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import uvicorn
from fastapi import APIRouter

from pursuit.web.serving.app import make_app
from pursuit.web.serving.connections import BACKLOG, SECONDS_IDLE, Connection, allow_many_files, backlog
from pursuit.web.serving.models import FindSamples, Measure, load_models
from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.security import MOST_HEADER_BYTES, Guard
from pursuit.web.serving.store import Store, default_database

SETTINGS_VARIABLE = "PURSUIT_SERVE_SETTINGS"
"""How the processes of a server get to know its settings."""
SECONDS_TO_FINISH = 5
"""How long requests have to finish once the server stops."""
STARTING_SECONDS = 60
"""How long one of several processes may not answer before it is replaced: on a busy machine it takes long to start."""
PARENT_VARIABLE = "PURSUIT_SERVE_PARENT"
OPTIONS: dict[str, Any] = {
    "log_level": "warning",
    "access_log": False,  # it would write down what people search for
    "server_header": False,
    "proxy_headers": False,  # or anybody could say that he comes from elsewhere
    "http": Connection,
    "ws": "none",
    "h11_max_incomplete_event_size": MOST_HEADER_BYTES,
    "timeout_keep_alive": SECONDS_IDLE,
    "timeout_graceful_shutdown": SECONDS_TO_FINISH,
}
SECONDS_BETWEEN_LOOKS = 1.0
"""Whether the process that started this one is still there."""
QUIET_SECONDS = 60.0
"""Between two lines of the log that say the same."""
MOST_KINDS = 1000
"""Of lines, that are told apart."""
OBJECTS_BETWEEN = 10_000
"""How many more there are before Python looks for cycles: those of twenty steps."""


@dataclass(frozen=True)
class Settings(ServingOptions):
    """What is served, and for whom."""

    models: tuple[str, ...]
    """Folders."""
    token: str | None = None
    operator_token: str | None = None
    api_keys: dict[str, str] | None = None
    webhook_secret: str | None = None

    def __post_init__(self) -> None:
        try:
            ipaddress.ip_network(self.proxy or "127.0.0.1")
        except ValueError:  # "*" would let anybody say where he comes from
            raise ValueError(
                f"The proxy is named by its address or network, as in --behind-proxy 127.0.0.1, not by '{self.proxy}'."
            ) from None

    def make_app(
        self, measure: Measure, find_samples: FindSamples, routers: Sequence[APIRouter] = ()
    ) -> tuple[Guard, str]:
        """The application, and where it keeps sessions; raises ValueError or OSError saying what is wrong."""
        torch.set_num_threads(1)  # sessions are small, and many may run at once
        models = load_models(self.models, self.stop, measure, find_samples, self.also or ())
        store = Store(self.database or default_database(self.models))
        _log_seldom()
        if self.logs_requests:
            _log_lines("pursuit.requests")
        if self.webhook is not None:
            _log_lines("pursuit.webhook")
        secrets: dict[str, Any] = {"token": self.token, "operator_token": self.operator_token}
        secrets |= {"api_keys": self.api_keys, "webhook_secret": self.webhook_secret}
        app = make_app(models, store, self, routers=routers, **secrets, ends_process=True)
        _collect_seldom()
        return app, store.place

    @property
    def options(self) -> dict[str, Any]:
        """Of uvicorn."""
        own = {**OPTIONS, "backlog": backlog()}
        if self.proxy is None:
            return own
        return {**own, "proxy_headers": True, "forwarded_allow_ips": self.proxy}

    def to_environment(self) -> None:
        os.environ[SETTINGS_VARIABLE] = json.dumps(dataclasses.asdict(self))
        os.environ[PARENT_VARIABLE] = str(os.getpid())

    @classmethod
    def from_environment(cls) -> "Settings":
        values: dict[str, Any] = json.loads(os.environ[SETTINGS_VARIABLE])
        return cls(**{**values, "models": tuple(values["models"])})


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises ValueError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is named does asyncio send each part of an answer at once: they would wait for 40 ms.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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


def run(app: Guard, settings: Settings, listening: socket.socket, show: str | None = None) -> None:
    """Serve until somebody stops it; `show` is the address to open in a browser."""
    allow_many_files()
    if show is not None:
        threading.Timer(1.0, webbrowser.open, [show]).start()
    uvicorn.Server(uvicorn.Config(app, **settings.options)).run(sockets=[listening])


def run_workers(factory: str, settings: Settings, listening: socket.socket, n: int) -> None:
    """The same with several processes, each with an application of its own; `factory` is where it is made."""
    allow_many_files()
    settings.to_environment()
    options: dict[str, Any] = {**settings.options, "timeout_worker_healthcheck": STARTING_SECONDS}
    uvicorn.run(factory, factory=True, workers=n, fd=listening.fileno(), **options)


def end_with_parent() -> None:
    """Let this process stop once the one that started it is gone, which kill -9 does not let it say."""
    parent = int(os.environ[PARENT_VARIABLE])  # it may be gone by now

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS_BETWEEN_LOOKS)
        os.kill(os.getpid(), signal.SIGTERM)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


class Seldom(logging.Filter):
    """Lets a kind of line through once a minute: whoever makes the server complain cannot fill its disk."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        super().__init__()
        self._clock = clock
        self._kinds: OrderedDict[str, tuple[float, int]] = OrderedDict()  # when it was let through, and how many since

    def filter(self, record: logging.LogRecord) -> bool:
        told, now = record.getMessage(), self._clock()
        kind = f"{record.levelname} {told.splitlines()[0] if told else ''}"
        last, n_since = self._kinds.pop(kind, (-QUIET_SECONDS, 0))
        if is_let_through := now - last >= QUIET_SECONDS:
            if n_since:
                record.msg, record.args = f"{told} ({n_since:,} more since this was last said.)", ()
            last, n_since = now, -1
        self._kinds[kind] = last, n_since + 1
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)
        return is_let_through


def _collect_seldom() -> None:
    """Let Python look for cycles of objects among those of sessions alone, and once in many steps: by itself it looks
    at all that is loaded, too, while everybody waits."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN)


def _log_seldom() -> None:
    for name in ("pursuit.serving", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, Seldom) for one in logger.filters):
            logger.addFilter(Seldom())


def _log_lines(name: str) -> None:
    """Write all lines of a log, of requests or of what a webhook is sent, to the standard error."""
    logger = logging.getLogger(name)
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
