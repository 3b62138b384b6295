"""`pursuit compare`: V-IP and its rivals on the same rows with the same budget, in one table and one figure."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import (
    Address,
    AsJson,
    Cost,
    CostAware,
    Device,
    GpuShare,
    MaxQueries,
    Network,
    Seed,
    Source,
    Stop,
    SweepEngine,
    Target,
)
from pursuit.cli.console import escaped, out, print_json, remark_on_recipe, remark_on_task, say, stoppable
from pursuit.cli.progress import training_bar
from pursuit.cli.table_options import TableOptions, spread


@spread
def compare(
    source: Source,
    *,
    methods: Annotated[
        str | None,
        typer.Option(help="Comma-separated names (see `pursuit methods`), or all; by default the quick ones."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds to train and measure.", min=1)] = 1,
    first_seed: Seed = 0,
    device: Device = "auto",
    to: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; by default results/compare-NAME.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe of the task (see `pursuit tasks`); by default fast.")
    ] = None,
    effort: Annotated[float, typer.Option(help="How long to train, as a multiple of what is planned.", min=1e-6)] = 1.0,
    network: Network = None,
    stop: Stop = None,
    max_queries: MaxQueries = None,
    rows: Annotated[
        int | None, typer.Option(help="Measure on at most this many test rows, the first ones.", min=1)
    ] = None,
    validation: Annotated[
        bool, typer.Option("--validation", help="Measure on held-out training rows, to choose settings by.")
    ] = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Train nothing: write the table of what has been measured so far.")
    ] = False,
    target: Target = None,
    table: TableOptions,
    cost: Cost = None,
    cost_aware: CostAware = None,
    engine: SweepEngine = None,
    address: Address = None,
    gpu_share: GpuShare = 0.0,
    as_json: AsJson = False,
) -> None:
    """Train several methods on a task or a file, measure them on the same rows, and write a results folder.

    The folder gets results.json, table.md, curve.png, and the models. If a method fails, its error is noted and the
    others go on. The same command again continues where it stopped.
    """
    from pursuit.cli.measurements import print_comparison
    from pursuit.experiments import compare as experiment
    from pursuit.experiments.trial import Trial
    from pursuit.scale.sweeps import find_sweep
    from pursuit.tasks.tables import parse_costs

    trial = Trial(
        source,
        methods=_method_names(methods),
        seeds=range(first_seed, first_seed + seeds),
        device=device,
        recipe=recipe,
        effort=effort,
        network=network,
        stop=stop,
        max_queries=max_queries,
        max_rows=rows,
        validation=validation,
        costs=parse_costs(cost or ()),
        cost_aware=bool(cost_aware),
        table_options={"target": target, **table.reading()},
    )
    folder = to or Path("results") / "-".join(["compare", trial.name, *trial.options]).replace(" ", "-")
    if trial.is_named:
        remark_on_recipe(trial.find_recipe(), device)
    else:
        remark_on_task(trial.load(first_seed))
    sweep = find_sweep(engine, address, gpu_share)
    with stoppable("Run the same command again to continue."):
        results = experiment.compare(trial, folder, training_bar, say, only_collect=collect, sweep=sweep)
    if as_json:
        print_json(results.to_dict())
    else:
        print_comparison(results)
        out.print(escaped(f"Written into {folder}"), soft_wrap=True, highlight=False)
    if not results.worked:
        say("All methods failed.")
        raise typer.Exit(1)


def _method_names(text: str | None) -> tuple[str, ...]:
    """The methods that a user names, or the usual ones."""
    from pursuit.experiments.trial import DEFAULT_METHODS

    if text is None:
        return DEFAULT_METHODS
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)
