"""A small world in which the order of questions matters, and a plain account of what an order allows."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from pursuit.inference.chain import Chain
from pursuit.queries import ColumnQueries, Group, OnlyAfter, Order

ORDER = Order(
    beforehand=("sex",),
    only_after=(
        OnlyAfter("pregnant", "sex", ("f",)),
        OnlyAfter("week", "pregnant", ("yes",)),
        OnlyAfter("scan", "fever"),
    ),
    groups=(Group("vitals", ("pulse", "pressure")),),
)


def clinic(n: int = 240, missing: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    """What is asked of patients, and what they have. The week matters only to those who are pregnant."""
    randomness = np.random.default_rng(0)
    sex = randomness.choice(["f", "m"], n)
    pregnant = (sex == "f") & (randomness.random(n) < 0.5)
    week = np.where(pregnant, randomness.integers(1, 40, n), 0).astype(float)
    fever = randomness.random(n) < 0.5
    pulse, pressure = 80 + 20 * fever + randomness.normal(0, 4, n), 120 + randomness.normal(0, 9, n)
    scan = np.where(week > 20, "large", np.where(pregnant, "small", "none"))
    X = pd.DataFrame(
        {
            "sex": sex,
            "pregnant": pregnant.astype(int),
            "week": week,
            "fever": fever.astype(int),
            "pulse": pulse.round(),
            "pressure": pressure.round(),
            "scan": scan,
        }
    )
    y = np.where(week > 20, "late", np.where(pregnant, "early", np.where(fever, "flu", "well")))
    return X.mask(randomness.random(X.shape) < missing), y


def clinic_queries(order: Order | None = ORDER) -> ColumnQueries:
    query_set = ColumnQueries.from_data(clinic()[0])
    query_set.set_order(order)
    return query_set


def allowed_by(order: Order, names: Sequence[str], known: Mapping[str, str], asked: set[str]) -> set[str]:
    """What may be asked, by the words of the rule alone: `known` has the answers in words."""
    met = {
        name
        for name in names
        if name not in asked
        and name not in order.beforehand
        and all(
            (known.get(c.after) in c.answers) if c.answers else (c.after in asked or c.after in order.beforehand)
            for c in order.only_after
            if c.query == name
        )
    }
    begun = [group for group in order.groups if asked & set(group.queries) and met & set(group.queries)]
    return {name for name in met if any(name in group.queries for group in begun)} if begun else met


def check_chain(order: Order, query_set: ColumnQueries, chain: Chain) -> None:
    """Every question of a chain was allowed when it was asked."""
    names = [query.name for query in query_set.queries]
    known = {step.name: step.answer for step in chain.initially_known if step.answer is not None}
    asked = set(known)
    for step in chain.steps:
        if not step.volunteered:
            assert step.name in allowed_by(order, names, known, asked), f"{step.name} after {sorted(asked)}"
        asked.add(step.name)
        if step.answer is not None:
            known[step.name] = step.answer


def check_histories(order: Order, query_set: ColumnQueries, x: Tensor, known: Tensor, asked: Tensor) -> None:
    """Every history can have come about by questions that were allowed one after the other."""
    names = [query.name for query in query_set.queries]
    for row, is_known, was_asked in zip(x, known, asked, strict=True):
        answers = {names[i]: query_set.describe(i, row) for i in is_known.nonzero()[:, 0].tolist()}
        asked_there = {names[i] for i in was_asked.nonzero()[:, 0].tolist()}
        given = asked_there & set(order.beforehand)
        assert _can_come_about(order, names, answers, given, asked_there - given), sorted(asked_there)


def _can_come_about(
    order: Order, names: Sequence[str], answers: Mapping[str, str], done: set[str], left: set[str]
) -> bool:
    """Whether the queries `left` may be asked in some order once those `done` were."""
    known = {name: answer for name, answer in answers.items() if name in done}
    possible = sorted(allowed_by(order, names, known, done) & left)
    return not left or any(_can_come_about(order, names, answers, done | {name}, left - {name}) for name in possible)
