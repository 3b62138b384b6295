"""What to ask, learnt in two ways: V-IP with the paper's straight-through querier, V-IP that asks by the information
its answer model expects, and rivals, by `pursuit compare`, which goes on where it stopped in results/queriers-TASK."""

import gzip
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_wine
from torch import Tensor

from benchmarks import known_world
from benchmarks.common import TARGETS, data_folder
from benchmarks.readme import readme_section
from benchmarks.report import Record, cell, significant, spread, table
from benchmarks.study import Study
from pursuit import MLP, CarriedHistories, InformationVIP, Rows, Stage, load
from pursuit.evaluation.rollouts import placed
from pursuit.inference.pursuer import choose
from pursuit.research.experiments.compare import EXACT, Trial, compare
from pursuit.research.experiments.results import CHECKSUM, Results, Summary, mean_and_spread
from pursuit.research.tasks import Task, load_task
from pursuit.training.rows import StreamedRows
from pursuit.training.schedule import AdamW

DEFAULT, STRAIGHT, INFORMATION = "vip", "vip-straight-through", "vip-information"
RIVALS = {"naive-bayes": "naive-Bayes IP", "gdfs": "GDFS", "dime": "DIME", "fixed": "fixed order"}
TITLES = {STRAIGHT: "straight-through", INFORMATION: "information", "auto": "auto", **RIVALS, EXACT: "exact IP"}
FROM_SKLEARN = {"breast-cancer": load_breast_cancer, "wine": load_wine}
TABLES = ["kr-vs-kp", "nursery", "sick", "lymph", "dermatology", "vowel", "credit", "heart", "symptoms-773"]
LARGE_WORLD = "known-world-50k"
"""The known world with more rows, to judge what is left to learn."""
PLANS: dict[str, dict[str, Any]] = {
    known_world.NAME: {"max_queries": 15},
    "animals": {},
    **{name: {"max_queries": 20} for name in ("muzhi", "dxy", "digits", *FROM_SKLEARN, *TABLES)},
}
"""What is compared, and how, in some minutes on a CPU."""
LONG_PLANS: dict[str, dict[str, Any]] = {
    **{name: {"recipe": "gpu"} for name in ("symcat-200", "symcat-300", "symcat-400")},
    "mnist-pixels": {"recipe": "gpu", "max_queries": 20},
    "huffpost": {"max_queries": 100},
    "symptoms-773": {"max_queries": 20},
    "symcat-200-fast": {"recipe": "fast"},
    LARGE_WORLD: {},
}
JUDGED_ROWS, AT_ONCE, SHOWN_STEPS, SHOWN = 5_000, 500, (1, 6, 11, 16, 20), (5, 10, 15, 20)


@contextmanager
def source_of(name: str) -> Iterator[tuple[str | Path | Task, dict[str, Any]]]:
    """What a trial reads (a task, its name, or a table that is unpacked for the time being), and how."""
    if name == known_world.NAME:
        yield known_world.task(), {}
    elif name == LARGE_WORLD:
        yield known_world.task(50_000, 12, name), {}
    elif name == "huffpost":  # as 0 and 1, so that words are not looked for again in every training
        task = load_task(name)
        both = ((task.query_set.answers(X).x > 0).numpy().astype(np.int8) for X in (task.X_train, task.X_test))
        yield replace(task, **dict(zip(("X_train", "X_test"), both, strict=True))), {}
    elif name not in (*TABLES, *FROM_SKLEARN):
        yield name.removesuffix("-fast"), {}
    else:
        with tempfile.TemporaryDirectory() as folder:
            path, target = Path(folder) / f"{name}.csv", TARGETS.get(name, "target")
            if name in FROM_SKLEARN:
                data = FROM_SKLEARN[name](as_frame=True)
                data.data.assign(target=data.target_names[data.target]).to_csv(path, index=False)
            else:
                path.write_bytes(gzip.decompress((data_folder() / "tables" / f"{name}.csv.gz").read_bytes()))
            if name == "symptoms-773":  # for as many labels, the defaults of small tables are no good
                histories = CarriedHistories(20, random_share=0.15)
                stages = [Stage(80, histories, AdamW(1e-3), batch_size=1024, average=0.998)]
                network = MLP((1024, 512), dropout=0.1, direct=True)
                settings = {"network": network, "stages": stages, "standardise": True}
                yield replace(load_task(path, target=target), settings=settings), {}
            else:
                yield path, {"target": target}


