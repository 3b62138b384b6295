"""The short table of the README, from what was measured: core.json, tables/ and tasks/ of docs/results.

python benchmarks/readme.py
"""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import task_tables
from pursuit.experiments.reproduce import published_for, vip_of
from pursuit.experiments.results import Results
from pursuit.tasks import TASKS
from report import README, RESULTS, into_page, table
from table_methods import TITLES
from table_page import VIP, Runs, best_other, measured, read_runs

HEADER = ("what is found out", "questions there are", "asked, on average", "right", "for comparison")
TABLES = {
    "heart": "heart disease, yes or no",
    "letter": "which of 26 printed letters, by measures of it",
    "symptoms-773": "which of 674 diseases, by symptoms",
}
PAPER = {
    "mnist": "which handwritten digit, by patches of 3x3 pixels",
    "cub": "which of 200 birds, by what a network sees of it",
}
RECIPES = ("gpu", "fast")
"""The first of them that was measured is shown."""


def readme_section(results: Path = RESULTS) -> str:
    """A handful of rows: guessing animals, ordinary tables, and tasks of the paper."""
    core = json.loads((results / "core.json").read_text(encoding="utf-8"))
    runs = read_runs(results / "tables")
    rows = [_animals(core["animals"]), *(_table(runs, name) for name in TABLES), *_paper(results / "tasks")]
    return table(HEADER, rows).rstrip()


def write_readme() -> None:
    into_page(README, "results", readme_section())


def _animals(runs: list[dict[str, Any]]) -> list[str]:
    own, exact = (
        [statistics.fmean(run[where][key] for run in runs) for key in ("mean_asked", "accuracy")]
        for where in ("at_stop", "exact_at_stop")
    )
    beside = f"{exact[1]:.1%} after {exact[0]:.1f}, by exact Information Pursuit"
    return [
        "which of 187 animals somebody thinks of",
        str(TASKS["animals"].n_queries),
        f"{own[0]:.1f}",
        f"{own[1]:.1%}",
        beside,
    ]


def _table(runs: Runs, name: str) -> list[str]:
    own, best = measured(runs, name, VIP), best_other(runs, name)
    assert best is not None
    asked, accuracy = (statistics.fmean(one[key] for one in own) for key in ("asked", "at_stop"))
    beside = f"{best[1]:.1%} by {TITLES[best[0]]} with all columns"
    return [TABLES[name], str(own[0]["shape"]["columns"]), f"{asked:.1f}", f"{accuracy:.1%}", beside]


def _paper(folder: Path) -> Iterator[list[str]]:
    for task, title in PAPER.items():
        path = next(path for recipe in RECIPES if (path := folder / f"{task}-{recipe}.json").exists())
        results = Results.from_dict(json.loads(path.read_text(encoding="utf-8")))
        n_asked, accuracy, remark = _at_published_length(results)
        paper = published_for(task)
        assert paper is not None
        assert paper.accuracy is not None
        beside = f"{paper.accuracy:.1%} after {paper.mean_answered:.1f} in the paper{remark}"
        yield [title, str(TASKS[task].n_queries), f"{n_asked:.1f}", f"{accuracy:.1%}", beside]


def _at_published_length(results: Results) -> tuple[float, float, str]:
    """Queries and accuracy counted as the paper's released code does, where that differs, or else by the rule that
    asks about as many queries as the paper's V-IP; and what is to be said of it."""
    measured, protocols = vip_of(results)[1].protocols, TASKS[results.run["task"]].protocols
    same = next((protocol.name for protocol in protocols if protocol.counts_unseen), None)
    if same in measured:
        others = [f"{found.accuracy.mean:.1%} with {name}" for name, found in measured.items() if name != same]
        found = measured[same]
        return found.mean_counted.mean, found.accuracy.mean, f", counted alike; {', '.join(others)}"
    chosen = task_tables.at_published_length(results)
    assert chosen is not None
    rule, n_asked, accuracy = chosen
    remark = "" if rule.startswith("budget") else f"; our confidence was {task_tables.PICKED}"
    return n_asked, accuracy, remark


if __name__ == "__main__":
    write_readme()
