"""Connections that may not stay open for nothing: whoever sends or reads too slowly is cut off."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pursuit.web.serving.security import HEADERS

SECONDS_TO_SEND = 60.0
"""For one request with its body, and for a client that does not read its answer. A picture of 5 MB comes in time at a
megabit a second."""
SECONDS_IDLE = 15
"""How long a connection waits for the next request."""
MOST_HEADER_BYTES = 16_384
"""Of an address with all headers."""
MOST_CONNECTIONS = 4000
"""At once, in one process: three hundred browsers with six each, twice."""
UNREADABLE = (
    f"This is not a request that can be read: it must be HTTP, with at most {MOST_HEADER_BYTES // 1024} kB of address "
    "and headers."
)
CROWDED = "Too many connections are open. Try again in a few seconds."


class Connection(H11Protocol):
    """uvicorn's, which by itself waits without end for the rest of a request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, CROWDED)
        else:
            self._set_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._set_deadline()
        else:  # all of the request is here
            self._clear_deadline()

    def on_response_complete(self) -> None:
        if self.conn.their_state is not h11.SEND_BODY:  # of a body that nobody wanted the rest may still come
            self._clear_deadline()
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
