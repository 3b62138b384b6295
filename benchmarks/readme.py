"""The short table of the README, from what was measured of animals, ordinary tables and tasks of the paper."""

from typing import Any

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


def readme_section() -> str:
    """A handful of rows: guessing animals, ordinary tables, and tasks of the paper."""
    from benchmarks import queriers, tables, tasks
    from benchmarks.report import table
    from pursuit.research.experiments.reproduce import published_for
    from pursuit.research.experiments.results import Results
    from pursuit.research.tasks import TASKS

    def row(title: str, n_queries: int, asked: float, accuracy: float, beside: str) -> list[Any]:
        return [title, n_queries, f"{asked:.1f}", f"{accuracy:.1%}", beside]

    animals = next(one for one in queriers.STUDY.read() if one["task"] == "animals")
    worked = Results.from_dict(animals).worked
    own, exact = (worked[name][1].at_stop for name in (animals["auto"], queriers.EXACT))
    beside = f"{exact.accuracy.mean:.1%} after {exact.mean_asked.mean:.1f}, by exact Information Pursuit"
    title = "which of 187 animals somebody thinks of"
    rows = [row(title, TASKS["animals"].n_queries, own.mean_asked.mean, own.accuracy.mean, beside)]
    runs = tables.Runs(tables.STUDY.read())
    for name, title in TABLES.items():
        each, best = runs.of(name), runs.best_other(name)
        assert best is not None
        asked, accuracy = (tables.mean(each, key) for key in ("asked", "at_stop"))
        beside = f"{best[1]:.1%} by {tables.TITLES[best[0]]} with all columns"
        rows.append(row(title, each[0]["shape"]["columns"], asked, accuracy, beside))
    measured = tasks.runs(tasks.STUDY.read())
    for name, title in PAPER.items():
        results = next(measured[run] for recipe in ("gpu", "fast") if (run := f"{name}-{recipe}") in measured)
        paper = published_for(name)
        assert paper is not None
        n_asked, accuracy, remark = tasks.at_paper_length(results)
        beside = f"{paper.accuracy:.1%} after {paper.mean_answered:.1f} in the paper{remark}"
        rows.append(row(title, TASKS[name].n_queries, n_asked, accuracy, beside))
    return table(HEADER, rows)
