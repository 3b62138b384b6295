"""Stopping rules: when enough was asked. They look at one step at a time and decide for each row by itself."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_type_hints

import torch
from torch import Tensor

from pursuit.inference.target_bins import COVERAGE, TargetBins, check_coverage
from pursuit.registry import UnknownName, how_to_make_known, known, register

BIT = math.log(2)
"""One bit in nats: what is computed with natural logarithms is divided by it to be in bits."""
EntropyUnit = Literal["bits", "nats"]
ENTROPY_UNITS: dict[str, float] = {"bits": BIT, "nats": 1.0}
"""What each unit is in nats."""
ROUNDING = 1e-5
"""By what share a sum of costs may be off."""
MOST = 2**31 - 1
"""Queries or steps that a rule may count."""


class Standing(NamedTuple):
    """Where B chains stand before their next query."""

    log_posterior: Tensor  # (B, C) the belief now
    n_asked: Tensor  # (B,) queries asked, answered or not
    n_answered: Tensor  # (B,) those of them with an answer
    cost: Tensor  # (B,) of what was asked
    worth: Tensor | None = None  # (B,) the highest score among the queries left; None where scores have no unit
    target: TargetBins | None = None  # what the labels are bins of, where a number is predicted
    in_group: Tensor | None = None  # (B,) whether the rest of a group of queries comes next; None where there are none


class StoppingRule(ABC):
    """Decides, row by row, whether to stop before the next query.

    What a rule must remember of a row from step to step is its `memory` (B, memory_size), so that rows can leave a
    batch and take their memory along. A rule of your own is a frozen dataclass of numbers with `step`, and `@register`
    above it; it is then written `keyword=number` (`keyword=numberxnumber` for two fields) like ours.
    """

    registry_kind: ClassVar[str] = "stopping rule"
    keyword: ClassVar[str] = ""
    """How texts name the rule; by default the name of the class in lower case."""
    flag: ClassVar[str] = ""
    """What texts say behind the numbers where a field that is true or false is true."""
    memory_size: int | Any = 0
    needs_worth: bool | Any = False
    """Whether `step` looks at what the queries left are worth, so that they must be scored before it."""
    ends_groups: ClassVar[bool] = False
    """Whether it may stop a chain within a group of queries."""

    def start(self, n_rows: int, device: torch.device | None = None) -> Tensor:
        """The memory of rows that have seen nothing."""
        return torch.zeros(n_rows, self.memory_size, device=device)

    @abstractmethod
    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        """Whether to stop (B,), and the new memory."""

    def stops(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        """The same, but a group of queries is asked to its end, unless the rule `ends_groups`."""
        stop, memory = self.step(memory, standing)
        return stop if standing.in_group is None or self.ends_groups else stop & ~standing.in_group, memory

    def affordable(self, spent: Tensor, costs: Tensor) -> Tensor | None:
        """Which queries may still be asked (B, Q) by rows that have `spent` (B,), where queries cost `costs` (Q,); None
        if the rule leaves all of them open. A chain ends where nothing affordable is left."""
        return None

    @property
    def parts(self) -> "tuple[StoppingRule, ...]":
        """The rules of which any stops a chain: itself alone, or those of `AnyOf`."""
        return (self,)

    def decides(self, standing: Standing) -> Tensor | None:
        """Where a prediction made at this standing is one the rule vouches for (B,), and elsewhere a person must
        decide; None if the rule vouches for nothing."""
        return None

    def label_set(self, posterior: Tensor) -> Tensor | None:
        """Which labels remain possible (B, C) by the beliefs (B, C) at the stop; None if the rule does not say."""
        return None

    def __or__(self, other: "StoppingRule") -> "StoppingRule":
        return self if other == self else AnyOf((self, other))

    @classmethod
    def keyword_of(cls) -> str:
        return cls.keyword or cls.__name__.lower()

    def __str__(self) -> str:
        written = self._written()
        while written and getattr(self, written[-1].name) == written[-1].default:  # which need not be written
            written.pop()
        values = (getattr(self, field.name) for field in written)
        texts = [self.flag if value is True else str(value) for value in values]
        return self.keyword_of() + ("=" + "x".join(texts) if texts else "")

    @classmethod
    def _written(cls) -> list[Field[Any]]:
        """The fields that texts have, in their order; those without a repr are found by training."""
        return [field for field in fields(cls) if field.repr]  # type: ignore[arg-type]

    @classmethod
    def parse(cls, numbers: str) -> Self:
        """The rule from what a text has behind its keyword, such as "0.001x3"; raises ValueError if it cannot be."""
        hints, parts = get_type_hints(cls), [part.strip() for part in numbers.split("x")] if numbers else []
        flags = [field.name for field in cls._written() if hints[field.name] is bool]
        is_flagged = bool(flags and parts and parts[-1] == cls.flag)
        wanted = [field for field in cls._written() if field.name not in flags]
        parts = parts[: len(parts) - is_flagged]
        if len(parts) > len(wanted) or any(field.default is MISSING for field in wanted[len(parts) :]):
            raise Unreadable
        try:
            values = {field.name: hints[field.name](part) for field, part in zip(wanted, parts, strict=False)}
        except ValueError:
            raise Unreadable from None
        return cls(**values, **dict.fromkeys(flags, is_flagged))


class Unreadable(ValueError):
    """The text behind a keyword is not a list of the rule's numbers."""


