"""Rows of files as an endless stream: a buffer is emptied in random order while a thread fills the next."""

import queue
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pursuit.data.parquet.arrow_files import ArrowTable, Piece
from pursuit.data.rows import Rows, RowStream

if TYPE_CHECKING:
    import pyarrow as pa

LAST_CHUNK = 10.0
"""Seconds a thread has to finish the chunk it is reading when it is no longer needed."""
Buffer = tuple[int, int, Rows, Tensor]
"""The number of its pass, its own number in it, its rows, and the order to give them in."""


class StreamSource(Protocol):
    """What a stream reads from."""

    table: ArrowTable
    n_queries: int
    buffer_rows: int
    device: torch.device

    def known_beforehand(self) -> Tensor | None:
        """(1, Q) what is known of every row before anything is asked; None: nothing."""

    def __len__(self) -> int:
        """How many rows are learnt from."""

    def pieces_to_learn_from(self) -> list[Piece]:
        """The pieces with any row to learn from."""

    def chunks(self, piece: Piece) -> "Iterator[tuple[int, pa.Table]]":
        """The rows of a piece in chunks, each with the number of its first row."""

    def rows_to_learn_from(self, first: int, chunk: "pa.Table") -> Rows | None:
        """Those rows of a chunk that are learnt from, in the answer space; None if there are none."""


class ParquetStream(RowStream):
    """An endless stream of the rows: every pass goes through all row groups in a new order, buffer after buffer.

    While rows are taken from one buffer, a thread reads the next.
    """

    def __init__(self, source: StreamSource, generator: torch.Generator):
        if not len(source):
            raise ValueError("There are no rows to train on: give more rows, or fewer shards.")
        self.source, self.n_queries = source, source.n_queries
        self._seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        self._ready: dict[int, Rows] = {}
        """The next rows, for every n in the same memory each time, where a recorded step finds them."""
        self._beforehand = source.known_beforehand()
        self._begin(0, 0, 0)

    def _begin(self, number: int, buffer: int, position: int) -> None:
        self._pass, self._buffer, self._position = number, buffer, position
        self._rows: Rows | None = None
        self._order = torch.empty(0, dtype=torch.long)
        self._ahead: _Ahead | None = None

    def prepare(self, n: int) -> None:
        parts: list[Rows] = []
        wanted = n
        while wanted > 0 or not parts:
            rows = self._refilled()
            part = self._order[self._position : self._position + wanted]
            self._position += len(part)
            wanted -= len(part)
            parts.append(rows.take(part))
        rows = parts[0] if len(parts) == 1 else _joined(parts)
        if n not in self._ready:
            self._ready[n] = rows
        else:
            for place, tensor in zip(_tensors(self._ready[n]), _tensors(rows), strict=True):
                place.copy_(tensor)

    def take(self, n: int) -> Rows:
        known = None if self._beforehand is None else self._beforehand.expand(n, -1)
        x, available, y = (tensor.clone() for tensor in _tensors(self._ready[n]))
        return Rows(x, available, y, known)

    def _refilled(self) -> Rows:
        """The buffer, or the next one once it is empty."""
        if self._rows is None or self._position == len(self._order):
            if self._ahead is None:
                self._ahead = _Ahead(partial(_buffers, self.source, self._seed, self._pass, self._buffer))
            resumed_at = self._position if self._rows is None else 0
            self._rows = None  # freed before the next but one is read
            self._pass, self._buffer, rows, order = self._ahead.take()
            self._rows, self._order = rows.to(self.source.device), order.to(self.source.device)
            self._position = resumed_at
        return self._rows

    def state(self) -> dict[str, Tensor]:
        return {"place": torch.tensor([self._seed, self._pass, self._buffer, self._position])}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._seed, number, buffer, position = state["place"].tolist()
        self._begin(number, buffer, position)


def _buffers(source: StreamSource, seed: int, number: int, buffer: int, ended: Callable[[], bool]) -> Iterator[Buffer]:
    """Buffers without end, starting with one of a pass."""
    while True:
        n_given = 0
        for i, rows in _buffers_of_pass(source, seed, number, buffer, ended):
            n_given += len(rows)
            order = np.random.default_rng([seed, number, i]).permutation(len(rows))
            if len(rows):
                yield number, i, rows, torch.from_numpy(order)
        if ended():
            return
        if buffer == 0 and n_given != len(source):
            raise ValueError(
                f"{source.table.name} had {len(source):,} rows to learn from and now has {n_given:,}: leave the files "
                "as they are while training reads them, and start again."
            )
        number, buffer = number + 1, 0


