"""What costs are worth: methods that ask by information for each unit of cost, beside the same without costs.

Two worlds. One is known: ten labels and thirty yes/no queries, independent given the label, whose costs are drawn
between 1 and 100, so that exact bits per cost are known too. The other is the table of heart disease patients with the
costs of their tests (Turney 1995). For each seed all methods learn from the same rows and are measured on the same.
"""

import argparse
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import StratifiedKFold

from pursuit.data.rows import Rows
from pursuit.evaluation.curves import Evaluation, evaluate
from pursuit.exact import IndependentIP
from pursuit.inference.pursuer import Pursuer, label_codes
from pursuit.inference.stopping import Confidence
from pursuit.methods import METHODS
from pursuit.networks import MLP
from pursuit.queries import ColumnQueries, yes_no
from pursuit.training import CarriedHistories, Stage
from report import RESULTS, figure, origin, save, table, where

EXACT = "exact"
N_LABELS, N_QUERIES, COST_RANGE = 10, 30, (1.0, 100.0)
HEART_COSTS = {
    "age": 1.0,
    "sex": 1.0,
    "cp": 1.0,
    "trestbps": 1.0,
    "chol": 7.27,
    "fbs": 5.20,
    "restecg": 15.50,
    "thalach": 102.90,
    "exang": 87.30,
    "oldpeak": 87.30,
    "slope": 87.30,
    "ca": 100.90,
    "thal": 102.90,
}
"""In Canadian dollars, each test alone: the discounts for tests of one kind taken together are left out."""
RULE = Confidence(0.95)
SHARES = (0.1, 0.25, 0.5)
"""At which shares of the cost of everything the page shows the accuracy."""


@dataclass(frozen=True)
class Contestant:
    """A method, or exact IP, with or without regard to costs."""

    title: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


def contestants() -> list[Contestant]:
    """Methods that can ask by costs, each followed by itself without; V-IP once it can."""
    aware = {"cost_aware": True}
    found = [
        Contestant("exact IP, bits per cost", EXACT, aware),
        Contestant("exact IP, bits", EXACT),
        Contestant("naive-Bayes IP, bits per cost", "naive-bayes", aware),
        Contestant("naive-Bayes IP, bits", "naive-bayes"),
        Contestant("DIME", "dime"),  # always by costs
    ]
    if METHODS["vip"].accepts("cost_aware"):
        found.append(Contestant("V-IP, bits per cost", "vip", {**aware, "querier": "information"}))
    return [*found, Contestant("V-IP", "vip", {"cost_aware": False}), Contestant("random order", "random")]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seeds: int = 3
    n_train: int = 3_000
    """Rows of the known world to learn from."""
    n_test: int = 5_000
    n_folds: int = 5
    """In how many parts the rows of the table are measured on, each by models that learnt from the others."""
    n_steps: int = 3_000
    """Steps of 256 histories in the known world."""
    hidden: tuple[int, ...] = (256, 256)
    heart_epochs: float | None = None
    """Passes over the rows of the table; by default as many as suit their number."""
    device: str = "cpu"


