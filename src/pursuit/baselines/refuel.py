"""REFUEL: symptoms are asked for by a policy that is drawn to what a patient has, and that learns to rebuild the rest.

REFUEL (Peng et al. 2018) is for patients who say no to nearly everything. One trunk reads the history and has three
heads: what to ask, what to believe, and all answers of the row, known or not. With gamma the discount and
phi(S) = w x (number of answers in S that are yes), a query that leads from S to S' is rewarded by

    gamma phi(S') - phi(S),   and the last one by 1 more if the belief is then right, or 1 less if it is wrong.

The policy learns by REINFORCE with a baseline and an entropy bonus, the belief by cross-entropy, and the rebuilding by
the binary cross-entropy of the answers. In the original a diagnosis is an action too, by which the policy ends its
chain; here a stopping rule ends it, so that the last query is the one that is judged, and the potential stays where it
is at the end: what was found counts.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pursuit.baselines.ram import chain_length
from pursuit.baselines.shared.policies import Noted, Policy, PolicyHistories, Standing, entropy, mean_where
from pursuit.baselines.shared.rival import RivalClassifier
from pursuit.history import History
from pursuit.networks import NetworkSettings, TrunkAndHeads
from pursuit.pursuer import Labels
from pursuit.queries import ColumnQueries, Number, QuerySet
from pursuit.queries.columns import NO_AND_YES
from pursuit.rows import RowSource
from pursuit.stages import Adam, Stage
from pursuit.stopping import StoppingRule

WORDS_FOR_YES = frozenset(yes for _, yes in NO_AND_YES)


@dataclass(frozen=True)
class PolicyGradient:
    """How REFUEL learns."""

    lr: float = 2e-3
    positive: float = 0.25
    """w, what a yes is worth."""
    rebuilding: float = 1.0
    """Weight of the loss of rebuilding."""
    entropy: float = 0.01
    """Weight of the policy's entropy, which keeps it from asking the same too early."""
    discount: float = 0.99
    trace: float = 0.5
    """Share of what lies beyond the next step that is told by rewards and not by the baseline; 1 is plain REINFORCE,
    which hardly learns in a few thousand steps. Chosen, as the learning rate, on rows held out from training."""
    random_share: float = 0.25
    """Share of random histories, from which the policy does not learn: as in carried histories of V-IP."""

    def __post_init__(self) -> None:
        if not self.lr > 0 or min(self.positive, self.rebuilding, self.entropy) < 0:
            raise ValueError("REFUEL needs a learning rate above 0 and no negative weights.")


class REFUEL(Policy):
    """A policy, a classifier and a head that rebuilds answers, on one trunk."""

    learning = PolicyGradient()
    is_positive: Tensor
    is_indicator: Tensor
    is_number: Tensor

    def __init__(
        self,
        query_set: QuerySet,
        classes: Labels,
        querier: nn.Module,
        classifier: nn.Module,
        prior: Tensor | None = None,
        standardised: bool = False,
    ):
        super().__init__(query_set, classes, querier, classifier, prior, standardised)
        self.rebuilder: nn.Module = nn.Identity()
        for name, of_features in zip(("is_positive", "is_indicator", "is_number"), _kinds(query_set), strict=True):
            self.register_buffer(name, of_features, persistent=False)  # (F,) bool each

    @classmethod
    def build(
        cls,
        query_set: QuerySet,
        classes: Labels,
        network: NetworkSettings | None = None,
        shared: bool = True,
        prior: Tensor | None = None,
        standardised: bool = False,
    ) -> Self:
        """With fresh networks, which are always on one trunk."""
        model = super().build(query_set, classes, network, True, prior, standardised)
        assert model.settings
        network, _ = model.settings
        if not isinstance(network, TrunkAndHeads):
            raise ValueError(f"REFUEL needs a network of a trunk and heads, as MLP or SetNetwork, not {network}.")
        _, model.rebuilder = network.heads(query_set, *query_set.answer_shape)
        return model

    def extra_repr(self) -> str:
        return repr(self.learning)

    def potential(self, history: History) -> Tensor:
        """What is known to be yes, and what that is worth: (B,)."""
        assert isinstance(self.query_set, ColumnQueries)
        found = (history.x > 0) & history.known[:, self.query_set.owner] & self.is_positive
        return self.learning.positive * found.sum(dim=1)

    def reward(self, before: Standing, after: Standing, is_last: Tensor) -> Tensor:
        is_right = after.log_posterior.argmax(dim=1) == after.y
        found = self.learning.discount * self.potential(after.history) - self.potential(before.history)
        return found + (2.0 * is_right - 1) * is_last

    def value(self, standing: Standing) -> Tensor:
        # What to expect if the label were drawn by the belief as it is
        return 2 * standing.log_posterior.gather(1, standing.y[:, None])[:, 0].exp() - 1

    def asking_loss(self, log_policy: Tensor, noted: Noted) -> Tensor:
        log_prob = log_policy.gather(1, noted.query[:, None])[:, 0]
        return -mean_where(log_prob * noted.advantage + self.learning.entropy * entropy(log_policy), noted.counts)

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
        """As every policy, and what rebuilding has to learn."""
        loss, query = super().forward(x, known, asked, available, y, tau, label_smoothing, *more)
        return loss + self.learning.rebuilding * self.rebuilding_loss(x, known, available), query

    def rebuilding_loss(self, x: Tensor, known: Tensor, available: Tensor) -> Tensor:
        """How badly all answers that exist are told from those known, on average over features.

        Binary cross-entropy for yes/no and for each of several choices; half the squared error for numbers.
        """
        assert isinstance(self.query_set, ColumnQueries)
        assert isinstance(self.querier, nn.Sequential)
        rebuilt = self.rebuilder(self.querier[0](self.see(x, known.to(x.dtype)))).float()  # (B, F)
        share = torch.where(self.is_indicator, x, (x + 1) / 2).clamp(0, 1)
        of_yes = F.binary_cross_entropy_with_logits(rebuilt, share.to(rebuilt.dtype), reduction="none")
        loss = torch.where(self.is_number, (rebuilt - x) ** 2 / 2, of_yes)
        there = available[:, self.query_set.owner]
        return torch.where(there, loss, 0).sum() / there.sum().clamp(min=1)


