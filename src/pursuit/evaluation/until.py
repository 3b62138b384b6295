"""How far chains go for stopping rules to look back: further than any of these would let them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pursuit.inference.rollout import RolloutStep
from pursuit.inference.stopping import Standing, StoppingRule


class Revealed(StoppingRule):
    """Goes on until `n` answers are revealed, however many queries that takes, for `rules` to look back."""

    def __init__(self, n: int, rules: Sequence[StoppingRule]):
        self.n, self.needs_worth = n, any(rule.needs_worth for rule in rules)

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return standing.n_answered >= self.n, memory

    def would_ask_more(self, step: RolloutStep) -> Tensor:
        return torch.ones_like(step.goes_on)


class Within(StoppingRule):
    """Goes on within what a `rule` affords, and one query beyond `n`, to see whether more would be asked there."""

    def __init__(self, n: int, rule: StoppingRule):
        self.n, self.rule, self.needs_worth = n, rule, rule.needs_worth

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return standing.n_asked > self.n, memory

    def affordable(self, spent: Tensor, costs: Tensor) -> Tensor | None:
        return self.rule.affordable(spent, costs)

    def would_ask_more(self, step: RolloutStep) -> Tensor:
        return step.goes_on
