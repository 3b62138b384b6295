"""Reinforcement learning for several methods: a policy, and the rollouts that it learns from.

While it learns, a policy draws its queries by the softmax of its scores over what was not asked yet; in use it asks the
query with the highest score. A rollout takes fresh rows, asks each of them up to T queries, and records what was asked
and how that paid off; training steps draw their batches from these records until the next rollout.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pursuit.estimators.plan import CHAIN_QUERIES
from pursuit.inference.history import History
from pursuit.inference.incremental import history_state
from pursuit.inference.pursuer import ASKED, Pursuer, choose
from pursuit.registry import register
from pursuit.training.learner import QuerierClassifier
from pursuit.training.rows import Rows, RowStream
from pursuit.training.samplers import Batch, Sampler, TrainingOutcome, random_histories
from pursuit.training.schedule import Adam, Stage


class Decisions(NamedTuple):
    """Queries asked in B histories of a rollout, and their advantages: (B,) each."""

    query: Tensor
    log_prob: Tensor
    """Log probability of the query when it was asked."""
    advantage: Tensor
    """Difference between its rewards and those that the policy expected, in standard deviations of the rollout."""
    was_asked: Tensor
    """Whether a query was asked at all: not in histories drawn at random, nor where nothing was left to ask."""


class RolloutPoint(NamedTuple):
    """The histories of B rows at one point of a rollout of `n_steps` queries, of which `n_left` are still to come."""

    history: History
    log_posterior: Tensor  # (B, C)
    y: Tensor  # (B,)
    n_left: int
    n_steps: int


class Policy(QuerierClassifier):
    """A querier that learns from rewards what to ask, and a classifier that learns from what was asked."""

    @abstractmethod
    def reward(self, before: RolloutPoint, after: RolloutPoint, is_last: Tensor) -> Tensor:
        """Reward (B,) of one query, which was or was not the last of a row."""

    @abstractmethod
    def value(self, point: RolloutPoint) -> Tensor:
        """The rewards to expect from here on (B,); it may read the true label."""

    @abstractmethod
    def asking_loss(self, log_policy: Tensor, decisions: Decisions) -> Tensor:
        """Loss of the policy, from the log probabilities (B, Q) of all queries."""

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The cross-entropy after the recorded answers plus the loss of asking, and the queries asked.

        Without recorded decisions, as for held-out rows, it is the cross-entropy after the best query.
        """
        known = batch.known.to(batch.x.dtype)
        scores = self.querier(self.network_input(batch.x, known)).float()
        decisions: Decisions | None = batch.extra
        closed = self.closed(batch)
        if decisions is None:
            query, was_asked = choose(scores, closed), ~closed.all(dim=1)
        else:
            query, was_asked = decisions.query, decisions.was_asked
        revealed = F.one_hot(query, batch.asked.shape[1]) * was_asked[:, None] * batch.available
        after = torch.maximum(known, revealed.to(batch.x.dtype))
        logits = self.classifier(self.network_input(batch.x, after)).float()
        loss = batch.label_loss(logits)
        if decisions is not None:
            loss = loss + self.asking_loss(log_policy(scores, closed), decisions)
        return TrainingOutcome(loss, query)


def log_policy(scores: Tensor, closed: Tensor) -> Tensor:
    """The log probability of every query to be asked next (B, Q); all equal where all are closed."""
    return scores.float().masked_fill(closed, ASKED).log_softmax(dim=1)


def entropy(log_policy: Tensor) -> Tensor:
    """Entropy (B,) of the policy."""
    return -(log_policy.exp() * log_policy).sum(dim=1)