def _kinds(query_set: QuerySet) -> tuple[Tensor, Tensor, Tensor]:
    """Of every feature (F,): whether it says yes where it is above 0, is one of several choices, is a number."""
    if not isinstance(query_set, ColumnQueries):
        raise ValueError(f"REFUEL rebuilds answers to columns, words or concepts, not {query_set}: use RAM.")
    positive, indicator, number = [], [], []
    for query, width in zip(query_set.queries, query_set.widths, strict=True):
        is_yes_no = len(query.choices) == 2  # concepts with a probability as an answer among them
        says_yes = [is_yes_no or choice.strip().lower() in WORDS_FOR_YES for choice in query.choices[-width:]]
        positive += says_yes or [False]
        indicator += [not is_yes_no and not isinstance(query, Number)] * width
        number += [isinstance(query, Number) and not is_yes_no] * width
    return torch.tensor(positive), torch.tensor(indicator), torch.tensor(number)


class REFUELClassifier(RivalClassifier):
    """REFUEL: a policy rewarded for what it finds, a classifier and a head that rebuilds answers, on one trunk.

    Parameters
    ----------
    query_set, stop, max_queries, network, standardise, stages, settings, random_state, device
        As for every rival (`RivalClassifier`); the settings are `PolicyGradient`. The networks always share a trunk.
    """

    kind = REFUEL
    Settings = PolicyGradient

    def __init__(
        self,
        query_set: QuerySet | None = None,
        *,
        stop: StoppingRule | str | None = None,
        max_queries: int | None = None,
        network: NetworkSettings | None = None,
        standardise: bool = False,
        stages: list[Stage] | None = None,
        settings: PolicyGradient | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ):
        super().__init__(
            query_set,
            stop=stop,
            max_queries=max_queries,
            network=network,
            shared=True,
            standardise=standardise,
            stages=stages,
            settings=settings,
            random_state=random_state,
            device=device,
        )

    def _build(self, query_set: QuerySet, rows: RowSource, prior: Tensor) -> REFUEL:
        model = REFUEL.build(query_set, self.classes_, self.network, True, prior, self.standardise)
        model.learning = self._own
        return self._standardised(model, rows)

    def _plan(self, stages: list[Stage]) -> list[Stage]:
        own: PolicyGradient = self._own
        return [
            replace(
                stage,
                histories=PolicyHistories(
                    chain_length(self.max_queries, stage),
                    discount=own.discount,
                    trace=own.trace,
                    random_share=own.random_share,
                ),
                optimizer=Adam(own.lr),
            )
            for stage in stages
        ]

    @classmethod
    def _settings_of(cls, model: REFUEL) -> dict[str, Any]:
        return {name: value for name, value in super()._settings_of(model).items() if name != "shared"}