QUICK = Size(seeds=1, n_train=200, n_test=60, n_folds=2, n_steps=20, hidden=(8,), heart_epochs=2)
BATCH = 256


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to measure on."""

    query_set: ColumnQueries
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class World:
    """Splits by seed, and how networks learn there."""

    name: str
    splits: Callable[[int], Iterator[Split]]
    settings: Mapping[str, Any]
    exact: Callable[[bool], Pursuer] | None = None
    """Exact IP, with regard to costs or not, where it is known."""


def known_world(size: Size) -> World:
    generator = torch.Generator().manual_seed(0)
    yes = torch.rand(N_LABELS, N_QUERIES, generator=generator)
    low, high = COST_RANGE
    costs = low * (high / low) ** torch.rand(N_QUERIES, generator=generator)  # log-uniform
    query_set = ColumnQueries([yes_no(f"q{i}", cost=round(float(cost), 2)) for i, cost in enumerate(costs)])

    def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        generator = torch.Generator().manual_seed(seed)
        y = torch.randint(N_LABELS, (n,), generator=generator)
        return (torch.rand(n, N_QUERIES, generator=generator) < yes[y]).int().numpy(), y.numpy()

    def splits(seed: int) -> Iterator[Split]:
        yield Split(query_set, *draw(size.n_train, 1000 + seed), *draw(size.n_test, 1))

    def exact(cost_aware: bool) -> Pursuer:
        prior = torch.full((N_LABELS,), 1 / N_LABELS)
        return IndependentIP.from_yes(query_set, range(N_LABELS), prior, yes, cost_aware)

    stage = Stage(size.n_steps * BATCH / size.n_train, CarriedHistories(15), batch_size=BATCH)
    return World("known world", splits, {"network": MLP(size.hidden), "stages": [stage]}, exact)


def heart(path: Path, size: Size) -> World:
    frame = pd.read_csv(path)
    X, y = frame.drop(columns="num"), frame["num"].to_numpy(dtype=str)
    query_set = ColumnQueries.from_data(X, costs=HEART_COSTS)

    def splits(seed: int) -> Iterator[Split]:
        folds = StratifiedKFold(size.n_folds, shuffle=True, random_state=seed)
        for train, test in folds.split(X, y):
            learnt = X.iloc[train]
            yield Split(query_set.rescaled(learnt), learnt, y[train], X.iloc[test], y[test])

    stages = None if size.heart_epochs is None else [Stage(size.heart_epochs)]
    return World("heart", splits, {"stages": stages})


def measure(worlds: Sequence[World], size: Size, say: Callable[[str], None] = print) -> dict[str, Any]:
    measured: dict[str, Any] = {"where": where(size.device), "size": asdict(size), "rule": str(RULE), "worlds": {}}
    for world in worlds:
        rows = {}
        for contestant in contestants():
            if contestant.method != EXACT or world.exact:
                rows[contestant.title] = [_one_seed(world, contestant, seed, size.device) for seed in range(size.seeds)]
                areas = ", ".join(f"{one['area_by_cost']:.3f}" for one in rows[contestant.title])
                say(f"{world.name}, {contestant.title}: area by cost {areas}")
        first, *others = world.splits(0)
        measured["worlds"][world.name] = {
            "n_models": 1 + len(others),
            "n_train": len(first.y_train),
            "n_test": len(first.y_test),
            "costs": {query.name: query.cost for query in first.query_set.queries},
            "contestants": rows,
        }
    return measured


def _one_seed(world: World, contestant: Contestant, seed: int, device: str) -> dict[str, Any]:
    """Means over the splits of a seed, which are all of one size but for a row."""
    found = [_evaluated(world, contestant, split, seed, device) for split in world.splits(seed)]
    curves = np.mean([[accuracy for _, accuracy in one.accuracy_by_cost] for one in found], axis=0)
    stops = [one.at_stop for one in found if one.at_stop]
    return {
        "area_by_cost": statistics.fmean(one.area_by_cost or math.nan for one in found),
        "costs": [cost for cost, _ in found[0].accuracy_by_cost],
        "accuracy_by_cost": curves.tolist(),
        "accuracy_all_answers": statistics.fmean(one.accuracy_all_answers for one in found),
        "at_stop": {
            "accuracy": statistics.fmean(stop.accuracy for stop in stops),
            "mean_cost": statistics.fmean(stop.mean_cost for stop in stops),
            "mean_asked": statistics.fmean(stop.mean_asked for stop in stops),
        },
    }


def _evaluated(world: World, contestant: Contestant, split: Split, seed: int, device: str) -> Evaluation:
    if contestant.method == EXACT and world.exact:
        pursuer = world.exact(contestant.parameters.get("cost_aware", False))
        rows = Rows(*split.query_set.answers(split.X_test), label_codes(pursuer.classes, split.y_test))
        return evaluate(pursuer, rows, RULE, device=device)
    settings = {**world.settings, **contestant.parameters, "stop": RULE, "random_state": seed, "device": device}
    model = METHODS[contestant.method].build(split.query_set, **settings)
    return model.fit(split.X_train, split.y_train).evaluate(split.X_test, split.y_test)


ABOUT = """# What costs are worth

