"""`pursuit compare`: V-IP and its rivals on the same rows with the same budget, in one table and one figure."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.console import (
    print_json,
    remark_on_recipe,
    remark_on_task,
    say,
    show,
    stoppable,
    training_bar,
)
from pursuit.cli.options import AsJson, EngineOptions, Seeds, Source, TableOptions
from pursuit.options import Option, Seed
from pursuit.research.experiments.options import TrialOptions

DEFAULTS = TrialOptions(device="auto")


def compare(
    source: Source,
    *,
    methods: Annotated[
        str | None,
        Option("Comma-separated names (see `pursuit methods`), or all; by default the quick ones."),
    ] = None,
    seeds: Seeds = 1,
    first_seed: Seed = 0,
    options: TrialOptions = DEFAULTS,
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
