"""All methods under one protocol: docs/results/comparison.md, with the JSON and the figure of every task beside it.

    python benchmarks/methods.py                # train and measure on all tasks that need no GPU, and write the page
    python benchmarks/methods.py digits muzhi   # only on these
    python benchmarks/methods.py --collect results/compare-mnist ...   # take over results of `pursuit compare`

What is measured already in results/ is not measured again. What stands on the page is what the JSON files say.
"""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import known_world
from leaders import standings
from pursuit.data.rows import Rows
from pursuit.estimators import load
from pursuit.experiments.compare import EXACT, compare, of_classes, vip_first
from pursuit.experiments.results import Results, mean_and_spread
from pursuit.experiments.table import ALL_ANSWERS, markdown_table
from pursuit.experiments.trial import Trial
from pursuit.inference.history import History
from pursuit.inference.pursuer import Pursuer, choose
from pursuit.methods import METHODS
from pursuit.networks import MLP
from pursuit.scale.sweeps import find_sweep
from pursuit.tasks import Task
from pursuit.training import CarriedHistories, Stage
from pursuit.training.samplers import random_histories, rolled_out_histories
from report import OVERVIEW, RESULTS, into_page, rounded, table

FOLDER, RUNS, PAGE = RESULTS / "comparison", Path("results"), RESULTS / "comparison.md"
METHODS_PAGE = RESULTS.parent / "methods.md"
SEEDS = (0, 1, 2)
SHOWN = "mnist"
"""The task that the overview of all results shows."""
KNOWN_WORLD, KNOWN_ROWS, KNOWN_TEST, KNOWN_EPOCHS, KNOWN_LONGEST = "known-world", 3_000, 1_000, 64, 15
JUDGED_HISTORIES, LONGEST_JUDGED = 500, 6
JUDGED_KEY = "judged"
"""Beside the results of the known world: what exact pursuit says of each method."""
OF_CLASSES = vip_first(of_classes(METHODS))
PLANS: dict[str, dict[str, Any]] = {
    KNOWN_WORLD: {"methods": ("all",)},
    "digits": {
        "methods": tuple(name for name in OF_CLASSES if name not in ("refuel", "vip-information")),  # columns
    },
    "animals": {
        "methods": tuple(name for name in (*OF_CLASSES, EXACT) if name != "g-ip"),  # hours for 187 labels
        "effort": 0.5,
    },
    "muzhi": {"methods": ("all",)},
    "dxy": {"methods": ("all",)},
}
"""What is compared where, besides the seeds."""
ABOUT = """\
# Methods compared

Written by `make bench-methods`, which runs `pursuit compare` on every task. For each seed all methods learn from the
same rows, are given the same network settings and train on as many histories as V-IP; all are measured on the same test
rows with the same stopping rule. [methods.md](../methods.md) says what each method is. How settings were chosen is said
at the end; those of V-IP are the recipes of [tasks.md](tasks.md), not all of which were chosen without a look at test
rows. The area is the mean accuracy over 1 to |Q| queries asked; where a curve ends earlier, its column says so, and
areas that go to different lengths are not comparable. Milliseconds a step are those of one row at a time on a CPU.
"""
NOTES = """\
## What to know about these runs

- **V-IP** is the straight-through querier here, the only one when these runs were made; [queriers.md](queriers.md) has
  V-IP by information beside it.
- **mnist** and **symcat-200** were measured on one NVIDIA H200 by `pursuit compare mnist --effort 0.2 --max-queries
  20` and `pursuit compare symcat-200 --recipe gpu --effort 0.05`, one process a method or seed (`--collect` put them
  together). Up to 40 processes shared the GPU and 16 cores, so that training times and milliseconds there are upper
  bounds.
- There the decision tree has one seed. G-IP and Partial VAE did not get through 10,000 test images of mnist in the
  time there was, and G-IP was not run on symcat-200 and animals: it would move twelve chains for each of 200 or 187
  labels. REFUEL is for columns.
- Since then, fixed order looks again at gains that are out of date (it could rank a query by what it said before
  others said the same), and Partial VAE asks by EDDI's reward with more weight on the label: their rows of mnist and
  symcat-200 are of the versions before.
- Settings of RAM, REFUEL, GDFS, DIME, G-IP and Partial VAE were chosen on rows held out from the training rows of
  digits, mnist, muzhi and dxy, and on other rows of the known world than those here.
- **animals** leaves every tenth question open. Curves and areas count what is asked, open questions included; the
  area by answers counts those with an answer alone. Learnt pursuers find out which animals answer which questions, and
  exact IP, which takes such answers for a toss, does not: hence a gap below zero. It was measured on one thread of a
  busy 2-core x86_64 machine, so that times are upper bounds.
- Other tasks were measured on one thread each of a shared 2-core aarch64 machine.
"""
JUDGED = """\
The known world has ten labels and thirty yes/no queries, independent given the label, with P(yes | label) drawn
uniformly (`benchmarks/known_world.py`), so that exact Information Pursuit is known. Its rows are the same for all
seeds, which differ in training. Judged on {n_histories:,} histories
of 0 to {longest} answers to random queries: the correlation of a method's scores with the exact information of the
queries not asked yet, over all of them (only for methods whose scores mean information), and the divergence of the
posterior from the exact one. The share is the information of the sixth query of a method's own chains over that of the
best query there.
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Compare all methods.")
    parser.add_argument("tasks", nargs="*", help="tasks to measure; by default all that need no GPU")
    parser.add_argument("--collect", nargs="*", type=Path, help="results folders of `pursuit compare` to take over")
    parser.add_argument("--engine", help="ray: train side by side, on all cores or on a cluster")
    parser.add_argument("--address", help="of a Ray cluster that runs already")
    given = parser.parse_args(arguments)
    sweep = find_sweep(given.engine, given.address, gpu_share=0.0)
    for name in given.tasks or ([] if given.collect is not None else PLANS):
        folder = RUNS / f"compare-{name}"
        source = known_task() if name == KNOWN_WORLD else name
        trial = Trial(source, seeds=SEEDS, **PLANS[name])
        compare(trial, folder, say=lambda line: print(line, flush=True), sweep=sweep)
        take_over(folder, name)
    for folder in given.collect or ():
        take_over(folder, folder.name.removeprefix("compare-"))
    PAGE.write_text(page(), encoding="utf-8")
    into_page(METHODS_PAGE, "areas", areas())
    into_page(METHODS_PAGE, "leaders", leaders_by_task())
    into_page(OVERVIEW, "comparison", overview_section())
    print(f"Written: {PAGE}")


def take_over(folder: Path, name: str) -> None:
    """Keep what a comparison found, without what is only needed to go on with it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    values = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    if name == KNOWN_WORLD:
        values[JUDGED_KEY] = judged(folder, Results.from_dict(values))
    (FOLDER / f"{name}.json").write_text(json.dumps(rounded(values), indent=1) + "\n", encoding="utf-8")
    for figure in folder.glob("curve*.png"):  # against queries, and against cost where costs differ
        shutil.copy(figure, FOLDER / f"{name}{figure.name.removeprefix('curve')}")


