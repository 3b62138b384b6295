"""How the server is started: settings, a socket, one process or several, and connections that may not stay open for
nothing."""

import asyncio
import dataclasses
import errno
import ipaddress
import json
import logging
import os
import signal
import socket
import threading
import time
import webbrowser
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import torch
import uvicorn
from fastapi import APIRouter
from uvicorn.protocols.http.h11_impl import H11Protocol

from pursuit.web.serving.app import make_app
from pursuit.web.serving.auth import network_of
from pursuit.web.serving.models import FindSamples, Measure, load_models
from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.security import HEADERS, MOST_HEADER_BYTES, UNREADABLE, Guard
from pursuit.web.serving.store import Store, default_database

SECONDS_TO_SEND = 60.0
"""For one request with its body, and for a client that does not read its answer. A picture of 5 MB comes in time at a
megabit a second."""
SECONDS_IDLE = 15
"""How long a connection waits for the next request."""
MOST_CONNECTIONS = 4000
"""At once, in one process: three hundred browsers with six each, twice. Fewer where fewer files may be open."""
BACKLOG = 1024
"""How many may wait to be connected, and are connected in one moment."""
OTHER_FILES = 200
"""How many files and connections a process may have open besides those of its clients."""
SHARE_TO_END = 20
"""One in so many connections ends where room is made."""
CROWDED = "Too many connections are open. Try again in a few seconds."


def backlog() -> int:
    """How many connections are accepted in one moment: an eighth of the files that may be open, at most."""
    return min(BACKLOG, _files() // 8)


def most_connections() -> int:
    """How many connections there is room for, those included that are accepted before they are counted."""
    return min(MOST_CONNECTIONS, _files() - backlog() - min(OTHER_FILES, _files() // 4))


def _files() -> int:
    """How many files this process may have open."""
    enough = MOST_CONNECTIONS + BACKLOG + OTHER_FILES
    try:
        import resource
    except ImportError:  # not every system counts them
        return enough
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return enough if soft == resource.RLIM_INFINITY else min(soft, enough)


def allow_many_files() -> None:
    """Let the process have as many files open as it may have clients, where the system lets it."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + BACKLOG + OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Connection(H11Protocol):
    """uvicorn's, which by itself waits without end for the rest of a request, and knows no limit for an address."""

    _deadline: asyncio.TimerHandle | None = None
    _since = 0.0
    """When it last had nothing to answer."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > most_connections() and not self._make_room():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, CROWDED)
        else:
            self._set_deadline()

    def _make_room(self) -> bool:
        """End the connections that have waited longest, of the address that has the most; whether there were any. What
        is being answered goes on, so a proxy, from which everybody comes, loses nothing but idle connections."""
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        waiting = [one for one in others if one._is_waiting]
        if not waiting:
            return False
        address, _ = Counter(one._address for one in waiting).most_common(1)[0]
        longest = sorted((one for one in waiting if one._address == address), key=lambda one: one._since)
        for one in longest[: max(1, len(self.connections) // SHARE_TO_END)]:
            one.transport.abort()
        return True

    @property
    def _address(self) -> str:
        return "" if self.client is None else network_of(self.client[0])

    @property
    def _is_waiting(self) -> bool:
        """Whether it waits for the client, to send a request or to read the answer."""
        if self.transport.is_closing():
            return False
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._set_deadline()
        else:  # all of the request is here
            self._clear_deadline()

    def on_response_complete(self) -> None:
        if self.conn.their_state is not h11.SEND_BODY:  # of a body that nobody wanted the rest may still come
            self._clear_deadline()
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_deadline()  # for the client to read on

    def resume_writing(self) -> None:
        super().resume_writing()
        self._clear_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, UNREADABLE)

    def _set_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(SECONDS_TO_SEND, self._cut_off)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer by itself, since no application hears of it."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # a refusal cannot be appended to a response that has begun
            return
        content = json.dumps({"message": message}).encode()
        sent = {
            **HEADERS,
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            "Connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode() + content)
        self.transport.close()


SETTINGS_VARIABLE = "PURSUIT_SERVE_SETTINGS"
"""How the processes of a server get to know its settings."""
SECONDS_TO_FINISH = 5
"""How long requests have to finish once the server stops."""
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
    uvicorn.run(factory, factory=True, workers=n, fd=listening.fileno(), **settings.options)


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