@register
@dataclass(frozen=True)
class Budget(StoppingRule):
    """Stop once `n` queries were asked, answered or not, also within a group of them."""

    ends_groups = True
    n: int

    def __post_init__(self) -> None:
        if not _is_whole(self.n) or not 0 <= self.n <= MOST:
            raise ValueError(f"A budget is a whole number of queries from 0 to {MOST:,}, not {self.n}.")
        object.__setattr__(self, "n", int(self.n))

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return standing.n_asked >= self.n, memory


@register
@dataclass(frozen=True)
class Confidence(StoppingRule):
    """Stop once the largest posterior reaches `level`: the paper's MAP criterion, with level = 1 - epsilon."""

    level: float

    def __post_init__(self) -> None:
        if not 0 < self.level <= 1:
            raise ValueError(
                f"A confidence level is above 0 and at most 1, as in confidence=0.95, but it was {self.level}."
            )

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return standing.log_posterior.max(dim=1).values.exp() >= self.level, memory


@register
@dataclass(frozen=True)
class Stability(StoppingRule):
    """Stop once the entropy of the posterior changed by at most `epsilon` bits with each of the last `n` answers.

    A query that could not be answered changes nothing, and does not count as a sign of stability. With unit="nats",
    `epsilon` is a number of nats, of which one is 1.44 bits; it is then written `stability=0.1nats`, or
    `stability=0.1natsx3` for three answers.
    """

    epsilon: float
    n: int = 1
    unit: EntropyUnit = "bits"
    memory_size = 3  # the entropy before, how many answers it had, and for how many it has been stable

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ValueError(
                f"Stability takes an entropy change of 0 bits or more, as in stability=0.001, not {self.epsilon}."
            )
        if not _is_whole(self.n) or not 1 <= self.n <= MOST:
            raise ValueError(f"Stability must hold for a whole number of steps from 1 to {MOST:,}, not {self.n}.")
        if self.unit not in ENTROPY_UNITS:
            raise ValueError(f"Stability measures entropy in bits or in nats, not in {self.unit!r}.")
        object.__setattr__(self, "n", int(self.n))

    def start(self, n_rows: int, device: torch.device | None = None) -> Tensor:
        # Nothing is stable before the first answer: the entropy before it counts as infinitely far away.
        return torch.tensor([[torch.inf, -1, 0]], device=device).repeat(n_rows, 1)

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        now, n_answered = entropy(standing.log_posterior) / ENTROPY_UNITS[self.unit], standing.n_answered
        before, n_before, run = memory.unbind(dim=1)
        stable = (before - now).abs() <= self.epsilon
        run = torch.where(n_answered > n_before, torch.where(stable, run + 1, 0), run)
        return run >= self.n, torch.stack([now, n_answered.to(now.dtype), run.to(now.dtype)], dim=1)

    def __str__(self) -> str:
        unit, times = self.unit if self.unit != "bits" else "", f"x{self.n}" if self.n > 1 else ""
        return f"{self.keyword_of()}={self.epsilon}{unit}{times}"

    @classmethod
    def parse(cls, numbers: str) -> Self:
        epsilon, *n = (part.strip() for part in numbers.split("x"))
        if len(n) > 1:  # the unit is not a third number
            raise Unreadable
        unit: EntropyUnit = "nats" if epsilon.endswith("nats") else "bits"
        return replace(super().parse("x".join([epsilon.removesuffix(unit), *n])), unit=unit)


