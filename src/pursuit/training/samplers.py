"""The distributions of histories to train on: random, or biased by the current querier.

A sampler draws one `Batch` a training step for the learner, and is then given the queries that the learner chose in it.
All randomness comes from its generator, and its whole state can be saved, so that training goes on after a crash as if
nothing had happened. Where it `is_static`, every step does the same operations on the same memory, and a GPU can replay
them.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.inference.history import History
from pursuit.inference.incremental import HistoryState, history_state
from pursuit.inference.pursuer import Pursuer, by_groups, choose
from pursuit.registry import register
from pursuit.training.rows import Rows, RowStream


class Batch(NamedTuple):
    """The histories of B rows to learn from.

    Samplers fill in the rows, the training step the rest. A tuple of tensors, so that Fabric and torch.compile can look
    inside.
    """

    x: Tensor  # (B, *answer_shape)
    known: Tensor  # (B, Q) bool
    asked: Tensor  # (B, Q) bool
    available: Tensor  # (B, Q) bool, False where a row has no answer to a query
    y: Tensor  # (B,) class index
    weight: Tensor | None = None
    """(B,) how much each row counts, 1 on average over all rows; None: all the same."""
    target: Tensor | None = None
    """(B, C) the posterior to learn in place of the label; None: the label. Rows without a label have `y` -1."""
    n_chains: int | None = None
    """The first so many histories go on by the queries chosen; None: all of them may."""
    extra: Any = None
    """What the sampler adds for its learner, such as the rewards of what was asked: (B, ...) each."""
    tau: Tensor | float = 1.0
    """The temperature of a relaxed choice of queries, as the stage schedules it."""
    exploration: Tensor | float = 0.0
    """The probability of a random query in place of the chosen one, as the stage schedules it."""
    label_smoothing: float = 0.0
    phase: str = ""
    """The phase that the stage names, for learners that learn one thing after the other."""

    @classmethod
    def of(cls, rows: Rows, history: History, **more: Any) -> "Batch":
        return cls(history.x, history.known, history.asked, rows.available, rows.y, rows.weight, rows.target, **more)

    def take(self, index: Tensor | slice) -> "Batch":
        """Some of the histories, without what the sampler added of all."""
        taken: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[index]
            for name in ("x", "known", "asked", "available", "y", "weight", "target")
        }
        return self._replace(**taken, n_chains=None, extra=None)

    @property
    def history(self) -> History:
        return History(self.x, self.known, self.asked)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of a value of each row (B,), by their weights."""
        return values.mean() if self.weight is None else (values * self.weight).mean()

    def label_loss(self, logits: Tensor, kernel: Tensor | None = None) -> Tensor:
        """The cross-entropy of the targets at `logits` (B, C): the mean over the rows, by their weights. Targets are
        those of teachers, or else the labels; where labels have neighbours, `kernel` (C, C) says how much a row of each
        counts for the others."""
        if self.weight is None:
            return F.cross_entropy(logits, self.targets(kernel), label_smoothing=self.label_smoothing)
        return self.mean(self.label_losses(logits, kernel))

    def label_losses(self, logits: Tensor, kernel: Tensor | None = None) -> Tensor:
        """The same for each row (B,), without weights."""
        smoothing = self.label_smoothing
        return F.cross_entropy(logits, self.targets(kernel), reduction="none", label_smoothing=smoothing)

    def targets(self, kernel: Tensor | None = None) -> Tensor:
        """What classifiers learn: probabilities (B, C), or labels (B,)."""
        if self.target is not None:
            return self.target
        return self.y if kernel is None else kernel[self.y]


class TrainingOutcome(NamedTuple):
    """What a learner makes of a batch."""

    loss: Tensor
    query: Tensor | None = None
    """(B,) what it would ask next in each history; None where it does not choose queries."""


