"""Connections that may not stay open for nothing: who sends or reads too slowly is cut off, and in a crowd the address
with the most connections makes room.

A process of the server imports this before it can say that it lives, so nothing here takes long to import."""

import asyncio
import json
from collections import Counter
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pursuit.web.serving.auth import network_of
from pursuit.web.serving.security import HEADERS, UNREADABLE

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
