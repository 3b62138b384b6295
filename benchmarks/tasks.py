"""The paper's tasks, as `pursuit reproduce` measured them; `--collect results/mnist-fast` takes a results folder over,
and draws a chain and what is asked when, if its models are there."""

import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.readme import readme_section
from benchmarks.report import NOTHING, RESULTS, Record, significant, spread, table
from benchmarks.study import Run, Study
from pursuit import load
from pursuit.evaluation.details import shares_asked
from pursuit.evaluation.figures import DPI, asked_map, draw_chain
from pursuit.research.experiments.reproduce import (  # fmt: skip
    HEADER,
    NOT_COMPARABLE,
    NOT_MEASURED,
    black_box_of,
    interval_text,
    markdown_row,
    measured_or_not,
    published_for,
    querier_of,
    run_name,
    vip_of,
)
from pursuit.research.experiments.results import CHECKSUM, Results, mean_and_sd, mean_and_spread
from pursuit.research.experiments.run import EXACT_IP, LOGISTIC_REGRESSION
from pursuit.research.tasks import EMBEDDED, TASKS

ORDER = [
    "animals", "digits", "mnist", "fashion-mnist", "kmnist", "kmnist-test-split", "cifar10", "cifar100", "cub",
    "huffpost", "symcat-200", "symcat-300", "symcat-400", "muzhi", "dxy",
]  # fmt: skip
IMAGES, MOST_ROWS, MOST_BYTES, LONGEST_CHAIN = RESULTS.parent / "images" / "tasks", 2000, 150_000, 24
PICKED = "picked on test rows"
SHOWN_RULES = [
    "confidence=0.8", "confidence=0.9", "confidence=0.94", "confidence=0.95", "confidence=0.99", "stability=0.01",
    "stability=0.01443", "stability=0.001", "stability=0.001443", "stability=0.001x3", "stability=0.001443x3",
]  # fmt: skip


