"""`pursuit train`: learn from a task or a file, measure on held-out rows, and save the model."""

import contextlib
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pursuit.cli.console import (
    print_chosen,
    print_json,
    print_trained,
    remark_on_recipe,
    remark_on_task,
    say,
    say_if_wide,
    stoppable,
    training_bar,
)
from pursuit.cli.options import Address, AsJson, Regress, Source, TableOptions, chosen_parameters
from pursuit.files import check_model, claimed, holds_anything, is_first
from pursuit.registry import Device, MaxQueries, Network, Option, Querier, Seed, Stop, find

if TYPE_CHECKING:
    from pursuit.estimators import Method
    from pursuit.research.tasks import Task

VIP, VIP_REGRESSOR = "vip", "vip-regressor"
LOOP = "stages"
"""A parameter of all estimators that the training loop trains, which logs and resumes."""


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Training options: parameters of the estimator and of the run."""

    querier: Querier = None
    lookahead: Annotated[
        int | None,
        Option(
            "How many answers ahead V-IP looks by the paper's gradient; by default 5, if that pays on held-out rows.",
            min=1,
            parameter="lookahead",
        ),
    ] = None
    network: Network = None
    stop: Stop = None
    max_queries: MaxQueries = None
    epochs: Annotated[
        float | None, Option("Passes over the rows; by default as many as suit their number.", parameter=LOOP)
    ] = None
    held_out: Annotated[
        float | None,
        Option(
            "The share of the training rows to use for early stopping; by default what suits them.",
            parameter="held_out",
        ),
    ] = None
    calibration: Annotated[
        float | None,
        Option(
            "The share of the training rows reserved for calibration, where none are held out for early stopping.",
            parameter="calibration",
        ),
    ] = None
    withheld: Annotated[
        float | None,
        Option("How often answers are withheld in training, as by people who do not know.", parameter="unreliable"),
    ] = None
    wrong: Annotated[
        float | None,
        Option("How often answers are wrong in training, as those of people who err.", parameter="unreliable"),
    ] = None
    tuned: Annotated[
        Path | None, Option("The folder of a `pursuit tune`, whose best settings are used.", metavar="FOLDER")
    ] = None
    seed: Seed = 0
    device: Device = "cpu"
    devices: Annotated[int, Option("How many devices train together.", min=1, parameter="devices")] = 1
    engine: Annotated[
        str | None,
        Option(
            "Train on a cluster: ray, with as many processes as --devices. By default on this machine.",
            metavar="ENGINE",
            parameter="devices",
        ),
    ] = None
    address: Address = None
    log: Annotated[str, Option("The format of the training log: csv or tensorboard.", parameter=LOOP)] = "csv"
    resume: Annotated[bool, Option("Continue an interrupted run of the same command.", parameter=LOOP)] = False

    def settings(self, task: "Task", method: "Method") -> dict[str, Any]:
        """The parameters of the estimator: those of the task, with the changes that are given."""
        from pursuit import Unreliable
        from pursuit.networks import NetworkSettings

        changes: dict[str, Any] = {
            "stop": self.stop,
            "max_queries": self.max_queries,
            "network": self.network and find(NetworkSettings.registry_kind, self.network)(),
            "querier": self.querier,
            "lookahead": self.lookahead,
            "calibration": self.calibration,
        }
        if self.withheld is not None or self.wrong is not None:
            changes["unreliable"] = Unreliable(self.withheld or 0.0, self.wrong or 0.0)
        settings = {**task.settings, **{name: value for name, value in changes.items() if value is not None}}
        if self.epochs is not None:
            plan = task.stages(settings)
            effort = self.epochs / sum(stage.epochs for stage in plan)
            settings["stages"] = [stage.scaled(effort) for stage in plan]
        run = {
            "random_state": self.seed,
            "device": self.device,
            "devices": self.devices,
            "held_out": self.held_out,
        }
        return {**settings, **run, **(_tuned(self.tuned, method.name) if self.tuned else {})}


def train(
    source: Source,
    *,
    method: Annotated[str, Option("How to learn what to ask (see `pursuit methods`).")] = VIP,
    to: Annotated[Path | None, Option("The folder to write; by default runs/NAME.", "--out")] = None,
    regress: Regress = False,
    table: TableOptions,
    options: TrainingOptions,
    overwrite: Annotated[bool, Option("Replace the model that is in the folder.")] = False,
    confirmed: Annotated[
        str | None,
        Option(
            "Learn from sessions with the model in the folder whose truth is known, too, and replace it only if the "
            "new one is no worse on the held-out rows: sqlite:///FILE, postgresql://USER@HOST/NAME or a file.",
            "--and",
            metavar="SESSIONS",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train on a task, a CSV file or Parquet files, measure on held-out rows, and save the model."""
    from pursuit import TrainingRun
    from pursuit.cli.measurements import print_evaluation
    from pursuit.inference.pursuer import score_unit
    from pursuit.report.measured import Measured
    from pursuit.research.experiments.cluster import train_on
    from pursuit.research.tasks import TASKS, load_task
    from pursuit.tables.engine import Ray, find_engine
    from pursuit.training.run import check_log

    chosen = find_method(method, regress)
    for option, parameter in {**chosen_parameters(options), **chosen_parameters(table)}.items():
        if not chosen.accepts(parameter):
            raise ValueError(f"{option} does not apply to the method {chosen.name} ({chosen.title}): leave it out.")
    engine = find_engine(options.engine, options.address)
    if Path(source).is_dir():
        say(f"Looking for files in {source} and all folders below it …")
    say_if_wide(source)
    task = load_task(
        source, options.seed, costs=table.costs(), regress=chosen.predicts_numbers, **table.reading()
    ).with_costs({}, table.cost_aware)
    folder = to or Path("runs") / folder_name(task.name, chosen)
    before, place = None, folder
    if confirmed is not None:
        before, task = _with_sessions(folder, task, confirmed)
        folder = place.resolve().with_name(f"{place.resolve().name}.new")
    model = chosen.build(task.query_set, **options.settings(task, chosen))
    check_log(options.log)
    remark_on_task(task)
    if source in TASKS and options.epochs is None and engine.is_here:
        remark_on_recipe(TASKS[source].recipes.get("fast"), options.device)
    go_on = "with --resume to continue" if chosen.accepts(LOOP) else "to start again"
    with contextlib.ExitStack() as alone:
        if is_first():  # nobody else writes to the folder until the model is in it
            check_free(folder, options.resume, overwrite)
            alone.enter_context(claimed(folder))
        with stoppable(f"Run the same command {go_on}."), training_bar(task.name) as on_report:
            run = TrainingRun(folder, options.resume, options.log, on_report)  # type: ignore[arg-type]
            if isinstance(engine, Ray):
                model = train_on(engine, model, task, run)
            else:
                task.fit(model, run)
        if not is_first():
            return
        model.save(folder, {"task": {"name": task.name, **task.notes}})
    if getattr(model, "cost_aware", False) is None and score_unit(model.model_) == "bits per cost":
        say("Costs differ, so it asks for the most bits per unit of cost; --no-cost-aware: for the most bits.")
    evaluation = None
    if not engine.is_here and options.device == "cuda":
        model.device = "auto"  # this machine need not have a GPU
    if len(task.y_test):
        known = task.initially_known_test
        measured = Measured.of(model, task.X_test, task.y_test, initially_known=known, name=task.name)
        measured.keep(folder, model)
        evaluation = measured.evaluation
        if before is not None and not _replaces(place, folder, before, model, measured, task):
            return
        folder = place
    if as_json:
        chosen_by_data = [asdict(reason) for reason in model.chosen_]
        figures = evaluation.to_dict() if evaluation else {}
        print_json({"model": str(folder), "task": task.name, **figures, "chosen": chosen_by_data})
        return
    if evaluation:
        print_evaluation(task.name, evaluation)
    print_chosen(model.chosen_)
    print_trained(str(folder), source, table.query)


