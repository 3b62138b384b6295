"""What was measured of the paper: a file for each run, and the results folders of whole tasks."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pursuit.experiments.paper.runs import PLAN, PaperRun
from pursuit.experiments.reproduce import VIP, querier_of
from pursuit.experiments.results import Result, Results, read_result
from pursuit.files import make_folder

EFFORT = "effort "


def write(result: Result, path: Path) -> None:
    """What pages show of a result, to four digits after the point."""
    evaluation = replace(result.evaluation, confidence_by_asked=[], calibration_error_by_asked=[], brier_by_asked=[])
    text = json.dumps(replace(result, evaluation=evaluation).to_dict())
    make_folder(path.parent)
    Result.from_dict(json.loads(text, parse_float=lambda number: round(float(number), 4))).write(path)


def read(folder: Path, plan: tuple[PaperRun, ...] = PLAN) -> dict[PaperRun, Result]:
    """The runs that are done: those in files of this folder, and those that `tasks` beside it has from before."""
    found: dict[PaperRun, Result] = {}
    for path in sorted((folder.parent / "tasks").glob("*.json")):
        found |= _of_task(Results.from_dict(json.loads(path.read_text())))
    for run in plan:
        if result := read_result(folder / f"{run.name}.json"):
            found[run] = result
    return found


def _of_task(results: Results) -> dict[PaperRun, Result]:
    """The runs that one results folder of `pursuit reproduce` has; none if a recipe was changed in other ways."""
    task, recipe, options = (results.run[key] for key in ("task", "recipe", "options"))
    if not all(option.startswith(EFFORT) for option in options):
        return {}
    effort = float(options[0].removeprefix(EFFORT)) if options else 1.0
    return {
        PaperRun(
            task, name, recipe, querier=querier_of(results) if name == VIP else None, effort=effort, seed=result.seed
        ): result
        for name, (method, _) in results.worked.items()
        for result in method.seeds
    }


def minutes_of(run: PaperRun, done: Mapping[PaperRun, Result]) -> float:
    """What a run takes: as long as the longest of its seeds did, or as is estimated."""
    took = [
        (result.training_seconds + (result.measuring_seconds or 0)) / 60
        for other, result in done.items()
        if other.way == run.way
    ]
    return max(took, default=run.minutes)