def measure(
    task: str,
    seeds: Sequence[int] = (0, 1, 2),
    contenders: Sequence[str] = (),
    effort: float = 1.0,
    device: str = "cpu",
    judge: bool = False,
) -> Record:
    """Both queriers and their rivals on a task; exact IP judges them if that is wanted and known."""
    folder = Path("results") / f"queriers-{task}{'' if effort == 1 else f'-{effort:g}'}"
    with source_of(task) as (source, options):
        plan = {"table_options": options, **{**PLANS, **LONG_PLANS}.get(task, {})}
        trial = Trial(source, seeds=tuple(seeds), device=device, effort=effort, **plan)
        loaded = trial.load(seeds[0])
        has_answers = loaded.query_set.has_own_units  # patches have no answer model
        own = [DEFAULT, STRAIGHT, INFORMATION] if has_answers else [STRAIGHT]
        trial = replace(trial, methods=tuple(contenders) or (*own, *RIVALS, *([EXACT] if loaded.exact else [])))
        results = compare(trial, folder, say=lambda line: print(line, flush=True))
    is_drawn = isinstance(loaded.X_train, StreamedRows)
    labels = loaded.X_train.classes if is_drawn else set(loaded.y_train.tolist())
    values = {
        **results.to_dict(),
        "auto": DEFAULT if has_answers else STRAIGHT,
        "shape": {"queries": len(loaded.query_set), "labels": len(labels), "rows": len(loaded.X_train)},
        "judged": judged(loaded, results, folder, device) if judge and loaded.exact else {},
    }
    return significant({key: value for key, value in values.items() if key != CHECKSUM})


def judged(task: Task, results: Results, folder: Path, device: str) -> dict[str, list[Record]]:
    """By method, for each seed, on fresh rows."""
    found: dict[str, list[Record]] = {}
    longest = min(next(iter(results.worked.values()))[1].longest, SHOWN_STEPS[-1])
    exact = task.exact()
    for method in (STRAIGHT, INFORMATION, EXACT):
        for seed in (one.seed for one in results.worked[method][0].seeds) if method in results.worked else ():
            model = exact if method == EXACT else load(folder / method / f"seed-{seed}").model_
            if task.name in (known_world.NAME, LARGE_WORLD):
                rows = known_world.draw(JUDGED_ROWS, seed=100 + seed)
            else:
                rows = task.X_train.draw(JUDGED_ROWS, torch.Generator().manual_seed(20_000 + seed))
            found.setdefault(method, []).append(judge_one(model, exact, rows, longest, device))
    return found


@torch.no_grad()
def judge_one(model: Any, exact: Any, rows: Rows, longest: int, device: str) -> Record:
    """Accuracy and share of the best information by step, and how good expected information is."""
    right, chosen, best = (torch.zeros(longest + 1, dtype=torch.double) for _ in range(3))
    sums, n_pairs, distance, n_answers = torch.zeros(5, dtype=torch.double), 0, 0.0, 0
    with placed(exact, device), placed(model, device) as place:
        for part in torch.arange(len(rows)).split(AT_ONCE):
            some = rows.take(part).to(place)
            history, foreseen = some.start(), None
            for step in range(longest + 1):
                log_posterior, scores = model.log_posterior(history), model.scores(history)
                if foreseen is not None:
                    distance += float((log_posterior.exp() - foreseen).abs().sum()) / 2
                    n_answers += len(part)
                right[step] += float((log_posterior.argmax(dim=1) == some.y).sum())
                information = exact.scores(history).masked_fill(history.asked, 0)
                query = choose(scores, history.asked)
                chosen[step] += float(information.gather(1, query[:, None]).sum())
                best[step] += float(information.max(dim=1).values.sum())
                if isinstance(model, InformationVIP):
                    one, other = scores[~history.asked].double(), information[~history.asked]
                    sums += torch.stack([one.sum(), other.sum(), one @ one, other @ other, one @ other]).cpu()
                    n_pairs += len(one)
                    foreseen = belief_after(model, history, query, log_posterior)
                history = history.ask(query)
    found: Record = {"accuracy": (right / len(rows)).tolist(), "share": (chosen / best).tolist()}
    if n_pairs:
        mean, other_mean, square, other_square, product = (sums / n_pairs).tolist()
        deviations = (square - mean**2) ** 0.5 * (other_square - other_mean**2) ** 0.5
        found |= {"correlation": (product - mean * other_mean) / deviations, "bias": mean - other_mean}
        found |= {"mean": other_mean, "bayes": distance / n_answers}
    return found


