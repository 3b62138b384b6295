"""What rivals that learn by reinforcement share: a policy, and the roll-outs that it learns from.

While it learns, a policy asks by chance, by the softmax of its scores over what was not asked yet; in use it asks what
it scores highest. A roll-out takes fresh rows, asks each of them up to T queries, and notes what was asked and how it
paid; training steps then draw their batches from those notes until the next roll-out.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.following import follow
from pursuit.histories import Batch, Sampler, random_histories
from pursuit.history import History
from pursuit.learner import NetworkPair
from pursuit.pursuer import Pursuer, choose
from pursuit.rows import Rows, RowStream
from pursuit.vip import ASKED


class Noted(NamedTuple):
    """What was noted of B queries of a roll-out: (B,) each."""

    query: Tensor
    log_prob: Tensor
    """Of the query, when it was asked."""
    advantage: Tensor
    """By how much its rewards surpass what the policy expected, in standard deviations of the roll-out."""
    counts: Tensor
    """Whether a query was asked at all: not in histories drawn at random, nor where nothing was left to ask."""


class Standing(NamedTuple):
    """Where B rows stand in a roll-out of `n_steps` queries."""

    history: History
    log_posterior: Tensor  # (B, C)
    y: Tensor  # (B,)
    n_left: int
    n_steps: int


class Policy(NetworkPair):
    """A querier that learns what to ask from rewards, and a classifier that learns to believe from what was asked."""

    @abstractmethod
    def reward(self, before: Standing, after: Standing, is_last: Tensor) -> Tensor:
        """How one query paid, which was or was not the last of a row: (B,)."""

    @abstractmethod
    def value(self, standing: Standing) -> Tensor:
        """The rewards to expect from here on (B,), which may tell by the true label."""

    @abstractmethod
    def asking_loss(self, log_policy: Tensor, noted: Noted) -> Tensor:
        """What to minimise to ask better, by the log probabilities (B, Q) of all queries."""

    def forward(
        self,
        x: Tensor,
        known: Tensor,
        asked: Tensor,
        available: Tensor,
        y: Tensor,
        tau: Tensor | float,
        label_smoothing: float = 0.0,
        *more: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The cross-entropy after the answers that were noted plus what asking has to learn, and the queries asked.

        Without notes (of rows that are held out) it is the cross-entropy after the best query.
        """
        known = known.to(x.dtype)
        scores = self.querier(self.see(x, known)).float()
        noted = Noted(*more) if more else None
        query, counts = (noted.query, noted.counts) if noted else (choose(scores, asked), ~asked.all(dim=1))
        revealed = F.one_hot(query, asked.shape[1]) * counts[:, None] * available
        logits = self.classifier(self.see(x, torch.maximum(known, revealed.to(x.dtype)))).float()
        loss = F.cross_entropy(logits, y, label_smoothing=label_smoothing)
        if noted:
            loss = loss + self.asking_loss(log_policy(scores, asked), noted)
        return loss, query


def log_policy(scores: Tensor, asked: Tensor) -> Tensor:
    """The log probability of every query to be asked next (B, Q); all alike where everything was asked."""
    return scores.float().masked_fill(asked, ASKED).log_softmax(dim=1)


def entropy(log_policy: Tensor) -> Tensor:
    """Of what is asked next: (B,)."""
    return -(log_policy.exp() * log_policy).sum(dim=1)


def mean_where(values: Tensor, counts: Tensor) -> Tensor:
    """The mean of those values (B,) that count; 0 if none does."""
    return (values * counts).sum() / counts.sum().clamp(min=1)


@dataclass(frozen=True)
class PolicyHistories:
    """The histories of a policy's roll-outs, each with what was asked in it and how that paid.

    The share `random_share` of each batch has random histories instead, for the classifier alone.
    """

    max_queries: int | None = None
    """T, the length of chains."""
    passes: int = 1
    """How often everything in a roll-out is learnt from."""
    discount: float = 1.0
    trace: float = 1.0
    """Share of what lies beyond the next step that an advantage is told by rewards and not by the policy's own value
    (the lambda of generalised advantages)."""
    random_share: float = 0.25

    def __post_init__(self) -> None:
        for name, number in (("max_queries", self.max_queries), ("passes", self.passes)):
            if number is not None and number < 1:
                raise ValueError(f"{name} of a policy's histories is at least 1, not {number}.")
        if not 0 <= self.discount <= 1 or not 0 <= self.trace <= 1:
            raise ValueError(f"discount and trace lie between 0 and 1, not at {self.discount} and {self.trace}.")
        if not 0 <= self.random_share < 1:
            raise ValueError(f"random_share is a share of the batch, at least 0 and below 1, not {self.random_share}.")

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _PolicySampler(stream, batch_size, self, generator)


class _RollOut(NamedTuple):
    """T steps of n rows, and what was noted of them."""

    x: Tensor  # (n, *answer_shape)
    available: Tensor  # (n, Q) bool
    y: Tensor  # (n,)
    known: Tensor  # (T, n, Q) bool, before each query
    asked: Tensor  # (T, n, Q) bool
    query: Tensor  # (T, n), as the rest
    log_prob: Tensor
    advantage: Tensor
    counts: Tensor  # bool

    def at(self, place: Tensor) -> Batch:
        """The steps that lie at these places (B,) among all T x n."""
        row = place % len(self.y)
        x = self.x[row]
        known, asked, *noted = (tensor.flatten(0, 1)[place] for tensor in self[3:])
        return Batch(Rows(x, self.available[row], self.y[row]), History(x, known, asked), Noted(*noted))


