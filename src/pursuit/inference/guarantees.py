"""Rules that guarantee something of new rows: how often a decision is wrong, and how often a set of labels has the
right one. The levels that make a guarantee hold are chosen on rows that the model did not learn from
(`estimators.guarantees`); docs/guarantees.md states the assumptions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from pursuit.inference.stopping import AnyOf, Standing, StoppingRule
from pursuit.registry import register

NEVER = 2.0
"""A confidence that is never reached: nothing is decided there."""


class NotGuaranteed(ValueError):
    """A rule guarantees something, but nothing was chosen yet that makes it hold."""


class Guarantee(StoppingRule):
    """A rule that holds only once it was chosen on held-out rows what makes it hold."""

    @property
    def is_kept(self) -> bool:
        """Whether that was chosen."""
        raise NotImplementedError

    def unkept(self) -> Self:
        """The guarantee alone, as users write it."""
        raise NotImplementedError

    def in_words(self) -> str:
        """What is guaranteed, as a sentence."""
        raise NotImplementedError

    def _check_kept(self) -> None:
        if not self.is_kept:
            raise NotGuaranteed(
                f"{self} is a guarantee about new rows, which this model cannot make yet: train with stop='{self}', "
                "which holds some rows out, or give rows it did not learn from to guarantee(X, y, stop=…)."
            )


@register
@dataclass(frozen=True)
class RiskControlled(Guarantee):
    """Stop once so sure that at most a share `alpha` of what is decided is wrong; what never gets as sure is left to a
    person.

    With probability 1 - `delta` over the rows it was chosen on, the label is wrong in at most a share `alpha` of all
    new rows that are decided. With `by_length`, also in at most that share of those decided after t questions or fewer,
    whatever t is, so that short chains are not worse than long ones. Written `risk=0.05`, `risk=0.05x0.1` with `delta`,
    and `risk=0.05x0.1xlength`.

    It is assumed that new rows come from where the rows it was chosen on come from, one independent of the other, and
    are asked by the same model in the same way; docs/guarantees.md says what breaks it. Nothing is guaranteed of rows
    that are not decided, nor of a single class.
    """

    keyword, flag = "risk", "length"
    alpha: float
    delta: float = 0.1
    by_length: bool = False
    levels: tuple[float, ...] = field(default=(), repr=False)
    """Chosen on held-out rows: how sure it must be after 0, 1, … questions; the last one holds for all that follow."""

    def __post_init__(self) -> None:
        for name, share in (("alpha", self.alpha), ("delta", self.delta)):
            if not 0 < share < 1:
                raise ValueError(
                    f"{name} is a share above 0 and below 1, as in RiskControlled(0.05, 0.1): wrong in at most 5 % of "
                    f"what is decided, with a probability of 90 %. It was {share}."
                )
        _check_numbers(self.levels)

    @property
    def is_kept(self) -> bool:
        return bool(self.levels)

    def unkept(self) -> Self:
        return replace(self, levels=())

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return self.decides(standing), memory

    def decides(self, standing: Standing) -> Tensor:
        if standing.target is not None:
            raise ValueError(
                f"{self} is for models that predict classes, and this one predicts a number: stop by another rule, "
                "such as width=20."
            )
        self._check_kept()
        belief = standing.log_posterior
        levels = torch.tensor(self.levels, dtype=belief.dtype, device=belief.device)
        place = standing.n_asked.long().to(belief.device).clamp(max=len(levels) - 1)
        return belief.max(dim=1).values.exp() >= levels[place]

    def in_words(self) -> str:
        among = "those decided after any number of questions or fewer" if self.by_length else "what is decided"
        return (
            f"Wrong in at most {_percent(self.alpha)} of {among}, with a probability of {_percent(1 - self.delta)} "
            "over the rows this was chosen on."
        )


@register
@dataclass(frozen=True)
class ConformalSet(Guarantee):
    """Say at the stop which labels remain: a set that has the right one with probability 1 - `alpha`.

    It never stops a chain by itself, and goes with any rule that does: `Confidence(0.95) | ConformalSet(0.1)`; alone,
    it goes with the usual one. The probability is that over new rows and the rows it was chosen on together; with
    `by_class`, it holds for the rows of every class by themselves. Written `conformal=0.1` and `conformal=0.1xclass`.

    A label remains if it is at least as probable as all but a share `alpha` of the right labels of held-out rows were
    at their stop (split conformal prediction with the score 1 - p). The most probable label always remains. It is
    assumed that new rows are exchangeable with those rows; docs/guarantees.md says what breaks it.
    """

    keyword, flag = "conformal", "class"
    alpha: float
    by_class: bool = False
    least: tuple[float, ...] = field(default=(), repr=False)
    """Chosen on held-out rows: how probable a label must be to remain; one number for all labels, or one each."""

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(
                "alpha is a share above 0 and below 1, as in ConformalSet(0.1): the right label is missing from at "
                f"most 10 % of the sets. It was {self.alpha}."
            )
        _check_numbers(self.least)

    @property
    def is_kept(self) -> bool:
        return bool(self.least)

    def unkept(self) -> Self:
        return replace(self, least=())

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        if standing.target is not None:
            raise ValueError(
                f"{self} is for models that predict classes, and this one predicts a number, which has an interval."
            )
        return torch.zeros_like(standing.n_asked, dtype=torch.bool), memory

    def label_set(self, posterior: Tensor) -> Tensor:
        self._check_kept()
        least = torch.tensor(self.least, dtype=posterior.dtype, device=posterior.device)
        remains = posterior >= least
        return remains | (posterior == posterior.max(dim=1, keepdim=True).values)

    def in_words(self) -> str:
        share, where = _percent(1 - self.alpha), ", in every class" if self.by_class else ""
        return f"The right label is among those that remain with a probability of {share}{where}."


def guarantees_of(rule: StoppingRule) -> tuple[Guarantee, ...]:
    """The guarantees that a rule makes."""
    return tuple(part for part in rule.parts if isinstance(part, Guarantee))


def without_guarantees(rule: StoppingRule) -> StoppingRule | None:
    """The rules that stop a chain whatever is guaranteed; None if there are none."""
    return joined([part for part in rule.parts if not isinstance(part, Guarantee)])


def joined(rules: Sequence[StoppingRule]) -> StoppingRule | None:
    """Several rules as one; None if there are none."""
    return None if not rules else rules[0] if len(rules) == 1 else AnyOf(tuple(rules))


def unkept(rule: StoppingRule) -> StoppingRule:
    """The rule as users write it, without what was chosen to make its guarantees."""
    found = joined([part.unkept() if isinstance(part, Guarantee) else part for part in rule.parts])
    assert found is not None
    return found


def _check_numbers(chosen: Sequence[float]) -> None:
    """Raise ValueError for what no held-out rows could have chosen: a file may say anything."""
    if not all(isinstance(number, int | float) and 0 <= number <= NEVER for number in chosen):
        raise ValueError(
            "What makes a guarantee hold are probabilities, and these are none: choose them by guarantee()."
        )


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
