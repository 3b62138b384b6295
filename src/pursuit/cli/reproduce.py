"""`pursuit reproduce`: train a task by a recipe and write its results beside the published ones; with `paper`, all runs
behind the paper's tables and figures."""

import os
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column

from pursuit.cli.console import (
    escaped,
    out,
    plain_table,
    print_json,
    remark_on_recipe,
    say,
    show,
    stoppable,
    training_bar,
)
from pursuit.cli.options import AsJson, EngineOptions, Seeds
from pursuit.options import Option, Seed

if TYPE_CHECKING:
    from pursuit.research.experiments.paper import PaperRun
from pursuit.research.experiments.options import Changes, ReproductionOptions

PAPER = "paper"
"""Stands where a task does."""
FOLDER, WORK = Path("docs/results/paper"), Path("results/paper")
DONE, BEGUN, NO_DATA, TO_DO = "done", "begun", "data absent", "to do"
DEFAULTS = ReproductionOptions(device="auto")


def reproduce(
    *,
    task: Annotated[
        str, typer.Argument(help="A task (see `pursuit tasks`), or `paper`: all runs of the paper.", metavar="TASK")
    ],
    recipe: Annotated[str, Option("A recipe of the task (see `pursuit tasks`).")] = "fast",
    seeds: Seeds = 1,
    first_seed: Seed = 0,
    options: ReproductionOptions = DEFAULTS,
    to: Annotated[Path | None, Option("The folder to write; by default results/TASK-RECIPE.", "--out")] = None,
    changes: Changes,
    where: EngineOptions,
    minutes: Annotated[
        float | None, Option("With `paper`: work through its runs for so many minutes.", "--next", min=0)
    ] = None,
    jobs: Annotated[int, Option("With `paper --next`: how many runs at a time.", min=1)] = 1,
    only: Annotated[
        list[str] | None, Option("With `paper`: runs by name, as in 'symcat-*-seed-0'; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a task of the paper by a recipe, measure on its test rows, and write a results folder.

    The folder gets results.json, row.md with the published figures beside ours, curve.png, chains, and the models: V-IP
    and a black box that learns from all answers. The same command again continues where it stopped.

    `pursuit reproduce paper` lists the runs behind the paper's tables and figures; with --next it does the most
    valuable of those that are left, and writes a small file for each into docs/results/paper, or --out.
    """
    if task == PAPER:
        same = Changes(effort=changes.effort)
        if (recipe, seeds, first_seed, changes, options.validation) != ("fast", 1, 0, same, False):
            raise ValueError(f"The runs of `{PAPER}` say themselves what they train: choose among them with --only.")
        _paper(minutes, jobs, only or [], changes.effort, options.device, to, as_json)
        return
    if minutes is not None or only:
        raise ValueError(f"--next and --only are for `pursuit reproduce {PAPER}`.")
    from pursuit.research.experiments import reproduce as experiment
    from pursuit.research.tasks import find_recipe

    chosen, in_words = changes.applied(find_recipe(task, recipe))
    reproduction = experiment.Reproduction(
        task,
        recipe,
        chosen,
        seeds=tuple(range(first_seed, first_seed + seeds)),
        options=tuple(in_words),
        **vars(options),
    )
    folder = to or Path("results") / reproduction.name
    remark_on_recipe(chosen, options.device)
    with stoppable():
        results = experiment.reproduce(reproduction, folder, training_bar, say, where.find_engine())
    if as_json:
        print_json(results.to_dict())
        return
    show(f"{experiment.HEADER}\n{experiment.markdown_row(results)}")
    show(f"Written into {folder}")


def _paper(
    minutes: float | None, jobs: int, only: list[str], effort: float, device: str, to: Path | None, as_json: bool
) -> None:
    """List the runs, or do those that are left for some minutes."""
    from pursuit.research.experiments.paper import PLAN, Place, minutes_of, read_records, work_through
    from pursuit.training.devices import find_device

    find_device(device)
    plan = tuple(run.scaled(effort) for run in PLAN)
    place = Place(to or FOLDER, WORK, device, max(1, (os.cpu_count() or 1) // jobs))
    done = read_records(place.out, plan)
    chosen = [run for run in plan if not only or any(fnmatch(run.name, pattern) for pattern in only)]
    if not chosen:
        raise ValueError(f"No run is called {' or '.join(only)}: `pursuit reproduce paper` lists them.")
    chosen = [replace(run, minutes=minutes_of(run, done)) for run in chosen]
    status = {
        run: DONE if run in done else NO_DATA if not run.has_data else BEGUN if place.has_begun(run) else TO_DO
        for run in chosen
    }
    if minutes is None:
        _show(status, as_json)
        return
    left = [run for run, now in status.items() if now in (BEGUN, TO_DO)]
    for task in dict.fromkeys(run.task for run, now in status.items() if now == NO_DATA):
        say(f"{task} is left out: its data are absent (pursuit data get {task}).")
    with stoppable():
        failed = work_through(left, minutes, jobs, place, say)
    if failed:
        raise ValueError(f"These failed, and the same command tries them again: {', '.join(failed)}.")


def _show(status: "dict[PaperRun, str]", as_json: bool) -> None:
    runs = sorted(status, key=lambda run: -run.value)
    if as_json:
        keys = ("name", "task", "method", "fills", "value", "minutes")
        print_json({"runs": [{**{key: getattr(run, key) for key in keys}, "status": status[run]} for run in runs]})
        return
    columns = [Column(title, no_wrap=True) for title in ("run", "value", "minutes", "status")]
    table = plain_table(*columns, "for")
    for run in runs:
        table.add_row(escaped(run.name), str(run.value), f"{run.minutes:.1f}", status[run], run.fills)
    out.print(table)
    left = [run for run, now in status.items() if now != DONE]
    hours = sum(run.minutes for run in left) / 60
    show(f"{len(left)} of {len(status)} runs are left: about {hours:.0f} hours one after the other.")
