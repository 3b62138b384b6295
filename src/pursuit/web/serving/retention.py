"""How long sessions are kept, and how many: what is too old is deleted for good."""

import datetime
import logging
import threading

from sqlalchemy.exc import SQLAlchemyError

from pursuit.web.serving.options import ServingOptions
from pursuit.web.serving.problems import Full
from pursuit.web.serving.store import Store, now

SECONDS_BETWEEN = 600.0
"""Between looks."""
logger = logging.getLogger("pursuit.serving")


class RetentionLoop:
    """Looks now and then what is too old, and whether there is room.

    Sessions are kept without end unless somebody says how many `days` after their last change: to delete what people
    told, and what it really was, without being asked to would be a loss. Whoever asks strangers should say how many.
    Once there are `most_sessions`, none is begun until some are deleted.
    """

    def __init__(self, store: Store, days: float | None = None, most_sessions: int = ServingOptions.most_sessions):
        self.store, self.days, self.most_sessions = store, days, most_sessions
        self._n_at_last_look, self._n_since = 0, 0
        self._lock = threading.Lock()

    def run(self, ends: threading.Event) -> None:
        """Look until the server `ends`."""
        while True:
            try:
                self.look()
            except SQLAlchemyError as error:  # people are told of it when they need the database
                logger.warning("Old sessions could not be deleted: %s", type(error).__name__)
            if ends.wait(SECONDS_BETWEEN):
                return

    def look(self) -> int:
        """Delete what is too old, and count the rest; gives how many were deleted."""
        n_deleted = 0
        if self.days is not None:
            n_deleted = self.store.delete_older(now() - datetime.timedelta(days=self.days))
        count = self.store.count()
        with self._lock:
            self._n_at_last_look, self._n_since = count, 0
        return n_deleted

    def note_new(self) -> None:
        """One more session is to be kept; raises Full where there is no room. Several processes may keep a few more
        than they should until the next look."""
        with self._lock:
            if self._n_at_last_look + self._n_since >= self.most_sessions:
                raise Full("There is no room for another session here. Whoever runs the server can delete old ones.")
            self._n_since += 1

    def note_deleted(self) -> None:
        with self._lock:
            self._n_since -= 1
