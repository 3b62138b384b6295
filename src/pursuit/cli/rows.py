"""The rows that commands show a model: those it was not trained on, to measure it, or all rows of a file."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from pursuit import Evaluation, PursuitClassifier, PursuitEstimator, PursuitRegressor, load
from pursuit.cli.console import rows_bar, say, stoppable
from pursuit.cli.options import MeasuringOptions, RowsOptions
from pursuit.queries import Choice
from pursuit.report.facts import count
from pursuit.report.measured import Measured, kept
from pursuit.research.tasks import TASKS, load_task
from pursuit.tables.engine import find_engine
from pursuit.tables.filesystem import display_name, find_path
from pursuit.tables.row_jobs import Predict, known_labels, means_folder, measure_all, write_file, write_folder
from pursuit.tables.source import MOST_NAMED, PART_ROWS, MemorySource, RowsPart, TableSource, open_table


def open_rows(estimator: PursuitEstimator, data: str, **wanted: Any) -> TableSource:
    """The test rows of a task, or the rows of files, as a model reads them. `wanted` are fields of `FileSource`, of
    which empty ones are left to how the model was trained."""
    given = {name: value for name, value in wanted.items() if value}
    if data in TASKS:
        if "id_column" in given:
            raise ValueError(f"{data} is a task, and its rows have no columns to name them by: leave --id out.")
        return replace(_rows_of_task(estimator, data), part_rows=given.get("part_rows", PART_ROWS))
    # A query set may ask several things of one column.
    columns = list(getattr(estimator, "feature_names_in_", _queries(estimator)))
    trained = estimator.notes_.get("task", {})
    asked = estimator.model_.query_set.queries
    codes = [query.source for query in asked if isinstance(query, Choice) and _holds_codes(query.values)]
    if (target := given.get("target") or trained.get("target")) and _holds_codes(getattr(estimator, "classes_", ())):
        codes.append(target)
    return open_table(data, columns, trained, codes=codes, **given)


def _holds_codes(values: Iterable[Any]) -> bool:
    """Whether some of the values are texts such as 007, which are not the numbers that they look like."""
    return any(isinstance(value, str) and re.fullmatch(r"0\d+", value) for value in values)


def unseen_rows(estimator: PursuitEstimator, data: str, target: str | None = None, **reading: Any) -> MemorySource:
    """The rows of a task or a file that the model was not trained on; a file may have no labels."""
    rows = open_rows(estimator, data, target=target, **reading).unseen()
    if rows.remark:
        say(rows.remark)
    return rows


def measurable(estimator: PursuitEstimator, rows: MemorySource) -> MemorySource:
    """The rows whose label the model knows."""
    labels = known_labels(estimator, pd.Series(rows.y))
    if not len(labels):
        raise ValueError(f"{rows.name} has no rows to measure on: none has a label that the model knows.")
    if n_left_out := len(rows.X) - len(labels):
        say(f"Left out: {count(n_left_out, 'row')} with a label that the model does not know.")
    return replace(rows.take(labels.index), y=labels.to_numpy())


def remarked(rows: TableSource) -> Iterator[RowsPart]:
    """All rows, with remarks for the user on how they are read."""
    for number, part in enumerate(rows):
        for line in part.remarks:
            say(line)
        if part.absent and number == 0:
            absent = ", ".join([*part.absent.values()][:MOST_NAMED])
            say(f"{rows.name} lacks columns the model may ask for: {absent}. They count as unknown.")
        yield part


def model_and_labelled_rows(
    model: Path, options: MeasuringOptions
) -> tuple[PursuitClassifier | PursuitRegressor, MemorySource]:
    """A model, and the rows to measure it on: those that it was not trained on, with their labels."""
    estimator = _loaded(model, options)
    rows = unseen_rows(estimator, options.data, options.target, **options.file.reading())
    if rows.y is None:
        raise ValueError(f"{options.data} has no labels to measure by: name their column with --target.")
    return estimator, measurable(estimator, rows)


def measured_before(model: Path, estimator: PursuitEstimator, rows: MemorySource, stop: str | None) -> Measured | None:
    """The figures that training measured, if that was on these rows and by this rule."""
    if str(estimator.stopping_rule(stop)) != str(estimator.stopping_rule()):
        return None
    assert isinstance(estimator, PursuitClassifier | PursuitRegressor)
    return kept(model, estimator, estimator.rows(rows.X, rows.y, initially_known=rows.initially_known))


def is_by_shares(options: MeasuringOptions) -> bool:
    """Whether a command goes through all rows share by share."""
    if options.keep is not None and not options.names_engine:
        raise ValueError("--keep is for rows that are counted share by share: add --engine local or --engine ray.")
    return options.names_engine


def measured_on_all_rows(model: Path, options: MeasuringOptions) -> tuple[PursuitClassifier, TableSource, Evaluation]:
    """A model, the rows of files, and an evaluation on all of them that it was not trained on."""
    classifier, keep = _loaded(model, options), options.keep
    if not isinstance(classifier, PursuitClassifier):
        raise ValueError(
            "--engine measures how classes are told apart, but this model predicts a number: leave it out."
        )
    rows = open_rows(classifier, options.data, target=options.target, **options.file.reading())
    engine = find_engine(options.engine, options.address)
    hint = "Run the same command again to continue." if keep else "To go on where it stopped, name a folder by --keep."
    with stoppable(hint), rows_bar("Measuring") as on_rows:
        folder = None if keep is None else find_path(keep)
        measured = measure_all(classifier, rows, options.stop, engine, on_rows, folder, with_bits=True)
    if measured.n_left_out:
        say(f"Left out: {count(measured.n_left_out, 'row')} without a label, or with one that the model does not know.")
    return classifier, rows, measured.evaluation


def write_by_shares(
    work_type: type[Predict],
    estimator: PursuitEstimator,
    rows: TableSource,
    options: RowsOptions,
    to: str,
    title: str,
    what: str = "",
) -> None:
    """Write the predictions or chains of all rows into a file, or into a folder of Parquet files, as `to` says. If it
    is stopped, the same command goes on where it was."""
    is_folder, path = means_folder(to), find_path(to)
    engine = find_engine(options.engine, options.address)
    folder = path if is_folder else path.parent / f"{path.name}.parts"
    work = work_type(estimator, rows, options.stop, folder, in_lists=is_folder)
    next(remarked(rows), None)  # says how the first of them are read
    with stoppable("Run the same command again to continue."), rows_bar(title) as on_rows:
        n_rows = write_folder(work, engine, on_rows) if is_folder else write_file(work, path, engine, on_rows)
    where = f" in {len(rows.shares):,} files" if is_folder else ""
    say(f"Written into {display_name(to)}: {what}{count(n_rows, 'row')}{where}")


def _loaded(model: Path, options: MeasuringOptions) -> Any:
    estimator = load(model)
    estimator.device = options.device
    if options.max_queries is not None:
        estimator.max_queries = options.max_queries
    return estimator


def _rows_of_task(estimator: PursuitEstimator, name: str) -> MemorySource:
    trained = estimator.notes_.get("task", {})
    task = load_task(name, trained.get("seed", 0) if trained.get("name") == name else 0)
    if [query.name for query in task.query_set.queries] != _queries(estimator):
        whose = f" was trained on {trained['name']} and" if "name" in trained else ""
        raise ValueError(f"The model{whose} asks other queries than those of {name}: give it rows of its own kind.")
    return MemorySource(name, task.X_test, task.y_test, task.initially_known_test)


def _queries(estimator: PursuitEstimator) -> list[str]:
    return [query.name for query in estimator.model_.query_set.queries]
