"""What to ask, learnt in two ways: docs/results/queriers.md, with the JSON of every task beside it.

    python benchmarks/queriers.py                        # measure the tasks of some minutes, and write the page
    python benchmarks/queriers.py muzhi dxy              # only these
    python benchmarks/queriers.py symcat-200 --device cuda --judge
    python benchmarks/queriers.py --page                 # only write the page, from what is measured

Tables are read from $PURSUIT_DATA/tables, or come with scikit-learn. What is measured already in results/ is not
measured again. What stands on the page is what the JSON files say.
"""

import argparse
import gzip
import json
import os
import sys
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

import known_world
from methods import KNOWN_WORLD, known_task
from pursuit.data.rows import Rows, StreamedRows
from pursuit.estimators import load
from pursuit.evaluation.rollouts import placed
from pursuit.experiments.compare import EXACT, compare
from pursuit.experiments.results import Results, Summary, mean_and_spread
from pursuit.experiments.trial import Trial
from pursuit.inference.pursuer import choose
from pursuit.networks import MLP
from pursuit.scale.sweeps import find_sweep
from pursuit.tasks import Task, load_task
from pursuit.training import CarriedHistories, Stage
from pursuit.training.schedule import AdamW
from pursuit.vip import InformationVIP
from report import RESULTS, rounded, table