Written by `python benchmarks/costs.py`. Methods that ask by bits per unit of cost stand beside the same methods asking
by bits, and beside V-IP and random order, which do not look at costs. DIME always asks by estimated bits per cost.
*Area* is the mean accuracy over equal steps of cost up to that of all answers, with the spread over seeds. Then come
accuracy once a share of that cost may be spent, and what the rule `{rule}` gives. All methods learn from the same rows
and are measured on the same.

"""
WORLDS = {
    "known world": "Ten labels; thirty yes/no queries, independent given the label; log-uniform costs from 1 to 100.",
    "heart": "UCI heart disease with the costs of its tests (Turney 1995), without discounts for tests taken together; "
    "every row is measured once a seed.",
}


def page(measured: dict[str, Any]) -> str:
    parts = [ABOUT.format(**measured) + origin(measured)]
    for name, world in measured["worlds"].items():
        n_seeds, total = measured["size"]["seeds"], sum(world["costs"].values())
        about = (
            f"{WORLDS[name]} Each model learnt from {world['n_train']:,} rows and is measured on {world['n_test']:,} "
            f"others; {world['n_models']} models a seed, {n_seeds} seed{'s' * (n_seeds != 1)}. All answers cost "
            f"{figure(total)}."
        )
        columns = ["method", "area by cost", *(f"at {share:.0%}" for share in SHARES), "all answers", "stops at cost"]
        rows = [[title, *_line(seeds, total)] for title, seeds in world["contestants"].items()]
        parts.append(f"\n## {name[0].upper()}{name[1:]}\n\n{about}\n\n" + table([*columns, "right then"], rows))
    return "".join(parts)


def _line(seeds: Sequence[Mapping[str, Any]], total: float) -> list[str]:
    areas, stops = [one["area_by_cost"] for one in seeds], [one["at_stop"] for one in seeds]
    spread = f" ± {statistics.stdev(areas):.3f}" if len(areas) > 1 else ""
    within = [statistics.fmean(_accuracy(one, share * total) for one in seeds) for share in SHARES]
    with_all = statistics.fmean(one["accuracy_all_answers"] for one in seeds)
    cost, accuracy = (statistics.fmean(stop[key] for stop in stops) for key in ("mean_cost", "accuracy"))
    return [
        f"{statistics.fmean(areas):.3f}{spread}",
        *(f"{mean:.3f}" for mean in (*within, with_all)),
        figure(cost),
        f"{accuracy:.3f}",
    ]


def _accuracy(one: Mapping[str, Any], allowed: float) -> float:
    """What is right once this may be spent."""
    curve = zip(one["costs"], one["accuracy_by_cost"], strict=True)
    return max((cost, accuracy) for cost, accuracy in curve if cost <= allowed)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare methods that look at the costs of queries.")
    data = Path(os.environ.get("PURSUIT_DATA", "."))
    parser.add_argument("--heart", type=Path, default=data / "tables" / "heart.csv.gz", help="the table of patients")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--quick", action="store_true", help="toy sizes, only to see that it works")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder to write costs.json and costs.md into")
    arguments = parser.parse_args()
    if not arguments.heart.exists():
        parser.error(f"there is no file {arguments.heart}: give the table of patients by --heart or set PURSUIT_DATA")
    size = replace(QUICK if arguments.quick else Size(), device=arguments.device)
    measured = measure([known_world(size), heart(arguments.heart, size)], size)
    print(save(measured, page, "costs", arguments.into))


if __name__ == "__main__":
    main()