def _with_sessions(folder: Path, task: "Task", sessions: str) -> tuple[Any, "Task"]:
    """The model in a folder, and a task whose training rows have its confirmed sessions among them."""
    import numpy as np
    import pandas as pd

    from pursuit import load
    from pursuit.cli.served_models import kept_sessions
    from pursuit.report.watch import Confirmed

    check_model(folder)
    is_table = isinstance(task.X_train, pd.DataFrame) and task.groups_train is None
    if not is_table or task.initially_known_train is not None or not len(task.y_test):
        raise ValueError(
            "Sessions are learnt from beside rows of a table that fit into memory, without groups, of which some are "
            "held out: leave out --and."
        )
    before = load(folder)
    confirmed = Confirmed.of(before, kept_sessions(folder, sessions))
    if not confirmed.pairs:
        raise ValueError("The truth is known of no session: note it on the page of a session, or leave out --and.")
    X, y = confirmed.table(before)
    labels = np.asarray(task.y_train)
    _check_alike(before, task, y)
    say(f"{len(y):,} confirmed sessions are learnt from beside {len(task.X_train):,} rows.")
    if confirmed.remark:
        say(confirmed.remark)
    rows = pd.concat([task.X_train, X[task.X_train.columns].infer_objects()], ignore_index=True)
    together = np.concatenate([labels, y.astype(labels.dtype)])
    return before, replace(task, X_train=rows, y_train=together, division_train=None)