FOLDER, RUNS, PAGE = RESULTS / "queriers", Path("results"), RESULTS / "queriers.md"
STRAIGHT, INFORMATION = "vip-straight-through", "vip-information"
RIVALS = ("naive-bayes", "gdfs", "dime", "fixed")
SEEDS = (0, 1, 2)
TARGETS = {
    "kr-vs-kp": "class",
    "nursery": "class",
    "sick": "Class",
    "lymph": "class",
    "dermatology": "class",
    "vowel": "Class",
    "credit": "class",
    "heart": "num",
    "symptoms-773": "diseases",
}
FROM_SKLEARN = {"breast-cancer": load_breast_cancer, "wine": load_wine}
UP_TO_20 = {"max_queries": 20}
SETTINGS: dict[str, dict[str, Any]] = {
    "symptoms-773": {
        "network": MLP((1024, 512), dropout=0.1, direct=True),
        "stages": [
            Stage(80, CarriedHistories(20, random_share=0.15), AdamW(1e-3), batch_size=1024, average=0.998),
        ],
        "standardise": True,
    }
}
"""For a table with as many labels as this, the defaults of small ones are no good."""
PLANS: dict[str, dict[str, Any]] = {
    **{name: {} for name in (KNOWN_WORLD, "animals", "muzhi", "dxy")},
    **dict.fromkeys(("digits", *FROM_SKLEARN, *TARGETS), UP_TO_20),
}
"""What is compared, and how, in some minutes on a CPU."""
LARGE_WORLD, LARGE_ROWS, LARGE_EPOCHS = "known-world-50k", 50_000, 12
"""The known world with more rows, to judge what is left to learn."""
SYMCAT_FAST = "symcat-200-fast"
"""The recipe for a CPU, to judge the queriers by exact IP."""
LONG_PLANS: dict[str, dict[str, Any]] = {
    **{name: {"recipe": "gpu"} for name in ("symcat-200", "symcat-300", "symcat-400")},
    "mnist-pixels": {"recipe": "gpu", **UP_TO_20},
    "huffpost": {"max_queries": 100},
    "symptoms-773": UP_TO_20,
    SYMCAT_FAST: {"recipe": "fast"},
    LARGE_WORLD: {},
}
JUDGED_ROWS, AT_ONCE = 5_000, 500
CORRECTED = """\
The commit 83b24e6 was written into the files by hand: on the machine of these runs git knew only an older commit and
called the tree changed. Tasks with fewer seeds or methods than others ran out of time on the GPU.
"""
SHOWN_STEPS, SHOWN = (1, 6, 11, 16, 20), (5, 10, 15, 20)
ABOUT = """\
# What to ask, learnt in two ways

Written by `benchmarks/queriers.py`, which runs `pursuit compare` on every task: V-IP with the paper's straight-through
querier, V-IP that asks by the information its answer model expects, and rivals. For each seed all methods learn from
the same rows, have the same network settings and train on as many histories; all are measured on the same test rows.
The area is the mean accuracy over 1 to K queries **asked**, whether they had an answer or not; areas to different K are
not comparable. After ± comes the sample standard deviation over seeds. "auto" is what
`VIPClassifier(querier="auto")`, the default, took when the task was measured: the same model with the same seed, so it
is not trained a second time. It then chose by the numbers of rows and queries; now it asks by information wherever
answers can be listed, as the column "information" does. The limits of then were chosen on held-out training rows, but
for one that was raised after a look at the test rows of the known world: there, "auto" is not a fair contestant.
"""
JUDGED = """\
## Judged by exact Information Pursuit

Where the distribution of the answers is known, so is the exact information of every query. The share is the exact
information of the queries that a model asks over that of the best ones, on its own chains, by the number of the
question. Expected information is compared with the exact one over all queries not yet asked on these chains, in bits:
their correlation, and the mean of their difference (bias) beside the mean of the exact one. Bayes is the total
variation distance between the belief that the answer model foresees for an answer and the classifier's belief once it
is given, on average. {n_rows:,} fresh rows for each seed, the same for all methods; figures are means over seeds.
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Compare the ways to learn what to ask.")
    parser.add_argument("tasks", nargs="*", help="tasks to measure; by default those of some minutes on a CPU")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--methods", nargs="*", help="by default both queriers, rivals, and exact IP where it is known")
    parser.add_argument("--effort", type=float, default=1.0, help="how much longer to train than planned")
    parser.add_argument("--judge", action="store_true", help="also judge by exact IP, where that is known")
    parser.add_argument("--collect", action="store_true", help="take what is measured, perhaps by several processes")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--engine", help="ray: train side by side, on all cores or on a cluster")
    parser.add_argument("--address", help="of a Ray cluster that runs already")
    given = parser.parse_args(arguments)
    sweep = find_sweep(given.engine, given.address, gpu_share=0.0)
    for name in given.tasks or ([] if given.page else PLANS):
        with source_of(name) as (source, options):
            plan = {**PLANS, **LONG_PLANS}[name]
            trial = Trial(
                source, seeds=given.seeds, device=given.device, effort=given.effort, table_options=options, **plan
            )
            task = trial.load(given.seeds[0])
            trial = replace(trial, methods=given.methods or methods_for(task))
            found = compare(
                trial,
                RUNS / f"queriers-{name}",
                say=lambda line: print(line, flush=True),
                only_collect=given.collect,
                sweep=sweep,
            )
            keep(name, task, found, given.device if given.judge else None)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Written: {PAGE}")


@contextmanager
def source_of(name: str) -> Iterator[tuple[str | Path | Task, dict[str, Any]]]:
    """What a trial reads (a task, its name, or a table that is unpacked for the time being), and how."""
    if name == KNOWN_WORLD:
        yield known_task(), {}
    elif name == LARGE_WORLD:
        rows, task = known_world.draw(LARGE_ROWS, seed=12), known_task()
        stages = [replace(stage, epochs=LARGE_EPOCHS) for stage in task.settings["stages"]]
        settings = {**task.settings, "stages": stages}
        X, y = (rows.x > 0).int().numpy(), rows.y.numpy()
        yield replace(task, name=name, X_train=X, y_train=y, settings=settings), {}
    elif name == "huffpost":
        yield read_once(load_task(name)), {}
    elif name not in TARGETS and name not in FROM_SKLEARN:
        yield name.removesuffix("-fast"), {}
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.csv"
            if name in FROM_SKLEARN:
                data = FROM_SKLEARN[name](as_frame=True)
                data.data.assign(target=data.target_names[data.target]).to_csv(path, index=False)
            else:
                packed = Path(os.environ["PURSUIT_DATA"]) / "tables" / f"{name}.csv.gz"
                path.write_bytes(gzip.decompress(packed.read_bytes()))
            target = TARGETS.get(name, "target")
            if name in SETTINGS:
                yield replace(load_task(path, target=target), settings=SETTINGS[name]), {}
            else:
                yield path, {"target": target}


def read_once(task: Task) -> Task:
    """A task of texts as one of 0 and 1, so that words are not looked for again in every training."""
    X_train, X_test = ((task.query_set.answers(X).x > 0).numpy().astype(np.int8) for X in (task.X_train, task.X_test))
    return replace(task, X_train=X_train, X_test=X_test)


def methods_for(task: Task) -> list[str]:
    """Both queriers and their rivals; patches have no answer model."""
    own = [STRAIGHT, INFORMATION] if task.query_set.has_own_units else [STRAIGHT]
    return [*own, *RIVALS, *([EXACT] if task.exact else [])]


def keep(name: str, task: Task, results: Results, device: str | None) -> None:
    """Write down what a comparison found, with what "auto" takes; exact IP judges it on `device`, if it is known."""
    n_rows, n_labels = len(task.X_train), n_labels_of(task)
    values = {
        **results.to_dict(),
        "auto": auto(task),
        "shape": {"queries": len(task.query_set), "labels": n_labels, "rows": n_rows},
        "judged": judged(name, task, results, device) if device and rows_to_judge(task, 0) else {},
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(rounded(values), indent=1) + "\n", encoding="utf-8")


def auto(task: Task) -> str:
    """The method that `querier="auto"` stands for."""
    return INFORMATION if task.query_set.has_own_units else STRAIGHT


def n_labels_of(task: Task) -> int:
    return len(task.X_train.classes) if isinstance(task.X_train, StreamedRows) else len(set(task.y_train.tolist()))


def rows_to_judge(task: Task, seed: int) -> Rows | None:
    """Fresh rows of a task whose answers come from a known distribution."""
    if task.name in (KNOWN_WORLD, LARGE_WORLD):
        return known_world.draw(JUDGED_ROWS, seed=100 + seed)
    if isinstance(task.X_train, StreamedRows) and task.exact:
        return task.X_train.draw(JUDGED_ROWS, torch.Generator().manual_seed(20_000 + seed))
    return None


def judged(name: str, task: Task, results: Results, device: str) -> dict[str, list[dict[str, Any]]]:
    """By method, for each seed."""
    found: dict[str, list[dict[str, Any]]] = {}
    longest = min(next(iter(results.worked.values()))[1].longest, SHOWN_STEPS[-1])
    assert task.exact
    exact = task.exact()
    for method, (own, _) in results.worked.items():
        for seed in (one.seed for one in own.seeds):
            if method in (STRAIGHT, INFORMATION, EXACT):
                folder = RUNS / f"queriers-{name}" / method / f"seed-{seed}"
                model = exact if method == EXACT else load(folder).model_
                rows = rows_to_judge(task, seed)
                assert rows
                found.setdefault(method, []).append(judge(model, exact, rows, longest, device))
    return found


@torch.no_grad()
def judge(model: Any, exact: Any, rows: Rows, longest: int, device: str) -> dict[str, Any]:
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
    found: dict[str, Any] = {"accuracy": (right / len(rows)).tolist(), "share": (chosen / best).tolist()}
    if n_pairs:
        mean, other_mean, square, other_square, product = (sums / n_pairs).tolist()
        spread = (square - mean**2) ** 0.5 * (other_square - other_mean**2) ** 0.5
        found |= {
            "correlation": (product - mean * other_mean) / spread,
            "bias": mean - other_mean,
            "mean": other_mean,
            "bayes": distance / n_answers,
        }
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


def page() -> str:
    """Everything on one page, from the JSON files."""
    paths = sorted(
        FOLDER.glob("*.json"), key=lambda path: (path.stem not in PLANS, path.stem != KNOWN_WORLD, path.stem)
    )
    values = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    found = {name: Results.from_dict({key: one[key] for key in ("run", "methods")}) for name, one in values.items()}
    parts = [ABOUT, areas(values, found), conclusions(values, found)]
    parts += ["## Beside exact Information Pursuit\n", gaps_to_exact(found)]
    if any(one["judged"] for one in values.values()):
        parts += [JUDGED.format(n_rows=JUDGED_ROWS), *judged_tables(values)]
    parts += ["## Where and when\n", origins(found)]
    return "\n".join(parts)


METHODS = {
    STRAIGHT: "straight-through",
    INFORMATION: "information",
    "auto": "auto",
    "naive-bayes": "naive-Bayes IP",
    "gdfs": "GDFS",
    "dime": "DIME",
    "fixed": "fixed order",
    EXACT: "exact IP",
}


def areas(values: dict[str, Any], found: dict[str, Results]) -> str:
    """The area of every method on every task."""
    rows = []
    for name, results in found.items():
        shape, worked = values[name]["shape"], summaries(values[name], results)
        longest = next(iter(worked.values())).longest
        size = f"{shape['queries']} / {shape['labels']} / {shape['rows']:,}"
        cells = (mean_and_spread(worked[method].area) if method in worked else "–" for method in METHODS)
        rows.append([name, size, longest, *cells])
    return table(["task", "queries / labels / rows", "K", *METHODS.values()], rows)


def summaries(values: dict[str, Any], results: Results) -> dict[str, Summary]:
    worked = {method: summary for method, (_, summary) in results.worked.items()}
    return {**worked, **({"auto": worked[values["auto"]]} if values["auto"] in worked else {})}


def conclusions(values: dict[str, Any], found: dict[str, Results]) -> str:
    """What follows from the areas."""
    behind, ahead, level = {}, {}, []
    for name, results in found.items():
        area = {method: summary.area for method, summary in summaries(values[name], results).items()}
        if "auto" not in area:
            continue
        own = area["auto"]
        behind[name] = max(area[method].mean for method in (STRAIGHT, INFORMATION) if method in area) - own.mean
        if rivals := [area[method] for method in RIVALS if method in area]:
            best = max(rivals, key=lambda rival: rival.mean)
            ahead[name] = own.mean - best.mean
            level += [name] if abs(ahead[name]) <= (own.sd**2 + best.sd**2) ** 0.5 else []
    if not behind:
        return ""
    worst = max(behind, key=lambda name: behind[name])
    gaps = ", ".join(f"{name} {100 * gap:+.1f}" for name, gap in sorted(ahead.items(), key=lambda item: -item[1]))
    lines = [
        f"- auto is behind the better of its two queriers by {100 * behind[worst]:.1f} points at most ({worst}).",
        f"- Beside the best rival measured, auto has, in points of area: {gaps}. It is ahead of every rival on "
        f"{sum(gap > 0 for gap in ahead.values())} of {len(ahead)} tasks; on {len(level)} the gap either way is within "
        f"the deviation between seeds ({', '.join(level)}).",
    ]
    return "\n".join(lines) + "\n"


def gaps_to_exact(found: dict[str, Results]) -> str:
    """Accuracy on the test rows beside exact IP, where there is one."""
    rows = []
    for name, results in found.items():
        if EXACT not in results.worked:
            continue
        for method in (STRAIGHT, INFORMATION, EXACT):
            if method in results.worked:
                seeds = results.worked[method][0].seeds
                curves = [seed.evaluation.accuracy_by_asked for seed in seeds]
                after = (f"{np.mean([curve[n] for curve in curves]):.4f}" if n < len(curves[0]) else "–" for n in SHOWN)
                rows.append([name, METHODS[method], *after, len(seeds), f"{seeds[0].n_test:,}"])
    return table(["task", "by", *(f"after {n}" for n in SHOWN), "seeds", "test rows"], rows)


def judged_tables(values: dict[str, Any]) -> Iterator[str]:
    def mean(each: Sequence[dict[str, Any]], key: str, step: int | None = None) -> float:
        return sum(one[key] if step is None else one[key][step] for one in each) / len(each)

    tasks = {name: one["judged"] for name, one in values.items() if one["judged"]}
    shares, gaps, quality = [], [], []
    for name, methods in tasks.items():
        for method, each in methods.items():
            last = len(each[0]["share"]) - 1
            if method != EXACT:
                cells = (f"{mean(each, 'share', step - 1):.3f}" if step - 1 <= last else "–" for step in SHOWN_STEPS)
                shares.append([name, METHODS[method], *cells, len(each)])
            after = (f"{mean(each, 'accuracy', n):.4f}" if n <= last else "–" for n in SHOWN)
            gaps.append([name, METHODS[method], *after])
        if each := methods.get(INFORMATION):
            figures = (mean(each, key) for key in ("correlation", "bias", "mean", "bayes"))
            quality.append([name, *(f"{figure:.4f}" for figure in figures)])
    steps = [f"question {step}" for step in SHOWN_STEPS]
    yield "Share of the best information:\n"
    yield table(["task", "V-IP by", *steps, "seeds"], shares)
    yield "Accuracy on the same rows:\n"
    yield table(["task", "V-IP by", *(f"after {n}" for n in SHOWN)], gaps)
    yield "Expected information and foreseen beliefs:\n"
    yield table(["task", "correlation", "bias", "mean exact bits", "Bayes"], quality)


def origins(found: dict[str, Results]) -> str:
    lines = []
    for name, results in found.items():
        places = {
            f"{one.provenance['device']} ({one.provenance['machine']}), commit {one.provenance['commit']}": None
            for method in results.methods.values()
            for one in method.seeds
        }
        effort = f", effort {results.run['effort']:g}" if results.run["effort"] != 1 else ""
        lines.append(f"- {name}{effort}: {'; '.join(places)}")
    return "\n".join([*lines, "", CORRECTED])


if __name__ == "__main__":
    main(sys.argv[1:])
