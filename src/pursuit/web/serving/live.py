"""Sessions that are kept in memory, so that a move need not make all moves before it again."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from pursuit.inference.session import Session
from pursuit.web.serving.store import StoredSession

MOST = 1000


class LiveSession(NamedTuple):
    stored: StoredSession
    """As it was written last by this process; another one may have written since."""
    session: Session


class LiveSessions:
    """The sessions used last, each at one revision. Whoever takes one has it for himself, until he puts it back."""

    def __init__(self, most: int = MOST):
        self._most = most
        self._sessions: OrderedDict[str, LiveSession] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, session_id: str, revision: int) -> LiveSession | None:
        """The session at this revision; None where it has to be made again."""
        with self._lock:
            kept = self._sessions.pop(session_id, None)
        return None if kept is None or kept.stored.revision != revision else kept

    def put(self, stored: StoredSession, session: Session) -> None:
        with self._lock:
            self._sessions[stored.id] = LiveSession(stored, session)
            self._sessions.move_to_end(stored.id)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)

    def drop(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)

    def __len__(self) -> int:
        return len(self._sessions)
