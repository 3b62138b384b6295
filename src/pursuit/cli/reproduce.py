"""`pursuit reproduce`: train a task by a recipe and write its results beside the published ones."""

from pathlib import Path
from typing import Annotated

import typer

from pursuit.cli.app import Address, AsJson, Device, GpuShare, Querier, Seed, SweepEngine
from pursuit.cli.console import escaped, out, print_json, remark_on_recipe, say, show, stoppable
from pursuit.cli.progress import training_bar

PAPER = "paper"
"""Stands where a task does."""


def reproduce(
    task: Annotated[
        str, typer.Argument(help="A task (see `pursuit tasks`), or `paper`: all runs of the paper.", metavar="TASK")
    ],
    recipe: Annotated[str, typer.Option(help="A recipe of the task (see `pursuit tasks`).")] = "fast",
    seeds: Annotated[int, typer.Option(help="How many seeds to train and measure.", min=1)] = 1,
    first_seed: Seed = 0,
    device: Device = "auto",
    to: Annotated[
        Path | None, typer.Option("--out", help="The folder to write; by default results/TASK-RECIPE.")
    ] = None,
    effort: Annotated[
        float, typer.Option(help="How long to train, as a multiple of what the recipe says.", min=1e-6)
    ] = 1.0,
    querier: Querier = None,
    sampling: Annotated[
        str | None,
        typer.Option(
            help="Ablation: irs (random histories), sbs (the querier's own) or irs+sbs (one after the other)."
        ),
    ] = None,
    network: Annotated[str | None, typer.Option(help="Ablation: the paper's set network, or a masked one.")] = None,
    tau: Annotated[
        str | None, typer.Option(help="Ablation: temperature at the beginning and the end, as in 1.0:0.2.")
    ] = None,
    curve: Annotated[
        int | None,
        typer.Option(help="How many queries to measure; by default all, on a CPU as many as asked.", min=1),
    ] = None,
    validation: Annotated[
        bool, typer.Option("--validation", help="Measure on held-out training rows, to choose settings by.")
    ] = False,
    black_box: Annotated[
        bool,
        typer.Option("--black-box/--no-black-box", help="Train a black box and logistic regression for every seed."),
    ] = True,
    engine: SweepEngine = None,
    address: Address = None,
    gpu_share: GpuShare = 0.0,
    minutes: Annotated[
        float | None, typer.Option("--next", help="With `paper`: work through its runs for so many minutes.", min=0)
    ] = None,
    jobs: Annotated[int, typer.Option(help="With `paper --next`: how many runs at a time.", min=1)] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="With `paper`: runs by name, as in 'symcat-*-seed-0'; repeatable.")
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
        if (recipe, seeds, first_seed) != ("fast", 1, 0) or querier or sampling or network or tau or validation:
            raise ValueError(f"The runs of `{PAPER}` say themselves what they train: choose among them with --only.")
        from pursuit.cli.paper import paper

        paper(minutes, jobs, only or [], effort, device, to, as_json)
        return
    if minutes is not None or only:
        raise ValueError(f"--next and --only are for `pursuit reproduce {PAPER}`.")
    from pursuit.experiments import reproduce as experiment
    from pursuit.scale.sweeps import find_sweep
    from pursuit.tasks import find_recipe

    chosen, options = experiment.changed(
        find_recipe(task, recipe), querier=querier, sampling=sampling, network=network, tau=tau, effort=effort
    )
    reproduction = experiment.Reproduction(
        task,
        recipe,
        chosen,
        seeds=tuple(range(first_seed, first_seed + seeds)),
        device=device,
        options=tuple(options),
        validation=validation,
        curve_queries=curve,
        black_box=black_box,
    )
    folder = to or Path("results") / reproduction.name
    remark_on_recipe(chosen, device)
    sweep = find_sweep(engine, address, gpu_share)
    with stoppable("Run the same command again to continue."):
        results = experiment.reproduce(reproduction, folder, training_bar, say, sweep)
    if as_json:
        print_json(results.to_dict())
        return
    show(f"{experiment.HEADER}\n{experiment.markdown_row(results)}")
    out.print(escaped(f"Written into {folder}"), soft_wrap=True, highlight=False)
