"""`pursuit reproduce`: train a task by a recipe and write its results beside the published ones."""

from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from pursuit.cli.app import AsJson, Seed, stoppable, tell_of_recipe
from pursuit.progress import training_bar
from pursuit.reproduce import HEADER, Run, markdown_row, run_name
from pursuit.reproduce import reproduce as run_recipe
from pursuit.screen import err, escaped, out, print_json
from pursuit.tasks import TASKS
from pursuit.tasks.recipes import NetworkKind, Recipe, Sampling, find_recipe

SAMPLINGS, NETWORKS = get_args(Sampling), get_args(NetworkKind)


def reproduce(
    task: Annotated[str, typer.Argument(help="A task of `pursuit tasks`.", metavar="TASK")],
    recipe: Annotated[str, typer.Option(help="One of the task's recipes: fast, paper, or gpu.")] = "fast",
    seeds: Annotated[int, typer.Option(help="How many seeds to train and measure.", min=1)] = 1,
    first_seed: Seed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    to: Annotated[Path | None, typer.Option("--out", help="Folder to write; by default results/TASK-RECIPE.")] = None,
    effort: Annotated[float, typer.Option(help="Train so many times as long as the recipe says.", min=1e-6)] = 1.0,
    sampling: Annotated[
        str | None, typer.Option(help="Ablation: irs (random histories), sbs (biased ones) or irs+sbs.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="Ablation: a set or a masked network.")] = None,
    tau: Annotated[
        str | None, typer.Option(help="Ablation: temperature at the beginning and the end, as in 1.0:0.2.")
    ] = None,
    curve: Annotated[
        int | None, typer.Option(help="How far to measure; by default as far as the recipe asks.", min=1)
    ] = None,
    validation: Annotated[
        bool, typer.Option("--validation", help="Measure on held-out training rows, to choose settings by.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a task of the paper by a recipe, measure on its test rows, and write a results folder.

    The folder gets results.json, row.md with the published figures beside ours, curve.png, chains, and the models. The
    same command again goes on where it stopped.
    """
    if task not in TASKS:
        raise ValueError(f"'{task}' is no task: choose one of {', '.join(TASKS)}.")
    chosen, options = _changed(find_recipe(task, recipe), effort, sampling, network, tau)
    run = Run(
        task, recipe, chosen, tuple(range(first_seed, first_seed + seeds)), device, tuple(options), validation, curve
    )
    folder = to or Path("results") / (run_name(task, recipe, options) + "-validation" * validation)
    say = partial(err.print, soft_wrap=True, highlight=False)
    tell_of_recipe(chosen, device)
    with stoppable("The same command goes on."):
        results = run_recipe(run, folder, lambda title: training_bar(title, err), lambda text: say(escaped(text)))
    if as_json:
        print_json(results)
        return
    print(f"{HEADER}\n{markdown_row(results)}")
    out.print(f"Written into {folder}", soft_wrap=True, highlight=False)


def _changed(
    recipe: Recipe, effort: float, sampling: str | None, network: str | None, tau: str | None
) -> tuple[Recipe, list[str]]:
    """The recipe with the ablations asked for, and what was changed in words."""
    options = []
    if sampling is not None:
        if sampling not in SAMPLINGS:
            raise ValueError(f"--sampling is one of {', '.join(SAMPLINGS)}, not '{sampling}'.")
        recipe = recipe.sampled(sampling)  # type: ignore[arg-type]
        options.append(sampling)
    if network is not None:
        if network not in NETWORKS:
            raise ValueError(f"--network is one of {', '.join(NETWORKS)}, not '{network}'.")
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
        recipe = recipe.shortened(effort)
        options.append(f"effort {effort:g}")
    return recipe, options
