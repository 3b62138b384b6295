"""All methods under one protocol, by `pursuit compare`, which goes on where it stopped in results/compare-TASK;
`--collect results/compare-mnist` takes its results over."""

import json
import shutil
import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import torch

from benchmarks import known_world
from benchmarks.report import NOTHING, RESULTS, Record, significant, spread, table
from benchmarks.study import Run, Study
from pursuit import load
from pursuit.inference.pursuer import Pursuer
from pursuit.methods import METHODS
from pursuit.research.experiments.compare import EXACT, Trial, compare, of_classes, vip_first
from pursuit.research.experiments.results import CHECKSUM, Results, mean_and_spread
from pursuit.research.experiments.table import ALL_ANSWERS, markdown_table
from pursuit.training.samplers import random_histories, rolled_out_histories

VIP, SHOWN, BUDGETS = "vip", "mnist", (1, 5, 10, 20)
"""The method that others are compared with, the task that the overview shows, and after how many queries it is said who
is ahead."""
NO_RIVALS = (ALL_ANSWERS, EXACT)
"""What has no curve, and what knows the distribution instead of learning it."""
OF_CLASSES = vip_first(of_classes(METHODS))
PLANS = {
    known_world.NAME: {"methods": ("all",)},
    "digits": {"methods": tuple(name for name in OF_CLASSES if name not in ("refuel", "vip-information"))},  # columns
    # hours of G-IP for 187 labels
    "animals": {"methods": tuple(name for name in (*OF_CLASSES, EXACT) if name != "g-ip"), "effort": 0.5},
    "muzhi": {"methods": ("all",)},
    "dxy": {"methods": ("all",)},
}


def measure(task: str, seeds: Sequence[int] = (0, 1, 2), effort: float = 1.0, contenders: Sequence[str] = ()) -> Record:
    """All methods of a task, with an effort besides that of its plan."""
    plan = {**PLANS.get(task, {"methods": ("all",)})}
    plan |= {"methods": tuple(contenders)} if contenders else {}
    plan["effort"] = plan.get("effort", 1.0) * effort
    source = known_world.task() if task == known_world.NAME else task
    folder = Path("results") / f"compare-{task}{'' if effort == 1 else f'-{effort:g}'}"
    compare(Trial(source, seeds=tuple(seeds), **plan), folder, say=lambda line: print(line, flush=True))
    return taken_over(folder, task)


def collect(folder: Path) -> tuple[Run, Record]:
    task = folder.name.removeprefix("compare-")
    copy_figures(folder, task, RESULTS)
    return {"task": task}, taken_over(folder, task)


def draw(records: list[Record], into: Path) -> None:
    for record in records:
        copy_figures(Path("results") / f"compare-{record['task']}", record["task"], into)


def copy_figures(folder: Path, task: str, into: Path) -> None:
    for figure in folder.glob("curve*.png"):  # against queries, and against cost where costs differ
        shutil.copy(figure, into / "comparison" / f"{task}{figure.name.removeprefix('curve')}")


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


# ---- who leads, in words that follow from the figures


def standings(results: Results) -> str:
    """Who has the highest area on a task and by how much, who is ahead after some queries, who is behind random order,
    and who was not measured."""
    ranked = sorted(results.worked.items(), key=lambda item: -item[1][1].area.mean)
    found = {name: (method, summary) for name, (method, summary) in ranked if name not in NO_RIVALS}
    titles = {name: method.title for name, (method, _) in found.items()}
    areas = {name: summary.area.mean for name, (_, summary) in found.items()}
    curves = {name: _mean_curve(method) for name, (method, _) in found.items()}
    first, *others = found
    if others:
        said = [f"{titles[first]} has the highest, {areas[first]:.3f}", f"then {_gap(results, first, others[0])}"]
        said += [_gap(results, first, VIP)] if VIP in others[1:] else []
    else:
        said = [f"only {titles[first]} was measured ({areas[first]:.3f})"]
    sentences = [
        f"Area {found[first][1].reach} queries: {'; '.join(said)}.",
        f"Highest after {_ahead(titles, curves)}.",
    ]
    if "random" in found:
        behind = [titles[name] for name in found if areas[name] < areas["random"]]
        sentences.append(f"Behind random order: {_listed(behind)}." if behind else "None is behind random order.")
    # V-IP's two queriers count as one method
    absent = [METHODS[name].title for name in OF_CLASSES if name not in (*found, *NO_RIVALS) and name[:3] != VIP]
    absent += [] if any(name.startswith(VIP) for name in found) else [METHODS[VIP].title]
    return " ".join(sentences + ([f"Not measured: {_listed(sorted(absent))}."] if absent else []))


