"""What costs are worth: methods that ask by information for each unit of cost, beside the same without costs. One world
is known: its queries have costs drawn between 1 and 100, so that exact bits per cost are known too. The other is the
table of heart disease patients with the costs of their tests (Turney 1995)."""

import math
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from benchmarks import known_world
from benchmarks.common import Split, read_table
from benchmarks.report import Record, figure, grid, grouped, origins
from benchmarks.study import Study
from pursuit import MLP, CarriedHistories, ColumnQueries, Confidence, Rows, Stage, yes_no
from pursuit.evaluation.curves import evaluate
from pursuit.exact import IndependentIP
from pursuit.inference.pursuer import label_codes
from pursuit.methods import METHODS

HEART_COSTS = {
    **dict.fromkeys(("age", "sex", "cp", "trestbps"), 1.0),
    **{"chol": 7.27, "fbs": 5.20, "restecg": 15.50},
    **dict.fromkeys(("exang", "oldpeak", "slope"), 87.30),
    **{"ca": 100.90, "thalach": 102.90, "thal": 102.90},
}
"""In Canadian dollars, each test alone: the discounts for tests of one kind taken together are left out."""
KNOWN, RULE, SHARES, BATCH = "known world", Confidence(0.95), (0.1, 0.25, 0.5), 256
METHODS_SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "exact IP, bits per cost": ("exact", {"cost_aware": True}),
    "exact IP, bits": ("exact", {"cost_aware": False}),
    "naive-Bayes IP, bits per cost": ("naive-bayes", {"cost_aware": True}),
    "naive-Bayes IP, bits": ("naive-bayes", {}),
    "DIME": ("dime", {}),  # always by costs
    "V-IP, bits per cost": ("vip", {"cost_aware": True, "querier": "information"}),
    "V-IP": ("vip", {"cost_aware": False}),
    "random order": ("random", {}),
}


def known_queries() -> ColumnQueries:
    """Those of the known world, with log-uniform costs."""
    generator = torch.Generator().manual_seed(0)
    torch.rand(known_world.N_LABELS, known_world.N_QUERIES, generator=generator)  # P(yes), which is drawn first
    costs = 100 ** torch.rand(known_world.N_QUERIES, generator=generator)
    return ColumnQueries([yes_no(f"q{i}", cost=round(float(cost), 2)) for i, cost in enumerate(costs)])


def splits(world: str, seed: int, n_train: int, n_test: int, n_folds: int) -> Iterator[tuple[ColumnQueries, Split]]:
    if world == KNOWN:
        drawn = (known_world.draw(n_train, 1000 + seed), known_world.draw(n_test, 1))
        yield known_queries(), Split(*(part for rows in drawn for part in ((rows.x > 0).int().numpy(), rows.y.numpy())))
        return
    X, y = read_table("heart")
    query_set = ColumnQueries.from_data(X, costs=HEART_COSTS)
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(X, y):
        yield query_set.rescaled(X.iloc[train]), Split(X.iloc[train], y[train], X.iloc[test], y[test])


def measure(
    world: str,
    contestant: str,
    seed: int,
    n_train: int = 3_000,
    n_test: int = 5_000,
    n_folds: int = 5,
    n_steps: int = 3_000,
    hidden: tuple[int, ...] = (256, 256),
    heart_epochs: float | None = None,
    device: str = "cpu",
) -> Record:
    """Means over the splits of a seed, which are all of one size but for a row."""
    method, parameters = METHODS_SHOWN[contestant]
    stage = Stage(n_steps * BATCH / n_train, CarriedHistories(15), batch_size=BATCH)
    settings: Record = {"network": MLP(tuple(hidden)), "stages": [stage]}
    if world != KNOWN:
        settings = {"stages": None if heart_epochs is None else [Stage(heart_epochs)]}
    found = []
    for query_set, part in splits(world, seed, n_train, n_test, n_folds):
        if method == "exact":
            labels, prior = range(known_world.N_LABELS), known_world.PRIOR
            pursuer = IndependentIP.from_yes(query_set, labels, prior, known_world.YES, parameters["cost_aware"])
            rows = Rows(*query_set.answers(part.X_test), label_codes(pursuer.classes, part.y_test))
            found.append(evaluate(pursuer, rows, RULE, device=device))
        else:
            given = {**settings, **parameters, "stop": RULE, "random_state": seed, "device": device}
            model: Any = METHODS[method].build(query_set, **given).fit(part.X_train, part.y_train)
            found.append(model.evaluate(part.X_test, part.y_test))
    stops, keys = [one.at_stop for one in found], ("accuracy", "mean_cost", "mean_asked")
    return {
        "n_models": len(found),
        "rows": [len(part.y_train), len(part.y_test)],
        "query_costs": {query.name: query.cost for query in query_set.queries},
        "area_by_cost": statistics.fmean(one.area_by_cost or math.nan for one in found),
        "costs": [cost for cost, _ in found[0].accuracy_by_cost],
        "accuracy_by_cost": np.mean([[right for _, right in one.accuracy_by_cost] for one in found], axis=0).tolist(),
        "accuracy_all_answers": statistics.fmean(one.accuracy_all_answers for one in found),
        "at_stop": {key: statistics.fmean(getattr(stop, key) for stop in stops) for key in keys},
    }


def total(record: Record) -> float:
    return sum(record["query_costs"].values())


def within(record: Record, share: float) -> float:
    """What is right once this share of the cost of everything may be spent."""
    curve = zip(record["costs"], record["accuracy_by_cost"], strict=True)
    return max((cost, right) for cost, right in curve if cost <= share * total(record))[1]


def page(records: list[Record]) -> dict[str, str]:
    columns = {
        "area by cost": "area_by_cost|.3f±",
        **{
            f"at {share:.0%}": (lambda each, share=share: f"{np.mean([within(one, share) for one in each]):.3f}")
            for share in SHARES
        },
        "all answers": "accuracy_all_answers|.3f",
        "stops at cost": "at_stop.mean_cost|figure",
        "right then": "at_stop.accuracy|.3f",
    }
    sections = {}
    for name, each in grouped(records, "world").items():
        rows, n_seeds = each[0]["rows"], len({one["seed"] for one in each})
        said = f"Each model learnt from {rows[0]:,} rows and is measured on {rows[1]:,} others; {each[0]['n_models']} "
        said += f"models a seed, {n_seeds} seeds. All answers cost {figure(total(each[0]))}.\n\n"
        sections[name] = said + grid(grouped(each, "contestant"), columns, "method")
    return {**sections, "origins": origins(records, "world")}


STUDY = Study(
    name="costs",
    runs=[
        {"world": world, "contestant": contestant, "seed": seed}
        for world in (KNOWN, "heart")
        for contestant, (method, _) in METHODS_SHOWN.items()
        for seed in (0, 1, 2)
        if method != "exact" or world == KNOWN
    ],
    measure=measure,
    page=page,
    quick={"n_train": 200, "n_test": 60, "n_folds": 2, "n_steps": 20, "hidden": [8], "heart_epochs": 2},
)
