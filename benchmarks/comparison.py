"""All methods under one protocol, by `pursuit compare`, which goes on where it stopped in results/compare-TASK;
`--collect results/compare-mnist` takes its results over."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import known_world
from benchmarks.report import NOTHING, Record, significant, spread, table
from benchmarks.study import Run, Study
from pursuit import load
from pursuit.inference.pursuer import Pursuer
from pursuit.methods import METHODS
from pursuit.research.experiments.compare import EXACT, Trial, compare, of_classes, vip_first
from pursuit.research.experiments.results import CHECKSUM, Results, mean_and_spread
from pursuit.research.experiments.table import ALL_ANSWERS, markdown_table
from pursuit.training.samplers import random_histories, rolled_out_histories

OF_CLASSES = vip_first(of_classes(METHODS))
PLANS: dict[str, tuple[tuple[str, ...], float]] = {
    known_world.NAME: (("all",), 1.0),
    "digits": (tuple(name for name in OF_CLASSES if name not in ("refuel", "vip-information")), 1.0),  # for columns
    "animals": (tuple(name for name in (*OF_CLASSES, EXACT) if name != "g-ip"), 0.5),  # G-IP takes hours of 187 labels
    "muzhi": (("all",), 1.0),
    "dxy": (("all",), 1.0),
}
"""Methods and effort of every task."""


def measure(task: str, seeds: Sequence[int] = (0, 1, 2), effort: float = 1.0, contenders: Sequence[str] = ()) -> Record:
    """All methods of a task, with an effort besides that of its plan."""
    methods, of_plan = PLANS.get(task, (("all",), 1.0))
    source = known_world.task() if task == known_world.NAME else task
    folder = Path("results") / f"compare-{task}{'' if effort == 1 else f'-{effort:g}'}"
    trial = Trial(source, methods=tuple(contenders) or methods, seeds=tuple(seeds), effort=of_plan * effort)
    compare(trial, folder, say=lambda line: print(line, flush=True))
    return taken_over(folder, task)


def collect(folder: Path) -> tuple[Run, Record]:
    task = folder.name.removeprefix("compare-")
    return {"task": task}, taken_over(folder, task)


def draw(records: list[Record], into: Path) -> None:
    for record in records:
        figure = Path("results") / f"compare-{record['task']}" / "curve.png"
        if figure.exists():
            shutil.copy(figure, into / "comparison" / f"{record['task']}.png")


def taken_over(folder: Path, task: str) -> Record:
    """What a comparison found, without what is only needed to go on with it."""
    values = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    found = Results.from_dict(values)
    if task == known_world.NAME:
        models = {
            name: [load(folder / name / f"seed-{seed.seed}").model_ for seed in method.seeds]
            for name, (method, _) in found.worked.items()
            if name != EXACT
        }
        values["judged"] = {name: judged(each) for name, each in models.items()}
    return significant({key: value for key, value in values.items() if key != CHECKSUM})


@torch.no_grad()
def judged(models: Sequence[Pursuer], n_histories: int = 500, longest: int = 6) -> dict[str, list[float | None]]:
    """Of each model: the correlation of its scores with the exact information on random histories, the divergence of
    its posterior from the exact one there, and the share of information of its own sixth queries."""
    rows, generator = known_world.draw(n_histories, seed=13), torch.Generator().manual_seed(5)
    lengths = torch.randint(longest + 1, (n_histories,), generator=generator)
    random = random_histories(rows, lengths, generator)
    exact, found = known_world.EXACT.scores(random), {"correlation": [], "divergence": [], "share": []}
    for model in models:
        scores = torch.cat([model.scores(random.rows(part)) for part in torch.arange(n_histories).split(250)])
        left = ~random.asked & scores.isfinite()
        one, own = scores[left].double(), rolled_out_histories(rows, torch.full((n_histories,), 5), model)
        varies = len(one) > 1 and one.std() > 0
        found["correlation"].append(float(torch.corrcoef(torch.stack([one, exact[left]]))[0, 1]) if varies else None)
        found["divergence"].append(known_world.divergence(model, random))
        found["share"].append(known_world.share_of_best(model, own))
    return found


# ---- what the pages say


def section(record: Record, results: Results) -> str:
    name = record["task"]
    parts = [markdown_table(results), f"![{name}](comparison/{name}.png)\n"]
    if judged := record.get("judged"):
        means_bits = ("naive-bayes", "g-ip", "partial-vae", "dime")
        rows = [
            [
                results.methods[method].title,
                spread(found["correlation"]) if method in means_bits else NOTHING,
                *(spread(found[key]) for key in ("divergence", "share")),
            ]
            for method, found in judged.items()
        ]
        parts.append(table(("method", "correlation", "divergence (nats)", "share"), rows))
    return "\n".join(parts)


def areas(found: dict[str, Results]) -> str:
    """The area of every method on every task, in the order of the known world, which has all methods."""
    titles = {name: method.title for results in found.values() for name, (method, _) in results.worked.items()}
    rows = [
        [title, *(mean_and_spread(one.worked[name][1].area if name in one.worked else None) for one in found.values())]
        for name, title in titles.items()
        if name != ALL_ANSWERS
    ]
    columns = [f"{name}, {next(iter(one.worked.values()))[1].reach}" for name, one in found.items()]
    return table(["method", *columns], rows)


def page(records: list[Record]) -> dict[str, str]:
    records = sorted(records, key=lambda one: (one["task"] != known_world.NAME, one["task"]))
    found = {one["task"]: Results.from_dict(one) for one in records}
    sections = {one["task"]: section(one, found[one["task"]]) for one in records}
    return {**sections, "../methods.md#areas": areas(found)}


STUDY = Study(
    name="comparison",
    runs=[{"task": task} for task in PLANS],
    measure=measure,
    page=page,
    quick={"seeds": [0], "effort": 0.01, "contenders": ["vip", "random"]},
    file="comparison/{task}.json",
    collect=collect,
    draw=draw,
)
