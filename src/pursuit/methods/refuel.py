"""REFUEL: a policy asks for symptoms, drawn to those that a patient has, and learns to rebuild the other answers.

REFUEL (Peng et al. 2018) is for patients who say no to nearly everything. One trunk reads the history and has three
heads: what to ask, the posterior, and all answers of the row, known or not. With gamma the discount and
phi(S) = w x (number of answers in S that are yes), a query that leads from S to S' is rewarded by

    gamma phi(S') - phi(S),   and the last one by 1 more if the prediction is then right, or 1 less if it is wrong.

The policy learns by REINFORCE with a baseline and an entropy bonus, the posterior by cross-entropy, and the rebuilding
by the binary cross-entropy of the answers. In the original a diagnosis is an action too, by which the policy ends its
chain; here a stopping rule ends it, so that the last query is the one that is judged, and the potential stays where it
is at the end: what was found counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.estimators import MethodClassifier, NetworkClassifier, method
from pursuit.inference.history import History
from pursuit.methods.shared.policies import (
    Decisions,
    Policy,
    PolicyHistories,
    RolloutPoint,
    entropy,
    mean_where,
    policy_plan,
)
from pursuit.networks import TrunkAndHeads
from pursuit.queries import NO_AND_YES, QuerySet
from pursuit.registry import register
from pursuit.training.learner import ModelSpec
from pursuit.training.samplers import Batch, TrainingOutcome
from pursuit.training.schedule import Stage

WORDS_FOR_YES = frozenset(yes for _, yes in NO_AND_YES)


@register
@dataclass(frozen=True)
class REFUELSettings:
    """Settings of REFUEL."""

    lr: float = 2e-3
    positive: float = 0.25
    """w, the value of a yes."""
    rebuilding: float = 1.0
    """Weight of the loss of rebuilding."""
    entropy: float = 0.01
    """Weight of the policy's entropy, which keeps it from settling on the same queries too early."""
    discount: float = 0.99
    trace: float = 0.5
    """How much an advantage is measured by later rewards and not by the baseline after the next step; 1 is plain
    REINFORCE, which hardly learns in a few thousand steps. Chosen, like the learning rate, on held-out training
    rows."""
    random_share: float = 0.25
    """Share of random histories, from which the policy does not learn: as in carried histories of V-IP."""

    def __post_init__(self) -> None:
        if not self.lr > 0 or min(self.positive, self.rebuilding, self.entropy) < 0:
            raise ValueError("REFUEL needs a learning rate above 0 and no negative weights.")


