"""Answers unlike any that a model learnt from: how often honest rows raise the alarm, and how often others do. Measured
by `benchmarks/unreliable.py`, with the models that it trains, and a part of its page."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

from pursuit import VIPClassifier
from pursuit.data.rows import Rows
from pursuit.evaluation.calibration import accuracy_interval
from pursuit.inference.predictions import predict_rows
from pursuit.inference.stopping import Never
from pursuit.inference.unusual import FALSE_ALARMS
from report import table

PIXELS = "digits, 64 pixels"
"""scikit-learn's digits as a table of numbers: the answers to patches cannot be foreseen, so that nothing is said of
them."""
HONEST, SHUFFLED, RANDOM, INVERTED = "honest", "columns shuffled", "answers at random", "inverted"
KINDS = (HONEST, SHUFFLED, RANDOM, INVERTED)
WHEN = ("at the stop", "all asked")


def pixels(seed: int) -> tuple[VIPClassifier, Rows, Rows]:
    """A model of the pixels of digits, test rows, and the same images with black for white."""
    images, labels = load_digits(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(
        images, labels, test_size=0.2, stratify=labels, random_state=seed
    )
    model = VIPClassifier(random_state=seed).fit(X_train, y_train)
    return model, model.rows(X_test, y_test), model.rows(16 - X_test, y_test)


def shuffled(rows: Rows, unit_of_feature: Tensor, generator: torch.Generator) -> Rows:
    """Every column in an order of its own: each answer is usual, but not beside the others."""
    x, available = rows.x.clone(), rows.available.clone()
    for query in range(rows.n_queries):
        order = torch.randperm(len(rows), generator=generator)
        own = unit_of_feature == query
        x[:, own], available[:, query] = rows.x[order][:, own], rows.available[order, query]
    return replace(rows, x=x, available=available)


def at_random(rows: Rows, unit_of_feature: Tensor, generator: torch.Generator) -> Rows:
    """Every answer is one that the column has, all of them as likely; what is not answered stays so."""
    x = rows.x.clone()
    for query in range(rows.n_queries):
        own, has = unit_of_feature == query, rows.available[:, query]
        if has.any():
            answers = rows.x[has][:, own].unique(dim=0)
            x[:, own] = answers[torch.randint(len(answers), (len(rows),), generator=generator)]
    return replace(rows, x=x)


def others(model: VIPClassifier, rows: Rows, seed: int) -> Iterator[tuple[str, Rows]]:
    """Honest rows, and what is made of them."""
    units, generator = model.model_.query_set.units.of_feature, torch.Generator().manual_seed(seed)
    assert units is not None
    yield HONEST, rows
    yield SHUFFLED, shuffled(rows, units, generator)
    yield RANDOM, at_random(rows, units, generator)


def alarms(model: VIPClassifier, rows: Rows) -> dict[str, list[int]]:
    """How many rows raise the alarm, where the model stops and once everything was asked, and the queries asked of all
    of them together."""
    found = {}
    for when, rule in zip(WHEN, (model.stopping_rule(), Never()), strict=True):
        predicted = predict_rows(model.model_, rows.x, rows.available, rule, rows.initially_known)
        n = 0 if predicted.unusual is None else int(predicted.unusual.sum())
        found[when] = [n, int((predicted.query >= 0).sum())]
    return found


def measure(model: VIPClassifier, rows: Rows, seed: int, inverted: Rows | None = None) -> dict[str, Any]:
    """The alarms of each kind of rows."""
    kinds = [*others(model, rows, seed), *([] if inverted is None else [(INVERTED, inverted)])]
    return {kind: {"rows": len(some), **alarms(model, some)} for kind, some in kinds}


def together(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The sums of several models."""
    return {
        kind: {
            "rows": sum(one[kind]["rows"] for one in found),
            **{when: np.sum([one[kind][when] for one in found], axis=0).tolist() for when in WHEN},
        }
        for kind in found[0]
    }


def section(parts: dict[str, Any]) -> str:
    """What the page says."""
    lines = []
    for name, part in parts.items():
        shown = []
        for kind in KINDS:
            one = part.get(kind)
            shown += ["–"] * 2 if one is None else [f"{one[when][0] / one['rows']:.2%}" for when in WHEN]
        honest = part[HONEST]
        asked = f"{honest[WHEN[0]][1] / honest['rows']:.1f}"
        lines.append([name, f"{honest['rows']:,}", asked, *shown, part["commit"]])
    if not parts:
        return ""
    n_rows = sum(part[HONEST]["rows"] for part in parts.values())
    said = []
    for when in WHEN:
        n = sum(part[HONEST][when][0] for part in parts.values())
        low, high = accuracy_interval(n, n_rows)
        said.append(f"{n / n_rows:.2%} {when} ({n} rows, 95 % interval {low:.2%} to {high:.2%})")
    columns = ["", "test rows", "asked", *(f"{kind}: {when}" for kind in KINDS for when in WHEN), "commit"]
    return f"""## Answers unlike any that were learnt from

The plain models, and a few more: how many rows are found unusual where the model stops, and once everything was
asked. *Honest* are test rows, of which {FALSE_ALARMS:.1%} should be. In *columns shuffled*, every column is in an
order of its own, so that each answer is one that people give, but not beside the others. *Answers at random* are those
that a column has, all of them as likely. *Inverted* are images with black for white.

{table(columns, lines)}
Of all {n_rows:,} honest rows: {" and ".join(said)}.

- A few answers show little, and a model that stops early is hard to surprise.
- Nursery has every combination of its answers once, so that rows which are shuffled or random are ordinary ones.
- Limits that few held-out rows show (160 of credit) are cautious. Before they were, at commit aced431, 1.00% of the
  honest rows of credit raised the alarm at the stop and 1.50% once everything was asked, and 2.50% of those of kr-vs-kp
  then; of answers at random, 21.50% and 69.25% did on credit.
- Where everything is asked, kr-vs-kp still has more false alarms than promised; why is not known yet.
- The limits were made cautious after the first figures of nursery, credit and kr-vs-kp had been seen, so that those
  above are not free of that choice.
"""
