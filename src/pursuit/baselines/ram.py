"""RAM and RAM+: what to ask is learnt by reinforcement.

The recurrent attention model (Mnih et al. 2014) as it was compared with V-IP: a policy asks T queries, and is rewarded
by log f(y | S_T), the log probability that the classifier f gives the true label after the last answer; in RAM+ (Li et
al. 2017) by the sum of log f(y | S_t) over all steps. It learns by PPO (Schulman et al. 2017), and the classifier with
it by cross-entropy after each answer. The networks of V-IP read the history in place of a recurrent one.

The classifier is the critic as well: were nothing more to be learnt, the reward to come would be log f(y | S_t), as
often as it is still counted. This reads the true label, but only in training, and what does not depend on the query
takes noise from its advantage and leaves the best policy what it is.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from pursuit.baselines.shared.policies import Noted, Policy, PolicyHistories, Standing, entropy, mean_where
from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.estimators.network import CHAIN_QUERIES
from pursuit.queries import QuerySet
from pursuit.rows import RowSource
from pursuit.stages import Adam, Stage

QUICK_LR = 2e-3
"""Chosen on rows held out from training: of the digits, and of a world with ten labels."""


@dataclass(frozen=True)
class PPO:
    """How RAM and RAM+ learn. Learning rate, clip and entropy are as published with V-IP; see `quick` for less time."""

    reward: Literal["last", "sum"] = "last"
    """What counts: the belief after the last answer (RAM), or after every one of them (RAM+)."""
    lr: float = 3e-5
    clip: float = 0.2
    """How far the probability of a query may move, as a share, before it is learnt from no more."""
    entropy: float = 0.01
    """Weight of the policy's entropy, which keeps it from asking the same too early."""
    passes: int = 1
    """How often a roll-out is learnt from."""
    trace: float = 0.95
    """The lambda of generalised advantages."""
    random_share: float = 0.25
    """Share of random histories, from which only the classifier learns: as in carried histories of V-IP."""

    def __post_init__(self) -> None:
        if self.reward not in ("last", "sum"):
            raise ValueError(f"The reward counts the 'last' belief or the 'sum' of all, not {self.reward!r}.")
        if not self.lr > 0 or not 0 < self.clip < 1 or self.entropy < 0:
            raise ValueError(
                "PPO needs a learning rate above 0, a clip between 0 and 1 and no negative entropy weight."
            )

    @classmethod
    def quick(cls, reward: Literal["last", "sum"] = "last") -> "PPO":
        """For plans of a few thousand steps, in which the published learning rate stays behind random order."""
        return cls(reward, lr=QUICK_LR)


class RAM(Policy):
    """A policy trained by PPO, and a classifier."""

    learning = PPO()

    def extra_repr(self) -> str:
        return repr(self.learning)

    def begin(self, stage: Stage) -> None:
        # A query must be as probable when it is learnt from as it was when it was asked.
        for layer in self.querier.modules():
            if isinstance(layer, nn.modules.dropout._DropoutNd):
                layer.p = 0.0

    def reward(self, before: Standing, after: Standing, is_last: Tensor) -> Tensor:
        right = after.log_posterior.gather(1, after.y[:, None])[:, 0]
        # A mean in place of the sum, which is the same to the policy, so that both rewards are of one size.
        return right / after.n_steps if self.learning.reward == "sum" else right * is_last

    def value(self, standing: Standing) -> Tensor:
        now = standing.log_posterior.gather(1, standing.y[:, None])[:, 0]
        return now * standing.n_left / standing.n_steps if self.learning.reward == "sum" else now

    def asking_loss(self, log_policy: Tensor, noted: Noted) -> Tensor:
        ratio = (log_policy.gather(1, noted.query[:, None])[:, 0] - noted.log_prob).exp()
        clipped = ratio.clamp(1 - self.learning.clip, 1 + self.learning.clip)
        improvement = torch.minimum(ratio * noted.advantage, clipped * noted.advantage)
        return -mean_where(improvement + self.learning.entropy * entropy(log_policy), noted.counts)


class RAMClassifier(RivalClassifier):
    """RAM, or with `settings=PPO(reward="sum")` RAM+: a policy and a classifier network, trained by PPO."""

    kind = RAM
    Settings = PPO

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> RAM:
        model = RAM.build(query_set, self.classes_, self.network, self.shared, prior, self.standardise)
        model.learning = self._own
        return self._standardised(model, rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        own: PPO = self._own
        return [
            replace(
                stage,
                histories=PolicyHistories(
                    chain_length(self.max_queries, stage),
                    passes=own.passes,
                    trace=own.trace,
                    random_share=own.random_share,
                ),
                optimizer=Adam(own.lr),
            )
            for stage in stages
        ]


def chain_length(max_queries: int | None, stage: Stage) -> int:
    """How many queries a policy learns to ask: as many as are ever asked or as the stage has, or else a few."""
    given = [length for length in (max_queries, stage.histories.max_queries) if length is not None]
    return max(1, min(given, default=CHAIN_QUERIES))
