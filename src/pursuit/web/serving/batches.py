"""Moves of different people, made together: those that arrive while others are made wait for each other."""

import asyncio

from anyio.to_thread import run_sync

from pursuit.web.serving import schemas
from pursuit.web.serving.interviews import Interviews

MOST_MOVES = 32
"""Maximum size of a batch: larger ones save nothing and delay everyone."""


class MoveBatches:
    """Makes moves in batches. It belongs to one thread, that of the event loop.

    Nobody waits for a batch to fill: who comes alone is answered at once.
    """

    def __init__(self, interviews: Interviews):
        self._interviews = interviews
        self._waiting: list[tuple[str, schemas.Move, asyncio.Future[schemas.Session]]] = []
        self._making: asyncio.Task[None] | None = None

    async def move(self, session_id: str, move: schemas.Move) -> schemas.Session:
        """As `Interviews.move`."""
        found: asyncio.Future[schemas.Session] = asyncio.get_running_loop().create_future()
        self._waiting.append((session_id, move, found))
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return await found

    async def _make(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_MOVES], self._waiting[MOST_MOVES:]
            moves = [(session_id, move) for session_id, move, _ in batch]
            results: list[schemas.Session | Exception]
            try:
                results = await run_sync(self._interviews.move_all, moves, limiter=self._interviews.threads)
            except Exception as error:
                results = [error] * len(batch)
            for (_, _, found), result in zip(batch, results, strict=True):
                if found.done():  # whoever sent it has gone
                    continue
                if isinstance(result, Exception):
                    found.set_exception(result)
                else:
                    found.set_result(result)
        self._making = None
