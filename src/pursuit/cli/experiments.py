"""`pursuit demo`, `compare`, `tune`, `reproduce` and `concepts`: many trainings, whose results go into a folder."""

import os
import shlex
import shutil
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from pursuit.cli.console import (
    err,
    escaped,
    out,
    print_json,
    remark_on_recipe,
    remark_on_task,
    say,
    show,
    stoppable,
    training_bar,
)
from pursuit.cli.options import AsJson, EngineOptions, Regress, Seeds, Source, TableOptions, words_of
from pursuit.cli.train import find_method, folder_name
from pursuit.registry import Device, Option, Seed, find
from pursuit.research.experiments.options import Changes, ReproductionOptions, SearchOptions, TrialOptions

if TYPE_CHECKING:
    from pursuit.research.concepts import ConceptReport
    from pursuit.research.experiments.paper import PaperRun
    from pursuit.research.experiments.tune import Trial, Tuning


TRIAL, REPRODUCTION = TrialOptions(device="auto"), ReproductionOptions(device="auto")
"""Options by default."""


def compare(
    source: Source,
    *,
    methods: Annotated[
        str | None,
        Option("Comma-separated names (see `pursuit methods`), or all; by default the quick ones."),
    ] = None,
    seeds: Seeds = 1,
    first_seed: Seed = 0,
    options: TrialOptions = TRIAL,
    to: Annotated[Path | None, Option("The folder to write; by default results/compare-NAME.", "--out")] = None,
    collect: Annotated[
        bool, Option("Train nothing: write the table of what has been measured so far.", "--collect")
    ] = False,
    table: TableOptions,
    where: EngineOptions,
    as_json: AsJson = False,
) -> None:
    """Train several methods on a task or a file, measure them on the same rows, and write a results folder.

    The folder gets results.json, table.md, curve.png, and the models. If a method fails, its error is noted and the
    others go on. The same command again continues where it stopped.
    """
    from pursuit.cli.measurements import print_comparison
    from pursuit.research.experiments import compare as experiment
    from pursuit.research.experiments.compare import Trial

    trial = Trial(
        source,
        methods=_method_names(methods),
        seeds=range(first_seed, first_seed + seeds),
        costs=table.costs(),
        cost_aware=bool(table.cost_aware),
        table_options=table.reading(),
        **vars(options),
    )
    folder = to or Path("results") / "-".join(["compare", trial.name, *trial.options]).replace(" ", "-")
    if trial.is_named:
        remark_on_recipe(trial.find_recipe(), options.device)
    else:
        remark_on_task(trial.load(first_seed))
    with stoppable():
        results = experiment.compare(trial, folder, training_bar, say, only_collect=collect, engine=where.find_engine())
    if as_json:
        print_json(results.to_dict())
    else:
        print_comparison(results)
        show(f"Written into {folder}")
    if not results.worked:
        say("All methods failed.")
        raise typer.Exit(1)


def _method_names(text: str | None) -> tuple[str, ...]:
    """The methods that a user names, or the usual ones."""
    from pursuit.research.experiments.compare import DEFAULT_METHODS

    if text is None:
        return DEFAULT_METHODS
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


MOST_LISTED = 5
"""Number of the best trials that are listed."""


def tune(
    source: Source,
    *,
    options: SearchOptions,
    trials: Annotated[int, Option("How many settings to try, the usual ones included.", min=1)] = 30,
    to: Annotated[Path | None, Option("The folder to write; by default runs/tune-NAME.", "--out")] = None,
    regress: Regress = False,
    table: TableOptions,
    where: EngineOptions,
    as_json: AsJson = False,
) -> None:
    """Search settings of a method, such as learning rate and width, and say how to train with the best of them.

    Each trial trains on a part of the training rows and is judged on the others by its accuracy over all numbers of
    questions; test rows have no say. The folder gets trials.csv and best.json. The same command again continues where
    it stopped.
    """
    from pursuit.research.experiments.tune import Search
    from pursuit.research.experiments.tune import tune as run_search

    chosen = find_method(options.method, regress)
    search = Search(
        source,
        costs=table.costs(),
        cost_aware=table.cost_aware,
        table_options={"regress": chosen.predicts_numbers, **table.reading()},
        **{**vars(options), "method": chosen.name},
    )
    folder = to or Path("runs") / f"tune-{folder_name(search.name, chosen)}"
    remark_on_task(search.load()[0])
    with stoppable():
        found = run_search(search, folder, trials, training_bar, say, where.find_engine())
    chosen_words = [*words_of(options), *(["--regress"] if regress else []), *words_of(table)]
    tuned = ["--tuned", str(folder)] if found.settings else []
    command = shlex.join(["pursuit", "train", source, *chosen_words, *tuned])
    if as_json:
        print_json({**found.to_dict(), "folder": str(folder), "train": command})
        return
    _print(found, chosen.predicts_numbers)
    show(f"Written into {folder}. Train on all training rows, and measure on test rows, by\n  {command}")


def _print(found: "Tuning", regress: bool) -> None:
    """The best trials beside the default settings, and how far to trust them."""
    from pursuit.research.experiments.tune import FACTORS, TRIALS

    best, default = found.best, found.default
    assert best.judged
    names = list(best.values)
    what = "R²" if regress else "accuracy"
    title = (
        f"{found.search['task']}: mean {what} over 1 to {best.judged.longest} questions on {best.judged.n_judged:,} "
        "held-out training rows"
    )
    factors = "Factors on what is usual: 1 changes nothing." if set(names) & set(FACTORS) else None
    columns = [Column(name, justify="right", overflow="fold") for name in (what, *names)]
    table = Table("trial", *columns, title=title, caption=factors)
    for trial in found.ranked[:MOST_LISTED]:
        table.add_row(*_cells(trial))
    if default and not any(trial.number == 0 for trial in found.ranked[:MOST_LISTED]):
        table.add_row(*_cells(found.trials[0]))
    out.print(table)
    if n_failed := sum(trial.judged is None for trial in found.trials):
        say(f"{n_failed} of {len(found.trials)} trials failed, as {TRIALS} says.")
    if best.number == 0:
        lines = "No trial was better than the usual settings: leave them as they are."
    else:
        usual = "failed" if default is None else f"{default.area:.4f}"
        lines = (
            f"The best of {len(found.trials)} trials: {best.judged.area:.4f}; the usual settings: {usual}. The best of "
            "many looks better than it is, because it was chosen by this very figure: on new rows, expect less."
        )
    show(lines)