class Sampler(ABC):
    """Draws batches of histories, and goes on from the queries that the learner chose in them."""

    asks_querier = False
    """Whether `draw` runs the querier."""
    is_static = True
    """Whether every step does the same operations on the same memory."""

    def __init__(self, stream: RowStream, batch_size: int, max_queries: int | None, generator: torch.Generator):
        self.stream, self.batch_size, self.generator = stream, batch_size, generator
        n_queries = stream.n_queries
        self.max_queries = n_queries if max_queries is None else min(max_queries, n_queries)
        self.rows_a_step = batch_size
        """How many rows a step takes from the stream."""

    def prepare(self) -> None:
        """The host's part of the next step, before `draw`."""
        self.stream.prepare(self.rows_a_step)

    @abstractmethod
    def draw(self, pursuer: Pursuer) -> Batch:
        """The histories of the next training step."""

    def advance(self, query: Tensor | None) -> None:
        """Go on from the queries (B,) chosen for the histories drawn last; None if the learner chooses none."""
        return

    def state(self) -> dict[str, Tensor]:
        return {}

    def load_state(self, state: dict[str, Tensor]) -> None:
        return None

    def _lengths(self, n: int, at_most: int, skew: float = 1.0) -> Tensor:
        """Lengths from 0 to `at_most` (n,): uniform, or with more short ones where `skew` is above 1."""
        share = torch.rand(n, generator=self.generator, device=self.generator.device) ** skew
        return (share * (at_most + 1)).long().clamp(max=at_most)


@register
@dataclass(frozen=True)
class RandomHistories:
    """k uniform on 0..max_queries (all queries by default), then k queries uniformly: the paper's initial random
    sampling."""

    registry_kind: ClassVar[str] = "histories"
    max_queries: int | None = None

    def __post_init__(self) -> None:
        _check_length(self.max_queries, 0)

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _RandomSampler(stream, batch_size, self.max_queries, generator)


@register
@dataclass(frozen=True)
class RolledOutHistories:
    """k uniform on 0..max_queries, then the first k queries of the current querier: the paper's subsequent biased
    sampling."""

    registry_kind: ClassVar[str] = "histories"
    max_queries: int | None = None

    def __post_init__(self) -> None:
        _check_length(self.max_queries, 0)

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _RolledOutSampler(stream, batch_size, self.max_queries, generator)


@register
@dataclass(frozen=True)
class CarriedHistories:
    """Biased histories for the price of one forward pass: every row carries its own chain on from step to step.

    A chain starts again with a fresh row after `max_queries` steps, so that its length is uniform on
    0..max_queries - 1; one with nothing left to ask waits until then. The share `random_share` of each batch has random
    histories instead, which keep the classifier usable off the querier's path. Queries are those chosen while training,
    dropout included, by weights a few steps older than the next.
    """

    registry_kind: ClassVar[str] = "histories"
    max_queries: int | None = None
    random_share: float = 0.25
    random_skew: float = 1.0
    """Random histories have the length u**random_skew times the number of queries, u uniform: above 1, short ones are
    more frequent."""
    complete_share: float = 0.0
    """Share of the random histories that know all answers."""

    def __post_init__(self) -> None:
        _check_length(self.max_queries, 1)
        if not 0 <= self.complete_share <= 1:
            raise ValueError(f"complete_share is a share of the random histories, 0 to 1, not {self.complete_share}.")
        if not self.random_skew > 0:
            raise ValueError(f"random_skew is the power of a share, above 0, not {self.random_skew}.")
        if not 0 <= self.random_share < 1:
            raise ValueError(f"random_share is a share of the batch, at least 0 and below 1, not {self.random_share}.")

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _CarriedSampler(stream, batch_size, self, generator)


def _check_length(max_queries: int | None, least: int) -> None:
    if max_queries is not None and max_queries < least:
        raise ValueError(f"max_queries is the greatest length of a history, at least {least}, not {max_queries}.")


class HistorySettings(Protocol):
    """A distribution of histories, as frozen settings: those above, or a method's own."""

    @property
    def max_queries(self) -> int | None:
        """The greatest length of a history; None: all queries."""

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler: ...


