"""`pursuit reproduce`: train a task by a recipe and write its results beside the published ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from pursuit.cli.app import Address, AsJson, Device, GpuShare, Seed, SweepEngine
from pursuit.cli.console import escaped, out, print_json, remark_on_recipe, say, show, stoppable
from pursuit.cli.progress import training_bar

if TYPE_CHECKING:
    from pursuit.tasks.recipe import Recipe


def reproduce(
    task: Annotated[str, typer.Argument(help="A task (see `pursuit tasks`).", metavar="TASK")],
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
    as_json: AsJson = False,
) -> None:
    """Train a task of the paper by a recipe, measure on its test rows, and write a results folder.

    The folder gets results.json, row.md with the published figures beside ours, curve.png, chains, and the models: V-IP
    and a black box that learns from all answers. The same command again continues where it stopped.
    """
    from pursuit.experiments import reproduce as experiment
    from pursuit.scale.sweeps import find_sweep
    from pursuit.tasks import find_recipe

    chosen, options = _changed(find_recipe(task, recipe), effort, sampling, network, tau)
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


def _changed(
    recipe: "Recipe", effort: float, sampling: str | None, network: str | None, tau: str | None
) -> tuple["Recipe", list[str]]:
    """The recipe with the ablations asked for, and what was changed in words."""
    from pursuit.tasks.recipe import NetworkKind, Sampling

    samplings, networks = get_args(Sampling), get_args(NetworkKind)
    options = []
    if sampling is not None:
        if sampling not in samplings:
            raise ValueError(f"--sampling is one of {', '.join(samplings)}, not '{sampling}'.")
        recipe = recipe.sampled(sampling)  # type: ignore[arg-type]
        options.append(sampling)
    if network is not None:
        if network not in networks:
            raise ValueError(f"--network is one of {', '.join(networks)}, not '{network}'.")
        recipe = recipe.with_network(network)  # type: ignore[arg-type]
        options.append(f"{network} network")
    if tau is not None:
        try:
            start, end = (float(part) for part in tau.split(":"))
        except ValueError:
            raise ValueError(f"--tau is written START:END, as in 1.0:0.2, not '{tau}'.") from None
        recipe = recipe.tempered(start, end)
        options.append(f"tau {start:g} to {end:g}")
    if effort != 1:
        recipe = recipe.scaled(effort)
        options.append(f"effort {effort:g}")
    return recipe, options
