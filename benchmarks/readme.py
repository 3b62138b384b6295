"""The short table of the README, from what was measured of animals, ordinary tables and tasks of the paper."""

from statistics import fmean
from typing import Any

HEADER = ("what is found out", "questions there are", "asked, on average", "right", "for comparison")
TABLES = {
    "heart": "heart disease, yes or no",
    "letter": "which of 26 printed letters, by measures of it",
    "symptoms-773": "which of 674 diseases, by symptoms",
}
PAPER = {
    "mnist": ("straight-through", "which handwritten digit, by patches of 3x3 pixels"),
    "cub": ("straight-through", "which of 200 birds, by what a network sees of it"),
}
"""By the querier of the paper."""


def readme_section() -> str:
    """A handful of rows: guessing animals, ordinary tables, and tasks of the paper."""
    from benchmarks import paper, play, tables
    from benchmarks.report import grouped, table
    from pursuit.research.experiments.paper import PLAN, read_records
    from pursuit.research.tasks import TASKS

    def row(title: str, n_queries: int, asked: float, accuracy: float, beside: str) -> list[Any]:
        return [title, n_queries, f"{asked:.1f}", f"{accuracy:.1%}", beside]

    games = grouped(play.STUDY.read(), "manner")
    (sure, n_sure), (right, n_asked) = (
        (fmean(one["guessed"] for one in games[manner]), fmean(one["asked"] for one in games[manner]))
        for manner in ("as the table does", "one in twenty wrong")
    )
    title = "which of 187 animals somebody thinks of, with one answer in twenty wrong"
    beside = f"{sure:.1%} after {n_sure:.1f} with no answer wrong"
    rows = [row(title, TASKS["animals"].n_queries, n_asked, right, beside)]
    runs = tables.Runs(tables.STUDY.read())
    for name, title in TABLES.items():
        each, best = runs.of(name), runs.best_other(name)
        assert best is not None
        asked, accuracy = (tables.mean(each, key) for key in ("asked", "at_stop"))
        beside = f"{best[1]:.1%} by {tables.TITLES[best[0]]} with all columns"
        rows.append(row(title, each[0]["shape"]["columns"], asked, accuracy, beside))
    for name, (querier, title) in PAPER.items():
        way = paper.way(name, querier=querier)
        results = list(read_records(paper.FOLDER, tuple(run for run in PLAN if run.way == way)).values())
        length, accuracy = (fmean(part) for part in zip(*map(paper.stop, results), strict=True))
        _, printed_length, printed, *_ = paper.STOPPED[name]
        beside = f"{printed:.1%} after {printed_length:.1f} in the paper"
        if results[0].protocols:
            caps: dict[str, list[float]] = {
                one.name: [] for one in results[0].protocols if not one.name.startswith("released code")
            }
            for one in (one for result in results for one in result.protocols if one.name in caps):
                caps[one.name].append(one.accuracy)
            beside += "".join([", counted alike", *(f"; {fmean(found):.1%} with {cap}" for cap, found in caps.items())])
        rows.append(row(title, TASKS[name].n_queries, length, accuracy, beside))
    return table(HEADER, rows)