@register
class REFUEL(Policy):
    """A policy, a classifier and a head that rebuilds answers, on one trunk."""

    Settings = REFUELSettings
    settings: REFUELSettings
    is_positive: Tensor
    is_indicator: Tensor
    is_number: Tensor

    def __init__(self, spec: ModelSpec, querier: nn.Module, classifier: nn.Module, rebuilder: nn.Module):
        super().__init__(spec, querier, classifier)
        self.rebuilder = rebuilder
        for name, mask in zip(("is_positive", "is_indicator", "is_number"), _masks(spec.query_set), strict=True):
            self.register_buffer(name, mask, persistent=False)  # (F,) bool each

    @classmethod
    def _with_fresh_networks(cls, spec: ModelSpec, **parts: Any) -> Self:
        network, query_set = spec.network, spec.query_set
        if not isinstance(network, TrunkAndHeads):
            raise ValueError(f"REFUEL needs a network of a trunk and heads, such as MLP or SetNetwork, not {network}.")
        spec = replace(spec, shared=True)
        querier, classifier = spec.networks()
        _, rebuilder = network.heads(query_set, len(query_set.units.of_feature))
        return cls(spec, querier, classifier, rebuilder)

    def potential(self, history: History) -> Tensor:
        """Value (B,) of the answers known to be yes."""
        found = (history.x.flatten(1) > 0) & self._of_features(history.known) & self.is_positive
        return self.settings.positive * found.sum(dim=1)

    def _of_features(self, of_queries: Tensor) -> Tensor:
        """Values of queries (B, Q) repeated for their features (B, F)."""
        return of_queries[:, self.query_set.units.of_feature]

    def reward(self, before: RolloutPoint, after: RolloutPoint, is_last: Tensor) -> Tensor:
        is_right = after.log_posterior.argmax(dim=1) == after.y
        found = self.settings.discount * self.potential(after.history) - self.potential(before.history)
        return found + (2.0 * is_right - 1) * is_last

    def value(self, point: RolloutPoint) -> Tensor:
        # What to expect if the label were drawn from the posterior as it is
        return 2 * point.log_posterior.gather(1, point.y[:, None])[:, 0].exp() - 1

    def asking_loss(self, log_policy: Tensor, decisions: Decisions) -> Tensor:
        log_prob = log_policy.gather(1, decisions.query[:, None])[:, 0]
        bonus = self.settings.entropy * entropy(log_policy)
        return -mean_where(log_prob * decisions.advantage + bonus, decisions.was_asked)

    def forward(self, batch: Batch) -> TrainingOutcome:
        """The loss of every policy, plus the loss of rebuilding."""
        loss, query = super().forward(batch)
        return TrainingOutcome(loss + self.settings.rebuilding * self.rebuilding_loss(batch), query)

    def rebuilding_loss(self, batch: Batch) -> Tensor:
        """Mean distance over features between all available answers and those rebuilt from the known ones.

        Binary cross-entropy for yes/no and for each of several choices; half the squared error for numbers.
        """
        assert isinstance(self.querier, nn.Sequential)
        trunk, x = self.querier[0], batch.x.flatten(1)
        rebuilt = self.rebuilder(trunk(self.network_input(batch.x, batch.known.to(x.dtype)))).float()  # (B, F)
        share = torch.where(self.is_indicator, x, (x + 1) / 2).clamp(0, 1)
        of_yes = F.binary_cross_entropy_with_logits(rebuilt, share.to(rebuilt.dtype), reduction="none")
        loss = torch.where(self.is_number, (rebuilt - x) ** 2 / 2, of_yes)
        available = self._of_features(self.query_set.given(batch.x, batch.available))
        return torch.where(available, loss, 0).sum() / available.sum().clamp(min=1)


def _masks(query_set: QuerySet) -> tuple[Tensor, Tensor, Tensor]:
    """Whether every feature (F,) says yes where it is above 0, is one of several choices, is a number."""
    if not query_set.has_own_units:
        raise ValueError(f"REFUEL rebuilds the answers to columns, words or concepts, not {query_set}: use RAM.")
    units = query_set.units
    positive, indicator, number = [], [], []
    n_before = [0] * len(query_set)  # features of every query so far
    for query, feature_type in zip(units.of_feature.tolist(), units.feature_types, strict=True):
        choices, place = query_set.queries[query].choices, n_before[query]
        n_before[query] += 1
        is_yes_no = feature_type in ("yes_no", "share") or len(choices) == 2  # such as a concept's probability
        word = choices[place].strip().lower() if place < len(choices) else ""
        positive.append(is_yes_no or word in WORDS_FOR_YES)
        indicator.append(feature_type == "choice" and not is_yes_no)
        number.append(feature_type == "number" and not is_yes_no)
    return torch.tensor(positive), torch.tensor(indicator), torch.tensor(number)


@method("refuel", "REFUEL")
@dataclass(kw_only=True, eq=False, repr=False)
class REFUELClassifier(MethodClassifier, NetworkClassifier):
    """REFUEL: a policy rewarded for what it finds, a classifier and a head that rebuilds answers, on one trunk."""

    uses_weights = True
    Model = REFUEL

    Settings = REFUELSettings
    settings: REFUELSettings | None = None
    """The value of a yes, and the settings of the policy."""

    def plan(self, stages: Sequence[Stage]) -> list[Stage]:
        settings: REFUELSettings = self.chosen_settings
        histories = PolicyHistories(
            discount=settings.discount, trace=settings.trace, random_share=settings.random_share
        )
        return policy_plan(stages, self.max_queries, settings.lr, histories)