def _values() -> dict[str, dict[str, Any]]:
    """The JSON of every task, the known world first."""
    paths = sorted(FOLDER.glob("*.json"), key=lambda path: (path.stem != KNOWN_WORLD, path.stem))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def kept() -> dict[str, Results]:
    """What was found on every task, the known world first."""
    return {name: Results.from_dict(values) for name, values in _values().items()}


def areas() -> str:
    """The area of every method on every task."""
    found = {name: results.worked for name, results in kept().items()}
    # In the order of the known world, which has all methods
    titles = {name: method.title for worked in found.values() for name, (method, _) in worked.items()}
    rows = []
    for name, title in titles.items():
        if name != ALL_ANSWERS:
            shown = (worked[name][1].area if name in worked else None for worked in found.values())
            rows.append([title, *map(mean_and_spread, shown)])
    reach = [next(iter(worked.values()))[1].reach for worked in found.values()]
    columns = [f"{name}, {how_far}" for name, how_far in zip(found, reach, strict=True)]
    return table(["method", *columns], rows)


def leaders_by_task() -> str:
    """Who leads where, a line a task."""
    return "\n".join(f"- **{name}**: {standings(results)}" for name, results in kept().items())


def overview_section() -> str:
    """One figure for the overview of all results, and what it shows."""
    results = kept()[SHOWN]
    n_seeds = max(summary.n_seeds for _, summary in results.worked.values())
    words = f"{SHOWN}, up to {n_seeds} seeds: {standings(results)} Here V-IP has a straight-through querier."
    return f"![Accuracy against number of queries on {SHOWN}](comparison/{SHOWN}.png)\n\n" + "\n".join(
        textwrap.wrap(words, 128, break_on_hyphens=False)
    )


def page() -> str:
    """Everything on one page, from the JSON files."""
    parts = [ABOUT]
    for name, values in _values().items():
        results = Results.from_dict(values)
        parts += [f"## {name}\n", markdown_table(results), f"![{name}](comparison/{name}.png)\n"]
        if (FOLDER / f"{name}-by-cost.png").exists():
            parts += [f"![{name}, by cost](comparison/{name}-by-cost.png)\n"]
        if JUDGED_KEY in values:
            parts += [judged_table(results, values[JUDGED_KEY])]
        if gap := gap_to_exact(results):
            parts += [gap]
        parts += ["\n".join(textwrap.wrap(standings(results), 120, break_on_hyphens=False)) + "\n"]
    return "\n".join([*parts, NOTES])


