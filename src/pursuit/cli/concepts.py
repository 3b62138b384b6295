"""`pursuit concepts`: train the networks that answer the queries of a task from its photos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pursuit.cli.console import err, print_json, show
from pursuit.cli.options import AsJson
from pursuit.options import Device, Option, Seed

if TYPE_CHECKING:
    from pursuit.research.concepts import ConceptReport

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