@register
@dataclass(frozen=True)
class NothingWorthAsking(StoppingRule):
    """Stop once no query left promises more than `bits` of information about the label; per unit of cost where the
    pursuer weighs information against cost."""

    keyword = "bits"
    bits: float
    needs_worth = True

    def __post_init__(self) -> None:
        if not 0 <= self.bits < math.inf:
            raise ValueError(f"What is worth asking is a number of bits, 0 or more, as in bits=0.01, not {self.bits}.")

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        if standing.worth is None:
            raise ValueError(
                f"{self} needs scores in bits, and those of this model are mere preferences: train with "
                'querier="information", or stop by another rule, such as stability=0.001.'
            )
        return standing.worth <= self.bits, memory


@register
@dataclass(frozen=True)
class IntervalWidth(StoppingRule):
    """Stop once the number to predict lies with probability `coverage` in an interval of at most `width`."""

    keyword = "width"
    width: float
    coverage: float = COVERAGE

    def __post_init__(self) -> None:
        if not 0 <= self.width < math.inf:
            raise ValueError(f"The width of an interval is a number, 0 or more, as in width=20, not {self.width}.")
        check_coverage(self.coverage)

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        if standing.target is None:
            raise ValueError(
                f"{self} is for models that predict a number, and this one predicts classes: stop by another rule, "
                "such as confidence=0.95."
            )
        low, high = standing.target.interval(standing.log_posterior.exp(), self.coverage).unbind(dim=1)
        return high - low <= self.width, memory


@register
@dataclass(frozen=True)
class CostBudget(StoppingRule):
    """Never spend more than `units`: what costs more than is left is not asked, and what costs less still is."""

    keyword = "cost"
    units: float

    def __post_init__(self) -> None:
        if not 0 <= self.units < math.inf:
            raise ValueError(f"A cost budget is a number, 0 or more, as in cost=20, not {self.units}.")

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(standing.n_asked, dtype=torch.bool), memory  # free queries remain to the end

    def affordable(self, spent: Tensor, costs: Tensor) -> Tensor:
        # Ten queries at 0.1 cost 1, however their sum is rounded.
        return spent[:, None] + costs <= self.units * (1 + ROUNDING)


@register
@dataclass(frozen=True)
class Never(StoppingRule):
    """Never stop: everything is asked."""

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(standing.n_asked, dtype=torch.bool), memory


@register
@dataclass(frozen=True)
class AnyOf(StoppingRule):
    """Stop as soon as one of several rules says so; written `rule | rule`."""

    ends_groups = True  # where the rule does that stops the chain
    rules: tuple[StoppingRule, ...]

    def __post_init__(self) -> None:
        if not self.rules:
            raise ValueError("AnyOf needs at least one stopping rule.")

    @property
    def memory_size(self) -> int:  # type: ignore[override]
        return sum(rule.memory_size for rule in self.rules)

    @property
    def needs_worth(self) -> bool:  # type: ignore[override]
        return any(rule.needs_worth for rule in self.rules)

    def start(self, n_rows: int, device: torch.device | None = None) -> Tensor:
        return torch.cat([rule.start(n_rows, device) for rule in self.rules], dim=1)

    def step(self, memory: Tensor, standing: Standing) -> tuple[Tensor, Tensor]:
        stops, memories = [], []
        for rule, part in zip(self.rules, memory.split([rule.memory_size for rule in self.rules], dim=1), strict=True):
            stop, part = rule.stops(part, standing)
            stops.append(stop)
            memories.append(part)
        return torch.stack(stops).any(dim=0), torch.cat(memories, dim=1)

    def affordable(self, spent: Tensor, costs: Tensor) -> Tensor | None:
        limits = [limit for rule in self.rules if (limit := rule.affordable(spent, costs)) is not None]
        return torch.stack(limits).all(dim=0) if limits else None

    @property
    def parts(self) -> tuple[StoppingRule, ...]:
        return tuple(part for rule in self.rules for part in rule.parts)

    def decides(self, standing: Standing) -> Tensor | None:
        found = [decided for rule in self.rules if (decided := rule.decides(standing)) is not None]
        return torch.stack(found).any(dim=0) if found else None

    def label_set(self, posterior: Tensor) -> Tensor | None:
        found = (rule.label_set(posterior) for rule in self.rules)
        return next((members for members in found if members is not None), None)

    def __or__(self, other: StoppingRule) -> "StoppingRule":
        return self if other in self.rules else AnyOf((*self.rules, other))

    def __str__(self) -> str:
        return ",".join(str(rule) for rule in self.rules)