@torch.no_grad()
def roll_out(
    policy: Policy, rows: Rows, n_steps: int, settings: PolicyHistories, generator: torch.Generator
) -> _RollOut:
    """Ask every row up to `n_steps` queries, drawn by the policy's probabilities."""
    history = rows.start()
    follower = follow(policy, history)
    standing = Standing(history, follower.log_posterior(), rows.y, n_steps, n_steps)
    steps = []
    for n_left in reversed(range(n_steps)):
        history, counts = standing.history, ~standing.history.asked.all(dim=1)
        probabilities = log_policy(follower.scores(), history.asked)
        # The largest of log p - log e, e exponential, is drawn by the probabilities p.
        chance = torch.empty_like(probabilities).exponential_(generator=generator).log()
        query = choose(probabilities - chance, history.asked)
        answered = rows.available.gather(1, query[:, None])[:, 0] & counts
        follower.ask(query, answered)
        after = Standing(history.told(query, answered), follower.log_posterior(), rows.y, n_left, n_steps)
        is_last = counts & after.history.asked.all(dim=1) if n_left else counts
        reward, value = policy.reward(standing, after, is_last) * counts, policy.value(standing) * counts
        log_prob = probabilities.gather(1, query[:, None])[:, 0]
        steps.append((history.known, history.asked, query, log_prob, reward, value, counts))
        standing = after
    known, asked, query, log_prob, reward, value, counts = (torch.stack(part) for part in zip(*steps, strict=True))
    advantage = advantages(reward, value, settings.discount, settings.trace)
    return _RollOut(
        *(rows.x, rows.available, rows.y, known, asked, query, log_prob), _standardised(advantage, counts), counts
    )


def advantages(reward: Tensor, value: Tensor, discount: float, trace: float) -> Tensor:
    """By how much what came (T, n) surpasses `value`: the rewards themselves with trace=1, and with less of it the
    next values in place of what comes later. Both are 0 once a chain has ended."""
    beyond = torch.zeros_like(reward[0])
    next_value = beyond
    found = []
    for step in reversed(range(len(reward))):
        surprise = reward[step] + discount * next_value - value[step]
        beyond = surprise + discount * trace * beyond
        next_value = value[step]
        found.append(beyond)
    return torch.stack(found[::-1])


def _standardised(advantage: Tensor, counts: Tensor) -> Tensor:
    centred = advantage - mean_where(advantage, counts)
    return centred / mean_where(centred**2, counts).sqrt().clamp(min=1e-6)


class _PolicySampler(Sampler):
    """Rolls out, deals the steps of the roll-out into batches pass after pass, and rolls out again."""

    asks_querier = True
    is_static = False

    def __init__(self, stream: RowStream, batch_size: int, settings: PolicyHistories, generator: torch.Generator):
        super().__init__(stream, batch_size, settings.max_queries, generator)
        self.settings = settings
        self.n_random = min(batch_size - 1, round(batch_size * settings.random_share))
        self.n_own = batch_size - self.n_random  # as many rows are rolled out, so that T batches make a pass
        self.n_dealt = 0  # batches of this roll-out
        self.rolled_out: _RollOut | None = None
        self.order = torch.empty(0, dtype=torch.long, device=generator.device)  # of its steps in this pass

    @property
    def _is_due(self) -> bool:
        return self.rolled_out is None or self.n_dealt == self.max_queries * self.settings.passes

    def prepare(self) -> None:
        self.rows_a_step = self.n_random + self.n_own * self._is_due
        super().prepare()

    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        if self.rolled_out is None or self._is_due:
            assert isinstance(pursuer, Policy)
            fresh = rows.take(slice(self.n_random, None))
            self.rolled_out = roll_out(pursuer, fresh, self.max_queries, self.settings, self.generator)
            self.n_dealt = 0
        number = self.n_dealt % self.max_queries
        if number == 0:
            n_steps = self.n_own * self.max_queries
            self.order = torch.randperm(n_steps, generator=self.generator, device=self.generator.device)
        self.n_dealt += 1
        own = self.rolled_out.at(self.order[number * self.n_own : (number + 1) * self.n_own])
        return _joined(own, self._random(rows.take(slice(self.n_random))))

    def _random(self, rows: Rows) -> Batch:
        history = random_histories(rows, self._lengths(len(rows), rows.n_queries), self.generator)
        nothing = torch.zeros(len(rows), device=rows.y.device)
        return Batch(rows, history, Noted(torch.zeros_like(rows.y), nothing, nothing, nothing.bool()))

    def state(self) -> dict[str, Tensor]:
        if self.rolled_out is None:
            return {}
        return {"n_dealt": torch.tensor(self.n_dealt), "order": self.order, **self.rolled_out._asdict()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        if not state:
            return
        self.n_dealt, self.order = int(state["n_dealt"]), state["order"].to(self.order.device)
        self.rolled_out = _RollOut(*(state[name].to(self.order.device) for name in _RollOut._fields))


def _joined(one: Batch, other: Batch) -> Batch:
    x, available, y = (
        torch.cat(pair)
        for pair in zip(
            (one.rows.x, one.rows.available, one.rows.y),
            (other.rows.x, other.rows.available, other.rows.y),
            strict=True,
        )
    )
    known = torch.cat([one.history.known, other.history.known])
    asked = torch.cat([one.history.asked, other.history.asked])
    noted = tuple(torch.cat(pair) for pair in zip(one.more, other.more, strict=True))
    return Batch(Rows(x, available, y), History(x, known, asked), noted)
