"""The reasons of a result: which answers spoke for it, and which against it."""

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from torch import Tensor

from pursuit.inference.chain import Chain, ChainStep, percent

LEAST_WEIGHT = 0.01
"""An answer that moved a label by fewer bits than this, or a number by less than this share of its spread, spoke
neither for nor against it."""
TINIEST = 1e-12
"""A probability below this counts as this, so that weights stay finite."""
MOST_SHOWN = 5


@dataclass(frozen=True)
class Reason:
    """An answer, and how it moved the result."""

    query: str
    text: str
    answer: str
    before: float
    """The probability of the label before the answer, or the number expected then."""
    after: float
    weight: float
    """For a label: how many bits its log probability rose or, below zero, fell. All weights of a label together are
    what lies between its first probability and its last. For a number: by how much the expected one rose or fell."""
    change: str
    """The same in words, as in "31.7% -> 88.8%"."""


@dataclass(frozen=True)
class Reasons:
    """What spoke for a label and against it, the weightiest first; of a number, what raised and what lowered it.
    Prints as text for the person who gave the answers."""

    label: Any
    """The label, or the number that is expected."""
    text: str
    """The label with its probability, or the number with its interval."""
    reasons_for: tuple[Reason, ...]
    reasons_against: tuple[Reason, ...]
    other: tuple[Reason, ...]
    """Answers that hardly mattered."""
    is_number: bool = False
    excluded: tuple[Any, ...] = ()
    """Labels that the person said are wrong."""

    def __str__(self) -> str:
        pro, con = ("What raised it:", "What lowered it:") if self.is_number else ("For it:", "Against it:")
        lines = [self.text, *_listed(pro, self.reasons_for), *_listed(con, self.reasons_against)]
        if self.other:
            lines.append(f"Hardly mattered: {', '.join(f'{reason.text} {reason.answer}' for reason in self.other)}")
        if len(lines) == 1:
            lines.append("Nothing was answered yet: this is what is usual.")
        if self.excluded:
            lines.append(f"Excluded as wrong: {', '.join(map(str, self.excluded))}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The reasons as JSON values."""
        label = self.label if isinstance(self.label, str | int | float) else str(self.label)
        lists = {
            "for": [asdict(reason) for reason in self.reasons_for],
            "against": [asdict(reason) for reason in self.reasons_against],
            "other": [asdict(reason) for reason in self.other],
        }
        excluded = [str(other) for other in self.excluded]
        return {"label": label, "text": self.text, **lists, "is_number": self.is_number, "excluded": excluded}

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def reasons_of(chain: Chain, label: Any = None) -> Reasons:
    """What the answers of a chain said about a label; by default about the one that is predicted."""
    if chain.target is not None:
        if label is not None:
            raise ValueError("A number is predicted, so there is no label to ask about: leave it out.")
        reasons = [_of_number(chain, step, before) for step, before in _answered(chain)]
        least, name, text = LEAST_WEIGHT * chain.target.spread, chain.prediction, chain.target.belief(chain.posterior)
    else:
        name = chain.prediction if label is None else label
        if name not in chain.classes:
            raise ValueError(f"There is no label '{name}'. Labels are {', '.join(map(str, chain.classes))}.")
        place = chain.classes.index(name)
        reasons = [_of_label(place, step, before) for step, before in _answered(chain)]
        least, text = LEAST_WEIGHT, f"{name} ({percent(chain.posterior[place])})"
        if name in chain.excluded:
            text = f"{name} (excluded as wrong)"
    weighty = sorted((reason for reason in reasons if abs(reason.weight) >= least), key=lambda r: -abs(r.weight))
    return Reasons(
        name,
        text,
        tuple(reason for reason in weighty if reason.weight > 0),
        tuple(reason for reason in weighty if reason.weight < 0),
        tuple(reason for reason in reasons if abs(reason.weight) < least),
        chain.target is not None,
        chain.excluded,
    )


def _answered(chain: Chain) -> list[tuple[ChainStep, Tensor]]:
    """The steps that have an answer, each with the belief (C,) before it."""
    beliefs = [chain.prior, *(step.posterior for step in chain.steps)]
    pairs = zip(chain.steps, pairwise(beliefs), strict=True)
    return [(step, before) for step, (before, _) in pairs if step.answer is not None]


def _of_label(place: int, step: ChainStep, belief: Tensor) -> Reason:
    before, after = float(belief[place]), float(step.posterior[place])
    weight = math.log2(max(after, TINIEST) / max(before, TINIEST))
    return _reason(step, before, after, weight, f"{percent(before)} -> {percent(after)}")


def _of_number(chain: Chain, step: ChainStep, belief: Tensor) -> Reason:
    assert chain.target is not None
    before, after = (float(chain.target.mean(p[None])) for p in (belief, step.posterior))
    return _reason(
        step, before, after, after - before, f"about {chain.target.text(before)} -> {chain.target.text(after)}"
    )


def _reason(step: ChainStep, before: float, after: float, weight: float, change: str) -> Reason:
    assert step.answer is not None
    return Reason(step.name, step.text, step.answer, before, after, weight, change)


def _listed(title: str, reasons: tuple[Reason, ...]) -> list[str]:
    if not reasons:
        return []
    shown = reasons[:MOST_SHOWN]
    width = max(len(f"{reason.text} {reason.answer}") for reason in shown)
    lines = [f"  {f'{reason.text} {reason.answer}':<{width}}  {reason.change}" for reason in shown]
    rest = len(reasons) - len(shown)
    return [title, *lines, *([f"  and {rest} more"] if rest else [])]
