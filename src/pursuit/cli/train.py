"""`pursuit train`: learn from a task or a file, measure on held-out rows, and save the model."""

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pursuit.cli.app import (
    Address,
    AsJson,
    Cost,
    CostAware,
    Device,
    MaxQueries,
    Network,
    Querier,
    Seed,
    Source,
    Stop,
    Target,
    TrainingEngine,
)
from pursuit.cli.console import (
    print_chosen,
    print_json,
    print_trained,
    remark_on_recipe,
    remark_on_task,
    say,
    stoppable,
)
from pursuit.cli.progress import training_bar
from pursuit.cli.table_options import TableOptions, spread
from pursuit.files import claimed, holds_anything
from pursuit.processes import is_first
from pursuit.registry import find

if TYPE_CHECKING:
    from pursuit.estimators import Method
    from pursuit.tasks import Task

VIP, VIP_REGRESSOR = "vip", "vip-regressor"
PARAMETER_OF_OPTION = {
    "--network": "network",
    "--epochs": "stages",
    "--held-out": "held_out",
    "--calibration": "calibration",
    "--withheld": "unreliable",
    "--wrong": "unreliable",
    "--devices": "devices",
    "--log": "stages",  # only methods with stages are trained by the loop that logs and resumes
    "--resume": "stages",
    "--querier": "querier",
    "--cost-aware": "cost_aware",
    "--engine": "devices",
}
"""Which parameter an estimator must have for the option to apply."""