def known_task() -> Task:
    """The known world as a task; its rows are drawn once, and seeds differ in training."""
    train, test = known_world.draw(KNOWN_ROWS, seed=12), known_world.draw(KNOWN_TEST, seed=11)
    (X_train, y_train), (X_test, y_test) = (((rows.x > 0).int().numpy(), rows.y.numpy()) for rows in (train, test))
    settings = {
        "network": MLP((128, 128)),
        "stages": [Stage(KNOWN_EPOCHS, CarriedHistories(KNOWN_LONGEST))],
        "stop": "confidence=0.95",
        "max_queries": KNOWN_LONGEST,
    }
    return Task(
        KNOWN_WORLD,
        known_world.QUERIES,
        X_train,
        y_train,
        X_test,
        y_test,
        exact=lambda: known_world.EXACT,
        settings=settings,
    )


def judged(folder: Path, results: Results) -> dict[str, Any]:
    """By method: correlation with the exact information, divergence from the exact posterior, share of information."""
    rows = known_world.draw(JUDGED_HISTORIES, seed=13)
    found: dict[str, Any] = {}
    for name, (method, _) in results.worked.items():
        if name != EXACT:
            each = [judge(load(folder / name / f"seed-{seed.seed}").model_, rows) for seed in method.seeds]
            found[name] = {key: [one[key] for one in each] for key in each[0]}
    return found


@torch.no_grad()
def judge(pursuer: Pursuer, rows: Rows) -> dict[str, float | None]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(LONGEST_JUDGED + 1, (len(rows),), generator=generator)
    random = random_histories(rows, lengths, generator)
    scores, beliefs = _in_parts(pursuer, random)
    left = ~random.asked & scores.isfinite()
    exact = known_world.EXACT.scores(random)
    log_p = known_world.EXACT.log_posterior(random)
    own = rolled_out_histories(rows, torch.full((len(rows),), 5), pursuer)
    information = known_world.EXACT.scores(own).masked_fill(own.asked, 0)
    chosen = information.gather(1, choose(_in_parts(pursuer, own)[0], own.asked)[:, None])
    return {
        "correlation": correlation(scores[left].double(), exact[left]),
        "divergence": float((log_p.exp() * (log_p - beliefs.double())).sum(dim=1).mean()),
        "share": float(chosen.sum() / information.max(dim=1).values.sum()),
    }


def correlation(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """None where one of them does not vary."""
    return float(torch.corrcoef(torch.stack([one, other]))[0, 1]) if len(one) > 1 and one.std() > 0 else None


def _in_parts(pursuer: Pursuer, history: History) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and beliefs, some rows at a time."""

    def parts() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for rows in torch.arange(len(history)).split(250):
            part = history.rows(rows)
            yield pursuer.scores(part), pursuer.log_posterior(part)

    scores, beliefs = zip(*parts(), strict=True)
    return torch.cat(scores), torch.cat(beliefs)


MEANS_INFORMATION = ("naive-bayes", "g-ip", "partial-vae", "dime")
"""Methods whose scores are estimates of information."""


def judged_table(results: Results, judged: dict[str, Any]) -> str:
    def shown(values: list[float]) -> str:
        return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"

    rows = [
        (
            results.methods[name].title,
            shown(found["correlation"]) if name in MEANS_INFORMATION else "–",
            shown(found["divergence"]),
            shown(found["share"]),
        )
        for name, found in judged.items()
    ]
    words = JUDGED.format(n_histories=JUDGED_HISTORIES, longest=LONGEST_JUDGED)
    return words + "\n" + table(("method", "correlation", "divergence (nats)", "share"), rows)


def gap_to_exact(results: Results) -> str:
    """How far V-IP is from exact IP, if the task has it."""
    if not {"vip", EXACT} <= results.worked.keys():
        return ""
    vip, exact = (results.worked[name][1] for name in ("vip", EXACT))
    gaps = [
        f"{after.mean - vip.accuracy_after[n].mean:+.3f} after {n}"
        for n, after in exact.accuracy_after.items()
        if n in vip.accuracy_after
    ]
    area = exact.area.mean - vip.area.mean
    return f"V-IP's gap to exact IP: {', '.join(gaps)} queries, {area:+.3f} in area.\n"


if __name__ == "__main__":
    main(sys.argv[1:])
