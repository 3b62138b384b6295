"""Changes to what is planned for training, such as a search finds, and what a search may try."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pursuit.networks import NetworkSettings
from pursuit.registry import register
from pursuit.training import Stage

MOST_DROPOUT, MOST_RANDOM = 0.8, 0.95
"""What factors lead to at most."""


@dataclass(frozen=True)
class Span:
    """A number from `low` to `high`, both above 0; a search looks for it by its logarithm."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise ValueError(f"A span goes from a number above 0 to a greater one, not from {self.low} to {self.high}.")


@dataclass(frozen=True)
class OneOf:
    """One of several values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ValueError("There is nothing to choose from: give at least two values.")


Ranges = Mapping[str, Span | OneOf]
"""What a search may try, by name."""
OF_TRAINING: Ranges = {"lr": Span(0.25, 4.0), "weight_decay": Span(0.1, 10.0), "effort": OneOf((0.5, 1.0, 2.0))}
OF_NETWORK: Ranges = {
    **OF_TRAINING,
    "width": OneOf((0.5, 1.0, 2.0)),
    "dropout": OneOf((0.0, 0.5, 1.0, 1.5, 2.0)),
}


@register
@dataclass(frozen=True)
class Tuned:
    """Factors on what is planned or given for training, as `pursuit tune` finds them: 1 leaves it as it is."""

    lr: float = 1.0
    """On the learning rate of every stage."""
    weight_decay: float = 1.0
    effort: float = 1.0
    """On the length of every stage. Held-out rows may end it before, as ever."""
    random_share: float = 1.0
    """On the share of random histories in each batch, where stages have one; at most 0.95 of it."""
    width: float = 1.0
    """On the sizes of hidden layers."""
    dropout: float = 1.0
    """At most 0.8 are dropped."""

    def __post_init__(self) -> None:
        for field in fields(self):
            factor, may_be_zero = getattr(self, field.name), field.name in ("weight_decay", "random_share", "dropout")
            if not (0 <= factor < math.inf and (factor > 0 or may_be_zero)):
                least = "at least" if may_be_zero else "above"
                raise ValueError(f"{field.name} is a factor {least} 0, not {factor}.")

    def __str__(self) -> str:
        changed = [f"{field.name} × {getattr(self, field.name):.3g}" for field in fields(self)]
        return ", ".join(text for text in changed if not text.endswith("× 1")) or "as planned"

    def stages(self, stages: Sequence[Stage]) -> list[Stage]:
        """The stages, changed."""
        return [self._stage(stage).scaled(self.effort) for stage in stages]

    def network(self, network: NetworkSettings) -> NetworkSettings:
        """The network, changed; raises ValueError where it has no such sizes."""
        changes: dict[str, Any] = {}
        if self.width != 1:
            hidden = _there(network, "hidden", "width")
            sizes = [max(1, round(size * self.width)) for size in (hidden if isinstance(hidden, tuple) else (hidden,))]
            changes["hidden"] = tuple(sizes) if isinstance(hidden, tuple) else sizes[0]
        if self.dropout != 1:
            changes["dropout"] = min(MOST_DROPOUT, _there(network, "dropout", "dropout") * self.dropout)
        changed: Any = network
        return replace(changed, **changes) if changes else network

    def _stage(self, stage: Stage) -> Stage:
        changes: dict[str, Any] = {"lr": stage.optimizer.lr * self.lr}
        if self.weight_decay != 1:
            changes["weight_decay"] = _there(stage.optimizer, "weight_decay", "weight_decay") * self.weight_decay
        histories: Any = stage.histories
        if self.random_share != 1:
            share = min(MOST_RANDOM, _there(histories, "random_share", "random_share") * self.random_share)
            histories = replace(histories, random_share=share)
        return replace(stage, optimizer=replace(stage.optimizer, **changes), histories=histories)


def _there(settings: Any, name: str, factor: str) -> Any:
    """What the factor is on."""
    value = getattr(settings, name, None)
    if value is None:
        raise ValueError(f"{type(settings).__name__} has no {name}, so {factor} cannot be tuned: leave it out.")
    return value
