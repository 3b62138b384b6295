"""`pursuit compare`: V-IP and its rivals on the same rows with the same budget, in one table and one figure."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pursuit.baselines import METHODS
from pursuit.cli.app import AsJson, Missing, Seed, Source, Stop, Target, stoppable, tell_about, tell_of_recipe
from pursuit.compare import DEFAULT_METHODS, Trial, worked
from pursuit.compare import compare as run_trial
from pursuit.progress import training_bar
from pursuit.screen import err, escaped, out, print_json, print_methods
from pursuit.tasks.recipes import find_recipe


def compare(
    source: Source,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between them, or all; by default a few quick ones.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds to train and measure.", min=1)] = 1,
    first_seed: Seed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    to: Annotated[Path | None, typer.Option("--out", help="Folder to write; by default results/compare-NAME.")] = None,
    recipe: Annotated[str | None, typer.Option(help="One of a task's recipes: fast, paper, or gpu.")] = None,
    effort: Annotated[float, typer.Option(help="Train so many times as long as planned.", min=1e-6)] = 1.0,
    stop: Stop = None,
    max_queries: Annotated[int | None, typer.Option(help="The most queries ever asked of a row.", min=1)] = None,
    rows: Annotated[int | None, typer.Option(help="Measure on so many test rows at most, the first.", min=1)] = None,
    validation: Annotated[
        bool, typer.Option("--validation", help="Measure on held-out training rows, to choose settings by.")
    ] = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Train nothing: write the table of what is measured already.")
    ] = False,
    target: Target = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column of a file to leave out; repeatable.")] = None,
    missing: Missing = None,
    test_share: Annotated[float, typer.Option(help="Share of a file's rows kept to measure on.")] = 0.2,
    as_json: AsJson = False,
) -> None:
    """Train several methods on a task or a file, measure them on the same rows, and write a results folder.

    The folder gets results.json, table.md, curve.png, and the models. A method that fails is noted, and the others go
    on. The same command again goes on where it stopped.
    """
    trial = Trial(
        source,
        methods=_named(methods),
        seeds=range(first_seed, first_seed + seeds),
        device=device,
        recipe=recipe,
        effort=effort,
        stop=stop,
        max_queries=max_queries,
        max_rows=rows,
        to_choose_by=validation,
        table_options={"target": target, "drop": drop or (), "missing": missing or (), "test_share": test_share},
    )
    folder = to or Path("results") / "-".join(["compare", trial.name, *trial.options]).replace(" ", "-")
    if trial.is_named:
        tell_of_recipe(find_recipe(trial.name, trial.recipe_name), device)
    else:
        tell_about(trial.load(first_seed))
    say = partial(err.print, soft_wrap=True, highlight=False)
    with stoppable("The same command goes on."):
        results = run_trial(
            trial,
            folder,
            lambda title: training_bar(title, err),
            lambda text: say(escaped(text)),
            only_collect=collect,
        )
    if as_json:
        print_json(results)
    else:
        print_methods(results)
        out.print(f"Written into {folder}", soft_wrap=True, highlight=False)
    if not worked(results):
        say("None of the methods worked.")
        raise typer.Exit(1)


def _named(methods: str | None) -> tuple[str, ...]:
    """The methods a user names, or by default those of the usual ones that there are."""
    if methods is None:
        return tuple(name for name in DEFAULT_METHODS if name in METHODS)
    return tuple(name for name in (part.strip() for part in methods.split(",")) if name)