@spread
def train(
    source: Source,
    *,
    method: Annotated[str, typer.Option(help="How to learn what to ask (see `pursuit methods`).")] = VIP,
    to: Annotated[Path | None, typer.Option("--out", help="The folder to write; by default runs/NAME.")] = None,
    target: Target = None,
    regress: Annotated[
        bool, typer.Option("--regress", help="Predict a number, by its distribution, and not one of several classes.")
    ] = False,
    table: TableOptions,
    cost: Cost = None,
    cost_aware: CostAware = None,
    querier: Querier = None,
    network: Network = None,
    stop: Stop = None,
    max_queries: MaxQueries = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the rows; by default as many as suit their number.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="The share of the training rows to use for early stopping; by default what suits them."),
    ] = None,
    calibration: Annotated[
        float | None,
        typer.Option(
            help="The share of the training rows to hold out for fitting beliefs alone, where none are held out for "
            "early stopping."
        ),
    ] = None,
    withheld: Annotated[
        float | None, typer.Option(help="How often answers are withheld in training, as by people who do not know.")
    ] = None,
    wrong: Annotated[
        float | None, typer.Option(help="How often answers are wrong in training, as those of people who err.")
    ] = None,
    tuned: Annotated[
        Path | None,
        typer.Option(help="The folder of a `pursuit tune`, whose best settings are used.", metavar="FOLDER"),
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    devices: Annotated[int, typer.Option(help="How many devices train together.", min=1)] = 1,
    engine: TrainingEngine = None,
    address: Address = None,
    log: Annotated[str, typer.Option(help="The format of the training log: csv or tensorboard.")] = "csv",
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run of the same command.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model that is in the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train on a task, a CSV file or Parquet files, measure on held-out rows, and save the model."""
    from pursuit.cli.measurements import print_evaluation
    from pursuit.inference.pursuer import score_unit
    from pursuit.public import TrainingRun, Unreliable
    from pursuit.report.kept import Measured
    from pursuit.scale.engine import find_cluster
    from pursuit.scale.trainings import train_on
    from pursuit.tasks import TASKS, load_task
    from pursuit.tasks.tables import parse_costs
    from pursuit.training.logs import check_log

    chosen = find_method(method, regress)
    method = chosen.name
    given = {
        "--network": network is not None,
        "--epochs": epochs is not None,
        "--held-out": held_out is not None,
        "--calibration": calibration is not None,
        "--withheld": withheld is not None,
        "--wrong": wrong is not None,
        "--devices": devices != 1,
        "--log": log != "csv",
        "--resume": resume,
        "--querier": querier is not None,
        "--cost-aware": cost_aware is not None,
        "--engine": engine is not None or address is not None,
    }
    _check_options(chosen, [option for option, is_given in given.items() if is_given])
    cluster = find_cluster(engine, address)
    options = {**table.reading(), "costs": parse_costs(cost or ()), "regress": chosen.predicts_numbers}
    task = load_task(source, seed, target, **options)
    task = task.with_costs({}, cost_aware)
    is_usual = method in (VIP, VIP_REGRESSOR)
    folder = to or Path("runs") / (task.name if is_usual else f"{task.name}-{method}")
    settings = _settings(task, stop, max_queries, epochs, network, querier)
    settings |= {"random_state": seed, "device": device, "devices": devices, "held_out": held_out}
    settings |= {} if calibration is None else {"calibration": calibration}
    if withheld is not None or wrong is not None:
        settings["unreliable"] = Unreliable(withheld or 0.0, wrong or 0.0)
    if tuned is not None:
        settings |= _tuned(tuned, method)
    model = chosen.build(task.query_set, **settings)
    check_log(log)
    remark_on_task(task)
    if source in TASKS and epochs is None and cluster is None:
        remark_on_recipe(TASKS[source].recipes.get("fast"), device)
    is_resumable = chosen.accepts(PARAMETER_OF_OPTION["--resume"])
    advice = (
        "Run the same command with --resume to continue." if is_resumable else "Run the same command to start again."
    )
    with contextlib.ExitStack() as alone:
        if is_first():  # nobody else writes to the folder until the model is in it
            _check_free(folder, resume, overwrite)
            alone.enter_context(claimed(folder))
        with stoppable(advice), training_bar(task.name) as on_report:
            run = TrainingRun(folder, resume=resume, log=log, on_report=on_report)  # type: ignore[arg-type]
            if cluster is None:
                task.fit(model, run)
            else:
                model = train_on(cluster, model, task, run)
        if not is_first():
            return
        model.save(folder, {"task": {"name": task.name, **task.notes}})
    if getattr(model, "cost_aware", False) is None and score_unit(model.model_) == "bits per cost":
        say("Costs differ, so it asks for the most bits per unit of cost; --no-cost-aware: for the most bits.")
    evaluation = None
    if cluster is not None and device == "cuda":
        model.device = "auto"  # this machine need not have a GPU
    if len(task.y_test):
        known = task.initially_known_test
        measured = Measured.of(model, task.X_test, task.y_test, initially_known=known, name=task.name)
        measured.keep(folder, model)
        evaluation = measured.evaluation
    if as_json:
        chosen_by_data = [asdict(reason) for reason in model.chosen_]
        figures = evaluation.to_dict() if evaluation else {}
        print_json({"model": str(folder), "task": task.name, **figures, "chosen": chosen_by_data})
        return
    if evaluation:
        print_evaluation(task.name, evaluation)
    print_chosen(model.chosen_)
    print_trained(str(folder), source)


def find_method(name: str, regress: bool) -> "Method":
    """The method that a command line means."""
    from pursuit.public import Method  # which makes all methods known

    if regress and name == VIP:
        name = VIP_REGRESSOR
    found: Method = find(Method.registry_kind, name)
    if regress and not found.predicts_numbers:
        raise ValueError(f"The method {name} predicts classes: leave out --regress, or take --method {VIP_REGRESSOR}.")
    return found


def _check_options(method: "Method", options: list[str]) -> None:
    """Raise ValueError for the first of the options that the method's estimator has no parameter for."""
    for option in options:
        if not method.accepts(PARAMETER_OF_OPTION[option]):
            raise ValueError(f"{option} does not apply to the method {method.name} ({method.title}): leave it out.")


def _settings(
    task: "Task",
    stop: str | None,
    max_queries: int | None,
    epochs: float | None,
    network: str | None,
    querier: str | None,
) -> dict[str, Any]:
    """The task's settings with the changes asked for."""
    from pursuit.estimators import default_stages
    from pursuit.networks import NetworkSettings

    changes: Mapping[str, Any] = {
        "stop": stop,
        "max_queries": max_queries,
        "network": network and find(NetworkSettings.registry_kind, network)(),
        "querier": querier,
    }
    settings = {**task.settings, **{name: value for name, value in changes.items() if value is not None}}
    if epochs is not None:
        n_rows, n_queries = len(task.X_train), len(task.query_set)
        plan = settings.get("stages") or default_stages(n_rows, n_queries, settings.get("max_queries"))
        effort = epochs / sum(stage.epochs for stage in plan)
        settings["stages"] = [stage.scaled(effort) for stage in plan]
    return settings


def _tuned(folder: Path, method: str) -> dict[str, Any]:
    """The best settings that were found for the method."""
    from pursuit.experiments.tune import read_best

    of_method, settings = read_best(folder)
    if of_method != method:
        raise ValueError(f"{folder} holds settings of the method {of_method}, not of {method}: tune that one too.")
    return settings


def _check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise ValueError if training into `folder` would destroy or mix up what is there."""
    from pursuit.estimators.network import RUN
    from pursuit.estimators.saving import DESCRIPTION

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, but a folder is needed: choose another --out.")
    has_run = (folder / RUN).exists()
    if overwrite or (resume and has_run) or not holds_anything(folder):
        return
    if (folder / DESCRIPTION).exists():
        raise ValueError(f"{folder} holds a model already: choose another --out, or add --overwrite to replace it.")
    if has_run:
        raise ValueError(f"{folder} holds an unfinished run: add --resume to go on, or --overwrite to start again.")
    raise ValueError(f"{folder} holds other files: choose another --out, or add --overwrite to write beside them.")