def _buffers_of_pass(
    source: StreamSource, seed: int, number: int, buffer: int, ended: Callable[[], bool]
) -> Iterator[tuple[int, Rows]]:
    """The buffers of one pass. They are of equal size, counted in rows of the files, so that where one begins is known
    without reading those before it."""
    pieces = source.pieces_to_learn_from()
    order = np.random.default_rng([seed, number]).permutation(len(pieces))
    total = sum(piece.n_rows for piece in pieces)
    n_buffers = -(-total // source.buffer_rows)
    edges = [total * i // n_buffers for i in range(n_buffers + 1)]
    place, filling = edges[buffer], _Filling(edges[buffer + 1] - edges[buffer])
    for first, chunk in _chunks(source, [pieces[i] for i in order], place):
        while len(chunk):
            if ended():
                return
            now = chunk.slice(0, edges[buffer + 1] - place)
            rows = source.rows_to_learn_from(first, now)
            if rows is not None:
                filling.add(rows)
            chunk, first, place = chunk.slice(len(now)), first + len(now), place + len(now)
            if place == edges[buffer + 1]:
                yield buffer, filling.rows()
                buffer += 1
                if buffer < n_buffers:
                    filling = _Filling(edges[buffer + 1] - edges[buffer])


def _chunks(source: StreamSource, pieces: Sequence[Piece], place: int) -> Iterator[tuple[int, "pa.Table"]]:
    """The rows of pieces one after the other, without the first `place`."""
    for piece in pieces:
        if place < piece.n_rows:
            yield from source.chunks(piece.part(place, piece.n_rows))
        place = max(0, place - piece.n_rows)


class _Filling:
    """A buffer being filled: memory for all its rows, some of which may be left out."""

    def __init__(self, capacity: int):
        self.capacity, self.n = capacity, 0
        self.x = self.available = self.y = torch.empty(0)

    def add(self, rows: Rows) -> None:
        if not self.n:
            self.x, self.available, self.y = (
                # numpy's memory goes back to the system when it is freed; torch's need not if another thread frees it
                torch.from_numpy(np.empty((self.capacity, *tensor.shape[1:]), dtype=tensor.numpy().dtype))
                for tensor in _tensors(rows)
            )
        for whole, part in zip((self.x, self.available, self.y), _tensors(rows), strict=True):
            whole[self.n : self.n + len(rows)] = part
        self.n += len(rows)

    def rows(self) -> Rows:
        return Rows(self.x[: self.n], self.available[: self.n], self.y[: self.n])


def _tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    return rows.x, rows.available, rows.y


def _joined(parts: list[Rows]) -> Rows:
    return Rows(*(torch.cat(tensors) for tensors in zip(*map(_tensors, parts), strict=True)))


class _Ahead:
    """Runs an iterator in a thread, one item ahead of what is taken."""

    def __init__(self, items: Callable[[Callable[[], bool]], Iterator[Buffer]]):
        self._made: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._wanted, ended = threading.Semaphore(1), threading.Event()
        # The thread does not refer to this object, so that it ends when the object is collected.
        thread = threading.Thread(
            target=_make, args=(items, self._made, self._wanted, ended), name="parquet-reader", daemon=True
        )
        weakref.finalize(self, _end, thread, self._wanted, ended)  # also when the program ends
        thread.start()

    def take(self) -> Buffer:
        if self._error is None:
            made = self._made.get()
            if not isinstance(made, BaseException):
                self._wanted.release()
                return made
            self._error = made
        raise self._error


def _make(
    items: Callable[[Callable[[], bool]], Iterator[Buffer]],
    made: "queue.SimpleQueue[Any]",
    wanted: threading.Semaphore,
    ended: threading.Event,
) -> None:
    try:
        coming = items(ended.is_set)
        while wanted.acquire() and not ended.is_set():
            made.put(next(coming))
    except StopIteration:  # the iterator saw that it was to end
        return
    except BaseException as error:  # raised where the next item is taken
        made.put(error)


def _end(thread: threading.Thread, wanted: threading.Semaphore, ended: threading.Event) -> None:
    ended.set()
    wanted.release()
    if thread is not threading.current_thread():
        thread.join(LAST_CHUNK)
