"""Parquet and Arrow files as tasks: streamed in training, with rows held out for testing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pursuit.data.parquet import ParquetRows
from pursuit.data.parquet.arrow_files import ENDINGS, ArrowTable
from pursuit.data.parquet.choosing import first_rows, held_out_rows
from pursuit.data.parquet.survey import labels_as_array
from pursuit.data.storage import bare, place
from pursuit.queries import Choice, NotAQuestion
from pursuit.queries.column import listed
from pursuit.queries.guessing import on_ticked
from pursuit.tasks.asking import in_options
from pursuit.tasks.holding_out import USUAL_SHARE
from pursuit.tasks.labels import remarks_on_counts
from pursuit.tasks.tables import ENDINGS as CSV_ENDINGS
from pursuit.tasks.tables import name_of as name_of_csv
from pursuit.tasks.task import Task

MAX_MEASURED = 20_000
"""Test rows in memory; more would not make a measurement much better."""


def is_big_table(source: str | Path) -> bool:
    """Whether it is a folder, or has the name of a Parquet or Arrow file or of a pattern of them."""
    path: Any = place(source)
    if path.is_dir() and not any(found.suffix.lower() in ENDINGS for found in path.rglob("*")):
        tables = sorted(found.name for found in path.iterdir() if found.name.lower().endswith(CSV_ENDINGS))
        if tables:
            raise ValueError(f"{path} is a folder. Give the path of one of the CSV files in it: {listed(tables)}.")
    return path.is_dir() or path.suffix.lower() in ENDINGS


def name_of(source: str | Path) -> str:
    """The name of the table: that of its file or folder, without the stars of a pattern."""
    path = Path(bare(source))
    if path.name.lower().endswith(CSV_ENDINGS):
        return name_of_csv(path)
    return next((part for part in (path.stem, *(p.name for p in path.parents)) if part and "*" not in part), "table")


def load(
    source: str | Path,
    target: str | None,
    *,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    test_share: float | None = None,
    seed: int = 0,
    regress: bool = False,
    **for_csv: Any,
) -> Task:
    """Read files whose column `target` is the label, as `tables.load` reads a CSV file; rows are streamed in training,
    and at most 20,000 of the held-out rows are test rows. Options `for_csv` are refused."""
    refuse(for_csv)
    if regress:
        raise ValueError(
            f"{name_of(source)} is streamed, but a number is predicted from rows in memory, because its bins need all "
            "of them: write some of the rows into a CSV file, or group the number into classes."
        )
    if target is None:
        table = ArrowTable(source, drop)
        columns = ", ".join(list(table.column_types)[:20])
        raise ValueError(f"Which column of {table.name} is the label? Name it with --target: {columns}.")
    share = USUAL_SHARE if test_share is None else test_share
    rows, left_out, remarks = _rows(source, target, drop, missing=missing, test_share=share, seed=seed)
    if test_share and not rows.n_test:
        raise ValueError(
            f"No rows would be held out to measure on: {share:g} of {rows.labels.n_labelled:,} rows is too few. Choose "
            "another --test-share; 0 trains on all rows, and measures on none."
        )
    assert rows.query_set is not None
    X_test, y_test = rows.test_rows(MAX_MEASURED)
    notes = {
        "file": rows.table.name,
        "fingerprint": rows.table.fingerprint(),
        "target": target,
        "missing": list(missing),
        "n_rows": rows.labels.n_labelled,
        "n_rows_without_label": rows.n_rows_without_label,
        "unasked_columns": [*drop, *left_out, *rows.silent_columns],
        "remarks": [*remarks, *_remarks(rows)],
        "test_share": share,
        "n_test": rows.n_test,
        "seed": seed,
    }
    return Task(name_of(source), rows.query_set, rows, None, X_test, y_test, notes=notes)


def _rows(
    source: str | Path, target: str, drop: Sequence[str], **options: Any
) -> tuple[ParquetRows, list[str], list[str]]:
    """The rows without columns that cannot be asked for, the names of these, and remarks on them."""
    left_out = _numbering_columns(ArrowTable(source, drop), target)
    remarks = [f"Not asked for: {listed(left_out)} (numbers the rows)."] if left_out else []
    while True:  # at most twice, because dates are found before texts
        try:
            rows = ParquetRows(source, target, drop=[*drop, *left_out], **options)
        except NotAQuestion as error:
            left_out += error.columns
            remarks.append(f"Warning: not asked for. {in_options(str(error))}")
            continue
        if rows.silent_columns:
            remarks.append(f"Not asked for: {listed(rows.silent_columns)} (empty, or the same in every row).")
        assert rows.query_set is not None
        queries = rows.query_set.queries
        if ticked := [one.name for one in queries if isinstance(one, Choice) and one.empty_means is not None]:
            remarks.append(on_ticked(ticked))
        return rows, left_out, remarks


def unseen_rows(
    source: str | Path,
    columns: Sequence[str],
    trained: Mapping[str, Any],
    target: str | None = None,
    missing: Sequence[str] = (),
    **for_csv: Any,
) -> tuple[pd.DataFrame, np.ndarray | None, str]:
    """At most 20,000 rows that a model was not trained on, their labels if there are any, and a remark for the user.

    `columns` are the model's queries, and `trained` the notes of the task it was trained on: if those were these
    files, the rows are spread over those held out then; otherwise they are the first.
    """
    refuse(for_csv)
    wanted = target or trained.get("target")
    table = ArrowTable(source, missing=missing or trained.get("missing", ()), only=[*columns, *filter(None, [wanted])])
    label = table.check_column(target) if target else wanted if wanted in table.column_types else None
    absent = [column for column in columns if column not in table.column_types]
    if absent:
        raise ValueError(
            f"{table.name} lacks columns the model asks for: {', '.join(absent[:10])}. Add them; unknown answers may "
            "stay empty."
        )
    if label is not None and label == trained.get("target") and table.fingerprint() == trained.get("fingerprint"):
        if n_held_out := trained["n_test"]:
            share, seed = trained["test_share"], trained["seed"]
            X, labels = held_out_rows(table, columns, label, share, seed, n_held_out, MAX_MEASURED)
            remark = f"The model was trained on {table.name}: {len(X):,} of the {n_held_out:,} held-out rows are used."
            return X, labels_as_array(labels), remark
        remark = f"Warning: the model was trained on all rows of {table.name}: its accuracy on them says little."
    else:
        remark = f"{table.name} has {table.n_rows:,} rows: the first {MAX_MEASURED:,} are used."
        remark = remark if table.n_rows > MAX_MEASURED else ""
    X, labels = first_rows(table, columns, label, MAX_MEASURED)
    return X, None if label is None else labels_as_array(labels), remark


def _numbering_columns(table: ArrowTable, target: str) -> list[str]:
    """Columns that only count the rows, judged by the first rows; none if there are no others."""
    names = [name for name in table.column_types if name != target]
    whole = [name for name in names if table.column_types[name] == "whole numbers"]
    if not whole:
        return []
    _, beginning = next(table.read(table.pieces[0], whole, whole, chunk_rows=1000))
    steps = beginning.to_pandas().diff().iloc[1:]
    counting = [name for name in whole if len(steps) > 1 and (steps[name] == 1).all()]
    return counting if len(counting) < len(names) else []


def _remarks(rows: ParquetRows) -> list[str]:
    """What a person should know of the labels and of the rows held out."""
    remarks = remarks_on_counts(rows.labels.classes, rows.labels.counts)
    if rows.test_share > 0 and not rows.n_test:
        remarks.append(
            f"Warning: no rows are held out to measure on: {rows.test_share:g} of {rows.labels.n_labelled:,} rows are "
            "too few."
        )
    return remarks


def refuse(for_csv: Mapping[str, Any]) -> None:
    """Raise ValueError for options that Parquet and Arrow files do not have."""
    reasons = {
        "encoding": "which is always UTF-8 here",
        "decimal": "because numbers are stored as such here",
        "kinds": "because columns have their types here",
        "missing_informs": "because rows are streamed, and missing values are not counted",
        "group": "because rows are streamed and held out one by one: write some groups into a file of their own",
        "time": "because rows are streamed and held out at random: write the latest rows into a file of their own",
    }
    for name, value in for_csv.items():
        if value:
            option = {"kinds": "kind"}.get(name, name.replace("_", "-"))
            raise ValueError(f"--{option} is for CSV files, not for Parquet and Arrow files, {reasons[name]}.")