def random_histories(
    rows: Rows, k: Tensor, generator: torch.Generator, first_of_group: Tensor | None = None
) -> History:
    """Histories in which k (B,) queries, chosen uniformly, were asked on top of what is initially known. Where there
    are groups (`first_of_group` of a query set), every other row is asked whole ones, so that both are learnt from:
    histories as they are once a group was asked, and those in the midst of it."""
    given = rows.start().asked
    place = torch.rand(given.shape, generator=generator, device=generator.device)
    if first_of_group is not None:
        place[::2] = place[::2, first_of_group]
    # What is initially known comes last in the order, so that k queries come on top of it.
    order = (place + given).argsort(dim=1)
    first_k = torch.arange(order.shape[1], device=order.device) < k[:, None]
    asked = torch.zeros_like(given).scatter(1, order, first_k) | given
    return History(rows.x, asked & rows.available, asked)


@torch.no_grad()
def rolled_out_histories(rows: Rows, k: Tensor, pursuer: Pursuer) -> History:
    """Histories of the first k (B,) queries the pursuer asks each row; rows that have theirs are not computed
    further."""
    # Longest first, so that the rows still going are always the first ones; how many is known before the first step.
    k, order = k.sort(descending=True)
    n_going = (k.cpu()[:, None] > torch.arange(int(k[0]) if len(k) else 0)).sum(dim=0)
    some = rows.take(order)
    start = some.start()
    known, asked = start.known.clone(), start.asked.clone()
    state, n_in_state = history_state(pursuer, start), len(rows)
    for n in n_going.tolist():
        if n < n_in_state:
            state.keep(torch.arange(n, device=order.device))
            n_in_state = n
        _ask_next(pursuer, state, some.x[:n], some.available[:n], known[:n], asked[:n])
    back = order.argsort()
    return History(rows.x, known[back], asked[back])


@torch.no_grad()
def rolled_out_together(rows: Rows, k: Tensor, n_steps: int, pursuer: Pursuer) -> History:
    """The same histories by the same operations whatever k is, for a GPU to replay: every row is asked `n_steps`
    queries, and keeps the first k."""
    start = rows.start()
    state, known, asked = history_state(pursuer, start), start.known.clone(), start.asked.clone()
    history = start
    for step in range(n_steps):
        _ask_next(pursuer, state, rows.x, rows.available, known, asked)
        goes_on = (k > step)[:, None]
        history = History(
            rows.x, torch.where(goes_on, known, history.known), torch.where(goes_on, asked, history.asked)
        )
    return history


def _ask_next(
    pursuer: Pursuer, state: HistoryState, x: Tensor, available: Tensor, known: Tensor, asked: Tensor
) -> None:
    """Ask each row the pursuer's next query, and note it in the state, and in `known` and `asked` (B, Q), in place."""
    allowed = pursuer.query_set.allowed(x, known, asked)
    closed = asked if allowed is None else ~allowed
    query = choose(by_groups(pursuer, state.scores(), closed), closed)
    state.ask(query, _record(query, available, known, asked, allowed))


def _record(query: Tensor, available: Tensor, known: Tensor, asked: Tensor, allowed: Tensor | None) -> Tensor:
    """Note in `known` and `asked` (B, Q), in place, that each row was asked its `query` (B,); whether it was answered:
    (B,). A query that is not `allowed` (B, Q) was not asked: the row waits, because nothing is open."""
    column = query[:, None]
    answered = available.gather(1, column)
    if allowed is None:
        asked.scatter_(1, column, True)
    else:
        is_open = allowed.gather(1, column)
        answered = answered & is_open
        asked.scatter_(1, column, asked.gather(1, column) | is_open)
    known.scatter_(1, column, known.gather(1, column) | answered)
    return answered[:, 0]


class _RandomSampler(Sampler):
    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        k = self._lengths(len(rows), self.max_queries)
        return Batch.of(rows, random_histories(rows, k, self.generator, pursuer.query_set.first_of_group))


class _RolledOutSampler(Sampler):
    asks_querier = True

    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        # After all queries nothing is left to choose, so that a rolled-out history stops one short.
        n_steps = min(self.max_queries, rows.n_queries - 1)
        k = self._lengths(len(rows), n_steps)
        if rows.x.is_cuda:
            return Batch.of(rows, rolled_out_together(rows, k, n_steps, pursuer))
        return Batch.of(rows, rolled_out_histories(rows, k, pursuer))


