"""Sessions that are kept in memory, so that a move need not make all moves before it again."""

import threading
from collections import OrderedDict

from pursuit.inference.session import Session

MOST = 1000


class LiveSessions:
    """The sessions used last, each at one revision. Whoever takes one has it for himself, until he puts it back."""

    def __init__(self, most: int = MOST):
        self._most = most
        self._sessions: OrderedDict[str, tuple[int, str, Session]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, session_id: str, revision: int, fingerprint: str) -> Session | None:
        """The session at this revision, with this model; None where it has to be made again."""
        with self._lock:
            kept = self._sessions.pop(session_id, None)
        return None if kept is None or kept[:2] != (revision, fingerprint) else kept[2]

    def put(self, session_id: str, revision: int, fingerprint: str, session: Session) -> None:
        with self._lock:
            self._sessions[session_id] = revision, fingerprint, session
            self._sessions.move_to_end(session_id)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)

    def drop(self, session_id: str) -> None:
        with self._lock:
            self._sessions.pop(session_id, None)

    def __len__(self) -> int:
        return len(self._sessions)