def _cells(trial: "Trial") -> list[str]:
    assert trial.judged
    return [
        str(trial.number or "usual"),
        f"{trial.judged.area:.4f}",
        *(f"{value:.3g}" for value in trial.values.values()),
    ]


PAPER = "paper"
"""Stands where a task does."""
FOLDER, WORK = Path("docs/results/paper"), Path("results/paper")
DONE, BEGUN, NO_DATA, TO_DO = "done", "begun", "data absent", "to do"


def reproduce(
    *,
    task: Annotated[
        str, typer.Argument(help="A task (see `pursuit tasks`), or `paper`: all runs of the paper.", metavar="TASK")
    ],
    recipe: Annotated[str, Option("A recipe of the task (see `pursuit tasks`).")] = "fast",
    seeds: Seeds = 1,
    first_seed: Seed = 0,
    options: ReproductionOptions = REPRODUCTION,
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

    The folder gets results.json, table.md with ours and the published figures, curve.png, chains, and the models: V-IP
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
    from pursuit.research.tasks import TaskInfo, find_recipe

    find(TaskInfo.registry_kind, task, also=[PAPER])  # or an error that names the tasks, and `paper` beside them
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
    show(experiment.report(results))
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
    for run in runs:  # names are long: each has a line of its own, and is never broken
        show(f"{run.name}\n    {status[run]}; value {run.value}, {run.minutes:.1f} minutes, for {run.fills}")
    left = [run for run, now in status.items() if now != DONE]
    minutes = sum(run.minutes for run in left)
    duration = f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.0f} hours"
    show(f"Left: {len(left)} of {len(status)} runs, about {duration} one after the other.")


def demo(
    to: Annotated[Path, Option("The folder for models and figures.", "--out")] = Path("demo"),
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train on two embedded tasks, compare with random order, and draw figures. No data are needed."""
    from pursuit.cli.measurements import print_demo
    from pursuit.research.experiments.reproduce import run_demo

    results = []
    with stoppable():
        for result in run_demo(to, seed, training_bar, say):
            results.append(result)
            if not as_json:
                print_demo(result)
    if as_json:
        print_json({"tasks": [result.to_dict() for result in results]})
        return
    name, model, pursuit = results[0].task, results[0].folder, _program()
    for what, command in (
        ("What it asked of a few players, and why:", f"{pursuit} explain {model} --data {name}"),
        ("Be asked here, in the terminal:", f"{pursuit} ask {model}"),
        ("A table of your own, every column a question:", f"{pursuit} train yours.csv --target COLUMN"),
        ("Think of an animal, and be asked on a web page:", f"{pursuit} serve {model}"),
    ):
        out.print(f"{what:<48} [bold]{escaped(command)}[/bold]", highlight=False, soft_wrap=True)


def _program() -> str:
    """The command that starts the program: its name, or its path if its environment is not active."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "pursuit" and shutil.which("pursuit") is None else "pursuit"


TASK = "cub"
"""The only task whose answers a network gives."""


def concepts(
    task: Annotated[str, typer.Argument(help="The task; cub is the only one so far.", metavar="TASK")],
    to: Annotated[Path | None, Option("The folder to write; by default the cache folder.", "--out")] = None,
    epochs: Annotated[int, Option("Passes over the photos.", min=1)] = 40,
    folds: Annotated[
        int, Option("How many networks answer the training photos, each those it was not trained on.", min=2)
    ] = 3,
    fold: Annotated[
        int | None, Option("Train this network alone, from 1, and keep it for a later call.", min=1)
    ] = None,
    device: Device = "cuda",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train concept networks on a task's photos and write their answers, which the task is made of.

    Training photos are answered by networks that did not see them, test photos by all of these networks together. Each
    network is kept when it is done: a call that was stopped goes on after it, and --fold trains one network, so that
    several calls can run side by side.
    """
    from pursuit.research.tasks import cub, files

    if task != TASK:
        raise ValueError(f"'{task}' is not answered by a concept network: only {TASK} is.")
    folder = to or files.cache_folder() / Path(cub.ANSWERS.path).parent
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err) as progress:
        bar = progress.add_task("concept networks", total=(folds if fold is None else 1) * epochs, loss=float("nan"))

        def on_report(report: "ConceptReport") -> None:
            done = (report.network - 1 if fold is None else 0) * report.n_epochs + report.epoch
            title = f"concept network {report.network} of {report.n_networks}"
            progress.update(bar, completed=done, description=title, loss=report.loss)

        made = cub.make_answers(
            folder, fold=fold, device=device, epochs=epochs, folds=folds, seed=seed, on_report=on_report
        )
    if as_json:
        print_json(made)
        return
    if fold is not None:
        show(f"Fold {fold} of {folds} is kept in {folder}.")
        show(f"Once all are, the same call without --fold writes the answers of {task}.")
        return
    for part in ("train", "test"):
        scores = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in made[part].items())
        show(f"Photos of the {part} part: {scores}")
    show(f"Written into {folder}. Next: pursuit reproduce {task}")
