"""RAM and RAM+: queries are chosen by reinforcement learning.

The recurrent attention model (Mnih et al. 2014) as it was compared with V-IP: a policy asks T queries, and is rewarded
by log f(y | S_T), the log probability that the classifier f gives the true label after the last answer; in RAM+ (Li et
al. 2017) by the sum of log f(y | S_t) over all steps. It learns by PPO (Schulman et al. 2017), and the classifier with
it by cross-entropy after each answer. The networks of V-IP read the history in place of a recurrent one.

The classifier is the critic as well: if later answers added nothing, the reward to come would be log f(y | S_t), as
often as it is still counted. This reads the true label, but only in training, and a baseline that does not depend on
the query takes noise from its advantage without changing the best policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pursuit.estimators import MethodClassifier, NetworkClassifier, method
from pursuit.methods.shared.policies import (
    Decisions,
    Policy,
    PolicyHistories,
    RolloutPoint,
    entropy,
    mean_where,
    policy_plan,
)
from pursuit.registry import register
from pursuit.training.schedule import Stage

QUICK_LR = 2e-3
"""Chosen on held-out training rows: of the digits, and of a world with ten labels."""


@register
@dataclass(frozen=True)
class RAMSettings:
    """Settings of RAM and RAM+. Learning rate, clip and entropy are as published with V-IP; `quick` takes less time."""

    reward: Literal["last", "sum"] = "last"
    """The reward: by the posterior after the last answer (RAM), or after every answer (RAM+)."""
    lr: float = 3e-5
    clip: float = 0.2
    """Largest relative change of a query's probability that is learnt from."""
    entropy: float = 0.01
    """Weight of the policy's entropy, which keeps it from settling on the same queries too early."""
    passes: int = 1
    """Number of passes over a rollout."""
    trace: float = 0.95
    """The lambda of generalised advantages."""
    random_share: float = 0.25
    """Share of random histories, from which only the classifier learns: as in carried histories of V-IP."""

    def __post_init__(self) -> None:
        if self.reward not in ("last", "sum"):
            raise ValueError(f"The reward counts the 'last' posterior or the 'sum' of all, not {self.reward!r}.")
        if not self.lr > 0 or not 0 < self.clip < 1 or self.entropy < 0:
            raise ValueError(
                "RAMSettings needs a learning rate above 0, a clip between 0 and 1 and an entropy weight that is not "
                "negative."
            )

    @classmethod
    def quick(cls, reward: Literal["last", "sum"] = "last") -> "RAMSettings":
        """For plans of a few thousand steps."""
        return cls(reward, lr=QUICK_LR)


@register
class RAM(Policy):
    """A policy trained by PPO, and a classifier."""

    Settings = RAMSettings
    settings: RAMSettings

    def begin(self, stage: Stage) -> None:
        # A query must be as probable when it is learnt from as it was when it was asked.
        for layer in self.querier.modules():
            if isinstance(layer, nn.modules.dropout._DropoutNd):
                layer.p = 0.0

    def reward(self, before: RolloutPoint, after: RolloutPoint, is_last: Tensor) -> Tensor:
        log_prob = after.log_posterior.gather(1, after.y[:, None])[:, 0]
        # A mean in place of the sum, which is the same to the policy, so that both rewards are of one size.
        return log_prob / after.n_steps if self.settings.reward == "sum" else log_prob * is_last

    def value(self, point: RolloutPoint) -> Tensor:
        log_prob = point.log_posterior.gather(1, point.y[:, None])[:, 0]
        return log_prob * point.n_left / point.n_steps if self.settings.reward == "sum" else log_prob

    def asking_loss(self, log_policy: Tensor, decisions: Decisions) -> Tensor:
        ratio = (log_policy.gather(1, decisions.query[:, None])[:, 0] - decisions.log_prob).exp()
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        improvement = torch.minimum(ratio * decisions.advantage, clipped * decisions.advantage)
        return -mean_where(improvement + self.settings.entropy * entropy(log_policy), decisions.was_asked)


@method("ram+", "RAM+", settings=RAMSettings.quick("sum"))
@method("ram", "RAM", settings=RAMSettings.quick("last"))
@dataclass(kw_only=True, eq=False, repr=False)
class RAMClassifier(MethodClassifier, NetworkClassifier):
    """RAM, or with `settings=RAMSettings(reward="sum")` RAM+: a policy and a classifier network, trained by PPO."""

    uses_weights = True
    Model = RAM

    Settings = RAMSettings
    settings: RAMSettings | None = None
    """The reward, and how the policy learns. By default as published, which takes long: see `RAMSettings.quick`."""
    shared: bool = False
    """Whether querier and classifier share a trunk."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        settings: RAMSettings = self.chosen_settings
        histories = PolicyHistories(passes=settings.passes, trace=settings.trace, random_share=settings.random_share)
        return policy_plan(stages, self.max_queries, settings.lr, histories)