class _CarriedSampler(Sampler):
    """The first rows of a batch carry chains, the last ones have random histories; all stay where they are in memory.

    Row i of the n that carry chains starts again in every step s with s mod K = floor(i K / n), K being the length of
    chains: which rows those are follows from s alone, and their number differs by at most one from step to step.
    """

    def __init__(self, stream: RowStream, batch_size: int, settings: CarriedHistories, generator: torch.Generator):
        super().__init__(stream, batch_size, settings.max_queries, generator)
        self.n_random, self.random_skew = round(batch_size * settings.random_share), settings.random_skew
        self.n_complete = round(self.n_random * settings.complete_share)
        self.n_carried = batch_size - self.n_random
        self.n_ending = math.ceil(self.n_carried / self.max_queries)  # at most, in a step
        self.rows_a_step = self.n_random + self.n_ending
        first = stream.next(batch_size)
        start = first.start()
        weight, target = (None if part is None else part.clone() for part in (first.weight, first.target))
        self.rows = Rows(first.x.clone(), first.available.clone(), first.y.clone(), weight=weight, target=target)
        self.history = History(self.rows.x, start.known.clone(), start.asked.clone())
        self.step = torch.zeros((), dtype=torch.long, device=first.y.device)

    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        drawn, self._fresh = rows.take(slice(self.n_random)), rows.take(slice(self.n_random, None))
        k = self._lengths(self.n_random, rows.n_queries, self.random_skew)
        k[: self.n_complete] = rows.n_queries
        history = random_histories(drawn, k, self.generator, pursuer.query_set.first_of_group)
        for name, new in _tensors(drawn, history).items():
            self._batch()[name][self.n_carried :] = new
        self._query_set = pursuer.query_set
        return Batch.of(self.rows, self.history, n_chains=self.n_carried)

    def _batch(self) -> dict[str, Tensor]:
        return _tensors(self.rows, self.history)

    def advance(self, query: Tensor | None) -> None:
        if query is None:
            raise ValueError(
                "CarriedHistories go on by the learner's queries, but it chooses none: use RandomHistories."
            )
        now = self._carried()
        known, asked = now["known"], now["asked"]
        allowed = self._query_set.allowed(now["x"], known, asked)
        query = query[: self.n_carried]
        _record(query, now["available"], known, asked, allowed)
        if allowed is not None:
            together = self._query_set.whole_groups(F.one_hot(query, known.shape[1]).float()) > 0
            together &= allowed
            asked |= together
            known |= together & now["available"]
        self._start_again()
        self.step += 1

    def _carried(self) -> dict[str, Tensor]:
        return {name: tensor[: self.n_carried] for name, tensor in self._batch().items()}

    def _start_again(self) -> None:
        """Put fresh rows where chains end in this step."""
        n, turn = self.n_carried, self.step % self.max_queries
        first, beyond = (-((-edge * n) // self.max_queries) for edge in (turn, turn + 1))  # rounded up
        fresh = _tensors(self._fresh, self._fresh.start())
        if not turn.is_cuda:  # where rows may be found by numbers that are not recorded
            ending = slice(int(first), int(beyond))
            for name, old in self._carried().items():
                old[ending] = fresh[name][: ending.stop - ending.start]
            return
        place = first + torch.arange(self.n_ending, device=first.device)
        ends = place < beyond  # the last may be one too many, and is put back
        place = place % n
        for name, old in self._carried().items():
            old[place] = torch.where(ends.view(-1, *[1] * (old.dim() - 1)), fresh[name], old[place])

    def state(self) -> dict[str, Tensor]:
        return {"step": self.step.clone(), **{name: tensor.clone() for name, tensor in self._carried().items()}}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.step.copy_(state["step"])
        for name, tensor in self._carried().items():
            tensor.copy_(state[name])


def _tensors(rows: Rows, history: History) -> dict[str, Tensor]:
    """The tensors of carried rows by name; weights and targets only where rows have them."""
    optional = {"weight": rows.weight, "target": rows.target}
    there = {name: tensor for name, tensor in optional.items() if tensor is not None}
    return (
        {"x": rows.x, "available": rows.available, "y": rows.y}
        | {"known": history.known, "asked": history.asked}
        | there
    )
