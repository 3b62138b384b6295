"""Which single answer would have changed a prediction."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pursuit.inference.chain import Chain
from pursuit.inference.exclusion import without
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, label_list

MOST_CHOICES = 20
"""Of a query with more choices than that, no other answer is tried."""


@dataclass(frozen=True)
class WhatIf:
    """An answer that would have led to another prediction, all other answers being the same."""

    query: str
    text: str
    answer: str
    """What was answered."""
    instead: str
    """What would have changed the prediction."""
    prediction: Any
    """To what."""
    probability: float
    """How probable that would be."""


@torch.no_grad()
def what_if(pursuer: Pursuer, x: Tensor, chain: Chain) -> tuple[WhatIf, ...]:
    """The answers in a chain on row `x` (*answer_shape) any of which alone would have led to another prediction, the
    surest first. Only queries with a list of choices are tried, and only where a label is predicted.
    """
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
        WhatIf(step.name, step.text, step.answer or "", choice, labels[label], p)
        for (step, choice), label, p in zip(tried, best.indices.tolist(), best.values.tolist(), strict=True)
        if label != before
    ]
    return tuple(sorted(found, key=lambda one: -one.probability))