def _mean_curve(method: object) -> list[float]:
    curves = zip(*(seed.evaluation.accuracy_by_asked for seed in method.seeds), strict=True)
    return [sum(at) / len(at) for at in curves]


def _gap(results: Results, ahead: str, behind: str) -> str:
    """Of the second: its area, how far it is behind, and whether seeds tell the two apart."""
    (_, one), (method, other) = results.worked[ahead], results.worked[behind]
    gap, error = one.area.mean - other.area.mean, sum(s.area.sd**2 / s.n_seeds for s in (one, other)) ** 0.5
    sure = f"{'more than' if gap > 2 * error else 'within'} two standard errors over seeds"
    sure = "one seed" if min(one.n_seeds, other.n_seeds) == 1 else sure
    return f"{method.title} {other.area.mean:.3f}, {gap:.3f} behind ({sure})"


def _ahead(titles: dict[str, str], curves: dict[str, list[float]]) -> str:
    shown = [n for n in BUDGETS if all(n < len(curve) for curve in curves.values())]
    leaders = [(n, max(curves, key=lambda name: curves[name][n])) for n in shown]
    parts = []
    for name, group in groupby(leaders, key=lambda item: item[1]):
        at, beside = [n for n, _ in group], ""
        if VIP in curves and name != VIP:
            own = ", ".join(f"{curves[name][n]:.3f} against {curves[VIP][n]:.3f}" for n in at)
            beside = f" ({own} of {titles[VIP]})"
        parts.append(f"{_listed(list(map(str, at)))} {'query' if at == [1] else 'queries'}: {titles[name]}{beside}")
    return "; after ".join(parts)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# ---- what the pages say


def section(record: Record, results: Results) -> str:
    name = record["task"]
    parts = [markdown_table(results), f"![{name}](comparison/{name}.png)\n"]
    if (RESULTS / "comparison" / f"{name}-by-cost.png").exists():
        parts += [f"![{name}, by cost](comparison/{name}-by-cost.png)\n"]
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
    if {VIP, EXACT} <= results.worked.keys():
        vip, exact = (results.worked[name][1] for name in (VIP, EXACT))
        gaps = [
            f"{one.mean - vip.accuracy_after[n].mean:+.3f} after {n}"
            for n, one in exact.accuracy_after.items()
            if n in vip.accuracy_after
        ]
        area = exact.area.mean - vip.area.mean
        parts.append(f"V-IP's gap to exact IP: {', '.join(gaps)} queries, {area:+.3f} in area.\n")
    return "\n".join([*parts, "\n".join(textwrap.wrap(standings(results), 120, break_on_hyphens=False))])


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
    found = {one["task"]: Results.from_dict({key: one[key] for key in ("run", "methods")}) for one in records}
    sections = {one["task"]: section(one, found[one["task"]]) for one in records}
    sections["../methods.md#areas"] = areas(found)
    sections["../methods.md#leaders"] = "\n".join(f"- **{name}**: {standings(one)}" for name, one in found.items())
    if SHOWN in found:
        n_seeds = max(summary.n_seeds for _, summary in found[SHOWN].worked.values())
        words = f"{SHOWN}, up to {n_seeds} seeds: {standings(found[SHOWN])} Here V-IP has a straight-through querier."
        figure = f"![Accuracy against number of queries on {SHOWN}](comparison/{SHOWN}.png)\n\n"
        sections["index.md#comparison"] = figure + "\n".join(textwrap.wrap(words, 128, break_on_hyphens=False))
    return sections


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