def collect(folder: Path) -> tuple[Run, Record]:
    """The results of a folder without their checksum, which does not fit rounded figures; its curve is copied."""
    values = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    run = Results.from_dict(values).run
    name = run_name(run["task"], run["recipe"], run["options"])
    (RESULTS / "tasks").mkdir(parents=True, exist_ok=True)
    for figure in folder.glob("curve*.png"):  # against queries, and against cost where costs differ
        shutil.copy(figure, RESULTS / "tasks" / f"{name}-{figure.name}")
    if models := sorted(folder.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-"))):
        draw(models[0], run["task"], name)
    return {"name": name}, significant({key: value for key, value in values.items() if key != CHECKSUM})


def draw(model_folder: Path, task_name: str, name: str) -> None:
    """The first test row's chain and the map of queries. A photo that a task only asks concepts of is never shown."""
    classifier: Any = load(model_folder)
    task = TASKS[task_name].load(int(model_folder.name.removeprefix("seed-")))
    n, known, query_set = min(MOST_ROWS, len(task.y_test)), task.initially_known_test, classifier.model_.query_set
    rule, given = classifier.stopping_rule(), None if known is None else known[:n]
    X, y = task.X_test[:n], task.y_test[:n]
    stop, first = f"{rule},budget={LONGEST_CHAIN}", None if given is None else given[:1]
    chain = classifier.explain(X[:1], stop, initially_known=first)[0]
    shares = shares_asked(classifier.model_, classifier.rows(X, y, initially_known=given), rule, "cpu")
    paths = [IMAGES / f"{name}-{what}.png" for what in ("chain", "asked")]
    figures = [
        draw_chain(query_set, X[:1], chain, paths[0], f"{task.name}, the first test row: {y[0]}"),
        asked_map(query_set, shares, paths[1], f"{task.name}: what is asked of {n:,} test rows until {rule}"),
    ]
    for figure, path in zip(figures, paths, strict=True):
        dpi = DPI
        while path.stat().st_size > MOST_BYTES and dpi > 40:  # small enough for a repository
            dpi = round(dpi * 0.8)
            figure.savefig(path, dpi=dpi)


# ---- what the pages say


def runs(records: list[Record]) -> dict[str, Results]:
    """All runs by name, in the order of the tasks; ablations last."""
    order = [*ORDER, *(task for task in TASKS if task not in ORDER)]
    found = {one["name"]: Results.from_dict(one) for one in records}
    where = {name: (bool(one.run["options"]), order.index(one.run["task"]), name) for name, one in found.items()}
    return dict(sorted(found.items(), key=lambda item: where[item[0]]))


def by_rule(results: Results) -> dict[str, tuple[float, float]]:
    """Mean number of queries and accuracy of every stopping rule, averaged over seeds."""
    values: dict[str, list[tuple[float, float]]] = {}
    for seed in vip_of(results)[0].seeds:
        for stop in (seed.evaluation.at_stop, *seed.evaluation.trade_off):
            if stop:
                values.setdefault(stop.rule, []).append((stop.mean_asked, stop.accuracy))
    return {rule: tuple(sum(part) / len(part) for part in zip(*each, strict=True)) for rule, each in values.items()}


def at_published_length(results: Results) -> tuple[str, float, float] | None:
    """The rule that asks most nearly as many queries as the paper's V-IP, how many, and its accuracy."""
    published = published_for(results.run["task"])
    if published is None or published.mean_answered is None:
        return None
    curves = zip(*(seed.evaluation.accuracy_by_asked for seed in vip_of(results)[0].seeds), strict=True)
    rules = {**by_rule(results), **{f"budget={n}": (n, sum(right) / len(right)) for n, right in enumerate(curves)}}
    rule = min(rules, key=lambda rule: abs(rules[rule][0] - published.mean_answered))
    return rule, *rules[rule]


def at_paper_length(results: Results) -> tuple[float, float, str]:
    """Queries and accuracy counted as the paper's released code does, where that differs, or else by the rule that
    asks about as many queries as the paper's V-IP; and what is to be said of it."""
    measured, protocols = vip_of(results)[1].protocols, TASKS[results.run["task"]].protocols
    same = next((protocol.name for protocol in protocols if protocol.counts_unseen), None)
    if same in measured:
        others = [f"{found.accuracy.mean:.1%} with {name}" for name, found in measured.items() if name != same]
        found = measured[same]
        return found.mean_counted.mean, found.accuracy.mean, f", counted alike; {', '.join(others)}"
    chosen = at_published_length(results)
    assert chosen is not None
    rule, n_asked, accuracy = chosen
    return n_asked, accuracy, "" if rule.startswith("budget") else f"; our confidence was {PICKED}"


def headlines(results: Results) -> list[tuple[str, str]]:
    """In short, numbers of queries and the accuracy there: of every protocol, or else of a rule that asks about as many
    as the paper's, or else of the recipe's rule."""
    summary = vip_of(results)[1]
    if summary.protocols:
        found = summary.protocols.items()
        return [(f"{one.mean_counted.mean:.2f} ({name})", mean_and_spread(one.accuracy)) for name, one in found]
    if chosen := at_published_length(results):
        rule, queries, accuracy = chosen
        caveat = "" if rule.startswith("budget") else f", {PICKED}"
        return [(f"{queries:.1f} ({rule}{caveat})", f"{accuracy:.3f}")]
    stop = summary.at_stop
    assert stop is not None
    return [(f"{stop.mean_asked.mean:.1f} ({stop.rule})", mean_and_spread(stop.accuracy))]


def gap_to_exact(results: Results, n: int = 20) -> str:
    """How far V-IP is behind exact IP after n queries, over seeds."""
    pairs = [
        (seed.beside[EXACT_IP].accuracy_by_asked, seed.evaluation.accuracy_by_asked)
        for seed in vip_of(results)[0].seeds
        if EXACT_IP in seed.beside
    ]
    return spread(exact[n] - own[n] for exact, own in pairs if exact and n < len(exact) and n < len(own))


def printed(task: str) -> str:
    """The figure of the paper's V-IP, and whether it can be compared."""
    published = published_for(task)
    if published is None:
        return NOTHING
    caveat = "" if published.comparable else f" ({NOT_COMPARABLE})"
    if published.after_20 is not None:
        return f"{published.after_20:.3f} after 20{caveat}"
    return f"{published.accuracy:.3f} after {published.mean_answered}{caveat}"


def protocol_rows(name: str, results: Results) -> list[list[str]]:
    info, rows = TASKS.get(results.run["task"]), []
    summary = vip_of(results)[1]
    for protocol in info.protocols if info else ():
        cells = [NOT_MEASURED, *[NOTHING] * 6]
        if found := summary.protocols.get(protocol.name):
            level = f"{found.level.mean:.4f}" + (f" ± {found.level.sd:.4f}" if found.level.sd else "")
            counted = (f"{one.mean:.2f}" for one in (found.mean_held_out, found.mean_counted))
            accuracy = mean_and_spread(found.accuracy), interval_text(found.accuracy)
            cells = [level, *counted, f"{found.cut_short.mean:.1%}", *accuracy, str(summary.n_seeds)]
        paper = info and info.published
        rows.append([name, protocol.name, *cells, f"{paper.mean_answered}, {paper.accuracy}" if paper else NOTHING])
    return rows


def exact_rows(name: str, results: Results) -> list[list[str]]:
    found = vip_of(results)[0]
    if EXACT_IP not in found.seeds[0].beside:
        return []
    rows = []
    for title, one in ((found.title, found.seeds[0].evaluation), (EXACT_IP, found.seeds[0].beside[EXACT_IP])):
        after = (f"{one.accuracy_by_asked[n]:.3f}" for n in (5, 10, 15, 20))
        rows.append([name, title, *after, f"{one.accuracy_all_answers:.3f}", NOTHING, NOTHING])
    rows[0][-2:] = [gap_to_exact(results), printed(results.run["task"])]
    return rows


def black_box_row(name: str, results: Results) -> list[str]:
    """With all answers: V-IP's own classifier and those that learnt from all answers alone."""
    summary, box, published = vip_of(results)[1], black_box_of(results), published_for(results.run["task"])
    beside = [seed.beside.get(LOGISTIC_REGRESSION) for seed in vip_of(results)[0].seeds]
    right = [one.accuracy_all_answers for one in beside if one and one.accuracy_all_answers is not None]
    regression = mean_and_spread(mean_and_sd(right) if right else None)
    paper = published.black_box if published else None
    paper = NOTHING if paper is None else f"{paper:.3f}"
    return [name, mean_and_spread(summary.accuracy_all_answers), measured_or_not(box), regression, paper]


def figures_of(name: str) -> str:
    """The curve of a run and, once they were drawn, a chain and what is asked when."""
    kinds = {"a chain": f"{name}-chain.png", "what is asked when": f"{name}-asked.png"}
    drawn = [f"![{what}, {name}](../images/tasks/{path})\n" for what, path in kinds.items() if (IMAGES / path).exists()]
    return "\n".join([f"### {name}\n\n![accuracy against queries, {name}](tasks/{name}-curve.png)\n", *drawn])


def page(records: list[Record]) -> dict[str, str]:
    measured = runs(records)
    plain = {name: one for name, one in measured.items() if not one.run["options"]}
    trade_offs, overview = [], []
    for name, one in plain.items():
        task, recipe, rules = one.run["task"], one.run["recipe"], by_rule(one)
        trade_offs.append([name, *("{:.2f}, {:.3f}".format(*rules[r]) if r in rules else NOTHING for r in SHOWN_RULES)])
        if task not in EMBEDDED:
            own, summary = vip_of(one)
            trained_on = f"{own.seeds[0].provenance['device']}, {summary.training_seconds.mean:.0f} s"
            title = task + ("" if recipe == "fast" else f" ({recipe})")
            more = [printed(task), gap_to_exact(one), str(summary.n_seeds), trained_on]
            overview += [[title, querier_of(one), *headline, *more] for headline in headlines(one)]
    return {
        "runs": "\n".join([HEADER, *(markdown_row(one) for one in measured.values())]),
        "protocols": table(
            "run; protocol; confidence; queries held out; queries, test; cut short; accuracy; 95 % interval; seeds; "
            "paper: queries, accuracy",
            [row for name, one in plain.items() for row in protocol_rows(name, one)],
        ),
        "exact": table(
            "run, first seed; pursuer; after 5; 10; 15; 20; all answers; behind exact IP after 20, all seeds; "
            "paper's V-IP",
            [row for name, one in measured.items() for row in exact_rows(name, one)],
        ),
        "all answers": table(
            "run; V-IP; black box, the same network; logistic regression; paper's black box",
            [black_box_row(name, one) for name, one in plain.items()],
        ),
        "trade-off": table(["run", *SHOWN_RULES], trade_offs),
        "figures": "\n".join(figures_of(name) for name in plain),
        "index.md#tasks": table(
            "task; querier; queries; accuracy; paper's V-IP; behind exact IP after 20; seeds; trained on", overview
        ),
        "../../README.md#results": readme_section(),
    }


def measure(name: str) -> Record:
    raise ValueError("`pursuit reproduce TASK` measures these; then give its results folder to --collect.")


STUDY = Study(name="tasks", runs=[], measure=measure, page=page, file="tasks/{name}.json", collect=collect)