def belief_after(model: InformationVIP, history: Any, query: Tensor, log_posterior: Tensor) -> Tensor:
    """What the answer model foresees to be believed after the answers that the rows give to `query`: (B, C)."""
    answers, after = model.answer_model, torch.zeros_like(log_posterior, dtype=torch.float)
    outputs = model.querier(model.network_input(history.x, history.known))
    holds = answers.outcomes.holds(history.x)
    for one in query.unique().tolist():
        rows = (query == one).nonzero()[:, 0]
        values = answers.outcomes.values_of_unit[one]
        _, beliefs = answers.after_answers(outputs[rows], log_posterior[rows], one)
        given = holds[rows][:, values[values >= 0]].float().argmax(dim=1)
        after[rows] = beliefs[torch.arange(len(rows), device=rows.device), given].float()
    return after


# ---- what the page says


def page(records: list[Record]) -> dict[str, str]:
    order = {name: (name not in PLANS, name != known_world.NAME, name) for name in (one["task"] for one in records)}
    areas, gaps, shares, accuracy, quality, places = [], [], [], [], [], []
    for record in sorted(records, key=lambda one: order[one["task"]]):
        name, shape, results = record["task"], record["shape"], Results.from_dict(record)
        worked: dict[str, Summary] = {method: summary for method, (_, summary) in results.worked.items()}
        worked |= {"auto": worked[record["auto"]]} if record["auto"] in worked else {}
        cells = (mean_and_spread(worked[method].area if method in worked else None) for method in TITLES)
        size = f"{shape['queries']} / {shape['labels']} / {shape['rows']:,}"
        areas.append([name, size, next(iter(worked.values())).longest, *cells])
        for method in (STRAIGHT, INFORMATION, EXACT) if EXACT in worked else ():
            if method in worked:
                seeds = results.worked[method][0].seeds
                curves = [seed.evaluation.accuracy_by_asked for seed in seeds]
                after = (spread((curve[n] for curve in curves if n < len(curve)), ".4f") for n in SHOWN)
                gaps.append([name, TITLES[method], *after, len(seeds), f"{seeds[0].n_test:,}"])
        for method, each in record["judged"].items():
            if method != EXACT:
                by_step = (cell(each, f"share.{n - 1}|.3f") for n in SHOWN_STEPS)
                shares.append([name, TITLES[method], *by_step, len(each)])
            accuracy.append([name, TITLES[method], *(cell(each, f"accuracy.{n}|.4f") for n in SHOWN)])
        if each := record["judged"].get(INFORMATION):
            quality.append([name, *(cell(each, f"{key}|.4f") for key in ("correlation", "bias", "mean", "bayes"))])
        seen = (seed.provenance for method in results.methods.values() for seed in method.seeds)
        where = dict.fromkeys(f"{one['device']} ({one['machine']}), commit {one['commit']}" for one in seen)
        effort = f", effort {results.run['effort']:g}" if results.run["effort"] != 1 else ""
        places.append(f"- {name}{effort}: {'; '.join(where)}")
    after = [f"after {n}" for n in SHOWN]
    return {
        "areas": table(["task", "queries / labels / rows", "K", *TITLES.values()], areas),
        "exact": table(["task", "by", *after, "seeds", "test rows"], gaps),
        "shares": table(["task", "V-IP by", *(f"question {n}" for n in SHOWN_STEPS), "seeds"], shares),
        "accuracy": table(["task", "V-IP by", *after], accuracy),
        "quality": table(["task", "correlation", "bias", "mean exact bits", "Bayes"], quality),
        "origins": "\n".join(places),
        "../../README.md#results": readme_section(),
    }


STUDY = Study(
    name="queriers",
    runs=[{"task": task} for task in PLANS],
    measure=measure,
    page=page,
    quick={"seeds": [0], "effort": 0.01, "contenders": [STRAIGHT, INFORMATION]},
    file="queriers/{task}.json",
)