def _check_alike(before: Any, task: "Task", y: Any) -> None:
    """Raise ValueError unless rows, and labels of sessions, are those of the model: it could not be judged by rows of
    other columns or labels, and answers of other columns would be learnt as missing."""
    import numpy as np

    from pursuit.inference.target_bins import target_of

    own, columns = {*before.feature_names_in_}, {*task.X_train.columns}
    if other := sorted(own ^ columns):
        raise ValueError(
            f"The model and the table have other columns ({', '.join(map(str, other[:3]))}), so that what was answered "
            "does not fit the table: give the one that the model was trained on, or leave out --and."
        )
    is_number = target_of(before.model_) is not None
    if is_number and np.asarray(task.y_train).dtype.kind != "f":
        raise ValueError("The model predicts a number, and the table is to be learnt for classes: leave out --and.")
    pairs = [] if is_number else [(y, task.y_train), (task.y_test, before.classes_)]
    unknown = [label for these, others in pairs for label in np.setdiff1d([*map(str, these)], [*map(str, others)])]
    if unknown:
        raise ValueError(
            f"“{unknown[0]}” is a label of the model or of the table, but not of both: give the table that the model "
            "was trained on, or leave out --and."
        )


def _replaces(place: Path, folder: Path, before: Any, model: Any, measured: Any, task: "Task") -> bool:
    """Put a new model in place of the one before it, if it is no worse on the held-out rows; whether it did."""
    old, new = (_quality(one) for one in (before.evaluate(task.X_test, task.y_test), measured.evaluation))
    is_worse = not all(new[name] >= old[name] for name in old)  # nor is what is not a number any better
    each = ", ".join(f"{name} {abs(old[name]):.4f} before, {abs(new[name]):.4f} after" for name in old)
    told = f"{each}, on {measured.evaluation.n_rows:,} held-out rows"
    if is_worse:
        say(f"The model stays as it was, because the new one is worse: {told}.")
    else:
        model.save(place, {"task": {"name": task.name, **task.notes}})
        measured.keep(place, model)
        say(f"The new model takes its place: {told}.")
    shutil.rmtree(folder)
    return not is_worse


def _quality(evaluation: Any) -> dict[str, float]:
    """What must not become less: the accuracy at the stop and the Brier score below zero, or the share of variance
    explained of a number."""
    at_stop = evaluation.at_stop
    if not hasattr(evaluation, "accuracy_all_answers"):
        return {"R²": float((at_stop or evaluation.all_answers).r2)}
    if at_stop is None:
        return {"accuracy": evaluation.accuracy_all_answers}
    return {"accuracy": at_stop.accuracy, "Brier score": -at_stop.brier}


def folder_name(task: str, method: "Method") -> str:
    """The name of a run's folder: the task's, with the method where that is not V-IP."""
    return task if method.name in (VIP, VIP_REGRESSOR) else f"{task}-{method.name}"


def find_method(name: str, regress: bool) -> "Method":
    """The method that a command line means."""
    from pursuit import Method  # which makes all methods known

    if regress and name == VIP:
        name = VIP_REGRESSOR
    found: Method = find(Method.registry_kind, name)
    if regress and not found.predicts_numbers:
        raise ValueError(f"The method {name} predicts classes: leave out --regress, or take --method {VIP_REGRESSOR}.")
    return found


def _tuned(folder: Path, method: str) -> dict[str, Any]:
    """The best settings that were found for the method."""
    from pursuit.research.experiments.tune import read_best

    of_method, settings = read_best(folder)
    if of_method != method:
        raise ValueError(f"{folder} holds settings of the method {of_method}, not of {method}: tune that one too.")
    return settings


def check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise ValueError if training into `folder` would overwrite or mix up its files."""
    from pursuit.estimators.saving import DESCRIPTION, RUN

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