def mean_where(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of those values (B,) that `mask` (B,) selects; 0 if there are none."""
    return (values * mask).sum() / mask.sum().clamp(min=1)


@register
@dataclass(frozen=True)
class PolicyHistories:
    """The histories of a policy's rollouts, each with the query asked and its advantage.

    The share `random_share` of each batch has random histories instead, for the classifier alone.
    """

    registry_kind: ClassVar[str] = "histories"
    max_queries: int | None = None
    """T, the length of chains."""
    passes: int = 1
    """Number of passes over a rollout."""
    discount: float = 1.0
    trace: float = 1.0
    """How much an advantage is measured by later rewards and not by the policy's own value after the next step: the
    lambda of generalised advantages."""
    random_share: float = 0.25

    def __post_init__(self) -> None:
        for name, number in (("max_queries", self.max_queries), ("passes", self.passes)):
            if number is not None and number < 1:
                raise ValueError(f"{name} of a policy's histories is at least 1, not {number}.")
        if not 0 <= self.discount <= 1 or not 0 <= self.trace <= 1:
            raise ValueError(f"discount and trace are between 0 and 1, not {self.discount} and {self.trace}.")
        if not 0 <= self.random_share < 1:
            raise ValueError(f"random_share is a share of the batch, at least 0 and below 1, not {self.random_share}.")

    def sampler(self, stream: RowStream, batch_size: int, generator: torch.Generator) -> Sampler:
        return _PolicySampler(stream, batch_size, self, generator)


def policy_plan(stages: Sequence[Stage], max_queries: int | None, lr: float, histories: PolicyHistories) -> list[Stage]:
    """The plan `stages` with `histories` of the right length in place of its own, and Adam with the learning rate
    `lr`."""
    return [
        replace(
            stage,
            histories=replace(histories, max_queries=chain_length(max_queries, stage)),
            optimizer=Adam(lr),
        )
        for stage in stages
    ]


def chain_length(max_queries: int | None, stage: Stage) -> int:
    """Length of a policy's chains: at most `max_queries` and the length of the stage, or else a few."""
    given = [length for length in (max_queries, stage.histories.max_queries) if length is not None]
    return max(1, min(given, default=CHAIN_QUERIES))


class _Rollout(NamedTuple):
    """T steps of n rows, and the decisions in them."""

    x: Tensor  # (n, *answer_shape)
    available: Tensor  # (n, Q) bool
    y: Tensor  # (n,)
    known: Tensor  # (T, n, Q) bool, before each query
    asked: Tensor  # (T, n, Q) bool
    query: Tensor  # (T, n), as the rest
    log_prob: Tensor
    advantage: Tensor
    was_asked: Tensor  # bool
    weight: Tensor | None = None  # (n,)

    def at(self, place: Tensor) -> Batch:
        """The steps that lie at these places (B,) among all T x n."""
        row = place % len(self.y)
        weight = None if self.weight is None else self.weight[row]
        rows = Rows(self.x[row], self.available[row], self.y[row], weight=weight)
        known, asked, *decisions = (tensor.flatten(0, 1)[place] for tensor in self[3:9])
        return Batch.of(rows, History(rows.x, known, asked), extra=Decisions(*decisions))


@torch.no_grad()
def roll_out(
    policy: Policy, rows: Rows, n_steps: int, settings: PolicyHistories, generator: torch.Generator
) -> _Rollout:
    """Ask every row up to `n_steps` queries, drawn by the policy's probabilities."""
    history = rows.start()
    state = history_state(policy, history)
    point = RolloutPoint(history, state.log_posterior(), rows.y, n_steps, n_steps)
    steps = []
    for n_left in reversed(range(n_steps)):
        history, closed = point.history, policy.closed(point.history)
        was_asked = ~closed.all(dim=1)
        log_probs = log_policy(state.scores(), closed)
        # The largest of log p - log e, e exponential, is drawn by the probabilities p.
        noise = torch.empty_like(log_probs).exponential_(generator=generator).log()
        query = choose(log_probs - noise, closed)
        answered = rows.available.gather(1, query[:, None])[:, 0] & was_asked
        state.ask(query, answered)
        recorded = history.record(query, answered)
        recorded = replace(recorded, asked=torch.where(was_asked[:, None], recorded.asked, history.asked))
        after = RolloutPoint(recorded, state.log_posterior(), rows.y, n_left, n_steps)
        is_last = was_asked & policy.closed(recorded).all(dim=1) if n_left else was_asked
        reward, value = policy.reward(point, after, is_last) * was_asked, policy.value(point) * was_asked
        log_prob = log_probs.gather(1, query[:, None])[:, 0]
        steps.append((history.known, history.asked, query, log_prob, reward, value, was_asked))
        point = after
    known, asked, query, log_prob, reward, value, was_asked = (torch.stack(part) for part in zip(*steps, strict=True))
    advantage = _standardised(advantages(reward, value, settings.discount, settings.trace), was_asked)
    if rows.weight is not None:
        advantage = advantage * rows.weight
    return _Rollout(rows.x, rows.available, rows.y, known, asked, query, log_prob, advantage, was_asked, rows.weight)


def advantages(reward: Tensor, value: Tensor, discount: float, trace: float) -> Tensor:
    """By how much the rewards from each step on (T, n) exceed `value`: the rewards themselves with trace=1, and with
    less of it the next values in place of what comes later. Both are 0 once a chain has ended."""
    beyond = torch.zeros_like(reward[0])
    next_value = beyond
    found = []
    for step in reversed(range(len(reward))):
        surprise = reward[step] + discount * next_value - value[step]
        beyond = surprise + discount * trace * beyond
        next_value = value[step]
        found.append(beyond)
    return torch.stack(found[::-1])


def _standardised(advantage: Tensor, was_asked: Tensor) -> Tensor:
    centred = advantage - mean_where(advantage, was_asked)
    return centred / mean_where(centred**2, was_asked).sqrt().clamp(min=1e-6)


class _PolicySampler(Sampler):
    """Rolls out, deals the steps of the rollout into batches pass after pass, and rolls out again."""

    asks_querier = True
    is_static = False

    def __init__(self, stream: RowStream, batch_size: int, settings: PolicyHistories, generator: torch.Generator):
        super().__init__(stream, batch_size, settings.max_queries, generator)
        self.settings = settings
        self.n_random = min(batch_size - 1, round(batch_size * settings.random_share))
        self.n_own = batch_size - self.n_random  # as many rows are rolled out, so that T batches make a pass
        self.n_dealt = 0  # batches of this rollout
        self.rollout: _Rollout | None = None
        self.order = torch.empty(0, dtype=torch.long, device=generator.device)  # of its steps in this pass

    @property
    def _is_due(self) -> bool:
        return self.rollout is None or self.n_dealt == self.max_queries * self.settings.passes

    def prepare(self) -> None:
        self.rows_a_step = self.n_random + self.n_own * self._is_due
        super().prepare()

    def draw(self, pursuer: Pursuer) -> Batch:
        rows = self.stream.take(self.rows_a_step)
        if self.rollout is None or self._is_due:
            if not isinstance(pursuer, Policy):
                raise ValueError(
                    f"PolicyHistories are for policies such as RAM, not for {type(pursuer).__name__}: use "
                    "RolledOutHistories or CarriedHistories."
                )
            fresh = rows.take(slice(self.n_random, None))
            self.rollout = roll_out(pursuer, fresh, self.max_queries, self.settings, self.generator)
            self.n_dealt = 0
        number = self.n_dealt % self.max_queries
        if number == 0:
            n_steps = self.n_own * self.max_queries
            self.order = torch.randperm(n_steps, generator=self.generator, device=self.generator.device)
        self.n_dealt += 1
        own = self.rollout.at(self.order[number * self.n_own : (number + 1) * self.n_own])
        return _joined(own, self._random(rows.take(slice(self.n_random))))

    def _random(self, rows: Rows) -> Batch:
        history = random_histories(rows, self._lengths(len(rows), rows.n_queries), self.generator)
        nothing = torch.zeros(len(rows), device=rows.y.device)
        return Batch.of(rows, history, extra=Decisions(torch.zeros_like(rows.y), nothing, nothing, nothing.bool()))

    def state(self) -> dict[str, Tensor]:
        if self.rollout is None:
            return {}
        there = {name: tensor for name, tensor in self.rollout._asdict().items() if tensor is not None}
        return {"n_dealt": torch.tensor(self.n_dealt), "order": self.order, **there}

    def load_state(self, state: dict[str, Tensor]) -> None:
        if not state:
            return
        self.n_dealt, self.order = int(state["n_dealt"]), state["order"].to(self.order.device)
        there = {name: state[name].to(self.order.device) for name in _Rollout._fields if name in state}
        self.rollout = _Rollout(**there)


def _joined(one: Batch, other: Batch) -> Batch:
    names = ("x", "known", "asked", "available", "y")
    x, known, asked, available, y = (torch.cat([getattr(one, name), getattr(other, name)]) for name in names)
    decisions = Decisions(*(torch.cat(pair) for pair in zip(one.extra, other.extra, strict=True)))
    weights = [batch.weight for batch in (one, other) if batch.weight is not None]
    return Batch(x, known, asked, available, y, torch.cat(weights) if weights else None, extra=decisions)
