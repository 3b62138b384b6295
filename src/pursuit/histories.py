"""The distributions of histories to train on: random, or biased by the current querier.

A sampler gives one `Batch` a training step and is told which queries the querier chose in it. All randomness comes from
the generator it is given, and its whole state can be saved, so that training goes on after a crash as if nothing
happened.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pursuit.history import History
from pursuit.pursuer import Pursuer, choose
from pursuit.rows import Rows, RowStream


class Batch(NamedTuple):
    rows: Rows
    history: History


class Sampler(ABC):
    """Gives batches of histories and hears what the querier chose in them."""

    asks_querier = False
    """Whether `draw` runs the querier."""

    def __init__(self, stream: RowStream, batch_size: int, max_queries: int | None, generator: torch.Generator):
        self.stream, self.batch_size, self.generator = stream, batch_size, generator
        n_queries = stream.n_queries
        self.max_queries = n_queries if max_queries is None else min(max_queries, n_queries)

    @abstractmethod
    def draw(self, pursuer: Pursuer) -> Batch:
        """The histories of the next training step."""

    def advance(self, query: Tensor) -> None:
        """Hear the queries (B,) chosen for the histories drawn last."""
        return

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        return None

    def _lengths(self, n: int, at_most: int, skew: float = 1.0) -> Tensor:
        """Lengths from 0 to `at_most` (n,): uniform, or with more short ones where `skew` is above 1."""
        share = torch.rand(n, generator=self.generator, device=self.generator.device) ** skew
        return (share * (at_most + 1)).long().clamp(max=at_most)


@dataclass(frozen=True)
class RandomHistories:
    """k uniform on 0..max_queries (all queries by default), then k queries uniformly: the paper's initial random
    sampling."""

    max_queries: int | None = None

    def __post_init__(self) -> None:
        _check_length(self.max_queries, 0)

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _RandomSampler(stream, batch_size, self.max_queries, generator)


@dataclass(frozen=True)
class RolledOutHistories:
    """k uniform on 0..max_queries, then the first k queries of the current querier: the paper's subsequent biased
    sampling."""

    max_queries: int | None = None

    def __post_init__(self) -> None:
        _check_length(self.max_queries, 0)

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _RolledOutSampler(stream, batch_size, self.max_queries, generator)


@dataclass(frozen=True)
class CarriedHistories:
    """Biased histories for the price of one forward pass: every row carries its own chain on from step to step.

    A chain starts anew with a fresh row after `max_queries` steps, so that its length is uniform on 0..max_queries - 1;
    one with nothing left to ask waits till then. The share `random_share` of each batch has random histories instead,
    which keep the classifier good off the beaten track. Queries are those chosen while training, dropout included, by
    weights a few steps older than the next.
    """

    max_queries: int | None = None
    random_share: float = 0.25
    random_skew: float = 1.0
    """Random histories have the length u**random_skew times the number of queries, u uniform: above 1, short ones are
    more frequent."""

    def __post_init__(self) -> None:
        _check_length(self.max_queries, 1)
        if not self.random_skew > 0:
            raise ValueError(f"random_skew is the power of a share, above 0, not {self.random_skew}.")
        if not 0 <= self.random_share < 1:
            raise ValueError(f"random_share is a share of the batch, at least 0 and below 1, not {self.random_share}.")

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _CarriedSampler(stream, batch_size, self, generator)


def _check_length(max_queries: int | None, least: int) -> None:
    if max_queries is not None and max_queries < least:
        raise ValueError(f"max_queries is the greatest length of a history, at least {least}, not {max_queries}.")


HistorySettings = RandomHistories | RolledOutHistories | CarriedHistories


def random_histories(rows: Rows, k: Tensor, generator: torch.Generator) -> History:
    """Histories in which k (B,) queries, chosen uniformly, were asked on top of the opening."""
    opened = rows.start().asked
    # What the opening has already given comes last in the order, so that k queries come on top of it.
    order = (torch.rand(opened.shape, generator=generator, device=generator.device) + opened).argsort(dim=1)
    first_k = torch.arange(order.shape[1], device=order.device) < k[:, None]
    asked = torch.zeros_like(opened).scatter(1, order, first_k) | opened
    return History(rows.x, asked & rows.available, asked)


@torch.no_grad()
def rolled_out_histories(rows: Rows, k: Tensor, pursuer: Pursuer) -> History:
    """Histories of the first k (B,) queries the pursuer asks each row; rows that have theirs are not computed
    further."""
    history = rows.start()
    known, asked = history.known.clone(), history.asked.clone()
    for step in range(int(k.max()) if len(k) else 0):
        going = (k > step).nonzero()[:, 0]
        part = History(rows.x[going], known[going], asked[going])
        part = part.ask(choose(pursuer.scores(part), part.asked), rows.available[going])
        known[going], asked[going] = part.known, part.asked
    return History(rows.x, known, asked)


class _RandomSampler(Sampler):
    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.next(self.batch_size)
        return Batch(rows, random_histories(rows, self._lengths(len(rows), self.max_queries), self.generator))


class _RolledOutSampler(Sampler):
    asks_querier = True

    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.next(self.batch_size)
        # After all queries nothing is left to choose, so that a rolled-out history stops one short.
        k = self._lengths(len(rows), min(self.max_queries, rows.n_queries - 1))
        return Batch(rows, rolled_out_histories(rows, k, pursuer))


class _CarriedSampler(Sampler):
    def __init__(
        self,
        stream: RowStream,
        batch_size: int,
        settings: CarriedHistories,
        generator: torch.Generator,
    ):
        super().__init__(stream, batch_size, settings.max_queries, generator)
        self.n_random, self.random_skew = round(batch_size * settings.random_share), settings.random_skew
        self.rows = stream.next(batch_size - self.n_random)
        self.history = self.rows.start()
        # Chains begin at different ages, lest all rows of a batch be at the same step. Ages follow from nothing but the
        # number of steps, so that they are kept in main memory, where looking at them does not hold up a GPU.
        self.age = self._lengths(len(self.rows), self.max_queries - 1).cpu()

    def draw(self, pursuer: Pursuer) -> Batch:
        if not self.n_random:
            return Batch(self.rows, self.history)
        fresh = self.stream.next(self.n_random)
        k = self._lengths(len(fresh), fresh.n_queries, self.random_skew)
        drawn = random_histories(fresh, k, self.generator)
        x = torch.cat([self.history.x, drawn.x])
        rows = Rows(x, torch.cat([self.rows.available, fresh.available]), torch.cat([self.rows.y, fresh.y]))
        return Batch(
            rows, History(x, torch.cat([self.history.known, drawn.known]), torch.cat([self.history.asked, drawn.asked]))
        )

    def advance(self, query: Tensor) -> None:
        history = self.history.ask(query[: len(self.rows)], self.rows.available)
        age = self.age + 1
        ended = (age >= self.max_queries).nonzero()[:, 0]
        done = ended.to(history.known.device)
        fresh = self.stream.next(len(ended))
        start = fresh.start()
        x, available, y, known, asked = (
            old.index_copy(0, done, new)
            for old, new in (
                (self.rows.x, fresh.x),
                (self.rows.available, fresh.available),
                (self.rows.y, fresh.y),
                (history.known, start.known),
                (history.asked, start.asked),
            )
        )
        self._set(x, available, y, known, asked, age.index_fill(0, ended, 0))

    def _set(self, x: Tensor, available: Tensor, y: Tensor, known: Tensor, asked: Tensor, age: Tensor) -> None:
        self.rows, self.history, self.age = Rows(x, available, y), History(x, known, asked), age

    def state(self) -> dict[str, Tensor]:
        rows, history = self.rows, self.history
        return {
            "x": rows.x,
            "available": rows.available,
            "y": rows.y,
            "known": history.known,
            "asked": history.asked,
            "age": self.age,
        }

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._set(**{**state, "age": state["age"].cpu()})
