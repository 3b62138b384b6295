"""The short table of the README, from what was measured of animals, ordinary tables and tasks of the paper."""

from dataclasses import asdict
from statistics import fmean
from typing import Any

from benchmarks import paper, play
from benchmarks.report import cell, grouped, table
from pursuit.research.experiments.paper import PLAN, read_records
from pursuit.research.tasks import TASKS

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
    return table(HEADER, [animals_row(), *map(table_row, TABLES), *map(paper_row, PAPER)])


def row(title: str, n_queries: int, asked: float, accuracy: float, beside: str) -> list[Any]:
    return [title, n_queries, f"{asked:.1f}", f"{accuracy:.1%}", beside]


def animals_row() -> list[Any]:
    games = grouped(play.STUDY.read(), "manner")
    right, wrong = games["as the table does"], games["one in twenty wrong"]
    title = "which of 187 animals somebody thinks of, with one answer in twenty wrong"
    beside = f"{cell(right, 'guessed|.1%')} after {cell(right, 'asked|.1f')} with no answer wrong"
    n_asked, guessed = (fmean(one[key] for one in wrong) for key in ("asked", "guessed"))
    return row(title, TASKS["animals"].n_queries, n_asked, guessed, beside)


def table_row(name: str) -> list[Any]:
    from benchmarks import tables  # whose page this is a part of

    runs = tables.Runs(tables.STUDY.read())
    each, best = runs.of(name), runs.best_other(name)
    assert best is not None
    asked, accuracy = (tables.mean(each, key) for key in ("asked", "at_stop"))
    beside = f"{best[1]:.1%} by {tables.TITLES[best[0]]} with all columns"
    return row(TABLES[name], each[0]["shape"]["columns"], asked, accuracy, beside)


def paper_row(name: str) -> list[Any]:
    querier, title = PAPER[name]
    way = paper.way(name, querier=querier)
    results = list(read_records(paper.FOLDER, tuple(run for run in PLAN if run.way == way)).values())
    length, accuracy = (fmean(part) for part in zip(*map(paper.stop, results), strict=True))
    _, printed_length, printed, *_ = paper.STOPPED[name]
    beside = f"{printed:.1%} after {printed_length:.1f} in the paper"
    protocols = grouped((asdict(one) for result in results for one in result.protocols), "name")
    if protocols:
        own = {cap: each for cap, each in protocols.items() if not cap.startswith("released code")}
        beside += ", counted alike" + "".join(f"; {cell(each, 'accuracy|.1%')} with {cap}" for cap, each in own.items())
    return row(title, TASKS[name].n_queries, length, accuracy, beside)