def _is_whole(number: object) -> bool:
    if isinstance(number, float):
        return number.is_integer()
    return isinstance(number, Integral) and not isinstance(number, bool)


def entropy(log_posterior: Tensor) -> Tensor:
    """Entropy in nats of each row of log probabilities (B, C), where 0 log 0 is 0: (B,)."""
    return torch.special.entr(log_posterior.exp()).sum(dim=1)


DEFAULT_STOP = Confidence(0.99)


def stopping_rule(stop: StoppingRule | str | None = None, max_queries: int | None = None) -> StoppingRule:
    """The rule that a user gives, as an object or as text, or `DEFAULT_STOP`; and never more than `max_queries`."""
    rule = DEFAULT_STOP if stop is None else parse_stop(stop) if isinstance(stop, str) else stop
    if not isinstance(rule, StoppingRule):
        raise TypeError(
            f"stop is a stopping rule such as Confidence(0.95), or its text 'confidence=0.95', not {stop!r}."
        )
    return rule if max_queries is None else rule | Budget(max_queries)


def parse_stop(text: str) -> StoppingRule:
    """Read a rule as written on the command line: `confidence=0.99`, `budget=20`, `stability=0.001x3`,
    `stability=0.001nats`, `bits=0.01`, `cost=20`, `width=20`, `risk=0.05`, `conformal=0.1`, or several with commas."""
    rules = tuple(_parse_one(part.strip()) for part in text.split(","))
    return rules[0] if len(rules) == 1 else AnyOf(rules)


def _parse_one(text: str) -> StoppingRule:
    keyword, _, numbers = (part.strip() for part in text.partition("="))
    rules = {rule.keyword_of(): rule for rule in known("stopping rule").values() if rule is not AnyOf}
    try:
        if keyword in rules:
            return rules[keyword].parse(numbers)
    except Unreadable:
        pass
    own = [name for name, rule in rules.items() if not rule.__module__.startswith("pursuit.")]
    message = (
        f"'{text}' is not a stopping rule. Write confidence=0.99, budget=20, stability=0.001 (in bits; "
        "stability=0.001nats in nats, stability=0.001x3 for three answers in a row), bits=0.01, cost=20, risk=0.05 (at "
        "most 5 % of what is decided wrong), conformal=0.1 (a set of labels that has the right one in 90 %) or, where "
        "a number is predicted, width=20; or several with commas to stop at the first."
        + (f" Registered besides: {', '.join(own)}." if own else "")
    )
    if numbers and keyword.isidentifier() and keyword not in rules:
        raise UnknownName(f"{message} {how_to_make_known(keyword)}")
    raise ValueError(message)


# ----------------------------------------------------------------------------------------------------------------------
# Rules that guarantee something of new rows: how often a decision is wrong, and how often a set of labels has the
# right one. The levels that make a guarantee hold are chosen on rows that the model did not learn from
# (`estimators.guarantees`); docs/guarantees.md states the assumptions.


NEVER = 2.0
"""A confidence that is never reached: nothing is decided there."""


class NotGuaranteed(ValueError):
    """A rule guarantees something, but nothing was chosen yet that makes it hold."""


class Guarantee(StoppingRule):
    """A rule that holds only once it was chosen on held-out rows what makes it hold."""

    @property
    @abstractmethod
    def is_kept(self) -> bool:
        """Whether that was chosen."""

    @abstractmethod
    def unkept(self) -> Self:
        """The guarantee alone, as users write it."""

    @abstractmethod
    def in_words(self) -> str:
        """What is guaranteed, as a sentence."""

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
    ends_groups = True  # what it guarantees counts the first time a row is so sure
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

    It never stops a chain by itself, and goes with any rule that does: `Confidence(0.95) | ConformalSet(0.1)`; on its
    own, it is combined with the default rule. The probability is that over new rows and the rows it was chosen on
    together; with `by_class`, it holds for the rows of every class by themselves. Written `conformal=0.1` and
    `conformal=0.1xclass`.

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
