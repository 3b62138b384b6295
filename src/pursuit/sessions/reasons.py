"""The reasons of a result: which answers spoke for it or against it, and which single answer would have changed it."""

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from pursuit.inference.chain import Chain, percent
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, label_list, label_text
from pursuit.inference.target_bins import TargetBins
from pursuit.queries.column import listed
from pursuit.registry import UnknownName, did_you_mean
from pursuit.sessions.exclusion import without

LEAST_WEIGHT = 0.01
"""An answer that moved a label by fewer bits than this, or a number by less than this share of its spread, spoke
neither for nor against it."""
TINIEST = 1e-12
"""A probability below this counts as this, so that weights stay finite."""
MOST_LISTED = 5
"""How many reasons the text lists on either side."""
MOST_CHOICES = 20
"""Other answers are tried to queries with at most this many choices."""


@dataclass(frozen=True)
class Reason:
    """An answer, and how it moved the result."""

    name: str
    text: str
    answer: str
    before: float
    """The probability of the label before the answer, or the number expected then."""
    after: float
    weight: float
    """For a label: how many bits its log probability rose or, below zero, fell. All weights of a label together are
    what lies between its first probability and its last. For a number: by how much the expected one rose or fell."""


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
    target: TargetBins | None = None
    """What is predicted, where it is a number."""
    excluded: tuple[Any, ...] = ()
    """Labels that the person said are wrong."""

    @property
    def is_number(self) -> bool:
        return self.target is not None

    def figures(self, reason: Reason) -> tuple[str, str]:
        """The probability of the label, or the number expected, before and after an answer, in words."""
        in_words = percent if self.target is None else self.target.text
        return in_words(reason.before), in_words(reason.after)

    def change(self, reason: Reason) -> str:
        """What an answer did, in words: "31.7% -> 88.8%", or "about 80 -> 96" of a number."""
        return ("about " if self.is_number else "") + " -> ".join(self.figures(reason))

    def __str__(self) -> str:
        pro, con = ("What raised it:", "What lowered it:") if self.is_number else ("For it:", "Against it:")
        lines = [self.text, *self._listed(pro, self.reasons_for), *self._listed(con, self.reasons_against)]
        if self.other:
            lines.append(f"Hardly mattered: {', '.join(f'{reason.text} {reason.answer}' for reason in self.other)}")
        if len(lines) == 1:
            lines.append("Nothing was answered yet: this is what is usual.")
        if self.excluded:
            lines.append(f"Excluded as wrong: {', '.join(map(str, self.excluded))}")
        return "\n".join(lines)

    def _listed(self, title: str, reasons: tuple[Reason, ...]) -> list[str]:
        if not reasons:
            return []
        names = [f"{reason.text} {reason.answer}" for reason in reasons[:MOST_LISTED]]
        width, rest = max(map(len, names)), len(reasons) - len(names)
        lines = [f"  {name:<{width}}  {self.change(reason)}" for name, reason in zip(names, reasons, strict=False)]
        return [title, *lines, *([f"  and {rest} more"] if rest else [])]

    def to_dict(self) -> dict[str, Any]:
        """The reasons as JSON values, as docs/schemas/chains-1.json describes them."""

        def described(reasons: tuple[Reason, ...]) -> list[dict[str, Any]]:
            return [query_and_rest(reason) | {"change": self.change(reason)} for reason in reasons]

        return {
            "label": self.label if isinstance(self.label, str | int | float) else str(self.label),
            "text": self.text,
            "for": described(self.reasons_for),
            "against": described(self.reasons_against),
            "other": described(self.other),
            "is_number": self.is_number,
            "excluded": [str(other) for other in self.excluded],
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)


def query_and_rest(part: Any) -> dict[str, Any]:
    """The fields of a dataclass that names a query, as chains are written: `query` is its name."""
    fields = asdict(part)
    return {"query": fields.pop("name"), **fields}


def reasons_of(chain: Chain, label: Any = None) -> Reasons:
    """What the answers of a chain said about a label; by default about the one that is predicted."""
    target, beliefs = chain.target, [chain.prior, *(step.posterior for step in chain.steps)]
    if target is not None:
        if label is not None:
            raise ValueError("A number is predicted, so there is no label to ask about: leave it out.")
        figures = target.mean(torch.stack(beliefs)).tolist()
        least, name, text = LEAST_WEIGHT * target.spread, chain.prediction, target.belief(chain.posterior)
    else:
        name = chain.prediction if label is None else label
        if name not in chain.classes:
            hint = did_you_mean(str(name), map(str, chain.classes), f"Labels are {listed(chain.classes)}.")
            raise UnknownName(f"There is no label '{name}'. {hint}")
        place = chain.classes.index(name)
        figures = [float(belief[place]) for belief in beliefs]
        how = "excluded as wrong" if name in chain.excluded else percent(chain.posterior[place])
        least, text = LEAST_WEIGHT, f"{name} ({how})"
    reasons = [
        Reason(step.name, step.text, step.answer, before, after, _weight(before, after, target is not None))
        for step, (before, after) in zip(chain.steps, pairwise(figures), strict=True)
        if step.answer is not None
    ]
    weighty = sorted((reason for reason in reasons if abs(reason.weight) >= least), key=lambda r: -abs(r.weight))
    return Reasons(
        name,
        text,
        tuple(reason for reason in weighty if reason.weight > 0),
        tuple(reason for reason in weighty if reason.weight < 0),
        tuple(reason for reason in reasons if abs(reason.weight) < least),
        target,
        chain.excluded,
    )


def _weight(before: float, after: float, is_number: bool) -> float:
    return after - before if is_number else math.log2(max(after, TINIEST) / max(before, TINIEST))


@dataclass(frozen=True)
class WhatIf:
    """An answer that would have led to another prediction, all other answers being the same."""

    name: str
    text: str
    answer: str
    instead: str
    """What would have changed the prediction."""
    label: str
    """To what."""
    probability: float


@torch.no_grad()
def what_if(pursuer: Pursuer, x: Tensor, chain: Chain) -> tuple[WhatIf, ...]:
    """The answers in a chain on row `x` (*answer_shape) any of which alone would have led to another prediction, the
    surest first. Only queries with a list of choices are tried, and only where a label is predicted."""
    query_set = pursuer.query_set
    tried = [
        (step, choice)
        for step in chain.steps
        if step.answer is not None and len(query_set.queries[step.query].offered) <= MOST_CHOICES
        for choice in query_set.queries[step.query].offered
        if choice != step.answer
    ]
    if not tried or chain.target is not None:
        return ()
    known = torch.zeros(1, len(query_set), dtype=torch.bool)
    known[0, [step.query for step in (*chain.initially_known, *chain.steps) if step.answer is not None]] = True
    asked = known.clone()
    asked[0, [step.query for step in chain.steps]] = True
    changed = x[None].repeat(len(tried), *[1] * x.dim())
    for row, (step, choice) in zip(changed, tried, strict=True):
        query_set.tell(row, step.query, choice)
    histories = History(changed, known.expand(len(tried), -1), asked.expand(len(tried), -1))
    labels = label_list(pursuer.classes)
    excluded = [labels.index(label) for label in chain.excluded]
    best = without(pursuer.log_posterior(histories), excluded).exp().max(dim=1)
    before = int(chain.posterior.argmax())
    found = [
        WhatIf(step.name, step.text, step.answer or "", choice, label_text(labels[label]), p)
        for (step, choice), label, p in zip(tried, best.indices.tolist(), best.values.tolist(), strict=True)
        if label != before
    ]
    return tuple(sorted(found, key=lambda one: -one.probability))
