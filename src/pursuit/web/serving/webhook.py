"""What another program is told at the end of an interview: signed, tried again where that fails, and logged."""

import hashlib
import hmac
import json
import logging
import queue
import threading
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from pursuit.version import __version__
from pursuit.web.serving import schemas
from pursuit.web.serving.security import SHOWN_OF_ID

SECRET_VARIABLE = "PURSUIT_WEBHOOK_SECRET"
LEAST_CHARACTERS = 16
PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each further attempt."""
PATIENCE = 10.0
"""Seconds that the other program has to answer."""
MOST_WAITING = 10_000
SECONDS_BETWEEN_LOOKS = 0.2
logger = logging.getLogger("pursuit.webhook")


def signature(secret: str, moment: int, body: bytes) -> str:
    """What the header X-Pursuit-Signature holds: the moment, and a keyed hash of it and the body."""
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Answers go where the operator said, and nowhere else."""


class Webhook:
    """Sends what was found out to an address, in a thread of its own: nobody who answers waits for it."""

    def __init__(self, url: str, secret: str | None):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"A webhook is an address that begins with https:// or http://, not '{url}'.")
        if secret is None or len(secret) < LEAST_CHARACTERS:
            raise ValueError(
                f"What is sent to a webhook is signed: put a secret of at least {LEAST_CHARACTERS} characters into "
                f"{SECRET_VARIABLE}, and give it to the program that receives it."
            )
        self._url, self._secret = url, secret
        self._shown = f"{parts.scheme}://{parts.hostname}"
        self._waiting: queue.PriorityQueue[tuple[float, int, str, bytes]] = queue.PriorityQueue()
        """When each is due, the number of the attempt, whose end it is, and what to send."""
        self._opener = urllib.request.build_opener(_NoRedirect)

    def run(self, ends: threading.Event) -> None:
        """Send until the server ends; what waits then is not sent, which is logged."""
        while not ends.is_set():
            try:
                due, n, name, body = self._waiting.get(timeout=SECONDS_BETWEEN_LOOKS)
            except queue.Empty:
                continue
            if due > time.monotonic():
                self._waiting.put((due, n, name, body))
                ends.wait(SECONDS_BETWEEN_LOOKS)
            else:
                self._send(n, name, body)
        if n_left := self._waiting.qsize():
            logger.error("%d interviews that ended were not sent to %s: the server ends.", n_left, self._shown)

    def note_end(self, session: schemas.Session) -> None:
        """Let an interview that ended be sent."""
        name, body = session.id[:SHOWN_OF_ID], json.dumps(content(session), ensure_ascii=False).encode()
        if self._waiting.qsize() >= MOST_WAITING:
            logger.error("The end of %s… is not sent to %s: too many wait already.", name, self._shown)
        else:
            self._waiting.put((time.monotonic(), 1, name, body))

    def _send(self, n: int, name: str, body: bytes) -> None:
        """The attempt of this number; one that fails is made again later, and others go on meanwhile."""
        problem = self._attempt(body)
        if problem is None:
            logger.info("The end of %s… was sent to %s at attempt %d.", name, self._shown, n)
            return
        is_last = n > len(PAUSES)
        logger.log(
            logging.ERROR if is_last else logging.WARNING,
            "The end of %s… could not be sent to %s at attempt %d (%s)%s.",
            *(name, self._shown, n, problem, ", and is given up" if is_last else ""),
        )
        if not is_last:
            self._waiting.put((time.monotonic() + PAUSES[n - 1], n + 1, name, body))

    def _attempt(self, body: bytes) -> str | None:
        """What went wrong, if anything."""
        moment = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"pursuit/{__version__}",
            "X-Pursuit-Signature": signature(self._secret, moment, body),
        }
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=PATIENCE) as reply:
                return None if 200 <= reply.status < 300 else f"status {reply.status}"
        except OSError as error:
            return f"status {error.code}" if hasattr(error, "code") else type(error).__name__


def content(session: schemas.Session) -> dict[str, Any]:
    """What is sent: the result, and all that was said."""
    result = session.state.result
    return {
        "event": "interview.ended",
        "session": session.id,
        "model": session.model,
        "ended": session.updated.isoformat(),
        "result": None if result is None else result.label,
        "probability": None if result is None else result.probability,
        "decided": None if result is None else result.decided,
        "answers": [
            {"name": one.question.name, "question": one.question.text, "answer": one.shown}
            for one in session.state.given
        ],
    }
